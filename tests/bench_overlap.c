/* What of an all-reduce is hidden behind kernels, on two ranks of MPI:
 *
 *   mpirun -n 2 bench_overlap ROWS WIDTH LAYERS [ALGORITHM]
 *
 * A gradient of 16 MB is made first in backward; behind it lie LAYERS products
 * of ROWS x WIDTH by WIDTH x WIDTH, in each pass. Prints in turns seconds of
 * the all-reduce alone, of the step of a rank that has nobody to reduce with,
 * and of the step of both; then seconds that a core which computes all the
 * while loses to the all-reduce, and to as many bytes by bare sockets: less
 * nobody loses. ROWS and twice as many are not WIDTH. LAYERS 0: so many that
 * backward takes half as long again as the all-reduce. */
#include "config.h"

#include "exec/transfer.h"
#include "ir/train.h"
#include "kernels/kernel.h"
#include "plan/lower.h"

#include "base/clock.h"

#include "tests/exec_plans.h"

#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BYTES = 16 << 20, TIMES = 3, TURNS = 15, STEPS = 4, TAG = 1 };

static void need(fs_status status, const fs_err *err)
{
    if (status == FS_OK)
        return;
    fprintf(stderr, "bench_overlap: %s\n", err->text);
    exit(1);
}

/* ---- an all-reduce ---- */

typedef struct reducing {
    exec_transfer *transfer;
    char *in, *out, *scratch; /* BYTES each */
    bool begun;
} reducing;

static void begin_reduce(reducing *r)
{
    exec_transfer_start(r->transfer, r->in, r->out, r->scratch, BYTES);
    r->begun = true;
}

static void reduce_once(exec_world *world, reducing *r)
{
    exec_idle idle = {0};
    bool moved = false;
    begin_reduce(r);
    for (; !exec_transfer_poll(r->transfer, &moved); moved = false)
        if (moved)
            idle = (exec_idle){0};
        else
            exec_idle_wait(world, &idle);
}

static bool reduce_some(void *ctx)
{
    reducing *r = ctx;
    bool moved = false;
    if (!r->begun)
        begin_reduce(r);
    return exec_transfer_poll(r->transfer, &moved);
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* ---- what of a core is lost to it ---- */

/* True: all is done. */
typedef bool progress_fn(void *ctx);

static volatile float sink;

/* Some 20 us in registers. */
static void compute_piece(void)
{
    float x = sink;
    for (int i = 0; i < 5000; i++)
        x = x * 0.999f + 0.001f;
    sink = x;
}

static double seconds_since(int64_t begin)
{
    return (double)(fs_now_ns() - begin) * 1e-9;
}

/* Looked after every 100 us or so: more often costs more, and less often gains
 * little. */
static double lost_seconds(exec_world *world, progress_fn *go_on, void *ctx)
{
    enum { PIECES = 2000, BETWEEN = 5 };
    int64_t n = 0;
    exec_world_barrier(world);
    int64_t begin = fs_now_ns();
    for (int i = 0; i < PIECES; i++)
        compute_piece();
    const double piece_s = seconds_since(begin) / PIECES;
    exec_world_barrier(world);
    begin = fs_now_ns();
    do {
        compute_piece();
        n++;
    } while (n % BETWEEN != 0 || !go_on(ctx));
    double lost = seconds_since(begin) - piece_s * (double)n;
    exec_world_reduce(world, IR_PMAX, IR_F64, &lost, 1);
    return lost;
}

/* ---- bare sockets ---- */

typedef struct moving {
    int socket;
    char *from, *to;
    int64_t sent, got;
} moving;

static void need_call(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "bench_overlap: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int open_socket(exec_world *world)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof at;
    int s = socket(AF_INET, SOCK_STREAM, 0), peer = s;
    need_call(s >= 0, "socket");
    if (world->rank == 0) {
        need_call(bind(s, (struct sockaddr *)&at, length) == 0, "bind");
        need_call(listen(s, 1) == 0, "listen");
        getsockname(s, (struct sockaddr *)&at, &length);
    }
    exec_world_bcast(world, &at, sizeof at, 0);
    if (world->rank == 0) {
        need_call((peer = accept(s, NULL, NULL)) >= 0, "accept");
        close(s);
    } else {
        need_call(connect(s, (struct sockaddr *)&at, length) == 0, "connect");
    }
    return peer;
}

static int64_t part_of(int64_t done)
{
    const int64_t most = 1 << 20, left = BYTES - done;
    return left < most ? left : most;
}

static bool move_some(void *ctx)
{
    moving *m = ctx;
    ssize_t n = 0;
    while (m->sent < BYTES && n >= 0) {
        n = send(m->socket, m->from + m->sent, (size_t)part_of(m->sent),
                 MSG_DONTWAIT);
        m->sent += n > 0 ? n : 0;
    }
    for (n = 1; m->got < BYTES && n > 0; m->got += n > 0 ? n : 0)
        n = recv(m->socket, m->to + m->got, (size_t)part_of(m->got),
                 MSG_DONTWAIT);
    return m->sent == BYTES && m->got == BYTES;
}

static double bare_seconds(exec_world *world)
{
    fs_arena *arena = fs_arena_create();
    moving m = {.socket = open_socket(world),
                .from = fs_new(arena, char, BYTES),
                .to = fs_new(arena, char, BYTES)};
    double lost[TIMES];
    memset(m.from, 1, BYTES);
    memset(m.to, 1, BYTES);
    for (int k = 0; k < TIMES; k++) {
        lost[k] = lost_seconds(world, move_some, &m);
        m.sent = m.got = 0;
    }
    close(m.socket);
    fs_arena_destroy(arena);
    qsort(lost, TIMES, sizeof *lost, compare);
    return lost[TIMES / 2];
}

/* ---- the all-reduce, beside nothing and beside computing ---- */

typedef struct figures {
    double alone_s, lost_s;
} figures;

static figures reduce_seconds(exec_world *world, plan_algorithm algorithm)
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
    reducing r = {.in = fs_new(arena, char, BYTES),
                  .out = fs_new(arena, char, BYTES),
                  .scratch = fs_new(arena, char, BYTES)};
    double took[TIMES], lost[TIMES];
    need(exec_transfer_make(world, &spec, arena, &err, &r.transfer), &err);
    exec_transfer_join(r.transfer);
    reduce_once(world, &r);
    for (int k = 0; k < TIMES; k++) {
        exec_world_barrier(world);
        const int64_t begin = fs_now_ns();
        reduce_once(world, &r);
        took[k] = (double)(fs_now_ns() - begin) * 1e-9;
    }
    for (int k = 0; k < TIMES; k++) {
        r.begun = false;
        lost[k] = lost_seconds(world, reduce_some, &r);
    }
    exec_transfer_release(r.transfer);
    fs_arena_destroy(arena);
    qsort(took, TIMES, sizeof *took, compare);
    qsort(lost, TIMES, sizeof *lost, compare);
    return (figures){took[TIMES / 2], lost[TIMES / 2]};
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
    plan_choice choice;
} stepping;

