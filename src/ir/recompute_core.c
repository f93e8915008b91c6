/* The core of attention: what lies between the product of queries and keys and
 * that with values, both products too. */
#include "config.h"
#include "ir/recompute_core.h"

#include "ir/op.h"
#include "ir/op_util.h"

/* Where a node stands on the way, as far as what it reads tells. */
typedef enum place {
    ELSEWHERE,
    SCORES,  /* the product of two activations, or made of one by no other */
    WEIGHTS, /* a softmax of these, or made of one */
} place;

/* A matrix product of two tensors that depend on the input. */
static bool joins_activations(const ir_graph *g, const bool *moving,
                              const ir_node *node)
{
    return node->op == IR_OP_matmul && node->n_in >= 2 &&
           moving[g->tensors.at[node->in[0]].producer] &&
           moving[g->tensors.at[node->in[1]].producer];
}

static void find_places(const ir_graph *g, int32_t n, const bool *moving,
                        place *at)
{
    for (int32_t v = 0; v < n; v++) {
        const ir_node *node = &g->nodes.at[v];
        at[v] = ELSEWHERE;
        if (ir_op_is_dense(node->op)) {
            at[v] = joins_activations(g, moving, node) ? SCORES : ELSEWHERE;
            continue;
        }
        for (int32_t k = 0; k < node->n_in; k++) {
            const place from = at[g->tensors.at[node->in[k]].producer];
            at[v] = from > at[v] ? from : at[v];
        }
        if (node->op == IR_OP_softmax && at[v] == SCORES)
            at[v] = WEIGHTS;
    }
}

/* From products that take weights back to the scores that these are made of. */
static void mark(const ir_graph *g, int32_t n, const bool *moving,
                 const place *at, bool *out)
{
    for (int32_t v = n - 1; v >= 0; v--) {
        const ir_node *node = &g->nodes.at[v];
        const bool dense = ir_op_is_dense(node->op);
        const bool ends = joins_activations(g, moving, node);
        for (int32_t k = 0; k < node->n_in; k++) {
            const int32_t from = g->tensors.at[node->in[k]].producer;
            if (at[from] == WEIGHTS && (ends || (out[v] && !dense))) {
                out[from] = true;
                out[v] = true;
            } else if (at[from] == SCORES && out[v] && !dense)
                out[from] = true;
        }
        out[v] |= node->op == IR_OP_attention;
    }
}

void ir_attention_core(const ir_graph *graph, int32_t n, fs_arena *arena,
                       bool *out)
{
    bool *moving = fs_new(arena, bool, n);
    place *at = fs_new(arena, place, n);
    for (int32_t v = 0; v < n; v++) {
        const ir_node *node = &graph->nodes.at[v];
        moving[v] = node->op == IR_OP_input;
        out[v] = false;
        for (int32_t k = 0; k < node->n_in; k++)
            moving[v] |= moving[graph->tensors.at[node->in[k]].producer];
    }
    find_places(graph, n, moving, at);
    mark(graph, n, moving, at, out);
}
