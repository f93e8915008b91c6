/* Whom a task sets free when it is done. The head of a stream waits for pieces
 * that others make, for buffers that others let go of, for the place that its
 * leader has come to and for its turn to compute, and for nothing else: all of
 * that changes only when some task of its rank completes. Who steps actors
 * looks at these streams alone. */
#ifndef FS_PLAN_ACTOR_WAKES_H
#define FS_PLAN_ACTOR_WAKES_H

#include "plan/actor.h"

/* A bit per stream; those from the last bit's on share it. */
static inline uint64_t plan_stream_bit(int32_t stream)
{
    return UINT64_C(1) << (stream < 63 ? stream : 63);
}

/* Streams that a completion may set free, its own among them: of a firing but
 * the step's last, and of that one, with which goes on what does so once per
 * step. Index: is it the last? */
typedef struct plan_actor_wakes {
    uint64_t by[2];
} plan_actor_wakes;
plan_actor_wakes plan_actor_wakes_of(const plan_actors *a, int32_t task);

#endif
