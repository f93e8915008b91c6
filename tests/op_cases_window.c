/* Convolutions and pooling. */
#include "config.h"

#include "op_draw.h"

/* Sizes of a convolution or a pooling: x (N, C, H, W) to y (N, M, H', W'). */
typedef struct planes {
    ir_shape x, w, y;
    ir_node node;
} planes;

static planes draw_planes(op_case *c, bool pool)
{
    const int64_t groups = pool ? 1 : op_draw(c, 1, 2);
    const int64_t per_group = op_draw(c, 1, 3);
    planes p = {.x = {4,
                      {op_draw(c, 2, 3), groups * per_group, op_draw(c, 5, 8),
                       op_draw(c, 5, c->wide ? 50 : 8)}},
                .w = {4,
                      {groups * op_draw(c, 1, 3), per_group, op_draw(c, 1, 3),
                       op_draw(c, 1, 3)}}};
    int64_t *i = p.node.i;
    p.y = p.x;
    p.y.dim[1] = pool ? p.x.dim[1] : p.w.dim[0];
    for (int k = 0; k < 2; k++) {
        const int64_t size = p.w.dim[2 + k];
        i[k] = op_draw(c, 1, 2);
        i[2 + k] = op_draw(c, 0, size / 2);
        i[4 + k] = op_draw(c, 0, size / 2);
        i[6 + k] = pool ? size : op_draw(c, 1, 2);
        const int64_t reach = pool ? size : (size - 1) * i[6 + k] + 1;
        p.y.dim[2 + k] =
            (p.x.dim[2 + k] + i[2 + k] + i[4 + k] - reach) / i[k] + 1;
    }
    i[8] = pool ? op_draw(c, 0, 1) : groups;
    return p;
}

static int32_t case_conv(op_case *c)
{
    planes p = draw_planes(c, false);
    ir_shape first = p.x, second = p.w, missing = p.x;
    if (c->op != IR_OP_conv2d)
        first = p.y;
    if (c->op == IR_OP_conv2d_filter_grad) {
        second = p.x;
        missing = p.w;
    }
    if (c->op != IR_OP_conv2d) {
        p.node.i[9] = missing.dim[2];
        p.node.i[10] = missing.dim[3];
    }
    const int32_t in[] = {op_real_input(c, first), op_real_input(c, second)};
    return op_add_node(c, 2, in, p.node);
}

static int32_t case_pool(op_case *c)
{
    const planes p = draw_planes(c, true);
    const int32_t x = op_add_input(c, c->real, p.x, op_far_apart);
    return op_add_node(c, 1, &x, p.node);
}

static int32_t case_max_pool_grad(op_case *c)
{
    const planes p = draw_planes(c, true);
    const int32_t dy = op_real_input(c, p.y), x = op_real_input(c, p.x);
    const int32_t y = ir_pool2d(c->graph, IR_OP_max_pool2d, x, p.node.i);
    const int32_t in[] = {dy, x, y};
    return op_add_node(c, 3, in, p.node);
}

static int32_t case_avg_pool_grad(op_case *c)
{
    planes p = draw_planes(c, true);
    const int32_t dy = op_real_input(c, p.y);
    p.node.i[9] = p.x.dim[2];
    p.node.i[10] = p.x.dim[3];
    return op_add_node(c, 1, &dy, p.node);
}

const op_case_row op_cases_window[] = {
    {IR_OP_conv2d, case_conv},
    {IR_OP_conv2d_data_grad, case_conv},
    {IR_OP_conv2d_filter_grad, case_conv},
    {IR_OP_max_pool2d, case_pool},
    {IR_OP_max_pool2d_grad, case_max_pool_grad},
    {IR_OP_avg_pool2d, case_pool},
    {IR_OP_avg_pool2d_grad, case_avg_pool_grad},
    {0, NULL},
};
