/* Optimizers, compressed gradients. */
#include "config.h"

#include "op_draw.h"

static const ir_init half_a_step = {
    .kind = IR_INIT_UNIFORM, .mean = 0.25, .spread = 0.25};

static int32_t case_update(op_case *c)
{
    const ir_shape shape = op_draw_shape(c, 1, 3);
    const int32_t n = ir_op_table[c->op]->min_in;
    ir_node node = {
        .i = {op_draw(c, 0, 1), op_draw(c, 0, 2), op_draw(c, 0, 4), 9},
        .f = {0.05, 0.1, 0.9, 0.999, 1e-8}};
    int32_t in[5];
    /* Sums of squares. */
    const int32_t squares = c->op == IR_OP_adagrad ? 2 : 3;
    for (int32_t k = 0; k < n; k++)
        in[k] = op_add_input(c, c->real, shape,
                             k == squares ? op_positive : op_any_real);
    if (ir_op_table[c->op]->max_in == n || op_draw(c, 0, 1))
        return op_add_node(c, n, in, node);
    /* The call's step is 0 or 3: fewer were left out. */
    in[n] = op_add_input(c, IR_F32, (ir_shape){0}, half_a_step);
    return op_add_node(c, n + 1, in, node);
}

static int32_t case_lamb_step(op_case *c)
{
    const ir_shape shape = op_draw_shape(c, 1, 3);
    const int32_t in[] = {op_real_input(c, shape), op_real_input(c, shape),
                          op_add_input(c, c->real, (ir_shape){0}, op_positive),
                          op_add_input(c, c->real, (ir_shape){0}, op_positive)};
    return op_add_node(c, 4, in, (ir_node){.f = {0.05}});
}

static int32_t case_sum_squares(op_case *c)
{
    const int32_t x = op_real_input(c, op_draw_shape(c, 1, 4));
    return op_add_node(c, 1, &x, (ir_node){0});
}

/* Columns that are not almost dependent: the first R rows are near those of a
 * unit matrix. */
static int32_t case_orthonormal(op_case *c)
{
    const int64_t columns = op_draw(c, 1, 3), rows = op_draw(c, columns, 7);
    const int32_t x =
        op_add_input(c, c->real, (ir_shape){2, {rows, columns}}, op_not_small);
    return op_add_node(c, 1, &x, (ir_node){0});
}

static int32_t case_sparsify(op_case *c)
{
    const ir_shape shape = {2, {op_draw(c, 2, 9), op_draw(c, 2, 70)}};
    const int64_t n = ir_shape_count(&shape);
    const int32_t x = op_add_input(c, c->real, shape, op_far_apart);
    return op_add_node(c, 1, &x,
                       (ir_node){.i = {op_draw(c, 1, n), shape.dim[1],
                                       op_draw(c, 0, 1) ? IR_I32 : IR_I64}});
}

static int32_t case_densify(op_case *c)
{
    const ir_shape sent = {1, {op_draw(c, 1, 9)}};
    const int64_t rows = op_draw(c, 1, 6), columns = op_draw(c, 1, 9);
    const int32_t in[] = {op_real_input(c, sent),
                          op_id_input(c, sent, rows * columns)};
    return op_add_node(c, 2, in, (ir_node){.i = {rows, columns, columns}});
}

const op_case_row op_cases_update[] = {
    {IR_OP_sgd, case_update},
    {IR_OP_momentum, case_update},
    {IR_OP_adam, case_update},
    {IR_OP_adagrad, case_update},
    {IR_OP_lamb_direction, case_update},
    {IR_OP_lamb_step, case_lamb_step},
    {IR_OP_sum_squares, case_sum_squares},
    {IR_OP_orthonormal, case_orthonormal},
    {IR_OP_sparsify, case_sparsify},
    {IR_OP_densify, case_densify},
    {0, NULL},
};
