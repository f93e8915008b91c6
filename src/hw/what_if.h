/* A cluster with some figures changed: what if its links were twice as fast? */
#ifndef FS_HW_WHAT_IF_H
#define FS_HW_WHAT_IF_H

#include "hw/cluster.h"

/* A figure that was changed, by its path, "groups[0].inner.bandwidth". */
typedef struct hw_change {
    const char *path;
    double from, to;
} hw_change;
typedef FS_VEC(hw_change) hw_changes;

/* A copy of the cluster with one change: `words` is PATH*=X, PATH+=X or PATH=X.
 * A path is that of a number of the cluster's JSON form, with its unit or
 * without (`outer.bandwidth_bps`, `outer.bandwidth`); without `groups[i].` it
 * is meant of all groups. link.X is inner.X and outer.X, device.flops all
 * peaks, nics and cores are outer.nics_per_node and cores_per_node. Measured
 * points follow what they were measured of, local copies the memory's
 * bandwidth; bytes are whole ones, told as people do too (6G). Numbers of nodes and devices, and what has
 * no part in time or in what fits (prices), are none of them; nor are cores of
 * devices that share none.
 *
 * FS_INVALID: a path that names nothing (the near ones are listed), what is not
 * of that form, a figure out of its range, and a change that leaves all as it
 * was. `changes` gets what was changed. */
fs_status hw_cluster_set(const hw_cluster *cluster, const char *words,
                         fs_arena *arena, fs_err *err, hw_cluster **out,
                         hw_changes *changes);

#endif
