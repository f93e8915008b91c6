/* Gradients that are reduced while the backward pass lasts. */
#ifndef FS_COST_REDUCED_H
#define FS_COST_REDUCED_H

#include "cost/framework.h"

/* Shortens what `demand` [tasks] of the role's reductions behind its last
 * micro-batch by what the framework hides in that one's backward pass; where
 * there is but `once` one, what its last bucket holds waits for the end of the
 * pass. `gradient_bytes` [tasks]: of gradients that a collective reduces. */
void cost_reduce_meanwhile(const cost_framework *framework,
                           const ir_graph *graph, const plan_role *role,
                           const double *gradient_bytes, bool once,
                           plan_demand *demand);

#endif
