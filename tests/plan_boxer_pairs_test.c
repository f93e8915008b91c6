/* Seconds of pairs in one go against those of each pair: random SBPs, with
 * halos and all reductions, on one stage and between two. */
#include "config.h"

#include "plan/boxer.h"

#include "base/hash.h"

#include "tap.h"

enum { ROUNDS = 400, MOST = 12 };

/* No two steps that differ in bytes or axes cost the same. */
static double toy_seconds(void *ctx, const plan_stage *stage,
                          const plan_box_step *step)
{
    (void)ctx;
    return 1e-6 * (1 + step->axes + stage->mesh.n) +
           1e-9 * (double)(step->bytes_in + 3 * step->bytes_out);
}

static double toy_crossing(void *ctx, const plan_cross *cross)
{
    const ir_shape piece = ir_largest_piece(&cross->tensor->shape, &cross->to,
                                            &cross->to_stage->mesh);
    (void)ctx;
    return 1e-5 + 4e-9 * (double)ir_shape_count(&piece);
}

static double toy_crossing_least(void *ctx, const plan_cross *cross)
{
    return 0.9 * toy_crossing(ctx, cross);
}

static const plan_boxing_cost toys = {.seconds = toy_seconds,
                                      .crossing = toy_crossing,
                                      .crossing_least = toy_crossing_least};

static ir_sbp draw_sbp(uint64_t *rng, int32_t rank, bool halo)
{
    static const ir_sbp whole[] = {{.kind = IR_B},
                                   {.kind = IR_PSUM},
                                   {.kind = IR_PMAX},
                                   {.kind = IR_PMIN}};
    const int64_t k = fs_rand_below(rng, 4 + 2 * rank);

    if (k < 4)
        return whole[k];
    ir_sbp cut = IR_SBP_S((k - 4) / 2);
    cut.before = halo && k % 2 ? (uint8_t)fs_rand_below(rng, 3) : 0;
    cut.after = halo && k % 2 ? (uint8_t)fs_rand_below(rng, 3) : 0;
    return cut;
}

static int32_t draw_list(uint64_t *rng, const plan_ends *ends,
                         const plan_stage *stage, ir_nd_sbp *at)
{
    const int32_t n = 1 + (int32_t)fs_rand_below(rng, MOST);

    for (int32_t k = 0; k < n; k++) {
        const bool halo = fs_rand_below(rng, 2);
        at[k] = (ir_nd_sbp){0};
        for (int32_t a = 0; a < stage->mesh.n; a++)
            at[k].at[a] = draw_sbp(rng, ends->tensor->shape.rank, halo);
    }
    return n;
}

static plan_stage draw_stage(uint64_t *rng, int32_t first)
{
    plan_stage stage = {.first_device = first};

    stage.mesh.n = 1 + (int32_t)fs_rand_below(rng, 2);
    for (int32_t a = 0; a < stage.mesh.n; a++)
        stage.mesh.dim[a] = 2 + (int32_t)fs_rand_below(rng, 2);
    return stage;
}

typedef struct tally {
    int32_t wrong, reached;
    int32_t above, low; /* of least seconds; below half of what it is */
} tally;

static void compare(uint64_t *rng, plan_boxer *boxer, const plan_ends *ends,
                    tally *n)
{
    ir_nd_sbp from[MOST], to[MOST];
    const ir_nd_sbp *from_at[MOST], *to_at[MOST];
    double seconds[MOST * MOST], least[MOST * MOST];
    plan_pairs pairs = {*ends, draw_list(rng, ends, ends->from_stage, from),
                        draw_list(rng, ends, ends->to_stage, to), from_at,
                        to_at};

    for (int32_t k = 0; k < MOST; k++) {
        from_at[k] = &from[k];
        to_at[k] = &to[k];
    }
    plan_boxer_join_least(boxer, &pairs, least);
    plan_boxer_join_all(boxer, &pairs, seconds);
    for (int32_t f = 0; f < pairs.n_from; f++)
        for (int32_t t = 0; t < pairs.n_to; t++) {
            const double got = seconds[f * pairs.n_to + t];
            plan_ends one = *ends;
            one.from = &from[f];
            one.to = &to[t];
            const double wanted = plan_boxer_join(boxer, &one, NULL);
            const double at_least = least[f * pairs.n_to + t];
            n->wrong += isinf(wanted) ? !isinf(got) : got != wanted;
            n->above += at_least > wanted * (1 + 1e-12);
            n->low += isfinite(wanted) && at_least < 0.5 * wanted;
            n->reached += !isinf(wanted);
        }
}

int main(void)
{
    uint64_t seed = tap_seed(511), rng = seed;
    fs_arena *arena = fs_arena_create();
    plan_boxer *boxer = plan_boxer_create(toys, arena);
    tally n = {0};

    for (int32_t k = 0; k < ROUNDS; k++) {
        ir_tensor t = {.name = "x", .dtype = IR_F32};
        t.shape.rank = 1 + (int32_t)fs_rand_below(&rng, 3);
        for (int32_t d = 0; d < t.shape.rank; d++)
            t.shape.dim[d] = 1 + fs_rand_below(&rng, 40);
        const plan_stage here = draw_stage(&rng, 0);
        const bool same = fs_rand_below(&rng, 2);
        const plan_stage there = same ? here : draw_stage(&rng, 16);
        const plan_ends ends = {.tensor = &t,
                                .from_stage = &here,
                                .to_stage = &there,
                                .anywhere = fs_rand_below(&rng, 4) == 0};
        compare(&rng, boxer, &ends, &n);
    }
    tap_equal_int(n.wrong, 0,
                  "pairs in one go cost what each costs, to the bit");
    tap_ok(n.reached > 20 * ROUNDS, "most are reached (%d)", (int)n.reached);
    tap_equal_int(n.above, 0, "none costs less than its bound");
    tap_ok(10 * n.low < 3 * n.reached, "few bounds say little (%d)",
           (int)n.low);
    fs_arena_destroy(arena);
    return tap_done();
}
