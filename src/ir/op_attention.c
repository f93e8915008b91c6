/* attention and its gradient: scores, mask, softmax and values in one pass that
 * keeps two numbers per row instead of the scores (Rabe and Staats 2021,
 * arXiv 2112.05682; Dao et al. 2022, arXiv 2205.14135). Rows are independent:
 * samples, heads and queries are cut; keys are not, as their softmax is one. */
#include "config.h"
#include "ir/op_util.h"

/* Where q, k, v and the mask stand among the inputs. */
typedef struct attention_at {
    int32_t q, k, v, mask;
} attention_at;

static attention_at inputs_of(const ir_node *node)
{
    return node->op == IR_OP_attention ? (attention_at){0, 1, 2, 3}
                                       : (attention_at){3, 4, 5, 6};
}

static bool has_mask(const ir_node *node)
{
    return node->n_in > inputs_of(node).mask;
}

/* The axes of k that hold keys and what is contracted. */
static int32_t key_axis(const ir_node *node)
{
    return node->i[3] ? 3 : 2;
}

static fs_status check_mask(const ir_node *node, const ir_io *io, fs_err *err)
{
    char text[160], space[160];
    const attention_at at = inputs_of(node);
    if (!has_mask(node))
        return FS_OK;
    const ir_shape *mask = &io->in[at.mask];
    ir_shape whole = io->in[at.q];
    whole.dim[3] = io->in[at.k].dim[key_axis(node)];
    bool fits = io->in_dtype[at.mask] == IR_BOOL && mask->rank <= 4;
    for (int32_t i = 1; fits && i <= mask->rank; i++)
        fits = mask->dim[mask->rank - i] == 1 ||
               mask->dim[mask->rank - i] == whole.dim[4 - i];
    if (fits)
        return FS_OK;
    return fs_fail(err, FS_INVALID,
                   "a mask of shape %s and type %s for scores of shape %s",
                   ir_shape_text(text, mask),
                   ir_dtype_name(io->in_dtype[at.mask]),
                   ir_shape_text(space, &whole));
}

/* A piece may hold fewer heads of q than its heads of k and v serve. */
static fs_status check_operands(const ir_node *node, const ir_io *io,
                                fs_err *err)
{
    char q[160], k[160], v[160];
    const attention_at at = inputs_of(node);
    for (int32_t i = at.q; i <= at.v; i++) {
        FS_TRY(ir_io_need_float(io, i, err));
        FS_TRY(ir_io_need_dtype(io, i, err));
        FS_TRY(ir_io_need_rank(io, i, 4, 4, err));
    }
    FS_TRY(ir_attr_check(node, 1, 1, 1, err));
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
    return FS_OK;
}

static fs_status infer_attention_grad(const ir_node *node, ir_io *io,
                                      fs_err *err)
{
    FS_TRY(check_operands(node, io, err));
    ir_shape y = io->in[3], rows = io->in[3];
    y.dim[3] = io->in[5].dim[3];
    rows.dim[3] = 2;
    FS_TRY(ir_io_need_shape(io, 0, &y, err));
    FS_TRY(ir_io_need_alike(io, 1, err));
    FS_TRY(ir_io_need_shape(io, 2, &rows, err));
    for (int32_t k = 0; k < 3; k++)
        ir_io_copy(io, 3 + k, k);
    return FS_OK;
}

/* The mask along axis `axis` of the scores: cut where it is not stretched. */
static void cut_mask(const ir_node *node, const ir_io *io, int32_t axis,
                     ir_sig *sig)
{
    const int32_t at = inputs_of(node).mask;
    if (!has_mask(node))
        return;
    const int32_t own = axis - (4 - io->in[at].rank);
    if (own >= 0 && io->in[at].dim[own] > 1)
        sig->in[at] = IR_SBP_S(own);
}

/* Rows along `axis` are cut in q, y and what has their shape, of the inputs
 * in_mask and the outputs out_mask; k and v too unless the queries are cut, or
 * the heads while k and v keep theirs. */
