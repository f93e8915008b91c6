/* Collectives within a node as they were measured. */
#ifndef FS_HW_CURVES_H
#define FS_HW_CURVES_H

#include "hw/cluster.h"

/* Those of so many ranks, in a row; NULL: none. */
const hw_collective *hw_collectives_of(const hw_group *group, const char *what,
                                       int32_t ranks, int32_t *n);
/* Those of more ranks than a node has devices, which nothing can use, go: a
 * host's figures are measured as more ranks than it is seen as, a part of a
 * node has fewer than the node. */
void hw_collectives_fit(hw_group *group, fs_arena *arena);
/* datasets/collectives/DEVICE.json of the group's device, where there is one
 * and the group has none of its own. They are of a library of their time, and
 * no part of what a device is. */
fs_status hw_collectives_open(const char *data_dir, fs_arena *arena,
                              fs_err *err, hw_group *group);

#endif
