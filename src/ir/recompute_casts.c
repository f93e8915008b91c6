/* Which casts of mixed precision are computed again. A cast costs next to
 * nothing and says nothing that its input does not: where that is at hand in
 * the backward pass, or is the smaller of both, it is the one to keep. */
#include "config.h"
#include "ir/recompute.h"

#include "ir/op.h"

bool ir_changes_precision(const ir_graph *graph, const ir_node *node)
{
    if (node->op != IR_OP_cast)
        return false;
    const ir_dtype from = graph->tensors.at[node->in[0]].dtype;
    const ir_dtype to = graph->tensors.at[node->out[0]].dtype;
    return ir_dtype_is_float(from) && ir_dtype_is_float(to) &&
           ir_dtype_widened(from) == ir_dtype_widened(to);
}

/* Is a tensor there in the backward pass, kept or made again? A view is where
 * what it views is; sources are there always. */
static bool at_hand(const ir_graph *graph, const ir_recompute_set *set,
                    const bool *wanted, int32_t tensor)
{
    for (;;) {
        const int32_t producer = graph->tensors.at[tensor].producer;
        const ir_node *maker = &graph->nodes.at[producer];
        const ir_op_class class = ir_op_class_of(maker->op);
        if (wanted[tensor] || set->again[producer] || class == IR_CLASS_SOURCE)
            return true;
        if (class != IR_CLASS_VIEW)
            return false;
        tensor = maker->in[0];
    }
}

/* What a kept view views is kept. */
static bool *list_wanted(const ir_graph *graph, const ir_recompute_set *set,
                         fs_arena *arena)
{
    bool *wanted = fs_new(arena, bool, graph->tensors.n);
    ir_recompute_wanted(graph, set, wanted);
    for (int32_t v = set->n - 1; v >= 0; v--) {
        const ir_node *node = &graph->nodes.at[v];
        if (ir_op_class_of(node->op) == IR_CLASS_VIEW && node->n_out > 0)
            wanted[node->in[0]] |= wanted[node->out[0]];
    }
    return wanted;
}

static bool narrows(const ir_graph *graph, const ir_node *node)
{
    return ir_dtype_bytes(graph->tensors.at[node->out[0]].dtype) <
           ir_dtype_bytes(graph->tensors.at[node->in[0]].dtype);
}

void ir_recompute_casts(const ir_graph *graph, ir_recompute_set *set)
{
    bool *wanted = NULL;
    fs_arena *arena = fs_arena_create();
    for (int32_t v = 0; v < set->n; v++) {
        const ir_node *node = &graph->nodes.at[v];
        if (!ir_changes_precision(graph, node))
            continue;
        if (!wanted)
            wanted = list_wanted(graph, set, arena);
        if (!narrows(graph, node) || at_hand(graph, set, wanted, node->in[0]))
            set->again[v] = true;
    }
    fs_arena_destroy(arena);
}
