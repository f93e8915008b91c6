/* Static memory offsets of a role: which byte each buffer starts at. */
#ifndef FS_PLAN_MEMORY_H
#define FS_PLAN_MEMORY_H

#include "plan/offsets.h"
#include "plan/places.h"

/* Fills own_memory and offset of every register, stream_scratch, arena_bytes,
 * bytes and bound_bytes of a role whose tasks, registers (with producers,
 * consumers, counts and bytes), streams and slots stand. `share` lets registers
 * whose lives one compute stream's program tells (plan_memory_stream) share
 * bytes when they are never live at once. Sizes that overflow are FS_INVALID.
 */
typedef struct plan_memory_wish {
    bool share;
    int64_t enough_bytes; /* of the arena, as in plan_lower_options; 0: none */
    bool asks_fit;        /* likewise */
    plan_known *known;    /* likewise */
} plan_memory_wish;
fs_status plan_memory_assign(const ir_graph *graph, plan_memory_wish wish,
                             fs_arena *arena, fs_err *err, plan_role *role);
/* So near their bound, as a fraction, offsets are worth no more greedy placing,
 * and no refining. */
#define PLAN_GREEDY_GAP 0.005
#define PLAN_CLOSE_GAP 0.01
/* Of a role that plan_memory_assign gave offsets, lower ones until they are
 * close, as far as the effort goes. */
void plan_memory_refine(const ir_graph *graph, plan_effort effort,
                        plan_role *role);

/* The compute stream in whose program all that touches a register keeps its
 * place, to an end that is known; -1: there is none. Only then a total order
 * tells when its pieces are live: from its producer's position to the last end
 * of its readers. */
int32_t plan_memory_stream(const plan_places *places, const plan_register *r);

/* The rules by which it does so, for those who check a plan: which registers
 * must have memory of their own though others share [n_registers]; what kind a
 * register's bytes are; aligned bytes of a stream's scratch; how `height` bytes
 * of the shared regions count. */
void plan_memory_choose(const plan_role *role, const plan_places *places,
                        bool *own);
plan_bytes_kind plan_memory_kind(const ir_graph *graph, const plan_role *role,
                                 const plan_register *r);
int64_t plan_memory_scratch(const plan_role *role, int32_t stream);
void plan_memory_count_shared(const plan_role *role, int64_t height,
                              int64_t bytes[PLAN_BYTES_KINDS]);

#endif
