/* Any interleaving gives the same bits: small random networks under random
 * plans, each run under many interleavings of its ranks, their loaders and
 * savers, and of their messages. All give the losses and weights of the first,
 * bit by bit, and that is one device's within rounding; no run ends in a
 * deadlock, and no register is read before its piece is there or filled while
 * it is read.
 *
 * FS_CASES=N tries N interleavings (200; `make interleave`: 10,000). A failure
 * names its seed; FS_SEED=N tries that one only, and takes the same turns.
 * FS_ONCE=1: the first failure ends it, and there are no faults on purpose. */
#include "config.h"

#include "equal.h"
#include "exec_plans.h"

#include "interleave.h"
#include "tests/tap.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CASES = 200, OF_A_PLAN = 8, STEPS = 3, EVERY = 2, MOST_TASKS = 500 };
/* Of a training that diverges, whose ranks have come to different steps when
 * they are told: so many that it ends before the last. */
enum { MOST_STEPS = 8 };

/* Interleaving s of plan p has seed p * MOST_SEEDS + s. */
enum { MOST_SEEDS = 1000 };

/* ---- one run ---- */

typedef struct outcome {
    int64_t steps;
    double loss[MOST_STEPS]; /* of all, those of the checkpoint too */
    uint64_t weights, outputs;
} outcome;

typedef struct running {
    const job *job;
    exec_options options;
    int32_t ranks, host_ranks;
    bool oversubscribed;
    fs_status status;
    fs_err err;
    outcome out;
} running;

static fs_status hear(void *ctx, int64_t step, double loss, double step_s,
                      fs_err *err)
{
    (void)err;
    (void)ctx;
    (void)step;
    (void)loss;
    (void)step_s;
    return FS_OK;
}

static void keep(running *r, const exec_result *result)
{
    r->out = (outcome){.steps = result->first_step + result->steps,
                       .weights = result->weights_digest,
                       .outputs = result->outputs_digest};
    for (int64_t k = 0; k < r->out.steps; k++)
        r->out.loss[k] = k < result->first_step
                             ? result->earlier[k]
                             : result->losses[k - result->first_step];
}

static void run_rank(exec_world *world, void *ctx)
{
    running *r = ctx;
    fs_arena *arena = fs_arena_create();
    fs_err err = {0};
    exec_result result;
    job mine = *r->job;
    mine.arena = arena;
    if (interleave_active()) {
        interleave_link(world);
        world->oversubscribed = r->oversubscribed;
    }
    world->host = fs_new(arena, int32_t, world->size);
    for (int32_t i = 0; i < world->size; i++)
        world->host[i] = i / r->host_ranks * r->host_ranks;
    const fs_status status = job_run(&mine, world, &r->options, &err, &result);
    if (world->rank == 0) {
        r->status = status;
        r->err = err;
        if (status == FS_OK)
            keep(r, &result);
    }
    fs_arena_destroy(arena);
}

static void run_world(void *ctx)
{
    running *r = ctx;
    fs_err err = {0};
    exec_world_threads(r->ranks, run_rank, r, &err);
}

/* ---- a plan, and how it is run ---- */

static const char *name_of(plan_algorithm algorithm)
{
    return algorithm < PLAN_ALGORITHMS ? plan_algorithm_name(algorithm)
                                       : "drawn";
}

/* What the children tell the parent. */
typedef struct tally {
    int64_t seed; /* that is being tried */
    int64_t plans, interleavings, choices, points, firings;
    int64_t alone, resumed, diverged, rows[PLAN_ALGORITHMS + 1];
} tally;

typedef struct trial {
    uint64_t number;
    interleave_fault fault;
    equal_case c;
    fs_arena *arena;
    ir_graph *graph;
    job spread, alone;
    exec_options options;
    ir_train_options tuning;
    plan_algorithm algorithm; /* of all; PLAN_ALGORITHMS: of each its own */
    plan_choice choice;
    int32_t host_ranks;
    exec_saving saves, resumes;
    char dir[600];
    outcome wanted;
    bool known; /* wanted is */
    tally *t;
} trial;

static bool is_small(const char *model)
{
    static const char *const small[] = {"gpt,", "mlp,",       "llama,",
                                        "moe,", "wide-deep,", "lstm,"};
    for (size_t i = 0; model && i < sizeof small / sizeof *small; i++)
        if (strncmp(model, small[i], strlen(small[i])) == 0)
            return true;
    return false;
}

