/* The machine: nodes as boxes of devices, links as edges. Equal nodes and
 * devices beyond a few are folded. */
#include "config.h"
#include "report/draw.h"

#include "base/clock.h"

#include <math.h>

enum { MAX_NODES = 4, MAX_DEVICES = 16 };

/* The fastest of what trains. */
static const char *peak_name(const hw_device *device)
{
    if (device->bf16_flops > 0)
        return "bf16";
    return device->fp16_flops > 0 ? "fp16" : "fp32";
}

static double peak_flops(const hw_device *device)
{
    if (device->bf16_flops > 0)
        return device->bf16_flops;
    return device->fp16_flops > 0 ? device->fp16_flops : device->fp32_flops;
}

static void draw_device(draw *d, Agraph_t *in, const hw_device *device,
                        int32_t number)
{
    char memory[32], flops[32];
    Agnode_t *n = draw_node(d, in, fs_printf(d->arena, "d%d", number));
    draw_setf(d, n, "label", "%d: %s\n%s, %s %sFLOP/s", number, device->name,
              fs_human_bytes(memory, device->memory_bytes), peak_name(device),
              fs_human_count(flops, peak_flops(device)));
    draw_set(n, "shape", "box");
    draw_set(n, "style", "filled");
    draw_set(n, "fillcolor", "#c7e5b4");
}

static const char *link_text(draw *d, const hw_link *link)
{
    char rate[32], latency[32];
    return fs_printf(d->arena, "%s: %s/s, %s", link->name ? link->name : "link",
                     fs_human_bytes(rate, link->bandwidth_bps),
                     fs_human_seconds(latency, link->latency_s));
}

/* In two columns where there are many: a row of all would be a thin line. */
static void draw_devices(draw *d, Agraph_t *box, Agnode_t *hub,
                         const hw_group *g, int32_t first)
{
    enum { IN_A_ROW = 4, COLUMNS = 2 };
    Agnode_t *device[MAX_DEVICES];
    for (int32_t i = 0; i < g->devices_per_node && i < MAX_DEVICES; i++) {
        draw_device(d, box, &g->device, first + i);
        device[i] = agnode(box, fs_printf(d->arena, "d%d", first + i), 0);
        Agedge_t *link = draw_edge(d, hub, device[i]);
        draw_set(link, "dir", "both");
        if (g->devices_per_node <= IN_A_ROW || i < COLUMNS)
            continue;
        draw_set(link, "constraint", "false");
        draw_set(agedge(d->graph, device[i - COLUMNS], device[i], NULL, 1),
                 "style", "invis");
    }
}

static const char *rate_text(draw *d, double bps)
{
    char rate[32];
    return fs_printf(d->arena, "%s/s", fs_human_bytes(rate, bps));
}

/* Widths of wires as those of lines, the widest of all 4 points. */
static void draw_wire(draw *d, Agraph_t *box, int32_t a, int32_t b, double bps,
                      double widest)
{
    Agedge_t *wire = draw_edge(d, agnode(box, fs_printf(d->arena, "d%d", a), 0),
                               agnode(box, fs_printf(d->arena, "d%d", b), 0));
    draw_set(wire, "dir", "none");
    draw_setf(d, wire, "penwidth", "%.2f", fmax(0.5, 4 * bps / widest));
    draw_set(wire, "label", rate_text(d, bps));
    draw_set(wire, "fontsize", "8");
}

static bool has_wires(const hw_group *g)
{
    return g->devices_per_node > 1 && (g->wiring.kind == HW_WIRED_MESH ||
                                       g->wiring.kind == HW_WIRED_LINKS);
}

