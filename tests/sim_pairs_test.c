/* Chains of a compute stream and the collectives beside it, played as one, are
 * to the last bit what they are task by task: any network, any legal strategy,
 * with collectives on a stream of their own, beside which compute is slower by
 * any factor. The cases are those of exec_equal_test. */
#include "config.h"

#include "equal.h"
#include "plan/lower.h"
#include "sim_same.h"
#include "tap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CASES = 400, STEPS = 5, TIMINGS = 4, SHORT = 3 };

typedef struct tally {
    int32_t runs, differ, paired, slowed;
    int64_t events, in_pairs;
} tally;

/* In some runs many end at the same instant, and some take no time at all. In
 * the last kind they are a picosecond short of a few nanoseconds: at a third of
 * the rate each rounding on the way then shows in the end. */
static plan_timing *draw_times(const plan *p, int32_t kind, uint64_t *seed,
                               fs_arena *arena)
{
    static const int64_t values[TIMINGS] = {3, 5, 100000, 24};
    plan_timing *timing = plan_timing_new(p, "drawn", arena);
    for (int32_t r = 0; r < p->n_roles; r++)
        for (int32_t t = 0; t < p->roles[r].n_tasks; t++)
            timing->demand[r][t].total_s =
                (double)(fs_rand_below(seed, values[kind]) + (kind > 0)) *
                    (kind < SHORT ? 1.3e-7 : 1e-9) -
                (kind < SHORT ? 0 : 1e-12);
    return timing;
}

/* Beside collectives what computes is as fast as alone, or slower by anything
 * from next to nothing to three times. */
static double draw_slowdown(uint64_t *seed)
{
    static const int64_t most[] = {0, 1, 1000, 2000000000};
    const int64_t of = most[fs_rand_below(seed, 4)];
    return of > 0 ? 1 + 1e-9 * (double)(1 + fs_rand_below(seed, of)) : 0;
}

static void compare(uint64_t number, const ir_graph *graph, const plan *p,
                    hw_cluster *cluster, tally *t)
{
    uint64_t seed = fs_mix(number + 78);
    for (int32_t kind = 0; kind < TIMINGS; kind++) {
        fs_arena *arena = fs_arena_create();
        fs_err err = {0};
        const plan_timing *timing = draw_times(p, kind, &seed, arena);
        const double slowdown = kind < SHORT ? draw_slowdown(&seed) : 3;
        sim_options how = {.steps = STEPS, .straggler = 1, .in_full = true};
        sim_result full = {0}, joined = {0};
        for (int32_t g = 0; g < cluster->n_groups; g++)
            cluster->groups[g].device.overlap_slowdown = slowdown;
        const bool ran = sim_run(graph, p, cluster, timing, &how, arena, &err,
                                 &full) == FS_OK;
        how.in_full = false;
        t->runs++;
        if (!ran || sim_run(graph, p, cluster, timing, &how, arena, &err,
                            &joined) != FS_OK) {
            t->differ++;
            printf("# FS_SEED=%llu: %s\n", (unsigned long long)number,
                   err.text);
        } else if (!same(&full, &joined)) {
            t->differ++;
            printf("# FS_SEED=%llu: times %d, slowdown %.17g, %.17g s in "
                   "full, %.17g s\n",
                   (unsigned long long)number, kind, slowdown, full.iteration_s,
                   joined.iteration_s);
        }
        t->paired += joined.paired > 0;
        t->slowed += joined.paired > 0 && slowdown > 0;
        t->events += joined.events - joined.skipped;
        t->in_pairs += joined.paired;
        fs_arena_destroy(arena);
    }
}

static void try_case(uint64_t number, tally *t)
{
    equal_case c = equal_draw(number);
    uint64_t features = 0;
    fs_arena *arena = fs_arena_create();
    fs_err err = {0};
    char text[80];
    c.overlap = true;
    c.micro_batches *= 3;
    ir_graph *graph = equal_graph(&c, &err, &features), *bound;
    plan_strategy *s =
        graph ? equal_strategy(&c, graph, arena, &err, &bound) : NULL;
    plan_lower_options options = plan_lower_defaults();
    hw_cluster *cluster = NULL;
    plan *p;
    options.overlap = true;
    options.share_memory = options.refine = false;
    /* Nodes of one device share links, a node's devices do not. */
    snprintf(text, sizeof text, "%s:a100-sxm4-80g",
             number % 3 ? "1x64" : "32x2");
    if (s && hw_cluster_open(text, getenv("FS_DATA"), arena, &err, &cluster) ==
                 FS_OK)
        s->batch = bound->batch;
    if (cluster &&
        plan_lower(bound, cluster, s, &options, arena, &err, &p) == FS_OK)
        compare(number, bound, p, cluster, t);
    if (graph)
        ir_graph_destroy(graph);
    fs_arena_destroy(arena);
}

int main(void)
{
    const char *one = getenv("FS_SEED");
    const char *cases = getenv("FS_CASES");
    const int32_t n = one ? 1 : cases ? atoi(cases) : CASES;
    tally t = {0};
    for (int32_t k = 0; k < n; k++)
        try_case(one ? strtoull(one, NULL, 10) : (uint64_t)k, &t);
    printf("# %d runs, %d with pairs, %d of these where compute is slower "
           "beside collectives; in pairs are %.3g %% of what is played\n",
           t.runs, t.paired, t.slowed,
           100. * (double)t.in_pairs / (double)t.events);
    tap_equal_int(t.differ, 0,
                  "with pairs, chains and repetitions all is what it is in "
                  "full, to the last bit");
    tap_ok(one || (t.paired > n / 2 && t.slowed > n / 3),
           "pairs are met in %d runs of %d, slowed in %d", t.paired, t.runs,
           t.slowed);
    return tap_done();
}