static equal_case draw_case(uint64_t number)
{
    const uint64_t ranks = 2 + fs_mix(number + 77) % 3;
    equal_case c = equal_draw(number + ranks * EQUAL_RANKS_AT);
    c.model = is_small(c.model) ? c.model : NULL;
    c.batch_norms = false;
    c.n_ops = c.n_ops % 7 + 2;
    c.samples = 2;
    return c;
}

static void draw_saving(trial *t)
{
    const char *build = getenv("FS_BUILDDIR");
    snprintf(t->dir, sizeof t->dir, "%s/tests/interleave.%d",
             build ? build : ".", (int)getpid());
    t->saves = (exec_saving){.dir = t->dir, .every = EVERY};
    t->resumes = (exec_saving){.dir = t->dir, .resume = true};
    t->options.saving = &t->saves;
}

/* Kernels of what is a probability refuse what is none. */
static bool may_diverge(const ir_graph *g)
{
    for (int32_t v = 0; v < g->nodes.n; v++)
        if (strncmp(ir_op_table[g->nodes.at[v].op]->name, "bce", 3) == 0)
            return false;
    return true;
}

/* All that decides the bits beside the plan is drawn once. */
static void draw_options(trial *t)
{
    uint64_t seed = fs_mix(t->number + 5);
    do
        t->algorithm =
            (plan_algorithm)fs_rand_below(&seed, PLAN_ALGORITHMS + 1);
    while (t->algorithm < PLAN_ALGORITHMS &&
           !plan_algorithm_runs(t->algorithm));
    t->choice = choice_by(t->spread.p, t->algorithm, fs_mix(seed), t->arena);
    t->options =
        (exec_options){.steps = STEPS,
                       .seed = 3,
                       .stall_s = 1e6, /* the tool sees a deadlock at once */
                       .kernels = "reference",
                       .choice = &t->choice,
                       .progress = fs_rand_below(&seed, 2) ? hear : NULL,
                       .stop_early = fs_rand_below(&seed, 3) == 0};
    t->t->rows[t->algorithm]++;
    t->host_ranks = 1 + (int32_t)fs_rand_below(&seed, 4);
    if (t->options.stop_early && fs_rand_below(&seed, 2) &&
        may_diverge(t->graph)) {
        t->tuning = (ir_train_options){.lr = 1e300,
                                       .weight_decay = NAN,
                                       .momentum = NAN,
                                       .beta1 = NAN,
                                       .beta2 = NAN,
                                       .epsilon = NAN};
        t->options.tuning = &t->tuning;
        t->options.steps = MOST_STEPS;
    }
    if (fs_rand_below(&seed, 4) == 0)
        draw_saving(t);
}

static bool is_too_large(const plan *p)
{
    for (int32_t r = 0; r < p->n_roles; r++)
        if (p->roles[r].n_tasks > MOST_TASKS)
            return true;
    return false;
}

/* False: there is no such plan, or it is too large. */
static bool make_trial(trial *t)
{
    fs_err err = {0};
    uint64_t features = 0;
    ir_graph *bound;
    plan_lower_options lower = plan_lower_defaults();
    t->c = draw_case(t->number);
    lower.overlap = t->c.overlap;
    lower.share_memory = !t->c.unshared;
    t->graph = equal_graph(&t->c, &err, &features);
    plan_strategy *s =
        t->graph ? equal_strategy(&t->c, t->graph, t->arena, &err, &bound)
                 : NULL;
    if (!s)
        return false;
    t->spread = (job){.graph = bound, .arena = t->arena};
    t->alone = (job){.graph = t->graph, .arena = t->arena};
    if (job_make_with(&t->spread, s, t->c.ranks, &lower, &err) != FS_OK ||
        is_too_large(t->spread.p) ||
        job_make_with(&t->alone, equal_alone(t->graph, t->arena), 1, &lower,
                      &err) != FS_OK)
        return false;
    draw_options(t);
    return true;
}

/* ---- comparing ---- */

static void forget(const trial *t)
{
    char command[700];
    snprintf(command, sizeof command, "rm -rf '%s'", t->dir);
    if (t->options.saving && system(command) != 0)
        printf("# %s is left behind\n", t->dir);
}

