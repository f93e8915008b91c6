/* What ranks that wait take of their cores:
 *
 *   bench_idle LOAD_MS STEPS            one rank, which waits for its loader
 *   mpirun -n 2 bench_idle LOAD_MS STEPS  two stages: the second waits for the
 *                                       first, which waits for its loader
 *
 * A sample takes LOAD_MS to load, the steps hardly anything. Each rank prints
 * "rank wall_s cpu_s step_s": of all its threads from a step on, and the median
 * of its steps. */
#include "config.h"

#include "exec/world.h"
#include "ir/train.h"
#include "kernels/kernel.h"
#include "plan/lower.h"

#include "base/clock.h"

#include "tests/exec_plans.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROWS = 8, WIDTH = 16, LAYERS = 6 };

static void need(fs_status status, const fs_err *err)
{
    if (status == FS_OK)
        return;
    fprintf(stderr, "bench_idle: %s\n", err->text);
    exit(1);
}

static double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static ir_graph *build(void)
{
    const ir_init draw = {IR_INIT_NORMAL, 0.0, 0.02, 1};
    const ir_shape square = ir_shape_make(2, (int64_t[]){WIDTH, WIDTH});
    ir_graph *g = ir_graph_create("idle");
    ir_train_options train = ir_train_defaults();
    fs_err err = {0};
    int32_t x =
        ir_input(g, "x", IR_F32, ir_shape_make(2, (int64_t[]){ROWS, WIDTH}), 0);
    for (int k = 0; k < LAYERS; k++)
        x = ir_matmul(g, x,
                      ir_parameter(g, fs_printf(g->arena, "w%d", k), IR_F32,
                                   square, draw),
                      false, false);
    g->loss = ir_reduce(g, IR_OP_reduce_sum, x, 3, false);
    g->batch = ROWS;
    train.optimizer = IR_SGD;
    need(ir_train(g, &train, &err), &err);
    return g;
}

static plan_strategy *in_stages(const ir_graph *g, int32_t n, fs_arena *arena)
{
    plan_strategy *s = plan_strategy_new(g, n, arena);
    plan_boxer *boxer =
        plan_boxer_create((plan_boxing_cost){.seconds = unit_seconds}, arena);
    uint64_t seed = 1;
    bool joined = true;
    for (int32_t k = 0; k < n; k++)
        s->stages[k] = (plan_stage){{1, {1}}, k};
    s->schedule = "1f1b";
    place_stages(g, s, &seed);
    for (int32_t v = 0; v < g->nodes.n; v++)
        joined &= join_inputs(g, s, boxer, v);
    FS_ASSERT(joined && close_loops(g, s, boxer));
    return s;
}

/* ---- a slow disk ---- */

static fs_status load_slowly(void *ctx, const char *name, int64_t sample,
                             ir_dtype dtype, const ir_shape *local,
                             const int64_t *offset, int32_t batch_axis,
                             void *out, fs_err *err)
{
    const double *ms = ctx;
    const struct timespec t = {0, (long)(*ms * 1e6)};
    (void)name, (void)sample, (void)offset, (void)batch_axis, (void)err;
    nanosleep(&t, NULL);
    memset(out, 0, (size_t)(ir_shape_count(local) * ir_dtype_bytes(dtype)));
    return FS_OK;
}

int main(int argc, char **argv)
{
    exec_world *world;
    exec_result result;
    fs_err err = {0};
    if (argc < 3) {
        fprintf(stderr, "bench_idle: LOAD_MS STEPS\n");
        return 2;
    }
    double ms = atof(argv[1]);
    kernel_set_threads(1);
    need(exec_world_open(&err, &world), &err);
    ir_graph *g = build();
    job j = {.graph = g, .arena = fs_arena_create()};
    need(job_make(&j, in_stages(g, world->size, j.arena), world->size, &err),
         &err);
    if (j.data.close)
        j.data.close(j.data.ctx);
    j.data = (exec_data){.ctx = &ms, .fill = load_slowly};
    const exec_options options = {
        .steps = atoll(argv[2]), .kernels = "auto", .warmup = 1};
    exec_world_barrier(world);
    const int64_t begin_ns = fs_now_ns();
    const double begin_s = cpu_s();
    need(job_run(&j, world, &options, &err, &result), &err);
    printf("%d %.6f %.6f %.6f\n", world->rank,
           (double)(fs_now_ns() - begin_ns) * 1e-9, cpu_s() - begin_s,
           result.step_median_s);
    fflush(stdout);
    ir_graph_destroy(g);
    fs_arena_destroy(j.arena);
    exec_world_close(world);
    return 0;
}
