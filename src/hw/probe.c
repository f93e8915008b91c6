/* This host through hwloc. */
#include "config.h"
#include "hw/parts.h"

#include <hwloc.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

/* Processors this process may use: its affinity, else the machine's. */
static int32_t count_processors(hwloc_topology_t topology)
{
    hwloc_bitmap_t allowed = hwloc_bitmap_alloc();
    int32_t n = 0;
    if (hwloc_get_cpubind(topology, allowed, HWLOC_CPUBIND_PROCESS) == 0)
        n = hwloc_get_nbobjs_inside_cpuset_by_type(topology, allowed,
                                                   HWLOC_OBJ_PU);
    hwloc_bitmap_free(allowed);
    if (n <= 0)
        n = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PU);
    return n > 0 ? n : 1;
}

/* A container's share of processor time, rounded up; `limit` without one. */
static int32_t limit_by_quota(int32_t limit)
{
    double quota, period;
    FILE *file = fopen("/sys/fs/cgroup/cpu.max", "r");
    if (!file)
        return limit;
    int n = fscanf(file, "%lf %lf", &quota, &period);
    fclose(file);
    if (n != 2 || period <= 0 || quota <= 0)
        return limit; /* "max": no limit */
    double share = ceil(quota / period);
    return share < limit ? (int32_t)fmax(1, share) : limit;
}

static double limit_memory(const char *path, double bytes)
{
    double limit;
    FILE *file = fopen(path, "r");
    if (!file)
        return bytes;
    int n = fscanf(file, "%lf", &limit);
    fclose(file);
    return n == 1 && limit > 0 && limit < bytes ? limit : bytes;
}

/* The machine's whole memory, not what is free now: probing twice must give the
 * same cluster. A lower limit is the user's to state. hwloc adds up its memory
 * nodes, which a virtual machine with a balloon reports far too small, so the
 * kernel's own total counts when it is larger. */
static double whole_memory(hwloc_topology_t topology)
{
    double nodes = (double)hwloc_get_root_obj(topology)->total_memory;
    double pages = (double)sysconf(_SC_PHYS_PAGES);
    double bytes = fmax(nodes, pages * (double)sysconf(_SC_PAGESIZE));
    bytes = limit_memory("/sys/fs/cgroup/memory.max", bytes);
    return limit_memory("/sys/fs/cgroup/memory/memory.limit_in_bytes", bytes);
}

static void fill_group(hwloc_topology_t topology, int32_t ranks,
                       hw_group *group)
{
    *group =
        (hw_group){.nodes = 1,
                   .devices_per_node = ranks,
                   .cores_per_node = limit_by_quota(count_processors(topology)),
                   .device = {.name = "cpu",
                              .matmul_efficiency = 1,
                              .memory_efficiency = 1,
                              .source = "probed on this host"},
                   /* Conservative until two ranks have measured theirs. */
                   .inner = {"shared memory", 2e-6, 2e9, true},
                   .memory = {"memory copy", 5e-7, 2e9, true}};
    group->device.memory_bytes = floor(whole_memory(topology) / ranks);
}

/* /proc/cpuinfo's name of the processor: hwloc gives it too, but not on every
 * kind of virtual machine. */
static const char *processor_name(fs_arena *arena)
{
    char line[256] = "", *at;
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file && fgets(line, sizeof line, file) &&
           strncmp(line, "model name", 10) != 0)
        continue;
    if (file)
        fclose(file);
    at = strncmp(line, "model name", 10) == 0 ? strchr(line, ':') : NULL;
    if (!at)
        return "a processor without a name";
    at[strcspn(at, "\n")] = '\0';
    return fs_strdup(arena, at + 1 + strspn(at + 1, " "));
}

const char *hw_host_facts(const hw_cluster *probed, fs_arena *arena)
{
    const hw_group *group = &probed->groups[0];
    const double bytes = group->device.memory_bytes * group->devices_per_node;
    struct utsname system;
    if (uname(&system) != 0)
        snprintf(system.release, sizeof system.release, "?");
    return fs_printf(arena, "%s, %d cores, %.1f GiB, %s %s",
                     processor_name(arena), probed->host_cores,
                     bytes / (double)(1 << 30), system.sysname, system.release);
}

fs_status hw_cluster_probe(int32_t ranks, fs_arena *arena, fs_err *err,
                           hw_cluster **out)
{
    hwloc_topology_t topology;
    char host[256] = "";
    if (ranks < 1 || ranks > HW_MAX_DEVICES)
        return fs_fail(err, FS_INVALID,
                       "cluster local: %d ranks, must be 1 to %d", ranks,
                       HW_MAX_DEVICES);
    if (hwloc_topology_init(&topology) != 0)
        return fs_fail(err, FS_FAULT, "hwloc cannot start");
    if (hwloc_topology_load(topology) != 0) {
        hwloc_topology_destroy(topology);
        return fs_fail(err, FS_FAULT, "hwloc cannot read this host");
    }
    hw_cluster *cluster = fs_new(arena, hw_cluster, 1);
    cluster->groups = fs_new(arena, hw_group, 1);
    cluster->n_groups = 1;
    fill_group(topology, ranks, &cluster->groups[0]);
    cluster->host_cores =
        limit_by_quota(hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PU));
    hwloc_topology_destroy(topology);
    if (gethostname(host, sizeof host - 1) != 0 || !host[0])
        snprintf(host, sizeof host, "localhost");
    cluster->host = fs_strdup(arena, host);
    cluster->name = "local";
    cluster->nics_per_node = 1;
    /* One node: nothing crosses it, but the file form wants a link. */
    cluster->outer = (hw_link){"none", 0, 1e9, false};
    hw_cluster_finish(cluster);
    *out = cluster;
    return FS_OK;
}
