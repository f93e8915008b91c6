/* Recurrent layers. */
#include "config.h"

#include "op_draw.h"

#include "ir/recurrent.h"

static const ir_init weights = {.kind = IR_INIT_UNIFORM, .spread = 0.4};

/* Attributes, and the inputs that both ops share. */
typedef struct layer {
    ir_node node;
    ir_cell_sizes n;
    int64_t t, b, h;
    int32_t r, first, extra, lengths; /* lengths: -1 */
} layer;

static layer draw_layer(op_case *c)
{
    const int64_t cell = op_draw(c, 0, 2);
    layer l = {.n = ir_cell_of(cell),
               .t = op_draw(c, 1, 4),
               .b = op_draw(c, 1, 4),
               .h = op_draw(c, 1, c->wide ? 40 : 3),
               .lengths = -1};
    l.node.i[IR_CELL_KIND] = cell;
    l.node.i[IR_CELL_REVERSE] = op_draw(c, 0, 1);
    l.node.i[IR_CELL_VARIANT] = cell ? op_draw(c, 0, 1) : 0;
    for (int32_t k = 0; k < 3; k++) {
        l.node.i[IR_CELL_F + k] = op_draw(c, 0, IR_ACTIVATION_COUNT - 1);
        l.node.f[2 * k] = 0.3;
        l.node.f[2 * k + 1] = 0.7;
    }
    l.node.f[IR_CELL_CLIP] = op_draw(c, 0, 1) ? 0.8 : 0;
    l.r =
        op_add_input(c, c->real, (ir_shape){3, {l.n.gates, l.h, l.h}}, weights);
    l.first = op_real_input(c, (ir_shape){3, {l.b, l.n.states, l.h}});
    l.extra = op_real_input(c, (ir_shape){2, {l.n.extra, l.h}});
    if (op_draw(c, 0, 1))
        l.lengths = op_id_input(c, (ir_shape){1, {l.b}}, l.t + 1);
    return l;
}

static int32_t case_recurrent(op_case *c)
{
    layer l = draw_layer(c);
    const int32_t in[] = {
        op_real_input(c, (ir_shape){4, {l.t, l.b, l.n.gates, l.h}}), l.r,
        l.first, l.extra, l.lengths};
    return op_add_node(c, l.lengths < 0 ? 4 : 5, in, l.node);
}

static int32_t case_recurrent_grad(op_case *c)
{
    layer l = draw_layer(c);
    const ir_shape y = {3, {l.t, l.b, l.h}};
    const ir_shape state = {3, {l.b, l.n.states, l.h}};
    const ir_shape saved = {4, {l.t, l.b, l.n.saved, l.h}};
    const int32_t in[] = {op_real_input(c, y),
                          op_real_input(c, state),
                          l.r,
                          l.first,
                          l.extra,
                          op_real_input(c, y),
                          op_real_input(c, saved),
                          l.lengths};
    return op_add_node(c, l.lengths < 0 ? 7 : 8, in, l.node);
}

const op_case_row op_cases_recurrent[] = {
    {IR_OP_recurrent, case_recurrent},
    {IR_OP_recurrent_grad, case_recurrent_grad},
    {0, NULL},
};
