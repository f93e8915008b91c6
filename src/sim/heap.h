/* What comes next: jobs by (time, sequence), each at most once, in a heap that
 * knows where each stands. */
#ifndef FS_SIM_HEAP_H
#define FS_SIM_HEAP_H

#include "base/arena.h"

#include <stdbool.h>

typedef struct sim_event {
    int64_t time_ns, sequence;
    int32_t job;
} sim_event;

typedef struct sim_heap {
    sim_event *at;
    int32_t n;
    int32_t *place; /* [jobs] -1: not in it */
} sim_heap;

/* Of jobs 0 .. n - 1. */
sim_heap sim_heap_make(int32_t n_jobs, fs_arena *arena);
/* The event of its job takes the place of the one it has, if any. */
void sim_heap_set(sim_heap *heap, sim_event event);
/* The first of all, which leaves it; it must hold one. */
sim_event sim_heap_pop(sim_heap *heap);

#endif
