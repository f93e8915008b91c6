/* conv (cross-correlation over one to three spatial axes, channels second) and
 * its gradients; each of the three is linear in both inputs, and its gradients
 * are the other two. */
#include "config.h"
#include "ir/window.h"

#include "ir/op_util.h"

#include <string.h>

/* The window that weights of shape w make. */
static ir_window window_of(const ir_node *node, const ir_shape *w)
{
    ir_window window = ir_window_read(node, w->rank - 2);
    for (int32_t k = 0; k < window.n; k++) {
        window.size[k] = w->dim[2 + k];
        window.dilation[k] = node->i[IR_WINDOW_SPREAD + k];
    }
    return window;
}

static fs_status check_attrs(const ir_node *node, const ir_io *io, fs_err *err)
{
    int32_t rank = io->in[0].rank;
    FS_TRY(ir_window_check(node, io, 0, err));
    FS_TRY(ir_io_need_dtype(io, 1, err));
    FS_TRY(ir_io_need_rank(io, 1, rank, rank, err));
    return ir_attr_check(node, IR_WINDOW_GROUPS, 1, 1, err);
}

/* y's shape from x and w: what conv says and its gradients must agree with. */
static fs_status conv_shape(const ir_node *node, const ir_shape *x,
                            const ir_shape *w, fs_err *err, ir_shape *y)
{
    int64_t groups = node->i[IR_WINDOW_GROUPS], channels;
    if (__builtin_mul_overflow(w->dim[1], groups, &channels) ||
        channels != x->dim[1] || w->dim[0] % groups != 0)
        return fs_fail(err, FS_INVALID,
                       "%lld channels, weights for %lld in and %lld out in "
                       "%lld groups",
                       (long long)x->dim[1], (long long)w->dim[1],
                       (long long)w->dim[0], (long long)groups);
    const ir_window window = window_of(node, w);
    *y = (ir_shape){.rank = x->rank, .dim = {x->dim[0], w->dim[0]}};
    return ir_window_slide(&window, x, err, y);
}

static fs_status infer_conv(const ir_node *node, ir_io *io, fs_err *err)
{
    FS_TRY(check_attrs(node, io, err));
    io->out_dtype[0] = io->in_dtype[0];
    return conv_shape(node, &io->in[0], &io->in[1], err, &io->out[0]);
}

/* A gradient's dy must be what the convolution of x by w gives. */
static fs_status check_dy(const ir_node *node, const ir_io *io,
                          const ir_shape *x, const ir_shape *w, fs_err *err)
{
    ir_shape wanted;
    FS_TRY(conv_shape(node, x, w, err, &wanted));
    return ir_io_need_shape(io, 0, &wanted, err);
}

/* What a gradient makes: two axes and the lengths that the node tells. */
static fs_status infer_grad(const ir_node *node, ir_io *io, fs_err *err,
                            ir_shape *out)
{
    FS_TRY(check_attrs(node, io, err));
    out->rank = io->in[0].rank;
    FS_TRY(ir_attr_check(node, IR_WINDOW_LENGTH, out->rank - 2, 1, err));
    for (int32_t k = 0; k < out->rank - 2; k++)
        out->dim[2 + k] = node->i[IR_WINDOW_LENGTH + k];
    io->out_dtype[0] = io->in_dtype[0];
    return FS_OK;
}

static fs_status infer_data_grad(const ir_node *node, ir_io *io, fs_err *err)
{
    ir_shape x = {.dim = {io->in[0].dim[0]}};
    FS_TRY(infer_grad(node, io, err, &x));
    if (__builtin_mul_overflow(io->in[1].dim[1], node->i[IR_WINDOW_GROUPS],
                               &x.dim[1]))
        return fs_fail(err, FS_INVALID, "too many channels");
    io->out[0] = x;
    return check_dy(node, io, &x, &io->in[1], err);
}

