/* Attention: heads that share keys, masks of every width, either layout; the
 * rotation of its operands. */
#include "config.h"

#include "op_draw.h"

#include <math.h>

/* A mask that hides or is added, or none. One that hides for good leaves each
 * row its first key: a row without any has no value. */
static int32_t draw_mask(op_case *c, int32_t *in, int32_t at, ir_shape whole,
                         ir_node *node)
{
    const bool adds = c->op == IR_OP_attention_bias_grad;
    const int64_t kind = adds ? 2 : op_draw(c, 0, 2);
    const ir_shape shape = op_draw_narrow(c, whole);
    node->f[1] = op_draw(c, 0, 1) ? -3 : -INFINITY;
    if (kind == 1)
        in[at++] = op_add_input(
            c, IR_BOOL, shape,
            (ir_init){.kind = IR_INIT_CONSTANT, .mean = node->i[2] == 0});
    if (kind == 2)
        in[at++] = op_real_input(c, shape);
    return at;
}

/* Queries and keys: a few, or more than a block holds. In float not many
 * queries where all may add up to one number. */
static int64_t draw_queries(op_case *c)
{
    const bool few = c->op == IR_OP_attention_bias_grad || op_draw(c, 0, 7);
    return few ? op_draw(c, 1, 5) : 70;
}

static int64_t draw_keys(op_case *c)
{
    return op_draw(c, 0, 7) ? op_draw(c, 1, op_draw(c, 0, 1) ? 9 : 80) : 400;
}

/* q, k, v[, mask][, lengths] after what stands in in[0 .. at). */
static int32_t draw_operands(op_case *c, int32_t *in, int32_t at, ir_node *node)
{
    const int64_t b = op_draw(c, 1, 3), g = op_draw(c, 1, 3);
    const int64_t shared = op_draw(c, 1, 3);
    const int64_t t = draw_queries(c);
    const int64_t s = draw_keys(c), d = op_draw(c, 1, 5);
    const int64_t e = op_draw(c, 1, 5) + (op_draw(c, 0, 3) ? 0 : 16);
    const bool flat = op_draw(c, 0, 1) != 0;
    const ir_shape whole = {4, {b, g * shared, t, s}};
    in[at] = op_real_input(c, (ir_shape){4, {b, g * shared, t, d}});
    in[at + 1] =
        op_real_input(c, (ir_shape){4, {b, g, flat ? d : s, flat ? s : d}});
    in[at + 2] = op_real_input(c, (ir_shape){4, {b, g, s, e}});
    *node = (ir_node){.i = {op_draw(c, 0, 1), shared, op_draw(c, 0, 1), flat,
                            op_draw(c, 0, 2) == 0, op_draw(c, 0, 9)},
                      .f = {0.7, 0, op_draw(c, 0, 1) ? 0 : 0.8}};
    at = draw_mask(c, in, at + 3, whole, node);
    if (node->i[4])
        in[at++] = op_add_input(
            c, IR_I64, (ir_shape){1, {b}},
            (ir_init){.kind = IR_INIT_UNIFORM, .mean = 1, .spread = s + 2});
    return at;
}

static int32_t case_attention(op_case *c)
{
    int32_t in[5];
    ir_node node;
    const int32_t n = draw_operands(c, in, 0, &node);
    return op_add_node(c, n, in, node);
}

static int32_t case_attention_grad(op_case *c)
{
    int32_t in[8];
    ir_node node;
    const int32_t n = draw_operands(c, in, 3, &node);
    ir_shape y = ir_shape_of(c->graph, in[3]), rows = y;
    y.dim[3] = ir_shape_of(c->graph, in[5]).dim[3];
    rows.dim[3] = 2;
    in[0] = op_real_input(c, y);
    in[1] = op_real_input(c, y);
    in[2] = op_add_input(c, c->real, rows, op_positive);
    return op_add_node(c, n, in, node);
}

/* Tables of one number per column or per pair. */
static int32_t case_rotary(op_case *c)
{
    ir_shape x = op_draw_shape(c, 1, 4), lead = x;
    const int64_t columns = 2 * op_draw(c, 1, 10);
    const bool each = op_draw(c, 0, 1) != 0;
    x.dim[x.rank - 1] = columns + op_draw(c, 0, 1) * op_draw(c, 0, 3);
    lead.rank--;
    ir_shape table = op_draw_narrow(c, lead);
    table.dim[table.rank++] = each ? columns : columns / 2;
    const int32_t in[] = {op_real_input(c, x), op_real_input(c, table),
                          op_real_input(c, table)};
    return op_add_node(
        c, 3, in,
        (ir_node){.i = {op_draw(c, 0, 1), columns, op_draw(c, 0, 1)}});
}

const op_case_row op_cases_attention[] = {
    {IR_OP_attention, case_attention},
    {IR_OP_attention_grad, case_attention_grad},
    {IR_OP_attention_bias_grad, case_attention_grad},
    {IR_OP_rotary, case_rotary},
    {0, NULL},
};
