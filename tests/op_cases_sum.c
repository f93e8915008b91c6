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
    const int32_t in[] = {op_real_input(c, a), op_real_input(c, b)};
    return op_add_node(c, 2, in, (ir_node){.i = {node.i[0], node.i[1]}});
}

static int32_t case_weight_grad(op_case *c)
{
    ir_shape a = op_draw_shape(c, 2, 4), b = a;
    b.dim[b.rank - 1] = op_draw(c, 1, 6);
    const int32_t in[] = {op_real_input(c, a), op_real_input(c, b)};
    return op_add_node(c, 2, in, (ir_node){0});
}

static int32_t case_reduce_sum(op_case *c)
{
    const ir_shape shape = op_draw_shape(c, 1, 4);
    const int32_t x = op_real_input(c, shape);
    return op_add_node(c, 1, &x,
                       (ir_node){.i = {op_draw(c, 0, (1 << shape.rank) - 1),
                                       op_draw(c, 0, 1)}});
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
    {IR_OP_reduce_sum, case_reduce_sum},
    {IR_OP_softmax, case_softmax},
    {IR_OP_cross_entropy, case_cross_entropy},
    {IR_OP_cross_entropy_grad, case_cross_entropy_grad},
    {0, NULL},
};