static fs_status infer_filter_grad(const ir_node *node, ir_io *io, fs_err *err)
{
    ir_shape w = {.dim = {io->in[0].dim[1]}};
    FS_TRY(infer_grad(node, io, err, &w));
    w.dim[1] = io->in[1].dim[1] / node->i[IR_WINDOW_GROUPS];
    if (w.dim[1] == 0)
        return fs_fail(err, FS_INVALID, "fewer channels than groups");
    io->out[0] = w;
    return check_dy(node, io, &io->in[1], &w, err);
}

/* Like a matrix product of samples x channels in by channels in x out. With
 * groups, x and y are cut between groups. */
static void sbp_product(const ir_node *node, fs_arena *arena, ir_sig_list *out,
                        const ir_sbp rows[4][3])
{
    const bool grouped = node->i[IR_WINDOW_GROUPS] != 1;
    ir_sig_add_row(arena, out, rows[0][0], rows[0][1], rows[0][2]);
    for (int32_t k = grouped ? 3 : 1; k < (grouped ? 4 : 3); k++)
        ir_sig_add_row(arena, out, rows[k][0], rows[k][1], rows[k][2]);
    ir_sig_add_linear(arena, out, 1, 1);
    ir_sig_add_linear(arena, out, 2, 1);
}

/* `conv`: x, weights, y of the convolution that this is or belongs to. The
 * output of each is cut without a halo. */
static void sbp_space(const ir_node *node, const ir_shape conv[3],
                      fs_arena *arena, ir_sig_list *out)
{
    const ir_window window = window_of(node, &conv[1]);
    const ir_shape shape[2] = {conv[0], conv[2]};
    for (int32_t k = 0; k < window.n; k++) {
        const ir_sbp s = IR_SBP_S(2 + k), b = IR_SBP_B, p = IR_SBP_P;
        ir_sbp in;
        if (!(node->op == IR_OP_conv_data_grad
                  ? ir_window_y_cut(&window, k, shape, &in, NULL)
                  : ir_window_x_cut(&window, k, shape, &in)))
            continue;
        if (node->op == IR_OP_conv_filter_grad)
            ir_sig_add_row(arena, out, s, in, p);
        else
            ir_sig_add_row(arena, out, in, b, s);
    }
}

static void sbp_conv(const ir_node *node, const ir_io *io, fs_arena *arena,
                     ir_sig_list *out)
{
    const ir_sbp b = IR_SBP_B, p = IR_SBP_P, s0 = IR_SBP_S(0), s1 = IR_SBP_S(1);
    const ir_sbp rows[4][3] = {
        {s0, b, s0}, {b, s0, s1}, {s1, s1, p}, {s1, s0, s1}};
    const ir_shape conv[3] = {io->in[0], io->in[1], io->out[0]};
    sbp_product(node, arena, out, rows);
    sbp_space(node, conv, arena, out);
}

static void sbp_data_grad(const ir_node *node, const ir_io *io, fs_arena *arena,
                          ir_sig_list *out)
{
    const ir_sbp b = IR_SBP_B, p = IR_SBP_P, s0 = IR_SBP_S(0), s1 = IR_SBP_S(1);
    const ir_sbp rows[4][3] = {
        {s0, b, s0}, {s1, s0, p}, {b, s1, s1}, {s1, s0, s1}};
    const ir_shape conv[3] = {io->out[0], io->in[1], io->in[0]};
    sbp_product(node, arena, out, rows);
    sbp_space(node, conv, arena, out);
}

static void sbp_filter_grad(const ir_node *node, const ir_io *io,
                            fs_arena *arena, ir_sig_list *out)
{
    const ir_sbp b = IR_SBP_B, p = IR_SBP_P, s0 = IR_SBP_S(0), s1 = IR_SBP_S(1);
    const ir_sbp rows[4][3] = {
        {s0, s0, p}, {s1, b, s0}, {b, s1, s1}, {s1, s1, s0}};
    const ir_shape conv[3] = {io->in[1], io->out[0], io->in[0]};
    sbp_product(node, arena, out, rows);
    sbp_space(node, conv, arena, out);
}

