/* make bench-sim: what simulating and pricing take, beside what they should
 * (datasets/validation/bounds.csv).
 *
 *     bench_sim [FIGURES]
 *
 * Figures, and `holds` or `FAILS` beside each row; it ends with status 0 either
 * way. FIGURES gets those that a bound is of: key, what it is of, value, by
 * tabs. Seconds are of the processor: others may use the machine. */
#include "config.h"

#include "base/csv.h"
#include "cost/cost.h"
#include "bench_flows.h"
#include "bench_pricing.h"
#include "plan_build.h"
#include "sim/sim.h"
#include "zoo/zoo.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct world {
    fs_arena *arena;
    ir_graph *graph;
    hw_cluster *cluster;
    plan *plan;
    plan_timing *timing;
} world;

typedef struct gpt3 {
    const char *cluster;
    int32_t pp, dp, tp, micro_batches;
    bool overlap;
} gpt3;

static const char *datasets(void)
{
    const char *data = getenv("FS_DATA");
    return data ? data : "datasets";
}

static bool make(const gpt3 *c, world *w)
{
    ir_train_options train = ir_train_defaults();
    plan_lower_options lower = plan_lower_defaults();
    build_recipe recipe = {.pp = c->pp, .dp = c->dp, .tp = c->tp};
    fs_err err = {0};
    *w = (world){.arena = fs_arena_create()};
    train.optimizer = IR_ADAMW;
    train.micro_batches = c->micro_batches;
    lower.share_memory = false;
    lower.overlap = c->overlap;
    if (zoo_build("zoo:gpt3-175b", c->dp, &err, &w->graph) != FS_OK ||
        ir_train(w->graph, &train, &err) != FS_OK ||
        hw_cluster_open(c->cluster, datasets(), w->arena, &err, &w->cluster) !=
            FS_OK) {
        printf("# %s\n", err.text);
        return false;
    }
    w->graph->batch = (int64_t)c->dp * c->micro_batches;
    plan_strategy *s = build_strategy(w->graph, &recipe, w->arena);
    if (plan_lower(w->graph, w->cluster, s, &lower, w->arena, &err, &w->plan) !=
        FS_OK) {
        printf("# %s\n", err.text);
        return false;
    }
    cost_model *model = cost_model_create(w->cluster, w->arena);
    w->timing = cost_timing(model, w->graph, w->plan, w->arena);
    return true;
}

static void destroy(world *w)
{
    ir_graph_destroy(w->graph);
    fs_arena_destroy(w->arena);
}

/* ---- the table ---- */

typedef struct bench_bounds {
    fs_arena *arena;
    fs_csv table;
    FILE *figures; /* NULL: not asked for */
} bench_bounds;
static bench_bounds bounds;

static bool open_bounds(const char *figures)
{
    fs_err err = {0};
    bounds.arena = fs_arena_create();
    const char *path =
        fs_printf(bounds.arena, "%s/validation/bounds.csv", datasets());
    if (fs_csv_read(path, bounds.arena, &err, &bounds.table) != FS_OK) {
        printf("# %s\n", err.text);
        return false;
    }
    bounds.figures = figures ? fopen(figures, "w") : NULL;
    if (figures && !bounds.figures)
        printf("# %s cannot be written\n", figures);
    return !figures || bounds.figures;
}

static void close_bounds(void)
{
    if (bounds.figures)
        fclose(bounds.figures);
    fs_arena_destroy(bounds.arena);
}

static const char *bound_cell(int32_t row, const char *column)
{
    const fs_csv *t = &bounds.table;
    return t->cell[row * t->n_columns + fs_csv_column(t, column)];
}

static void head(void)
{
    printf(
        "| figure | measured | should be | verdict |\n|---|---:|---:|---|\n");
}

static void row(const char *what, double value, const char *unit, char sign,
                double bar)
{
    const bool holds = sign == '<' ? value <= bar : value >= bar;
    printf("| %s | %.4g %s | %s %g %s | %s |\n", what, value, unit,
           sign == '<' ? "<=" : ">=", bar, unit, holds ? "holds" : "FAILS");
    fflush(stdout);
}

