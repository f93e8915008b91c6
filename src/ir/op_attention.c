/* attention and its gradients: scores, mask, softmax and values in one pass
 * that keeps two numbers per row instead of the scores (Rabe and Staats 2021,
 * arXiv 2112.05682; Dao et al. 2022, arXiv 2205.14135). Rows are independent:
 * samples, heads and queries are cut; keys are not, as their softmax is one.
 * The gradient of an added mask is an op of its own, which works out the
 * scores once more: few networks train one, and pruning drops it elsewhere. */
#include "config.h"
#include "ir/op_util.h"

#include <string.h>

/* Where q, k, v, mask and lengths stand among the inputs; -1: not there. */
typedef struct attention_at {
    int32_t q, k, v, mask, lengths;
} attention_at;

static attention_at inputs_of(const ir_node *node)
{
    const int32_t q = node->op == IR_OP_attention ? 0 : 3;
    attention_at at = {q, q + 1, q + 2, q + 3, node->n_in - 1};
    if (!node->i[4])
        at.lengths = -1;
    if (node->n_in <= at.mask || at.mask == at.lengths)
        at.mask = -1;
    return at;
}

/* The axes of k that hold keys and what is contracted. */
static int32_t key_axis(const ir_node *node)
{
    return node->i[3] ? 3 : 2;
}

/* Hides (bool) or is added (as q). */
static fs_status check_mask(const ir_node *node, const ir_io *io, fs_err *err)
{
    char text[160], space[160];
    const attention_at at = inputs_of(node);
    if (at.mask < 0)
        return FS_OK;
    const ir_shape *mask = &io->in[at.mask];
    const ir_dtype type = io->in_dtype[at.mask];
    ir_shape whole = io->in[at.q];
    whole.dim[3] = io->in[at.k].dim[key_axis(node)];
    bool fits =
        mask->rank <= 4 && (type == IR_BOOL || type == io->in_dtype[at.q]);
    for (int32_t i = 1; fits && i <= mask->rank; i++)
        fits = mask->dim[mask->rank - i] == 1 ||
               mask->dim[mask->rank - i] == whole.dim[4 - i];
    if (fits)
        return FS_OK;
    return fs_fail(err, FS_INVALID,
                   "a mask of shape %s and type %s for scores of shape %s",
                   ir_shape_text(text, mask), ir_dtype_name(type),
                   ir_shape_text(space, &whole));
}

/* One length per sample. */
static fs_status check_lengths(const ir_node *node, const ir_io *io,
                               fs_err *err)
{
    const attention_at at = inputs_of(node);
    if (!node->i[4])
        return FS_OK;
    if (at.lengths <= at.v)
        return fs_fail(err, FS_INVALID, "no lengths of keys are given");
    const ir_shape wanted = {1, {io->in[at.q].dim[0]}};
    FS_TRY(ir_io_need_int(io, at.lengths, err));
    return ir_io_need_shape(io, at.lengths, &wanted, err);
}

static fs_status check_count(const ir_node *node, fs_err *err)
{
    const attention_at at = inputs_of(node);
    const int32_t most = at.v + 1 + (node->i[4] ? 2 : 1);
    if (node->n_in <= most)
        return FS_OK;
    return fs_fail(err, FS_INVALID, "%d inputs, at most %d have a meaning",
                   node->n_in, most);
}

/* A piece may hold fewer heads of q than its heads of k and v serve. */
static fs_status check_operands(const ir_node *node, const ir_io *io,
                                fs_err *err)
{
    char q[160], k[160], v[160];
    const attention_at at = inputs_of(node);
    FS_TRY(check_count(node, err));
    for (int32_t i = at.q; i <= at.v; i++) {
        FS_TRY(ir_io_need_float(io, i, err));
        FS_TRY(ir_io_need_dtype(io, i, err));
        FS_TRY(ir_io_need_rank(io, i, 4, 4, err));
    }
    FS_TRY(ir_attr_check(node, 1, 1, 1, err));
    FS_TRY(ir_attr_check(node, 5, 1, 0, err));
    FS_TRY(check_lengths(node, io, err));
    const ir_shape *a = &io->in[at.q], *b = &io->in[at.k], *c = &io->in[at.v];
    const int32_t keys = key_axis(node);
    if (a->dim[0] == b->dim[0] && a->dim[0] == c->dim[0] &&
        b->dim[1] == c->dim[1] && (a->dim[1] - 1) / node->i[1] < b->dim[1] &&
        a->dim[3] == b->dim[5 - keys] && b->dim[keys] == c->dim[2])
        return check_mask(node, io, err);
    return fs_fail(
        err, FS_INVALID, "q, k and v of shapes %s, %s and %s do not fit",
        ir_shape_text(q, a), ir_shape_text(k, b), ir_shape_text(v, c));
}

