/* Gradients reduced beside the backward pass: what waits behind it. */
#include "config.h"
#include "cost/reduced.h"
#include "ir/build.h"
#include "tap.h"

#include <math.h>
#include <stdlib.h>

static fs_arena *arena;

enum { PASS, EARLY, UPDATE, LATE, N_TASKS };

/* A backward pass of 10 s, `early_s` of reductions in it, and an update; or
 * `late_s` of reductions behind it too. */
typedef struct scene {
    plan_task task[N_TASKS];
    plan_demand demand[N_TASKS];
    double bytes[N_TASKS];
    plan_role role;
    ir_graph *graph;
} scene;

static scene *make_scene(double early_s, double late_s)
{
    scene *s = fs_new(arena, scene, 1);
    s->graph = ir_graph_create("reduced");
    const ir_shape shape = {1, {4}};
    const int32_t x = ir_input(s->graph, "x", IR_F32, shape, 0);
    s->task[PASS] =
        (plan_task){.kind = PLAN_COMPUTE, .phase = PLAN_BACKWARD, .comm = -1};
    s->task[EARLY] = (plan_task){.kind = PLAN_BOX,
                                 .phase = PLAN_BACKWARD,
                                 .tensor = x,
                                 .box = {.kind = PLAN_ALL_REDUCE}};
    s->task[UPDATE] =
        (plan_task){.kind = PLAN_COMPUTE, .phase = PLAN_END, .comm = -1};
    s->task[LATE] = s->task[EARLY];
    s->task[LATE].phase = PLAN_END;
    s->graph->tensors.at[x].producer = -1;
    s->demand[PASS].total_s = 10;
    s->demand[EARLY] = (plan_demand){.network_s = early_s, .total_s = early_s};
    s->demand[UPDATE].total_s = 1;
    s->demand[LATE] = (plan_demand){.network_s = late_s, .total_s = late_s};
    s->bytes[EARLY] = 100 * early_s;
    s->bytes[LATE] = 100 * late_s;
    s->role.tasks = s->task;
    s->role.n_tasks = late_s > 0 ? N_TASKS : N_TASKS - 1;
    return s;
}

static void reduce(scene *s, bool overlaps, double bucket_bytes, bool once)
{
    const cost_framework f = {.overlaps = overlaps,
                              .bucket_bytes = bucket_bytes};
    cost_reduce_meanwhile(&f, s->graph, &s->role, s->bytes, once, s->demand);
}

static void test_buckets(void)
{
    scene *s = make_scene(4, 0);
    reduce(s, true, 100, true);
    tap_near(s->demand[EARLY].total_s, 3, 1e-12,
             "a quarter of the gradients is in the last bucket");
    tap_near(s->demand[UPDATE].total_s, 2, 1e-12, "for which the update waits");
    s = make_scene(4, 0);
    reduce(s, true, 1e9, true);
    tap_ok(s->demand[EARLY].total_s == 0 && s->demand[UPDATE].total_s == 5,
           "one bucket for all: nothing is hidden (%g, %g)",
           s->demand[EARLY].total_s, s->demand[UPDATE].total_s);
    s = make_scene(4, 0);
    reduce(s, true, 100, false);
    tap_ok(s->demand[EARLY].total_s == 4 && s->demand[UPDATE].total_s == 1,
           "of several micro-batches what each reduces is left alone");
    s = make_scene(4, 2);
    reduce(s, false, 100, true);
    tap_ok(s->demand[EARLY].total_s == 4 && s->demand[LATE].total_s == 2,
           "without overlap everything takes what it takes");
}

static void test_behind(void)
{
    scene *s = make_scene(4, 2);
    reduce(s, true, 1, true);
    tap_ok(s->demand[EARLY].total_s == 4 && s->demand[LATE].total_s == 2,
           "the last reduction behind the pass is no less than itself");
    s = make_scene(4, 2);
    reduce(s, true, 300, true);
    tap_near(s->demand[LATE].total_s, 3, 1e-12,
             "a bucket of half of all: half of all waits");
    tap_near(s->demand[EARLY].total_s + s->demand[LATE].total_s, 6, 1e-12,
             "and nothing is lost");
    tap_near(s->demand[UPDATE].total_s, 1, 1e-12, "the update is as it was");
}

/* Whatever the sizes: no second is made or lost but what the pass hides. */
static void test_sums(uint64_t seed)
{
    for (int32_t k = 0; k < 200; k++) {
        double x[3];
        for (int32_t i = 0; i < 3; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            x[i] = (double)(seed >> 40) / (double)(1 << 24);
        }
        scene *s = make_scene(8 * x[0] + 0.01, 0);
        const double before = s->demand[EARLY].total_s;
        reduce(s, true, 1000 * x[1], true);
        const double after =
            s->demand[EARLY].total_s + s->demand[UPDATE].total_s - 1;
        if (fabs(after - before) > 1e-9 || s->demand[EARLY].total_s < -1e-12) {
            tap_ok(false, "%g s become %g in case %d", before, after, k);
            return;
        }
    }
    tap_ok(true, "seconds move behind the pass, none is made or lost");
}

int main(void)
{
    const char *seed = getenv("FS_SEED");
    arena = fs_arena_create();
    printf("# seed %s\n", seed ? seed : "7");
    test_buckets();
    test_behind();
    test_sums(seed ? strtoull(seed, NULL, 10) : 7);
    fs_arena_destroy(arena);
    return tap_done();
}
