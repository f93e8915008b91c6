#include "config.h"

#include "plan/boxer_parts.h"

#include <math.h>

plan_boxer *plan_boxer_create(plan_boxing_cost cost, fs_arena *arena)
{
    plan_boxer *boxer = fs_new(arena, plan_boxer, 1);

    *boxer = (plan_boxer){
        .cost = cost, .arena = arena, .spaces = boxer_spaces_create(arena)};
    return boxer;
}

/* ---- on one stage ---- */

/* Seconds to a target without halos. */
static double find_plain(plan_boxer *boxer, const boxer_space *space,
                         const ir_nd_sbp *from, const ir_nd_sbp *to,
                         plan_boxing *path)
{
    if (!ir_nd_sbp_fits(to, &space->tensor->shape, &space->stage->mesh))
        return INFINITY;
    const boxer_tree *tree = boxer_tree_of(boxer, space, from, false);
    const int32_t state = boxer_state_of(space, to);
    if (isinf(tree->seconds[state]) || tree->length[state] > PLAN_MAX_BOXING)
        return INFINITY;
    boxer_copy_path(space, tree, state, path);
    return tree->seconds[state];
}

/* Goes on from where `path` ends, which is not `to` only where that has a halo:
 * on the mesh axes that end B if `whole`, else on those that end S. */
static double add_halos(const plan_boxer *boxer, const boxer_space *space,
                        const ir_nd_sbp *to, bool whole, plan_boxing *path)
{
    double seconds = 0;

    for (int32_t a = 0; a < space->n_axes; a++) {
        ir_nd_sbp next = path->at[path->n];
        plan_box_step step;
        if (ir_sbp_equal(next.at[a], to->at[a]) ||
            (next.at[a].kind == IR_B) != whole)
            continue;
        next.at[a] = to->at[a];
        if (path->n == PLAN_MAX_BOXING ||
            !plan_box_step_make(space->tensor, &space->stage->mesh,
                                &path->at[path->n], &next, &step))
            return INFINITY;
        path->at[++path->n] = next;
        seconds += boxer->cost.seconds(boxer->cost.ctx, space->stage, &step);
    }
    return seconds;
}

double boxer_end_halos(const plan_boxer *boxer, const boxer_space *space,
                       const ir_nd_sbp *to, plan_boxing *path)
{
    const double seconds = add_halos(boxer, space, to, true, path);

    return isinf(seconds) ? seconds
                          : seconds + add_halos(boxer, space, to, false, path);
}

ir_nd_sbp boxer_without_halos(const ir_nd_sbp *to, uint32_t whole,
                              int32_t n_axes)
{
    ir_nd_sbp plain = *to;

    for (int32_t a = 0; a < n_axes; a++)
        if (ir_sbp_has_halo(to->at[a]))
            plain.at[a] = whole >> a & 1 ? IR_SBP_B : IR_SBP_S(to->at[a].axis);
    return plain;
}

/* A halo is cut off a whole tensor, or exchanged between pieces: `whole` says
 * by mesh axis which. */
static double find_halos(plan_boxer *boxer, const boxer_space *space,
                         const ir_nd_sbp *from, const ir_nd_sbp *to,
                         uint32_t whole, plan_boxing *path)
{
    const ir_nd_sbp plain = boxer_without_halos(to, whole, space->n_axes);
    const double seconds = find_plain(boxer, space, from, &plain, path);

    return isinf(seconds) ? seconds
                          : seconds + boxer_end_halos(boxer, space, to, path);
}

uint32_t boxer_halo_axes(const ir_nd_sbp *sbp, int32_t n_axes)
{
    uint32_t axes = 0;

    for (int32_t a = 0; a < n_axes; a++)
        axes |= (uint32_t)ir_sbp_has_halo(sbp->at[a]) << a;
    return axes;
}

double plan_boxer_find(plan_boxer *boxer, const ir_tensor *tensor,
                       const plan_stage *stage, const ir_nd_sbp *from,
                       const ir_nd_sbp *to, plan_boxing *path)
{
    const int32_t n_axes = stage->mesh.n;
    const uint32_t halo = boxer_halo_axes(to, n_axes);
    double best = INFINITY;

    if (ir_nd_sbp_equal(from, to, n_axes)) {
        if (path != NULL)
            *path = (plan_boxing){.n = 0, .at = {*from}};
        return 0;
    }
    if (boxer_halo_axes(from, n_axes) ||
        !ir_nd_sbp_fits(from, &tensor->shape, &stage->mesh) ||
        !ir_nd_sbp_fits(to, &tensor->shape, &stage->mesh))
        return INFINITY;
    const boxer_space space = boxer_space_of(boxer, tensor, stage,
                                             boxer_reductions(from, n_axes) |
                                                 boxer_reductions(to, n_axes));
    /* Each set of the axes with a halo, the empty one last. */
    for (uint32_t whole = halo, more = 1; more;
         more = whole, whole = (whole - 1) & halo) {
        plan_boxing way;
        double seconds = find_halos(boxer, &space, from, to, whole, &way);
        if (!(seconds < best))
            continue;
        best = seconds;
        if (path != NULL)
            *path = way;
    }
    return best;
}

/* ---- between any two ends ---- */

/* How an input or constant is best made for this end. */
static ir_nd_sbp made_for(const plan_ends *ends)
{
    const int32_t n_axes = ends->to_stage->mesh.n;
    ir_nd_sbp made = boxer_without_halos(ends->to, ~(uint32_t)0, n_axes);

    if (plan_same_mesh(&ends->from_stage->mesh, &ends->to_stage->mesh))
        return *ends->from;
    for (int32_t a = 0; a < n_axes; a++)
        if (ir_sbp_is_partial(made.at[a]))
            made.at[a] = IR_SBP_B;
    return made;
}

double plan_boxer_join(plan_boxer *boxer, const plan_ends *ends,
                       plan_boxing *path)
{
    plan_boxing found;
    double seconds;

    if (plan_ends_cross(ends)) {
        const boxer_crossing x = boxer_crossing_of(
            boxer, ends,
            boxer_reductions(ends->from, ends->from_stage->mesh.n) |
                boxer_reductions(ends->to, ends->to_stage->mesh.n));
        seconds = boxer_cross(&x, ends->from, ends->to, &found);
    } else {
        const ir_nd_sbp from = ends->anywhere ? made_for(ends) : *ends->from;
        seconds = plan_boxer_find(boxer, ends->tensor, ends->to_stage, &from,
                                  ends->to, &found);
    }
    if (path != NULL && !isinf(seconds))
        *path = found;
    return seconds;
}
