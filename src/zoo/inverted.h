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
    ir_op_kind activation;
    bool squeeze; /* to a quarter of a block's input channels */
    const zoo_inverted *stages;
    int32_t n_stages;
} zoo_inverted_net;

/* Keys of such a net: percent of the published channels, rounded to eights. */
enum { ZOO_INVERTED_PERCENT, ZOO_INVERTED_CLASSES, ZOO_INVERTED_SIZE };
#define ZOO_INVERTED_KEYS                                                      \
    {                                                                          \
        [ZOO_INVERTED_PERCENT] = {"percent", 100, 1, 10000},                   \
        [ZOO_INVERTED_CLASSES] = {"classes", 1000, 2, INT32_MAX},              \
        [ZOO_INVERTED_SIZE] = {"size", 224, 1, 1 << 14},                       \
    }

/* A classifier of images (N, 3, S, S): stem, stages, top, mean pool. */
void zoo_inverted_build(ir_graph *g, const zoo_inverted_net *net,
                        const int64_t *value, int64_t samples);

#endif
