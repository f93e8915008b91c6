#include "config.h"
#include "ir/graph.h"

/* Marks what is wanted for its own sake: variables, their next values,
 * outputs, the loss. */
static void mark_roots(const ir_graph *graph, bool *needed)
{
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        ir_op_kind op = graph->nodes.at[v].op;
        needed[v] = op == IR_OP_output || op == IR_OP_variable;
    }
    for (int32_t t = 0; t < graph->tensors.n; t++) {
        int32_t next = graph->tensors.at[t].next;
        if (next >= 0)
            needed[graph->tensors.at[next].producer] = true;
    }
    if (graph->loss >= 0)
        needed[graph->tensors.at[graph->loss].producer] = true;
}

/* Nodes stand in topological order: one sweep from the end suffices. */
static void mark_needed(const ir_graph *graph, bool *needed)
{
    for (int32_t v = graph->nodes.n - 1; v >= 0; v--) {
        const ir_node *node = &graph->nodes.at[v];
        for (int32_t i = 0; needed[v] && i < node->n_in; i++)
            needed[graph->tensors.at[node->in[i]].producer] = true;
    }
}

/* Moves the kept tensors to the front; new_id[t] is -1 for the others. */
static void pack_tensors(ir_graph *graph, const bool *needed,
                         const int32_t *new_node, int32_t *new_id)
{
    int32_t n = 0;
    for (int32_t t = 0; t < graph->tensors.n; t++) {
        ir_tensor tensor = graph->tensors.at[t];
        new_id[t] = -1;
        if (!needed[tensor.producer])
            continue;
        tensor.producer = new_node[tensor.producer];
        graph->tensors.at[n] = tensor;
        new_id[t] = n++;
    }
    graph->tensors.n = n;
    for (int32_t t = 0; t < n; t++) {
        ir_tensor *tensor = &graph->tensors.at[t];
        tensor->next = tensor->next < 0 ? -1 : new_id[tensor->next];
        tensor->again_of = tensor->again_of < 0 ? -1 : new_id[tensor->again_of];
    }
}

static void pack_nodes(ir_graph *graph, const bool *needed, int32_t *new_node)
{
    int32_t n = 0;
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        new_node[v] = needed[v] ? n : -1;
        if (needed[v])
            graph->nodes.at[n++] = graph->nodes.at[v];
    }
    graph->nodes.n = n;
}

static void renumber(ir_graph *graph, const int32_t *new_node,
                     const int32_t *new_id)
{
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        ir_node *node = &graph->nodes.at[v];
        for (int32_t i = 0; i < node->n_in; i++)
            node->in[i] = new_id[node->in[i]];
        for (int32_t i = 0; i < node->n_out; i++)
            node->out[i] = new_id[node->out[i]];
        if (node->forward >= 0)
            node->forward = new_node[node->forward];
    }
    for (int32_t i = 0; i < graph->outputs.n; i++)
        graph->outputs.at[i] = new_id[graph->outputs.at[i]];
    if (graph->loss >= 0)
        graph->loss = new_id[graph->loss];
    if (graph->forward >= 0)
        graph->forward = new_node[graph->forward];
}

void ir_graph_keep(ir_graph *graph, const bool *keep)
{
    fs_arena *arena = fs_arena_create();
    int32_t *new_node = fs_new(arena, int32_t, graph->nodes.n);
    int32_t *new_id = fs_new(arena, int32_t, graph->tensors.n);
    pack_nodes(graph, keep, new_node);
    pack_tensors(graph, keep, new_node, new_id);
    renumber(graph, new_node, new_id);
    fs_map_renumber(&graph->names, new_id);
    fs_map_renumber(&graph->node_names, new_node);
    FS_ASSERT(graph->names.n == graph->tensors.n);
    FS_ASSERT(graph->node_names.n == graph->nodes.n);
    ir_graph_changes(graph);
    fs_arena_destroy(arena);
}

void ir_graph_prune(ir_graph *graph)
{
    if (graph->err.status != FS_OK || (!graph->outputs.n && graph->loss < 0))
        return;
    fs_arena *arena = fs_arena_create();
    bool *needed = fs_new(arena, bool, graph->nodes.n);
    mark_roots(graph, needed);
    mark_needed(graph, needed);
    ir_graph_keep(graph, needed);
    fs_arena_destroy(arena);
}
