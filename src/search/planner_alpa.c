/* Alpa's two levels (Zheng et al., OSDI 2022, arXiv 2201.12023, sections 4, 5).
 * The graph is clustered into layers, here by the cut that balances them.
 * Within a run of layers on a sub-mesh the cheapest signatures, by this tool's
 * engine on the part of the network that lies there: what crosses between
 * stages is not seen, as in Alpa. Over runs and sub-meshes a dynamic program
 * for each value of the slowest stage, T = sum_i t_i + (m - 1) max_i t_i, all
 * devices used; sub-meshes are parts of a node that are powers of two, or whole
 * nodes. The best of these are costed in full, as the problem with those
 * stages, until one fits. */
#include "config.h"
#include "search/planner.h"

#include "base/clock.h"
#include "search/cuts/runs.h"

#include <math.h>
#include <string.h>

/* Rounds of prices for a plan; plans costed in full per number of
 * micro-batches.
 */
enum { PLAN_ROUNDS = 4, TRIES = 4 };
/* Of the time, that runs have. */
#define RUNS_SHARE 0.7
/* Of the time limit, as work: on a machine that is not slow no clock ends it.
 */
#define WORK_SHARE 0.7

typedef struct alpa {
    const search_problem *problem;
    fs_arena *arena;   /* of the result */
    search_runs runs;  /* of one graph */
    double most_steps; /* by when it ends, like its end */
    FS_VEC(search_config) costed;
} alpa;

static fs_status cost_in_full(alpa *a, const search_pipeline *pipe,
                              double best_s, fs_err *err, search_result *out)
{
    const int32_t n = a->runs.graph->graph->nodes.n;
    search_problem one = *a->problem;
    int32_t *stage_of = fs_new(a->runs.scratch, int32_t, n);
    for (int32_t v = 0; v < n; v++)
        stage_of[v] = search_pipeline_stage(pipe, a->runs.layer_of[v]);
    one.engine = "ilp";
    one.start = NULL;
    one.n_graphs = 1;
    one.graphs = a->runs.graph;
    one.fix_stages = pipe->n;
    one.fix_mesh.n = -1;
    one.stage_mesh =
        fs_memdup(a->arena, pipe->mesh, (size_t)pipe->n * sizeof *pipe->mesh);
    one.stage_of = stage_of;
    one.rounds = PLAN_ROUNDS;
    one.below_s = best_s;
    one.progress = NULL; /* its bounds are of one pipeline */
    one.end = &a->runs.end;
    if (one.most_steps > 0)
        one.most_steps = fmax(1, one.most_steps - (double)a->runs.steps);
    one.order = NULL; /* runs are placed as the cluster is */
    return search_run(&one, a->arena, err, out);
}

/* The first that fits. */
static void cost_found(alpa *a, double best_s, fs_err *why, search_result *best)
{
    for (int32_t i = 0; i < a->runs.found.n; i++) {
        search_result now = {0};
        fs_err err = {0};
        const fs_status status =
            cost_in_full(a, &a->runs.found.at[i], best_s, &err, &now);
        a->runs.steps += now.steps;
        a->runs.late |= now.late;
        for (int32_t c = 0; c < now.n_configs; c++)
            fs_push(a->arena, &a->costed, now.configs[c]);
        if (status == FS_OK) {
            *best = now;
            return;
        }
        if (!why->text[0])
            *why = err;
    }
}

/* One number of micro-batches. */
static void plan_graph(alpa *a, const search_graph *graph, fs_err *why,
                       search_result *best)
{
    search_runs *runs = &a->runs;
    const double best_s = best->strategy ? best->iteration_s : 0;
    const double done = (double)runs->steps;
    runs->runs_end = fs_end_after(
        fs_now_ns(), RUNS_SHARE * fs_end_left(&runs->end), runs->end.stop);
    runs->runs_steps = done + RUNS_SHARE * fmax(0, a->most_steps - done);
    runs->scratch = fs_arena_create();
    runs->graph = graph;
    search_runs_find(runs);
    cost_found(a, best_s, why, best);
    fs_arena_destroy(runs->scratch);
}

static void fill(alpa *a, const search_planner *self, int64_t start_ns,
                 search_result *out)
{
    out->configs = a->costed.at;
    out->n_configs = a->costed.n;
    for (int32_t k = 0; k < a->costed.n; k++)
        out->configs[k].lower_bound_s = 0;
    out->lower_bound_s = 0;
    out->gap = 1;
    out->steps = a->runs.steps;
    out->late = a->runs.late;
    out->search_s = 1e-9 * (double)(fs_now_ns() - start_ns);
    out->space =
        fs_printf(a->arena,
                  "%s (%s): %lld networks of runs of up to %d layers, %d plans "
                  "costed in full",
                  self->name, self->source, (long long)a->runs.n_networks,
                  SEARCH_MOST_LAYERS, a->costed.n);
}

fs_status search_plan_alpa(const search_planner *self,
                           const search_problem *problem, fs_arena *arena,
                           fs_err *err, search_result *out)
{
    const int64_t start_ns = fs_now_ns();
    const double limit =
        problem->time_limit_s > 0 ? fmin(problem->time_limit_s, 1e8) : 1e8;
    alpa a = {.problem = problem,
              .arena = arena,
              .runs = {.problem = problem, .keep = TRIES}};
    fs_err why = {0};
    *out = (search_result){.status = "infeasible", .iteration_s = INFINITY};
    if (problem->stage_mesh || problem->interleave > 1 || problem->n_layers)
        return fs_fail(err, FS_NO,
                       "%s cuts stages itself, one per group of devices",
                       self->name);
    double first_s = 0;
    for (int32_t g = 0; g < problem->n_graphs; g++) {
        const double share = limit * (g + 1) / problem->n_graphs;
        a.runs.end = fs_end_after(start_ns, share, problem->stop);
        if (problem->end && problem->end->wall_ns < a.runs.end.wall_ns)
            a.runs.end = *problem->end;
        a.most_steps = WORK_SHARE * search_most_steps(problem) * (g + 1) /
                       problem->n_graphs;
        if (search_runs_over(&a.runs, &a.runs.end,
                             INFINITY)) /* graphs before it were late */
            continue;
        plan_graph(&a, &problem->graphs[g], &why, out);
        if (out->strategy && first_s <= 0)
            first_s = 1e-9 * (double)(fs_now_ns() - start_ns);
    }
    fill(&a, self, start_ns, out);
    out->first_s = first_s;
    if (out->strategy) {
        out->status = "feasible";
        return FS_OK;
    }
    out->iteration_s = INFINITY;
    out->status = "limit";
    return fs_fail(err, FS_NO, "%s: no plan was found%s%.500s", self->name,
                   why.text[0] ? "; the first: " : "", why.text);
}
