/* Steps of very many micro-batches, and pipelines whose first and last stage
 * share a parameter, which is sent once per step: with repetitions left out
 * they are to the last bit what they are task by task. Of gpipe the marks by
 * which repetitions are found are wide (plan/actor_repeat.h). */
#include "config.h"

#include "base/hash.h"
#include "plan_build.h"
#include "sim/critical.h"
#include "sim_same.h"
#include "tap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Numbers from MANY on: of as many micro-batches that a few tell the critical
 * path. */
enum { CASES = 60, MANY = 1000, MANY_CASES = 24, WIDTH = 16 };

typedef struct tally {
    int32_t runs, differ, tied, wide;
    int32_t by_two; /* tied ones of which all but two steps were left out */
    int32_t paths, short_paths, path_differs;
} tally;

typedef struct drawn {
    int32_t pp, m, steps;
    bool tied;
    const char *schedule;
} drawn;

static drawn draw(uint64_t *seed, bool many)
{
    static const char *const schedules[] = {"1f1b", "gpipe", "zb-h1"};
    drawn d = {.pp = 1 + (int32_t)fs_rand_below(seed, 5),
               .steps = 3 + (int32_t)fs_rand_below(seed, 4),
               .tied = fs_rand_below(seed, 2),
               .schedule = schedules[fs_rand_below(seed, 3)]};
    d.m = 1 + (int32_t)fs_rand_below(seed, fs_rand_below(seed, 2) ? 300 : 30);
    d.tied &= d.pp > 1;
    if (many) {
        d.m = 400 + (int32_t)fs_rand_below(seed, 500);
        d.schedule = schedules[fs_rand_below(seed, 3)];
    }
    return d;
}

/* A linear layer per stage; tied: the first one's parameter is the last's. */
static ir_graph *network(const drawn *d)
{
    ir_graph *g = ir_graph_create("repeat");
    ir_train_options options = ir_train_defaults();
    ir_init init = {.kind = IR_INIT_NORMAL, .spread = 0.1, .seed = 1};
    int32_t x = ir_input(g, "x", IR_F32, (ir_shape){2, {4, WIDTH}}, 0);
    int32_t y = ir_input(g, "y", IR_I64, (ir_shape){1, {4}}, 0), first = -1;
    fs_err err = {0};
    char name[16];
    for (int32_t i = 0; i < d->pp; i++) {
        snprintf(name, sizeof name, "w%d", (int)i);
        const bool again = d->tied && i == d->pp - 1;
        const int32_t w =
            again ? first
                  : ir_parameter(g, name, IR_F32, (ir_shape){2, {WIDTH, WIDTH}},
                                 init);
        first = i == 0 ? w : first;
        x = ir_unary(g, IR_OP_relu, ir_matmul(g, x, w, false, again));
    }
    g->loss = ir_cross_entropy(g, x, y);
    options.micro_batches = d->m;
    g->batch = 4 * (int64_t)d->m;
    if (ir_train(g, &options, &err) != FS_OK)
        printf("# %s\n", err.text);
    return g;
}

static plan_timing *draw_times(const plan *p, uint64_t *seed, fs_arena *arena)
{
    plan_timing *timing = plan_timing_new(p, "drawn", arena);
    const int64_t values = fs_rand_below(seed, 2) ? 3 : 100000;
    for (int32_t r = 0; r < p->n_roles; r++)
        for (int32_t t = 0; t < p->roles[r].n_tasks; t++)
            timing->demand[r][t].total_s =
                (double)(1 + fs_rand_below(seed, values)) * 1e-6;
    return timing;
}

static void compare(const drawn *d, const ir_graph *g, const plan *p,
                    hw_cluster *cluster, uint64_t *seed, tally *t)
{
    fs_arena *arena = fs_arena_create();
    const plan_timing *timing = draw_times(p, seed, arena);
    sim_options how = {.steps = d->steps, .straggler = 1, .in_full = true};
    sim_result full, few;
    fs_err err = {0};
    bool ran =
        sim_run(g, p, cluster, timing, &how, arena, &err, &full) == FS_OK;
    how.in_full = false;
    ran =
        ran && sim_run(g, p, cluster, timing, &how, arena, &err, &few) == FS_OK;
    t->runs++;
    t->differ += !ran || !same(&full, &few);
    t->tied += d->tied;
    t->wide += strcmp(d->schedule, "gpipe") == 0 && d->m > 128;
    t->by_two +=
        ran && d->tied && few.skipped * d->steps >= few.events * (d->steps - 2);
    if (!ran || !same(&full, &few))
        printf("# %s: %d of %s, %d micro-batches, %d steps\n",
               ran ? "differs" : err.text, (int)d->pp, d->schedule, (int)d->m,
               (int)d->steps);
    fs_arena_destroy(arena);
}

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b)) + 1e-15;
}

