/* Edges between any two stages: what they connect, and their steps. */
#include "config.h"

#include "plan/boxing.h"

/* ---- the step that crosses ---- */

static bool any_partial(const ir_nd_sbp *sbp, int32_t n_axes)
{
    for (int32_t a = 0; a < n_axes; a++)
        if (ir_sbp_is_partial(sbp->at[a]))
            return true;
    return false;
}

static bool any_halo(const ir_nd_sbp *sbp, int32_t n_axes)
{
    for (int32_t a = 0; a < n_axes; a++)
        if (ir_sbp_has_halo(sbp->at[a]))
            return true;
    return false;
}

/* One fold has one reduction. */
static bool one_reduction(const ir_nd_sbp *sbp, int32_t n_axes)
{
    ir_sbp_kind kind = IR_B;

    for (int32_t a = 0; a < n_axes; a++) {
        if (!ir_sbp_is_partial(sbp->at[a]))
            continue;
        if (kind != IR_B && kind != (ir_sbp_kind)sbp->at[a].kind)
            return false;
        kind = (ir_sbp_kind)sbp->at[a].kind;
    }
    return true;
}

bool plan_cross_is_straight(const plan_cross *cross)
{
    const ir_mesh *mesh = &cross->from_stage->mesh;

    return plan_same_mesh(mesh, &cross->to_stage->mesh) &&
           ir_nd_sbp_equal(&cross->from, &cross->to, mesh->n);
}

bool plan_cross_is_legal(const plan_cross *cross)
{
    const ir_mesh *from = &cross->from_stage->mesh;
    const ir_mesh *to = &cross->to_stage->mesh;

    if (!ir_nd_sbp_fits(&cross->from, &cross->tensor->shape, from) ||
        !ir_nd_sbp_fits(&cross->to, &cross->tensor->shape, to) ||
        any_halo(&cross->from, from->n))
        return false;
    if (any_partial(&cross->to, to->n))
        return plan_cross_is_straight(cross);
    return one_reduction(&cross->from, from->n);
}

plan_exchange plan_cross_exchange(const plan_cross *cross)
{
    return (plan_exchange){.shape = cross->tensor->shape,
                           .from_mesh = cross->from_stage->mesh,
                           .to_mesh = cross->to_stage->mesh,
                           .from = cross->from,
                           .to = cross->to,
                           .moves = true};
}

/* One contribution is folded while the next arrives. */
int64_t plan_cross_scratch(const plan_cross *cross)
{
    const plan_exchange x = plan_cross_exchange(cross);
    ir_shape piece;

    if (plan_exchange_folds(&x) == IR_B)
        return 0;
    piece = ir_largest_piece(&x.shape, &x.to, &x.to_mesh);
    return 2 * ir_shape_count(&piece) * ir_dtype_bytes(cross->tensor->dtype);
}

/* ---- edges ---- */

plan_ends plan_edge_ends(const ir_graph *graph, const plan_strategy *s,
                         int32_t v, int32_t slot)
{
    const int32_t id = plan_edge_tensor(graph, s, v, slot);

    if (id < 0)
        return (plan_ends){.tensor = NULL};
    const ir_tensor *tensor = &graph->tensors.at[id];
    const ir_op_kind maker = graph->nodes.at[tensor->producer].op;
    return (plan_ends){
        .tensor = tensor,
        .from_stage = &s->stages[s->stage_of[tensor->producer]],
        .to_stage = &s->stages[s->stage_of[v]],
        .from = &s->sig[tensor->producer].out[tensor->slot],
        .to = graph->nodes.at[v].op == IR_OP_variable ? &s->sig[v].out[0]
                                                      : &s->sig[v].in[slot],
        .anywhere = maker == IR_OP_input || maker == IR_OP_constant};
}

bool plan_ends_cross(const plan_ends *ends)
{
    return !ends->anywhere &&
           !plan_same_place(ends->from_stage, ends->to_stage);
}

const plan_stage *plan_path_stage(const plan_ends *ends,
                                  const plan_boxing *path, int32_t k)
{
    const bool left =
        ends->anywhere || (plan_ends_cross(ends) && k > path->cross);

    return left ? ends->to_stage : ends->from_stage;
}

bool plan_path_step_make(const plan_ends *ends, const plan_boxing *path,
                         int32_t k, plan_path_step *out)
{
    *out = (plan_path_step){.stage = plan_path_stage(ends, path, k)};
    out->crosses = plan_ends_cross(ends) && k == path->cross;
    if (!out->crosses)
        return plan_box_step_make(ends->tensor, &out->stage->mesh, &path->at[k],
                                  &path->at[k + 1], &out->box);
    out->cross = (plan_cross){ends->tensor, ends->from_stage, ends->to_stage,
                              path->at[k], path->at[k + 1]};
    return plan_cross_is_legal(&out->cross);
}

/* Made elsewhere than its node says: in whatever pieces. */
static bool is_made_so(const plan_ends *ends, const ir_nd_sbp *sbp)
{
    const ir_mesh *mesh = &ends->to_stage->mesh;

    return ir_nd_sbp_fits(sbp, &ends->tensor->shape, mesh) &&
           ((plan_same_mesh(mesh, &ends->from_stage->mesh) &&
             ir_nd_sbp_equal(sbp, ends->from, mesh->n)) ||
            (!any_partial(sbp, mesh->n) && !any_halo(sbp, mesh->n)));
}

static bool starts_right(const plan_ends *ends, const plan_boxing *path)
{
    if (ends->anywhere && !plan_same_place(ends->from_stage, ends->to_stage))
        return is_made_so(ends, &path->at[0]);
    return ir_nd_sbp_equal(&path->at[0], ends->from, ends->from_stage->mesh.n);
}

const char *plan_path_wrong(const plan_ends *ends, const plan_boxing *path)
{
    const bool crosses = plan_ends_cross(ends);

    if (path->n < 0 || path->n > PLAN_MAX_BOXING)
        return "the boxing path has an impossible length";
    if (crosses && (path->cross < 0 || path->cross >= path->n))
        return "no step of the boxing path crosses to the other stage";
    if (!crosses && path->cross != 0)
        return "a step of the boxing path crosses, but the stages are one";
    if (!starts_right(ends, path))
        return "the boxing path does not start at the producer's SBP";
    if (!ir_nd_sbp_equal(&path->at[path->n], ends->to, ends->to_stage->mesh.n))
        return "the boxing path does not end at the SBP that the signature "
               "expects";
    for (int32_t k = 0; k < path->n; k++) {
        plan_path_step step;
        if (!plan_path_step_make(ends, path, k, &step))
            return step.crosses
                       ? "the step of the boxing path that crosses is no "
                         "exchange of the two meshes"
                       : "a step of the boxing path is not in the boxing table";
    }
    return NULL;
}
