/* Where the communicators of some mesh axes run. */
#include "config.h"
#include "cost/parts.h"

#include <math.h>
#include <string.h>

/* Everything a route depends on, without padding. On nodes of one kind stages
 * that begin at the same place of a node (of a leaf's nodes, where the cluster
 * has leaves) have the same routes. */
typedef struct route_key {
    int32_t begins, n_axes;
    uint32_t axes;
    int32_t dim[IR_MAX_MESH];
} route_key;

cost_memo *cost_routes_create(fs_arena *arena)
{
    return cost_memo_create(sizeof(route_key), sizeof(cost_route), COST_FEW,
                            arena);
}

/* Communicators of a stage as they lie on the nodes. */
typedef struct walk {
    int32_t n_members, n_bases;
    int32_t *member; /* [n_members] positions from a communicator's first */
    int32_t *base;   /* [n_bases] position of each communicator's first */
    int32_t *node;   /* [position] counted from the stage's first */
    int32_t *flows;  /* [node] communicators that leave it */
} walk;

/* Positions of 0 along all but these axes, ascending. */
static int32_t *list_positions(const ir_mesh *mesh, uint32_t axes,
                               fs_arena *arena, int32_t *n)
{
    int32_t *at = fs_new(arena, int32_t, ir_mesh_size(mesh));
    *n = 1;
    for (int32_t a = mesh->n - 1, stride = 1; a >= 0; a--) {
        const int32_t dim = axes >> a & 1 ? mesh->dim[a] : 1, inner = *n;
        for (; *n < dim * inner; (*n)++)
            at[*n] = at[*n - inner] + stride;
        stride *= mesh->dim[a];
    }
    return at;
}

static int32_t count_nodes(const walk *w, const int32_t *at)
{
    int32_t nodes = 1;
    for (int32_t k = 1; k < w->n_members; k++)
        nodes += at[w->member[k]] != at[w->member[k - 1]];
    return nodes;
}

/* One communicator, whose first is at[0]: members rise, so nodes come in runs.
 */
static void visit(walk *w, const int32_t *at, cost_route *out)
{
    const int32_t nodes = count_nodes(w, at), n = w->n_members;
    for (int32_t k = 0, begin = 0; k < n; k++) {
        if (k + 1 < n && at[w->member[k + 1]] == at[w->member[k]])
            continue;
        const int32_t run = k + 1 - begin;
        out->even &= run * nodes == n;
        w->flows[at[w->member[k]]] += nodes > 1;
        if (run > out->per_node)
            out->per_node = run;
        begin = k + 1;
    }
    if (nodes > out->nodes)
        out->nodes = nodes;
}

/* The communicators as devices. */
static hw_crowd crowd_of(const plan_stage *stage, uint32_t axes,
                         fs_arena *arena)
{
    hw_crowd out = {0};
    const int32_t *member =
        list_positions(&stage->mesh, axes, arena, &out.size);
    const int32_t *base = list_positions(&stage->mesh, ~axes, arena, &out.n);
    int32_t *device = fs_new(arena, int32_t, ir_mesh_size(&stage->mesh));
    for (int32_t k = 0; k < out.n; k++)
        for (int32_t i = 0; i < out.size; i++)
            device[k * out.size + i] =
                stage->first_device + base[k] + member[i];
    out.device = device;
    return out;
}

static int32_t visit_all(const hw_cluster *cluster, const plan_stage *stage,
                         uint32_t axes, cost_route *out)
{
    const int32_t size = ir_mesh_size(&stage->mesh);
    const int32_t first = hw_node_of(cluster, stage->first_device);
    int32_t flows = 1;
    fs_arena *scratch = fs_arena_create();
    walk w = {.node = fs_new(scratch, int32_t, size)};
    w.member = list_positions(&stage->mesh, axes, scratch, &w.n_members);
    w.base = list_positions(&stage->mesh, ~axes, scratch, &w.n_bases);
    for (int32_t p = 0; p < size; p++)
        w.node[p] = hw_node_of(cluster, stage->first_device + p) - first;
    w.flows = fs_new(scratch, int32_t, w.node[size - 1] + 1);
    out->ranks = w.n_members;
    for (int32_t k = 0; k < w.n_bases; k++)
        visit(&w, w.node + w.base[k], out);
    for (int32_t node = 0; node <= w.node[size - 1]; node++)
        if (w.flows[node] > flows)
            flows = w.flows[node];
    fs_arena_destroy(scratch);
    return flows;
}

static void slow_down(hw_link *link, const hw_link *other)
{
    if (other->latency_s > link->latency_s)
        link->latency_s = other->latency_s;
    if (other->bandwidth_bps < link->bandwidth_bps)
        link->bandwidth_bps = other->bandwidth_bps;
}