/* Wires between devices, of those that are drawn. */
static void draw_wires(draw *d, Agraph_t *box, Agnode_t *hub, const hw_group *g,
                       int32_t first)
{
    const hw_wiring *w = &g->wiring;
    const int32_t n =
        g->devices_per_node < MAX_DEVICES ? g->devices_per_node : MAX_DEVICES;
    double widest = 0;
    for (int32_t i = 0; i < w->n_wires; i++)
        widest = fmax(widest, w->wires[i].bandwidth_bps);
    for (int32_t i = 0; i < n; i++) {
        draw_device(d, box, &g->device, first + i);
        if (!agnode(d->graph, "network", 0))
            continue;
        Agedge_t *out = draw_edge(
            d, hub, agnode(box, fs_printf(d->arena, "d%d", first + i), 0));
        draw_set(out, "style", "dotted");
        draw_set(out, "dir", "none");
    }
    for (int32_t i = 0; i < w->n_wires; i++)
        if (w->wires[i].a < n && w->wires[i].b < n)
            draw_wire(d, box, first + w->wires[i].a, first + w->wires[i].b,
                      w->wires[i].bandwidth_bps, widest);
    for (int32_t i = 0; i < n && w->kind == HW_WIRED_MESH; i++)
        for (int32_t k = i + 1; k < n; k++)
            draw_wire(d, box, first + i, first + k, w->bandwidth_bps,
                      2 * w->bandwidth_bps);
}

/* Below a switch each, whose uplink is the line to the hub. */
static void draw_switches(draw *d, Agraph_t *box, Agnode_t *hub,
                          const hw_group *g, int32_t first)
{
    const int32_t per = g->wiring.devices_per_switch;
    Agnode_t *below = NULL;
    for (int32_t i = 0; i < g->devices_per_node && i < MAX_DEVICES; i++) {
        if (i % per == 0) {
            below = draw_node(d, box, fs_printf(d->arena, "s%d", first + i));
            draw_setf(d, below, "label", "PCIe switch\n%s each",
                      rate_text(d, g->inner.bandwidth_bps));
            draw_set(below, "shape", "box");
            draw_set(below, "style", "filled,rounded");
            draw_set(below, "fillcolor", "#f2cf8b");
            Agedge_t *up = draw_edge(d, hub, below);
            draw_set(up, "dir", "both");
            draw_set(up, "label", rate_text(d, g->wiring.bandwidth_bps));
        }
        draw_device(d, box, &g->device, first + i);
        draw_set(
            draw_edge(d, below,
                      agnode(box, fs_printf(d->arena, "d%d", first + i), 0)),
            "dir", "both");
    }
}

/* The node in the middle: a switch, the root of a PCIe tree; where there are
 * wires alone, only what leaves the node. */
static const char *hub_text(draw *d, const hw_group *g)
{
    if (g->devices_per_node == 1)
        return "one device";
    if (g->wiring.kind == HW_WIRED_PCIE)
        return "PCIe root";
    if (g->wiring.kind != HW_WIRED_SWITCH)
        return "way out of the node";
    return link_text(d, &g->inner);
}

static void draw_inside(draw *d, Agraph_t *box, Agnode_t *hub,
                        const hw_group *g, int32_t first)
{
    if (g->wiring.kind == HW_WIRED_SWITCH || g->devices_per_node == 1)
        draw_devices(d, box, hub, g, first);
    else if (g->wiring.kind == HW_WIRED_PCIE)
        draw_switches(d, box, hub, g, first);
    else
        draw_wires(d, box, hub, g, first);
}

static Agnode_t *draw_machine(draw *d, const hw_group *g, int32_t node,
                              int32_t first, int32_t folded)
{
    const char *more =
        folded > 1 ? fs_printf(d->arena, " and %d more alike", folded - 1) : "";
    const char *cores =
        g->cores_per_node > 0
            ? fs_printf(d->arena, ", %d cores shared", g->cores_per_node)
            : "";
    Agraph_t *box =
        draw_cluster(d, d->graph, fs_printf(d->arena, "node%d", node),
                     fs_printf(d->arena, "node %d%s%s", node, more, cores));
    draw_set(box, "style", "filled,rounded");
    draw_set(box, "color", "#e6eef7");
    Agnode_t *hub = draw_node(d, box, fs_printf(d->arena, "hub%d", node));
    draw_set(hub, "shape", "box");
    draw_set(hub, "style", "filled,rounded");
    draw_set(hub, "fillcolor", "#f2cf8b");
    draw_set(hub, "label", hub_text(d, g));
    if (has_wires(g) && !agnode(d->graph, "network", 0))
        draw_set(hub, "style", "invis"); /* nothing leaves the node */
    draw_inside(d, box, hub, g, first);
    if (g->devices_per_node > MAX_DEVICES) {
        Agnode_t *rest = draw_node(d, box, fs_printf(d->arena, "r%d", node));
        draw_setf(d, rest, "label", "and %d more",
                  g->devices_per_node - MAX_DEVICES);
        draw_set(rest, "shape", "plaintext");
        draw_set(draw_edge(d, hub, rest), "style", "dotted");
    }
    return hub;
}

