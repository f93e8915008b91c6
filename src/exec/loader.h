/* The loader: a thread that reads data ahead of the step, straight into the
 * registers. Jobs go to it through a single-producer ring; where no rank needs
 * its core it spins as long as waking a thread takes before it sleeps. A job
 * that took less the last time is done at once, by who submits it. */
#ifndef FS_EXEC_LOADER_H
#define FS_EXEC_LOADER_H

#include "exec/exec.h"

typedef enum exec_job_state {
    EXEC_JOB_AWAITED, /* its step has not come */
    EXEC_JOB_OPEN,
    EXEC_JOB_DONE,
    EXEC_JOB_FAILED /* the loader's err says why */
} exec_job_state;

/* One LOAD task. Filled by the polling thread, then the loader's until its
 * state is no longer OPEN. */
typedef struct exec_job {
    const char *name;
    ir_dtype dtype;
    ir_shape local;
    int64_t offset[IR_MAX_RANK];
    int32_t batch_axis;
    /* What threads tell each other. */
    int64_t sample;
    int64_t took_ns; /* the last time; 0: there was none */
    void *out;
    _Atomic int state;
} exec_job;

typedef struct exec_loader exec_loader;
/* At most `jobs` jobs are in flight. The thread starts with the first one. */
exec_loader *exec_loader_create(exec_world *world, const exec_data *data,
                                int32_t jobs);
void exec_loader_destroy(exec_loader *loader);
void exec_loader_submit(exec_loader *loader, exec_job *job);
/* By who submitted it: the state of the job. One whose step has come by now
 * goes to the thread, which so never waits for a step while another job could
 * go on. */
int exec_loader_look(exec_loader *loader, exec_job *job);
const fs_err *exec_loader_error(const exec_loader *loader);
/* What waking its thread takes, by those so far; 0: it was not woken. */
int64_t exec_loader_wake_ns(const exec_loader *loader);

#endif
