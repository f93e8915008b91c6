/* The core of attention. Internal to this folder. */
#ifndef FS_IR_RECOMPUTE_CORE_H
#define FS_IR_RECOMPUTE_CORE_H

#include "ir/graph.h"

/* out[n]: which of the first n nodes, all of the forward pass, lie in a core:
 * products of two activations, what leads from one over a softmax to another
 * and these two, whatever masks, scales, dropout, casts and views stand
 * between; and ops that are a whole core. */
void ir_attention_core(const ir_graph *graph, int32_t n, fs_arena *arena,
                       bool *out);

#endif
