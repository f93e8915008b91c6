/* Wide & Deep (Cheng et al. 2016, arXiv 1606.07792): a linear model of sparse
 * features beside a perceptron of embedded ones and dense numbers; yes or no.
 * Defaults are those of OneFlow's benchmark on Criteo. Parameters, F fields,
 * D dense: R (1 + E) + (F E + D) H + H + (L - 1)(H^2 + H) + H + 1. */
#include "config.h"
#include "zoo/model.h"

enum { FIELDS, WIDE, DENSE, ROWS, EMBEDDING, HIDDEN, LAYERS };

static int32_t wide_part(ir_graph *g, const int64_t *value, int64_t samples)
{
    zoo_table table = {zoo_whole("wide"), value[ROWS], 1, 0.01, -1};
    int32_t ids = zoo_ids(g, "wide", samples, value[WIDE]);
    return ir_reduce_sum(g, zoo_embed(g, ids, &table), 1u << 1, false);
}

static int32_t deep_part(ir_graph *g, const int64_t *value, int64_t samples)
{
    zoo_table table = {zoo_whole("deep"), value[ROWS], value[EMBEDDING], 0.01,
                       -1};
    int32_t ids = zoo_ids(g, "deep", samples, value[FIELDS]);
    int32_t dense =
        ir_input(g, "dense", IR_F32, zoo_matrix(samples, value[DENSE]), 0);
    int32_t parts[] = {zoo_embed(g, ids, &table), dense};
    parts[0] = ir_reshape(
        g, parts[0], zoo_matrix(samples, value[FIELDS] * value[EMBEDDING]));
    int32_t x = ir_concat(g, parts, 2, 1);
    for (int64_t i = 0; i < value[LAYERS]; i++) {
        x = zoo_dense(g, x, zoo_block(NULL, i, "fc"), value[HIDDEN]);
        x = ir_unary(g, IR_OP_relu, x);
    }
    return zoo_dense(g, x, zoo_whole("head"), 1);
}

static void build(ir_graph *g, const int64_t *value, int64_t samples)
{
    int32_t wide = wide_part(g, value, samples);
    int32_t deep = deep_part(g, value, samples);
    zoo_decide(g, ir_binary(g, IR_OP_add, wide, deep));
}

const zoo_model zoo_model_wide_deep = {
    .name = "wide_deep",
    .keys = {[FIELDS] = {"fields", 26, 1, 1 << 16},
             [WIDE] = {"wide", 2, 1, 1 << 16},
             [DENSE] = {"dense", 13, 1, 1 << 20},
             [ROWS] = {"rows", 2322444, 2, INT32_MAX},
             [EMBEDDING] = {"embedding", 16, 1, 1 << 16},
             [HIDDEN] = {"hidden", 1024, 1, 1 << 20},
             [LAYERS] = {"layers", 7, 1, 10000}},
    .build = build,
};
