/* Sheets: prices of strategies that few layers stand for are what the formula
 * and memory say of them written out. Drawn: recipes, which search completes,
 * what is computed again, meshes, stages, layers, micro-batches, schedules. */
#include "config.h"
#include "pricing.h"
#include "search_cluster.h"
#include "tap.h"

#include "base/hash.h"

enum { PATTERNS = 30, PRICES = 8 };
#define ROUNDING 1e-12

static fs_arena *arena;
static uint64_t seed;
static cost_pipes *pipes; /* of all families */

static int32_t draw(int32_t n)
{
    return (int32_t)fs_rand_below(&seed, n);
}

static const char *datasets(void)
{
    const char *root = getenv("FS_SRCDIR");
    return fs_printf(arena, "%s/datasets", root ? root : ".");
}

/* A pattern and its sheet. */
typedef struct family {
    pricing_network network;
    int32_t n_stages, axes; /* of the fold; of its meshes */
    bool tensor;            /* the last axis is tp */
    ir_graph *few;
    const plan_strategy *pattern;
    cost_fold *fold;
    cost_sheet *sheet;
} family;

static ir_graph *few_of(pricing_network network, int32_t samples,
                        int32_t n_stages)
{
    network.samples = samples;
    return pricing_graph(&network, PRICING_LAYERS * n_stages);
}

/* A recipe on two ranks of each axis, so that what it cuts is one sample each.
 */
static const char *draw_recipe(family *f)
{
    const bool dp = draw(5) > 0, tp = draw(5) > 0;
    f->axes = dp + tp;
    f->tensor = tp;
    return fs_printf(arena, "dp=%d,tp=%d%s%s", 1 + dp, 1 + tp,
                     dp ? fs_printf(arena, ",zero=%d", draw(4)) : "",
                     tp ? fs_printf(arena, ",seq-parallel=%d", draw(2)) : "");
}

static bool open_family(const cost_model *model, family *f)
{
    static const char *const again[] = {"", "block", "selective", "cheap"};
    fs_err err = {0};
    *f = (family){.network = {"zoo:gpt,hidden=64,heads=8,vocab=200,seq=16",
                              again[draw(4)], 0, 1 << draw(5)},
                  .n_stages = 1 + draw(3)};
    const char *recipe = draw_recipe(f);
    const bool dp = strstr(recipe, "dp=2") != NULL;
    ir_graph *least = few_of(f->network, 1 + dp, f->n_stages);
    f->pattern = pricing_pattern(
        least, f->n_stages, recipe,
        fs_printf(arena, "%dx%d:a100-sxm4-80g", f->n_stages, 1 << f->axes),
        datasets(), arena);
    f->few = few_of(f->network, f->network.samples, f->n_stages);
    const bool made =
        cost_fold_create(
            model, pipes,
            &(cost_folding){f->few, f->n_stages, f->pattern->stage_of}, arena,
            &err, &f->fold) == FS_OK &&
        cost_sheet_create(f->fold, f->pattern, arena, &err, &f->sheet) == FS_OK;
    printf("# %s, recompute '%s', %d samples, %d stages%s%s\n", recipe,
           f->network.recompute, f->network.samples, f->n_stages,
           made ? "" : ": ", err.text);
    ir_graph_destroy(least);
    return made;
}

static cost_degrees draw_degrees(const family *f)
{
    static const char *const schedules[] = {"1f1b", "gpipe", "zb-h1", "zb-h2",
                                            "dynamic"};
    cost_degrees d = {.mesh = {.n = f->axes},
                      .n_stages = f->n_stages < 3 ? f->n_stages : 3 + draw(4),
                      .layers = PRICING_LAYERS + draw(4),
                      .micro_batches = 1 + draw(20),
                      .schedule = schedules[draw(5)]};
    for (int32_t a = 0; a < f->axes; a++)
        d.mesh.dim[a] = 2 << draw(3);
    return d;
}

typedef struct tally {
    int32_t families, prices, refused, bad_seconds, bad_stage, bad_bytes,
        bad_between;
} tally;

static bool near(double a, double b)
{
    return fabs(a - b) <= ROUNDING * fabs(b);
}

/* The fold's stage that is meant. */
static int32_t stage_of(const cost_degrees *d, const cost_price *p, int32_t i)
{
    return i == 0 ? 0 : i == d->n_stages - 1 ? p->n_stages - 1 : 1;
}

