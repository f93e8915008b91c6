/* What ends a search is work: the same problem has the same answer, to the last
 * bit, on a slow machine, under load and with any number of threads. */
#include "config.h"
#include "search/search.h"

#include "base/hash.h"
#include "ir/train.h"
#include "plan/lower.h"
#include "plan/text.h"
#include "search_cluster.h"
#include "tap.h"
#include "zoo/zoo.h"

#include <dlfcn.h>
#include <math.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* ---- machines: clocks and cores as a program sees them ---- */

typedef struct machine {
    const char *what;
    double slowness; /* seconds that a clock shows for one that passes */
    double jump_s;   /* and each look at it takes */
    long cores;
} machine;

static machine now = {"this one", 1, 0, 0};
static atomic_llong looks;

static double seconds_of(const struct timespec *at)
{
    return (double)at->tv_sec + 1e-9 * (double)at->tv_nsec;
}

/* Counted from when the test began: GLPK expects a date of our age. */
static struct timespec began[2];

int clock_gettime(clockid_t clock, struct timespec *out)
{
    const struct timespec *from = &began[clock == CLOCK_REALTIME];
    const int failed = (int)syscall(SYS_clock_gettime, clock, out);
    if (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC)
        return failed;
    const double jumps =
        now.jump_s * (double)atomic_fetch_add(&looks, now.jump_s > 0);
    const double shown =
        now.slowness * (seconds_of(out) - seconds_of(from)) + jumps;
    *out = (struct timespec){from->tv_sec + (time_t)shown,
                             (long)(1e9 * (shown - floor(shown)))};
    return failed;
}

/* GLPK's. */
int gettimeofday(struct timeval *restrict out, void *restrict zone)
{
    struct timespec at;
    (void)zone;
    const int failed = clock_gettime(CLOCK_REALTIME, &at);
    *out = (struct timeval){at.tv_sec, at.tv_nsec / 1000};
    return failed;
}

long sysconf(int name)
{
    static long (*real)(int);
    if (name == _SC_NPROCESSORS_ONLN && now.cores)
        return now.cores;
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "sysconf");
    return real(name);
}

static const machine machines[] = {
    {"one twenty times slower", 20, 0, 0},
    {"one whose clock jumps at each look", 1, 0.05, 0},
    {"one of one core", 1, 0, 1},
    {"one of seven cores, five times slower", 5, 0, 7},
};

/* ---- searches ---- */

typedef struct steps_case {
    const char *what, *model, *cluster, *engine, *start;
    int64_t batch, memory_bytes;
    double gap;
} steps_case;

#define DEEP "zoo:gpt,layers=6,hidden=256,heads=8,vocab=2048,seq=128"

static const steps_case cases[] = {
    {"memory binds", DEEP, "1x8:a100-sxm4-80g", "ilp", NULL, 64, 170 << 20, 0},
    {"stages", DEEP, "2x4:a100-sxm4-80g", "ilp", "megatron", 64, 0, 1e-3},
    {"greedy", DEEP, "1x8:a100-sxm4-80g", "greedy", NULL, 64, 0, 0},
    {"mcmc", DEEP, "1x4:a100-sxm4-80g", "mcmc", NULL, 64, 0, 0},
    {"alpa", DEEP, "1x4:a100-sxm4-80g", "alpa", NULL, 64, 0, 0},
};

typedef struct answer {
    fs_status status;
    double iteration_s, bound_s;
    int64_t steps;
    uint64_t configs; /* hash of what is known of each, */
    uint64_t plan;    /* and of the plan */
    int32_t open;
    bool late;
} answer;

static uint64_t mix(uint64_t to, const void *from, size_t bytes)
{
    return fs_hash(to, from, bytes);
}

static uint64_t look_of(const search_result *found)
{
    uint64_t look = 0;
    for (int32_t k = 0; k < found->n_configs; k++) {
        const search_config *c = &found->configs[k];
        look = mix(look, &c->lower_bound_s, sizeof c->lower_bound_s);
        look = mix(look, &c->iteration_s, sizeof c->iteration_s);
        look = mix(look, c->status, strlen(c->status));
    }
    return look;
}

