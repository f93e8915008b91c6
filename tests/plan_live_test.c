/* What lowering makes is live: any network, any legal strategy, under the
 * schedules whose sections have no simple order (several stages on a role,
 * weights on their own), mostly with collectives on streams of their own.
 * Nothing runs, so there can be many. The cases are those of exec_equal_test
 * but for these schedules, more ops, chained at random, and fewer ranks: where
 * there are fewer SBPs, more readers share a boxing. */
#include "config.h"

#include "equal.h"
#include "plan/check.h"
#include "plan/lower.h"
#include "plan/schedule.h"
#include "tap.h"

#include <stdlib.h>

enum { CASES = 1000, MOST_TOLD = 5 };

typedef struct tally {
    int32_t plans, dead, unsound;
} tally;

static equal_case draw(uint64_t number)
{
    static const char *const schedules[] = {"zb-v",  "interleaved", "zb-v",
                                            "zb-h1", "zb-v",        "zb-h2"};
    const int32_t n = (int32_t)(sizeof schedules / sizeof *schedules);
    uint64_t seed = fs_mix(number + 99);
    const uint64_t ranks = 2 + (uint64_t)fs_rand_below(&seed, 3);
    equal_case c = equal_draw(ranks * EQUAL_RANKS_AT + number);
    c.model = NULL;
    c.each = false;
    c.n_ops = EQUAL_OPS;
    c.wild = 40;
    c.schedule = schedules[fs_rand_below(&seed, n)];
    const plan_placing placing = plan_schedule_find(c.schedule)->placing;
    c.chunks = placing == PLAN_PLACED_ONCE ? 1
               : placing == PLAN_PLACED_V
                   ? 2
                   : 2 + (int32_t)fs_rand_below(&seed, 2);
    c.overlap = fs_rand_below(&seed, 4) > 0;
    return c;
}

/* Of so many devices with room for all. */
static const hw_cluster *flat(int32_t devices, fs_arena *arena)
{
    hw_cluster *c = fs_new(arena, hw_cluster, 1);
    c->name = "flat";
    c->n_groups = 1;
    c->groups = fs_new(arena, hw_group, 1);
    c->groups[0] = (hw_group){.nodes = 1,
                              .devices_per_node = devices,
                              .device = {.name = "d",
                                         .memory_bytes = 1e12,
                                         .memory_bps = 1e11,
                                         .fp32_flops = 1e12,
                                         .matmul_efficiency = 1,
                                         .memory_efficiency = 1,
                                         .launch_s = 1e-6},
                              .inner = {"inner", 1e-6, 1e10, false},
                              .memory = {"memory", 1e-7, 1e10, false}};
    c->outer = (hw_link){"outer", 1e-6, 1e10, false};
    hw_cluster_finish(c);
    return c;
}

static void look(uint64_t number, const equal_case *c,
                 const plan_report *report, tally *t)
{
    t->plans++;
    t->dead += report->deadlocks;
    t->unsound += report->n > 0;
    if (report->n > 0 && t->unsound <= MOST_TOLD)
        printf("# FS_SEED=%llu: %s%s: %s\n", (unsigned long long)number,
               c->schedule, c->overlap ? ", overlap" : "",
               report->findings[0].text);
}

static void try_case(uint64_t number, tally *t)
{
    const equal_case c = draw(number);
    uint64_t features = 0;
    fs_arena *arena = fs_arena_create();
    const hw_cluster *cluster = flat(c.ranks, arena);
    fs_err err = {0};
    ir_graph *graph = equal_graph(&c, &err, &features), *bound;
    plan_strategy *s =
        graph ? equal_strategy(&c, graph, arena, &err, &bound) : NULL;
    plan_lower_options options = plan_lower_defaults();
    plan_report report;
    plan *p;
    options.overlap = c.overlap;
    options.bucket_bytes = c.bucket_bytes;
    options.share_memory = !c.unshared;
    options.refine = false;
    if (s)
        s->batch = bound->batch;
    if (s &&
        plan_lower(bound, cluster, s, &options, arena, &err, &p) == FS_OK) {
        plan_check(bound, cluster, p, arena, &report);
        look(number, &c, &report, t);
    }
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
    printf("# %d plans\n", (int)t.plans);
    tap_ok(t.dead == 0, "what is lowered is live: %d deadlocks in %d plans",
           (int)t.dead, (int)t.plans);
    tap_ok(t.unsound == 0, "and has no other finding: %d", (int)t.unsound);
    tap_ok(one || t.plans > n / 2, "most cases have a plan: %d of %d",
           (int)t.plans, (int)n);
    return tap_done();
}