static stepping open_steps(exec_world *world, const network *net,
                           plan_algorithm algorithm)
{
    stepping s = {.world = world, .job = {.arena = fs_arena_create()}};
    plan_lower_options lower = plan_lower_defaults();
    fs_err err = {0};
    lower.overlap = true;
    s.job.graph = s.graph = build(net, s.job.arena);
    need(job_make_with(&s.job,
                       data_parallel(s.graph, net, world->size, s.job.arena),
                       world->size, &lower, &err),
         &err);
    s.choice = choice_by(s.job.p, algorithm, 0, s.job.arena);
    return s;
}

/* Of its steps the least disturbed, on the rank that takes longer. */
static double step_seconds(exec_world *all, stepping *s)
{
    const exec_options options = {
        .steps = STEPS, .kernels = "auto", .choice = &s->choice, .warmup = 1};
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

/* Of two steps the difference: the head takes as long as many layers. */
static int enough_layers(exec_world *world, const exec_world *alone,
                         network net, double reduce_s)
{
    enum { SOME = 20 };
    double took_s[2];
    for (int k = 0; k < 2; k++) {
        exec_world one = *alone;
        net.layers = (k + 1) * SOME;
        stepping s = open_steps(&one, &net, PLAN_BY_direct);
        took_s[k] = step_seconds(world, &s);
        close_steps(&s);
    }
    const double layer_s = (took_s[1] - took_s[0]) / SOME;
    int64_t n = (int64_t)ceil(1.5 * reduce_s / (layer_s / 2));
    exec_world_reduce(world, IR_PMAX, IR_I64, &n, 1);
    return (int)n;
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
    plan_algorithm algorithm = PLAN_BY_direct;
    fs_err err = {0};
    kernel_set_threads(1);
    need(exec_world_open(&err, &world), &err);
    if (argc < 4 || world->size != 2 ||
        (argc > 4 && !plan_algorithm_find(argv[4], &algorithm)))
        return bad_usage();
    network half = {atoll(argv[1]), atoll(argv[2]), atoi(argv[3])};
    exec_world alone = {.size = 1, .on_host = 1, .cores = world->cores};
    if (half.layers == 0)
        half.layers = enough_layers(world, &alone, half,
                                    reduce_seconds(world, algorithm).alone_s);
    const network both = {2 * half.rows, half.width, half.layers};
    stepping one = open_steps(&alone, &half, PLAN_BY_direct);
    stepping two = open_steps(world, &both, algorithm);
    for (int k = 0; k < TURNS; k++) {
        const figures reduce = reduce_seconds(world, algorithm);
        const double bare_s = bare_seconds(world);
        const double one_s = step_seconds(world, &one);
        const double two_s = step_seconds(world, &two);
        if (world->rank == 0)
            printf("%.6f %.6f %.6f %.6f %.6f\n", reduce.alone_s, one_s, two_s,
                   reduce.lost_s, bare_s);
    }
    close_steps(&one);
    close_steps(&two);
    exec_world_close(world);
    return 0;
}
