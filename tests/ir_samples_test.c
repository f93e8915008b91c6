/* Is a loss a mean over samples or a sum? From two sizes of one network. */
#include "config.h"

#include "ir/samples.h"

#include "ir/build.h"
#include "ir/op.h"
#include "tap.h"

#include <string.h>

typedef int32_t loss_of(ir_graph *g, int32_t errors);

/* errors = (x w - y)^2, one per sample. */
static ir_graph *network(int64_t samples, loss_of *loss)
{
    ir_graph *g = ir_graph_create("net");
    ir_shape rows = ir_shape_make(2, (int64_t[]){samples, 4});
    int32_t x = ir_input(g, "x", IR_F32, rows, 0);
    int32_t y = ir_input(g, "y", IR_F32, ir_shape_make(1, &samples), 0);
    int32_t w = ir_parameter(g, "w", IR_F32, ir_shape_make(1, (int64_t[]){4}),
                             (ir_init){.kind = IR_INIT_NORMAL, .spread = 1});
    int32_t z = ir_reduce_sum(g, ir_binary(g, IR_OP_mul, x, w), 2, false);
    int32_t d = ir_binary(g, IR_OP_sub, z, y);
    g->loss = loss(g, ir_binary(g, IR_OP_mul, d, d));
    return g;
}

static int64_t samples_of(const ir_graph *g)
{
    return g->tensors.at[0].shape.dim[0];
}

static int32_t total(ir_graph *g, int32_t e)
{
    return ir_reduce_sum(g, e, 1, false);
}

static int32_t mean(ir_graph *g, int32_t e)
{
    return ir_scale(g, total(g, e), 1.0 / (double)samples_of(g), 0);
}

static int32_t penalty(ir_graph *g)
{
    int32_t w = ir_graph_find(g, "w");
    return ir_reduce_sum(g, ir_binary(g, IR_OP_mul, w, w), 1, false);
}

static int32_t mean_and_penalty(ir_graph *g, int32_t e)
{
    return ir_binary(g, IR_OP_add, mean(g, e), penalty(g));
}

static int32_t total_and_penalty(ir_graph *g, int32_t e)
{
    return ir_binary(g, IR_OP_add, total(g, e), penalty(g));
}

static int32_t square(ir_graph *g, int32_t e)
{
    return ir_power(g, total(g, e), 2);
}

static int32_t root_of_mean(ir_graph *g, int32_t e)
{
    return ir_unary(g, IR_OP_sqrt, mean(g, e));
}

static int32_t logarithm(ir_graph *g, int32_t e)
{
    return ir_unary(g, IR_OP_log, total(g, e));
}

/* A weighted mean: its divisor is a sum too. */
static int32_t ratio(ir_graph *g, int32_t e)
{
    return ir_binary(g, IR_OP_div, total(g, e),
                     total(g, ir_graph_find(g, "y")));
}

/* PyTorch's mask.sum(), of 64-bit integers. */
static int32_t by_count(ir_graph *g, int32_t e)
{
    int32_t y = ir_graph_find(g, "y");
    int32_t positive = ir_binary(g, IR_OP_less, ir_scale(g, y, -1, 0), y);
    int32_t mask = ir_cast(g, positive, IR_I64);
    return ir_binary(g, IR_OP_div, total(g, e),
                     ir_cast(g, total(g, mask), IR_F32));
}

static int32_t half_ratio(ir_graph *g, int32_t e)
{
    return ir_scale(g, ratio(g, e), 0.5, 0);
}

static int32_t ratio_and_mean(ir_graph *g, int32_t e)
{
    return ir_binary(g, IR_OP_add, ratio(g, e), mean(g, e));
}

static int32_t ratio_by_params(ir_graph *g, int32_t e)
{
    return ir_binary(g, IR_OP_div, total(g, ir_graph_find(g, "y")),
                     total(g, e));
}

/* The divisor as a constant of the graph, as an importer may leave it. */
static int32_t mean_by_constant(ir_graph *g, int32_t e)
{
    float *n = fs_new(g->arena, float, 1);
    *n = (float)samples_of(g);
    return ir_binary(g, IR_OP_div, total(g, e),
                     ir_constant(g, "n", IR_F32, (ir_shape){0}, n));
}

static int32_t weighted_sums(ir_graph *g, int32_t e)
{
    int32_t two = ir_scale(g, ratio(g, e), 2, 0);
    int32_t less = ir_binary(g, IR_OP_sub, total(g, e), mean(g, e));
    return ir_scale(g, ir_binary(g, IR_OP_add, two, less), 0.5, 0);
}

/* Doubled 60 times: as many paths as no list would hold. */
static int32_t doubled(ir_graph *g, int32_t e)
{
    int32_t x = ratio_and_mean(g, e);
    for (int32_t k = 0; k < 60; k++)
        x = ir_binary(g, IR_OP_add, x, x);
    return x;
}

