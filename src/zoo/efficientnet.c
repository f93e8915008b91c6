/* EfficientNet-B0 (Tan & Le 2019, arXiv 1905.11946, table 1), without dropout
 * and stochastic depth. */
#include "config.h"
#include "zoo/inverted.h"

enum { PERCENT, CLASSES, SIZE };

static const zoo_inverted stages[] = {
    {1, 3, 1, 16, 1},  {6, 3, 2, 24, 2},  {6, 5, 2, 40, 2}, {6, 3, 2, 80, 3},
    {6, 5, 1, 112, 3}, {6, 5, 2, 192, 4}, {6, 3, 1, 320, 1}};

static void build(ir_graph *g, const int64_t *value, int64_t samples)
{
    zoo_inverted_net net = {.g = g,
                            .percent = value[PERCENT],
                            .activation = IR_OP_silu,
                            .squeeze = true,
                            .stages = stages,
                            .n_stages = sizeof stages / sizeof *stages,
                            .stem = 32,
                            .head = 1280};
    int32_t x = zoo_images(g, samples, 3, value[SIZE]);
    x = zoo_inverted_features(&net, x);
    zoo_classify(g, zoo_dense(g, x, zoo_whole("fc"), value[CLASSES]));
}

const zoo_model zoo_model_efficientnet = {
    .name = "efficientnet",
    .keys = {[PERCENT] = {"percent", 100, 1, 10000},
             [CLASSES] = {"classes", 1000, 2, INT32_MAX},
             [SIZE] = {"size", 224, 1, 1 << 14}},
    .build = build,
};
