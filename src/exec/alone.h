/* What a transfer takes alone, told of a rank whose one thread runs kernels and
 * other transfers meanwhile: by a clock that stands while kernels run, and of
 * which n collectives in flight have the n-th part each (as the simulator
 * shares a thread). Moves between stages wait for their other end for long;
 * they share with kernels alone. */
#ifndef FS_EXEC_ALONE_H
#define FS_EXEC_ALONE_H

#include "plan/task.h"

typedef struct exec_alone {
    int64_t one_ns, each_ns; /* what a move, a collective has had so far */
    int64_t at_ns, computed_ns;
    int32_t n; /* collectives in flight */
} exec_alone;

/* A kernel took so long. */
static inline void exec_alone_compute(exec_alone *a, int64_t ns)
{
    a->computed_ns += ns;
}

/* The task begins at `now`; returns what `exec_alone_end` wants. */
int64_t exec_alone_begin(exec_alone *a, const plan_task *task, int64_t now);
/* It has ended; returns the share of its time, from 0 to 1, that the rank had
 * for others: of what is no transfer 0. */
float exec_alone_end(exec_alone *a, const plan_task *task, int64_t began,
                     int64_t start_ns, int64_t now);

#endif