/* As load balancing: the more the one, the less the other should be. */
static int32_t product_of_means(ir_graph *g, int32_t e)
{
    int32_t other = mean(g, ir_graph_find(g, "y"));
    return ir_binary(g, IR_OP_add, mean(g, e),
                     ir_binary(g, IR_OP_mul, mean(g, e), other));
}

static int32_t centred(ir_graph *g, int32_t e)
{
    return mean(g, ir_power(g, ir_binary(g, IR_OP_sub, e, mean(g, e)), 2));
}

/* "mean sum quotient" with the factors that are not 1, "by" the ops with
 * statistics of the samples; of a refusal its text */
static const char *terms_of(loss_of *loss, fs_arena *arena)
{
    static const char *const name[] = {"mean", "sum", "quotient"};
    ir_graph *whole = network(12, loss), *part = network(4, loss);
    fs_err err = {0};
    fs_text text = {.arena = arena};
    ir_loss_form got;
    if (ir_loss_find_form(whole, part, 3, &err, &got) != FS_OK)
        fs_text_add(&text, "%s", err.text);
    for (int32_t k = 0; err.status == FS_OK && k < got.terms.n; k++) {
        fs_text_add(&text, "%s%s", k ? " " : "",
                    name[got.terms.at[k].reduction]);
        if (got.terms.at[k].factor != 1)
            fs_text_add(&text, "*%g", got.terms.at[k].factor);
    }
    for (int32_t k = 0; err.status == FS_OK && k < got.statistics.n; k++)
        fs_text_add(
            &text, " by %s",
            ir_op_table[whole->nodes.at[got.statistics.at[k]].op]->name);
    ir_graph_destroy(whole);
    ir_graph_destroy(part);
    return text.at;
}

static void check(loss_of *loss, const char *wanted, const char *what)
{
    fs_arena *arena = fs_arena_create();
    const char *got = terms_of(loss, arena);
    tap_ok(strcmp(got, wanted) == 0, "%s: %s", what, got);
    fs_arena_destroy(arena);
}

static void check_refused(loss_of *loss, const char *why, const char *what)
{
    fs_arena *arena = fs_arena_create();
    const char *got = terms_of(loss, arena);
    tap_ok(strstr(got, why), "%s: %s", what, got);
    fs_arena_destroy(arena);
}

static int32_t entropy_loss(ir_graph *g, double share)
{
    int64_t n = samples_of(g);
    int32_t y = ir_input(g, "labels", IR_I64, ir_shape_make(1, &n), 0);
    ir_node node = {.op = IR_OP_cross_entropy,
                    .n_in = 2,
                    .in = {ir_graph_find(g, "x"), y},
                    .f = {share}};
    int32_t id = ir_graph_add(g, &node);
    return g->nodes.at[id].out[0];
}

static int32_t mean_entropy(ir_graph *g, int32_t e)
{
    (void)e;
    return entropy_loss(g, 1.0 / (double)samples_of(g));
}

static int32_t total_entropy(ir_graph *g, int32_t e)
{
    (void)e;
    return entropy_loss(g, 1);
}

static void check_whole(void)
{
    check(mean, "mean", "a mean");
    check(total, "sum", "a sum");
    check(mean_by_constant, "mean", "a mean by a constant");
    check(mean_and_penalty, "mean", "a mean and what has no samples");
    check(ratio, "quotient", "a quotient of sums over the samples");
    check(half_ratio, "quotient*0.5", "a multiple of one");
    check(by_count, "quotient", "a divisor that counts in integers");
    check(mean_entropy, "mean", "a mean of cross entropies");
    check(total_entropy, "sum", "a sum of cross entropies");
}

int main(void)
{
    check_whole();
    check(total_and_penalty, "sum mean", "a sum and what has no samples");
    check(ratio_and_mean, "quotient mean", "a quotient of sums and a mean");
    check(weighted_sums, "sum*0.5 mean*-0.5 quotient",
          "terms have the factors that stand before them");
    check(doubled, "quotient*1.15292e+18 mean*1.15292e+18",
          "a term is found once, however many ways lead to it");
    check(product_of_means, "mean by mul",
          "a product of means is each micro-batch's own");
    check(centred, "mean by sub", "and what is centred around their mean");
    check_refused(ratio_by_params, "only the whole batch knows",
                  "a divisor that a parameter decides");
    check_refused(root_of_mean, "only the whole batch knows",
                  "the root of a mean is neither");
    check_refused(square, "only the whole batch knows",
                  "the square of a sum is neither");
    check_refused(logarithm, "only the whole batch knows",
                  "a function of a sum is neither");
    return tap_done();
}
