/* Gradients that are reduced while the backward pass lasts. */
#ifndef FS_COST_REDUCED_H
#define FS_COST_REDUCED_H

#include "cost/framework.h"

/* Shortens what `demand` [tasks] of the role's reductions behind its last
 * micro-batch by what the framework hides in that one's backward pass. */
void cost_reduce_meanwhile(const cost_framework *framework,
                           const ir_graph *graph, const plan_role *role,
                           plan_demand *demand);

#endif
