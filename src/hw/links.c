#include "config.h"
#include "hw/links.h"

#include <math.h>
#include <string.h>

/* From each device of a wired node to each other, the wire next on the way; -1:
 * there is no way. */
typedef struct ways {
    int32_t n;     /* devices */
    int32_t *wire; /* [n * n] */
} ways;

struct hw_links {
    const hw_cluster *cluster;
    int32_t n, room;
    double *bps;
    int32_t *group_of;    /* [nodes] */
    int32_t *first_inner; /* [nodes] links inside it */
    int32_t *first_outer; /* [nodes] out and in of its port, or of each NIC */
    int32_t first_leaf;   /* up and down of each leaf */
    int32_t nics, rails;  /* rails: NICs with leaves of their own, or 1 */
    ways *ways;           /* [groups] */
};

/* ---- ways by wires ---- */

/* Fewest wires; of those the widest at its narrowest; of those by the lowest
 * wire. Towards one device, by rounds from it. */
static void find_ways(const hw_wiring *wiring, int32_t to, int32_t *wire)
{
    const int32_t n = wiring->devices;
    double width[HW_MOST_WIRED];
    int32_t hops[HW_MOST_WIRED];
    for (int32_t i = 0; i < n; i++) {
        hops[i] = i == to ? 0 : n;
        width[i] = i == to ? INFINITY : 0;
        wire[i] = -1;
    }
    for (int32_t round = 1; round < n; round++)
        for (int32_t k = 0; k < 2 * wiring->n_wires; k++) {
            const hw_wire *w = &wiring->wires[k / 2];
            const int32_t from = k % 2 ? w->b : w->a;
            const int32_t by = k % 2 ? w->a : w->b;
            const double its = fmin(width[by], w->bandwidth_bps);
            if (hops[by] != round - 1 || hops[from] < round ||
                (hops[from] == round && its <= width[from]))
                continue;
            hops[from] = round;
            width[from] = its;
            wire[from] = k / 2;
        }
}

static ways ways_of(const hw_wiring *wiring, fs_arena *arena)
{
    const int32_t n = wiring->devices;
    int32_t towards[HW_MOST_WIRED];
    ways w = {n, fs_new(arena, int32_t, (int64_t)n * n)};
    for (int32_t to = 0; to < n; to++) {
        find_ways(wiring, to, towards);
        for (int32_t from = 0; from < n; from++)
            w.wire[from * n + to] = towards[from];
    }
    return w;
}

bool hw_wiring_parted(const hw_wiring *wiring, int32_t *a, int32_t *b)
{
    int32_t towards[HW_MOST_WIRED];
    if (wiring->kind != HW_WIRED_LINKS)
        return false;
    find_ways(wiring, 0, towards);
    for (int32_t i = 1; i < wiring->devices; i++)
        if (towards[i] < 0) {
            *a = 0;
            *b = i;
            return true;
        }
    return false;
}

/* ---- all links ---- */

static void add(hw_links *l, double bps)
{
    FS_ASSERT(l->n < l->room);
    l->bps[l->n++] = bps;
}

static int32_t switches_of(const hw_group *group)
{
    const int32_t per = group->wiring.devices_per_switch;
    return group->wiring.kind == HW_WIRED_PCIE
               ? (group->devices_per_node + per - 1) / per
               : 0;
}

int32_t hw_inner_links(const hw_group *group)
{
    const hw_wiring *w = &group->wiring;
    if (w->kind == HW_WIRED_LINKS)
        return 2 * w->n_wires;
    if (w->kind == HW_WIRED_MESH)
        return w->devices * w->devices;
    return 2 * (group->devices_per_node + switches_of(group));
}

/* Ports out and in of each device and each switch's uplink; or wires, both
 * ways. */
double hw_inner_bps(const hw_group *group, int32_t link)
{
    const hw_wiring *w = &group->wiring;
    if (w->kind == HW_WIRED_LINKS)
        return w->wires[link / 2].bandwidth_bps;
    if (w->kind == HW_WIRED_MESH || link >= 2 * group->devices_per_node)
        return w->bandwidth_bps;
    return group->inner.bandwidth_bps;
}

static void add_inner(hw_links *l, const hw_group *group)
{
    const int32_t n = hw_inner_links(group);
    for (int32_t i = 0; i < n; i++)
        add(l, hw_inner_bps(group, i));
}

