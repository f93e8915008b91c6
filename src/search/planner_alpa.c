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
#include "search/layout.h"

#include <math.h>
#include <string.h>

/* Layers; rounds of prices for a run of them, and for a plan; plans costed in
 * full per number of micro-batches. */
enum { LAYERS = 8, RUN_ROUNDS = 1, PLAN_ROUNDS = 4, TRIES = 4, NOWHERE = -1 };
/* Values of the slowest stage nearer than that, as a share, are one. */
#define NEAR 1e-3
/* Of the time, that runs have. */
#define RUNS_SHARE 0.7
/* Of the time limit, as work: on a machine that is not slow no clock ends it.
 */
#define WORK_SHARE 0.7

typedef struct run_cost {
    double s; /* per micro-batch, with its part of the step */
    ir_mesh mesh;
} run_cost;

/* A whole plan of the dynamic program. */
typedef struct pipeline {
    int32_t n;
    double cost;
    int32_t first[LAYERS]; /* layer */
    ir_mesh mesh[LAYERS];
} pipeline;

typedef struct alpa {
    const search_problem *problem;
    fs_arena *arena;   /* of the result */
    fs_arena *scratch; /* of one graph */
    const search_graph *graph;
    search_rates rates;
    fs_end end, runs_end;
    int64_t steps;                 /* of work done */
    double most_steps, runs_steps; /* by when it ends, like end and runs_end */
    bool late;                     /* a clock had a say */
    int32_t n_layers;
    int32_t *layer_of; /* [node] */
    int32_t n_sizes;
    int32_t *size; /* [n_sizes] devices of a sub-mesh, ascending */
    run_cost *run; /* [(size * LAYERS + first) * LAYERS + last] */
    FS_VEC(pipeline) found;
    FS_VEC(search_config) costed;
    int64_t n_networks; /* of runs */
} alpa;

static bool reached(alpa *a, const fs_end *end, double steps)
{
    if ((double)a->steps >= steps)
        return true;
    const bool late = fs_end_reached(end);
    a->late |= late;
    return late;
}

static bool runs_over(alpa *a)
{
    return reached(a, &a->runs_end, a->runs_steps);
}

static run_cost *run_at(const alpa *a, int32_t k, int32_t first, int32_t last)
{
    return &a->run[(k * LAYERS + first) * LAYERS + last];
}

/* ---- layers and sub-meshes ---- */

static void cluster_layers(alpa *a)
{
    const ir_graph *graph = a->graph->graph;
    a->layer_of = fs_new(a->scratch, int32_t, graph->nodes.n);
    search_problem free = *a->problem;
    free.n_layers = 0;
    free.stage_of = NULL;
    for (a->n_layers = LAYERS; a->n_layers > 1; a->n_layers--) {
        fs_err ignored = {0};
        int32_t *group_of = fs_new(a->scratch, int32_t, a->n_layers);
        for (int32_t k = 0; k < a->n_layers; k++)
            group_of[k] = k;
        const search_layout layout = {
            .graph = graph,
            .n_stages = a->n_layers,
            .stages = fs_new(a->scratch, plan_stage, a->n_layers),
            .n_groups = a->n_layers,
            .group_of = group_of,
            .schedule = a->problem->schedule};
        if (search_cut(&free, &layout, &ignored, a->layer_of) == FS_OK)
            return;
    }
    memset(a->layer_of, 0, (size_t)graph->nodes.n * sizeof *a->layer_of);
}

static void add_size(alpa *a, int32_t devices)
{
    a->size[a->n_sizes++] = devices;
}

static void list_sizes(alpa *a)
{
    const hw_cluster *cluster = a->problem->cluster;
    const int32_t within = cluster->groups[0].devices_per_node;
    const ir_mesh *fixed = &a->problem->fix_mesh;
    a->size = fs_new(a->scratch, int32_t, 32 + cluster->n_nodes);
    if (fixed->n >= 0) {
        add_size(a, ir_mesh_size(fixed));
        return;
    }
    for (int32_t d = 1; d < within && d <= cluster->n_devices; d *= 2)
        add_size(a, d);
    for (int64_t n = 1; n * within <= cluster->n_devices; n *= 2)
        add_size(a, (int32_t)n * within);
    if (a->size[a->n_sizes - 1] < cluster->n_devices)
        add_size(a, cluster->n_devices);
}

