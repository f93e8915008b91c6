/* Mixed precision: a forward network whose contractions compute in 16 bits, and
 * the scale that keeps the gradients of fp16 within its range. */
#ifndef FS_IR_PRECISION_H
#define FS_IR_PRECISION_H

#include "ir/build.h"

/* fp32 (IR_F32), bf16 (IR_BF16) or fp16 (IR_F16). */
fs_status ir_precision_parse(const char *text, fs_err *err, ir_dtype *out);

/* Puts casts into a forward network, by the rules of precision.def: one for
 * each tensor and type. Parameters, buffers and the loss stay F32; gradients
 * flow back through the casts. F32 changes nothing. Call it after the other
 * rewrites, which look for patterns without casts, and before ir_train. */
void ir_rewrite_precision(ir_graph *graph, ir_dtype narrow);

/* The gradient of the loss is multiplied by a scale and what arrives at the
 * parameters divided by it. A step whose gradients are not all finite leaves
 * every parameter and state of the optimizer as it is and does not count for
 * Adam's and LAMB's bias correction; the schedule of the learning rate counts
 * it (PyTorch's GradScaler does the same). When dynamic, such a step halves the
 * scale, and `steps` good ones in a row double it. */
typedef struct ir_loss_scale {
    double from; /* 0: none */
    bool dynamic;
    int64_t steps;
} ir_loss_scale;

/* What a step of a training graph ends with, scalars; -1 where there is none:
 * how many steps were left out so far, and the scale when it is dynamic. */
typedef struct ir_loss_scale_ends {
    int32_t skipped, scale;
} ir_loss_scale_ends;
ir_loss_scale_ends ir_loss_scale_find(const ir_graph *graph);

/* A number above 0 that stays, or "dynamic", from=X and steps=N after commas;
 * "" is what the precision usually has: dynamic from 65536 with 2000 steps for
 * IR_F16, else none. */
fs_status ir_loss_scale_parse(const char *text, ir_dtype narrow, fs_err *err,
                              ir_loss_scale *out);

#endif
