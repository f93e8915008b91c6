/* Clipping of gradients by their global norm. */
#ifndef FS_IR_CLIP_H
#define FS_IR_CLIP_H

#include "ir/build.h"

/* A parameter and the gradient that its update reads. */
typedef struct ir_update_pair {
    int32_t param, grad;
} ir_update_pair;

/* The sum of the squares of n >= 1 gradients: a scalar of the first one's
 * element type, made by nodes of phase UPDATE. */
int32_t ir_squares_of_all(ir_graph *graph, int32_t n,
                          const ir_update_pair *pairs);

/* Replaces every gradient by itself times min(1, most / (norm + 1e-6)), the
 * norm being that of all of them together, the root of `squares` (PyTorch's
 * clip_grad_norm_). Appends nodes of phase UPDATE; the norm's tensor is called
 * "grad_norm". */
void ir_clip_gradients(ir_graph *graph, double most, int32_t squares, int32_t n,
                       ir_update_pair *pairs);

#endif