static int32_t bound_of(const char *key)
{
    int32_t at = bounds.table.n_rows - 1;
    while (at >= 0 && strcmp(bound_cell(at, "key"), key) != 0)
        at--;
    FS_ASSERT(at >= 0);
    return at;
}

static void told(const char *what, double value, const char *unit)
{
    printf("| %s | %.4g %s | | |\n", what, value, unit);
    fflush(stdout);
}

/* Of the bound with that key. */
static void judge(const char *key, const char *what, double value)
{
    const int32_t at = bound_of(key);
    if (isnan(value)) { /* it cannot be told here */
        told(what, value, bound_cell(at, "unit"));
        return;
    }
    row(what, value, bound_cell(at, "unit"), bound_cell(at, "sign")[0],
        atof(bound_cell(at, "wanted")));
    if (bounds.figures)
        fprintf(bounds.figures, "%s\t%s\t%.9g\n", key, what, value);
}

/* ---- plans ---- */

static double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The fastest of a few; wall_s is the processor's. */
static sim_result play(const world *w, int64_t steps, bool in_full)
{
    enum { TIMES = 5 };
    const sim_options how = {
        .steps = steps, .straggler = 1, .in_full = in_full};
    fs_arena *arena = fs_arena_create();
    sim_result best = {.wall_s = INFINITY}, r = {0};
    fs_err err = {0};
    for (int32_t k = 0; k < TIMES; k++) {
        const double begin_s = cpu_s();
        if (sim_run(w->graph, w->plan, w->cluster, w->timing, &how, arena, &err,
                    &r) != FS_OK)
            printf("# %s\n", err.text);
        r.wall_s = cpu_s() - begin_s;
        if (r.wall_s < best.wall_s)
            best = r;
    }
    best.stages = NULL;
    fs_arena_destroy(arena);
    return best;
}

/* "VmHWM" or "VmRSS" of this process, in megabytes; NAN: not known. */
static double status_mb(const char *key)
{
    FILE *in = fopen("/proc/self/status", "r");
    char line[200];
    double kib = NAN;
    while (in && fgets(line, sizeof line, in))
        if (strncmp(line, key, strlen(key)) == 0)
            kib = atof(line + strlen(key) + 1);
    if (in)
        fclose(in);
    return kib * 1024 / 1e6;
}

/* What one run adds to the process at most; NAN: it cannot be told. */
static double memory_mb(const world *w)
{
    const sim_options how = {.steps = 4, .straggler = 1};
    fs_arena *arena = fs_arena_create();
    sim_result r;
    fs_err err = {0};
    FILE *reset = fopen("/proc/self/clear_refs", "w");
    malloc_trim(0); /* what others gave back is not counted */
    const bool known = reset && fputs("5", reset) >= 0 && fclose(reset) == 0;
    const double before_mb = status_mb("VmRSS");
    sim_run(w->graph, w->plan, w->cluster, w->timing, &how, arena, &err, &r);
    fs_arena_destroy(arena);
    return known ? status_mb("VmHWM") - before_mb : (double)NAN;
}

static void bench_plan(const gpt3 *c)
{
    world w;
    char name[120], what[200], key[40];
    const int32_t devices = c->pp * c->dp * c->tp;
    snprintf(name, sizeof name,
             "GPT-3 175B, %d devices, pp %d, %d micro-batches%s", devices,
             c->pp, c->micro_batches, c->overlap ? ", overlap" : "");
    if (!make(c, &w))
        return;
    const sim_result one = play(&w, 1, false), r = play(&w, 4, false);
    const sim_result full = play(&w, 4, true);
    snprintf(what, sizeof what, "%s: one iteration", name);
    snprintf(key, sizeof key, "iteration_%d", devices);
    judge(key, what, one.wall_s * 1e3);
    snprintf(what, sizeof what, "%s: four, the third steady", name);
    snprintf(key, sizeof key, "steady_%d", devices);
    judge(key, what, r.wall_s * 1e3);
    snprintf(what, sizeof what, "%s: each task by itself", name);
    /* with overlap collectives and transfers meet in the NICs */
    judge(c->overlap ? "shared" : "events", what,
          (double)full.events / full.wall_s * 1e-6);
    snprintf(what, sizeof what, "%s: in chains, repetitions left out", name);
    told(what, (double)r.events / r.wall_s * 1e-6, "M events/s");
    snprintf(what, sizeof what, "%s: memory of a run", name);
    if (devices == 16384)
        judge("memory_16384", what, memory_mb(&w));
    else
        told(what, memory_mb(&w), "MB");
    if (full.iteration_s != r.iteration_s || full.bubble != r.bubble)
        printf("| %s: collapsed is not what it is in full | | | FAILS |\n",
               name);
    destroy(&w);
}