static int32_t n_leaves(const hw_links *l)
{
    const int32_t per = l->cluster->fabric.nodes_per_leaf;
    return per > 0 ? l->rails * ((l->cluster->n_nodes + per - 1) / per) : 0;
}

static void add_outer(hw_links *l)
{
    const hw_cluster *c = l->cluster;
    const int32_t ports = c->fabric.rails ? l->nics : 1;
    for (int32_t i = 0; i < c->n_nodes; i++) {
        l->first_outer[i] = l->n;
        for (int32_t k = 0; k < 2 * ports; k++)
            add(l, c->outer.bandwidth_bps / ports);
    }
    l->first_leaf = l->n;
    for (int32_t i = 0; i < 2 * n_leaves(l); i++)
        add(l, c->outer.bandwidth_bps / l->rails * c->fabric.nodes_per_leaf /
                   c->fabric.oversubscription);
}

hw_links *hw_links_create(const hw_cluster *cluster, fs_arena *arena)
{
    hw_links *l = fs_new(arena, hw_links, 1);
    l->cluster = cluster;
    l->nics = cluster->nics_per_node > 0 ? cluster->nics_per_node : 1;
    l->rails = cluster->fabric.rails ? l->nics : 1;
    l->group_of = fs_new(arena, int32_t, cluster->n_nodes);
    l->first_inner = fs_new(arena, int32_t, cluster->n_nodes);
    l->first_outer = fs_new(arena, int32_t, cluster->n_nodes);
    l->ways = fs_new(arena, ways, cluster->n_groups);
    l->room = 2 * (cluster->n_nodes * l->rails + n_leaves(l));
    for (int32_t g = 0; g < cluster->n_groups; g++)
        l->room +=
            cluster->groups[g].nodes * hw_inner_links(&cluster->groups[g]);
    l->bps = fs_new(arena, double, l->room);
    for (int32_t g = 0, node = 0; g < cluster->n_groups; g++) {
        const hw_group *group = &cluster->groups[g];
        if (group->wiring.kind == HW_WIRED_LINKS)
            l->ways[g] = ways_of(&group->wiring, arena);
        for (int32_t i = 0; i < group->nodes; i++, node++) {
            l->group_of[node] = g;
            l->first_inner[node] = l->n;
            add_inner(l, group);
        }
    }
    add_outer(l);
    return l;
}

bool hw_links_told(const hw_cluster *cluster)
{
    bool told = cluster->fabric.rails || cluster->fabric.nodes_per_leaf > 0;
    for (int32_t g = 0; g < cluster->n_groups; g++)
        told |= cluster->groups[g].wiring.kind != HW_WIRED_SWITCH;
    return told;
}

const hw_cluster *hw_links_cluster(const hw_links *links)
{
    return links->cluster;
}

double hw_links_nic_bps(const hw_links *links)
{
    return links->cluster->outer.bandwidth_bps / links->nics;
}

int32_t hw_links_leaves(const hw_links *links)
{
    return n_leaves(links);
}

int32_t hw_links_leaf(const hw_links *links, int32_t leaf)
{
    return links->first_leaf + 2 * leaf;
}

int32_t hw_links_first_inner(const hw_links *links, int32_t node)
{
    return links->first_inner[node];
}

int32_t hw_links_count(const hw_links *links)
{
    return links->n;
}

const double *hw_links_bps(const hw_links *links)
{
    return links->bps;
}

/* ---- routes ---- */

static int32_t by_wires(const hw_links *l, int32_t node, int32_t from,
                        int32_t to, int32_t *out)
{
    const int32_t g = l->group_of[node];
    const hw_wire *wires = l->cluster->groups[g].wiring.wires;
    const ways *w = &l->ways[g];
    int32_t n = 0;
    while (from != to) {
        const int32_t k = w->wire[from * w->n + to];
        FS_ASSERT(k >= 0 && n < HW_MOST_WIRED);
        const bool back = wires[k].b == from;
        out[n++] = l->first_inner[node] + 2 * k + back;
        from = back ? wires[k].a : wires[k].b;
    }
    return n;
}

