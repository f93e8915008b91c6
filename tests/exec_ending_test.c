/* How ranks end together (exec/stop.c), under many interleavings: networks of
 * inference whose data ends them while their ranks are at different steps. All
 * ranks end after the same step, each output was given once, in order, with the
 * values that one device gives, and nobody waits for ever.
 *
 * FS_CASES=N tries N interleavings (200); a failure names its seed, FS_SEED=N
 * tries that one only; FS_ONCE=1: the first failure ends it. */
#include "config.h"

#include "exec/world.h"

#include "exec_endless.h"
#include "interleave.h"
#include "tests/tap.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CASES = 200, MOST_ANSWERS = 8, MOST_STEPS = 64, MOST_RANKS = 4 };

/* ---- a client ---- */

typedef struct client {
    int64_t answers; /* it wants so many steps answered, */
    int64_t ahead;   /* and asks for so many before the first is */
    _Atomic int64_t given;
    int64_t taken; /* outputs, also after the client has gone */
    float sum[MOST_STEPS];
} client;

static bool is_over(void *ctx)
{
    client *c = ctx;
    return atomic_load(&c->given) >= c->answers;
}

/* Whoever ends computes what nobody asked for. */
static bool has_come(void *ctx, int64_t at)
{
    client *c = ctx;
    const int64_t asked = atomic_load(&c->given) + c->ahead;
    return at / BATCH < (asked < c->answers ? asked : c->answers) || is_over(c);
}

static fs_status take(void *ctx, int32_t output, int64_t step,
                      int32_t micro_batch, const void *data, fs_err *err)
{
    client *c = ctx;
    const float *values = data;
    (void)output, (void)micro_batch, (void)err;
    if (step != c->taken || step >= MOST_STEPS)
        interleave_fail("step %d is given after %d", (int)step, (int)c->taken);
    for (int32_t i = 0; i < BATCH * OUT; i++)
        c->sum[step] += values[i] * (float)(i + 1);
    c->taken++;
    atomic_store(&c->given, c->taken);
    return FS_OK;
}

/* ---- runs ---- */

typedef struct running {
    uint64_t seed;
    int32_t ranks, stages;
    bool oversubscribed;
    client client;
    int64_t steps[MOST_RANKS]; /* that each has done */
} running;

static fs_status run(exec_world *world, const running *r, client *c,
                     fs_arena *arena, fs_err *err, exec_result *out)
{
    ir_graph *g = endless_graph();
    uint64_t seed = r->seed;
    plan_strategy *s = NULL;
    for (int32_t attempt = 0; !s && attempt < 20; attempt++)
        s = endless_strategy(g, r->stages, world->size, &seed, arena);
    FS_ASSERT(s);
    job j = {.graph = g, .arena = arena};
    const exec_sink sink = {c, take};
    const exec_options options = {.steps = c->answers > 0 ? EXEC_ENDLESS
                                                          : MOST_STEPS,
                                  .sink = &sink,
                                  .seed = 3,
                                  .kernels = "reference",
                                  .stall_s = 1e6};
    fs_status status = job_make(&j, s, world->size, err);
    j.data = (exec_data){.ctx = c, .fill = endless_fill};
    if (c->answers > 0) {
        j.data.come = has_come;
        j.data.over = is_over;
    }
    if (status == FS_OK)
        status = job_run(&j, world, &options, err, out);
    ir_graph_destroy(g);
    return status;
}

static void run_rank(exec_world *world, void *ctx)
{
    running *r = ctx;
    fs_arena *arena = fs_arena_create();
    fs_err err = {0};
    exec_result result;
    interleave_link(world);
    world->oversubscribed = r->oversubscribed;
    if (run(world, r, &r->client, arena, &err, &result) != FS_OK)
        interleave_fail("%s", err.text);
    r->steps[world->rank] = result.first_step + result.steps;
    fs_arena_destroy(arena);
}

static void run_world(void *ctx)
{
    running *r = ctx;
    fs_err err = {0};
    exec_world_threads(r->ranks, run_rank, r, &err);
}

/* ---- what is to come of it ---- */

static client known;

static fs_status compute_known(void)
{
    exec_world alone = {.size = 1, .on_host = 1, .cores = 1};
    const running r = {.seed = 7, .ranks = 1, .stages = 1};
    fs_arena *arena = fs_arena_create();
    fs_err err = {0};
    exec_result result;
    const fs_status status = run(&alone, &r, &known, arena, &err, &result);
    fs_arena_destroy(arena);
    return status;
}

static void compare(const running *r)
{
    const client *c = &r->client;
    for (int32_t i = 0; i < r->ranks; i++)
        if (r->steps[i] != c->taken)
            interleave_fail(
                "rank %d has done %d steps, of %d outputs are given", i,
                (int)r->steps[i], (int)c->taken);
    if (c->taken < c->answers)
        interleave_fail("%d of %d steps are answered", (int)c->taken,
                        (int)c->answers);
    for (int64_t k = 0; k < c->taken; k++)
        if (fabsf(c->sum[k] - known.sum[k]) > 1e-3F * fabsf(known.sum[k]))
            interleave_fail("step %d gives %g, not %g", (int)k,
                            (double)c->sum[k], (double)known.sum[k]);
}

static running draw(uint64_t number)
{
    uint64_t seed = fs_mix(number + 11);
    running r = {.seed = number, .ranks = 2 + (int32_t)fs_rand_below(&seed, 3)};
    r.stages = fs_rand_below(&seed, 3) > 0 ? r.ranks : 1;
    r.oversubscribed = fs_rand_below(&seed, 2) == 0;
    r.client.answers = 1 + fs_rand_below(&seed, MOST_ANSWERS);
    r.client.ahead = 1 + fs_rand_below(&seed, 2 * (int64_t)r.ranks);
    return r;
}

/* What the children tell the parent. */
typedef struct tally {
    int64_t interleavings, beyond; /* steps after the last that was wanted */
} tally;

static bool try_apart(uint64_t seed, tally *t)
{
    int status = 0;
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        running r = draw(seed);
        interleave how = {.seed = seed};
        alarm(100);
        interleave_run(&how, run_world, &r);
        compare(&r);
        t->interleavings++;
        t->beyond += r.client.taken - r.client.answers;
        exit(0);
    }
    waitpid(child, &status, 0);
    if (status != 0)
        printf("# FS_SEED=%lld tests/exec_ending_test repeats it (%s %d)\n",
               (long long)seed, WIFSIGNALED(status) ? "signal" : "status",
               WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    return status == 0;
}

int main(void)
{
    const int32_t most_wrong = getenv("FS_ONCE") ? 1 : 3;
    const char *cases = getenv("FS_CASES"), *only = getenv("FS_SEED");
    const uint64_t first = only ? strtoull(only, NULL, 0) : 0;
    const uint64_t n = only    ? 1
                       : cases ? strtoull(cases, NULL, 0)
                               : (uint64_t)CASES;
    int32_t wrong = 0;
    tally *t = mmap(NULL, sizeof *t, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    FS_ASSERT(t != MAP_FAILED);
    if (interleave_refuses()) {
        tap_skip(interleave_refuses(), "ranks end together");
        return tap_done();
    }
    tap_ok(compute_known() == FS_OK, "one device answers");
    for (uint64_t k = 0; k < n && wrong < most_wrong; k++)
        wrong += !try_apart(first + k, t);
    printf("# %lld steps were begun that nobody had asked for\n",
           (long long)t->beyond);
    tap_ok(wrong == 0,
           "in %lld interleavings all ranks end after the same step, all that "
           "was asked for is answered",
           (long long)t->interleavings);
    return tap_done();
}
