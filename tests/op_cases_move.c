/* Moves and lookups. */
#include "config.h"

#include "op_draw.h"

static int32_t case_reshape(op_case *c)
{
    ir_node node = {0};
    ir_shape in = op_draw_shape(c, 3, 4), out = in;
    int32_t at = (int32_t)op_draw(c, 0, in.rank - 2);
    out.dim[at] *= out.dim[at + 1];
    for (int32_t i = at + 1; i + 1 < in.rank; i++)
        out.dim[i] = in.dim[i + 1];
    out.rank--;
    const bool split = op_draw(c, 0, 1);
    const int32_t x = op_real_input(c, split ? out : in);
    op_set_shape(&node, split ? in : out);
    return op_add_node(c, 1, &x, node);
}

static int32_t case_broadcast_to(op_case *c)
{
    const ir_shape wide = op_draw_shape(c, 1, 4);
    const int32_t x = op_real_input(c, op_draw_narrow(c, wide));
    ir_node node = {0};
    op_set_shape(&node, wide);
    return op_add_node(c, 1, &x, node);
}

static int32_t case_transpose(op_case *c)
{
    ir_shape perm = op_draw_shape(c, 1, 4);
    const int32_t x = op_real_input(c, perm);
    ir_node node = {0};
    for (int32_t i = 0; i < perm.rank; i++)
        perm.dim[i] = i;
    for (int32_t i = perm.rank - 1; i > 0; i--) {
        const int64_t other = op_draw(c, 0, i), kept = perm.dim[i];
        perm.dim[i] = perm.dim[other];
        perm.dim[other] = kept;
    }
    op_set_shape(&node, perm);
    return op_add_node(c, 1, &x, node);
}

/* Mostly none; else up to 3, forwards or backwards. */
static int64_t draw_step(op_case *c)
{
    return op_draw(c, 0, 1) ? 0 : op_draw(c, -3, 3);
}

static int32_t case_slice(op_case *c)
{
    const ir_shape shape = op_draw_shape(c, 1, 4);
    const int32_t axis = (int32_t)op_draw(c, 0, shape.rank - 1);
    const int64_t start = op_draw(c, 0, shape.dim[axis] - 1);
    const int64_t step = draw_step(c), size = step < 0 ? -step : step;
    const int64_t room = step < 0 ? start : shape.dim[axis] - 1 - start;
    const int64_t length = op_draw(c, 1, 1 + room / (size ? size : 1));
    const int32_t x = op_real_input(c, shape);
    return op_add_node(c, 1, &x, (ir_node){.i = {axis, start, length, step}});
}

static int32_t case_pad(op_case *c)
{
    const ir_shape shape = op_draw_shape(c, 1, 4);
    const int32_t x = op_real_input(c, shape);
    return op_add_node(
        c, 1, &x,
        (ir_node){.i = {op_draw(c, 0, shape.rank - 1), op_draw(c, 0, 3),
                        op_draw(c, 0, 3), draw_step(c)}});
}

/* x or its gradient has the length that the node tells. */
static int32_t case_resample(op_case *c)
{
    ir_shape shape = op_draw_shape(c, 1, 4);
    const int64_t axis = op_draw(c, 0, shape.rank - 1);
    const int64_t length = shape.dim[axis];
    const ir_shape taps = {2, {op_draw(c, 1, 6), op_draw(c, 1, 4)}};
    if (c->op == IR_OP_resample_grad)
        shape.dim[axis] = taps.dim[0];
    const int32_t in[] = {op_real_input(c, shape), op_id_input(c, taps, length),
                          op_real_input(c, taps)};
    return op_add_node(c, 3, in, (ir_node){.i = {axis, length}});
}

static int32_t case_concat(op_case *c)
{
    ir_shape shape = op_draw_shape(c, 1, 4);
    const int32_t n = (int32_t)op_draw(c, 1, 4);
    const int32_t axis = (int32_t)op_draw(c, 0, shape.rank - 1);
    int32_t in[4];
    for (int32_t k = 0; k < n; k++) {
        shape.dim[axis] = op_draw(c, 1, 3);
        in[k] = op_real_input(c, shape);
    }
    return op_add_node(c, n, in, (ir_node){.i = {axis}});
}

/* Ids from 0, or from the end too. */
static int32_t draw_ids(op_case *c, ir_shape shape, int64_t n, bool both)
{
    ir_init any = {
        .kind = IR_INIT_UNIFORM, .mean = (double)-n, .spread = (double)(2 * n)};
    return both ? op_add_input(c, IR_I64, shape, any)
                : op_id_input(c, shape, n);
}

/* 1 + a row of n that gets no gradient; mostly none. */
static int64_t draw_padding(op_case *c, int64_t n)
{
    return op_draw(c, 0, 2) ? 0 : op_draw(c, 1, n);
}

static int32_t case_gather(op_case *c)
{
    const ir_shape table = op_draw_shape(c, 1, 3), ids = op_draw_shape(c, 0, 2);
    const int64_t axis = op_draw(c, 0, 2) ? 0 : op_draw(c, 0, table.rank - 1);
    const int64_t n = table.dim[axis], both = op_draw(c, 0, 1);
    const int64_t padding = draw_padding(c, n);
    const bool untold = !both && op_draw(c, 0, 3) == 0;
    const int32_t in[] = {op_real_input(c, table), draw_ids(c, ids, n, both)};
    c->still = (op_case_still){.input = in[0],
                               .any = padding > 0,
                               .axis = (int32_t)axis,
                               .row = padding - 1};
    return op_add_node(c, 2, in,
                       (ir_node){.i = {untold ? 0 : n, both, axis, padding}});
}

static int32_t case_gather_grad(op_case *c)
{
    const ir_shape row = op_draw_shape(c, 0, 2), ids = op_draw_shape(c, 0, 2);
    const int64_t n = op_draw(c, 2, 6), axis = op_draw(c, 0, row.rank);
    const int64_t both = op_draw(c, 0, 1);
    ir_shape dy = {.rank = 0};
    for (int32_t i = 0; i <= row.rank; i++) {
        for (int32_t k = 0; i == axis && k < ids.rank; k++)
            dy.dim[dy.rank++] = ids.dim[k];
        if (i < row.rank)
            dy.dim[dy.rank++] = row.dim[i];
    }
    const int32_t in[] = {op_real_input(c, dy), draw_ids(c, ids, n, both)};
    const int64_t padding = draw_padding(c, n);
    return op_add_node(c, 2, in, (ir_node){.i = {n, both, axis, padding}});
}

const op_case_row op_cases_move[] = {
    {IR_OP_reshape, case_reshape},
    {IR_OP_broadcast_to, case_broadcast_to},
    {IR_OP_transpose, case_transpose},
    {IR_OP_slice, case_slice},
    {IR_OP_pad, case_pad},
    {IR_OP_resample, case_resample},
    {IR_OP_resample_grad, case_resample},
    {IR_OP_concat, case_concat},
    {IR_OP_gather, case_gather},
    {IR_OP_gather_grad, case_gather_grad},
    {0, NULL},
};