/* ---- the level below: signatures of a run on a mesh ---- */

typedef struct whole {
    alpa *a;
    int32_t k; /* of the sizes */
    search_layout layout;
    search_built built;
    fs_arena *arena;
    search_memo known; /* networks that look alike -> seconds */
    FS_VEC(double) seconds;
} whole;

/* What of the network lies in a run. */
static search_net part_of(const whole *w, int32_t first, int32_t last,
                          fs_arena *arena)
{
    const search_net *net = &w->built.net;
    search_net part = *net;
    int32_t *place = fs_new(arena, int32_t, net->n_nodes);
    part.nodes = fs_new(arena, search_net_node, net->n_nodes);
    part.edges = fs_new(arena, search_net_edge, net->n_edges);
    part.n_nodes = part.n_edges = 0;
    for (int32_t v = 0; v < net->n_nodes; v++) {
        const int32_t layer = w->a->layer_of[v];
        place[v] = NOWHERE;
        if (layer < first || layer > last)
            continue;
        place[v] = part.n_nodes;
        part.nodes[part.n_nodes++] = net->nodes[v];
    }
    for (int32_t e = 0; e < net->n_edges; e++) {
        search_net_edge edge = net->edges[e];
        edge.u = place[edge.u];
        edge.v = place[edge.v];
        if (edge.u != NOWHERE && edge.v != NOWHERE)
            part.edges[part.n_edges++] = edge;
    }
    return part;
}

static uint64_t look_of_load(uint64_t hash, const search_load *load)
{
    hash = fs_hash(hash, &load->limit, sizeof load->limit);
    return fs_hash(hash, &load->bytes, sizeof load->bytes);
}

/* Tables are shared by what looks alike: equal places are equal tables. */
static uint64_t look_of(const search_net *net)
{
    uint64_t hash = fs_hash(0, &net->n_nodes, sizeof net->n_nodes);
    for (int32_t v = 0; v < net->n_nodes; v++) {
        const search_net_node *node = &net->nodes[v];
        hash = fs_hash(hash, &node->cost, sizeof node->cost);
        for (int32_t k = 0; k < node->n_loads; k++)
            hash = look_of_load(hash, &node->loads[k]);
    }
    for (int32_t e = 0; e < net->n_edges; e++) {
        const search_net_edge *edge = &net->edges[e];
        hash = fs_hash(hash, &edge->u, sizeof edge->u);
        hash = fs_hash(hash, &edge->v, sizeof edge->v);
        hash = fs_hash(hash, &edge->cost, sizeof edge->cost);
        for (int32_t k = 0; k < edge->n_loads; k++)
            hash = look_of_load(hash, &edge->loads[k]);
    }
    return hash;
}

static double solve_part(whole *w, const search_net *part, fs_arena *arena)
{
    const search_problem *problem = w->a->problem;
    const search_budget budget = {fs_deadline_at(w->a->runs_end, &w->a->steps),
                                  INFINITY,
                                  problem->gap,
                                  true,
                                  problem->without,
                                  RUN_ROUNDS,
                                  NULL};
    search_solution solution = {.cost = INFINITY};
    fs_err ignored = {0};
    w->a->n_networks++;
    if (search_ilp(part, &budget, arena, &ignored, &solution) != FS_OK)
        return INFINITY;
    return solution.cost / part->micro_batches;
}

static double run_seconds(whole *w, int32_t first, int32_t last)
{
    fs_arena *scratch = fs_arena_create();
    const search_net part = part_of(w, first, last, scratch);
    const uint64_t look = look_of(&part);
    int32_t *known = search_memo_at(&w->known, &look, sizeof look);
    if (*known < 0) {
        const int32_t id = w->seconds.n;
        fs_push(w->arena, &w->seconds, solve_part(w, &part, scratch));
        *known = id;
    }
    const double s = w->seconds.at[*known];
    fs_arena_destroy(scratch);
    return s;
}

