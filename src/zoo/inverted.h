/* The inverted residual block of MobileNetV2 and EfficientNet: 1 x 1 up,
 * depthwise, [squeeze and excite,] 1 x 1 down; around it when shapes allow. */
#ifndef FS_ZOO_INVERTED_H
#define FS_ZOO_INVERTED_H

#include "zoo/convolution.h"

/* One stage: `blocks` blocks, the first with the stride. */
typedef struct zoo_inverted {
    int64_t expand, kernel, stride, out, blocks;
} zoo_inverted;

typedef struct zoo_inverted_net {
    ir_graph *g;
    int64_t percent; /* of the published channels, rounded to eights */
    ir_op_kind activation;
    bool squeeze; /* to a quarter of a block's input channels */
    const zoo_inverted *stages;
    int32_t n_stages;
    int64_t stem, head; /* channels */
} zoo_inverted_net;

/* Images (N, 3, S, S) -> features (N, head). */
int32_t zoo_inverted_features(const zoo_inverted_net *net, int32_t x);

#endif