static ir_sig *add_rows(const ir_node *node, const ir_io *io, fs_arena *arena,
                        ir_sig_list *out, int32_t axis)
{
    const attention_at at = inputs_of(node);
    ir_sig *sig = ir_sig_add(arena, out);
    for (int32_t i = 0; i <= at.q; i++)
        sig->in[i] = IR_SBP_S(axis);
    sig->out[0] = IR_SBP_S(axis);
    if (node->op == IR_OP_attention)
        sig->out[1] = IR_SBP_S(axis);
    else
        sig->out[1] = sig->out[2] = IR_SBP_P;
    cut_mask(node, io, axis, sig);
    return sig;
}

static void sbp_attention(const ir_node *node, const ir_io *io, fs_arena *arena,
                          ir_sig_list *out)
{
    const attention_at at = inputs_of(node);
    const bool forward = node->op == IR_OP_attention;
    for (int32_t axis = 0; axis < 2; axis++) {
        ir_sig *sig = add_rows(node, io, arena, out, axis);
        sig->in[at.k] = sig->in[at.v] = IR_SBP_S(axis);
        if (!forward)
            sig->out[1] = sig->out[2] = IR_SBP_S(axis);
    }
    if (node->i[1] > 1)
        add_rows(node, io, arena, out, 1);
    add_rows(node, io, arena, out, 2);
    /* columns of v: the scores are computed on every device */
    ir_sig *sig = ir_sig_add(arena, out);
    sig->in[at.v] = IR_SBP_S(3);
    if (forward) {
        sig->out[0] = IR_SBP_S(3);
        sig = ir_sig_add(arena, out);
        sig->in[at.v] = sig->out[0] = IR_SBP_P;
        return;
    }
    sig->in[0] = sig->in[1] = sig->out[2] = IR_SBP_S(3);
    sig->out[0] = sig->out[1] = IR_SBP_P;
    ir_sig_add_linear(arena, out, 1, 7);
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

/* Two products forward, five back; every pair is counted, masked or not. */
static void work_attention(const ir_node *node, const ir_io *io, ir_work *out)
{
    const attention_at at = inputs_of(node);
    const bool forward = node->op == IR_OP_attention;
    const ir_shape *q = &io->in[at.q], *v = &io->in[at.v];
    int64_t pairs = v->dim[2];
    for (int32_t i = 0; i < 3; i++)
        pairs = ir_mul_sat(pairs, q->dim[i]);
    const int64_t each = forward ? 2 * (q->dim[3] + v->dim[3]) + 6
                                 : 2 * (3 * q->dim[3] + 2 * v->dim[3]) + 5;
    ir_work_moves(node, io, ir_mul_sat(each, pairs), out);
}

static void grad_attention(ir_graph *graph, const ir_node *node,
                           const int32_t *dout, int32_t *din)
{
    ir_node grad = {.op = IR_OP_attention_grad,
                    .n_in = 3 + node->n_in,
                    .in = {dout[0], node->out[0], node->out[1]}};
    for (int32_t k = 0; k < node->n_in; k++)
        grad.in[3 + k] = node->in[k];
    for (int32_t k = 0; k < 4; k++)
        grad.i[k] = node->i[k];
    grad.f[0] = node->f[0];
    grad.f[1] = node->f[1];
    const int32_t id = ir_graph_add(graph, &grad);
    for (int32_t k = 0; id >= 0 && k < 3; k++)
        din[k] = graph->nodes.at[id].out[k];
}

const ir_op ir_op_attention = {.name = "attention",
                               .min_in = 3,
                               .max_in = 4,
                               .n_out = 2,
                               .infer = infer_attention,
                               .sbp = sbp_attention,
                               .veto = veto_attention,
                               .work = work_attention,
                               .grad = grad_attention};
const ir_op ir_op_attention_grad = {.name = "attention_grad",
                                    .min_in = 6,
                                    .max_in = 7,
                                    .n_out = 3,
                                    .infer = infer_attention_grad,
                                    .sbp = sbp_attention,
                                    .veto = veto_attention,
                                    .work = work_attention};
