/* The nodes of loss scaling, as ir_train strings them (precision.h says what
 * they do). Internal to ir. */
#ifndef FS_IR_LOSS_SCALE_H
#define FS_IR_LOSS_SCALE_H

#include "ir/clip.h"
#include "ir/loss_groups.h"
#include "ir/precision.h"

typedef struct ir_scaler {
    ir_loss_scale how;
    double share;          /* of the scale, for a loss that is a sum */
    int32_t scale;         /* scalar F32; -1: gradients are not scaled */
    int32_t good, skipped; /* state: good steps in a row, steps left out; -1 */
    int32_t ok;            /* bool: all gradients are finite; -1 before */
} ir_scaler;

/* Where what is differentiated is a sum that is divided after the last
 * micro-batch, its gradients would be larger than those of a mean by the number
 * of its terms in the whole step: the scale is less by this, 1 / that number,
 * so that 16 bits hold what they hold with one micro-batch. 1 of anything else,
 * and where nothing is scaled. */
double ir_scaler_share(const ir_graph *graph, const ir_loss_scale *how,
                       const ir_loss_group *group);
/* Appends the state to the forward pass. `first` is the group whose scale
 * ir_scaler_undo takes away. */
ir_scaler ir_scaler_begin(ir_graph *graph, const ir_loss_scale *how,
                          const ir_loss_group *first);
/* What the backward pass of a group starts from. */
int32_t ir_scaler_loss(ir_graph *graph, const ir_scaler *s,
                       const ir_loss_group *group);
/* Gradients as they would be without a scale. */
void ir_scaler_undo(ir_graph *graph, const ir_scaler *s, int32_t n,
                    ir_update_pair *pairs);
/* By the sum of the squares of these; before the first update. */
void ir_scaler_judge(ir_graph *graph, ir_scaler *s, int32_t squares);
/* `next`, or what stood before when the step is left out. */
int32_t ir_scaler_choose(ir_graph *graph, const ir_scaler *s, int32_t variable,
                         int32_t next);
/* The next values of the state, after all that reads it. */
void ir_scaler_end(ir_graph *graph, const ir_scaler *s);

#endif
