/* Normalisations. */
#include "config.h"

#include "op_draw.h"

/* x (..,C)[, gain[, bias (C)]]. */
static int32_t case_layer_norm(op_case *c)
{
    ir_shape x = op_draw_shape(c, 1, 4);
    x.dim[x.rank - 1] += 3;
    const ir_shape row = {1, {x.dim[x.rank - 1]}};
    const int32_t in[] = {op_real_input(c, x),
                          op_wide_input(c, row, op_any_real),
                          op_wide_input(c, row, op_any_real)};
    return op_add_node(c, (int32_t)op_draw(c, 1, 3), in,
                       (ir_node){.i = {op_draw(c, 0, 1)}, .f = {1e-5}});
}

/* dy, x, mean, rstd[, gain]. */
static int32_t case_layer_norm_grad(op_case *c)
{
    const ir_shape x = op_draw_shape(c, 1, 4);
    const ir_shape row = {1, {x.dim[x.rank - 1]}};
    const bool data = c->op == IR_OP_layer_norm_grad;
    ir_shape one = x;
    one.dim[x.rank - 1] = 1;
    int32_t in[5] = {op_real_input(c, x), op_real_input(c, x),
                     op_wide_input(c, one, op_any_real),
                     op_wide_input(c, one, op_positive)};
    int32_t n = 4;
    if (data && op_draw(c, 0, 1))
        in[n++] = op_wide_input(c, row, op_any_real);
    return op_add_node(c, n, in, (ir_node){.i = {data ? op_draw(c, 0, 1) : 0}});
}

static ir_shape channels_of(ir_shape x)
{
    return (ir_shape){1, {x.dim[1]}};
}

static int32_t case_centred_square(op_case *c)
{
    const ir_shape x = op_draw_shape(c, 2, 4);
    const int32_t in[] = {op_real_input(c, x),
                          op_wide_input(c, channels_of(x), op_any_real)};
    return op_add_node(c, 2, in, (ir_node){0});
}

/* Mean and variance are inputs, or those of x. */
static int32_t case_batch_norm(op_case *c)
{
    ir_graph *g = c->graph;
    ir_shape x = op_draw_shape(c, 2, 4);
    x.dim[0] += 3;
    const ir_shape row = channels_of(x);
    const uint32_t others = ((1u << x.rank) - 1) & ~2u;
    const double count = (double)ir_shape_count(&x) / (double)x.dim[1];
    int32_t in[5] = {op_real_input(c, x), op_wide_input(c, row, op_any_real),
                     op_wide_input(c, row, op_any_real)};
    const bool own = op_draw(c, 0, 1) != 0;
    if (own) {
        in[3] = ir_reduce_mean(g, ir_widened(g, in[0]), others, false);
        in[4] = ir_scale(g, ir_binary(g, IR_OP_centred_square, in[0], in[3]),
                         1 / count, 0);
    } else {
        in[3] = op_wide_input(c, row, op_any_real);
        in[4] = op_wide_input(c, row, op_positive);
    }
    return op_add_node(c, 5, in, (ir_node){.i = {own}, .f = {1e-2}});
}

/* dy, gain, var [, x, mean, dgain, dbias]. */
static int32_t case_batch_norm_grad(op_case *c)
{
    const ir_shape x = op_draw_shape(c, 2, 4), row = channels_of(x);
    const bool full = op_draw(c, 0, 1) != 0;
    int32_t in[7] = {op_real_input(c, x), op_wide_input(c, row, op_any_real),
                     op_wide_input(c, row, op_positive)};
    if (full) {
        in[3] = op_real_input(c, x);
        for (int32_t k = 4; k < 7; k++)
            in[k] = op_wide_input(c, row, op_any_real);
    }
    return op_add_node(c, full ? 7 : 3, in, (ir_node){.f = {1e-5, 0.1}});
}

static int32_t case_batch_norm_param_grad(op_case *c)
{
    const ir_shape x = op_draw_shape(c, 2, 4), row = channels_of(x);
    const int32_t in[] = {op_real_input(c, x), op_real_input(c, x),
                          op_wide_input(c, row, op_any_real),
                          op_wide_input(c, row, op_positive)};
    return op_add_node(c, 4, in, (ir_node){.f = {1e-5}});
}

const op_case_row op_cases_norm[] = {
    {IR_OP_layer_norm, case_layer_norm},
    {IR_OP_layer_norm_grad, case_layer_norm_grad},
    {IR_OP_layer_norm_param_grad, case_layer_norm_grad},
    {IR_OP_centred_square, case_centred_square},
    {IR_OP_batch_norm, case_batch_norm},
    {IR_OP_batch_norm_grad, case_batch_norm_grad},
    {IR_OP_batch_norm_param_grad, case_batch_norm_param_grad},
    {0, NULL},
};