static int32_t bad_stages(const cost_degrees *d, const cost_price *p,
                          const cost_summary *s)
{
    int32_t bad = 0;
    for (int32_t i = 0; i < d->n_stages; i++)
        bad += !near(p->micro_s[stage_of(d, p, i)], s->micro_s[i]) ||
               !near(p->step_s[stage_of(d, p, i)], s->step_s[i]);
    return bad;
}

static int64_t most_between(const cost_degrees *d, const cost_summary *s)
{
    int64_t most = 0;
    for (int32_t i = 1; i < d->n_stages - 1; i++)
        most = s->peak_bytes[i] > most ? s->peak_bytes[i] : most;
    return most;
}

static void compare(const cost_degrees *d, const cost_price *p,
                    const cost_summary *s, tally *t)
{
    const int32_t last = p->n_stages - 1;
    const bool seconds = near(p->iteration_s, s->iteration_s),
               ends = p->peak_bytes[0] == s->peak_bytes[0] &&
                      p->peak_bytes[last] == s->peak_bytes[d->n_stages - 1],
               between =
                   p->n_stages < 3 || p->peak_bytes[1] == most_between(d, s);
    const int32_t stages = bad_stages(d, p, s);
    t->bad_seconds += !seconds;
    t->bad_stage += stages > 0;
    t->bad_bytes += !ends;
    t->bad_between += !between;
    t->prices++;
    if (seconds && ends && between && stages == 0)
        return;
    printf("# %d stages of %d layers, mesh (%d, %d), %d micro-batches, %s: "
           "%.17g s, wanted %.17g; %lld %lld %lld bytes, wanted %lld %lld "
           "%lld\n",
           d->n_stages, d->layers, d->mesh.dim[0], d->mesh.dim[1],
           d->micro_batches, d->schedule, p->iteration_s, s->iteration_s,
           (long long)p->peak_bytes[0], (long long)p->peak_bytes[1],
           (long long)p->peak_bytes[last], (long long)s->peak_bytes[0],
           (long long)most_between(d, s),
           (long long)s->peak_bytes[d->n_stages - 1]);
}

static void price(const cost_model *model, const family *f, tally *t)
{
    const cost_degrees d = draw_degrees(f);
    cost_price p;
    cost_summary s;
    fs_err err = {0};
    if (cost_sheet_price(f->sheet, &d, &err, &p) != FS_OK) {
        t->refused++;
        return;
    }
    fs_arena *scratch = fs_arena_create();
    ir_graph *whole = pricing_graph(&f->network, d.n_stages * d.layers);
    const plan_strategy *out =
        pricing_whole(f->few, f->pattern, whole, &d, scratch);
    if (cost_strategy(model, whole, out, scratch, &err, &s) == FS_OK)
        compare(&d, &p, &s, t);
    ir_graph_destroy(whole);
    fs_arena_destroy(scratch);
}

/* The same pattern on another number of samples, whose sheet takes over what
 * the first has found. */
static void price_like(const cost_model *model, const family *f, tally *t)
{
    family g = *f;
    fs_err err = {0};
    g.network.samples = 1 + draw(24);
    g.few = few_of(g.network, g.network.samples, g.n_stages);
    if (cost_fold_like(f->fold, g.few, arena, &err, &g.fold) == FS_OK &&
        cost_sheet_create(g.fold, g.pattern, arena, &err, &g.sheet) == FS_OK)
        for (int32_t i = 0; i < PRICES / 2; i++)
            price(model, &g, t);
    else
        printf("# %d samples: %s\n", g.network.samples, err.text);
    ir_graph_destroy(g.few);
}

