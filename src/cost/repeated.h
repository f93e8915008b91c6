/* Blocks that are recomputed as they stand. */
#ifndef FS_COST_REPEATED_H
#define FS_COST_REPEATED_H

#include "cost/framework.h"

/* Our recomputation makes again what the backward pass reads; a framework that
 * runs a block's forward pass once more also does what is at its end: the last
 * product, its all-reduce, the sum behind it (on 22 G parameters the forward
 * pass of a layer takes 7.7 ms, and its recomputation adds 7.6: Korthikanti et
 * al. 2022, arXiv 2205.05198, table 4). Adds to `demand` [tasks] of the role
 * what these take in the forward pass, to what is made again of their block. */
typedef struct cost_repeats cost_repeats; /* what roles share */
cost_repeats *cost_repeats_create(const ir_graph *graph, fs_arena *arena);
void cost_repeat_blocks(cost_repeats *repeats, const plan_role *role,
                        plan_demand *demand);

#endif
