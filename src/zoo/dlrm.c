/* DLRM (Naumov et al. 2019, arXiv 1906.00091): tables of very unequal length,
 * a perceptron of dense numbers, products of all pairs of them, a perceptron
 * on top; yes or no. Defaults are MLPerf's on Criteo's terabyte, whose tables
 * are dealt out in proportion when `rows` differs. */
#include "config.h"
#include "zoo/model.h"

enum { TABLES, ROWS, EMBEDDING, DENSE, BOTTOM, TOP };

/* Rows of the 26 tables with ids taken modulo 40,000,000 (MLPerf training,
 * recommendation/dlrm). */
static const int64_t criteo[] = {
    39884406, 39043,    17289,    7420,     20263,  3,     7120, 1543, 63,
    38532951, 2953546,  403346,   10,       2208,   11938, 155,  4,    976,
    14,       39979771, 25641295, 39664984, 585935, 12972, 108,  36};
enum { CRITEO = sizeof criteo / sizeof *criteo };
static const int64_t criteo_rows = 187767399;

static int64_t rows_of(int64_t table, int64_t rows)
{
    const double share = (double)criteo[table % CRITEO] / (double)criteo_rows;
    const int64_t n = (int64_t)(share * (double)rows + 0.5);
    return n < 2 ? 2 : n;
}

/* Along axis 1, in as few ops as their inputs allow. Overwrites x. */
static int32_t join(ir_graph *g, int32_t *x, int32_t n)
{
    while (n > 1) {
        int32_t m = 0;
        for (int32_t i = 0; i < n; i += IR_MAX_IN) {
            const int32_t k = n - i < IR_MAX_IN ? n - i : IR_MAX_IN;
            x[m++] = k == 1 ? x[i] : ir_concat(g, x + i, k, 1);
        }
        n = m;
    }
    return x[0];
}

static int32_t perceptron(ir_graph *g, int32_t x, const char *stack,
                          const int64_t *width, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        x = zoo_dense(g, x, zoo_block(stack, i, "fc"), width[i]);
        x = ir_unary(g, IR_OP_relu, x);
    }
    return x;
}

/* (B, tables + 1, E): row 0 is what the dense numbers give. */
static int32_t features(ir_graph *g, const int64_t *value, int64_t samples,
                        int32_t dense)
{
    const int32_t n = (int32_t)value[TABLES] + 1;
    int32_t *x = fs_new(g->arena, int32_t, n);
    int64_t one[] = {samples, 1, value[EMBEDDING]};
    x[0] = ir_reshape(g, dense, ir_shape_make(3, one));
    for (int32_t i = 1; i < n; i++) {
        zoo_table table = {zoo_block("tables", i - 1, "embed"),
                           rows_of(i - 1, value[ROWS]), value[EMBEDDING], 0.01,
                           -1};
        char *name = fs_printf(g->arena, "ids%d", (int)i - 1);
        x[i] = zoo_embed(g, zoo_ids(g, name, samples, 1), &table);
    }
    zoo_scope(g, zoo_whole("pairs"));
    return join(g, x, n);
}

/* (B, pairs): products of all pairs of different features. */
static int32_t interact(ir_graph *g, int32_t x, int64_t samples)
{
    const int64_t n = ir_shape_of(g, x).dim[1], pairs = n * (n - 1) / 2;
    int64_t *at = fs_new(g->arena, int64_t, pairs);
    int64_t k = 0;
    if (n < 2)
        return -1;
    for (int64_t i = 1; i < n; i++)
        for (int64_t j = 0; j < i; j++)
            at[k++] = i * n + j;
    int32_t ids = ir_constant(g, "/pairs/at", IR_I64, zoo_vector(pairs), at);
    x = ir_matmul(g, x, x, false, true);
    x = ir_reshape(g, x, zoo_matrix(samples, n * n));
    ir_node node = {.op = IR_OP_gather, .n_in = 2, .in = {x, ids}};
    node.i[0] = n * n;
    node.i[2] = 1;
    return ir_append(g, &node);
}

static void build(ir_graph *g, const int64_t *value, int64_t samples)
{
    const int64_t bottom[] = {value[BOTTOM], (value[BOTTOM] + 1) / 2,
                              value[EMBEDDING]};
    const int64_t top[] = {value[TOP], value[TOP], (value[TOP] + 1) / 2,
                           (value[TOP] + 3) / 4};
    int32_t dense =
        ir_input(g, "dense", IR_F32, zoo_matrix(samples, value[DENSE]), 0);
    dense = perceptron(g, dense, "bottom", bottom, 3);
    int32_t x = features(g, value, samples, dense);
    int32_t parts[] = {dense, interact(g, x, samples)};
    x = perceptron(g, ir_concat(g, parts, 2, 1), "top", top, 4);
    zoo_decide(g, zoo_dense(g, x, zoo_whole("head"), 1));
}

const zoo_model zoo_model_dlrm = {
    .name = "dlrm",
    .keys = {[TABLES] = {"tables", 26, 1, 1000},
             [ROWS] = {"rows", 187767399, 2, INT32_MAX},
             [EMBEDDING] = {"embedding", 128, 1, 1 << 16},
             [DENSE] = {"dense", 13, 1, 1 << 20},
             [BOTTOM] = {"bottom", 512, 1, 1 << 20},
             [TOP] = {"top", 1024, 1, 1 << 20}},
    .build = build,
};
