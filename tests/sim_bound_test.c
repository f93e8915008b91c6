/* No simulated plan takes less than cost_least says: any network, any legal
 * strategy, any lowering, on clusters on which now this and now that decides.
 * The cases are those of exec_equal_test. */
#include "config.h"

#include "cost/cost.h"
#include "equal.h"
#include "plan/check.h"
#include "plan/lower.h"
#include "sim/sim.h"
#include "tap.h"

#include <math.h>
#include <stdlib.h>

enum { CASES = 400, STEPS = 16 };

/* Seconds of bounds and formulas over simulated seconds. */
typedef struct tally {
    int32_t plans, unsound, staged, overlapped, near, above, formula_above;
    double least, most, sum;            /* of the bound */
    double formula_least, formula_most; /* of the formula */
} tally;

static double between(uint64_t *seed, double low, double high)
{
    return low * pow(high / low, fs_rand_unit(seed));
}

static int32_t draw_nodes(uint64_t *seed, int32_t devices)
{
    int32_t nodes = 1 + (int32_t)fs_rand_below(seed, devices);
    while (devices % nodes)
        nodes--;
    return nodes;
}

/* Of one kind of device. In half of the cases devices share cores. */
static hw_cluster *draw_cluster(uint64_t *seed, int32_t devices,
                                fs_arena *arena)
{
    const bool cpu = fs_rand_below(seed, 2);
    hw_cluster *c = fs_new(arena, hw_cluster, 1);
    c->name = "drawn";
    c->n_groups = 1;
    c->groups = fs_new(arena, hw_group, 1);
    hw_group *g = &c->groups[0];
    g->nodes = draw_nodes(seed, devices);
    g->devices_per_node = devices / g->nodes;
    g->device = (hw_device){.name = "d",
                            .memory_bytes = 1e12,
                            .memory_bps = between(seed, 1e8, 1e11),
                            .fp32_flops = between(seed, 1e7, 1e12),
                            .matmul_efficiency = 0.8,
                            .memory_efficiency = 0.7,
                            .launch_s = between(seed, 1e-8, 1e-5)};
    g->inner = (hw_link){"inner", between(seed, 1e-8, 1e-5),
                         between(seed, 1e7, 1e11), cpu};
    g->memory = (hw_link){"memory", between(seed, 1e-9, 1e-6),
                          between(seed, 1e8, 1e11), cpu};
    g->cores_per_node =
        cpu ? 1 + (int32_t)fs_rand_below(seed, 2 * g->devices_per_node) : 0;
    c->outer = (hw_link){"outer", between(seed, 1e-7, 1e-4),
                         between(seed, 1e7, 1e10), false};
    hw_cluster_finish(c);
    return c;
}

static void count(tally *t, const equal_case *c, const plan_strategy *s,
                  double bound, double formula, double simulated)
{
    const double r = bound / simulated, f = formula / simulated;
    t->plans++;
    t->staged += s->n_stages > 1;
    t->overlapped += c->overlap;
    t->near += r > 0.9;
    t->above += r > 1 + 1e-9;
    t->formula_above += f > 1 + 1e-9;
    t->least = fmin(t->least, r);
    t->most = fmax(t->most, r);
    t->sum += r;
    t->formula_least = fmin(t->formula_least, f);
    t->formula_most = fmax(t->formula_most, f);
}

static void tell(uint64_t number, const plan_strategy *s, bool overlap)
{
    printf("# FS_SEED=%llu: %s, %d stages, %d micro-batches%s\n",
           (unsigned long long)number, s->schedule, s->n_stages,
           s->micro_batches, overlap ? ", overlap" : "");
}

static void compare(uint64_t number, const equal_case *c, const ir_graph *graph,
                    const plan *p, const hw_cluster *cluster,
                    const plan_lower_options *options, tally *t)
{
    fs_arena *arena = fs_arena_create();
    fs_err err = {0};
    const cost_model *model = cost_model_create(cluster, arena);
    const plan_timing *timing = cost_timing(model, graph, p, arena);
    const sim_options how = {.steps = STEPS, .straggler = 1};
    cost_summary formula = {0};
    sim_result sim = {0};
    bool good =
        cost_strategy(model, graph, p->strategy, arena, &err, &formula) ==
            FS_OK &&
        sim_run(graph, p, cluster, timing, &how, arena, &err, &sim) == FS_OK;
    if (!good)
        tap_ok(false, "case %llu: %s", (unsigned long long)number, err.text);
    const double least = cost_least(model, graph, p->strategy, options);
    count(t, c, p->strategy, least, formula.iteration_s, sim.iteration_s);
    if (least > sim.iteration_s * (1 + 1e-9)) {
        tell(number, p->strategy, c->overlap);
        printf("# bound %.9g s, simulated %.9g s\n", least, sim.iteration_s);
    }
    fs_arena_destroy(arena);
}

static void try_case(uint64_t number, tally *t)
{
    const equal_case c = equal_draw(number);
    uint64_t features = 0, seed = fs_mix(number + 77);
    fs_arena *arena = fs_arena_create();
    fs_err err = {0};
    ir_graph *graph = equal_graph(&c, &err, &features), *bound;
    plan_strategy *s =
        graph ? equal_strategy(&c, graph, arena, &err, &bound) : NULL;
    plan_lower_options options = plan_lower_defaults();
    const hw_cluster *cluster = draw_cluster(&seed, c.ranks, arena);
    plan_report report;
    plan *p;
    options.overlap = c.overlap;
    options.bucket_bytes = c.bucket_bytes;
    options.refine = false;
    if (s)
        s->batch = bound->batch;
    if (s &&
        plan_lower(bound, cluster, s, &options, arena, &err, &p) == FS_OK) {
        if (plan_check(bound, cluster, p, arena, &report) == FS_OK) {
            compare(number, &c, bound, p, cluster, &options, t);
        } else {
            t->unsound++;
            tell(number, s, c.overlap);
            printf("# %s\n", report.findings[0].text);
        }
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
    tally t = {.least = INFINITY, .formula_least = INFINITY};
    for (int32_t k = 0; k < n; k++)
        try_case(one ? strtoull(one, NULL, 10) : (uint64_t)k, &t);
    printf("# %d plans, %d of several stages, %d with overlap: the bound is "
           "%.3f to %.6f of the simulated time, %.3f in the mean, over 0.9 of "
           "it in %d\n",
           t.plans, t.staged, t.overlapped, t.least, t.most, t.sum / t.plans,
           t.near);
    printf("# the formula is %.3f to %.3f of it, above it in %d\n",
           t.formula_least, t.formula_most, t.formula_above);
    tap_ok(t.above == 0, "no plan simulates faster than the bound");
    tap_ok(t.unsound == 0, "what is lowered is sound");
    tap_ok(one || t.plans > n / 2, "most cases have a plan: %d of %d", t.plans,
           n);
    return tap_done();
}
