#include "config.h"
#include "cli/cli.h"

#include "base/clock.h"
#include "cli/cluster.h"
#include "cli/machine.h"
#include "exec/exec.h"
#include "hw/inside.h"

#include <math.h>
#include <string.h>

/* Whose measured figures are, in words; NULL: they do not say. */
static fs_status name_machine(cli *c, const hw_cluster *cluster,
                              const char **out)
{
    bool own;
    *out = NULL;
    if (!cluster->machine)
        return FS_OK;
    FS_TRY(cli_machine_is_here(c, cluster, &own));
    *out =
        fs_printf(c->arena, "%s machine, %s", own ? "this" : "another",
                  cli_machine_name(c->arena, cluster->machine, cluster->host));
    return FS_OK;
}

/* `of`: name_machine's. A file of figures says where it was made, not where it
 * is read. */
static const char *source_of(cli *c, const hw_device *d, const char *of)
{
    if (of)
        return fs_printf(c->arena, "measured on %s", of);
    return d->source ? d->source : "";
}

static json_t *device_json(cli *c, const hw_group *g, const char *of)
{
    const hw_device *d = &g->device;
    return json_pack("{s:s, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:i, s:s}",
                     "name", d->name, "memory_bytes",
                     (json_int_t)d->memory_bytes, "memory_bps", d->memory_bps,
                     "fp32_flops", d->fp32_flops, "bf16_flops", d->bf16_flops,
                     "fp16_flops", d->fp16_flops, "matmul_efficiency",
                     d->matmul_efficiency, "launch_s", d->launch_s, "points",
                     d->n_points, "source", source_of(c, d, of));
}

static json_t *level_json(const char *level, const hw_link *link, int32_t fan)
{
    return json_pack("{s:s, s:s, s:i, s:f, s:f}", "level", level, "link",
                     link->name ? link->name : "", "fan", fan, "latency_s",
                     link->latency_s, "bandwidth_bps", link->bandwidth_bps);
}

static void say_link(const cli *c, const char *what, const hw_link *link)
{
    char latency[32], rate[32];
    cli_say(c, "  %-14s %s, %s/s, latency %s%s\n", what,
            link->name ? link->name : "",
            fs_human_bytes(rate, link->bandwidth_bps),
            fs_human_seconds(latency, link->latency_s),
            link->on_cores ? ", moved by the cores" : "");
}

/* What the rings of an all-reduce over a whole node get of its wires. */
static void say_rings(const cli *c, const hw_group *g)
{
    const int32_t n = g->devices_per_node, first[2] = {0, n};
    int32_t *member = fs_new(c->arena, int32_t, n);
    char rate[32];
    for (int32_t i = 0; i < n; i++)
        member[i] = i;
    const hw_sets sets = {1, first, member};
    const hw_share ring = hw_ring_share(g, &sets, NULL);
    cli_say(c, "; a ring of all gets %s/s", fs_human_bytes(rate, ring.bps));
    if (ring.hops > 1)
        cli_say(c, ", its neighbours %d wires apart", ring.hops);
    cli_say(c, "\n");
}

static void say_wiring(const cli *c, const hw_group *g)
{
    const hw_wiring *w = &g->wiring;
    char rate[32], most[32];
    double least_bps = INFINITY, most_bps = 0;
    for (int32_t i = 0; i < w->n_wires; i++) {
        least_bps = fmin(least_bps, w->wires[i].bandwidth_bps);
        most_bps = fmax(most_bps, w->wires[i].bandwidth_bps);
    }
    if (w->kind == HW_WIRED_SWITCH ||
        (w->kind == HW_WIRED_LINKS && w->n_wires == 0))
        return;
    if (w->kind == HW_WIRED_PCIE)
        cli_say(c, "  %-14s PCIe switches of %d devices, uplinks of %s/s",
                "wiring", w->devices_per_switch,
                fs_human_bytes(rate, w->bandwidth_bps));
    else if (w->kind == HW_WIRED_MESH)
        cli_say(c, "  %-14s a wire of %s/s between any two of %d", "wiring",
                fs_human_bytes(rate, w->bandwidth_bps), w->devices);
    else
        cli_say(c, "  %-14s %d wire%s of %s/s%s%s between %d devices", "wiring",
                w->n_wires, w->n_wires == 1 ? "" : "s",
                fs_human_bytes(rate, least_bps),
                most_bps > least_bps ? " to " : "",
                most_bps > least_bps ? fs_printf(c->arena, "%s/s",
                                                 fs_human_bytes(most, most_bps))
                                     : "",
                w->devices);
    if (g->devices_per_node > 1)
        say_rings(c, g);
    else
        cli_say(c, "\n");
}

