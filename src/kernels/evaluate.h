/* A node on whole tensors, by its reference kernel: what folding asks for. */
#ifndef FS_KERNELS_EVALUATE_H
#define FS_KERNELS_EVALUATE_H

#include "kernels/kernel.h"

/* in[], out[]: row-major values of the node's inputs and outputs. */
fs_status kernel_evaluate(const ir_graph *graph, const ir_node *node,
                          const void *const *in, void *const *out, fs_err *err);

#endif