static void test_drawn(const cost_model *model)
{
    tally t = {0}, like = {0};
    for (int32_t k = 0; k < PATTERNS; k++) {
        family f;
        if (!open_family(model, &f))
            continue;
        t.families++;
        for (int32_t i = 0; i < PRICES; i++)
            price(model, &f, &t);
        price_like(model, &f, &like);
        price_like(model, &f, &like);
        ir_graph_destroy(f.few);
    }
    printf("# %d prices of %d families, %d refused\n", t.prices, t.families,
           t.refused);
    tap_equal_int(t.families, PATTERNS, "each pattern has a sheet");
    tap_ok(t.prices > PATTERNS * PRICES / 3, "most degrees have a price");
    tap_equal_int(t.bad_seconds, 0,
                  "an iteration takes what cost_strategy says");
    tap_equal_int(t.bad_stage, 0,
                  "so does each stage, per micro-batch and step");
    tap_equal_int(t.bad_bytes, 0,
                  "the first stage and the last hold what they do written out");
    tap_equal_int(t.bad_between, 0, "so does the fullest of those between");
    printf("# %d prices with other samples, %d refused\n", like.prices,
           like.refused);
    tap_ok(like.prices > PATTERNS * PRICES / 4, "other samples have a price");
    tap_equal_int(like.bad_seconds + like.bad_stage, 0,
                  "which takes what cost_strategy says");
    tap_equal_int(like.bad_bytes + like.bad_between, 0,
                  "and holds what it holds written out");
}

static const char *why(cost_sheet *sheet, const cost_degrees *d)
{
    static fs_err err;
    cost_price p;
    err = (fs_err){0};
    return cost_sheet_price(sheet, d, &err, &p) == FS_OK ? "" : err.text;
}

static void test_refusals(const cost_model *model)
{
    const pricing_network n = {"zoo:gpt,hidden=64,heads=8,vocab=200,seq=16", "",
                               0, 2};
    ir_graph *few = pricing_graph(&n, 9);
    const plan_strategy *s = pricing_pattern(
        few, 3, "dp=2,tp=2", "3x4:a100-sxm4-80g", datasets(), arena);
    const cost_folding of = {few, 3, s->stage_of};
    cost_fold *fold;
    cost_sheet *sheet;
    fs_err err = {0};
    FS_ASSERT(cost_fold_create(model, pipes, &of, arena, &err, &fold) ==
                  FS_OK &&
              cost_sheet_create(fold, s, arena, &err, &sheet) == FS_OK);
    const cost_degrees good = {{2, {2, 4}}, 4, 3, 8, "1f1b"};
    tap_equal_text(why(sheet, &good), "", "whole nodes have a price");
    cost_degrees d = good;
    d.schedule = "interleaved";
    tap_equal_text(why(sheet, &d),
                   "the schedule interleaved gives devices several stages",
                   "stages that share devices have none");
    d = good;
    d.mesh = (ir_mesh){2, {4, 2}};
    tap_equal_text(why(sheet, &d),
                   "what is to be cut is shorter than the mesh is long",
                   "nor has a mesh that is longer than what it cuts");
    d = good;
    d.mesh = (ir_mesh){1, {8}};
    tap_equal_text(why(sheet, &d), "a mesh of 1 axes: the sheet's has 2",
                   "nor one of other axes");
    d = good;
    d.mesh = (ir_mesh){2, {2, 2}};
    tap_equal_text(why(sheet, &d),
                   "stages lie differently in the cluster's nodes",
                   "nor stages of which some share a node and some do not");
    d = good;
    d.n_stages = 99;
    tap_equal_text(why(sheet, &d), "there are 64 devices",
                   "nor more than there are");
    d = good;
    d.layers = 2;
    tap_equal_text(why(sheet, &d),
                   "2 layers, 8 micro-batches: want 3 layers or more, and one "
                   "micro-batch",
                   "nor fewer layers than the fold's stages have");
    const cost_model *crowded =
        cost_model_create(open_cluster("1x16:cpu", arena), arena);
    const bool shares = cost_model_for(crowded, 2, 1, arena) != crowded;
    tap_ok(!shares || cost_fold_create(crowded, pipes, &of, arena, &err,
                                       &fold) == FS_INVALID,
           "nor have devices that share cores");
    ir_graph_destroy(few);
}

int main(void)
{
    const char *given = getenv("FS_SEED");
    arena = fs_arena_create();
    seed = given ? strtoull(given, NULL, 10) : 20251127;
    printf("# FS_SEED=%llu\n", (unsigned long long)seed);
    pipes = cost_pipes_create(arena);
    const cost_model *model =
        cost_model_create(open_cluster("8x8:a100-sxm4-80g", arena), arena);
    test_drawn(model);
    test_refusals(model);
    fs_arena_destroy(arena);
    return tap_done();
}
