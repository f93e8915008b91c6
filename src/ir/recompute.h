/* Recomputation: copies of forward nodes in the backward pass, so that their
 * results need not be kept from one to the other. */
#ifndef FS_IR_RECOMPUTE_H
#define FS_IR_RECOMPUTE_H

#include "ir/graph.h"

/* The forward pass of a training graph: its first n nodes. */
typedef struct ir_recompute_set {
    int32_t n;
    bool *again; /* [n] computed again where the backward pass needs it */
} ir_recompute_set;

/* Casts of mixed precision (recompute_casts.c) and what a policy chooses: a
 * name of recompute.def or a regular expression over names of nodes; NULL, ""
 * or "casts": no more; "nothing": not even casts. Sources are never chosen;
 * views follow what they view. FS_INVALID: the policy chooses nothing though it
 * is to, or the expression is none. */
fs_status ir_recompute_choose(const ir_graph *graph, const char *policy,
                              fs_arena *arena, fs_err *err,
                              ir_recompute_set *out);

/* A cast to or from a 16-bit float, of mixed precision; others are the
 * network's own. */
bool ir_changes_precision(const ir_graph *graph, const ir_node *node);
/* Adds the casts to or from a 16-bit float that would be kept for the backward
 * pass beside what they cast, or in more bytes than that, or
 * though what they cast is made again. */
void ir_recompute_casts(const ir_graph *graph, ir_recompute_set *set);

/* Of a training graph (ir_train calls it): backward nodes read copies of the
 * nodes of the set, each placed before the first that needs it. Copies that are
 * there already stay; once more, it adds to them.
 * Draws are the same again: they hang on the seed, which a copy has too.
 * FS_INVALID as above. */
fs_status ir_recompute(ir_graph *graph, const char *policy, fs_err *err);

/* Nodes of a training graph that were placed on stages, stage_of[nodes]: who
 * reads a copy of another stage would wait for what that stage does later, so
 * it reads the tensor of the forward pass instead, which crosses on the way
 * forward. Copies that nobody reads then are dropped: node ids change, and
 * stage_of[] with them. Bound once more, the graph stays as it is. */
void ir_recompute_bind(ir_graph *graph, int32_t *stage_of);
/* Would that change anything? */
bool ir_recompute_crosses(const ir_graph *graph, const int32_t *stage_of);

/* Nodes that compute others again, copies[nodes], do so no more: who reads them
 * reads what the forward pass made, which is kept for it, and copies that
 * nobody reads then are dropped. of[nodes]: any numbers of nodes, which follow
 * them. */
void ir_recompute_keep(ir_graph *graph, const bool *copies, int32_t *of);
/* Is it a copy, which makes all that its node of the forward pass makes? */
bool ir_computes_again(const ir_graph *graph, int32_t v);
/* The copy of a node of that name; -1: there is none. */
int32_t ir_graph_find_again(const ir_graph *graph, const char *name);

/* Bytes that the forward pass leaves for the backward pass, which reads nodes
 * of the set again from copies (NULL: nothing is). */
int64_t ir_kept_bytes(const ir_graph *graph, const ir_recompute_set *set);
/* Nodes before the first of another phase. */
int32_t ir_forward_nodes(const ir_graph *graph);
/* wanted[t]: the backward pass, with copies of the set, needs a tensor of the
 * forward pass; through copies it needs what they read. */
void ir_recompute_wanted(const ir_graph *graph, const ir_recompute_set *set,
                         bool *wanted);

/* Blocks of which nothing is kept but what they hand on, as policy "block"
 * leaves them: number[forward nodes] of the block that a node is in, or -1; how
 * many there are. Of one that runs again as it stands, nodes without a copy do
 * too, for nobody. */
int32_t ir_recomputed_blocks(const ir_graph *graph, fs_arena *arena,
                             int32_t *number);

/* How many nodes of the backward pass compute a forward one again, but for
 * casts, which no policy asks for. */
int32_t ir_count_recomputed(const ir_graph *graph);

#endif
