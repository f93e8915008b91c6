/* Recurrent layers: a scan over time as one op. Its steps need all units of
 * the one before, so only samples can be cut; the product with the input stands
 * outside, where it takes any cut. */
#include "config.h"
#include "ir/op_util.h"
#include "ir/recurrent.h"

static fs_status check_attributes(const ir_node *node, fs_err *err)
{
    FS_TRY(ir_attr_check(node, 0, 6, 0, err));
    if (node->i[IR_CELL_KIND] > IR_CELL_LSTM)
        return fs_fail(err, FS_INVALID, "no such cell: %lld",
                       (long long)node->i[IR_CELL_KIND]);
    for (int32_t k = 0; k < 3; k++)
        if (node->i[IR_CELL_F + k] >= IR_ACTIVATION_COUNT)
            return fs_fail(err, FS_INVALID, "no such activation: %lld",
                           (long long)node->i[IR_CELL_F + k]);
    return FS_OK;
}

/* T, B and H, with the shapes that follow. */
typedef struct layer {
    ir_shape gates, y, r, state, extra, saved, lengths;
} layer;

static layer layer_of(const ir_node *node, int64_t t, int64_t b, int64_t h)
{
    ir_cell_sizes n = ir_cell_of(node->i[IR_CELL_KIND]);
    return (layer){.gates = {4, {t, b, n.gates, h}},
                   .y = {3, {t, b, h}},
                   .r = {3, {n.gates, h, h}},
                   .state = {3, {b, n.states, h}},
                   .extra = {2, {n.extra, h}},
                   .saved = {4, {t, b, n.saved, h}},
                   .lengths = {1, {b}}};
}

static fs_status check_input(const ir_io *io, int32_t in,
                             const ir_shape *wanted, fs_err *err)
{
    FS_TRY(ir_io_need_dtype(io, in, err));
    return ir_io_need_shape(io, in, wanted, err);
}

static fs_status check_lengths(const ir_node *node, const ir_io *io, int32_t in,
                               const layer *l, fs_err *err)
{
    if (node->n_in <= in)
        return FS_OK;
    FS_TRY(ir_io_need_int(io, in, err));
    return ir_io_need_shape(io, in, &l->lengths, err);
}

static void set_output(ir_io *io, int32_t k, const ir_shape *shape)
{
    io->out[k] = *shape;
    io->out_dtype[k] = io->in_dtype[0];
}

static fs_status infer_recurrent(const ir_node *node, ir_io *io, fs_err *err)
{
    FS_TRY(ir_io_need_float(io, 0, err));
    FS_TRY(ir_io_need_rank(io, 0, 4, 4, err));
    FS_TRY(check_attributes(node, err));
    const int64_t *dim = io->in[0].dim;
    layer l = layer_of(node, dim[0], dim[1], dim[3]);
    FS_TRY(ir_io_need_shape(io, 0, &l.gates, err));
    FS_TRY(check_input(io, 1, &l.r, err));
    FS_TRY(check_input(io, 2, &l.state, err));
    FS_TRY(check_input(io, 3, &l.extra, err));
    FS_TRY(check_lengths(node, io, 4, &l, err));
    set_output(io, 0, &l.y);
    set_output(io, 1, &l.state);
    set_output(io, 2, &l.saved);
    return FS_OK;
}

static void sbp_recurrent(const ir_node *node, const ir_io *io, fs_arena *arena,
                          ir_sig_list *out)
{
    (void)io;
    ir_sig *sig = ir_sig_add(arena, out);
    sig->in[0] = IR_SBP_S(1);
    sig->in[2] = IR_SBP_S(0);
    if (node->n_in > 4)
        sig->in[4] = IR_SBP_S(0);
    sig->out[0] = sig->out[2] = IR_SBP_S(1);
    sig->out[1] = IR_SBP_S(0);
}

/* The recurrent product, and some 10 operations per gate and unit; `passes`: 2
 * for the gradient. */
static void count_work(const ir_node *node, const ir_io *io, int64_t passes,
                       ir_work *out)
{
    const ir_shape *y = &io->in[0], *r = &io->in[passes];
    int64_t gates = ir_mul_sat(ir_mul_sat(y->dim[0], y->dim[1]), passes);
    gates = ir_mul_sat(gates, ir_mul_sat(r->dim[0], r->dim[1]));
    ir_work_products(node, io, ir_mul_sat(gates, r->dim[2]),
                     ir_mul_sat(10, gates), out);
}

