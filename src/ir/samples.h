/* How a loss hangs on the number of samples: a sum of terms, each a mean over
 * samples, a sum over them, or a quotient of two sums. Only then are the losses
 * and gradients of micro-batches those of the whole batch put together:
 * averaged, added, or added and divided once, term by term (`ir_train`). */
#ifndef FS_IR_SAMPLES_H
#define FS_IR_SAMPLES_H

#include "ir/graph.h"

typedef enum ir_reduction {
    IR_LOSS_MEAN,
    IR_LOSS_SUM,
    IR_LOSS_QUOTIENT
} ir_reduction;

/* factor * top / bottom. A quotient is a mean over what counts (labels that
 * are not ignored, weights), whose divisor the data decide and no parameter;
 * else bottom is -1: no divisor. */
typedef struct ir_loss_term {
    ir_reduction reduction;
    int32_t top, bottom;
    double factor;
} ir_loss_term;

typedef FS_VEC(ir_loss_term) ir_loss_terms;

/* The nodes whose values hang on statistics over the samples that they are
 * given (a norm over the batch, a product of two means): with micro-batches
 * these are each one's own, so that the numbers differ from the whole batch's,
 * as they do in every framework. Ids as of the graph before it is trained. */
typedef struct ir_loss_form {
    ir_loss_terms terms;
    FS_VEC(int32_t) statistics;
} ir_loss_form;

/* From the forward graphs of one network for a whole batch and for a
 * micro-batch, one of `times` equal parts of it. A value's degree is the power
 * of the number of samples that it grows with: rows of the batch have 0, their
 * sum 1; a factor that differs between the graphs as the number of samples
 * does counts too, so a mean has 0. A loss of degree 0 or 1 is one term, any
 * other is taken apart where it adds. FS_NO when a term's degree is neither 0
 * nor 1 or cannot be told: micro-batches would change the training. Tensors are
 * those of either graph; the lists lie in part's arena. */
fs_status ir_loss_find_form(const ir_graph *whole, const ir_graph *part,
                            int32_t times, fs_err *err, ir_loss_form *out);

/* Of a tensor that is the same for all samples; of one whose rows are no
 * sample's alone, as far as can be told. */
enum { IR_SAMPLES_NONE = -1, IR_SAMPLES_MIXED = -2 };

/* [tensor]: the axis along which it holds the samples in their order, each
 * sample's part a function of that sample alone. Axes of length 1 tell nothing:
 * of a graph of two samples or more. */
int32_t *ir_sample_axes(const ir_graph *graph, fs_arena *arena);

#endif