static fs_status infer_attention(const ir_node *node, ir_io *io, fs_err *err)
{
    FS_TRY(check_operands(node, io, err));
    ir_io_copy(io, 0, 0);
    ir_io_copy(io, 0, 1);
    io->out[0].dim[3] = io->in[2].dim[3];
    io->out[1].dim[3] = 2;
    io->out_dtype[1] = ir_dtype_widened(io->in_dtype[0]); /* exp magnifies */
    return FS_OK;
}

/* What both gradients read: dy, y and the rows before the operands. */
static fs_status check_back(const ir_node *node, const ir_io *io, fs_err *err)
{
    FS_TRY(check_operands(node, io, err));
    ir_shape y = io->in[3], rows = io->in[3];
    y.dim[3] = io->in[5].dim[3];
    rows.dim[3] = 2;
    FS_TRY(ir_io_need_shape(io, 0, &y, err));
    FS_TRY(ir_io_need_alike(io, 1, err));
    return ir_io_need_shape(io, 2, &rows, err);
}

static fs_status infer_attention_grad(const ir_node *node, ir_io *io,
                                      fs_err *err)
{
    FS_TRY(check_back(node, io, err));
    for (int32_t k = 0; k < 3; k++)
        ir_io_copy(io, 3 + k, k);
    return FS_OK;
}

static fs_status infer_attention_bias_grad(const ir_node *node, ir_io *io,
                                           fs_err *err)
{
    const int32_t mask = inputs_of(node).mask;
    FS_TRY(check_back(node, io, err));
    if (mask < 0 || io->in_dtype[mask] == IR_BOOL)
        return fs_fail(err, FS_INVALID, "it has no mask that is added");
    ir_io_copy(io, mask, 0);
    return FS_OK;
}

/* The axis of the mask that lies along `axis` of the scores, -1 where it is
 * stretched. */
static int32_t mask_axis(const ir_node *node, const ir_io *io, int32_t axis)
{
    const int32_t at = inputs_of(node).mask;
    if (at < 0)
        return -1;
    const int32_t own = axis - (4 - io->in[at].rank);
    return own >= 0 && io->in[at].dim[own] > 1 ? own : -1;
}

/* Outputs of a node whose rows are cut along `axis`; `whole`: k and v are
 * not. */
static void cut_outputs(const ir_node *node, const ir_io *io, int32_t axis,
                        bool whole, ir_sig *sig)
{
    const int32_t own = mask_axis(node, io, axis);
    sig->out[0] = IR_SBP_S(axis);
    if (node->op == IR_OP_attention)
        sig->out[1] = IR_SBP_S(axis);
    else if (node->op == IR_OP_attention_grad)
        sig->out[1] = sig->out[2] = whole ? IR_SBP_P : IR_SBP_S(axis);
    else
        sig->out[0] = own < 0 ? IR_SBP_P : IR_SBP_S(own);
}

/* Rows along `axis` are cut in q, y and what has their shape; k and v too
 * unless the queries are cut, or the heads while k and v keep theirs. */
static void add_rows(const ir_node *node, const ir_io *io, fs_arena *arena,
                     ir_sig_list *out, const int32_t axis, bool whole)
{
    const attention_at at = inputs_of(node);
    const int32_t own = mask_axis(node, io, axis);
    ir_sig *sig = ir_sig_add(arena, out);
    for (int32_t i = 0; i <= at.q; i++)
        sig->in[i] = IR_SBP_S(axis);
    if (!whole)
        sig->in[at.k] = sig->in[at.v] = IR_SBP_S(axis);
    if (own >= 0)
        sig->in[at.mask] = IR_SBP_S(own);
    if (at.lengths >= 0 && axis == 0)
        sig->in[at.lengths] = IR_SBP_S(0);
    cut_outputs(node, io, axis, whole, sig);
}

