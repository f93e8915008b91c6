/* Products of one input that a framework does as one: drawn networks in which
 * x goes through n weights of equal width, beside those where it goes through
 * one weight as wide as all of them. */
#include "config.h"
#include "cost/framework.h"
#include "plan_hand.h"

#include <math.h>

static fs_arena *arena;

typedef struct drawn {
    int64_t rows, width, columns;
    int32_t n;
    bool tiled;
    bool flipped; /* weights lie (columns, width) */
} drawn;

static hw_cluster *cluster_of(const drawn *d)
{
    hw_cluster *c = hand_cluster(arena, 1, 1, 0);
    c->groups[0].device.launch_s = 1e-6;
    c->groups[0].device.fp32_flops = 1e13;
    c->groups[0].device.memory_bps = 1e12;
    c->groups[0].device.units = d->tiled ? 20 : 0;
    c->groups[0].device.ramp_depth = d->tiled ? 64 : 0;
    return c;
}

/* relu(x W), then each of n weights of so many columns; what comes out is
 * multiplied together. */
static ir_graph *network(const drawn *d, int32_t n, int64_t columns)
{
    ir_graph *g = ir_graph_create("joined");
    const ir_init init = {IR_INIT_NORMAL, 0, 0.1, 7};
    ir_train_options train = ir_train_defaults();
    fs_err err = {0};
    int32_t x = ir_input(g, "x", IR_F32,
                         ir_shape_make(2, (int64_t[]){d->rows, d->width}), 0);
    const int32_t target = ir_input(
        g, "t", IR_F32, ir_shape_make(2, (int64_t[]){d->rows, columns}), 0);
    const int32_t first =
        ir_parameter(g, "first", IR_F32,
                     ir_shape_make(2, (int64_t[]){d->width, d->width}), init);
    int32_t y = -1;
    x = ir_unary(g, IR_OP_relu, ir_matmul(g, x, first, false, false));
    for (int32_t i = 0; i < n; i++) {
        const int64_t rows = d->flipped ? columns : d->width;
        const int32_t w = ir_parameter(
            g, fs_printf(g->arena, "w%d", i), IR_F32,
            ir_shape_make(2, (int64_t[]){rows, d->width + columns - rows}),
            init);
        const int32_t out = ir_matmul(g, x, w, false, d->flipped);
        y = i ? ir_binary(g, IR_OP_mul, y, out) : out;
    }
    g->loss = ir_mse(g, y, target);
    g->digest = 0x1234;
    g->batch = d->rows;
    train.optimizer = IR_SGD;
    if (g->err.status != FS_OK || ir_train(g, &train, &err) != FS_OK) {
        printf("Bail out! %s%s\n", g->err.text, err.text);
        exit(1);
    }
    return g;
}

/* Seconds of products, but for those of the first weight, and of sums. */
static double products_s(const drawn *d, int32_t n, int64_t columns, bool joins)
{
    ir_graph *g = network(d, n, columns);
    const hw_cluster *c = cluster_of(d);
    const cost_framework f = {.joins_products = joins,
                              .attention_efficiency = {1, 1},
                              .transposes = {1, 1},
                              .collectives = ~(uint32_t)0};
    plan_strategy *s = hand_stages(g, 1, (ir_mesh){0}, arena);
    double total = 0;
    hand_signatures(g, s, 0, arena);
    s->micro_batches = 1;
    const plan *p = hand_lower(g, c, s, false, arena);
    const cost_model *model = cost_model_create(c, arena);
    const plan_timing *t = cost_timing_under(&f, model, g, p, arena);
    for (int32_t i = 0; i < p->roles[0].n_tasks; i++) {
        const plan_task *task = &p->roles[0].tasks[i];
        if (task->kind != PLAN_COMPUTE || task->phase == PLAN_END)
            continue;
        const ir_node *node = &g->nodes.at[task->node];
        const bool sum = node->op == IR_OP_add && task->phase == PLAN_BACKWARD;
        if ((node->op == IR_OP_matmul || node->op == IR_OP_weight_grad ||
             sum) &&
            !strstr(node->name, "first"))
            total += t->demand[0][i].total_s;
    }
    ir_graph_destroy(g);
    return total;
}

