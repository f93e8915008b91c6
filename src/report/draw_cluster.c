/* The machine: nodes as boxes of devices, links as edges. Equal nodes and
 * devices beyond a few are folded. */
#include "config.h"
#include "report/draw.h"

#include "base/clock.h"

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
    draw_set(hub, "label",
             g->devices_per_node > 1 ? link_text(d, &g->inner) : "one device");
    draw_devices(d, box, hub, g, first);
    if (g->devices_per_node > MAX_DEVICES) {
        Agnode_t *rest = draw_node(d, box, fs_printf(d->arena, "r%d", node));
        draw_setf(d, rest, "label", "and %d more",
                  g->devices_per_node - MAX_DEVICES);
        draw_set(rest, "shape", "plaintext");
        draw_set(draw_edge(d, hub, rest), "style", "dotted");
    }
    return hub;
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
                draw_set(draw_edge(&d, net, hub), "dir", "both");
            if (last)
                break;
        }
        node += g->nodes;
        device += g->nodes * g->devices_per_node;
    }
    return draw_finish(&d, "dot", file, err, out);
}
