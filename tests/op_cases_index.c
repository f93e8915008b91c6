#include "config.h"

#include "op_draw.h"

/* Ids from -length to length - 1; most repeat. */
static int32_t any_ids(op_case *c, ir_shape shape, int64_t length)
{
    ir_init both = {.kind = IR_INIT_UNIFORM,
                    .mean = (double)-length,
                    .spread = (double)(2 * length)};
    return op_add_input(c, op_draw(c, 0, 1) ? IR_I32 : IR_I64, shape, both);
}

static ir_shape shorter(op_case *c, ir_shape shape)
{
    for (int32_t i = 0; i < shape.rank; i++)
        if (op_draw(c, 0, 3) == 0)
            shape.dim[i] = op_draw(c, 1, shape.dim[i]);
    return shape;
}

static int32_t case_gather_elements(op_case *c)
{
    const ir_shape x = op_draw_shape(c, 1, 4);
    const int32_t axis = (int32_t)op_draw(c, 0, x.rank - 1);
    ir_shape ids = shorter(c, x);
    ids.dim[axis] = op_draw(c, 1, 6);
    const int32_t in[] = {op_real_input(c, x), any_ids(c, ids, x.dim[axis])};
    return op_add_node(c, 2, in, (ir_node){.i = {axis, x.dim[axis]}});
}

/* Of mul, zeros too: a product of several is zero by one of them or more. */
static int32_t updates(op_case *c, ir_shape shape, int64_t kind)
{
    enum { MUL = 2 };
    return op_add_input(c, c->real, shape,
                        kind == MUL ? op_some_zeros : op_not_small);
}

static int32_t case_scatter_elements(op_case *c)
{
    const ir_shape x = op_draw_shape(c, 1, 4);
    const int32_t axis = (int32_t)op_draw(c, 0, x.rank - 1);
    const int64_t kind = op_draw(c, 0, 4);
    ir_shape ids = shorter(c, x);
    ids.dim[axis] = op_draw(c, 1, 6);
    const int32_t in[] = {op_real_input(c, x), any_ids(c, ids, x.dim[axis]),
                          updates(c, ids, kind)};
    return op_add_node(c, 3, in, (ir_node){.i = {axis, x.dim[axis], kind}});
}

/* x (B.., I.., S..) and positions (B.., J.., K); `lengths` of the I axes. */
typedef struct nd_case {
    ir_shape x, ids, slices;
    ir_node node;
    int64_t least; /* length that bounds all ids */
} nd_case;

static nd_case draw_nd(op_case *c)
{
    nd_case d = {.least = 100};
    const int32_t n = (int32_t)op_draw(c, 0, 1), k = (int32_t)op_draw(c, 1, 2);
    const int32_t below = (int32_t)op_draw(c, 0, 2);
    d.node.i[0] = n;
    for (int32_t i = 0; i < n; i++)
        d.ids.dim[d.ids.rank++] = d.x.dim[d.x.rank++] = op_draw(c, 1, 4);
    for (int32_t i = 0; i < k; i++) {
        d.node.i[1 + i] = d.x.dim[d.x.rank++] = op_draw(c, 2, 5);
        d.least = d.node.i[1 + i] < d.least ? d.node.i[1 + i] : d.least;
    }
    for (int32_t i = (int32_t)op_draw(c, 0, 2); i > 0; i--)
        d.ids.dim[d.ids.rank++] = op_draw(c, 1, 4);
    d.slices = d.ids;
    d.ids.dim[d.ids.rank++] = k;
    for (int32_t i = 0; i < below; i++)
        d.slices.dim[d.slices.rank++] = d.x.dim[d.x.rank++] = op_draw(c, 1, 4);
    return d;
}

static int32_t case_gather_nd(op_case *c)
{
    const nd_case d = draw_nd(c);
    const int32_t in[] = {op_real_input(c, d.x), any_ids(c, d.ids, d.least)};
    return op_add_node(c, 2, in, d.node);
}

static int32_t case_scatter_nd(op_case *c)
{
    const int64_t kind = op_draw(c, 0, 4);
    nd_case d = draw_nd(c);
    d.node.i[9] = kind;
    const int32_t in[] = {op_real_input(c, d.x), any_ids(c, d.ids, d.least),
                          updates(c, d.slices, kind)};
    return op_add_node(c, 3, in, d.node);
}

static int32_t case_one_hot(op_case *c)
{
    const ir_shape ids = op_draw_shape(c, 0, 3);
    const int64_t depth = op_draw(c, 1, 6);
    const int32_t in = any_ids(c, ids, depth + 1);
    ir_node node = {.i = {op_draw(c, 0, ids.rank), depth,
                          op_draw(c, 0, 1) ? IR_I32 : c->real},
                    .f = {-1, 2}};
    return op_add_node(c, 1, &in, node);
}

static int32_t case_trilu(op_case *c)
{
    const int32_t x = op_real_input(c, op_draw_shape(c, 2, 4));
    return op_add_node(c, 1, &x,
                       (ir_node){.i = {op_draw(c, 0, 1), op_draw(c, -3, 3)}});
}

const op_case_row op_cases_index[] = {
    {IR_OP_gather_elements, case_gather_elements},
    {IR_OP_scatter_elements, case_scatter_elements},
    {IR_OP_gather_nd, case_gather_nd},
    {IR_OP_scatter_nd, case_scatter_nd},
    {IR_OP_one_hot, case_one_hot},
    {IR_OP_trilu, case_trilu},
    {0, NULL},
};