static void test_drawn(uint64_t seed)
{
    double worst = 0;
    int32_t shorter = 0, same = 0;
    enum { CASES = 40 };
    for (int32_t i = 0; i < CASES; i++) {
        const drawn d = {.rows = 1 + (int64_t)fs_rand_below(&seed, 900),
                         .width = 1 + (int64_t)fs_rand_below(&seed, 900),
                         .columns = 1 + (int64_t)fs_rand_below(&seed, 500),
                         .n = 2 + (int32_t)fs_rand_below(&seed, 4),
                         .tiled = fs_rand_below(&seed, 2),
                         .flipped = fs_rand_below(&seed, 2)};
        const double one = products_s(&d, 1, d.n * d.columns, false),
                     joined = products_s(&d, d.n, d.columns, true),
                     apart = products_s(&d, d.n, d.columns, false);
        worst = fmax(worst, fabs(joined / one - 1));
        shorter += joined < apart;
        same += fabs(products_s(&d, 1, d.columns, true) /
                         products_s(&d, 1, d.columns, false) -
                     1) < 1e-12;
    }
    tap_ok(worst < 1e-9, "joined: as one product (%.2g off at most)", worst);
    tap_equal_int(shorter, CASES, "and less than each for itself");
    tap_equal_int(same, CASES, "one alone is as it was");
}

/* The sums of what goes back through several weights, and their all-reduce on a
 * stream of its own: what the weights' gradients in front of it hide is off. */
static bool hides(uint64_t seed, bool *right)
{
    const drawn d = {.rows = 64, .width = 64, .columns = 64, .n = 2};
    ir_graph *g = network(&d, d.n, d.columns);
    hw_cluster *c = hand_cluster(arena, 1, 2, 0);
    c->groups[0].device.overlap_slowdown = 1.25;
    const cost_framework f = {.joins_products = true,
                              .attention_efficiency = {1, 1},
                              .transposes = {1, 1},
                              .collectives = ~(uint32_t)0};
    plan_strategy *s = hand_stages(g, 1, (ir_mesh){1, {2}}, arena);
    hand_signatures(g, s, seed, arena);
    s->micro_batches = 1;
    const plan *p = hand_lower(g, c, s, true, arena);
    const cost_model *model = cost_model_create(c, arena);
    const plan_timing *alone = cost_timing(model, g, p, arena),
                      *t = cost_timing_under(&f, model, g, p, arena);
    bool found = false;
    double before_s = 0;
    for (int32_t i = 0; i < p->roles[0].n_tasks; i++) {
        const plan_task *task = &p->roles[0].tasks[i];
        if (task->kind == PLAN_COMPUTE && task->phase == PLAN_BACKWARD &&
            g->nodes.at[task->node].op == IR_OP_weight_grad &&
            !strstr(g->nodes.at[task->node].name, "first"))
            before_s += t->demand[0][i].total_s;
        if (task->kind != PLAN_BOX || task->comm < 0 ||
            task->phase != PLAN_BACKWARD || task->box.kind != PLAN_ALL_REDUCE ||
            g->nodes.at[g->tensors.at[task->tensor].producer].op != IR_OP_add)
            continue;
        const double whole = alone->demand[0][i].total_s,
                     left = t->demand[0][i].total_s,
                     due = whole - fmin(whole / 1.25, before_s);
        if (left >= whole) /* its sum is not of joined products */
            continue;
        found = true;
        *right = fabs(left - due) < 1e-9 * whole;
    }
    ir_graph_destroy(g);
    return found;
}

static void test_hidden(uint64_t seed)
{
    enum { TRIES = 600 };
    int32_t found = 0, right = 0;
    for (int32_t i = 0; i < TRIES; i++) {
        bool as_due = false;
        found += hides(seed + (uint64_t)i, &as_due);
        right += as_due;
    }
    tap_ok(found > 0, "%d of %d drawn plans reduce such a sum", found, TRIES);
    tap_equal_int(right, found, "which what stands before it hides");
}

int main(void)
{
    arena = fs_arena_create();
    test_hidden(tap_seed(31));
    test_drawn(tap_seed(26));
    fs_arena_destroy(arena);
    return tap_done();
}
