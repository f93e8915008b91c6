/* Rows in parts: softmax, log softmax, layer norm and cross entropy as
 * reductions and element-wise ops, each of which is legal on a row that is cut
 * (losses.c says why), so that the search may cut it: a vocabulary, the hidden
 * axis of a norm. More passes over memory on one device, so `parts` is not
 * usual; cross entropy touches no more bytes in parts, only more launches, so
 * `entropy`, of many classes only, is. The parts stand where the op stood; what
 * read it reads them. */
#include "config.h"
#include "ir/losses.h"
#include "ir/rewrite_match.h"

static int32_t last_axis(const ir_graph *g, int32_t x)
{
    return ir_shape_of(g, x).rank - 1;
}

/* (x - mean) / sqrt(variance + epsilon) [* gain [+ bias]]; without centring
 * (i[0]) the mean counts as 0. */
static int32_t norm_parts(ir_graph *g, const ir_node *node)
{
    int32_t x = node->in[0];
    const uint32_t axes = 1u << last_axis(g, x);
    if (!node->i[0])
        x = ir_binary(g, IR_OP_sub, x, ir_reduce_mean(g, x, axes, true));
    int32_t spread = ir_reduce_mean(g, ir_power(g, x, 2), axes, true);
    int32_t factor = ir_power(g, ir_scale(g, spread, 1, node->f[0]), -0.5);
    int32_t y = ir_binary(g, IR_OP_mul, x, factor);
    if (node->n_in > 1)
        y = ir_binary(g, IR_OP_mul, y, node->in[1]);
    return node->n_in > 2 ? ir_binary(g, IR_OP_add, y, node->in[2]) : y;
}

static int32_t entropy_parts(ir_graph *g, const ir_node *node)
{
    const ir_label_loss loss = {
        .labels = node->in[1], .weights = -1, .reduction = IR_ROWS_SUM};
    int32_t sum = ir_cross_entropy_parts(g, node->in[0], &loss);
    return ir_scale(g, sum, node->f[0], 0);
}

/* A node's first output, written in parts; -1: it stays as it is. */
typedef int32_t parts_of(ir_graph *g, const ir_node *node);

static int32_t row_parts(ir_graph *g, const ir_node *node)
{
    switch (node->op) {
    case IR_OP_softmax:
        return ir_softmax_parts(g, node->in[0], last_axis(g, node->in[0]));
    case IR_OP_log_softmax:
        return ir_log_softmax_parts(g, node->in[0], last_axis(g, node->in[0]));
    case IR_OP_layer_norm:
        return norm_parts(g, node);
    case IR_OP_cross_entropy:
        return entropy_parts(g, node);
    default:
        return -1;
    }
}

/* With fewer classes than a vocabulary has, cutting them saves less than the
 * launches of the parts take. */
enum { MANY_CLASSES = 8192 };

static int32_t loss_parts(ir_graph *g, const ir_node *node)
{
    if (node->op != IR_OP_cross_entropy)
        return -1;
    const ir_shape x = ir_shape_of(g, node->in[0]);
    return x.dim[x.rank - 1] < MANY_CLASSES ? -1 : entropy_parts(g, node);
}

/* [tensor]: is it read? */
static bool *list_read(const ir_graph *g, fs_arena *arena)
{
    bool *read = fs_new(arena, bool, g->tensors.n);
    for (int32_t v = 0; v < g->nodes.n; v++)
        for (int32_t k = 0; k < g->nodes.at[v].n_in; k++)
            read[g->nodes.at[v].in[k]] = true;
    for (int32_t i = 0; i < g->outputs.n; i++)
        read[g->outputs.at[i]] = true;
    return read;
}

/* Moments and probabilities have no counterpart among the parts. */
static bool reads_first_only(const ir_node *node, const bool *read)
{
    for (int32_t k = 1; k < node->n_out; k++)
        if (read[node->out[k]])
            return false;
    return true;
}

/* Tensor `to` is what `from` was, by name and to those outside the graph. */
static void take_over(ir_graph *g, int32_t from, int32_t to)
{
    const char *name = g->tensors.at[from].name;
    ir_graph_rename(g, from, fs_printf(g->arena, "%s.whole", name));
    ir_graph_rename(g, to, name);
    if (g->loss == from)
        g->loss = to;
    for (int32_t i = 0; i < g->outputs.n; i++)
        if (g->outputs.at[i] == from)
            g->outputs.at[i] = to;
    for (int32_t t = 0; t < g->tensors.n; t++)
        if (g->tensors.at[t].next == from)
            g->tensors.at[t].next = to;
}

/* Node v, then what was appended for it: places[v] of them. */
static void put_in_place(ir_graph *g, const int32_t *places, int32_t n,
                         fs_arena *arena)
{
    int32_t *order = fs_new(arena, int32_t, g->nodes.n);
    int32_t at = 0, next = n;
    for (int32_t v = 0; v < n; v++) {
        order[at++] = v;
        for (int32_t k = 0; k < places[v]; k++)
            order[at++] = next++;
    }
    ir_graph_reorder(g, order);
}

static void rewrite(ir_graph *g, parts_of *write)
{
    const int32_t n = g->nodes.n, n_tensors = g->tensors.n;
    const char *scope = g->scope;
    fs_arena *arena = fs_arena_create();
    const bool *read = list_read(g, arena);
    int32_t *same = fs_new(arena, int32_t, n_tensors);
    int32_t *places = fs_new(arena, int32_t, n);
    for (int32_t t = 0; t < n_tensors; t++)
        same[t] = t;
    for (int32_t v = 0; v < n && g->err.status == FS_OK; v++) {
        const int32_t before = g->nodes.n;
        for (int32_t k = 0; k < g->nodes.at[v].n_in; k++)
            g->nodes.at[v].in[k] = same[g->nodes.at[v].in[k]];
        const ir_node node = g->nodes.at[v];
        g->scope = node.name;
        int32_t y = reads_first_only(&node, read) ? write(g, &node) : -1;
        if (y < 0)
            continue;
        places[v] = g->nodes.n - before;
        take_over(g, same[node.out[0]], y);
        same[node.out[0]] = y;
    }
    g->scope = scope;
    if (g->err.status == FS_OK && g->nodes.n > n)
        put_in_place(g, places, n, arena);
    fs_arena_destroy(arena);
}

void ir_rewrite_entropy(ir_graph *g)
{
    rewrite(g, loss_parts);
}

void ir_rewrite_parts(ir_graph *g)
{
    rewrite(g, row_parts);
}
