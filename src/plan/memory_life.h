/* When the buffers of a role are live, as a packing (plan/offsets.h). */
#ifndef FS_PLAN_MEMORY_LIFE_H
#define FS_PLAN_MEMORY_LIFE_H

#include "plan/offsets.h"
#include "plan/plan.h"

/* Which copy of which register a buffer of the packing is. */
typedef struct plan_life_of {
    int32_t reg, copy;
} plan_life_of;

/* All copies of the registers that share memory, over `unroll` steps of m
 * micro-batches each: as many as it takes until every buffer holds the same
 * micro-batches again. *of: [packing->n]. Both live in the arena. */
void plan_life_pack(const plan_role *role, int32_t m, int32_t unroll,
                    fs_arena *arena, plan_packing *packing, plan_life_of **of);

#endif
