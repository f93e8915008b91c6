/* The critical path of a step of very many micro-batches. Once a pipeline is
 * steady, what happens comes again and again, and so does the path through it:
 * with some repetitions more in their programs (plan/shorten.h) stages take
 * some of its firings, and seconds, more. Three short plans tell how many: of
 * a few repetitions, of some more, and of as many more again, which must add
 * the same. Whether they are steady as the whole plan is, its own iteration
 * tells, which repetitions left out give exactly (repeat.c): as many
 * nanoseconds as the first and all that is to be added to it. */
#include "config.h"
#include "sim/critical.h"

#include "plan/shorten.h"

#include <math.h>
#include <stdlib.h>

enum { SHORT_PLANS = 3 };

typedef struct asked {
    const ir_graph *graph;
    const plan *p;
    const hw_cluster *cluster;
    const plan_timing *timing;
    const sim_result *whole;
    sim_options how; /* of the short plans */
    plan_repetition all;
    bool of_runs; /* gpipe: it is without its last micro-batches */
    fs_arena *arena;
    int32_t *first; /* [roles + 1] of a role's tasks among those of all */
} asked;

/* What is added up. Whole nanoseconds, firings and links, so that a difference
 * is exact; but of exposed communication, of which several kinds share one. */
enum {
    PATH_NS,
    PATH_FIRINGS = PATH_NS + SIM_CLASSES,
    EXPOSED_FIRINGS = PATH_FIRINGS + SIM_CLASSES,
    WHY = EXPOSED_FIRINGS + SIM_CLASSES,
    MEETINGS = WHY + SIM_WHYS,
    COUNTS
};
enum {
    EXPOSED_S,
    WHOLE_S = EXPOSED_S + SIM_CLASSES,
    PARTS_S = 2 * SIM_CLASSES
};

typedef struct sums {
    int64_t count[COUNTS];
    double part_s[PARTS_S];
    int64_t *tasks; /* [tasks of all roles][2] nanoseconds, firings */
    int64_t step_ns;
} sums;

static int64_t ns_of(double seconds)
{
    return (int64_t)llround(seconds * 1e9);
}

static sums sums_of(const asked *a, const sim_critical *c, double step_s)
{
    sums s = {.step_ns = ns_of(step_s)};
    for (int32_t k = 0; k < SIM_CLASSES; k++) {
        s.count[PATH_NS + k] = ns_of(c->path[k].seconds);
        s.count[PATH_FIRINGS + k] = c->path[k].firings;
        s.count[EXPOSED_FIRINGS + k] = c->exposed[k].firings;
        s.part_s[EXPOSED_S + k] = c->exposed[k].seconds;
        s.part_s[WHOLE_S + k] = c->whole_s[k];
    }
    for (int32_t k = 0; k < SIM_WHYS; k++)
        s.count[WHY + k] = c->why[k];
    s.count[MEETINGS] = c->meetings;
    s.tasks = fs_new(a->arena, int64_t, 2 * a->first[a->p->n_roles]);
    for (int32_t i = 0; i < c->n_tasks; i++) {
        const sim_on_path *on = &c->tasks[i];
        int64_t *its = &s.tasks[2 * (a->first[on->role] + on->task)];
        its[0] = ns_of(on->sum.seconds);
        its[1] = on->sum.firings;
    }
    return s;
}

/* With so many repetitions left out. */
static bool play_short(const asked *a, int32_t times, sums *out)
{
    fs_arena *arena = fs_arena_create();
    const plan shorter = a->of_runs
                             ? plan_leave_out_last(a->p, times, arena)
                             : plan_leave_out(a->p, &a->all, times, arena);
    plan_trace trace = {.arena = arena};
    sim_options how = a->how;
    sim_result result;
    fs_err err = {0};
    how.trace = &trace;
    const bool ran = sim_run(a->graph, &shorter, a->cluster, a->timing, &how,
                             arena, &err, &result) == FS_OK;
    if (ran) {
        const sim_critical c =
            sim_critical_of(&shorter, a->timing, &trace, &result, arena);
        *out = sums_of(a, &c, result.step_s[result.last_step]);
    }
    fs_arena_destroy(arena);
    return ran;
}

/* ---- does each add the same? ---- */

static bool same_steps(const int64_t *x, const int64_t *y, const int64_t *z,
                       int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        if (y[i] - x[i] != z[i] - y[i])
            return false;
    return true;
}

/* Sums of doubles differ by some last bits. */
static bool near_steps(const double *x, const double *y, const double *z,
                       int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        if (fabs((y[i] - x[i]) - (z[i] - y[i])) > 1e-9 * fabs(z[i]))
            return false;
    return true;
}

static bool are_steady(const asked *a, const sums s[SHORT_PLANS])
{
    const int64_t steps[SHORT_PLANS] = {s[0].step_ns, s[1].step_ns,
                                        s[2].step_ns};
    return same_steps(&steps[0], &steps[1], &steps[2], 1) &&
           same_steps(s[0].count, s[1].count, s[2].count, COUNTS) &&
           same_steps(s[0].tasks, s[1].tasks, s[2].tasks,
                      2 * a->first[a->p->n_roles]) &&
           near_steps(s[0].part_s, s[1].part_s, s[2].part_s, PARTS_S);
}

