/* Mixtures of experts with capacity: GShard (Lepikhin et al. 2020, arXiv
 * 2006.16668, algorithm 1), Switch (Fedus et al. 2021) with one active
 * expert, Mixtral with gated ones. Shapes are static: tokens go to experts and
 * back by products with one-hot matrices, and those beyond an expert's
 * capacity pass by on the residual stream. Weights of experts are (E, ..): cut
 * along axis 0 they are expert parallelism. */
#ifndef FS_ZOO_EXPERTS_H
#define FS_ZOO_EXPERTS_H

#include "zoo/transformer.h"

typedef struct zoo_experts {
    int64_t n, active;       /* E; experts per token, k */
    int64_t capacity;        /* percent of the even share, k tokens / E */
    int64_t group;           /* tokens that compete for places; 0: a sample's */
    int64_t places;          /* of an expert for a group, C */
    FS_VEC(int32_t) balance; /* load-balancing losses of the layers so far */
} zoo_experts;

/* From a model's values of its keys experts, active, capacity, group, which
 * follow each other so. */
zoo_experts zoo_experts_of(const int64_t *value);
/* Checks that groups divide t's samples; sets group and places. */
bool zoo_experts_open(zoo_experts *e, const zoo_transformer *t);
/* In place of the feed-forward of a block, of t's activation and widths. */
int32_t zoo_expert_layer(const zoo_transformer *t, zoo_experts *e, int32_t x,
                         int64_t block);
/* Pre-norm: x + attention(norm x), then y + experts(norm y). */
int32_t zoo_expert_block(const zoo_transformer *t, zoo_experts *e, int32_t x,
                         int64_t block);
/* loss + 0.01 * the sum over layers of E sum_e f_e p_e, where f_e is the share
 * of a group's tokens whose first choice is e, p_e the mean probability of e;
 * mean over groups. */
int32_t zoo_add_balance(ir_graph *g, const zoo_experts *e, int32_t loss);

#endif