static void time_runs(whole *w)
{
    alpa *a = w->a;
    for (int32_t first = 0; first < a->n_layers; first++)
        for (int32_t last = first; last < a->n_layers; last++) {
            run_cost *best = run_at(a, w->k, first, last);
            if (runs_over(a))
                return;
            const double s = run_seconds(w, first, last);
            if (s < best->s)
                *best = (run_cost){s, w->layout.stages[0].mesh};
        }
}

/* One logical shape of a sub-mesh. */
static void try_mesh(alpa *a, int32_t k, const ir_mesh *mesh)
{
    const ir_graph *graph = a->graph->graph;
    const ir_mesh *fixed = &a->problem->fix_mesh;
    fs_arena *arena = fs_arena_create();
    plan_stage stage = {*mesh, 0};
    int32_t group = 0;
    int64_t limit = search_device_bytes(a->problem, &stage);
    whole w = {.a = a, .k = k, .arena = arena, .known = {.arena = arena}};
    w.layout =
        (search_layout){.graph = graph,
                        .n_stages = 1,
                        .stages = &stage,
                        .stage_of = fs_new(arena, int32_t, graph->nodes.n),
                        .n_groups = 1,
                        .group_of = &group,
                        .schedule = a->problem->schedule,
                        .fill = 1,
                        .limit_bytes = &limit,
                        .rates = &a->rates,
                        .end = a->runs_end};
    if (!runs_over(a) && (fixed->n < 0 || plan_same_mesh(fixed, mesh)) &&
        search_build_nodes(a->problem, &w.layout, arena, &w.built) &&
        w.built.empty < 0 && search_build_edges(arena, &w.built))
        time_runs(&w);
    a->steps += w.built.steps;
    fs_arena_destroy(arena);
}

static void try_meshes(alpa *a, int32_t k, int32_t devices, ir_mesh *mesh)
{
    if (devices == 1) {
        try_mesh(a, k, mesh);
        return;
    }
    const int32_t most = a->problem->fix_mesh.n > a->problem->max_mesh_axes
                             ? a->problem->fix_mesh.n
                             : a->problem->max_mesh_axes;
    if (mesh->n >= most)
        return;
    for (int32_t d = devices; d >= 2; d--) {
        if (devices % d || (mesh->n + 1 == most && d != devices))
            continue;
        mesh->dim[mesh->n++] = d;
        try_meshes(a, k, devices / d, mesh);
        mesh->dim[--mesh->n] = 0;
    }
}

/* ---- the level above: runs and sub-meshes ---- */

typedef struct cell {
    double s; /* of the layers from here on, INFINITY: not possible */
    int32_t next, k;
} cell;

typedef struct program {
    const alpa *a;
    int32_t devices, most; /* stages */
    cell *cell;            /* [(stages * (layers + 1) + layer) * (devices + 1) +
                              devices left] */
} program;

static cell *cell_at(const program *p, int32_t stages, int32_t layer,
                     int32_t devices)
{
    const size_t row =
        (size_t)stages * (size_t)(p->a->n_layers + 1) + (size_t)layer;
    return &p->cell[row * (size_t)(p->devices + 1) + (size_t)devices];
}

static void fill_cell(const program *p, int32_t stages, int32_t layer,
                      int32_t devices, double slowest)
{
    const alpa *a = p->a;
    cell *best = cell_at(p, stages, layer, devices);
    *best = (cell){.s = INFINITY};
    for (int32_t k = 0; k < a->n_sizes && a->size[k] <= devices; k++)
        for (int32_t last = layer; last < a->n_layers; last++) {
            const double s = run_at(a, k, layer, last)->s;
            const double rest =
                cell_at(p, stages - 1, last + 1, devices - a->size[k])->s;
            if (s <= slowest && s + rest < best->s)
                *best = (cell){s + rest, last + 1, k};
        }
}

