/* Products that a framework does as one. */
#ifndef FS_COST_JOINED_H
#define FS_COST_JOINED_H

#include "cost/framework.h"

/* What roles of a plan share; a role costs no more than its own tasks. */
typedef struct cost_joiner cost_joiner;
cost_joiner *cost_joiner_create(const ir_graph *graph, const plan *p,
                                fs_arena *arena);

/* Products that take the same activations (queries, keys and values), their
 * gradients towards these, which are added up, and towards their weights are
 * one product each: as many times wider, or deeper. Changes `demand` [tasks] of
 * the role to each one's share of the whole, and what collectives take that
 * have a stream of their own and wait for the sum to what the product towards
 * the weights does not hide; fills `kernels` [tasks] with
 * its share of a kernel: 1 of all others, 0 of sums that such a product is. */
void cost_join_products(cost_joiner *joiner, const hw_device *device,
                        const plan_role *role, plan_demand *demand,
                        double *kernels);

#endif
