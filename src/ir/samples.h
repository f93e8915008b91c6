/* How a loss hangs on the number of samples: a mean over them or a sum. Only
 * then are the losses and gradients of micro-batches those of the whole batch
 * put together: averaged, or added. */
#ifndef FS_IR_SAMPLES_H
#define FS_IR_SAMPLES_H

#include "ir/graph.h"

typedef enum ir_reduction { IR_LOSS_MEAN, IR_LOSS_SUM } ir_reduction;

/* From the forward graphs of one network for a whole batch and for a
 * micro-batch, one of `times` equal parts of it. A value's degree is the power
 * of the number of samples that it grows with: rows of the batch have 0, their
 * sum 1; a factor that differs between the graphs as the number of samples
 * does counts too, so a mean has 0. FS_NO when the loss's degree is neither 0
 * nor 1, or cannot be told: micro-batches would change the training. */
fs_status ir_loss_reduction(const ir_graph *whole, const ir_graph *part,
                            int32_t times, fs_err *err, ir_reduction *out);

#endif