/* Of no stage: done where no layer and no device is left. */
static void fill_cells(const program *p, double slowest)
{
    const alpa *a = p->a;
    for (int32_t s = 0; s <= p->most; s++)
        for (int32_t layer = 0; layer <= a->n_layers; layer++)
            for (int32_t d = 0; d <= p->devices; d++) {
                if (s > 0 && layer < a->n_layers)
                    fill_cell(p, s, layer, d, slowest);
                else
                    cell_at(p, s, layer, d)->s =
                        s == 0 && layer == a->n_layers && d == 0 ? 0 : INFINITY;
            }
}

static pipeline read_back(const program *p, int32_t stages, double cost)
{
    const alpa *a = p->a;
    pipeline out = {.n = stages, .cost = cost};
    for (int32_t i = 0, layer = 0, d = p->devices; i < stages; i++) {
        const cell *at = cell_at(p, stages - i, layer, d);
        out.first[i] = layer;
        out.mesh[i] = run_at(a, at->k, layer, at->next - 1)->mesh;
        d -= a->size[at->k];
        layer = at->next;
    }
    return out;
}

static void keep_best(alpa *a, const pipeline *now)
{
    for (int32_t i = 0; i < a->found.n; i++)
        if (a->found.at[i].cost <= now->cost &&
            memcmp(a->found.at[i].first, now->first, sizeof now->first) == 0 &&
            memcmp(a->found.at[i].mesh, now->mesh, sizeof now->mesh) == 0)
            return;
    fs_push(a->scratch, &a->found, *now);
    for (int32_t i = a->found.n - 1;
         i > 0 && a->found.at[i - 1].cost > a->found.at[i].cost; i--) {
        const pipeline swap = a->found.at[i];
        a->found.at[i] = a->found.at[i - 1];
        a->found.at[i - 1] = swap;
    }
    if (a->found.n > TRIES)
        a->found.n = TRIES;
}

/* The next value of the slowest stage; INFINITY: there is none. */
static double next_slowest(const alpa *a, double above)
{
    double next = INFINITY;
    for (int32_t i = 0; i < a->n_sizes * LAYERS * LAYERS; i++)
        if (a->run[i].s > above && a->run[i].s < next)
            next = a->run[i].s;
    return next;
}

static void partition(alpa *a)
{
    const int32_t fixed = a->problem->fix_stages;
    const int32_t m = a->graph->micro_batches;
    program p = {.a = a,
                 .devices = a->problem->cluster->n_devices,
                 .most = fixed ? fixed : a->n_layers};
    if (p.most > a->n_layers)
        return;
    p.cell = fs_new(a->scratch, cell,
                    (size_t)(p.most + 1) * (size_t)(a->n_layers + 1) *
                        (size_t)(p.devices + 1));
    double best = INFINITY;
    for (double slowest = next_slowest(a, 0); isfinite(slowest);
         slowest = next_slowest(a, slowest * (1 + NEAR))) {
        if (m * slowest >= best || reached(a, &a->end, INFINITY))
            return;
        fill_cells(&p, slowest);
        for (int32_t s = fixed ? fixed : 1; s <= p.most; s++) {
            const double sum = cell_at(&p, s, 0, p.devices)->s;
            if (isinf(sum))
                continue;
            const pipeline now = read_back(&p, s, sum + (m - 1) * slowest);
            best = fmin(best, now.cost);
            keep_best(a, &now);
        }
    }
}

/* ---- in full ---- */

static int32_t stage_of_layer(const pipeline *pipe, int32_t layer)
{
    int32_t stage = 0;
    while (stage + 1 < pipe->n && pipe->first[stage + 1] <= layer)
        stage++;
    return stage;
}