int32_t hw_inner_route(const hw_group *group, int32_t from, int32_t to,
                       int32_t *out)
{
    const hw_wiring *w = &group->wiring;
    const int32_t uplinks = 2 * group->devices_per_node;
    int32_t n = 0;
    FS_ASSERT(w->kind != HW_WIRED_LINKS);
    if (w->kind == HW_WIRED_MESH) {
        out[0] = from * w->devices + to;
        return 1;
    }
    out[n++] = 2 * from;
    if (w->kind == HW_WIRED_PCIE &&
        from / w->devices_per_switch != to / w->devices_per_switch) {
        out[n++] = uplinks + 2 * (from / w->devices_per_switch);
        out[n++] = uplinks + 2 * (to / w->devices_per_switch) + 1;
    }
    out[n++] = 2 * to + 1;
    return n;
}

/* Devices are numbers within the node. */
static int32_t route_inside(const hw_links *l, int32_t node, int32_t from,
                            int32_t to, int32_t *out)
{
    const hw_group *group = &l->cluster->groups[l->group_of[node]];
    if (group->wiring.kind == HW_WIRED_LINKS)
        return by_wires(l, node, from, to, out);
    const int32_t n = hw_inner_route(group, from, to, out);
    for (int32_t i = 0; i < n; i++)
        out[i] += l->first_inner[node];
    return n;
}

hw_way_out hw_links_way_out(const hw_links *l, int32_t device)
{
    const hw_cluster *c = l->cluster;
    const int32_t node = hw_node_of(c, device);
    int32_t first, end;
    hw_node_range(c, device, &first, &end);
    const int32_t local = device - first, rail = local % l->rails;
    hw_way_out out = {-1, l->first_outer[node] + 2 * rail, -1};
    if (c->groups[l->group_of[node]].wiring.kind == HW_WIRED_PCIE)
        out.device = l->first_inner[node] + 2 * local;
    if (c->fabric.nodes_per_leaf > 0)
        out.leaf = node / c->fabric.nodes_per_leaf * l->rails + rail;
    return out;
}

/* By the NICs of two devices and the leaves that these hang on. */
static int32_t route_outside(const hw_links *l, int32_t from, int32_t to,
                             int32_t *out)
{
    const hw_way_out a = hw_links_way_out(l, from);
    const hw_way_out b = hw_links_way_out(l, to);
    int32_t n = 0;
    if (a.device >= 0)
        out[n++] = a.device;
    out[n++] = a.port;
    if (a.leaf != b.leaf) {
        out[n++] = l->first_leaf + 2 * a.leaf;
        out[n++] = l->first_leaf + 2 * b.leaf + 1;
    }
    out[n++] = b.port + 1;
    if (b.device >= 0)
        out[n++] = b.device + 1;
    return n;
}

int32_t hw_links_route(const hw_links *links, int32_t from, int32_t to,
                       int32_t *out, double *most_bps)
{
    const hw_cluster *c = links->cluster;
    const int32_t devices[2] = {from, to};
    int32_t node[2], local[2], end;
    *most_bps = INFINITY;
    if (from == to)
        return 0;
    for (int32_t k = 0; k < 2; k++) {
        node[k] = hw_node_of(c, devices[k]);
        hw_node_range(c, devices[k], &local[k], &end);
        local[k] = devices[k] - local[k];
    }
    if (node[0] == node[1])
        return route_inside(links, node[0], local[0], local[1], out);
    *most_bps = hw_links_nic_bps(links);
    return route_outside(links, from, to, out);
}

const char *hw_links_name(const hw_links *links, int32_t link, fs_arena *arena)
{
    const hw_cluster *c = links->cluster;
    int32_t node = 0;
    if (link >= links->first_leaf)
        return fs_printf(arena, "leaf %d %s", (link - links->first_leaf) / 2,
                         link % 2 ? "down" : "up");
    if (link >= links->first_outer[0]) {
        const int32_t per = 2 * links->rails;
        const int32_t at = link - links->first_outer[0];
        return fs_printf(arena, "node %d, NIC %d %s", at / per, at % per / 2,
                         at % 2 ? "in" : "out");
    }
    while (node + 1 < c->n_nodes && links->first_inner[node + 1] <= link)
        node++;
    return fs_printf(arena, "node %d, link %d", node,
                     link - links->first_inner[node]);
}
