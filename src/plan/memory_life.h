/* When the buffers of a role are live, as a packing (plan/offsets.h). */
#ifndef FS_PLAN_MEMORY_LIFE_H
#define FS_PLAN_MEMORY_LIFE_H

#include "plan/offsets.h"
#include "plan/places.h"

/* Which copy of which register a buffer of the packing is; of what is held of
 * very many micro-batches (plan/shorten.h) so many from that one on, one behind
 * the other. */
typedef struct plan_life_of {
    int32_t reg, copy, n;
} plan_life_of;

/* The program of a compute stream, a step of m micro-batches. */
typedef struct plan_stream_program {
    const plan_role *role;
    int32_t stream, m;
} plan_stream_program;

/* All copies of the registers that share memory in it. *of: [packing->n]. Both
 * live in the arena. */
void plan_life_pack(const plan_stream_program *program, fs_arena *arena,
                    plan_packing *packing, plan_life_of **of);

#endif
