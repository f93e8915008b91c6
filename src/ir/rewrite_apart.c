/* What rules that write one op as several share: the several stand where the op
 * stood, and what read it reads them. */
#include "config.h"
#include "ir/rewrite_match.h"

/* [tensor]: is it read? */
static bool *list_read(const ir_graph *g, fs_arena *arena)
{
    bool *read = fs_new(arena, bool, g->tensors.n);
    for (int32_t v = 0; v < g->nodes.n; v++)
        for (int32_t k = 0; k < g->nodes.at[v].n_in; k++)
            read[g->nodes.at[v].in[k]] = true;
    for (int32_t i = 0; i < g->outputs.n; i++)
        read[g->outputs.at[i]] = true;
    for (int32_t t = 0; t < g->tensors.n; t++)
        if (g->tensors.at[t].next >= 0)
            read[g->tensors.at[t].next] = true;
    return read;
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

void ir_write_apart(ir_graph *g, ir_writer *write)
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
        int32_t out[IR_MAX_OUT] = {-1, -1, -1, -1};
        for (int32_t k = 0; k < g->nodes.at[v].n_in; k++)
            g->nodes.at[v].in[k] = same[g->nodes.at[v].in[k]];
        const ir_node node = g->nodes.at[v];
        g->scope = node.name;
        write(g, &node, read, out);
        places[v] = g->nodes.n - before;
        for (int32_t k = 0; k < node.n_out; k++)
            if (out[k] >= 0) {
                take_over(g, node.out[k], out[k]);
                same[node.out[k]] = out[k];
            }
    }
    g->scope = scope;
    if (g->err.status == FS_OK && g->nodes.n > n)
        put_in_place(g, places, n, arena);
    fs_arena_destroy(arena);
}
