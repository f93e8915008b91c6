/* Along one axis, and losses of rows of classes with a label each. */
#include "config.h"

#include "op_draw.h"

#include "ir/losses.h"

static int32_t last_axis(ir_shape shape)
{
    return shape.rank - 1;
}

static int32_t case_arg_max(op_case *c)
{
    const ir_shape shape = op_draw_shape(c, 1, 4);
    const int32_t x = op_add_input(c, c->real, shape, op_far_apart);
    return op_add_node(
        c, 1, &x,
        (ir_node){.i = {op_draw(c, 0, last_axis(shape)), op_draw(c, 0, 1),
                        op_draw(c, 0, 1), op_draw(c, 0, 1)}});
}

static int32_t case_top_k(op_case *c)
{
    const ir_shape shape = op_draw_shape(c, 1, 4);
    const int64_t axis = op_draw(c, 0, last_axis(shape));
    const int32_t x = op_add_input(c, c->real, shape, op_far_apart);
    return op_add_node(c, 1, &x,
                       (ir_node){.i = {axis, op_draw(c, 1, shape.dim[axis]),
                                       op_draw(c, 0, 1)}});
}

static int32_t case_top_k_grad(op_case *c)
{
    const ir_shape shape = op_draw_shape(c, 1, 4);
    const int64_t axis = op_draw(c, 0, last_axis(shape));
    const int64_t length = shape.dim[axis] + op_draw(c, 0, 3);
    const int32_t in[] = {op_real_input(c, shape),
                          op_id_input(c, shape, length)};
    return op_add_node(c, 2, in, (ir_node){.i = {axis, length}});
}

static int32_t case_cum_sum(op_case *c)
{
    const ir_shape shape = op_draw_shape(c, 1, 4);
    const int32_t x = op_real_input(c, shape);
    return op_add_node(c, 1, &x,
                       (ir_node){.i = {op_draw(c, 0, last_axis(shape)),
                                       op_draw(c, 0, 1), op_draw(c, 0, 1)}});
}

/* Rows of at least two classes, of which one may not count. */
static ir_shape draw_classes(op_case *c, ir_node *node, ir_shape *rows)
{
    ir_shape x = op_draw_shape(c, 1, 4);
    x.dim[last_axis(x)] += 1;
    *rows = x;
    rows->rank--;
    node->i[0] = x.dim[last_axis(x)];
    node->i[1] = op_draw(c, 0, 1);
    node->i[2] = node->i[1] ? op_draw(c, 0, node->i[0] - 1) : 0;
    return x;
}

static int32_t case_pick(op_case *c)
{
    ir_node node = {0};
    ir_shape rows;
    const ir_shape x = draw_classes(c, &node, &rows);
    const int32_t in[] = {op_real_input(c, c->op == IR_OP_pick ? x : rows),
                          op_id_input(c, rows, node.i[0])};
    return op_add_node(c, 2, in, node);
}

static int32_t case_label_weight(op_case *c)
{
    ir_node node = {0};
    ir_shape rows;
    draw_classes(c, &node, &rows);
    node.i[3] = c->real;
    int32_t in[2] = {op_id_input(c, rows, node.i[0])}, n = 1;
    if (op_draw(c, 0, 2))
        in[n++] = op_real_input(c, (ir_shape){1, {node.i[0]}});
    return op_add_node(c, n, in, node);
}

static int32_t case_cross_entropy_rows(op_case *c)
{
    ir_node node = {0};
    ir_shape rows;
    const ir_shape shape = draw_classes(c, &node, &rows);
    const int32_t x = op_real_input(c, shape);
    const int32_t in[] = {
        x, ir_log_sum_exp(c->graph, x, 1u << last_axis(shape), true),
        op_id_input(c, rows, node.i[0])};
    return op_add_node(c, 3, in, node);
}

static int32_t case_cross_entropy_rows_grad(op_case *c)
{
    ir_node node = {0};
    ir_shape rows;
    const ir_shape x = draw_classes(c, &node, &rows);
    ir_shape one = x;
    one.dim[last_axis(x)] = 1;
    const int32_t in[] = {op_real_input(c, rows), op_real_input(c, x),
                          op_real_input(c, one),
                          op_id_input(c, rows, node.i[0])};
    return op_add_node(c, 4, in, node);
}

/* [dy,] cosines, labels. */
static int32_t case_margin(op_case *c)
{
    const ir_init cosine = {.kind = IR_INIT_UNIFORM, .spread = 0.9};
    ir_node node = {.f = {1, 0, op_draw(c, 0, 1) ? 0.35 : 0, 8}};
    ir_shape rows;
    const ir_shape x = draw_classes(c, &node, &rows);
    int32_t in[3], n = 0;
    if (op_draw(c, 0, 1)) {
        node.f[0] = 1.2;
        node.f[1] = 0.5;
    }
    if (c->op == IR_OP_margin_grad)
        in[n++] = op_real_input(c, x);
    in[n++] = op_add_input(c, c->real, x, cosine);
    in[n++] = op_id_input(c, rows, node.i[0]);
    return op_add_node(c, n, in, node);
}

/* [dy,] x, target. */
static int32_t case_bce(op_case *c)
{
    const ir_init p = {.kind = IR_INIT_UNIFORM, .mean = 0.5, .spread = 0.4};
    const ir_shape shape = op_draw_shape(c, 1, 4);
    const bool probabilities = op_draw(c, 0, 1);
    int32_t in[3], n = 0;
    if (c->op == IR_OP_bce_grad)
        in[n++] = op_real_input(c, shape);
    in[n++] = op_add_input(c, c->real, shape, probabilities ? p : op_any_real);
    in[n++] = op_add_input(c, c->real, shape, p);
    return op_add_node(c, n, in, (ir_node){.i = {probabilities}});
}

const op_case_row op_cases_loss[] = {
    {IR_OP_arg_max, case_arg_max},
    {IR_OP_top_k, case_top_k},
    {IR_OP_top_k_grad, case_top_k_grad},
    {IR_OP_cum_sum, case_cum_sum},
    {IR_OP_pick, case_pick},
    {IR_OP_pick_grad, case_pick},
    {IR_OP_label_weight, case_label_weight},
    {IR_OP_cross_entropy_rows, case_cross_entropy_rows},
    {IR_OP_cross_entropy_rows_grad, case_cross_entropy_rows_grad},
    {IR_OP_margin, case_margin},
    {IR_OP_margin_grad, case_margin},
    {IR_OP_bce, case_bce},
    {IR_OP_bce_grad, case_bce},
    {0, NULL},
};
