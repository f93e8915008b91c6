/* Failpoints: places where a run can be told to fail, always compiled in, for
 * tests and drills. FLOWSEARCH_FAILPOINT=NAME:COUNT=ACTION[@RANK], several by
 * ';', as "step:10=kill9@1;sync:2=enospc": the COUNT-th time (from 1; `step`
 * counts the run's global steps) that the rank comes there, it does that. Each
 * acts once per job, restarts of its supervisor included; without @RANK that is
 * the first rank to come there. */
#ifndef FS_EXEC_FAILPOINT_H
#define FS_EXEC_FAILPOINT_H

#include "exec/recorder.h"

typedef enum exec_point {
    EXEC_AT_START,     /* a rank has joined the job */
    EXEC_AT_STEP,      /* a rank begins its first kernel of the step */
    EXEC_AT_FIRE,      /* a task */
    EXEC_AT_TRANSFER,  /* a task that sends or receives */
    EXEC_AT_SAVE,      /* a checkpoint begins to be written */
    EXEC_AT_SYNC,      /* before a file of it is brought to the disk */
    EXEC_AT_COMMIT,    /* all files are there, not yet the manifest */
    EXEC_AT_COMMITTED, /* the manifest is */
    EXEC_POINTS
} exec_point;

typedef struct exec_failpoint {
    exec_point at;
    int64_t count;
    int32_t action, rank; /* -1: any */
    int64_t argument;     /* of sleepMS and slowPCT */
} exec_failpoint;

typedef struct exec_failpoints {
    int32_t n, rank;
    exec_failpoint list[EXEC_MOST_FAILPOINTS];
    _Atomic int64_t come[EXEC_POINTS];
    exec_job_record *job;
    bool named_only; /* the first rank to come is one of the first host, whose
                        ranks alone see what has fired at once */
    int64_t slow_percent; /* kernels take so much longer from now on */
} exec_failpoints;

/* `text` may be NULL. FS_INVALID says what is wrong where. */
fs_status exec_failpoints_read(const char *text, fs_err *err,
                               exec_failpoints *out);
/* What a run has that failpoints are for. */
typedef struct exec_failpoint_run {
    int32_t ranks;
    int64_t steps; /* the last one; 0: it has no end */
    bool saves;    /* checkpoints */
} exec_failpoint_run;
/* FS_INVALID names one that no rank of the run can come to. */
fs_status exec_failpoints_check(const exec_failpoints *f,
                                const exec_failpoint_run *run, fs_err *err);
/* From any thread. The rank may not return; else 0, or the errno that what
 * comes next is to end with. */
int exec_failpoint_come(exec_failpoints *f, exec_point at);
/* Of steps: from 1. */
void exec_failpoint_step(exec_failpoints *f, int64_t step);
struct exec_world;
exec_failpoints *exec_world_failpoints(struct exec_world *world);

#endif
