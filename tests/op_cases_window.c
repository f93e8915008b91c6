/* Convolutions and pooling. */
#include "config.h"

#include "op_draw.h"

#include "ir/window.h"

/* Sizes of a convolution or a pooling: x (N, C, H..) to y (N, M, H'..). */
typedef struct planes {
    ir_shape x, w, y;
    ir_node node;
    bool large; /* the last axis has windows of 5 or 7 */
} planes;

/* One spatial axis. Every third lies so that its windows are side by side and
 * the axis may be cut; one that is `large` is long enough to be cut with the
 * halo that its window wants. */
static void draw_axis(op_case *c, planes *p, int32_t k, bool pool)
{
    int64_t *i = p->node.i;
    const int32_t axis = 2 + k;
    const bool last = axis == p->x.rank - 1;
    const bool large = p->large && last;
    const int64_t size = large ? op_draw(c, 2, 3) * 2 + 1 : op_draw(c, 1, 3);
    const int64_t dilation = large ? 1 : op_draw(c, 1, 2);
    const int64_t reach = (size - 1) * dilation + 1;
    const bool tiles = op_draw(c, 0, 2) == 0;
    int64_t stride = op_draw(c, 1, 3), length, before = 0, after = 0;
    if (large) {
        length = op_draw(c, 7, 18);
        before = op_draw(c, 0, 1) ? size / 2 : op_draw(c, 0, size / 2);
        after = op_draw(c, 0, 1) ? before : op_draw(c, 0, size / 2);
    } else if (tiles) {
        stride = reach + op_draw(c, 0, 1);
        length = stride * op_draw(c, 2, 4);
    } else {
        length = op_draw(c, 5, c->wide && last ? 50 : 8);
        before = op_draw(c, 0, reach / 2);
        after = op_draw(c, 0, reach / 2);
    }
    i[IR_WINDOW_STRIDE + k] = stride;
    i[IR_WINDOW_BEFORE + k] = before;
    i[IR_WINDOW_AFTER + k] = after;
    i[IR_WINDOW_SPREAD + k] = pool ? size : dilation;
    i[IR_WINDOW_DILATION + k] = pool ? dilation : 0;
    p->w.dim[axis] = size;
    p->x.dim[axis] = length;
    p->y.dim[axis] = (length + before + after - reach) / stride + 1;
}

static planes draw_planes(op_case *c, bool pool)
{
    const int64_t groups = pool ? 1 : op_draw(c, 1, 3);
    const int64_t per_group = op_draw(c, 1, 3);
    const int32_t rank = (int32_t)op_draw(c, 3, 5);
    planes p = {.x = {rank, {op_draw(c, 2, 3), groups * per_group}},
                .w = {rank, {groups * op_draw(c, 1, 3), per_group}}};
    p.large = rank < 5 && op_draw(c, 0, 2) == 0;
    p.y = (ir_shape){rank, {p.x.dim[0], pool ? p.x.dim[1] : p.w.dim[0]}};
    for (int32_t k = 0; k < rank - 2; k++)
        draw_axis(c, &p, k, pool);
    p.node.i[IR_WINDOW_GROUPS] = groups;
    if (pool)
        p.node.i[IR_WINDOW_MODE] = op_draw(c, 0, 15);
    return p;
}

static void set_lengths(ir_node *node, const ir_shape *like)
{
    for (int32_t k = 0; k < IR_MAX_SPACE; k++)
        node->i[IR_WINDOW_LENGTH + k] =
            k < like->rank - 2 ? like->dim[2 + k] : 0;
}

static int32_t case_conv(op_case *c)
{
    planes p = draw_planes(c, false);
    ir_shape first = p.x, second = p.w, missing = p.x;
    if (c->op != IR_OP_conv)
        first = p.y;
    if (c->op == IR_OP_conv_filter_grad) {
        second = p.x;
        missing = p.w;
    }
    if (c->op != IR_OP_conv)
        set_lengths(&p.node, &missing);
    const int32_t in[] = {op_real_input(c, first), op_real_input(c, second)};
    return op_add_node(c, 2, in, p.node);
}

static int32_t case_pool(op_case *c)
{
    planes p = draw_planes(c, true);
    const int32_t x = op_add_input(c, c->real, p.x, op_far_apart);
    if (c->op == IR_OP_avg_pool)
        set_lengths(&p.node, &(ir_shape){0});
    return op_add_node(c, 1, &x, p.node);
}

static int32_t case_max_pool_grad(op_case *c)
{
    const planes p = draw_planes(c, true);
    const int32_t x = op_real_input(c, p.x);
    const int32_t y = ir_pool(c->graph, IR_OP_max_pool, x, p.node.i);
    const int32_t dy = op_real_input(c, ir_shape_of(c->graph, y));
    const int32_t in[] = {dy, x, y};
    return op_add_node(c, 3, in, p.node);
}

/* The shape of y is that of a pooling which nothing reads. */
static int32_t case_avg_pool_grad(op_case *c)
{
    planes p = draw_planes(c, true);
    const int32_t x = op_real_input(c, p.x);
    const int32_t y = ir_pool(c->graph, IR_OP_avg_pool, x, p.node.i);
    const int32_t dy = op_real_input(c, ir_shape_of(c->graph, y));
    set_lengths(&p.node, &p.x);
    return op_add_node(c, 1, &dy, p.node);
}

/* Places up to a quarter beyond the planes. */
static int32_t case_grid(op_case *c)
{
    const ir_init around = {.kind = IR_INIT_UNIFORM, .spread = 1.25};
    const int32_t rank = (int32_t)op_draw(c, 4, 5);
    ir_shape x = {rank, {op_draw(c, 2, 3), op_draw(c, 1, 3)}}, y = x, grid = x;
    ir_node node = {
        .i = {op_draw(c, 0, 2), op_draw(c, 0, 2), op_draw(c, 0, 1)}};
    for (int32_t k = 2; k < rank; k++) {
        x.dim[k] = op_draw(c, 1, 4);
        y.dim[k] = grid.dim[k - 1] = op_draw(c, 1, 3);
    }
    grid.dim[rank - 1] = rank - 2;
    if (c->op == IR_OP_grid_sample_data_grad)
        for (int32_t k = 2; k < rank; k++)
            node.i[1 + k] = x.dim[k];
    const int32_t places = op_add_input(c, c->real, grid, around);
    if (c->op == IR_OP_grid_sample_grid_grad) {
        const int32_t in[] = {op_real_input(c, y), op_real_input(c, x), places};
        return op_add_node(c, 3, in, node);
    }
    const int32_t in[] = {op_real_input(c, c->op == IR_OP_grid_sample ? x : y),
                          places};
    return op_add_node(c, 2, in, node);
}

const op_case_row op_cases_window[] = {
    {IR_OP_conv, case_conv},
    {IR_OP_conv_data_grad, case_conv},
    {IR_OP_conv_filter_grad, case_conv},
    {IR_OP_max_pool, case_pool},
    {IR_OP_max_pool_index, case_pool},
    {IR_OP_max_pool_grad, case_max_pool_grad},
    {IR_OP_avg_pool, case_pool},
    {IR_OP_avg_pool_grad, case_avg_pool_grad},
    {IR_OP_grid_sample, case_grid},
    {IR_OP_grid_sample_data_grad, case_grid},
    {IR_OP_grid_sample_grid_grad, case_grid},
    {0, NULL},
};
