#include "config.h"
#include "hw/share.h"

#include <hwloc.h>
#include <hwloc/glibc-sched.h>
#include <limits.h>
#include <stdlib.h>

/* Of a topology that has the usable processors alone. */
static bool deal(hwloc_topology_t topology, int32_t local, int32_t processes,
                 cpu_set_t *share)
{
    hwloc_obj_t root = hwloc_get_root_obj(topology);
    hwloc_bitmap_t *sets = calloc((size_t)processes, sizeof *sets);
    const bool good =
        sets && hwloc_distrib(topology, &root, 1, sets, (unsigned)processes,
                              INT_MAX, 0) == 0;
    if (good)
        hwloc_cpuset_to_glibc_sched_affinity(topology, sets[local], share,
                                             sizeof *share);
    for (int32_t i = 0; good && i < processes; i++)
        hwloc_bitmap_free(sets[i]);
    free(sets);
    return good && CPU_COUNT(share) > 0;
}

bool hw_share_of(int32_t local, int32_t processes, const cpu_set_t *usable,
                 cpu_set_t *share)
{
    hwloc_topology_t topology;
    if (local < 0 || local >= processes || processes > CPU_COUNT(usable) ||
        hwloc_topology_init(&topology) != 0)
        return false;
    hwloc_bitmap_t allowed = hwloc_bitmap_alloc();
    bool good = allowed && hwloc_topology_load(topology) == 0 &&
                hwloc_cpuset_from_glibc_sched_affinity(
                    topology, allowed, usable, sizeof *usable) == 0 &&
                hwloc_topology_restrict(topology, allowed, 0) == 0 &&
                deal(topology, local, processes, share);
    hwloc_bitmap_free(allowed);
    hwloc_topology_destroy(topology);
    return good;
}
