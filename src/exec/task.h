/* What firing a task of a rank's role takes, prepared once, and what is known
 * of it while it is under way. */
#ifndef FS_EXEC_TASK_H
#define FS_EXEC_TASK_H

#include "exec/loader.h"
#include "exec/recorder.h"
#include "exec/transfer.h"
#include "kernels/kernel.h"
#include "plan/actor_wakes.h"

enum { EXEC_SAMPLES = 32 };

/* Times of a task's last firings: sample f mod EXEC_SAMPLES is firing f. */
typedef struct exec_sample {
    int64_t start_ns, end_ns;
    int64_t busy_ns; /* this rank's own work on it: CPU time of a kernel, time
                        spent progressing a transfer */
    float beside;    /* share of the time that the rank had for others */
} exec_sample;

/* An argument of a kernel whose register has several buffers. */
typedef struct exec_turning {
    kernel_arg *arg;
    int32_t reg;
    bool writes;
} exec_turning;

typedef struct exec_task {
    const plan_task *task;
    int64_t fired; /* times, so far */
    bool captured; /* some capture is of what it makes */
    bool meets;    /* others: a collective, a move */
    bool runs;     /* a kernel, here and now */
    plan_actor_wakes wakes;
    /* COMPUTE */
    const kernel *kernel; /* NULL: the task moves nothing (an output) */
    void *state;
    kernel_call call; /* its other arguments lie where they lie */
    exec_turning *turning;
    int32_t n_turning;
    double f[IR_MAX_REAL];
    bool is_loss;   /* in[0] is the loss, whole */
    int32_t output; /* in[0] is this one of graph->outputs, whole, which this
                       rank gives away; -1: it is not */
    /* BOX, SEND, RECV */
    exec_transfer *transfer;
    /* LOAD */
    exec_job *job;
    exec_sample sample[EXEC_SAMPLES];
} exec_task;

/* A stream's task in flight. */
typedef struct exec_flight {
    int64_t ready_ns, start_ns, busy_ns;
    int64_t alone;       /* exec_alone_begin */
    int64_t free_ns;     /* when the stream's last task completed */
    exec_record *record; /* where it is told of, */
    exec_now *now;       /* and there what the stream is at */
    bool landed;         /* a transfer, while a kernel ran */
} exec_flight;           /* 64 bytes */

/* A tensor the caller wants: where this rank's piece of it is kept when its
 * register's memory may be used again. */
typedef struct exec_capture {
    int32_t tensor, task, reg;
    void *piece;
    double *series; /* [steps] of a scalar that is watched; no piece then */
} exec_capture;

/* Who looks after transfers while a stream's kernel runs. */
typedef struct exec_rest {
    struct exec_rank *rank;
    int32_t stream;
} exec_rest;

#endif
