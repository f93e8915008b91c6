/* What comes next: jobs by (time, sequence), each at most once, in a heap that
 * knows where each stands. */
#ifndef FS_SIM_HEAP_H
#define FS_SIM_HEAP_H

#include "base/arena.h"

#include <stdbool.h>

/* `order` is the sequence with the job behind it: two numbers to compare. */
typedef struct sim_event {
    int64_t time_ns, order;
} sim_event;

enum { SIM_JOB_BITS = 24 };

static inline sim_event sim_event_make(int64_t time_ns, int64_t sequence,
                                       int32_t job)
{
    return (sim_event){time_ns, sequence << SIM_JOB_BITS | job};
}

static inline int32_t sim_event_job(const sim_event *event)
{
    return (int32_t)(event->order & ((1 << SIM_JOB_BITS) - 1));
}

typedef struct sim_heap {
    sim_event *at;
    int32_t n;
    bool hole;      /* the first was taken, and none has its place yet: */
    int32_t second; /* where the next one is; 0: not found yet */
    int32_t *place; /* [jobs] -1: not in it */
} sim_heap;

/* Of jobs 0 .. n - 1. */
sim_heap sim_heap_make(int32_t n_jobs, fs_arena *arena);
/* The event of its job takes the place of the one it has, if any. */
void sim_heap_set(sim_heap *heap, sim_event event);
/* The first of all; NULL: there is none. */
const sim_event *sim_heap_first(sim_heap *heap);
/* It leaves; there must be one. Returns its job. */
int32_t sim_heap_pop(sim_heap *heap);
/* Nothing is missing among at[0 .. n - 1]. */
void sim_heap_close(sim_heap *heap);

#endif
