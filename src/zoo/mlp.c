/* A multi-layer perceptron: `layers` hidden layers with ReLU, then a linear
 * classifier and the mean cross-entropy. Parameters: in h + h +
 * (layers - 1)(h^2 + h) + h c + c. */
#include "config.h"
#include "zoo/model.h"

#include <math.h>

enum { IN, HIDDEN, LAYERS, CLASSES };

/* Uniform within 1 / sqrt(fan in). */
static int32_t layer(ir_graph *g, int32_t x, int64_t block, int64_t in,
                     int64_t out)
{
    ir_init init = {.kind = IR_INIT_UNIFORM, .spread = 1 / sqrt((double)in)};
    zoo_part part = {block, block < 0 ? "head" : "fc"};
    return zoo_linear(g, x, &(zoo_linear_spec){part, in, out, init, init});
}

static void build(ir_graph *g, const int64_t *value, int64_t samples)
{
    int32_t x = ir_input(g, "x", IR_F32,
                         ir_shape_make(2, (int64_t[]){samples, value[IN]}), 0);
    int32_t labels =
        ir_input(g, "labels", IR_I64, ir_shape_make(1, &samples), 0);
    int64_t in = value[IN];
    for (int64_t i = 0; i < value[LAYERS]; i++) {
        x = ir_unary(g, IR_OP_relu, layer(g, x, i, in, value[HIDDEN]));
        in = value[HIDDEN];
    }
    x = layer(g, x, -1, in, value[CLASSES]);
    zoo_scope(g, (zoo_part){-1, "loss"});
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