/* Of conv y is the output, of its gradients input 0; weights lie whole. */
static bool pieces_hold(const ir_node *node, const ir_io *io,
                        const ir_mesh *mesh, const ir_nd_sig *sig)
{
    const bool forward = node->op == IR_OP_conv;
    const bool data = node->op == IR_OP_conv_data_grad;
    const ir_window window = window_of(
        node, node->op == IR_OP_conv_filter_grad ? &io->out[0] : &io->in[1]);
    const ir_window_pieces pieces = {.window = &window,
                                     .mesh = mesh,
                                     .x = forward ? io->in[0]
                                          : data  ? io->out[0]
                                                  : io->in[1],
                                     .y = forward ? io->out[0] : io->in[0],
                                     .x_sbp = forward ? &sig->in[0]
                                              : data  ? NULL
                                                      : &sig->in[1],
                                     .y_sbp =
                                         forward ? &sig->out[0] : &sig->in[0]};
    return data ? ir_window_y_holds(&pieces, &sig->out[0])
                : ir_window_x_holds(&pieces);
}

/* Of a piece, which may have some of the node's alone. */
static int64_t groups_of(const ir_node *node, const ir_io *io)
{
    const bool forward = node->op == IR_OP_conv;
    const bool filter = node->op == IR_OP_conv_filter_grad;
    const ir_shape *x = forward  ? &io->in[0]
                        : filter ? &io->in[1]
                                 : &io->out[0];
    const ir_shape *w = filter ? &io->out[0] : &io->in[1];
    return w->dim[1] > 0 ? x->dim[1] / w->dim[1] : 1;
}

/* Cuts that fall within a group, and those that part a window from what it
 * reaches. */
static bool veto_conv(const ir_node *node, const ir_io *io, const ir_mesh *mesh,
                      const ir_nd_sig *sig)
{
    if (node->i[IR_WINDOW_GROUPS] != 1 &&
        groups_of(node, io) % ir_window_cuts(mesh, &sig->in[0], 1) != 0)
        return true;
    return !pieces_hold(node, io, mesh, sig);
}

/* Padding counts as if it were data: N M H' W' (C/g) R S. */
static int64_t conv_macs(const ir_shape *y, const ir_shape *w)
{
    int64_t per_output = ir_shape_count(w) / w->dim[0];
    return ir_mul_sat(per_output, ir_shape_count(y));
}

/* As products of matrices: an output's place by its channel, over a window;
 * an input's place by its channel, over the windows that reach it; a channel by
 * a window's weights, over the places. */
typedef enum conv_pass { CONV_FORWARD, CONV_DATA, CONV_FILTER } conv_pass;

static ir_product conv_product(const ir_node *node, const ir_shape *x,
                               const ir_shape *y, const ir_shape *w,
                               conv_pass pass)
{
    const int64_t groups = node->i[IR_WINDOW_GROUPS];
    const int64_t out = w->dim[0] / (groups ? groups : 1);
    const int64_t window = w->dim[0] ? ir_shape_count(w) / w->dim[0] : 0;
    const int64_t in = w->dim[1], taps = in ? window / in : 0;
    const int64_t places = y->dim[1] ? ir_shape_count(y) / y->dim[1] : 0;
    const int64_t from = x->dim[1] ? ir_shape_count(x) / x->dim[1] : 0;
    if (pass == CONV_FORWARD)
        return (ir_product){groups, places, out, window, 0};
    if (pass == CONV_FILTER)
        return (ir_product){groups, out, window, places, 0};
    /* with strides fewer windows reach a place */
    return (ir_product){groups, from, in, from ? out * taps * places / from : 0,
                        0};
}

static void work_conv(const ir_node *node, const ir_io *io, ir_work *out)
{
    ir_work_products(node, io, conv_macs(&io->out[0], &io->in[1]), 0, out);
    out->product =
        conv_product(node, &io->in[0], &io->out[0], &io->in[1], CONV_FORWARD);
}

