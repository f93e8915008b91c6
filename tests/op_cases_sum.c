/* Contractions, sums along axes and losses. */
#include "config.h"

#include "op_draw.h"

static int32_t case_matmul(op_case *c)
{
    ir_shape a = op_draw_shape(c, 2, 4), b = a;
    const int32_t r = a.rank;
    const int64_t most = c->wide ? 40 : 5;
    const int64_t m = op_draw(c, 1, most), n = op_draw(c, 1, most);
    const int64_t k = op_draw(c, 1, most + 1);
    const ir_node node = {.i = {op_draw(c, 0, 1), op_draw(c, 0, 1)}};
    if (op_draw(c, 0, 1))
        b.rank = 2;
    a.dim[r - 2] = node.i[0] ? k : m;
    a.dim[r - 1] = node.i[0] ? m : k;
    b.dim[b.rank - 2] = node.i[1] ? n : k;
    b.dim[b.rank - 1] = node.i[1] ? k : n;
    const ir_shape columns = ir_shape_make(1, &n);
    ir_dtype dtype = c->real;
    ir_init init = op_any_real;
    if (c->other_type && op_draw(c, 0, 3) == 0) {
        dtype = op_draw(c, 0, 1) ? IR_I32 : IR_I64;
        init = (ir_init){.kind = IR_INIT_UNIFORM, .mean = -4, .spread = 9};
    }
    int32_t in[] = {op_add_input(c, dtype, a, init),
                    op_add_input(c, dtype, b, init), -1};
    const int32_t n_in = op_draw(c, 0, 1) ? 3 : 2;
    if (n_in == 3)
        in[2] = op_add_input(c, dtype, columns, init);
    return op_add_node(c, n_in, in, (ir_node){.i = {node.i[0], node.i[1]}});
}

static int32_t case_weight_grad(op_case *c)
{
    ir_shape a = op_draw_shape(c, 2, 4), b = a;
    b.dim[b.rank - 1] = op_draw(c, 1, 6);
    const int32_t in[] = {op_real_input(c, a), op_real_input(c, b)};
    return op_add_node(c, 2, in, (ir_node){0});
}

static int64_t draw_axes(op_case *c, ir_shape shape)
{
    return op_draw(c, 0, (1 << shape.rank) - 1);
}

static ir_shape without(ir_shape shape, int64_t axes)
{
    for (int32_t i = 0; i < shape.rank; i++)
        if (axes >> i & 1)
            shape.dim[i] = 1;
    return shape;
}

static int32_t case_reduce(op_case *c)
{
    const ir_shape shape = op_draw_shape(c, 1, 4);
    ir_dtype dtype = c->real;
    ir_init init = c->op == IR_OP_reduce_sum    ? op_any_real
                   : c->op == IR_OP_reduce_prod ? op_some_zeros
                                                : op_far_apart;
    if (c->other_type && op_draw(c, 0, 3) == 0) {
        dtype = op_draw(c, 0, 1) ? IR_I32 : IR_I64;
        init = (ir_init){.kind = IR_INIT_UNIFORM, .mean = -4, .spread = 9};
    }
    const int32_t x = op_add_input(c, dtype, shape, init);
    ir_node node = {.i = {draw_axes(c, shape), op_draw(c, 0, 1)}};
    if (c->op == IR_OP_reduce_max || c->op == IR_OP_reduce_min)
        node.i[2] = op_draw(c, 0, 3) == 0;
    c->still = (op_case_still){.input = x, .any = node.i[2] != 0, .all = true};
    return op_add_node(c, 1, &x, node);
}

static int32_t case_reduce_prod_grad(op_case *c)
{
    const ir_shape shape = op_draw_shape(c, 1, 4);
    const int64_t axes = draw_axes(c, shape);
    const int32_t in[] = {op_real_input(c, without(shape, axes)),
                          op_add_input(c, c->real, shape, op_not_small)};
    return op_add_node(c, 2, in, (ir_node){.i = {axes}});
}

static int32_t case_sum_exp(op_case *c)
{
    const ir_shape shape = op_draw_shape(c, 1, 4);
    const int64_t axes = draw_axes(c, shape);
    const int32_t in[] = {op_real_input(c, shape),
                          op_real_input(c, without(shape, axes))};
    return op_add_node(c, 2, in, (ir_node){.i = {axes}});
}

static int32_t case_softmax(op_case *c)
{
    const int32_t x = op_real_input(c, op_draw_shape(c, 1, 4));
    return op_add_node(c, 1, &x, (ir_node){0});
}

static int32_t case_cross_entropy(op_case *c)
{
    const ir_shape x = op_draw_shape(c, 1, 4);
    ir_shape rows = x;
    rows.rank--;
    const int32_t in[] = {op_real_input(c, x),
                          op_id_input(c, rows, x.dim[x.rank - 1])};
    return op_add_node(c, 2, in, (ir_node){.f = {0.3}});
}

static int32_t case_cross_entropy_grad(op_case *c)
{
    const ir_shape x = op_draw_shape(c, 1, 4);
    ir_shape rows = x;
    rows.rank--;
    const int32_t in[] = {op_real_input(c, (ir_shape){0}),
                          op_add_input(c, c->real, x, op_positive),
                          op_id_input(c, rows, x.dim[x.rank - 1])};
    return op_add_node(c, 3, in, (ir_node){.f = {0.3}});
}

const op_case_row op_cases_sum[] = {
    {IR_OP_matmul, case_matmul},
    {IR_OP_weight_grad, case_weight_grad},
    {IR_OP_reduce_sum, case_reduce},
    {IR_OP_reduce_max, case_reduce},
    {IR_OP_reduce_min, case_reduce},
    {IR_OP_reduce_prod, case_reduce},
    {IR_OP_reduce_prod_grad, case_reduce_prod_grad},
    {IR_OP_sum_exp, case_sum_exp},
    {IR_OP_log_softmax, case_softmax},
    {IR_OP_softmax, case_softmax},
    {IR_OP_cross_entropy, case_cross_entropy},
    {IR_OP_cross_entropy_grad, case_cross_entropy_grad},
    {0, NULL},
};
