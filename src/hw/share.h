/* The cores of this host, dealt to processes. */
#ifndef FS_HW_SHARE_H
#define FS_HW_SHARE_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

/* What process number `local` of `processes`, of which there are no more than
 * processors in `usable`, has to itself: processors that are near each other
 * and far from the others' (hwloc_distrib), whole cores where there are enough.
 * False: hwloc cannot tell. */
bool hw_share_of(int32_t local, int32_t processes, const cpu_set_t *usable,
                 cpu_set_t *share);

#endif
