#include "config.h"
#include "search/cuts/runs.h"
#include "search/built.h"
#include "search/cuts/cut.h"
#include "search/fit.h"
#include "search/engine/memo.h"

#include "base/crew.h"

#include <math.h>
#include <string.h>

/* Rounds of prices for a run. */
enum { RUN_ROUNDS = 1, NOWHERE = -1 };
/* Values of the slowest stage nearer than that, as a share, are one. */
#define NEAR 1e-3

bool search_runs_over(search_runs *a, const fs_end *end, double steps)
{
    if ((double)a->steps >= steps)
        return true;
    const bool late = fs_end_reached(end);
    a->late |= late;
    return late;
}

/* Of meshes of one size alone pipelines are even, which is looked at without
 * runs: by what is known, and by what meshes took so far, the last one as far
 * as it came, is the work not enough for two sizes? */
static bool is_hopeless(const search_runs *a)
{
    const double each =
        fmax(a->mesh_steps, (double)a->steps / (a->n_meshes + 1));
    return a->several && each * a->needed > a->runs_steps;
}

static bool runs_over(search_runs *a)
{
    return search_runs_over(a, &a->runs_end, a->runs_steps);
}

static search_run_cost *run_at(const search_runs *a, int32_t place,
                               int32_t first, int32_t last)
{
    return &a->run[(place * SEARCH_MOST_LAYERS + first) * SEARCH_MOST_LAYERS +
                   last];
}

/* ---- layers and sub-meshes ---- */

