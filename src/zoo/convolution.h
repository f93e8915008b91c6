/* Parts of convolutional networks. Activations are (samples, channels, height,
 * width). */
#ifndef FS_ZOO_CONVOLUTION_H
#define FS_ZOO_CONVOLUTION_H

#include "zoo/model.h"

/* kernel x kernel windows; 0 means stride 1, 1 group. */
typedef struct zoo_conv_spec {
    zoo_part part;
    int64_t in, out, kernel, stride, pad, groups;
    bool biased;
} zoo_conv_spec;

/* Input "x" (samples, channels, size, size). */
int32_t zoo_images(ir_graph *g, int64_t samples, int64_t channels,
                   int64_t size);
int64_t zoo_channels(const ir_graph *g, int32_t x);
/* weight (out, in / groups, kernel, kernel) from N(0, 2 / fan in); sets the
 * scope, as all here. */
int32_t zoo_conv(ir_graph *g, int32_t x, const zoo_conv_spec *spec);
/* Twice as large: a transposed convolution 2 x 2 of stride 2. */
int32_t zoo_conv_up(ir_graph *g, int32_t x, zoo_part part, int64_t out);
/* By the moments of the batch; running_mean and running_var move by a tenth,
 * as in PyTorch but for the variance, which is not corrected for its bias. x
 * may also be (samples, channels). */
int32_t zoo_batch_norm(ir_graph *g, int32_t x, zoo_part part);
/* The convolution, a batch norm under PART's name with "conv" replaced by
 * "bn" (or "/bn" appended), and an activation (IR_OP_identity: none). */
int32_t zoo_conv_norm(ir_graph *g, int32_t x, const zoo_conv_spec *spec,
                      ir_op_kind activation);
typedef struct zoo_pool_spec {
    int64_t size, stride, pad;
} zoo_pool_spec;
int32_t zoo_max_pool(ir_graph *g, int32_t x, zoo_pool_spec spec);
/* (N, C, H, W) -> (N, C): the mean of a channel. */
int32_t zoo_mean_pool(ir_graph *g, int32_t x);
/* (N, ..) -> (N, all) */
int32_t zoo_flatten(ir_graph *g, int32_t x);

#endif