__attribute__((noreturn)) static void fail_trial(const trial *t,
                                                 const char *what)
{
    const equal_verdict v = {0};
    printf("# FS_SEED=%lld tests/exec_interleave_test: %s\n",
           (long long)t->t->seed, what);
    equal_print(&t->c, &v, stdout);
    printf("#   collectives %s%s%s%s\n", name_of(t->algorithm),
           t->options.stop_early ? ", stops early" : "",
           t->options.tuning ? ", diverges" : "",
           t->options.saving ? ", saves" : "");
    forget(t);
    fflush(stdout);
    _exit(6);
}

static bool all_finite(const outcome *o)
{
    for (int64_t k = 0; k < o->steps; k++)
        if (!isfinite(o->loss[k]))
            return false;
    return true;
}

static void compare(trial *t, const running *r, const char *what)
{
    const outcome *o = &r->out, *w = &t->wanted;
    if (r->status != FS_OK)
        fail_trial(t, r->err.text);
    if (!t->known) {
        t->wanted = *o;
        t->known = true;
        return;
    }
    if (o->steps == w->steps && memcmp(o->loss, w->loss, sizeof o->loss) == 0 &&
        o->weights == w->weights &&
        (!all_finite(w) || o->outputs == w->outputs))
        return;
    for (int64_t k = 0; k < t->options.steps; k++)
        printf("# loss of step %d: %.17g, wanted %.17g\n", (int)k, o->loss[k],
               w->loss[k]);
    fail_trial(t, what);
}

static running running_of(const trial *t, uint64_t seed)
{
    running r = {.job = &t->spread,
                 .options = t->options,
                 .ranks = t->c.ranks,
                 .host_ranks = t->host_ranks};
    r.oversubscribed = fs_mix(seed) % 2;
    return r;
}

/* What one device gives, where rounding leaves no doubt. */
static void compare_alone(trial *t)
{
    running r = running_of(t, 0);
    r.job = &t->alone;
    r.ranks = 1;
    r.options.saving = NULL;
    r.options.choice = NULL; /* it has no collectives */
    if (!t->c.wide || ir_compress_dtype(&t->c.compress) != IR_F32 ||
        t->options.tuning || !all_finite(&t->wanted))
        return;
    run_world(&r);
    for (int64_t k = 0; r.status == FS_OK && k < STEPS; k++)
        if (fabs(r.out.loss[k] - t->wanted.loss[k]) >
            1e-7 * fmax(1e-3, fabs(r.out.loss[k])))
            fail_trial(t, "one device differs");
    t->t->alone++;
}

/* ---- interleavings ---- */

static uint64_t step_world(const trial *t, uint64_t seed, running *r)
{
    interleave how = {.seed = seed, .fault = t->fault};
    interleave_run(&how, run_world, r);
    t->t->choices += how.choices;
    t->t->points += how.points;
    return how.digest;
}

/* A checkpoint of the middle, which other threads wrote meanwhile. */
static void resume(trial *t, uint64_t seed)
{
    running r = running_of(t, seed);
    r.options.saving = &t->resumes;
    step_world(t, seed, &r);
    compare(t, &r, "what is resumed from a checkpoint differs");
    t->t->resumed++;
}

static void try_seed(trial *t, uint64_t seed)
{
    running r = running_of(t, seed);
    t->t->seed = (int64_t)seed;
    forget(t);
    const uint64_t digest = step_world(t, seed, &r);
    compare(t, &r, "another interleaving has other bits");
    t->t->interleavings++;
    t->t->diverged += !all_finite(&r.out);
    if (t->options.saving && all_finite(&r.out) &&
        r.out.steps == t->options.steps)
        resume(t, seed);
    if (seed % MOST_SEEDS != 1)
        return;
    forget(t);
    running again = running_of(t, seed);
    if (step_world(t, seed, &again) != digest)
        fail_trial(t, "the same seed took other turns");
}

/* Ranks that are threads, which the system schedules; MPI's own reductions
 * they have none of. */
static void compare_threads(trial *t)
{
    running r = running_of(t, 0);
    forget(t);
    if (t->algorithm == PLAN_BY_mpi)
        return;
    run_world(&r);
    compare(t, &r, "threads of the system have other bits");
}

/* Which interleavings of a plan are tried. */
typedef struct attempt {
    uint64_t plan;
    int64_t only; /* this seed; -1: `most` of them */
    int64_t most;
    interleave_fault fault;
} attempt;

