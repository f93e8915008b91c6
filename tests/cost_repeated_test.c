/* Blocks that a framework recomputes as they stand: drawn networks of equal
 * blocks take in the backward pass what they take without recomputation, and
 * the blocks' whole forward pass. */
#include "config.h"
#include "cost/framework.h"
#include "ir/recompute.h"
#include "plan_hand.h"

#include <math.h>

static fs_arena *arena;

typedef struct drawn {
    int64_t rows, width, inner;
    int32_t blocks;
} drawn;

static int32_t product(ir_graph *g, int32_t x, const char *name, int64_t from,
                       int64_t to)
{
    const ir_init init = {IR_INIT_NORMAL, 0, 0.1, 7};
    const int32_t w =
        ir_parameter(g, fs_printf(g->arena, "w%s", name), IR_F32,
                     ir_shape_make(2, (int64_t[]){from, to}), init);
    return ir_matmul(g, x, w, false, false);
}

/* x + relu(x A) B, so many times; before and behind them a product. */
static ir_graph *network(const drawn *d, const char *recompute)
{
    ir_graph *g = ir_graph_create("blocks");
    ir_train_options train = ir_train_defaults();
    fs_err err = {0};
    const ir_shape shape = ir_shape_make(2, (int64_t[]){d->rows, d->width});
    int32_t x = ir_input(g, "x", IR_F32, shape, 0);
    const int32_t target = ir_input(g, "t", IR_F32, shape, 0);
    x = product(g, x, "in", d->width, d->width);
    for (int32_t i = 0; i < d->blocks; i++) {
        int32_t y =
            product(g, x, fs_printf(g->arena, "a%d", i), d->width, d->inner);
        y = ir_unary(g, IR_OP_relu, y);
        y = product(g, y, fs_printf(g->arena, "b%d", i), d->inner, d->width);
        x = ir_binary(g, IR_OP_add, x, y);
    }
    x = product(g, x, "out", d->width, d->width);
    g->loss = ir_mse(g, x, target);
    g->digest = 0x1234;
    g->batch = d->rows;
    train.optimizer = IR_SGD;
    train.recompute = recompute;
    if (g->err.status != FS_OK || ir_train(g, &train, &err) != FS_OK) {
        printf("Bail out! %s%s\n", g->err.text, err.text);
        exit(1);
    }
    return g;
}

static double seconds_of(const plan *p, const plan_timing *t, plan_phase phase)
{
    double sum = 0;
    for (int32_t i = 0; i < p->roles[0].n_tasks; i++)
        if (p->roles[0].tasks[i].phase == phase)
            sum += t->demand[0][i].total_s;
    return sum;
}

typedef struct passes {
    double forward_s, backward_s;
    double blocks_s; /* of the forward pass, what is in recomputed blocks */
    int32_t n_blocks;
} passes;

/* On one device. */
static passes time_passes(const drawn *d, const char *recompute, bool repeats)
{
    ir_graph *g = network(d, recompute);
    hw_cluster *c = hand_cluster(arena, 1, 1, 0);
    c->groups[0].device.launch_s = 1e-4;
    const cost_framework f = {.repeats_blocks = repeats,
                              .attention_efficiency = {1, 1},
                              .transposes = {1, 1},
                              .collectives = ~(uint32_t)0};
    plan_strategy *s = hand_stages(g, 1, (ir_mesh){0}, arena);
    hand_signatures(g, s, 0, arena);
    s->micro_batches = 1;
    const plan *p = hand_lower(g, c, s, false, arena);
    const plan_timing *t =
        cost_timing_under(&f, cost_model_create(c, arena), g, p, arena);
    passes out = {.forward_s = seconds_of(p, t, PLAN_FORWARD),
                  .backward_s = seconds_of(p, t, PLAN_BACKWARD)};
    int32_t *number = fs_new(arena, int32_t, g->nodes.n);
    out.n_blocks = ir_recomputed_blocks(g, arena, number);
    for (int32_t i = 0; i < p->roles[0].n_tasks; i++) {
        const plan_task *task = &p->roles[0].tasks[i];
        if (task->kind == PLAN_COMPUTE && task->phase == PLAN_FORWARD &&
            number[task->node] >= 0)
            out.blocks_s += t->demand[0][i].total_s;
    }
    ir_graph_destroy(g);
    return out;
}

static void test_drawn(uint64_t seed)
{
    enum { CASES = 30 };
    double worst = 0, alike = 0;
    int32_t shorter = 0, whole = 0, none = 0;
    for (int32_t i = 0; i < CASES; i++) {
        const drawn d = {.rows = 1 + (int64_t)fs_rand_below(&seed, 200),
                         .width = 1 + (int64_t)fs_rand_below(&seed, 200),
                         .inner = 1 + (int64_t)fs_rand_below(&seed, 400),
                         .blocks = 2 + (int32_t)fs_rand_below(&seed, 5)};
        const passes kept = time_passes(&d, NULL, true),
                     ours = time_passes(&d, "block", false),
                     theirs = time_passes(&d, "block", true),
                     named = time_passes(&d, "relu", true);
        worst = fmax(
            worst,
            fabs((kept.backward_s + theirs.blocks_s) / theirs.backward_s - 1));
        alike = fmax(alike, fabs(theirs.forward_s / kept.forward_s - 1));
        shorter += ours.backward_s < theirs.backward_s;
        whole += theirs.n_blocks == d.blocks && theirs.blocks_s > 0;
        none += kept.n_blocks == 0 && named.n_blocks == 0;
    }
    tap_ok(worst < 1e-9,
           "the backward pass and the blocks' forward pass (%.2g off at most)",
           worst);
    tap_ok(alike < 1e-12, "the forward pass is what it was");
    tap_equal_int(shorter, CASES, "ours leaves out what nobody reads");
    tap_equal_int(whole, CASES, "all blocks are found");
    tap_equal_int(none, CASES,
                  "none where nothing, or not the whole, is made again");
}

int main(void)
{
    arena = fs_arena_create();
    test_drawn(tap_seed(29));
    fs_arena_destroy(arena);
    return tap_done();
}
