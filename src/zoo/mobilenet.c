/* MobileNetV2 (Sandler et al. 2018, arXiv 1801.04381, table 2), without
 * dropout. */
#include "config.h"
#include "zoo/inverted.h"

enum { PERCENT, CLASSES, SIZE };

static const zoo_inverted stages[] = {
    {1, 3, 1, 16, 1}, {6, 3, 2, 24, 2},  {6, 3, 2, 32, 3}, {6, 3, 2, 64, 4},
    {6, 3, 1, 96, 3}, {6, 3, 2, 160, 3}, {6, 3, 1, 320, 1}};

static void build(ir_graph *g, const int64_t *value, int64_t samples)
{
    zoo_inverted_net net = {.g = g,
                            .percent = value[PERCENT],
                            .activation = IR_OP_clip,
                            .stages = stages,
                            .n_stages = sizeof stages / sizeof *stages,
                            .stem = 32,
                            .head = 1280};
    int32_t x = zoo_images(g, samples, 3, value[SIZE]);
    x = zoo_inverted_features(&net, x);
    zoo_classify(g, zoo_dense(g, x, zoo_whole("fc"), value[CLASSES]));
}

const zoo_model zoo_model_mobilenet = {
    .name = "mobilenet",
    .keys = {[PERCENT] = {"percent", 100, 1, 10000},
             [CLASSES] = {"classes", 1000, 2, INT32_MAX},
             [SIZE] = {"size", 224, 1, 1 << 14}},
    .build = build,
};