static void say_reduction(const cli *c, const char *what,
                          const hw_reduction *by)
{
    char rate[32], latency[32];
    if (by->bandwidth_bps > 0)
        cli_say(c, "  %-14s all-reduces at %s/s, latency %s\n", what,
                fs_human_bytes(rate, by->bandwidth_bps),
                fs_human_seconds(latency, by->latency_s));
}

static void say_fabric(const cli *c, const hw_cluster *cluster)
{
    const hw_fabric *f = &cluster->fabric;
    char rate[32];
    if (f->rails)
        cli_say(c, "  %-14s a device has one of %d NICs, by its number\n",
                "rails", cluster->nics_per_node);
    if (f->nodes_per_leaf > 0)
        cli_say(c,
                "  %-14s %d node%s each, whose NICs give %g times their "
                "uplinks: %s/s of a node\n",
                "leaves", f->nodes_per_leaf, f->nodes_per_leaf == 1 ? "" : "s",
                f->oversubscription,
                fs_human_bytes(rate, cluster->outer.bandwidth_bps /
                                         f->oversubscription));
    say_reduction(c, "in switches", &f->in_switch);
}

/* Its begin: some tell of every figure. */
static void say_source(const cli *c, const char *source)
{
    enum { MOST = 160 };
    size_t n = strlen(source);
    if (n > MOST)
        for (n = MOST; n > 0 && source[n] != ' ';)
            n--;
    cli_say(c, "  %-14s %.*s%s\n", "source", (int)n, source,
            source[n] ? " .. (all of it: --json)" : "");
}

static void say_group(cli *c, const hw_group *g, const char *of)
{
    const hw_device *d = &g->device;
    char memory[32], rate[32], flops[32];
    cli_say(c, "%d node%s of %d x %s\n", g->nodes, g->nodes == 1 ? "" : "s",
            g->devices_per_node, d->name);
    cli_say(c, "  %-14s %s at %s/s\n", "memory",
            fs_human_bytes(memory, d->memory_bytes),
            fs_human_bytes(rate, d->memory_bps));
    cli_say(c, "  %-14s fp32 %sFLOP/s", "compute",
            fs_human_count(flops, d->fp32_flops));
    if (d->bf16_flops > 0)
        cli_say(c, ", bf16 %sFLOP/s", fs_human_count(flops, d->bf16_flops));
    if (d->fp16_flops != d->bf16_flops)
        cli_say(c, ", fp16 %sFLOP/s", fs_human_count(flops, d->fp16_flops));
    if (d->n_points)
        cli_say(c, ", the best that was measured\n");
    else
        cli_say(c, " nominal, %.0f %% of it reached in matmul\n",
                100 * d->matmul_efficiency);
    if (g->cores_per_node > 0)
        cli_say(c, "  %-14s the devices of a node share %d core%s\n", "cores",
                g->cores_per_node, g->cores_per_node == 1 ? "" : "s");
    if (g->devices_per_node > 1)
        say_link(c, "inside a node", &g->inner);
    say_wiring(c, g);
    say_reduction(c, "in switches", &g->in_switch);
    if (d->n_points)
        cli_say(c, "  %-14s %d measured points\n", "calibration", d->n_points);
    if (d->source || of)
        say_source(c, source_of(c, d, of));
}

