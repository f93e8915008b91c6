/* A multi-layer perceptron: `layers` hidden layers with ReLU, then a linear
 * classifier and the mean cross-entropy. Parameters: in h + h +
 * (layers - 1)(h^2 + h) + h c + c. */
#include "config.h"
#include "zoo/model.h"

enum { IN, HIDDEN, LAYERS, CLASSES };

static void build(ir_graph *g, const int64_t *value, int64_t samples)
{
    int32_t x = ir_input(g, "x", IR_F32, zoo_matrix(samples, value[IN]), 0);
    int32_t labels = ir_input(g, "labels", IR_I64, zoo_vector(samples), 0);
    for (int64_t i = 0; i < value[LAYERS]; i++) {
        x = zoo_dense(g, x, zoo_block(NULL, i, "fc"), value[HIDDEN]);
        x = ir_unary(g, IR_OP_relu, x);
    }
    x = zoo_dense(g, x, zoo_whole("head"), value[CLASSES]);
    if (zoo_answer(g, x, "logits"))
        return;
    zoo_scope(g, zoo_whole("loss"));
    g->loss = ir_cross_entropy(g, x, labels);
}

const zoo_model zoo_model_mlp = {
    .name = "mlp",
    .keys = {[IN] = {"in", 64, 1, INT32_MAX},
             [HIDDEN] = {"hidden", 128, 1, INT32_MAX},
             [LAYERS] = {"layers", 2, 1, 10000},
             [CLASSES] = {"classes", 10, 2, INT32_MAX}},
    .build = build,
};
