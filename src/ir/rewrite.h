/* Rewrites of a forward network into fewer and larger ops of the same value.
 * Tensors keep their names; nodes that nothing needs any more are pruned. */
#ifndef FS_IR_REWRITE_H
#define FS_IR_REWRITE_H

#include "ir/build.h"

/* Each rewrite can be turned off. */
typedef struct ir_rewrite_options {
    bool gelu;       /* 0.5 x (1 + erf(x / sqrt 2)) -> gelu */
    bool layer_norm; /* (x - mean) / sqrt(variance + eps) * gain + bias */
    bool transpose;  /* of a matmul operand's last two axes -> the matmul */
    bool scale;      /* + - * / by a scalar constant -> scale; scale(scale) */
    bool pads;       /* sum of pads that fill an axis -> concat: gradients of
                        slices; ir_train applies it too */
    bool rms_norm;   /* x / sqrt(mean(x^2) + eps) * gain */
} ir_rewrite_options;

ir_rewrite_options ir_rewrite_all(void);

/* Call before ir_train; ids change (see ir_graph_prune). */
void ir_rewrite(ir_graph *graph, const ir_rewrite_options *options);

#endif
