/* The path of an act: no allocation and no lock, by calls of the polling thread
 * from the end of one step to that of another; after each act no stream sleeps
 * that may go on; threads hand over without a lock and lose no wake. */
#include "config.h"

#include "exec/exec.h"
#include "ir/train.h"
#include "plan/lower.h"

#include "base/clock.h"
#include "exec/loader.h"
#include "exec/world.h"
#include "tests/tap.h"

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

enum { STEPS = 40, FROM = 2, TO = STEPS - 2, SUMS = 20, MICRO_BATCHES = 4 };

static _Thread_local bool counting;
static _Thread_local int64_t allocations, locks;

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

static int (*lock_of_library)(pthread_mutex_t *);

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    locks += counting;
    if (!lock_of_library)
        *(void **)&lock_of_library = dlsym(RTLD_NEXT, "pthread_mutex_lock");
    return lock_of_library(mutex);
}
#endif

/* As a rank's process has it: with a recorder. */
typedef struct run {
    ir_graph *graph;
    plan *plan;
    hw_cluster *cluster;
    exec_data data;
    fs_arena *arena;
    int64_t allocations, locks;
} run;

static fs_status end_step(void *ctx, int64_t step, double loss, double step_s,
                          fs_err *err)
{
    (void)err;
    run *r = ctx;
    (void)loss;
    (void)step_s;
    if (step == FROM)
        allocations = locks = 0;
    counting = step >= FROM && step < TO;
    if (step == TO) {
        r->allocations = allocations;
        r->locks = locks;
    }
    return FS_OK;
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

static fs_status run_plan(run *r, bool checks, fs_err *err)
{
    exec_world alone = {.size = 1, .on_host = 1, .cores = 1};
    exec_result result;
    make_plan(r, err);
    const exec_options options = {.steps = STEPS,
                                  .kernels = "auto",
                                  .checks = checks,
                                  .progress = end_step,
                                  .progress_ctx = r};
    if (err->status == FS_OK &&
        exec_recorder_open(0, err, &alone.recorder) == FS_OK)
        exec_run(&alone, r->graph, r->cluster, r->plan, &r->data, &options,
                 r->arena, err, &result);
    exec_recorder_close(&alone.recorder);
    if (r->data.close)
        r->data.close(r->data.ctx);
    ir_graph_destroy(r->graph);
    fs_arena_destroy(r->arena);
    return err->status;
}

static void test_calls(void)
{
    fs_err err = {0};
    run r = {.arena = fs_arena_create(), .allocations = -1, .locks = -1};
    run_plan(&r, false, &err);
    tap_ok(err.status == FS_OK && r.allocations == 0,
           "an act allocates nothing: %d calls in %d steps %s",
           (int)r.allocations, TO - FROM, err.text);
    tap_ok(r.locks == 0, "and takes no lock: %d", (int)r.locks);
}

static void test_sleepers(void)
{
    fs_err err = {0};
    run r = {.arena = fs_arena_create()};
    tap_ok(run_plan(&r, true, &err) == FS_OK,
           "no stream sleeps that may go on %s", err.text);
}

/* ---- from thread to thread ---- */

enum { JOBS = 3000, MOST_REST_US = 120 };

static fs_status answer(void *ctx, const char *name, int64_t sample,
                        ir_dtype dtype, const ir_shape *local,
                        const int64_t *offset, int32_t batch_axis, void *out,
                        fs_err *err)
{
    (void)ctx, (void)name, (void)dtype, (void)local, (void)offset;
    (void)batch_axis, (void)err;
    *(int64_t *)out = -sample;
    return FS_OK;
}

static bool is_unread(void *ctx, const char *name, int64_t sample)
{
    (void)ctx, (void)name, (void)sample;
    return false;
}

/* Waits as a rank that has nothing else does; false: its sleep was not ended.
 */
static bool await_job(exec_world *world, const exec_job *job)
{
    const int64_t long_ns = INT64_C(60000000000);
    while (atomic_load_explicit(&job->state, memory_order_acquire) ==
           EXEC_JOB_OPEN)
        if (!exec_parker_sleep(&exec_world_bell(world)->parker, long_ns))
            return false;
    return true;
}

/* Jobs come while the loader spins, as it falls asleep, and when it sleeps. */
static void test_hand_over(int32_t cores)
{
    exec_world alone = {.size = 1, .on_host = 1, .cores = cores};
    const exec_data data = {.fill = answer, .ready = is_unread};
    exec_loader *loader = exec_loader_create(&alone, &data, 1);
    exec_job job = {.name = "x"};
    uint64_t seed = 7;
    int64_t got = 0, wrong = 0, lost = 0;
    job.out = &got;
    for (int64_t k = 1; k <= JOBS && lost == 0; k++) {
        job.sample = k;
        exec_loader_submit(loader, &job);
        lost += !await_job(&alone, &job);
        wrong += got != -k;
        if (fs_rand_below(&seed, 2) == 0)
            usleep((useconds_t)fs_rand_below(&seed, MOST_REST_US));
    }
    tap_ok(lost == 0 && wrong == 0 && exec_loader_wake_ns(loader) > 0,
           "%d jobs are handed over and back on %d cores: %d wrong, wakes "
           "take %d ns",
           JOBS, (int)cores, (int)wrong, (int)exec_loader_wake_ns(loader));
    exec_loader_destroy(loader);
}

int main(void)
{
    if (COUNTS)
        test_calls();
    else
        tap_skip("calls are not counted here", "an act allocates nothing");
    test_sleepers();
    test_hand_over(1);
    test_hand_over(4);
    return tap_done();
}