/* Leaves of nodes that are not drawn, behind this one. */
static const char *more_leaves(draw *d, const hw_cluster *cluster, int32_t leaf)
{
    const int32_t per = cluster->fabric.nodes_per_leaf;
    const int32_t all = (cluster->n_nodes + per - 1) / per;
    const bool last = cluster->n_groups == 1 && leaf == (MAX_NODES - 1) / per;
    return last && leaf + 1 < all
               ? fs_printf(d->arena, " and %d more alike", all - leaf - 1)
               : "";
}

/* The leaf that a node's NICs hang on, below the network; without leaves the
 * network itself. */
static Agnode_t *leaf_of(draw *d, const hw_cluster *cluster, Agnode_t *net,
                         int32_t node)
{
    const hw_fabric *f = &cluster->fabric;
    if (f->nodes_per_leaf <= 0)
        return net;
    const int32_t leaf = node / f->nodes_per_leaf;
    char *name = fs_printf(d->arena, "leaf%d", leaf);
    Agnode_t *at = agnode(d->graph, name, 0);
    if (at)
        return at;
    at = draw_node(d, d->graph, name);
    draw_set(at, "shape", "box");
    draw_set(at, "style", "filled,rounded");
    draw_set(at, "fillcolor", "#f2b179");
    draw_setf(d, at, "label", "leaf %d%s%s", leaf,
              f->rails ? " of each rail" : "", more_leaves(d, cluster, leaf));
    Agedge_t *up = draw_edge(d, net, at);
    draw_set(up, "dir", "both");
    draw_setf(d, up, "label", "%s of %d nodes, 1 : %g",
              rate_text(d, cluster->outer.bandwidth_bps * f->nodes_per_leaf /
                               f->oversubscription),
              f->nodes_per_leaf, f->oversubscription);
    return at;
}

fs_status report_draw_cluster(const hw_cluster *cluster, const char *file,
                              fs_err *err, report_drawn *out)
{
    const char *format;
    FS_TRY(draw_format(file, err, &format));
    draw d;
    draw_begin(&d, "cluster");
    Agnode_t *net = NULL;
    if (cluster->n_nodes > 1) {
        net = draw_node(&d, d.graph, "network");
        draw_set(net, "shape", "box");
        draw_set(net, "style", "filled,rounded");
        draw_set(net, "fillcolor", "#f2b179");
        draw_set(net, "label", link_text(&d, &cluster->outer));
    }
    int32_t node = 0, device = 0;
    for (int32_t i = 0; i < cluster->n_groups; i++) {
        const hw_group *g = &cluster->groups[i];
        for (int32_t k = 0; k < g->nodes; k++) {
            int32_t left = g->nodes - k;
            bool last = k + 1 == MAX_NODES && left > 1;
            Agnode_t *hub =
                draw_machine(&d, g, node + k, device + k * g->devices_per_node,
                             last ? left : 1);
            if (net)
                draw_set(
                    draw_edge(&d, leaf_of(&d, cluster, net, node + k), hub),
                    "dir", "both");
            if (last)
                break;
        }
        node += g->nodes;
        device += g->nodes * g->devices_per_node;
    }
    return draw_finish(&d, "dot", file, err, out);
}