static int try_plan(const attempt *a, tally *told)
{
    trial t = {.number = a->plan,
               .fault = a->fault,
               .arena = fs_arena_create(),
               .t = told};
    const uint64_t first = a->plan * MOST_SEEDS;
    told->seed = (int64_t)first;
    if (!make_trial(&t))
        return 0;
    told->plans++;
    try_seed(&t, first);
    compare_alone(&t);
    compare_threads(&t);
    for (int64_t s = 1; s < a->most && a->only < 0; s++)
        try_seed(&t, first + (uint64_t)s);
    if (a->only >= 0)
        try_seed(&t, (uint64_t)a->only);
    told->firings += interleave_firings();
    forget(&t);
    return 0;
}

/* In a child: what ends the process is a verdict. What it says of a fault on
 * purpose nobody needs. */
static bool try_apart(const attempt *a, tally *t)
{
    int status = 0;
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        alarm(300);
        if (a->fault != INTERLEAVE_SOUND &&
            (!freopen("/dev/null", "w", stdout) ||
             !freopen("/dev/null", "w", stderr)))
            _exit(1);
        exit(try_plan(a, t));
    }
    waitpid(child, &status, 0);
    if (status != 0 && a->fault == INTERLEAVE_SOUND)
        printf("# FS_SEED=%lld tests/exec_interleave_test repeats it (%s %d)\n",
               (long long)t->seed, WIFSIGNALED(status) ? "signal" : "status",
               WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    return status == 0;
}

/* Each fault on purpose is found soon. */
static void test_faults(tally *t)
{
    static const char *const what[INTERLEAVE_FAULTS] = {
        [INTERLEAVE_NO_CREDITS] = "tasks that fire without credits",
        [INTERLEAVE_NO_HOLDS] = "variables made anew while they are saved",
        [INTERLEAVE_LOST_WAKES] = "lost wakes of threads that sleep",
        [INTERLEAVE_EARLY_ENDS] = "senders that go on before it is sent",
        [INTERLEAVE_LAST_FIRST] = "messages that overtake each other"};
    for (int f = 1; f < INTERLEAVE_FAULTS; f++) {
        attempt a = {
            .only = -1, .most = OF_A_PLAN, .fault = (interleave_fault)f};
        bool sound = true;
        t->interleavings = 0;
        for (; sound && t->interleavings < CASES; a.plan++)
            sound = try_apart(&a, t);
        tap_ok(!sound, "%s are found, after %lld interleavings", what[f],
               (long long)t->interleavings);
    }
}

static void tell(const tally *t)
{
    printf("# %lld choices at %lld places, %lld firings looked at\n",
           (long long)t->choices, (long long)t->points, (long long)t->firings);
    printf("# %lld plans equal to one device, %lld resumed, %lld diverged;"
           " plans by algorithm:",
           (long long)t->alone, (long long)t->resumed, (long long)t->diverged);
    for (int i = 0; i <= PLAN_ALGORITHMS; i++)
        if (t->rows[i] > 0)
            printf(" %s %lld", name_of((plan_algorithm)i),
                   (long long)t->rows[i]);
    printf("\n");
}

static int64_t number_in(const char *variable, int64_t usual)
{
    const char *text = getenv(variable);
    return text ? strtoll(text, NULL, 0) : usual;
}

int main(void)
{
    const int32_t most_wrong = getenv("FS_ONCE") ? 1 : 3;
    const int64_t cases = number_in("FS_CASES", CASES);
    const int64_t only = number_in("FS_SEED", -1);
    int32_t wrong = 0;
    tally *t = mmap(NULL, sizeof *t, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    FS_ASSERT(t != MAP_FAILED);
    if (interleave_refuses()) {
        tap_skip(interleave_refuses(), "any interleaving gives the same bits");
        return tap_done();
    }
    attempt a = {.plan = only >= 0 ? (uint64_t)only / MOST_SEEDS : 0,
                 .only = only,
                 .most = OF_A_PLAN};
    if (only >= 0)
        wrong += !try_apart(&a, t);
    for (; only < 0 && t->interleavings < cases && wrong < most_wrong;
         a.plan++) {
        const int64_t left = cases - t->interleavings;
        a.most = left < OF_A_PLAN ? left : OF_A_PLAN;
        wrong += !try_apart(&a, t);
    }
    tell(t);
    tap_ok(wrong == 0,
           "%lld interleavings of %lld plans: the same bits, no deadlock, no "
           "register before its credit",
           (long long)t->interleavings, (long long)t->plans);
    if (only < 0 && !getenv("FS_ONCE"))
        test_faults(t);
    return tap_done();
}
