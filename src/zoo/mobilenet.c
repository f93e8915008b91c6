/* MobileNetV2 (Sandler et al. 2018, arXiv 1801.04381, table 2), without
 * dropout. */
#include "config.h"
#include "zoo/inverted.h"

static const zoo_inverted stages[] = {
    {1, 3, 1, 16, 1}, {6, 3, 2, 24, 2},  {6, 3, 2, 32, 3}, {6, 3, 2, 64, 4},
    {6, 3, 1, 96, 3}, {6, 3, 2, 160, 3}, {6, 3, 1, 320, 1}};

static void build(ir_graph *g, const int64_t *value, int64_t samples)
{
    static const zoo_inverted_net net = {.activation = IR_OP_clip,
                                         .stages = stages,
                                         .n_stages =
                                             sizeof stages / sizeof *stages};
    zoo_inverted_build(g, &net, value, samples);
}

const zoo_model zoo_model_mobilenet = {
    .name = "mobilenet", .keys = ZOO_INVERTED_KEYS, .build = build};
