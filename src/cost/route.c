/* Where the communicators of some mesh axes run. */
#include "config.h"
#include "cost/parts.h"

#include <string.h>

/* Everything a route depends on, without padding. On nodes of one kind stages
 * that begin at the same place of a node have the same routes. */
typedef struct route_key {
    int32_t begins, n_axes;
    uint32_t axes;
    int32_t dim[IR_MAX_MESH];
} route_key;

cost_memo *cost_routes_create(fs_arena *arena)
{
    return cost_memo_create(sizeof(route_key), sizeof(cost_route), arena);
}

/* Communicators of a stage as they lie on the nodes. */
typedef struct walk {
    const hw_cluster *cluster;
    const plan_stage *stage;
    int32_t n, size; /* members; of the mesh */
    uint32_t axes;
    int32_t *member; /* [n] offsets of positions from a communicator's first */
    int32_t first_node;
    int32_t *flows; /* [nodes of the stage] communicators that leave each */
} walk;

static int32_t node_at(const walk *w, int32_t position)
{
    return hw_node_of(w->cluster, w->stage->first_device + position) -
           w->first_node;
}

static int32_t count_nodes(const walk *w, int32_t base)
{
    int32_t nodes = 1, last = node_at(w, base);
    for (int32_t k = 1; k < w->n; k++) {
        int32_t node = node_at(w, base + w->member[k]);
        nodes += node != last;
        last = node;
    }
    return nodes;
}

/* One communicator: members rise, so nodes come in runs. */
static void visit(walk *w, int32_t base, cost_route *out)
{
    int32_t nodes = count_nodes(w, base), run = 0, last = -1;
    for (int32_t k = 0; k < w->n; k++) {
        int32_t node = node_at(w, base + w->member[k]);
        if (node != last) {
            out->even &= run == 0 || run * nodes == w->n;
            w->flows[node] += nodes > 1;
            run = 0;
        }
        last = node;
        run++;
        if (run > out->per_node)
            out->per_node = run;
    }
    out->even &= run * nodes == w->n;
    if (nodes > out->nodes)
        out->nodes = nodes;
}

static bool is_first(const walk *w, int32_t position)
{
    int32_t coords[IR_MAX_MESH];
    ir_mesh_coords(&w->stage->mesh, position, coords);
    for (int32_t a = 0; a < w->stage->mesh.n; a++)
        if ((w->axes >> a & 1) && coords[a] > 0)
            return false;
    return true;
}

/* The positions that differ from the first in `axes` only, ascending. */
static void list_members(walk *w, fs_arena *scratch)
{
    const ir_mesh *mesh = &w->stage->mesh;
    w->member = fs_new(scratch, int32_t, w->size);
    for (int32_t p = 0; p < w->size; p++) {
        int32_t coords[IR_MAX_MESH];
        bool within = true;
        ir_mesh_coords(mesh, p, coords);
        for (int32_t a = 0; a < mesh->n; a++)
            within &= (w->axes >> a & 1) || coords[a] == 0;
        if (within)
            w->member[w->n++] = p;
    }
}

static int32_t visit_all(walk *w, cost_route *out)
{
    int32_t flows = 1;
    int32_t nodes = node_at(w, w->size - 1) + 1;
    fs_arena *scratch = fs_arena_create();
    list_members(w, scratch);
    out->ranks = w->n;
    w->flows = fs_new(scratch, int32_t, nodes);
    for (int32_t p = 0; p < w->size; p++)
        if (is_first(w, p))
            visit(w, p, out);
    for (int32_t node = 0; node < nodes; node++)
        if (w->flows[node] > flows)
            flows = w->flows[node];
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

/* The slowest inner link and memory among the groups of the stage. */
static void fill_inner(const cost_model *model, const plan_stage *stage,
                       cost_route *out)
{
    const hw_cluster *cluster = cost_cluster(model);
    cost_groups range = cost_groups_of(model, stage);
    out->inner = cluster->groups[range.first].inner;
    for (int32_t g = range.first; g <= range.last; g++) {
        const hw_group *group = &cluster->groups[g];
        double bps = group->device.memory_bps * group->device.memory_efficiency;
        slow_down(&out->inner, &group->inner);
        out->on_cores |= group->inner.on_cores;
        if (g == range.first || bps < out->memory_bps)
            out->memory_bps = bps;
    }
}

static cost_route make_route(const cost_model *model, const plan_stage *stage,
                             uint32_t axes)
{
    const hw_cluster *cluster = cost_cluster(model);
    cost_route out = {.even = true};
    walk w = {.cluster = cluster,
              .stage = stage,
              .axes = axes,
              .size = ir_mesh_size(&stage->mesh),
              .first_node = hw_node_of(cluster, stage->first_device)};
    int32_t flows = visit_all(&w, &out);
    out.outer = hw_outer_share(cluster, flows, out.per_node);
    out.rail = hw_outer_share(cluster, flows * out.per_node, 1);
    fill_inner(model, stage, &out);
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
        key.begins %= cluster->groups[0].devices_per_node;
    key.axes = axes;
    key.n_axes = stage->mesh.n;
    for (int32_t a = 0; a < stage->mesh.n; a++)
        key.dim[a] = stage->mesh.dim[a];
    cost_route *route = cost_memo_at(cost_model_routes(model), &key, &known);
    if (!known)
        *route = make_route(model, stage, axes);
    return *route;
}

hw_link cost_route_slowest(const cost_route *route)
{
    hw_link link = route->inner;
    if (route->nodes == 1)
        return link;
    if (route->per_node == 1)
        return route->outer;
    slow_down(&link, &route->outer);
    return link;
}
