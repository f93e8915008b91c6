/* Rotations of pairs of columns as networks write them out, as one op:
 *   x cos + concat(-second half, first half) sin, tables as wide as x;
 *   concat(a cos - b sin, b cos + a sin), a and b the halves of x, tables half
 *   as wide; or every second column, put side by side again by a reshape;
 *   and the first columns alone, joined with the others as they are. */
#include "config.h"
#include "ir/rewrite_match.h"

/* Two tensors of which `node` is the product, either way round. */
typedef struct factors {
    int32_t x, table;
} factors;

static bool match_product(const ir_graph *g, int32_t tensor, int32_t x,
                          factors *out)
{
    const ir_node *node = ir_producer(g, tensor);
    if (node->op != IR_OP_mul || (node->in[0] != x && node->in[1] != x))
        return false;
    *out = (factors){x, node->in[node->in[0] == x]};
    return true;
}

/* Columns of the last axis: start, length, step. */
typedef struct columns {
    int32_t of;
    int64_t start, length, step;
} columns;

static bool match_columns(const ir_graph *g, int32_t tensor, columns *out)
{
    const ir_node *node = ir_producer(g, tensor);
    if (node->op != IR_OP_slice)
        return false;
    *out = (columns){node->in[0], node->i[1], node->i[2],
                     node->i[3] == 0 ? 1 : node->i[3]};
    return node->i[0] == g->tensors.at[node->in[0]].shape.rank - 1;
}

static int64_t width_of(const ir_graph *g, int32_t tensor)
{
    const ir_shape *shape = &g->tensors.at[tensor].shape;
    return shape->rank > 0 ? shape->dim[shape->rank - 1] : 0;
}

/* Are a and b the pairs of one tensor's columns, halves or neighbours? */
static bool match_pairs(const ir_graph *g, int32_t a, int32_t b, ir_node *out)
{
    columns first, second;
    if (!match_columns(g, a, &first) || !match_columns(g, b, &second) ||
        first.of != second.of || first.length != second.length ||
        first.step != second.step || first.start != 0 ||
        2 * first.length != width_of(g, first.of))
        return false;
    out->in[0] = first.of;
    out->i[0] = first.step == 2;
    out->i[1] = 2 * first.length;
    return first.step == 1 ? second.start == first.length
                           : first.step == 2 && second.start == 1;
}

/* ---- x cos + turned(x) sin ---- */

/* Is the tensor concat(-second half of x, first half of x)? */
static bool match_turned(const ir_graph *g, int32_t tensor, ir_node *out)
{
    const ir_node *node = ir_producer(g, tensor);
    ir_affine minus;
    return node->op == IR_OP_concat && node->n_in == 2 &&
           node->i[0] == g->tensors.at[tensor].shape.rank - 1 &&
           ir_match_affine(g, node->in[0], &minus) && minus.factor == -1 &&
           minus.offset == 0 && match_pairs(g, node->in[1], minus.x, out) &&
           out->i[0] == 0;
}

static bool match_whole(const ir_graph *g, const ir_node *node, ir_node *out)
{
    for (int32_t k = 0; node->op == IR_OP_add && k < 4; k++) {
        const ir_node *sine = ir_producer(g, node->in[k / 2]);
        factors cosine;
        if (sine->op != IR_OP_mul || !match_turned(g, sine->in[k % 2], out) ||
            !match_product(g, node->in[1 - k / 2], out->in[0], &cosine))
            continue;
        out->in[1] = cosine.table;
        out->in[2] = sine->in[1 - k % 2];
        return true;
    }
    return false;
}

/* ---- concat(a cos - b sin, b cos + a sin) ---- */

/* b cos + a sin, either way round, for the pairs and tables of `out`. */
static bool is_second(const ir_graph *g, int32_t tensor, const int32_t pair[2],
                      const ir_node *out)
{
    const ir_node *node = ir_producer(g, tensor);
    factors cosine, sine;
    for (int32_t k = 0; node->op == IR_OP_add && k < 2; k++)
        if (match_product(g, node->in[k], pair[1], &cosine) &&
            match_product(g, node->in[1 - k], pair[0], &sine) &&
            cosine.table == out->in[1] && sine.table == out->in[2])
            return true;
    return false;
}

static bool match_parts(const ir_graph *g, const int32_t parts[2], ir_node *out)
{
    const ir_node *node = ir_producer(g, parts[0]);
    if (node->op != IR_OP_sub)
        return false;
    const ir_node *left = ir_producer(g, node->in[0]);
    const ir_node *right = ir_producer(g, node->in[1]);
    for (int32_t k = 0;
         left->op == IR_OP_mul && right->op == IR_OP_mul && k < 4; k++) {
        const int32_t pair[2] = {left->in[k / 2], right->in[k % 2]};
        out->in[1] = left->in[1 - k / 2];
        out->in[2] = right->in[1 - k % 2];
        if (match_pairs(g, pair[0], pair[1], out) &&
            is_second(g, parts[1], pair, out))
            return true;
    }
    return false;
}

/* A tensor with an axis of length 1 put after its last: the one before. */
static bool match_column(const ir_graph *g, int32_t tensor, int32_t *out)
{
    const ir_node *node = ir_producer(g, tensor);
    *out = node->in[0];
    return node->op == IR_OP_reshape && width_of(g, tensor) == 1 &&
           g->tensors.at[tensor].shape.rank ==
               g->tensors.at[*out].shape.rank + 1;
}

/* Halves one after the other, or pairs side by side. */
static bool match_joined(const ir_graph *g, const ir_node *node, ir_node *out)
{
    const bool mixed = node->op == IR_OP_reshape;
    const ir_node *join = mixed ? ir_producer(g, node->in[0]) : node;
    int32_t parts[2] = {join->in[0], join->in[1]};
    if (join->op != IR_OP_concat || join->n_in != 2 ||
        join->i[0] != g->tensors.at[join->out[0]].shape.rank - 1)
        return false;
    for (int32_t k = 0; mixed && k < 2; k++)
        if (!match_column(g, parts[k], &parts[k]))
            return false;
    return match_parts(g, parts, out) && out->i[0] == mixed;
}

/* ---- the first columns alone ---- */

/* concat(rotary(first columns of x), the other columns of x). */
static bool match_first(const ir_graph *g, const ir_node *node, ir_node *out)
{
    columns turned, rest;
    if (node->op != IR_OP_concat || node->n_in != 2 ||
        node->i[0] != g->tensors.at[node->out[0]].shape.rank - 1)
        return false;
    const ir_node *rotary = ir_producer(g, node->in[0]);
    if (rotary->op != IR_OP_rotary || rotary->i[2] ||
        !match_columns(g, rotary->in[0], &turned) ||
        !match_columns(g, node->in[1], &rest) || turned.of != rest.of ||
        turned.step != 1 || rest.step != 1 || turned.start != 0 ||
        turned.length != rotary->i[1] || rest.start != turned.length ||
        rest.start + rest.length != width_of(g, rest.of))
        return false;
    *out = *rotary;
    out->in[0] = turned.of;
    return true;
}

void ir_rewrite_rotary(ir_graph *g, int32_t v)
{
    const ir_node *node = &g->nodes.at[v];
    ir_node rotary = {.op = IR_OP_rotary, .n_in = 3};
    if (match_whole(g, node, &rotary) || match_joined(g, node, &rotary)) {
        ir_graph_replace(g, v, &rotary);
        return;
    }
    rotary = (ir_node){0};
    if (match_first(g, node, &rotary))
        ir_graph_replace(g, v, &rotary);
}
