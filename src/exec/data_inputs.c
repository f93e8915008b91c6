/* What the inputs of a graph want of data. */
#include "config.h"
#include "exec/data_kinds.h"

#include "ir/op.h"

exec_inputs exec_list_inputs(const ir_graph *graph, fs_arena *arena)
{
    exec_inputs inputs = {0};
    for (int32_t v = 0; v < graph->nodes.n; v++)
        if (graph->nodes.at[v].op == IR_OP_input)
            fs_push(arena, &inputs,
                    &graph->tensors.at[graph->nodes.at[v].out[0]]);
    return inputs;
}

/* What ids in an integer input that is `carried` must be below; 0: the reader
 * does not say. */
static int64_t ids_below(const ir_graph *graph, const ir_node *node,
                         const bool *carried)
{
    const ir_op *op = ir_op_table[node->op];
    int64_t limit = 0;
    ir_io io;
    for (int32_t k = 0; op->ids_below && k < node->n_in && limit == 0; k++)
        if (carried[node->in[k]]) {
            ir_node_io(graph, node, &io);
            limit = op->ids_below(node, &io, k);
        }
    return limit;
}

/* Follows moves of the tensor (nodes are in topological order, so one pass
 * does). */
int64_t exec_count_values(const ir_graph *graph, const ir_tensor *input,
                          fs_arena *arena)
{
    bool *carries = fs_new(arena, bool, graph->tensors.n);
    carries[input - graph->tensors.at] = true;
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        const ir_node *node = &graph->nodes.at[v];
        const int64_t n = ids_below(graph, node, carries);
        if (n > 0)
            return n;
        if (node->n_in == 1 && carries[node->in[0]])
            for (int32_t o = 0; o < node->n_out; o++)
                carries[node->out[o]] = true;
    }
    return -1;
}