static fs_status cost_in_full(alpa *a, const pipeline *pipe, double best_s,
                              fs_err *err, search_result *out)
{
    const int32_t n = a->graph->graph->nodes.n;
    search_problem one = *a->problem;
    int32_t *stage_of = fs_new(a->scratch, int32_t, n);
    for (int32_t v = 0; v < n; v++)
        stage_of[v] = stage_of_layer(pipe, a->layer_of[v]);
    one.engine = "ilp";
    one.start = NULL;
    one.n_graphs = 1;
    one.graphs = a->graph;
    one.fix_stages = pipe->n;
    one.fix_mesh.n = -1;
    one.stage_mesh =
        fs_memdup(a->arena, pipe->mesh, (size_t)pipe->n * sizeof *pipe->mesh);
    one.stage_of = stage_of;
    one.rounds = PLAN_ROUNDS;
    one.below_s = best_s;
    one.progress = NULL; /* its bounds are of one pipeline */
    one.end = &a->end;
    one.most_steps = 0;
    return search_run(&one, a->arena, err, out);
}

/* The first that fits. */
static void cost_found(alpa *a, double best_s, fs_err *why, search_result *best)
{
    for (int32_t i = 0; i < a->found.n; i++) {
        search_result now = {0};
        fs_err err = {0};
        const fs_status status =
            cost_in_full(a, &a->found.at[i], best_s, &err, &now);
        a->steps += now.steps;
        a->late |= now.late;
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
    ir_mesh mesh = {0};
    const double best_s = best->strategy ? best->iteration_s : 0;
    /* Large sub-meshes first: when time runs out there is a plan of few
     * stages, and time to look at it in full. */
    a->runs_end = fs_end_after(fs_now_ns(), RUNS_SHARE * fs_end_left(&a->end),
                               a->end.stop);
    const double done = (double)a->steps;
    a->runs_steps = done + RUNS_SHARE * fmax(0, a->most_steps - done);
    a->scratch = fs_arena_create();
    a->graph = graph;
    a->found.n = a->found.room = 0;
    a->found.at = NULL;
    a->n_sizes = 0;
    const cost_model *cost = a->problem->cost;
    plan_boxer *boxer = plan_boxer_create(cost_boxing(cost), a->scratch);
    a->rates = (search_rates){{cost, cost}, {boxer, boxer}};
    cluster_layers(a);
    list_sizes(a);
    a->run = fs_new(a->scratch, run_cost, a->n_sizes * LAYERS * LAYERS);
    for (int32_t i = 0; i < a->n_sizes * LAYERS * LAYERS; i++)
        a->run[i].s = INFINITY;
    for (int32_t k = a->n_sizes - 1; k >= 0; k--)
        try_meshes(a, k, a->size[k], &mesh);
    partition(a);
    cost_found(a, best_s, why, best);
    fs_arena_destroy(a->scratch);
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
    out->steps = a->steps;
    out->late = a->late;
    out->search_s = 1e-9 * (double)(fs_now_ns() - start_ns);
    out->space =
        fs_printf(a->arena,
                  "%s (%s): %lld networks of runs of up to %d layers, %d plans "
                  "costed in full",
                  self->name, self->source, (long long)a->n_networks, LAYERS,
                  a->costed.n);
}

fs_status search_plan_alpa(const search_planner *self,
                           const search_problem *problem, fs_arena *arena,
                           fs_err *err, search_result *out)
{
    const int64_t start_ns = fs_now_ns();
    const double limit =
        problem->time_limit_s > 0 ? fmin(problem->time_limit_s, 1e8) : 1e8;
    const double most_steps =
        problem->most_steps > 0 ? problem->most_steps : FS_STEPS_PER_S * limit;
    alpa a = {.problem = problem, .arena = arena};
    fs_err why = {0};
    *out = (search_result){.status = "infeasible", .iteration_s = INFINITY};
    if (problem->stage_mesh || problem->interleave > 1 || problem->n_layers)
        return fs_fail(err, FS_NO,
                       "%s cuts stages itself, one per group of devices",
                       self->name);
    double first_s = 0;
    for (int32_t g = 0; g < problem->n_graphs; g++) {
        const double share = limit * (g + 1) / problem->n_graphs;
        a.end = fs_end_after(start_ns, share, problem->stop);
        if (problem->end && problem->end->wall_ns < a.end.wall_ns)
            a.end = *problem->end;
        a.most_steps = WORK_SHARE * most_steps * (g + 1) / problem->n_graphs;
        if (reached(&a, &a.end, INFINITY)) /* graphs before it were late */
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
