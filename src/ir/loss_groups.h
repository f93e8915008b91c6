/* What of a loss is differentiated together. Internal to ir. */
#ifndef FS_IR_LOSS_GROUPS_H
#define FS_IR_LOSS_GROUPS_H

#include "ir/backward.h"

/* Terms with one divisor: their gradients are those of `value` from `seed`,
 * summed over the step's micro-batches and divided once. */
typedef struct ir_loss_group {
    int32_t value; /* scalar of the forward pass */
    double seed;
    int32_t bottom;    /* scalar of the forward pass, or -1: no divisor */
    int32_t divisor;   /* of the gradients: `bottom` of the whole step; or -1 */
    int32_t runs;      /* micro-batches that `value` is summed over; 1: a mean,
                          whose seed allows for them */
    ir_id_list *parts; /* [parameter]: its gradients, as they arise */
} ir_loss_group;

typedef FS_VEC(ir_loss_group) ir_loss_groups;

/* In the graph's arena; at least one; the first without divisor, if any. Terms
 * with several factors are weighted and added by nodes of the forward pass. */
void ir_loss_group_terms(ir_graph *graph, const ir_train_options *options,
                         ir_loss_groups *out);
/* After the backward passes: what the step's loss is made of. */
void ir_loss_put_off(ir_graph *graph, const ir_loss_groups *groups);

#endif