static void slow_reduction(hw_reduction *of, const hw_reduction *other)
{
    of->latency_s = fmax(of->latency_s, other->latency_s);
    of->bandwidth_bps = fmin(of->bandwidth_bps, other->bandwidth_bps);
}

/* The slowest inner link and memory among the groups of the stage. */
static void fill_inner(const cost_model *model, const plan_stage *stage,
                       cost_route *out)
{
    const hw_cluster *cluster = cost_cluster(model);
    cost_groups range = cost_groups_of(model, stage);
    out->inner = cluster->groups[range.first].inner;
    out->in_node = cluster->groups[range.first].in_switch;
    for (int32_t g = range.first; g <= range.last; g++) {
        const hw_group *group = &cluster->groups[g];
        double bps = group->device.memory_bps * group->device.memory_efficiency;
        slow_down(&out->inner, &group->inner);
        slow_reduction(&out->in_node, &group->in_switch);
        out->on_cores |= group->inner.on_cores;
        if (g == range.first || bps < out->memory_bps)
            out->memory_bps = bps;
    }
}

static void slow_to(hw_link *link, double bps, int32_t hops)
{
    if (bps < link->bandwidth_bps)
        link->bandwidth_bps = bps;
    link->latency_s *= hops;
}

/* To what the graph of links gives, in the terms of the formulas: of g members
 * on a node each sends (g - 1)/n of its bytes by pairs inside, all of them
 * g (n - g)/n out of it, and a neighbour borrows from both sides at once. */
static void slow_by_graph(const hw_links *links, const plan_stage *stage,
                          uint32_t axes, cost_route *out)
{
    fs_arena *scratch = fs_arena_create();
    const hw_crowd crowd = crowd_of(stage, axes, scratch);
    const hw_rates r = hw_crowd_rates(links, &crowd);
    const double g = out->per_node, n = out->ranks;
    slow_to(&out->inner, r.ring.bps, r.ring.hops);
    slow_to(&out->pairs, (g - 1) * r.pairs.bps, r.pairs.hops);
    slow_to(&out->beside, (g > 2 ? 2 : 1) * r.beside.bps, r.beside.hops);
    slow_to(&out->outer, g * r.next_bps, 1);
    slow_to(&out->far, g * (n - g) * r.far_bps, 1);
    slow_to(&out->tree, g * r.tree_bps, 1);
    slow_to(&out->rail, r.next_bps, 1);
    out->told = true;
    fs_arena_destroy(scratch);
}

static cost_route make_route(const cost_model *model, const plan_stage *stage,
                             uint32_t axes)
{
    const hw_cluster *cluster = cost_cluster(model);
    cost_route out = {.even = true};
    const int32_t flows = visit_all(cluster, stage, axes, &out);
    out.outer = hw_outer_share(cluster, flows, out.per_node);
    out.rail = hw_outer_share(cluster, flows * out.per_node, 1);
    fill_inner(model, stage, &out);
    out.pairs = out.beside = out.inner;
    out.far = out.tree = out.outer;
    out.in_fabric = cluster->fabric.in_switch;
    if (cost_model_links(model))
        slow_by_graph(cost_model_links(model), stage, axes, &out);
    out.in_fabric.bandwidth_bps *=
        out.rail.bandwidth_bps / cluster->outer.bandwidth_bps;
    return out;
}

double cost_memory_bps(const cost_model *model, const plan_stage *stage)
{
    cost_route out = {0};
    fill_inner(model, stage, &out);
    return out.memory_bps;
}

cost_route cost_route_of(const cost_model *model, const plan_stage *stage,
                         uint32_t axes)
{
    const hw_cluster *cluster = cost_cluster(model);
    route_key key;
    bool known;
    memset(&key, 0, sizeof key);
    key.begins = stage->first_device;
    if (cluster->n_groups == 1)
        key.begins %= hw_cluster_period(cluster);
    key.axes = axes;
    key.n_axes = stage->mesh.n;
    for (int32_t a = 0; a < stage->mesh.n; a++)
        key.dim[a] = stage->mesh.dim[a];
    cost_route *route = cost_memo_at(cost_model_routes(model), &key, &known);
    if (!known)
        *route = make_route(model, stage, axes);
    return *route;
}

hw_link cost_route_slowest(const cost_route *route, const hw_link *inner,
                           const hw_link *outer)
{
    hw_link link = *inner;
    if (route->nodes == 1)
        return link;
    if (route->per_node == 1)
        return *outer;
    slow_down(&link, outer);
    return link;
}