static void cluster_layers(search_runs *a)
{
    const ir_graph *graph = a->graph->graph;
    a->layer_of = fs_new(a->scratch, int32_t, graph->nodes.n);
    search_problem free = *a->problem;
    free.n_layers = 0;
    free.stage_of = NULL;
    for (a->n_layers = SEARCH_MOST_LAYERS; a->n_layers > 1; a->n_layers--) {
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

/* Powers of two of a node's devices, or of nodes, of each kind. */
static void mark_sizes(const hw_cluster *cluster, bool *is)
{
    for (int32_t g = 0; g < cluster->n_groups; g++) {
        const int32_t within = cluster->groups[g].devices_per_node;
        for (int32_t d = 1; d < within && d <= cluster->n_devices; d *= 2)
            is[d] = true;
        for (int64_t n = 1; n * within <= cluster->n_devices; n *= 2)
            is[n * within] = true;
    }
    is[cluster->n_devices] = true;
}

/* [devices + 1] The fewest sub-meshes that so many devices are. */
static int32_t *count_meshes(const search_runs *a, int32_t devices,
                             fs_arena *arena)
{
    int32_t *fewest = fs_new(arena, int32_t, devices + 1);
    for (int32_t d = 1; d <= devices; d++) {
        fewest[d] = devices + 1;
        for (int32_t k = 0; k < a->n_sizes && a->size[k] <= d; k++)
            if (fewest[d - a->size[k]] + 1 < fewest[d])
                fewest[d] = fewest[d - a->size[k]] + 1;
    }
    return fewest;
}

/* Of all devices no more sub-meshes are made than there are layers: one that
 * is of no such sum is of no pipeline. */
static void drop_useless(search_runs *a)
{
    const int32_t devices = a->problem->cluster->n_devices;
    fs_arena *scratch = fs_arena_create();
    const int32_t *fewest = count_meshes(a, devices, scratch);
    int32_t kept = 0;
    for (int32_t k = 0; k < a->n_sizes; k++) {
        const int32_t size = a->size[k], rest = fewest[devices - size];
        if (rest < a->n_layers && !(a->several && rest == 0))
            a->size[kept++] = size;
    }
    a->n_sizes = kept;
    fs_arena_destroy(scratch);
}

static void list_sizes(search_runs *a)
{
    const int32_t most = a->problem->cluster->n_devices;
    const ir_mesh *fixed = &a->problem->fix_mesh;
    bool *is = fs_new(a->scratch, bool, most + 1);
    a->size = fs_new(a->scratch, int32_t, most + 1);
    if (fixed->n >= 0) {
        a->size[a->n_sizes++] = ir_mesh_size(fixed);
        return;
    }
    mark_sizes(a->problem->cluster, is);
    for (int32_t d = 1; d <= most; d++)
        if (is[d])
            a->size[a->n_sizes++] = d;
    drop_useless(a);
}

/* The cluster's own, and others. */
static int32_t count_orders(const search_runs *a)
{
    return 1 + (a->orders ? a->orders->list.n : 0);
}

/* By their numbers, so that of equal pipelines the same ones come first however
 * the cluster is written. */
static const search_order *order_at(const search_runs *a, int32_t o)
{
    const int32_t own = a->orders && a->orders->list.n ? a->orders->own - 1 : 0;
    return o == own ? NULL : a->orders->list.at[o < own ? o : o - 1];
}

static int32_t *place_at(const search_runs *a, int32_t o, int32_t k,
                         int32_t first)
{
    return &a->place_of[(o * a->n_sizes + k) * a->problem->cluster->n_devices +
                        first];
}

/* Of which kinds the devices of a sub-mesh are: from that group on, so many of
 * it, up to that one. */
typedef struct place_kinds {
    int32_t from, n, to;
} place_kinds;

static place_kinds kinds_of(const hw_cluster *cluster, int32_t first,
                            int32_t size)
{
    const hw_group *groups = cluster->groups;
    const int32_t left = hw_group_left(cluster, first);
    return (place_kinds){
        (int32_t)(hw_group_of(cluster, first) - groups),
        left < size ? left : size,
        (int32_t)(hw_group_of(cluster, first + size - 1) - groups)};
}

/* Sub-meshes of a size wherever they begin; those of the same kinds are one. */
static void list_row(search_runs *a, search_memo *known, int32_t o, int32_t k)
{
    const hw_cluster *cluster = a->problem->cluster;
    place_kinds before = {-1, 0, 0};
    for (int32_t at = 0; at + a->size[k] <= cluster->n_devices; at++) {
        const int32_t first =
            search_order_place(order_at(a, o), at, a->size[k]);
        if (first < 0) {
            *place_at(a, o, k, at) = NOWHERE;
            before.from = -1;
            continue;
        }
        const place_kinds kinds = kinds_of(cluster, first, a->size[k]);
        if (memcmp(&kinds, &before, sizeof kinds) == 0) {
            *place_at(a, o, k, at) = *place_at(a, o, k, at - 1);
            continue;
        }
        const int32_t key[] = {k, kinds.from, kinds.n, kinds.to};
        int32_t *place = search_memo_at(known, key, sizeof key);
        if (*place < 0)
            *place = a->n_places++;
        *place_at(a, o, k, at) = *place;
        before = kinds;
    }
}

static void list_places(search_runs *a)
{
    const int32_t n_orders = count_orders(a);
    search_memo known = {.arena = a->scratch};
    a->n_places = 0;
    a->place_of =
        fs_new(a->scratch, int32_t,
               n_orders * a->n_sizes * a->problem->cluster->n_devices);
    for (int32_t o = 0; o < n_orders; o++)
        for (int32_t k = 0; k < a->n_sizes; k++)
            list_row(a, &known, o, k);
}

/* ---- the level below: signatures of a run on a mesh ---- */

typedef struct whole {
    search_runs *a;
    int32_t place;
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

static uint64_t add_word(uint64_t hash, uint64_t word)
{
    return fs_mix(hash ^ word) + 1;
}

static uint64_t add_place(uint64_t hash, const void *place)
{
    return add_word(hash, (uint64_t)(uintptr_t)place);
}

static uint64_t add_loads(uint64_t hash, const search_load *loads, int32_t n)
{
    hash = add_word(hash, (uint64_t)n);
    for (int32_t k = 0; k < n; k++)
        hash =
            add_place(add_word(hash, (uint64_t)loads[k].limit), loads[k].bytes);
    return hash;
}

/* Tables are shared by what looks alike: equal places are equal tables. */
static uint64_t look_of(const search_net *net)
{
    uint64_t hash = add_word(0, (uint64_t)net->n_nodes);
    for (int32_t v = 0; v < net->n_nodes; v++) {
        const search_net_node *node = &net->nodes[v];
        hash =
            add_loads(add_place(hash, node->cost), node->loads, node->n_loads);
    }
    for (int32_t e = 0; e < net->n_edges; e++) {
        const search_net_edge *edge = &net->edges[e];
        hash = add_word(hash, (uint64_t)edge->u << 32 | (uint32_t)edge->v);
        hash =
            add_loads(add_place(hash, edge->cost), edge->loads, edge->n_loads);
    }
    return hash;
}

/* A run on its way: its network and what it takes. */
typedef struct run_job {
    const search_runs *a;
    int32_t first, last;
    fs_arena *arena;
    search_net part;
    uint64_t look;
    bool solves; /* none that looks alike is known */
    int64_t steps;
    double s;
} run_job;

static void solve_run(void *ctx, int32_t hand, int32_t k)
{
    run_job *job = (run_job *)ctx + k;
    const search_problem *problem = job->a->problem;
    const search_budget budget = {
        .deadline = fs_deadline_at(job->a->runs_end, &job->steps),
        .cutoff = INFINITY,
        .gap = problem->gap,
        .reduce = true,
        .without = problem->without,
        .rounds = RUN_ROUNDS};
    search_solution solution = {.cost = INFINITY};
    fs_err ignored = {0};
    (void)hand;
    if (job->solves && search_ilp(&job->part, &budget, job->arena, &ignored,
                                  &solution) == FS_OK)
        job->s = solution.cost / job->part.micro_batches;
}

static run_job job_of(whole *w, int32_t first, int32_t last)
{
    run_job job = {.a = w->a,
                   .first = first,
                   .last = last,
                   .arena = fs_arena_create(),
                   .s = INFINITY};
    job.part = part_of(w, first, last, job.arena);
    job.look = look_of(&job.part);
    job.solves = *search_memo_at(&w->known, &job.look, sizeof job.look) < 0;
    return job;
}

/* What a run takes counts as if it had been solved after those before it. */
static void conclude_run(whole *w, const run_job *job)
{
    search_runs *a = w->a;
    int32_t *known = search_memo_at(&w->known, &job->look, sizeof job->look);
    if (*known < 0) {
        *known = w->seconds.n;
        fs_push(w->arena, &w->seconds, job->s);
        a->n_networks++;
        a->steps += job->steps;
    }
    const double s = w->seconds.at[*known];
    search_run_cost *best = run_at(a, w->place, job->first, job->last);
    if (s < best->s)
        *best = (search_run_cost){s, w->layout.stages[0].mesh};
}

/* Runs in order, some at once; what was solved when there was no work left for
 * it is not used. */
static void time_runs(whole *w)
{
    enum { AT_ONCE = 2 };
    search_runs *a = w->a;
    int32_t first = 0, last = 0;
    while (first < a->n_layers && !runs_over(a) && !is_hopeless(a)) {
        run_job jobs[AT_ONCE];
        int32_t n = 0;
        for (; n < AT_ONCE && first < a->n_layers; n++) {
            jobs[n] = job_of(w, first, last);
            jobs[n].solves &= n == 0 || jobs[n].look != jobs[0].look;
            first += ++last == a->n_layers;
            last = last == a->n_layers ? first : last;
        }
        fs_crew_run(solve_run, jobs, fs_crew_hands(), n);
        for (int32_t k = 0; k < n; k++) {
            if (k == 0 || !runs_over(a))
                conclude_run(w, &jobs[k]);
            fs_arena_destroy(jobs[k].arena);
        }
    }
}

typedef struct sub_mesh {
    int32_t place, first, devices;
} sub_mesh;

/* One logical shape of a sub-mesh. */
static void try_mesh(search_runs *a, const sub_mesh *at, const ir_mesh *mesh)
{
    const ir_graph *graph = a->graph->graph;
    const ir_mesh *fixed = &a->problem->fix_mesh;
    fs_arena *arena = fs_arena_create();
    plan_stage stage = {*mesh, at->first};
    int32_t group = 0;
    int64_t limit = search_device_bytes(a->problem, &stage);
    whole w = {
        .a = a, .place = at->place, .arena = arena, .known = {.arena = arena}};
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
    a->n_meshes++;
    fs_arena_destroy(arena);
}

static int32_t most_axes(const search_runs *a)
{
    return a->problem->fix_mesh.n > a->problem->max_mesh_axes
               ? a->problem->fix_mesh.n
               : a->problem->max_mesh_axes;
}

/* Of so many devices, of `axes` axes at most. */
static int32_t count_shapes(int32_t devices, int32_t axes)
{
    int32_t n = 0;
    if (devices == 1 || axes == 0)
        return devices == 1;
    for (int32_t d = 2; d <= devices; d++)
        if (devices % d == 0)
            n += count_shapes(devices / d, axes - 1);
    return n;
}

static void try_meshes(search_runs *a, const sub_mesh *at, int32_t devices,
                       ir_mesh *mesh)
{
    if (devices == 1) {
        if (!is_hopeless(a))
            try_mesh(a, at, mesh);
        return;
    }
    const int32_t most = most_axes(a);
    if (mesh->n >= most)
        return;
    for (int32_t d = devices; d >= 2; d--) {
        if (devices % d || (mesh->n + 1 == most && d != devices))
            continue;
        mesh->dim[mesh->n++] = d;
        try_meshes(a, at, devices / d, mesh);
        mesh->dim[--mesh->n] = 0;
    }
}

/* ---- the level above: runs and sub-meshes ---- */

typedef struct cell {
    double s; /* of the layers from here on, INFINITY: not possible */
    int32_t next, k;
} cell;

typedef struct program {
    const search_runs *a;
    int32_t order;
    int32_t devices, most; /* stages */
    int32_t n_left, *left; /* ascending: how many devices may be left */
    int32_t *number;       /* [devices + 1] in it; -1: so many never are */
    cell *cell; /* [(stages * (layers + 1) + layer) * n_left + number] */
} program;

static cell *cell_at(const program *p, int32_t stages, int32_t layer,
                     int32_t devices)
{
    const size_t row =
        (size_t)stages * (size_t)(p->a->n_layers + 1) + (size_t)layer;
    return &p->cell[row * (size_t)p->n_left + (size_t)p->number[devices]];
}

/* Both what is left and what is gone are made of sub-meshes, `most` in all: few
 * of many devices are. */
static void list_left(program *p, fs_arena *arena)
{
    fs_arena *scratch = fs_arena_create();
    const int32_t *fewest = count_meshes(p->a, p->devices, scratch);
    p->left = fs_new(arena, int32_t, p->devices + 1);
    p->number = fs_new(arena, int32_t, p->devices + 1);
    for (int32_t d = 0; d <= p->devices; d++) {
        const bool may = fewest[d] + fewest[p->devices - d] <= p->most;
        p->number[d] = may ? p->n_left : -1;
        if (may)
            p->left[p->n_left++] = d;
    }
    fs_arena_destroy(scratch);
}

static void fill_cell(const program *p, int32_t stages, int32_t layer,
                      int32_t devices, double slowest)
{
    const search_runs *a = p->a;
    cell *best = cell_at(p, stages, layer, devices);
    *best = (cell){.s = INFINITY};
    for (int32_t k = 0; k < a->n_sizes && a->size[k] <= devices; k++) {
        if (p->number[devices - a->size[k]] < 0)
            continue;
        const int32_t place = *place_at(a, p->order, k, p->devices - devices);
        if (place == NOWHERE)
            continue;
        for (int32_t last = layer; last < a->n_layers; last++) {
            const double s = run_at(a, place, layer, last)->s;
            const double rest =
                cell_at(p, stages - 1, last + 1, devices - a->size[k])->s;
            if (s <= slowest && s + rest < best->s)
                *best = (cell){s + rest, last + 1, k};
        }
    }
}

/* Of no stage: done where no layer and no device is left. */
static void fill_cells(const program *p, double slowest)
{
    const search_runs *a = p->a;
    for (int32_t s = 0; s <= p->most; s++)
        for (int32_t layer = 0; layer <= a->n_layers; layer++)
            for (int32_t i = 0; i < p->n_left; i++) {
                const int32_t d = p->left[i];
                if (s > 0 && layer < a->n_layers)
                    fill_cell(p, s, layer, d, slowest);
                else
                    cell_at(p, s, layer, d)->s =
                        s == 0 && layer == a->n_layers && d == 0 ? 0 : INFINITY;
            }
}

static search_pipeline read_back(const program *p, int32_t stages, double cost)
{
    const search_runs *a = p->a;
    search_pipeline out = {
        .n = stages, .order = order_at(a, p->order), .cost = cost};
    for (int32_t i = 0, layer = 0, d = p->devices; i < stages; i++) {
        const cell *at = cell_at(p, stages - i, layer, d);
        out.first[i] = layer;
        out.mesh[i] = run_at(a, *place_at(a, p->order, at->k, p->devices - d),
                             layer, at->next - 1)
                          ->mesh;
        d -= a->size[at->k];
        layer = at->next;
    }
    return out;
}

static void remove_at(search_runs *a, int32_t k)
{
    a->found.n--;
    memmove(&a->found.at[k], &a->found.at[k + 1],
            (size_t)(a->found.n - k) * sizeof *a->found.at);
}

/* Who cuts stages again wants each choice of sub-meshes once. */
static bool is_dearer(search_runs *a, const search_pipeline *now)
{
    for (int32_t i = 0; i < a->found.n; i++) {
        const search_pipeline *known = &a->found.at[i];
        if (known->n != now->n || known->order != now->order ||
            memcmp(known->mesh, now->mesh, sizeof now->mesh) != 0)
            continue;
        if (known->cost <= now->cost)
            return true;
        remove_at(a, i);
        return false;
    }
    return false;
}

static void keep_best(search_runs *a, const search_pipeline *now)
{
    if (a->several && is_dearer(a, now))
        return;
    for (int32_t i = 0; i < a->found.n; i++)
        if (a->found.at[i].cost <= now->cost &&
            a->found.at[i].order == now->order &&
            memcmp(a->found.at[i].first, now->first, sizeof now->first) == 0 &&
            memcmp(a->found.at[i].mesh, now->mesh, sizeof now->mesh) == 0)
            return;
    fs_push(a->scratch, &a->found, *now);
    for (int32_t i = a->found.n - 1;
         i > 0 && a->found.at[i - 1].cost > a->found.at[i].cost; i--) {
        const search_pipeline swap = a->found.at[i];
        a->found.at[i] = a->found.at[i - 1];
        a->found.at[i - 1] = swap;
    }
    if (a->found.n > a->keep)
        a->found.n = a->keep;
}

/* The next value of the slowest stage; INFINITY: there is none. */
static double next_slowest(const search_runs *a, double above)
{
    double next = INFINITY;
    for (int32_t i = 0;
         i < a->n_places * SEARCH_MOST_LAYERS * SEARCH_MOST_LAYERS; i++)
        if (a->run[i].s > above && a->run[i].s < next)
            next = a->run[i].s;
    return next;
}

static void partition(search_runs *a, int32_t order)
{
    const int32_t fixed = a->problem->fix_stages;
    const int32_t m = a->graph->micro_batches;
    program p = {.a = a,
                 .order = order,
                 .devices = a->problem->cluster->n_devices,
                 .most = fixed ? fixed : a->n_layers};
    if (p.most > a->n_layers)
        return;
    list_left(&p, a->scratch);
    if (p.number[p.devices] < 0)
        return;
    p.cell = fs_new(a->scratch, cell,
                    (size_t)(p.most + 1) * (size_t)(a->n_layers + 1) *
                        (size_t)p.n_left);
    double best = INFINITY;
    for (double slowest = next_slowest(a, 0); isfinite(slowest);
         slowest = next_slowest(a, slowest * (1 + NEAR))) {
        if (m * slowest >= best || search_runs_over(a, &a->end, INFINITY))
            return;
        fill_cells(&p, slowest);
        for (int32_t s = fixed ? fixed : 1; s <= p.most; s++) {
            const double sum = cell_at(&p, s, 0, p.devices)->s;
            if (isinf(sum))
                continue;
            const search_pipeline now =
                read_back(&p, s, sum + (m - 1) * slowest);
            best = fmin(best, now.cost);
            keep_best(a, &now);
        }
    }
}

int32_t search_pipeline_stage(const search_pipeline *pipe, int32_t layer)
{
    int32_t stage = 0;
    while (stage + 1 < pipe->n && pipe->first[stage + 1] <= layer)
        stage++;
    return stage;
}

static int32_t count_needed(const search_runs *a)
{
    const int32_t devices = a->problem->cluster->n_devices;
    int32_t needed = 0, sizes = 0;
    for (int32_t k = a->n_sizes - 1; k >= 0 && sizes < 2; k--) {
        if (a->several && a->size[k] == devices)
            continue;
        needed += count_shapes(a->size[k], most_axes(a));
        sizes++;
    }
    return needed;
}

/* Large sub-meshes first: when time runs out there is a plan of few stages. */
static void time_places(search_runs *a)
{
    const int32_t devices = a->problem->cluster->n_devices;
    ir_mesh mesh = {0};
    bool *done = fs_new(a->scratch, bool, a->n_places);
    a->n_meshes = 0;
    a->needed = count_needed(a);
    for (int32_t k = a->n_sizes - 1; k >= 0; k--) {
        if (a->several && a->size[k] == devices)
            continue;
        for (int32_t i = 0; i < count_orders(a) * devices; i++) {
            const int32_t o = i / devices, before = i % devices;
            if (before + a->size[k] > devices)
                continue;
            const sub_mesh at = {
                *place_at(a, o, k, before),
                search_order_place(order_at(a, o), before, a->size[k]),
                a->size[k]};
            if (at.place == NOWHERE || done[at.place])
                continue;
            try_meshes(a, &at, at.devices, &mesh);
            done[at.place] = true;
        }
    }
}

void search_runs_find(search_runs *a)
{
    const cost_model *cost = a->problem->cost;
    plan_boxer *boxer = plan_boxer_create(cost_boxing(cost), a->scratch);
    a->rates = (search_rates){{cost, cost}, {boxer, boxer}};
    a->found.n = a->found.room = a->n_sizes = 0;
    a->found.at = NULL;
    cluster_layers(a);
    list_sizes(a);
    list_places(a);
    const int32_t n = a->n_places * SEARCH_MOST_LAYERS * SEARCH_MOST_LAYERS;
    a->run = fs_new(a->scratch, search_run_cost, n);
    for (int32_t i = 0; i < n; i++)
        a->run[i].s = INFINITY;
    time_places(a);
    a->hopeless = is_hopeless(a);
    for (int32_t o = 0; o < count_orders(a) && !a->hopeless; o++)
        partition(a, o);
}