static void sbp_attention(const ir_node *node, const ir_io *io, fs_arena *arena,
                          ir_sig_list *out)
{
    const attention_at at = inputs_of(node);
    add_rows(node, io, arena, out, 0, false);
    add_rows(node, io, arena, out, 1, false);
    if (node->i[1] > 1)
        add_rows(node, io, arena, out, 1, true);
    add_rows(node, io, arena, out, 2, true);
    /* columns of v: the scores are computed on every device */
    ir_sig *sig = ir_sig_add(arena, out);
    sig->in[at.v] = IR_SBP_S(3);
    if (node->op == IR_OP_attention) {
        sig->out[0] = IR_SBP_S(3);
        sig = ir_sig_add(arena, out);
        sig->in[at.v] = sig->out[0] = IR_SBP_P;
        return;
    }
    sig->in[0] = sig->in[1] = IR_SBP_S(3);
    sig->out[0] = IR_SBP_P;
    if (node->op == IR_OP_attention_grad) {
        sig->out[1] = IR_SBP_P;
        sig->out[2] = IR_SBP_S(3);
    }
    ir_sig_add_linear(arena, out, 1, node->op == IR_OP_attention_grad ? 7 : 1);
}

/* Heads of q must find theirs of k and v in the same piece: those are cut
 * evenly, and not again where q alone was cut before. */
static bool veto_attention(const ir_node *node, const ir_io *io,
                           const ir_mesh *mesh, const ir_nd_sig *sig)
{
    const attention_at at = inputs_of(node);
    int64_t cuts = 1;
    bool alone = false;
    if (node->i[1] == 1)
        return false;
    for (int32_t a = 0; a < mesh->n; a++) {
        const bool q = ir_sbp_equal(sig->in[at.q].at[a], IR_SBP_S(1));
        const bool k = ir_sbp_equal(sig->in[at.k].at[a], IR_SBP_S(1));
        if (k && alone)
            return true;
        cuts *= k ? mesh->dim[a] : 1;
        alone = alone || (q && !k);
    }
    return io->in[at.k].dim[1] % cuts != 0;
}

/* Multiply-adds per pair of a query and a key: two products forward, five back,
 * two for the mask. */
static int64_t pair_macs(const ir_node *node, int64_t width, int64_t columns)
{
    return node->op == IR_OP_attention_grad ? 3 * width + 2 * columns
                                            : width + columns;
}

/* Every pair is counted, masked or not. */
static void work_attention(const ir_node *node, const ir_io *io, ir_work *out)
{
    const attention_at at = inputs_of(node);
    const ir_shape *q = &io->in[at.q], *v = &io->in[at.v];
    int64_t pairs = v->dim[2];
    for (int32_t i = 0; i < 3; i++)
        pairs = ir_mul_sat(pairs, q->dim[i]);
    const int64_t each = pair_macs(node, q->dim[3], v->dim[3]);
    const int64_t rest = node->op == IR_OP_attention ? 6 : 5;
    ir_work_products(node, io, ir_mul_sat(each, pairs), ir_mul_sat(rest, pairs),
                     out);
    out->product =
        (ir_product){ir_mul_sat(q->dim[0], q->dim[1]), q->dim[2], v->dim[2],
                     q->dim[3], ir_common_divisor(q->dim[3], v->dim[2])};
}

static void grad_attention(ir_graph *graph, const ir_node *node,
                           const int32_t *dout, int32_t *din)
{
    const int32_t mask = inputs_of(node).mask;
    ir_node grad = {.op = IR_OP_attention_grad,
                    .n_in = 3 + node->n_in,
                    .in = {dout[0], node->out[0], node->out[1]}};
    for (int32_t k = 0; k < node->n_in; k++)
        grad.in[3 + k] = node->in[k];
    memcpy(grad.i, node->i, sizeof grad.i);
    memcpy(grad.f, node->f, sizeof grad.f);
    const int32_t id = ir_graph_add(graph, &grad);
    for (int32_t k = 0; id >= 0 && k < 3; k++)
        din[k] = graph->nodes.at[id].out[k];
    if (mask < 0 || graph->tensors.at[node->in[mask]].dtype == IR_BOOL)
        return;
    grad.op = IR_OP_attention_bias_grad;
    din[mask] = ir_append(graph, &grad);
}

#define ATTENTION(id, outputs, first, differential)                            \
    const ir_op ir_op_##id = {.name = #id,                                     \
                              .min_in = (first) + 3,                           \
                              .max_in = (first) + 5,                           \
                              .n_out = outputs,                                \
                              .infer = infer_##id,                             \
                              .sbp = sbp_attention,                            \
                              .veto = veto_attention,                          \
                              .work = work_attention,                          \
                              .grad = differential}
ATTENTION(attention, 2, 0, grad_attention);
ATTENTION(attention_grad, 3, 3, NULL);
ATTENTION(attention_bias_grad, 1, 3, NULL);