static bool same_sums(const sim_sum *a, const sim_sum *b)
{
    for (int32_t k = 0; k < SIM_CLASSES; k++)
        if (!near(a[k].seconds, b[k].seconds) || a[k].firings != b[k].firings)
            return false;
    return true;
}

/* Those that take the same may stand in either order. */
static bool same_tasks(const sim_critical *a, const sim_critical *b)
{
    bool same = a->n_tasks == b->n_tasks;
    for (int32_t i = 0; same && i < a->n_tasks; i++) {
        int32_t k = 0;
        while (k < b->n_tasks && (b->tasks[k].role != a->tasks[i].role ||
                                  b->tasks[k].task != a->tasks[i].task))
            k++;
        same = k < b->n_tasks &&
               near(a->tasks[i].sum.seconds, b->tasks[k].sum.seconds) &&
               a->tasks[i].sum.firings == b->tasks[k].sum.firings;
    }
    return same;
}

static bool same_path(const sim_critical *a, const sim_critical *b)
{
    bool same = a->meetings == b->meetings &&
                memcmp(a->why, b->why, sizeof a->why) == 0;
    for (int32_t k = 0; k < SIM_CLASSES; k++)
        same &= near(a->whole_s[k], b->whole_s[k]);
    return same && same_sums(a->path, b->path) &&
           same_sums(a->exposed, b->exposed) && same_tasks(a, b);
}

static void compare_paths(const drawn *d, const ir_graph *g, const plan *p,
                          hw_cluster *cluster, uint64_t *seed, tally *t)
{
    fs_arena *arena = fs_arena_create();
    const plan_timing *timing = draw_times(p, seed, arena);
    plan_trace trace = {.arena = arena};
    sim_options how = {
        .steps = d->steps, .straggler = 1, .traced_steps = SIM_CRITICAL_STEPS};
    sim_result whole, traced;
    sim_critical few;
    fs_err err = {0};
    t->paths++;
    if (sim_run(g, p, cluster, timing, &how, arena, &err, &whole) == FS_OK &&
        sim_critical_short(g, p, cluster, timing, &how, &whole, arena, &few)) {
        how.trace = &trace;
        sim_run(g, p, cluster, timing, &how, arena, &err, &traced);
        const sim_critical all =
            sim_critical_of(p, timing, &trace, &traced, arena);
        t->short_paths++;
        t->path_differs += !same_path(&few, &all);
    }
    fs_arena_destroy(arena);
}

static void try_case(uint64_t number, tally *t)
{
    uint64_t seed = fs_mix(number + 29);
    const drawn d = draw(&seed, number >= MANY);
    fs_arena *arena = fs_arena_create();
    ir_graph *g = network(&d);
    hw_cluster *cluster = build_cluster(d.pp, arena);
    build_recipe recipe = {.pp = d.pp, .schedule = d.schedule};
    plan_lower_options o = plan_lower_defaults();
    fs_err err = {0};
    plan *p;
    const int32_t differed = t->differ + t->path_differs;
    o.prefetch = (int32_t)fs_rand_below(&seed, 3);
    o.refine = false;
    if (plan_lower(g, cluster, build_strategy(g, &recipe, arena), &o, arena,
                   &err, &p) == FS_OK)
        (number < MANY ? compare : compare_paths)(&d, g, p, cluster, &seed, t);
    else
        printf("# FS_SEED=%llu: %s\n", (unsigned long long)number, err.text);
    if (t->differ + t->path_differs > differed)
        printf("# FS_SEED=%llu\n", (unsigned long long)number);
    ir_graph_destroy(g);
    fs_arena_destroy(arena);
}

