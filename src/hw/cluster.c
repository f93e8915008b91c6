#include "config.h"
#include "hw/cluster.h"

#include "base/hash.h"
#include "hw/curves.h"
#include "hw/parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The group of a device; *local: its number among the group's. */
static const hw_group *locate(const hw_cluster *cluster, int32_t device,
                              int32_t *local)
{
    FS_ASSERT(device >= 0 && device < cluster->n_devices);
    *local = device;
    for (int32_t g = 0; g < cluster->n_groups; g++) {
        const hw_group *group = &cluster->groups[g];
        int32_t n = group->nodes * group->devices_per_node;
        if (*local < n)
            return group;
        *local -= n;
    }
    return NULL;
}

double hw_device_flops(const hw_device *device)
{
    if (device->fp32_flops > 0 && !device->uses_tf32)
        return device->fp32_flops;
    if (device->tf32_flops > 0)
        return device->tf32_flops;
    return device->bf16_flops > 0 ? device->bf16_flops : device->fp16_flops;
}

bool hw_device_widens(const hw_device *device, bool bf16)
{
    return (bf16 ? device->bf16_flops : device->fp16_flops) <= 0;
}

double hw_device_narrow_flops(const hw_device *device, bool bf16)
{
    if (hw_device_widens(device, bf16))
        return hw_device_flops(device);
    return bf16 ? device->bf16_flops : device->fp16_flops;
}

double hw_device_bps(const hw_device *device, bool reduces)
{
    return device->memory_bps * (reduces && device->reduce_efficiency > 0
                                     ? device->reduce_efficiency
                                     : device->memory_efficiency);
}

double hw_device_efficiency(const hw_device *device, bool narrow)
{
    return narrow || device->uses_tf32 || device->fp32_flops <= 0 ||
                   device->fp32_efficiency <= 0
               ? device->matmul_efficiency
               : device->fp32_efficiency;
}

const hw_group *hw_group_of(const hw_cluster *cluster, int32_t device)
{
    int32_t local;
    return locate(cluster, device, &local);
}

int32_t hw_group_left(const hw_cluster *cluster, int32_t device)
{
    int32_t local;
    const hw_group *group = locate(cluster, device, &local);
    return group->nodes * group->devices_per_node - local;
}

int32_t hw_node_of(const hw_cluster *cluster, int32_t device)
{
    FS_ASSERT(device >= 0 && device < cluster->n_devices);
    int32_t node = 0;
    for (int32_t g = 0; g < cluster->n_groups; g++) {
        const hw_group *group = &cluster->groups[g];
        int32_t n = group->nodes * group->devices_per_node;
        if (device < n)
            return node + device / group->devices_per_node;
        device -= n;
        node += group->nodes;
    }
    return -1;
}

void hw_node_range(const hw_cluster *cluster, int32_t device, int32_t *first,
                   int32_t *end)
{
    int32_t local;
    const int32_t per = locate(cluster, device, &local)->devices_per_node;
    *first = device - local % per;
    *end = *first + per;
}

const hw_link *hw_link_between(const hw_cluster *cluster, int32_t a, int32_t b)
{
    const hw_group *group = hw_group_of(cluster, a);
    if (a == b)
        return &group->memory;
    if (hw_node_of(cluster, a) == hw_node_of(cluster, b))
        return &group->inner;
    return &cluster->outer;
}

hw_link hw_outer_share(const hw_cluster *cluster, int32_t flows,
                       int32_t devices)
{
    hw_link link = cluster->outer;
    int32_t nics = cluster->nics_per_node > 0 ? cluster->nics_per_node : 1;
    double share = flows > 1 ? 1.0 / flows : 1.0;
    double reach = devices < nics ? (double)devices / nics : 1.0;
    link.bandwidth_bps *= share < reach ? share : reach;
    return link;
}

double hw_core_share(const hw_group *group, int32_t active)
{
    if (group->cores_per_node <= 0 || active <= group->cores_per_node)
        return 1;
    return (double)active / group->cores_per_node;
}

int32_t hw_core_of(int32_t local, int32_t processes, int32_t cores)
{
    bool even = cores > 0 && processes > cores && processes % cores == 0;
    return even ? local % cores : -1;
}

int32_t hw_core_pool(const hw_cluster *cluster, int32_t device, int32_t *cores)
{
    int32_t local;
    const hw_group *group = locate(cluster, device, &local);
    local %= group->devices_per_node;
    int32_t core =
        hw_core_of(local, group->devices_per_node, group->cores_per_node);
    *cores = core < 0 ? group->cores_per_node : 1;
    return device - local + (core < 0 ? 0 : core);
}

