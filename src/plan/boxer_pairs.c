/* Seconds of many pairs of SBPs at once: what pairs have in common (the space,
 * the tree of one SBP, the ways in which another is reached) is looked up
 * once. */
#include "config.h"

#include "plan/boxer_parts.h"

#include <math.h>

/* A way to end at an SBP: from a state without halos, by more steps. */
typedef struct ending {
    int32_t state, steps;
    double seconds;
} ending;

typedef struct target {
    int32_t n;
    ending at[1 << IR_MAX_MESH];
} target;

typedef struct pair_table {
    plan_boxer *boxer;
    const plan_pairs *pairs;
    uint32_t *from_reductions, *to_reductions;
    fs_arena *scratch;
    double *seconds;
} pair_table;

static target target_of(const pair_table *t, const boxer_space *space,
                        const ir_nd_sbp *to)
{
    const ir_shape *shape = &space->tensor->shape;
    const ir_mesh *mesh = &space->stage->mesh;
    const uint32_t halo = boxer_halo_axes(to, mesh->n);
    target out = {0};

    if (!ir_nd_sbp_fits(to, shape, mesh))
        return out;
    for (uint32_t whole = halo, more = 1; more;
         more = whole, whole = (whole - 1) & halo) {
        const ir_nd_sbp plain = boxer_without_halos(to, whole, mesh->n);
        plan_boxing path = {.at = {plain}};
        if (!ir_nd_sbp_fits(&plain, shape, mesh))
            continue;
        const double seconds =
            halo ? boxer_end_halos(t->boxer, space, to, &path) : 0;
        if (!isinf(seconds))
            out.at[out.n++] =
                (ending){boxer_state_of(space, &plain), path.n, seconds};
    }
    return out;
}

static double seconds_to(const boxer_tree *tree, const target *to)
{
    double best = INFINITY;

    for (int32_t k = 0; k < to->n; k++) {
        const ending *end = &to->at[k];
        const double seconds = tree->seconds[end->state] + end->seconds;
        if (seconds < best &&
            tree->length[end->state] + end->steps <= PLAN_MAX_BOXING)
            best = seconds;
    }
    return best;
}

static void fill_row(const pair_table *t, const boxer_space *space,
                     const target *targets, int32_t f)
{
    const plan_pairs *pairs = t->pairs;
    const ir_nd_sbp *from = pairs->from[f];
    const ir_mesh *mesh = &space->stage->mesh;
    const bool leads = !boxer_halo_axes(from, mesh->n) &&
                       ir_nd_sbp_fits(from, &space->tensor->shape, mesh);
    const boxer_tree *tree =
        leads ? boxer_tree_of(t->boxer, space, from, false) : NULL;

    for (int32_t k = 0; k < pairs->n_to; k++) {
        double *out = &t->seconds[f * pairs->n_to + k];
        if ((t->from_reductions[f] | t->to_reductions[k]) != space->reductions)
            continue;
        if (ir_nd_sbp_equal(from, pairs->to[k], mesh->n))
            *out = 0;
        else
            *out = tree ? seconds_to(tree, &targets[k]) : INFINITY;
    }
}

/* Pairs that have just these reductions, on one stage. */
static void fill_on_stage(const pair_table *t, uint32_t reductions)
{
    const plan_pairs *pairs = t->pairs;
    const boxer_space space = boxer_space_of(t->boxer, pairs->ends.tensor,
                                             pairs->ends.to_stage, reductions);
    target *targets = fs_new(t->scratch, target, pairs->n_to);

    for (int32_t k = 0; k < pairs->n_to; k++)
        if ((t->to_reductions[k] & ~reductions) == 0)
            targets[k] = target_of(t, &space, pairs->to[k]);
    for (int32_t f = 0; f < pairs->n_from; f++)
        if ((t->from_reductions[f] & ~reductions) == 0)
            fill_row(t, &space, targets, f);
}

/* Seconds of one pair from one stage to another. */
typedef double cross_fn(const boxer_crossing *x, const ir_nd_sbp *from,
                        const ir_nd_sbp *to);

static double cross_by_path(const boxer_crossing *x, const ir_nd_sbp *from,
                            const ir_nd_sbp *to)
{
    return boxer_cross(x, from, to, NULL);
}

static void fill_with(const pair_table *t, uint32_t reductions, cross_fn *cross)
{
    const plan_pairs *pairs = t->pairs;
    const boxer_crossing x =
        boxer_crossing_of(t->boxer, &pairs->ends, reductions);

    for (int32_t f = 0; f < pairs->n_from; f++)
        for (int32_t k = 0; k < pairs->n_to; k++)
            if ((t->from_reductions[f] | t->to_reductions[k]) == reductions)
                t->seconds[f * pairs->n_to + k] =
                    cross(&x, pairs->from[f], pairs->to[k]);
}

