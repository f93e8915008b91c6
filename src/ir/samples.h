/* How a loss hangs on the number of samples: a mean over them, a sum, or a
 * quotient of two sums. Only then are the losses and gradients of micro-batches
 * those of the whole batch put together: averaged, added, or added and divided
 * once (`ir_train`). */
#ifndef FS_IR_SAMPLES_H
#define FS_IR_SAMPLES_H

#include "ir/graph.h"

typedef enum ir_reduction {
    IR_LOSS_MEAN,
    IR_LOSS_SUM,
    IR_LOSS_QUOTIENT
} ir_reduction;

/* factor * top / bottom: a mean over what counts (labels that are not ignored,
 * weights), whose divisor the data decide. */
typedef struct ir_quotient {
    int32_t top, bottom;
    double factor;
} ir_quotient;
/* Is the loss one? No parameter must decide the divisor. */
bool ir_loss_quotient(const ir_graph *graph, ir_quotient *out);

/* From the forward graphs of one network for a whole batch and for a
 * micro-batch, one of `times` equal parts of it. A value's degree is the power
 * of the number of samples that it grows with: rows of the batch have 0, their
 * sum 1; a factor that differs between the graphs as the number of samples
 * does counts too, so a mean has 0. FS_NO when the loss's degree is neither 0
 * nor 1, or cannot be told, or when it holds a quotient of sums among other
 * terms: micro-batches would change the training. */
fs_status ir_loss_reduction(const ir_graph *whole, const ir_graph *part,
                            int32_t times, fs_err *err, ir_reduction *out);

#endif
