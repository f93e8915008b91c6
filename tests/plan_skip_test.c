/* Tensors that skip stages: their sender is further on by the schedule than
 * the stage that reads them, and must not wait for it. */
#include "config.h"

#include "plan/check.h"
#include "plan/schedule.h"

#include "plan_build.h"
#include "tap.h"

typedef struct skip_case {
    int32_t pp, m, prefetch;
    const char *schedule;
    int32_t from, to; /* layers, of which each stage has one */
    int32_t op;       /* add: read by forward alone; mul: kept for backward */
} skip_case;

/* A linear layer per stage; what layer `from` made joins layer `to`. */
static ir_graph *skipping_mlp(const skip_case *c)
{
    ir_graph *g = ir_graph_create("skip");
    ir_train_options options = ir_train_defaults();
    ir_init init = {.kind = IR_INIT_NORMAL, .spread = 0.1, .seed = 1};
    int32_t x = ir_input(g, "x", IR_F32, (ir_shape){2, {4, 16}}, 0);
    int32_t y = ir_input(g, "y", IR_I64, (ir_shape){1, {4}}, 0), early = x;
    fs_err err = {0};
    char name[16];

    for (int32_t i = 0; i < c->pp; i++) {
        snprintf(name, sizeof name, "w%d", (int)i);
        x = ir_matmul(
            g, x, ir_parameter(g, name, IR_F32, (ir_shape){2, {16, 16}}, init),
            false, false);
        early = i == c->from ? x : early;
        x = i == c->to ? ir_binary(g, c->op, x, early) : x;
        x = ir_unary(g, IR_OP_relu, x);
    }
    g->loss = ir_cross_entropy(g, x, y);
    g->batch = 4 * c->m;
    options.micro_batches = c->m;
    if (ir_train(g, &options, &err) != FS_OK)
        printf("# %s\n", err.text);
    return g;
}

/* Is its plan live? */
static bool is_live(const skip_case *c)
{
    fs_arena *arena = fs_arena_create();
    ir_graph *g = skipping_mlp(c);
    hw_cluster *cluster = build_cluster(c->pp, arena);
    build_recipe recipe = {.pp = c->pp, .schedule = c->schedule};
    plan_lower_options o = plan_lower_defaults();
    plan_report report = {0};
    fs_err err = {0};
    plan *p = NULL;
    const char *why;
    bool live;

    o.prefetch = c->prefetch;
    live = plan_lower(g, cluster, build_strategy(g, &recipe, arena), &o, arena,
                      &err, &p) == FS_OK &&
           plan_check(g, cluster, p, arena, &report) == FS_OK;
    why = report.n ? report.findings[0].text : err.text;
    if (!live)
        printf("# pp %d, m %d, prefetch %d, %s, layer %d to %d, %s: %.*s\n",
               (int)c->pp, (int)c->m, (int)c->prefetch, c->schedule,
               (int)c->from, (int)c->to, ir_op_table[c->op]->name,
               (int)strcspn(why, "\n"), why);
    ir_graph_destroy(g);
    fs_arena_destroy(arena);
    return live;
}

static void test_every_stage(void)
{
    for (int32_t pp = 2; pp <= 12; pp++) {
        int32_t dead = 0;
        for (int32_t m = 1; m <= 24; m += 1 + m / 4)
            for (int32_t k = 0; k < 4; k++) {
                skip_case c = {pp,
                               m,
                               k % 2,
                               "1f1b",
                               0,
                               pp - 1,
                               k < 2 ? IR_OP_add : IR_OP_mul};
                dead += !is_live(&c);
            }
        tap_equal_int(dead, 0, "1f1b of %d stages: first to last is live",
                      (int)pp);
    }
}

static void test_random(uint64_t seed)
{
    int32_t dead = 0, runs = 100;

    for (int32_t i = 0; i < runs; i++) {
        skip_case c = {.pp = 2 + (int32_t)fs_rand_below(&seed, 11),
                       .m = 1 + (int32_t)fs_rand_below(&seed, 24),
                       .prefetch = (int32_t)fs_rand_below(&seed, 3),
                       .schedule = fs_rand_below(&seed, 4) ? "1f1b" : "gpipe",
                       .op = fs_rand_below(&seed, 2) ? IR_OP_add : IR_OP_mul};
        c.from = (int32_t)fs_rand_below(&seed, (uint64_t)c.pp - 1);
        c.to = c.from + 1 +
               (int32_t)fs_rand_below(&seed, (uint64_t)(c.pp - c.from - 1));
        dead += !is_live(&c);
    }
    tap_equal_int(dead, 0, "%d random skips are live", (int)runs);
}

static plan_pace pace_of(const char *schedule, int32_t p, int32_t m,
                         fs_arena *arena)
{
    plan_stage *stages = fs_new(arena, plan_stage, p);
    plan_pipeline pipe;

    for (int32_t i = 0; i < p; i++)
        stages[i].first_device = i;
    pipe = plan_pipeline_of(stages, p, schedule, m, arena);
    return plan_pace_of(&pipe, arena);
}

/* 1f1b and gpipe take 2 (m + p - 1) slots of one unit; a forward is read k
 * stages further on when k more have begun. */
static void test_pace(void)
{
    static const char *const names[] = {"1f1b", "gpipe"};
    fs_arena *arena = fs_arena_create();
    int32_t late = 0, few = 0, near = 0;

    for (int32_t p = 1; p <= 10; p++)
        for (int32_t m = 1; m <= 20; m++)
            for (int32_t i = 0; i < 2; i++) {
                plan_pace pace = pace_of(names[i], p, m, arena);
                plan_crossing far = {0, p - 1, PLAN_FORWARD, PLAN_FORWARD};
                plan_crossing next = {0, 1, PLAN_FORWARD, PLAN_FORWARD};
                late += pace.ends[2 * m - 1] != 2 * (m + p - 1);
                few += plan_pace_buffers(&pace, &far, 0) <
                       (p - 2 < m - 2 ? p - 2 : m - 2);
                near += p > 1 && plan_pace_buffers(&pace, &next, 1) != 1;
            }
    tap_equal_int(late, 0, "the first stage ends after 2 (m + p - 1) slots");
    tap_equal_int(few, 0, "what skips stages has a buffer for each");
    tap_equal_int(near, 0, "what goes to the next stage needs one");
    fs_arena_destroy(arena);
}

int main(void)
{
    test_pace();
    test_every_stage();
    test_random(tap_seed(3));
    return tap_done();
}
