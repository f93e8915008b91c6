/* What of an all-reduce is hidden behind kernels, on two ranks of MPI:
 *
 *   mpirun -n 2 bench_overlap ROWS WIDTH LAYERS [ALGORITHM]
 *
 * A gradient of 16 MB is made first in backward; behind it lie LAYERS products
 * of ROWS x WIDTH by WIDTH x WIDTH, in each pass. Prints in turns seconds of
 * the all-reduce alone, of the step of a rank that has nobody to reduce with,
 * and of the step of both. ROWS and twice as many are not WIDTH. */
#include "config.h"

#include "exec/transfer.h"
#include "ir/train.h"
#include "kernels/kernel.h"
#include "plan/lower.h"

#include "base/clock.h"

#include "tests/exec_plans.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 16 << 20, TIMES = 3, TURNS = 7, STEPS = 4, TAG = 1 };

static void need(fs_status status, const fs_err *err)
{
    if (status == FS_OK)
        return;
    fprintf(stderr, "bench_overlap: %s\n", err->text);
    exit(1);
}

/* ---- the all-reduce alone ---- */

static void reduce_once(exec_world *world, exec_transfer *transfer,
                        const void *in, void *out, void *scratch)
{
    exec_idle idle = {0};
    bool moved = false;
    exec_transfer_start(transfer, in, out, scratch, BYTES);
    for (; !exec_transfer_poll(transfer, &moved); moved = false)
        if (moved)
            idle = (exec_idle){0};
        else
            exec_idle_wait(world, &idle);
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double reduce_seconds(exec_world *world, exec_algorithm algorithm)
{
    const plan_exchange x = {.shape = {1, {BYTES / 4}},
                             .from_mesh = {1, {2}},
                             .to_mesh = {1, {2}},
                             .from = {{IR_SBP_P}},
                             .to = {{IR_SBP_B}}};
    const exec_transfer_spec spec = {.exchange = &x,
                                     .dtype = IR_F32,
                                     .gives_at = world->rank,
                                     .takes_at = world->rank,
                                     .tag = TAG,
                                     .algorithm = algorithm};
    fs_arena *arena = fs_arena_create();
    fs_err err = {0};
    exec_transfer *transfer;
    float *in = fs_new(arena, float, BYTES / 4);
    float *out = fs_new(arena, float, BYTES / 4);
    char *scratch = fs_new(arena, char, BYTES);
    double took[TIMES];
    need(exec_transfer_make(world, &spec, arena, &err, &transfer), &err);
    exec_transfer_join(transfer);
    reduce_once(world, transfer, in, out, scratch);
    for (int k = 0; k < TIMES; k++) {
        exec_world_barrier(world);
        const int64_t begin = fs_now_ns();
        reduce_once(world, transfer, in, out, scratch);
        took[k] = (double)(fs_now_ns() - begin) * 1e-9;
    }
    exec_transfer_release(transfer);
    fs_arena_destroy(arena);
    qsort(took, TIMES, sizeof *took, compare);
    return took[TIMES / 2];
}

/* ---- a step ---- */

typedef struct network {
    int64_t rows, width; /* of all ranks */
    int layers;
} network;

/* A product with it moves columns on: what goes through many layers neither
 * grows nor vanishes. */
static float *shift_matrix(int64_t n, fs_arena *arena)
{
    float *x = fs_new(arena, float, n *n);
    for (int64_t i = 0; i < n; i++)
        x[i * n + (i + 1) % n] = 1.0f;
    return x;
}

/* A shift so that backward goes down all layers, which train nothing. */
static ir_graph *build(const network *net, fs_arena *arena)
{
    const int64_t n = net->width;
    const ir_init draw = {IR_INIT_NORMAL, 0.0, 0.02, 1};
    const ir_shape square = ir_shape_make(2, (int64_t[]){n, n});
    ir_graph *g = ir_graph_create("overlap");
    ir_train_options train = ir_train_defaults();
    fs_err err = {0};
    int32_t x = ir_input(g, "x", IR_F32,
                         ir_shape_make(2, (int64_t[]){net->rows, n}), 0);
    const int32_t w =
        ir_constant(g, "turn", IR_F32, square, shift_matrix(n, arena));
    x = ir_binary(g, IR_OP_add, x,
                  ir_parameter(g, "shift", IR_F32, ir_shape_make(1, &n), draw));
    for (int k = 0; k < net->layers; k++)
        x = ir_matmul(g, x, w, false, false);
    const ir_shape last = ir_shape_make(2, (int64_t[]){n, BYTES / 4 / n});
    x = ir_matmul(g, x, ir_parameter(g, "head", IR_F32, last, draw), false,
                  false);
    g->loss = ir_reduce(g, IR_OP_reduce_sum, x, 3, false);
    g->batch = net->rows;
    train.optimizer = IR_SGD;
    need(ir_train(g, &train, &err), &err);
    return g;
}

/* Samples are cut, parameters are whole, and their gradients partial sums. */
static void cut_batch(const ir_graph *g, const network *net, plan_strategy *s)
{
    for (int32_t v = 0; v < g->nodes.n; v++) {
        const ir_node *node = &g->nodes.at[v];
        bool reads_cut = false;
        for (int32_t i = 0; i < node->n_in; i++) {
            const ir_shape *shape = &g->tensors.at[node->in[i]].shape;
            if (shape->rank < 2 || shape->dim[0] != net->rows)
                continue;
            s->sig[v].in[i].at[0] = IR_SBP_S(0);
            reads_cut = true;
        }
        for (int32_t i = 0; i < node->n_out; i++) {
            const ir_shape *shape = &g->tensors.at[node->out[i]].shape;
            if (shape->rank > 1 && shape->dim[0] == net->rows)
                s->sig[v].out[i].at[0] = IR_SBP_S(0);
            else if (reads_cut)
                s->sig[v].out[i].at[0] = IR_SBP_P;
        }
    }
}

static plan_strategy *data_parallel(const ir_graph *g, const network *net,
                                    int32_t ranks, fs_arena *arena)
{
    plan_strategy *s = plan_strategy_new(g, 1, arena);
    plan_boxer *boxer =
        plan_boxer_create((plan_boxing_cost){.seconds = unit_seconds}, arena);
    bool joined = true;
    s->stages[0].mesh = (ir_mesh){1, {ranks}};
    s->schedule = "1f1b";
    if (ranks > 1)
        cut_batch(g, net, s);
    for (int32_t v = 0; v < g->nodes.n; v++)
        joined &= join_inputs(g, s, boxer, v);
    FS_ASSERT(joined && close_loops(g, s, boxer));
    return s;
}

typedef struct stepping {
    exec_world *world;
    ir_graph *graph;
    job job;
    const char *algorithm;
} stepping;

static stepping open_steps(exec_world *world, const network *net,
                           const char *algorithm)
{
    stepping s = {.world = world,
                  .algorithm = algorithm,
                  .job = {.arena = fs_arena_create()}};
    plan_lower_options lower = plan_lower_defaults();
    fs_err err = {0};
    lower.overlap = true;
    s.job.graph = s.graph = build(net, s.job.arena);
    need(job_make_with(&s.job,
                       data_parallel(s.graph, net, world->size, s.job.arena),
                       world->size, &lower, &err),
         &err);
    return s;
}

/* Of its steps the least disturbed, on the rank that takes longer. */
static double step_seconds(exec_world *all, stepping *s)
{
    const exec_options options = {.steps = STEPS,
                                  .kernels = "auto",
                                  .collectives = s->algorithm,
                                  .warmup = 1};
    exec_result result;
    fs_err err = {0};
    exec_world_barrier(all);
    need(job_run(&s->job, s->world, &options, &err, &result), &err);
    double seconds = result.step_min_s;
    exec_world_reduce(all, IR_PMAX, IR_F64, &seconds, 1);
    return seconds;
}

static void close_steps(stepping *s)
{
    if (s->job.data.close)
        s->job.data.close(s->job.data.ctx);
    ir_graph_destroy(s->graph);
    fs_arena_destroy(s->job.arena);
}

static int bad_usage(void)
{
    fprintf(stderr,
            "bench_overlap: two ranks; ROWS WIDTH LAYERS [ALGORITHM]\n");
    return 2;
}

int main(int argc, char **argv)
{
    exec_world *world;
    exec_algorithm algorithm = EXEC_direct;
    fs_err err = {0};
    kernel_set_threads(1);
    need(exec_world_open(&err, &world), &err);
    if (argc < 4 || world->size != 2 ||
        (argc > 4 && !exec_algorithm_find(argv[4], &algorithm)))
        return bad_usage();
    const network half = {atoll(argv[1]), atoll(argv[2]), atoi(argv[3])};
    const network both = {2 * half.rows, half.width, half.layers};
    exec_world alone = {.size = 1, .on_host = 1, .cores = world->cores};
    stepping one = open_steps(&alone, &half, NULL);
    stepping two = open_steps(world, &both, exec_algorithm_name(algorithm));
    for (int k = 0; k < TURNS; k++) {
        const double reduce_s = reduce_seconds(world, algorithm);
        const double one_s = step_seconds(world, &one);
        const double two_s = step_seconds(world, &two);
        if (world->rank == 0)
            printf("%.6f %.6f %.6f\n", reduce_s, one_s, two_s);
    }
    close_steps(&one);
    close_steps(&two);
    exec_world_close(world);
    return 0;
}
