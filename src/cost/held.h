/* Bytes that a framework would hold of a plan (under_memory.c). */
#ifndef FS_COST_HELD_H
#define FS_COST_HELD_H

#include "cost/framework.h"

/* What each device of a role holds at most: what is live at once in the plan
 * and what the framework keeps beside it, by what it is for. */
typedef struct cost_held {
    double standing_bytes; /* parameters, states, constants, and weights beside
                              those that are updated */
    double moving_bytes;   /* gradients, activations, workspace; of these */
    double gathered_bytes; /* what all-gathers of the forward pass made and the
                              plan keeps for the backward pass */
    double scores_bytes,
        masks_bytes;         /* that its kernels keep for the backward
                                pass: of attention apart, of dropouts */
    int64_t allocated_bytes; /* all of these; */
    int64_t process_bytes;   /* and what its allocator loses, and its context */
} cost_held;
cost_held cost_framework_held(const cost_framework *framework,
                              const ir_graph *graph, const plan *p,
                              int32_t role);
/* Of the role that holds most. */
cost_held cost_framework_most(const cost_framework *framework,
                              const ir_graph *graph, const plan *p);

#endif