/* Within 0.07 of the exact value from n = 2 on. */
double hw_slowest_of(int32_t n)
{
    return n > 1 ? sqrt(2 * log(n)) - 0.55 : 0;
}

static int compare_points(const void *a, const void *b)
{
    const hw_point *p = a, *q = b;
    int order = strcmp(p->what, q->what);
    if (order)
        return order;
    if (p->form != q->form)
        return p->form < q->form ? -1 : 1;
    return (p->work > q->work) - (p->work < q->work);
}

static void sort_device(hw_device *device)
{
    if (device->n_points > 1)
        qsort(device->points, (size_t)device->n_points, sizeof *device->points,
              compare_points);
    hw_variants_sort(device);
}

void hw_cluster_finish(hw_cluster *cluster)
{
    cluster->n_devices = cluster->n_nodes = 0;
    for (int32_t g = 0; g < cluster->n_groups; g++) {
        hw_group *group = &cluster->groups[g];
        cluster->n_nodes += group->nodes;
        cluster->n_devices += group->nodes * group->devices_per_node;
        sort_device(&group->device);
    }
    json_t *figures = hw_cluster_json(cluster, true);
    char *text = json_dumps(figures, JSON_COMPACT | JSON_REAL_PRECISION(17));
    FS_ASSERT(text);
    cluster->digest = fs_hash_text(0, text);
    free(text);
    json_decref(figures);
}

static void scale_link(hw_link *link, double bytes, double latency)
{
    link->bandwidth_bps /= bytes;
    link->latency_s *= latency;
}

static void scale_group(hw_group *group, const hw_scale *by, fs_arena *arena)
{
    hw_device *device = &group->device;
    device->matmul_efficiency /= by->compute;
    device->fp32_efficiency /= by->compute;
    device->memory_efficiency /= by->memory;
    device->reduce_efficiency /= by->memory;
    device->launch_s *= by->launch;
    device->points = fs_memdup(arena, device->points,
                               (size_t)device->n_points * sizeof(hw_point));
    for (int32_t i = 0; i < device->n_points; i++)
        device->points[i].seconds *= by->compute; /* deviations are told,
                                                     not used */
    group->turn_s *= by->latency;
    group->firing_s *= by->launch;
    scale_link(&group->memory, by->memory, by->launch);
    scale_link(&group->inner, by->inner, by->latency);
    group->in_switch.bandwidth_bps /= by->inner;
    group->in_switch.latency_s *= by->latency;
    group->wiring.bandwidth_bps /= by->inner;
    group->collectives =
        fs_memdup(arena, group->collectives,
                  (size_t)group->n_collectives * sizeof(hw_collective));
    for (int32_t i = 0; i < group->n_collectives; i++)
        group->collectives[i].seconds *= by->inner;
    group->wiring.wires =
        fs_memdup(arena, group->wiring.wires,
                  (size_t)group->wiring.n_wires * sizeof(hw_wire));
    for (int32_t i = 0; i < group->wiring.n_wires; i++)
        group->wiring.wires[i].bandwidth_bps /= by->inner;
}

hw_cluster *hw_cluster_scaled(const hw_cluster *cluster, const hw_scale *by,
                              fs_arena *arena)
{
    hw_cluster *out = fs_memdup(arena, cluster, sizeof *cluster);
    out->groups = fs_memdup(arena, cluster->groups,
                            (size_t)cluster->n_groups * sizeof(hw_group));
    for (int32_t g = 0; g < out->n_groups; g++)
        scale_group(&out->groups[g], by, arena);
    scale_link(&out->outer, by->outer, by->latency);
    out->fabric.in_switch.bandwidth_bps /= by->outer;
    out->fabric.in_switch.latency_s *= by->latency;
    hw_cluster_finish(out);
    return out;
}

int32_t hw_cluster_period(const hw_cluster *cluster)
{
    const int32_t nodes = cluster->fabric.nodes_per_leaf;
    const int32_t of_leaf =
        nodes > 0 && nodes < cluster->n_nodes ? nodes : cluster->n_nodes;
    return cluster->groups[0].devices_per_node * (nodes > 0 ? of_leaf : 1);
}

hw_cluster *hw_cluster_part(const hw_cluster *cluster, int32_t nodes,
                            int32_t devices, const char *name, fs_arena *arena)
{
    FS_ASSERT(cluster->n_groups == 1);
    hw_cluster *out = fs_memdup(arena, cluster, sizeof *cluster);
    out->groups = fs_memdup(arena, cluster->groups, sizeof *out->groups);
    out->groups[0].nodes = nodes;
    out->groups[0].devices_per_node = devices;
    hw_collectives_fit(&out->groups[0], arena);
    out->name = name;
    hw_cluster_finish(out);
    return out;
}