/* The first, and so often what the second has more: in place of the first. */
static bool add_up(const asked *a, sums s[SHORT_PLANS], int64_t often)
{
    const double step_s = a->whole->step_s[a->whole->last_step];
    s[0].step_ns += often * (s[1].step_ns - s[0].step_ns);
    for (int32_t k = 0; k < COUNTS; k++)
        s[0].count[k] += often * (s[1].count[k] - s[0].count[k]);
    for (int32_t k = 0; k < PARTS_S; k++)
        s[0].part_s[k] += (double)often * (s[1].part_s[k] - s[0].part_s[k]);
    for (int32_t i = 0; i < 2 * a->first[a->p->n_roles]; i++)
        s[0].tasks[i] += often * (s[1].tasks[i] - s[0].tasks[i]);
    return s[0].step_ns == ns_of(step_s);
}

/* ---- told ---- */

static int by_seconds(const void *a, const void *b)
{
    const sim_on_path *x = a, *y = b;
    if (x->sum.seconds != y->sum.seconds)
        return x->sum.seconds > y->sum.seconds ? -1 : 1;
    return x->role != y->role ? x->role - y->role : x->task - y->task;
}

static void tell_tasks(const asked *a, const sums *s, fs_arena *arena,
                       sim_critical *out)
{
    out->tasks = fs_new(arena, sim_on_path, a->first[a->p->n_roles]);
    for (int32_t r = 0; r < a->p->n_roles; r++)
        for (int32_t t = 0; t < a->p->roles[r].n_tasks; t++) {
            const int64_t *its = &s->tasks[2 * (a->first[r] + t)];
            if (its[1] > 0)
                out->tasks[out->n_tasks++] =
                    (sim_on_path){r, t, {(double)its[0] * 1e-9, its[1]}};
        }
    qsort(out->tasks, (size_t)out->n_tasks, sizeof *out->tasks, by_seconds);
}

static sim_critical told(const asked *a, const sums *s, fs_arena *arena)
{
    sim_critical out = {.end_ns = s->step_ns};
    for (int32_t k = 0; k < SIM_CLASSES; k++) {
        out.path[k] = (sim_sum){(double)s->count[PATH_NS + k] * 1e-9,
                                s->count[PATH_FIRINGS + k]};
        out.exposed[k] =
            (sim_sum){s->part_s[EXPOSED_S + k], s->count[EXPOSED_FIRINGS + k]};
        out.whole_s[k] = s->part_s[WHOLE_S + k];
    }
    for (int32_t k = 0; k < SIM_WHYS; k++)
        out.why[k] = s->count[WHY + k];
    out.meetings = s->count[MEETINGS];
    out.waiting_s = out.path[SIM_WAITING].seconds;
    tell_tasks(a, s, arena, &out);
    return out;
}

/* ---- the whole ---- */

static bool find_repetition(asked *a)
{
    a->of_runs = plan_is_of_runs(a->p);
    a->all = (plan_repetition){1, 0, a->p->micro_batches, NULL};
    return a->of_runs || plan_repetition_of(a->p, a->arena, &a->all);
}

static void number_tasks(asked *a)
{
    a->first = fs_new(a->arena, int32_t, a->p->n_roles + 1);
    for (int32_t r = 0; r < a->p->n_roles; r++)
        a->first[r + 1] = a->first[r] + a->p->roles[r].n_tasks;
}

/* So many micro-batches are kept of those that repeat, and `more`, a multiple
 * of a repetition, again and again; false where that is more than a part of
 * all, or not steady. */
static bool try_sizes(const asked *a, int32_t keep, int32_t more,
                      sums s[SHORT_PLANS], int64_t *often)
{
    enum { PART = 4 };
    const int32_t each = more / a->all.micro_batches;
    const int32_t times = plan_repetition_times(&a->all, keep) / each * each;
    *often = times / each;
    if (keep + SHORT_PLANS * (int64_t)more > a->p->micro_batches / PART ||
        *often < SHORT_PLANS)
        return false;
    for (int32_t k = 0; k < SHORT_PLANS; k++)
        if (!play_short(a, times - k * each, &s[k]))
            return false;
    return are_steady(a, s);
}

bool sim_critical_short(const ir_graph *graph, const plan *p,
                        const hw_cluster *cluster, const plan_timing *timing,
                        const sim_options *options, const sim_result *whole,
                        fs_arena *arena, sim_critical *out)
{
    /* The path may change its way with every second or third micro-batch, or
     * rarer: multiples of small numbers. */
    static const int32_t rarer[] = {12, 120, 840};
    asked a = {.graph = graph,
               .p = p,
               .cluster = cluster,
               .timing = timing,
               .whole = whole,
               .how = *options,
               .arena = fs_arena_create()};
    bool found = false;
    a.how.live = false;
    a.how.traced_steps = SIM_CRITICAL_STEPS;
    if (options->jitter <= 0 && find_repetition(&a)) {
        const int32_t d = a.all.micro_batches;
        sums s[SHORT_PLANS];
        int64_t often;
        number_tasks(&a);
        for (int32_t k = 0; k < 3 && !found; k++)
            found = try_sizes(&a, 8 * (d + p->strategy->n_stages) << k,
                              d * rarer[k], s, &often) &&
                    add_up(&a, s, often);
        if (found)
            *out = told(&a, s, arena);
    }
    fs_arena_destroy(a.arena);
    return found;
}