static void work_data_grad(const ir_node *node, const ir_io *io, ir_work *out)
{
    ir_work_products(node, io, conv_macs(&io->in[0], &io->in[1]), 0, out);
    out->product =
        conv_product(node, &io->out[0], &io->in[0], &io->in[1], CONV_DATA);
}

static void work_filter_grad(const ir_node *node, const ir_io *io, ir_work *out)
{
    ir_work_products(node, io, conv_macs(&io->in[0], &io->out[0]), 0, out);
    out->product =
        conv_product(node, &io->in[1], &io->in[0], &io->out[0], CONV_FILTER);
}

/* One of the three from its inputs: the attributes of `node`, then the lengths
 * of the tensor that a gradient is for. */
static int32_t add_conv(ir_graph *graph, ir_op_kind kind, const ir_node *node,
                        const int32_t in[2], int32_t like)
{
    ir_node made = {.op = kind, .n_in = 2, .in = {in[0], in[1]}};
    ir_shape shape = ir_shape_of(graph, like);
    memcpy(made.i, node->i, IR_WINDOW_LENGTH * sizeof *made.i);
    for (int32_t k = 0; kind != IR_OP_conv && k < shape.rank - 2; k++)
        made.i[IR_WINDOW_LENGTH + k] = shape.dim[2 + k];
    return ir_append(graph, &made);
}

static void grad_conv(ir_graph *graph, const ir_node *node, const int32_t *dout,
                      int32_t *din)
{
    const int32_t *in = node->in;
    din[0] = add_conv(graph, IR_OP_conv_data_grad, node,
                      (int32_t[]){dout[0], in[1]}, in[0]);
    din[1] = add_conv(graph, IR_OP_conv_filter_grad, node,
                      (int32_t[]){dout[0], in[0]}, in[1]);
}

/* dy, w -> dx */
static void grad_data_grad(ir_graph *graph, const ir_node *node,
                           const int32_t *dout, int32_t *din)
{
    const int32_t *in = node->in;
    din[0] =
        add_conv(graph, IR_OP_conv, node, (int32_t[]){dout[0], in[1]}, in[0]);
    din[1] = add_conv(graph, IR_OP_conv_filter_grad, node,
                      (int32_t[]){in[0], dout[0]}, in[1]);
}

/* dy, x -> dw */
static void grad_filter_grad(ir_graph *graph, const ir_node *node,
                             const int32_t *dout, int32_t *din)
{
    const int32_t *in = node->in;
    din[0] =
        add_conv(graph, IR_OP_conv, node, (int32_t[]){in[1], dout[0]}, in[0]);
    din[1] = add_conv(graph, IR_OP_conv_data_grad, node,
                      (int32_t[]){in[0], dout[0]}, in[1]);
}

const ir_op ir_op_conv = {.name = "conv",
                          .min_in = 2,
                          .max_in = 2,
                          .n_out = 1,
                          .infer = infer_conv,
                          .sbp = sbp_conv,
                          .veto = veto_conv,
                          .work = work_conv,
                          .grad = grad_conv};
const ir_op ir_op_conv_data_grad = {.name = "conv_data_grad",
                                    .min_in = 2,
                                    .max_in = 2,
                                    .n_out = 1,
                                    .infer = infer_data_grad,
                                    .sbp = sbp_data_grad,
                                    .veto = veto_conv,
                                    .work = work_data_grad,
                                    .grad = grad_data_grad};
const ir_op ir_op_conv_filter_grad = {.name = "conv_filter_grad",
                                      .min_in = 2,
                                      .max_in = 2,
                                      .n_out = 1,
                                      .infer = infer_filter_grad,
                                      .sbp = sbp_filter_grad,
                                      .veto = veto_conv,
                                      .work = work_filter_grad,
                                      .grad = grad_filter_grad};
