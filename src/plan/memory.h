/* Static memory offsets of a role: which byte each buffer starts at. */
#ifndef FS_PLAN_MEMORY_H
#define FS_PLAN_MEMORY_H

#include "plan/plan.h"

/* Fills own_memory and offset of every register, stream_scratch, arena_bytes,
 * bytes and bound_bytes of a role whose tasks, registers (with producers,
 * consumers, counts and bytes), streams and slots stand. `share` lets registers
 * that only the compute stream touches share bytes when they are never live at
 * once. Sizes that overflow are FS_INVALID. O(n^2) in the shared buffers. */
fs_status plan_memory_assign(const ir_graph *graph, bool share, fs_arena *arena,
                             fs_err *err, plan_role *role);

#endif
