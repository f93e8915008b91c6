/* What `make bench-exec` has measured in one process (tests/bench_exec.py).
 *
 *   bench_exec matmul        products in a plan beside oneDNN called bare:
 *                            lines "M N K TB plan_s bare_s" (TB: 1 where the
 * right operand lies transposed), of each the least disturbed of turns
 *   bench_exec act STEPS     a plan of sums of one element runs; its acts and
 *                            messages of a step: "acts messages"
 *   bench_exec firing        what an act takes beyond its kernel, in ns; the
 *                            middle of turns
 *   bench_exec handover      what a job takes from the polling thread to the
 *                            loader's, and back, in ns: medians "there back"
 *                            of jobs for which the thread has to be woken, of
 *                            jobs one upon the other; then what a wake takes by
 *                            its own measure */
#include "config.h"

#include "exec/exec.h"
#include "ir/train.h"
#include "kernels/kernel.h"
#include "plan/lower.h"

#include "base/clock.h"
#include "exec/binding.h"
#include "exec/loader.h"
#include "exec/probe.h"
#include "exec/world.h"

#include <dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LAYERS = 4, TURNS = 9, SUMS = 1000, MICRO_BATCHES = 8 };
enum { STEPS = 5, MOST_STEPS = 40 }; /* of a turn */

typedef struct running {
    fs_arena *arena;
    ir_graph *graph;
    hw_cluster *cluster;
    plan *plan;
    exec_data data;
    exec_result result;
} running;

static void need(fs_status status, const fs_err *err)
{
    if (status == FS_OK)
        return;
    fprintf(stderr, "bench_exec: %s\n", err->text);
    exit(1);
}

static int32_t weight(ir_graph *g, int32_t k, int64_t rows, int64_t columns)
{
    const int64_t dim[2] = {rows, columns};
    return ir_parameter(g, fs_printf(g->arena, "w%d", k), IR_F32,
                        ir_shape_make(2, dim),
                        (ir_init){IR_INIT_NORMAL, 0.0, 0.02, 1});
}

static void lower(running *r, int32_t x, int32_t micro_batches)
{
    fs_err err = {0};
    const plan_lower_options options = plan_lower_defaults();
    ir_train_options train = ir_train_defaults();
    train.optimizer = IR_SGD;
    train.micro_batches = micro_batches;
    r->graph->loss = ir_reduce(r->graph, IR_OP_reduce_sum, x, 3, false);
    r->graph->batch = ir_shape_of(r->graph, x).dim[0] * micro_batches;
    need(ir_train(r->graph, &train, &err), &err);
    plan_strategy *s = plan_strategy_new(r->graph, 1, r->arena);
    s->stages[0].mesh = (ir_mesh){1, {1}};
    s->schedule = "1f1b";
    need(hw_cluster_probe(1, r->arena, &err, &r->cluster), &err);
    need(
        plan_lower(r->graph, r->cluster, s, &options, r->arena, &err, &r->plan),
        &err);
    need(exec_data_open("synthetic", r->graph, 1, r->arena, &err, &r->data),
         &err);
}

static void run(running *r, int64_t steps, bool own_time)
{
    fs_err err = {0};
    /* As if ranks shared the core: times are the rank's own, whatever else the
     * host does. */
    exec_world alone = {
        .size = 1, .on_host = 1, .cores = 1, .oversubscribed = own_time};
    const exec_options options = {
        .steps = steps, .kernels = "auto", .warmup = 1};
    need(exec_recorder_open(0, &err, &alone.recorder), &err);
    need(exec_run(&alone, r->graph, r->cluster, r->plan, &r->data, &options,
                  r->arena, &err, &r->result),
         &err);
    exec_recorder_close(&alone.recorder);
}

static running open_run(const char *name, int64_t rows, int64_t columns,
                        int32_t *x)
{
    running r = {.arena = fs_arena_create(), .graph = ir_graph_create(name)};
    const int64_t dim[2] = {rows, columns};
    *x = ir_input(r.graph, "x", IR_F32, ir_shape_make(2, dim), 0);
    return r;
}

static void close_run(running *r)
{
    if (r->data.close)
        r->data.close(r->data.ctx);
    ir_graph_destroy(r->graph);
    fs_arena_destroy(r->arena);
}

/* ---- products ---- */

/* Of this thread. */
static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Layers of (m, k) by (k, n), in turn with (m, n) by (n, k): of the first. */
typedef struct product {
    int64_t m, n, k;
    bool tb;
} product;

static product layer_of(const product *p, int layer)
{
    product one = *p;
    if (layer % 2) {
        one.n = p->k;
        one.k = p->n;
    }
    return one;
}

static bool is_one(const running *r, const ir_node *node, const product *p)
{
    return node->op == IR_OP_matmul && node->phase == IR_FORWARD &&
           ir_shape_of(r->graph, node->out[0]).dim[1] == p->n &&
           ir_shape_of(r->graph, node->in[0]).dim[1] == p->k;
}