/* ---- a trace that is taken ---- */

typedef struct taker {
    plan_trace all; /* times from the first start */
    int32_t pieces, most;
} taker;

static void take(void *ctx, const plan_trace *piece, int64_t first_ns)
{
    taker *t = ctx;
    t->pieces++;
    t->most = piece->events.n > t->most ? piece->events.n : t->most;
    for (int32_t i = 0; i < piece->events.n; i++) {
        plan_event e = piece->events.at[i];
        e.ready_ns -= first_ns;
        e.start_ns -= first_ns;
        e.end_ns -= first_ns;
        fs_push(t->all.arena, &t->all.events, e);
    }
}

static bool same_event(const plan_event *a, const plan_event *b,
                       int64_t late_ns)
{
    return a->rank == b->rank && a->stream == b->stream && a->task == b->task &&
           a->micro_batch == b->micro_batch && a->step == b->step &&
           a->start_ns == b->start_ns - late_ns &&
           a->end_ns == b->end_ns - late_ns &&
           a->ready_ns == b->ready_ns - late_ns;
}

static void test_taken(void)
{
    const drawn d = {3, 8000, 3, false, "1f1b"};
    uint64_t seed = 5;
    fs_arena *arena = fs_arena_create();
    ir_graph *g = network(&d);
    hw_cluster *cluster = build_cluster(d.pp, arena);
    build_recipe recipe = {.pp = d.pp, .schedule = d.schedule};
    plan_lower_options o = plan_lower_defaults();
    taker got = {.all = {.arena = arena}};
    plan_trace kept = {.arena = arena};
    plan_trace handed = {.arena = arena, .take = take, .take_ctx = &got};
    fs_err err = {0};
    sim_result r;
    plan *p = NULL;
    plan_lower(g, cluster, build_strategy(g, &recipe, arena), &o, arena, &err,
               &p);
    const plan_timing *timing = draw_times(p, &seed, arena);
    sim_options how = {.steps = d.steps, .straggler = 1, .trace = &kept};
    sim_run(g, p, cluster, timing, &how, arena, &err, &r);
    how.trace = &handed;
    sim_run(g, p, cluster, timing, &how, arena, &err, &r);
    int64_t first_ns = INT64_MAX;
    for (int32_t i = 0; i < kept.events.n; i++)
        if (kept.events.at[i].start_ns < first_ns)
            first_ns = kept.events.at[i].start_ns;
    bool same = kept.events.n == got.all.events.n;
    for (int32_t i = 0; same && i < kept.events.n; i++)
        same = same_event(&got.all.events.at[i], &kept.events.at[i], first_ns);
    tap_ok(same && got.pieces > 1,
           "a trace that is taken is the one that is kept: %d events in %d "
           "pieces",
           (int)got.all.events.n, (int)got.pieces);
    tap_ok(2 * got.most < got.all.events.n,
           "of which none has more than %d events", (int)got.most);
    ir_graph_destroy(g);
    fs_arena_destroy(arena);
}

int main(void)
{
    const char *one = getenv("FS_SEED");
    tally t = {0};
    for (int32_t k = 0; k < (one ? 1 : CASES); k++)
        try_case(one ? strtoull(one, NULL, 10) : (uint64_t)k, &t);
    for (uint64_t k = 0; k < (one ? 0 : MANY_CASES); k++)
        try_case(MANY + k, &t);
    tap_ok(t.path_differs == 0,
           "the critical path that few micro-batches tell is that of all: %d "
           "of %d differ",
           (int)t.path_differs, (int)t.short_paths);
    tap_ok(one || 2 * t.short_paths > t.paths, "most are told by few: %d of %d",
           (int)t.short_paths, (int)t.paths);
    tap_ok(t.differ == 0,
           "with repetitions left out it is what it is in full: %d of %d "
           "differ",
           (int)t.differ, (int)t.runs);
    tap_ok(one || (t.tied > CASES / 5 && t.wide > CASES / 20),
           "%d share a parameter, of %d marks are wide", (int)t.tied,
           (int)t.wide);
    tap_ok(one || t.by_two > t.tied / 2,
           "all but two steps are left out of most that share one: of %d",
           (int)t.by_two);
    test_taken();
    return tap_done();
}