static json_t *group_json(cli *c, const hw_group *g, const char *of)
{
    return json_pack("{s:i, s:i, s:o, s:i, s:o}", "nodes", g->nodes,
                     "devices_per_node", g->devices_per_node, "device",
                     device_json(c, g, of), "cores_per_node", g->cores_per_node,
                     "inner",
                     level_json("node", &g->inner, g->devices_per_node));
}

/* What the cluster's file tells of how all is joined. */
static void copy_key(json_t *to, const json_t *from, const char *key)
{
    json_t *value = json_object_get(from, key);
    if (value)
        json_object_set(to, key, value);
}

static void fill_wiring(json_t *result, json_t *groups,
                        const hw_cluster *cluster)
{
    json_t *whole = hw_cluster_to_json(cluster);
    const json_t *all = json_object_get(whole, "groups");
    for (size_t g = 0; g < json_array_size(groups); g++) {
        copy_key(json_array_get(groups, g), json_array_get(all, g), "wiring");
        copy_key(json_array_get(groups, g), json_array_get(all, g),
                 "in_switch");
    }
    copy_key(result, whole, "fabric");
    json_decref(whole);
}

/* `device` is the first group's; of a mixed cluster `groups` tells all, and
 * there is a node level for each. */
static void fill_json(cli *c, const hw_cluster *cluster, const char *of)
{
    json_t *result = c->result;
    const hw_group *first = &cluster->groups[0];
    json_t *levels = json_array(), *groups = json_array();
    if (cluster->n_nodes > 1)
        json_array_append_new(
            levels, level_json("cluster", &cluster->outer, cluster->n_nodes));
    for (int32_t g = 0; g < cluster->n_groups; g++) {
        const hw_group *group = &cluster->groups[g];
        json_array_append_new(groups, group_json(c, group, of));
        json_array_append_new(
            levels, level_json("node", &group->inner, group->devices_per_node));
    }
    json_object_set_new(result, "name", json_string(cluster->name));
    json_object_set_new(result, "devices", json_integer(cluster->n_devices));
    json_object_set_new(result, "nodes", json_integer(cluster->n_nodes));
    json_object_set_new(result, "levels", levels);
    json_object_set_new(result, "device", device_json(c, first, of));
    json_object_set_new(result, "groups", groups);
    fill_wiring(result, groups, cluster);
}

static fs_status describe(cli *c, const hw_cluster *cluster)
{
    const char *of;
    FS_TRY(name_machine(c, cluster, &of));
    fill_json(c, cluster, of);
    cli_say(c, "%s: %d device%s on %d node%s\n", cluster->name,
            cluster->n_devices, cluster->n_devices == 1 ? "" : "s",
            cluster->n_nodes, cluster->n_nodes == 1 ? "" : "s");
    for (int32_t g = 0; g < cluster->n_groups; g++)
        say_group(c, &cluster->groups[g], of);
    if (cluster->n_nodes > 1) {
        say_link(c, "between nodes", &cluster->outer);
        say_fabric(c, cluster);
    }
    return FS_OK;
}

static void describe_cuda(cli *c)
{
    char text[512];
    int32_t n = exec_cuda_devices(text, sizeof text);
    json_object_set_new(c->result, "cuda",
                        json_pack("{s:i, s:s}", "devices", n, "text", text));
    cli_say(c, "  %-14s %s\n", "CUDA", text);
}

fs_status cli_cmd_cluster(cli *c)
{
    if (c->args.n_operands != 1)
        return fs_fail(&c->err, FS_INVALID, "cluster wants one CLUSTER");
    const char *spec = c->args.operands[0];
    FS_TRY(cli_begin(c, NULL, spec));
    hw_cluster *cluster;
    FS_TRY(cli_cluster_open(c, spec, &cluster));
    FS_TRY(cli_digests(c, 0, cluster->digest, 0));
    cli_keep(c, NULL, cluster);
    FS_TRY(describe(c, cluster));
    bool here = true; /* of this machine, or probed and not measured */
    if (cluster->machine)
        FS_TRY(cli_machine_is_here(c, cluster, &here));
    if (cluster->host && here)
        describe_cuda(c);
    return FS_OK;
}