/* Mean over such layers' tasks of the step, of medians. */
static double plan_seconds(const running *r, const product *p)
{
    const plan_role *role = &r->plan->roles[0];
    double seconds = 0;
    int n = 0;
    for (int32_t t = 0; t < role->n_tasks; t++) {
        const plan_task *task = &role->tasks[t];
        if (task->kind != PLAN_COMPUTE)
            continue;
        if (!is_one(r, &r->graph->nodes.at[task->node], p))
            continue;
        seconds += r->result.measured->demand[0][t].total_s;
        n++;
    }
    return seconds / n;
}

/* Small products are soon done: as much work in a turn as of larger ones. */
static int steps_of(const product *p)
{
    const int64_t usual = INT64_C(1) << 27, terms = p->m * p->n * p->k;
    const int64_t steps = terms < usual ? STEPS * (usual / terms) : STEPS;
    return (int)(steps < MOST_STEPS ? steps : MOST_STEPS);
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef struct bare {
    product p;
    float *w[LAYERS], *dw[LAYERS], *x[LAYERS + 1], *dx[2];
} bare;

static float *some(int64_t n)
{
    float *x = aligned_alloc(64, (size_t)(n * 4 + 63) / 64 * 64);
    for (int64_t i = 0; x && i < n; i++)
        x[i] = (float)(i % 7) * 0.01f;
    return x;
}

static void forward(const bare *b, int k)
{
    const product p = layer_of(&b->p, k);
    dnnl_sgemm('N', p.tb ? 'T' : 'N', p.m, p.n, p.k, 1, b->x[k], p.k, b->w[k],
               p.tb ? p.k : p.n, 0, b->x[k + 1], p.n);
}

static void backward(const bare *b, int k)
{
    const product p = layer_of(&b->p, k);
    const float *dy = b->dx[k % 2], *x = b->x[k];
    if (p.tb)
        dnnl_sgemm('T', 'N', p.n, p.k, p.m, 1, dy, p.n, x, p.k, 0, b->dw[k],
                   p.k);
    else
        dnnl_sgemm('T', 'N', p.k, p.n, p.m, 1, x, p.k, dy, p.n, 0, b->dw[k],
                   p.n);
    dnnl_sgemm('N', p.tb ? 'N' : 'T', p.m, p.k, p.n, 1, dy, p.n, b->w[k],
               p.tb ? p.k : p.n, 0, b->dx[1 - k % 2], p.k);
}

static void go_back(const bare *b)
{
    for (int k = LAYERS - 1; k >= 0; k--)
        backward(b, k);
    for (int k = 0; k < LAYERS; k++)
        for (int64_t i = 0; i < b->p.n * b->p.k; i++)
            b->w[k][i] -= 1e-9f * b->dw[k][i];
}

/* A step of the same products, for caches hold as much; of its forward half the
 * mean of a call that is one. */
static double bare_seconds(const bare *b)
{
    const int steps = steps_of(&b->p);
    double took[MOST_STEPS];
    for (int s = 0; s < steps; s++) {
        int n = 0;
        took[s] = 0;
        for (int k = 0; k < LAYERS; k++) {
            const double begin = now_s();
            forward(b, k);
            if (layer_of(&b->p, k).n != b->p.n)
                continue;
            took[s] += now_s() - begin;
            n++;
        }
        took[s] /= n;
        go_back(b);
    }
    qsort(took, (size_t)steps, sizeof *took, compare);
    return took[steps / 2];
}

static bare open_bare(const product *p)
{
    const int64_t most = p->m * (p->n > p->k ? p->n : p->k);
    bare b = {.p = *p, .x = {some(most)}, .dx = {some(most), some(most)}};
    for (int k = 0; k < LAYERS; k++) {
        b.w[k] = some(p->n * p->k);
        b.dw[k] = some(p->n * p->k);
        b.x[k + 1] = some(most);
    }
    return b;
}

static void close_bare(bare *b)
{
    for (int k = 0; k < LAYERS; k++) {
        free(b->w[k]);
        free(b->dw[k]);
        free(b->x[k]);
    }
    free(b->x[LAYERS]);
    free(b->dx[0]);
    free(b->dx[1]);
}

static void compare_products(const product *p)
{
    int32_t x;
    running r = open_run("products", p->m, p->k, &x);
    bare b = open_bare(p);
    double plan_s[TURNS], bare_s[TURNS];
    for (int k = 0; k < LAYERS; k++) {
        const product one = layer_of(p, k);
        x = ir_matmul(r.graph, x,
                      one.tb ? weight(r.graph, k, one.n, one.k)
                             : weight(r.graph, k, one.k, one.n),
                      false, one.tb);
    }
    lower(&r, x, 1);
    for (int k = 0; k < TURNS; k++) {
        run(&r, steps_of(p), true);
        plan_s[k] = plan_seconds(&r, p);
        bare_s[k] = bare_seconds(&b);
    }
    qsort(plan_s, TURNS, sizeof *plan_s, compare);
    qsort(bare_s, TURNS, sizeof *bare_s, compare);
    printf("%lld %lld %lld %d %.9f %.9f\n", (long long)p->m, (long long)p->n,
           (long long)p->k, p->tb, plan_s[0], bare_s[0]);
    fflush(stdout);
    close_bare(&b);
    close_run(&r);
}

/* ---- acts ---- */

/* Each input that a task reads is told of, and told back that it was read. */
static void count_acts(const plan *p)
{
    const plan_role *role = &p->roles[0];
    long acts = 0, messages = 0;
    for (int32_t t = 0; t < role->n_tasks; t++) {
        const plan_task *task = &role->tasks[t];
        const int32_t times =
            plan_phase_once(task->phase) ? 1 : p->micro_batches;
        acts += times;
        messages += 2L * times * task->n_in;
    }
    printf("%ld %ld\n", acts, messages);
}

static void run_acts(int64_t steps)
{
    int32_t x;
    running r = open_run("acts", 1, 1, &x);
    const int32_t w = weight(r.graph, 0, 1, 1);
    x = ir_binary(r.graph, IR_OP_mul, x, w);
    for (int k = 0; k < SUMS; k++)
        x = ir_binary(r.graph, IR_OP_add, x, w);
    lower(&r, x, MICRO_BATCHES);
    run(&r, steps, false);
    count_acts(r.plan);
    close_run(&r);
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The middle of the turns: each is a difference, whose least would flatter. */
static void time_acts(void)
{
    double took_s[TURNS];
    for (int k = 0; k < TURNS; k++) {
        fs_err err = {0};
        need(exec_probe_firing(&err, &took_s[k]), &err);
    }
    qsort(took_s, TURNS, sizeof *took_s, by_size);
    printf("%.1f\n", took_s[TURNS / 2] * 1e9);
}

/* ---- from thread to thread ---- */

static fs_status note_time(void *ctx, const char *name, int64_t sample,
                           ir_dtype dtype, const ir_shape *local,
                           const int64_t *offset, int32_t batch_axis, void *out,
                           fs_err *err)
{
    (void)ctx, (void)name, (void)sample, (void)dtype, (void)local;
    (void)offset, (void)batch_axis, (void)err;
    *(int64_t *)out = fs_now_ns();
    return FS_OK;
}

/* So that the thread does it. */
static bool is_never_read(void *ctx, const char *name, int64_t sample)
{
    (void)ctx, (void)name, (void)sample;
    return false;
}

static void hand_over(exec_loader *loader, exec_job *job, double *there_ns,
                      double *back_ns)
{
    int64_t taken_ns;
    job->out = &taken_ns;
    const int64_t begin_ns = fs_now_ns();
    exec_loader_submit(loader, job);
    while (atomic_load_explicit(&job->state, memory_order_acquire) ==
           EXEC_JOB_OPEN)
        exec_relax();
    *back_ns = (double)(fs_now_ns() - taken_ns);
    *there_ns = (double)(taken_ns - begin_ns);
}

static void time_jobs(exec_loader *loader, int n, int64_t rest_ns)
{
    double *there = calloc((size_t)n, sizeof *there),
           *back = calloc((size_t)n, sizeof *back);
    const struct timespec rest = {0, rest_ns};
    exec_job job = {.name = "x"};
    for (int i = 0; there && back && i < n; i++) {
        if (rest_ns > 0)
            nanosleep(&rest, NULL);
        hand_over(loader, &job, &there[i], &back[i]);
    }
    if (there && back) {
        qsort(there, (size_t)n, sizeof *there, by_size);
        qsort(back, (size_t)n, sizeof *back, by_size);
        printf("%.0f %.0f ", there[n / 2], back[n / 2]);
    }
    free(there);
    free(back);
}

static void time_hand_over(void)
{
    enum { HOT = 20000, COLD = 300, REST_NS = 3000000 };
    exec_world alone = {.size = 1, .on_host = 1, .cores = exec_usable_cores()};
    const exec_data data = {.fill = note_time, .ready = is_never_read};
    exec_loader *loader = exec_loader_create(&alone, &data, 1);
    time_jobs(loader, COLD, REST_NS);
    time_jobs(loader, HOT, 0);
    printf("%lld\n", (long long)exec_loader_wake_ns(loader));
    exec_loader_destroy(loader);
}

int main(int argc, char **argv)
{
    static const product products[] = {
        {256, 256, 256, false},    {512, 512, 512, false},
        {512, 768, 768, false},    {768, 1024, 1024, false},
        {1024, 1024, 1024, false}, {256, 1024, 4096, false},
        {512, 3072, 768, false},   {512, 768, 768, true},
        {1000, 1000, 1000, false}};
    kernel_set_threads(1);
    if (argc > 2 && strcmp(argv[1], "act") == 0) {
        run_acts(atoll(argv[2]));
        return 0;
    }
    if (argc > 1 && strcmp(argv[1], "firing") == 0) {
        time_acts();
        return 0;
    }
    if (argc > 1 && strcmp(argv[1], "handover") == 0) {
        time_hand_over();
        return 0;
    }
    for (size_t i = 0; i < sizeof products / sizeof *products; i++)
        compare_products(&products[i]);
    return 0;
}