/* ---- flows ---- */

static void bench_flows(const flows_case *c, bool compare)
{
    char what[200];
    const flows_figures f = flows_run(c, compare);
    const double ours = (double)f.events / f.ours_s * 1e-6;
    const double theirs = (double)f.events / f.theirs_s * 1e-6;
    snprintf(what, sizeof what,
             "%d flows at a time on a fat tree of %d links, %d a host: flows "
             "and queue",
             c->k * c->k * c->k / 4, f.links, c->flows);
    judge("shared", what, ours);
    if (!compare)
        return;
    if (f.why) {
        printf("| SimGrid on the same: %s | | | |\n", f.why);
        return;
    }
    told("SimGrid on the same", theirs, "M events/s");
    row("we are faster than SimGrid", ours / theirs, "times", '>', 1);
    row("ends differ from SimGrid's, relative, by at most", f.off, "", '<',
        1e-9);
}

/* ---- prices ---- */

/* All plans by all tables that they take, but for what search takes to complete
 * recipes, whose strategies are given here. */
static void bench_prices(bool fewer, const char *which)
{
    const pricing_case c = {
        "zoo:gpt3-175b", "128x8:a100-sxm4-80g", datasets(), 96, 1024, fewer};
    const pricing_figures f = pricing_run(&c);
    const double all_s = f.graphs_s + f.sheets_s + f.prices_s;
    char what[200];
    snprintf(what, sizeof what,
             "GPT-3 175B by recipes on %s 1,024 A100s: %lld distinct plans, "
             "time and memory by the formula, all tables included",
             which, (long long)f.plans);
    judge("pricing", what, (double)f.plans / all_s * 1e-3);
    told("of that graphs of few layers", f.graphs_s, "s");
    told("sheets", f.sheets_s, "s");
    told("prices, with tables of meshes and of what stages hold", f.prices_s,
         "s");
    told("recipes completed by search before, not included", f.patterns_s, "s");
    told("once all of a mesh is known", (double)f.again / f.again_s * 1e-3,
         "k plans/s");
    told("cost_strategy of one of them written out", f.checked / f.whole_s,
         "plans/s");
    snprintf(what, sizeof what,
             "%d of them, drawn, differ from cost_strategy in seconds, "
             "relative, by at most",
             f.checked);
    row(what, f.off, "", '<', 1e-12);
    row("in bytes of a stage so many", f.wrong, "", '<', 0);
}

int main(int argc, char **argv)
{
    static const gpt3 cases[] = {
        {"128x8:a100-sxm4-80g", 16, 8, 8, 192, false},
        {"128x8:a100-sxm4-80g", 16, 8, 8, 192, true},
        {"2048x8:a100-sxm4-80g", 16, 128, 8, 32, false},
        {"2048x8:a100-sxm4-80g", 16, 128, 8, 32, true},
        {"2048x8:a100-sxm4-80g", 64, 32, 8, 128, false},
    };
    if (!open_bounds(argc > 1 ? argv[1] : NULL))
        return 1;
    head();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        bench_plan(&cases[i]);
    /* Who starts when another ends makes of the smallest difference a large
     * one, sooner or later: ends are compared where each host sends a few. */
    bench_flows(&(flows_case){4, 10, 1}, true);
    bench_flows(&(flows_case){4, 2000, 2}, false);
    bench_flows(&(flows_case){8, 10, 3}, true);
    bench_flows(&(flows_case){8, 200, 4}, false);
    bench_prices(true, "up to");
    bench_prices(false, "all");
    close_bounds();
    return 0;
}
