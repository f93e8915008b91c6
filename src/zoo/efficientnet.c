/* EfficientNet-B0 (Tan & Le 2019, arXiv 1905.11946, table 1), without dropout
 * and stochastic depth. */
#include "config.h"
#include "zoo/inverted.h"

static const zoo_inverted stages[] = {
    {1, 3, 1, 16, 1},  {6, 3, 2, 24, 2},  {6, 5, 2, 40, 2}, {6, 3, 2, 80, 3},
    {6, 5, 1, 112, 3}, {6, 5, 2, 192, 4}, {6, 3, 1, 320, 1}};

static void build(ir_graph *g, const int64_t *value, int64_t samples)
{
    static const zoo_inverted_net net = {.activation = IR_OP_silu,
                                         .squeeze = true,
                                         .stages = stages,
                                         .n_stages =
                                             sizeof stages / sizeof *stages};
    zoo_inverted_build(g, &net, value, samples);
}

const zoo_model zoo_model_efficientnet = {
    .name = "efficientnet", .keys = ZOO_INVERTED_KEYS, .build = build};