static void fill_across(const pair_table *t, uint32_t reductions)
{
    fill_with(t, reductions, cross_by_path);
}

/* At least so much. */
static void fill_across_least(const pair_table *t, uint32_t reductions)
{
    fill_with(t, reductions, boxer_cross_least);
}

static double cross_not(const boxer_crossing *x, const ir_nd_sbp *from,
                        const ir_nd_sbp *to)
{
    return boxer_halo_axes(to, x->to.n_axes) ? boxer_cross_least(x, from, to)
                                             : INFINITY;
}

/* The same, where it may be less than boxing. */
static void fill_across_less(const pair_table *t, uint32_t reductions)
{
    const boxer_crossing x =
        boxer_crossing_of(t->boxer, &t->pairs->ends, reductions);

    fill_with(t, reductions,
              boxer_cross_pays(&x) ? boxer_cross_least : cross_not);
}

static uint32_t *reductions_of(const pair_table *t, const plan_stage *stage,
                               int32_t n, const ir_nd_sbp *const *sbp)
{
    uint32_t *each = fs_new(t->scratch, uint32_t, n);

    for (int32_t k = 0; k < n; k++)
        each[k] = boxer_reductions(sbp[k], stage->mesh.n);
    return each;
}

typedef void fill_fn(const pair_table *t, uint32_t reductions);

static void join_by_reductions(plan_boxer *boxer, const plan_pairs *pairs,
                               fill_fn *fill, double *seconds)
{
    const uint32_t sums = 1u << IR_PSUM;
    uint32_t others = 0;
    pair_table t = {.boxer = boxer,
                    .pairs = pairs,
                    .scratch = fs_arena_create(),
                    .seconds = seconds};

    t.from_reductions =
        reductions_of(&t, pairs->ends.from_stage, pairs->n_from, pairs->from);
    t.to_reductions =
        reductions_of(&t, pairs->ends.to_stage, pairs->n_to, pairs->to);
    for (int32_t f = 0; f < pairs->n_from; f++)
        others |= t.from_reductions[f] & ~sums;
    for (int32_t k = 0; k < pairs->n_to; k++)
        others |= t.to_reductions[k] & ~sums;
    for (uint32_t some = others, more = 1; more;
         more = some, some = (some - 1) & others)
        fill(&t, sums | some);
    fs_arena_destroy(t.scratch);
}

/* Inputs and constants, made for each. */
static void join_each(plan_boxer *boxer, const plan_pairs *pairs,
                      double *seconds)
{
    plan_ends ends = pairs->ends;

    for (int32_t f = 0; f < pairs->n_from; f++)
        for (int32_t k = 0; k < pairs->n_to; k++) {
            ends.from = pairs->from[f];
            ends.to = pairs->to[k];
            seconds[f * pairs->n_to + k] = plan_boxer_join(boxer, &ends, NULL);
        }
}

void plan_boxer_join_all(plan_boxer *boxer, const plan_pairs *pairs,
                         double *seconds)
{
    const plan_ends *ends = &pairs->ends;
    const bool one_mesh =
        plan_same_mesh(&ends->from_stage->mesh, &ends->to_stage->mesh);

    if (plan_ends_cross(ends))
        join_by_reductions(boxer, pairs, fill_across, seconds);
    else if (ends->anywhere && !one_mesh)
        join_each(boxer, pairs, seconds);
    else
        join_by_reductions(boxer, pairs, fill_on_stage, seconds);
}

void plan_boxer_join_less(plan_boxer *boxer, const plan_pairs *pairs,
                          double *seconds)
{
    join_by_reductions(boxer, pairs, fill_across_less, seconds);
}

/* By all that an end has anywhere: states of more reductions are more. */
double plan_boxer_dearer(plan_boxer *boxer, const plan_pairs *pairs)
{
    uint32_t reductions = 1u << IR_PSUM;
    for (int32_t f = 0; f < pairs->n_from; f++)
        reductions |=
            boxer_reductions(pairs->from[f], pairs->ends.from_stage->mesh.n);
    for (int32_t k = 0; k < pairs->n_to; k++)
        reductions |=
            boxer_reductions(pairs->to[k], pairs->ends.to_stage->mesh.n);
    const boxer_crossing x = boxer_crossing_of(boxer, &pairs->ends, reductions);
    return boxer_cross_dearer(&x);
}

void plan_boxer_join_least(plan_boxer *boxer, const plan_pairs *pairs,
                           double *seconds)
{
    if (plan_ends_cross(&pairs->ends))
        join_by_reductions(boxer, pairs, fill_across_least, seconds);
    else
        plan_boxer_join_all(boxer, pairs, seconds);
}