static uint64_t plan_of(const search_problem *problem,
                        const search_result *found, fs_arena *arena)
{
    plan_lower_options options = plan_lower_defaults();
    fs_err err = {0};
    plan *p;
    if (!found->strategy ||
        plan_lower(found->graph, problem->cluster, found->strategy, &options,
                   arena, &err, &p) != FS_OK)
        return 0;
    return plan_digest_of(found->graph, p, NULL);
}

static answer ask(const steps_case *c, const machine *on, double limit_s)
{
    fs_arena *arena = fs_arena_create();
    hw_cluster *cluster = open_cluster(c->cluster, arena);
    ir_graph *graph = NULL;
    fs_err err = {0};
    search_result found = {0};
    ir_train_options options = ir_train_defaults();
    if (zoo_build(c->model, c->batch, &err, &graph) != FS_OK ||
        ir_train(graph, &options, &err) != FS_OK)
        printf("Bail out! %s\n", err.text);
    graph->batch = c->batch;
    const search_graph one = {1, graph, NULL};
    const search_problem problem = {.cluster = cluster,
                                    .cost = cost_model_create(cluster, arena),
                                    .n_graphs = 1,
                                    .graphs = &one,
                                    .engine = c->engine,
                                    .start = c->start,
                                    .schedule = "1f1b",
                                    .fix_mesh = {.n = -1},
                                    .max_mesh_axes = 2,
                                    .time_limit_s = limit_s,
                                    .effort_s = 0.25,
                                    .memory_bytes = c->memory_bytes,
                                    .gap = c->gap,
                                    .reduce = true};
    const machine before = now;
    now = *on;
    answer a = {.status = search_run(&problem, arena, &err, &found)};
    now = before;
    a.iteration_s = found.iteration_s;
    a.bound_s = found.lower_bound_s;
    a.steps = found.steps;
    a.late = found.late;
    a.configs = look_of(&found);
    a.plan = plan_of(&problem, &found, arena);
    for (int32_t k = 0; k < found.n_configs; k++)
        a.open += strcmp(found.configs[k].status, "bounded") == 0;
    ir_graph_destroy(graph);
    fs_arena_destroy(arena);
    return a;
}

static bool same(const answer *a, const answer *b)
{
    return a->status == b->status && a->steps == b->steps &&
           memcmp(&a->iteration_s, &b->iteration_s, sizeof(double)) == 0 &&
           memcmp(&a->bound_s, &b->bound_s, sizeof(double)) == 0 &&
           a->configs == b->configs && a->plan == b->plan;
}

static void say(const char *what, const answer *a)
{
    printf(
        "# %s: %.17g s, bound %.17g s, %lld steps, %d open, plan %016llx%s\n",
        what, a->iteration_s, a->bound_s, (long long)a->steps, a->open,
        (unsigned long long)a->plan, a->late ? ", late" : "");
}

static void test_case(const steps_case *c, size_t first)
{
    const answer here = ask(c, &now, 1e7);
    say(c->what, &here);
    tap_ok(here.status == FS_OK && here.steps > 0 && !here.late,
           "%s: there is a plan, and no clock had a say", c->what);
    if (c->memory_bytes)
        tap_ok(here.open > 0, "%s: work ended some attempts", c->what);
    for (size_t k = first; k < sizeof machines / sizeof *machines; k += 2) {
        const answer there = ask(c, &machines[k], 1e7);
        say(machines[k].what, &there);
        tap_ok(same(&here, &there) && !there.late, "%s: the same on %s",
               c->what, machines[k].what);
    }
}

/* A limit that is reached is told of. */
static void test_limit(const steps_case *c)
{
    const machine stopped = {"no time", 1, 1e3, 0};
    const answer a = ask(c, &stopped, 60);
    say("a limit that is reached", &a);
    tap_ok(a.late, "%s: what a limit on time ended says so", c->what);
}

int main(void)
{
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &began[0]);
    syscall(SYS_clock_gettime, CLOCK_REALTIME, &began[1]);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        test_case(&cases[k], (k + 1) % 2);
    test_limit(&cases[0]);
    return tap_done();
}
