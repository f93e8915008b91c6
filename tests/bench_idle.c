/* What ranks that wait take of their cores:
 *
 *   bench_idle LOAD_MS STEPS              one rank waits for its loader
 *   mpirun -n 2 bench_idle LOAD_MS STEPS  two stages: the second waits for the
 *                                         first, which waits for its loader;
 *                                         then for messages that come as late
 *
 * A sample takes LOAD_MS to load, the steps hardly anything. Each rank prints
 * "rank wall_s cpu_s late_s wake_s": of all its threads, after a step to begin
 * with; how much later than LOAD_MS the median step of one rank is, or a
 * message is seen (for loads go on while a rank is late); what waking takes. */
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

/* ---- messages ---- */

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* From when one is sent, LOAD_MS and some after the last, to when the waiting
 * rank has it: clocks of one host agree. */
static double message_late_s(exec_world *world, double ms)
{
    enum { TIMES = 41, TAG = 7 };
    double late_s[TIMES] = {0};
    uint64_t seed = 5;
    for (int k = 0; k < TIMES; k++) {
        int64_t sent_ns = 0;
        exec_request request;
        const double more = 1 + 1e-3 * (double)fs_rand_below(&seed, 300);
        const struct timespec t = {0, (long)(ms * more * 1e6)};
        exec_world_barrier(world);
        if (world->rank == 0) {
            nanosleep(&t, NULL);
            sent_ns = fs_now_ns();
            exec_send_bytes(world, &sent_ns, sizeof sent_ns, 1, TAG, &request);
        } else {
            exec_recv_bytes(world, &sent_ns, sizeof sent_ns, 0, TAG, &request);
        }
        exec_wait(world, 1, &request);
        late_s[k] = (double)(fs_now_ns() - sent_ns) * 1e-9;
        /* MPI's barrier spins, where the other may be about to run. */
        const struct timespec aside = {0, 2000000};
        nanosleep(&aside, NULL);
    }
    qsort(late_s, TIMES, sizeof *late_s, compare);
    return late_s[TIMES / 2];
}

/* ---- the run ---- */

typedef struct begun {
    int64_t wall_ns;
    double cpu_s;
} begun;

static begun now(void)
{
    return (begun){fs_now_ns(), cpu_s()};
}

static void run_steps(exec_world *world, const job *j, int64_t steps,
                      exec_result *result, begun *from)
{
    const exec_options options = {
        .steps = steps, .kernels = "auto", .warmup = 1};
    fs_err err = {0};
    exec_world_barrier(world);
    *from = now();
    need(job_run(j, world, &options, &err, result), &err);
}

/* What a short run takes is left out: preparing kernels is no waiting. */
static void measure(exec_world *world, const job *j, double ms, int64_t steps)
{
    exec_result result;
    begun first, from, to;
    run_steps(world, j, 2, &result, &first);
    const begun short_end = now();
    run_steps(world, j, 2 + steps, &result, &from);
    to = now();
    const double wall_s = (double)(to.wall_ns - from.wall_ns -
                                   (short_end.wall_ns - first.wall_ns)) *
                          1e-9;
    const double used_s =
        to.cpu_s - from.cpu_s - (short_end.cpu_s - first.cpu_s);
    const double late_s = world->size > 1 ? message_late_s(world, ms)
                                          : result.step_median_s - 1e-3 * ms;
    printf("%d %.6f %.6f %.6f %.6f\n", world->rank, wall_s, used_s, late_s,
           (double)exec_world_bell(world)->parker.wake_ns * 1e-9);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    exec_world *world;
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
    measure(world, &j, ms, atoll(argv[2]));
    ir_graph_destroy(g);
    fs_arena_destroy(j.arena);
    exec_world_close(world);
    return 0;
}
