/* The path of an act: no allocation. Calls of the polling thread are
 * counted from the end of one step to that of another. */
#include "config.h"

#include "exec/exec.h"
#include "ir/train.h"
#include "plan/lower.h"

#include "exec/world.h"
#include "tests/tap.h"

enum { STEPS = 40, FROM = 2, TO = STEPS - 2, SUMS = 20, MICRO_BATCHES = 4 };

static _Thread_local bool counting;
static _Thread_local int64_t allocations;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) ||           \
    !defined(__GLIBC__)
#define COUNTS 0
#else
#define COUNTS 1
/* In the place of the library's own, by the names that it has for them too. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *at, size_t size);
void __libc_free(void *at);

void *malloc(size_t size)
{
    allocations += counting;
    return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    allocations += counting;
    return __libc_calloc(n, size);
}

void *realloc(void *at, size_t size)
{
    allocations += counting;
    return __libc_realloc(at, size);
}

void free(void *at)
{
    allocations += counting;
    __libc_free(at);
}
#endif

/* As a rank's process has it: with a recorder. */
typedef struct run {
    ir_graph *graph;
    plan *plan;
    hw_cluster *cluster;
    exec_data data;
    fs_arena *arena;
    int64_t allocations;
} run;

static void end_step(void *ctx, int64_t step, double loss, double step_s)
{
    run *r = ctx;
    (void)loss;
    (void)step_s;
    if (step == FROM)
        allocations = 0;
    counting = step >= FROM && step < TO;
    if (step == TO)
        r->allocations = allocations;
}

static void make_plan(run *r, fs_err *err)
{
    const int64_t dim[2] = {4, 4};
    ir_graph *g = r->graph = ir_graph_create("acts");
    int32_t x = ir_input(g, "x", IR_F32, ir_shape_make(2, dim), 0);
    const int32_t w = ir_parameter(g, "w", IR_F32, ir_shape_make(2, dim),
                                   (ir_init){IR_INIT_NORMAL, 0.0, 0.02, 1});
    x = ir_binary(g, IR_OP_mul, x, w);
    for (int k = 0; k < SUMS; k++)
        x = ir_binary(g, IR_OP_add, x, w);
    const plan_lower_options options = plan_lower_defaults();
    ir_train_options train = ir_train_defaults();
    train.optimizer = IR_SGD;
    train.micro_batches = MICRO_BATCHES;
    g->loss = ir_reduce(g, IR_OP_reduce_sum, x, 3, false);
    g->batch = dim[0] * MICRO_BATCHES;
    plan_strategy *s;
    if (ir_train(g, &train, err) != FS_OK)
        return;
    s = plan_strategy_new(g, 1, r->arena);
    s->stages[0].mesh = (ir_mesh){1, {1}};
    s->schedule = "1f1b";
    if (hw_cluster_probe(1, r->arena, err, &r->cluster) == FS_OK &&
        plan_lower(g, r->cluster, s, &options, r->arena, err, &r->plan) ==
            FS_OK)
        exec_data_open("synthetic", g, 1, r->arena, err, &r->data);
}

static void test_allocations(void)
{
    fs_err err = {0};
    run r = {.arena = fs_arena_create(), .allocations = -1};
    exec_world alone = {.size = 1, .on_host = 1, .cores = 1};
    exec_result result;
    make_plan(&r, &err);
    const exec_options options = {.steps = STEPS,
                                  .kernels = "auto",
                                  .progress = end_step,
                                  .progress_ctx = &r};
    if (err.status == FS_OK &&
        exec_recorder_open(0, &err, &alone.recorder) == FS_OK)
        exec_run(&alone, r.graph, r.cluster, r.plan, &r.data, &options, r.arena,
                 &err, &result);
    exec_recorder_close(&alone.recorder);
    tap_ok(err.status == FS_OK && r.allocations == 0,
           "an act allocates nothing: %d calls in %d steps %s",
           (int)r.allocations, TO - FROM, err.text);
    if (r.data.close)
        r.data.close(r.data.ctx);
    ir_graph_destroy(r.graph);
    fs_arena_destroy(r.arena);
}

int main(void)
{
    if (COUNTS)
        test_allocations();
    else
        tap_skip("calls are not counted here", "an act allocates nothing");
    return tap_done();
}