static void work_recurrent(const ir_node *node, const ir_io *io, ir_work *out)
{
    count_work(node, io, 1, out);
}

/* `given`, or zeros like `tensor`. */
static int32_t or_zeros(ir_graph *graph, int32_t given, int32_t tensor)
{
    if (given >= 0)
        return given;
    return ir_cast(graph, ir_fill(graph, ir_shape_of(graph, tensor), 0),
                   graph->tensors.at[tensor].dtype);
}

static void grad_recurrent(ir_graph *graph, const ir_node *node,
                           const int32_t *dout, int32_t *din)
{
    if (dout[2] >= 0) {
        ir_graph_fail(graph,
                      "%s: no gradient flows through what a recurrent "
                      "layer saves",
                      node->name);
        return;
    }
    ir_node grad = {.op = IR_OP_recurrent_grad,
                    .n_in = node->n_in + 3,
                    .in = {or_zeros(graph, dout[0], node->out[0]),
                           or_zeros(graph, dout[1], node->out[1]), node->in[1],
                           node->in[2], node->in[3], node->out[0], node->out[2],
                           node->n_in > 4 ? node->in[4] : -1}};
    for (int32_t k = 0; k < IR_MAX_ATTR; k++)
        grad.i[k] = node->i[k];
    for (int32_t k = 0; k < IR_MAX_REAL; k++)
        grad.f[k] = node->f[k];
    int32_t id = ir_graph_add(graph, &grad);
    for (int32_t k = 0; id >= 0 && k < 4; k++)
        din[k] = graph->nodes.at[id].out[k];
}

static fs_status infer_recurrent_grad(const ir_node *node, ir_io *io,
                                      fs_err *err)
{
    FS_TRY(ir_io_need_float(io, 0, err));
    FS_TRY(ir_io_need_rank(io, 0, 3, 3, err));
    FS_TRY(check_attributes(node, err));
    const int64_t *dim = io->in[0].dim;
    layer l = layer_of(node, dim[0], dim[1], dim[2]);
    const ir_shape *wanted[] = {&l.y,     &l.state, &l.r,    &l.state,
                                &l.extra, &l.y,     &l.saved};
    for (int32_t k = 1; k < 7; k++)
        FS_TRY(check_input(io, k, wanted[k], err));
    FS_TRY(check_lengths(node, io, 7, &l, err));
    set_output(io, 0, &l.gates);
    set_output(io, 1, &l.r);
    set_output(io, 2, &l.state);
    set_output(io, 3, &l.extra);
    return FS_OK;
}

static void sbp_recurrent_grad(const ir_node *node, const ir_io *io,
                               fs_arena *arena, ir_sig_list *out)
{
    (void)io;
    ir_sig *sig = ir_sig_add(arena, out);
    sig->in[0] = sig->in[5] = sig->in[6] = IR_SBP_S(1);
    sig->in[1] = sig->in[3] = IR_SBP_S(0);
    if (node->n_in > 7)
        sig->in[7] = IR_SBP_S(0);
    sig->out[0] = IR_SBP_S(1);
    sig->out[1] = sig->out[3] = IR_SBP_P;
    sig->out[2] = IR_SBP_S(0);
    ir_sig_add_linear(arena, out, 3, 15); /* dy and dlast */
}

static void work_recurrent_grad(const ir_node *node, const ir_io *io,
                                ir_work *out)
{
    count_work(node, io, 2, out);
}

const ir_op ir_op_recurrent = {.name = "recurrent",
                               .min_in = 4,
                               .max_in = 5,
                               .n_out = 3,
                               .infer = infer_recurrent,
                               .sbp = sbp_recurrent,
                               .work = work_recurrent,
                               .grad = grad_recurrent};
const ir_op ir_op_recurrent_grad = {.name = "recurrent_grad",
                                    .min_in = 7,
                                    .max_in = 8,
                                    .n_out = 4,
                                    .infer = infer_recurrent_grad,
                                    .sbp = sbp_recurrent_grad,
                                    .work = work_recurrent_grad};
