/* The ranks of the job, for the other files of this folder. One thread of a
 * rank talks to the others (MPI_THREAD_SERIALIZED); a process that was not
 * started by mpirun is alone and never calls MPI. */
#ifndef FS_EXEC_WORLD_H
#define FS_EXEC_WORLD_H

#include "exec/exec.h"
#include "exec/failpoint.h"
#include "exec/link.h"
#include "exec/parker.h"

struct exec_world {
    int32_t rank, size;
    int32_t on_host;           /* ranks on this host */
    int32_t *host;             /* [size] a number of each rank's host; NULL: all
                                  ranks are on one */
    struct exec_group *groups; /* of processes that reduced as MPI does */
    int32_t cores;             /* for the ranks of this host */
    bool oversubscribed;       /* more ranks on the host than cores */
    bool finalize;             /* MPI was started here */
    const exec_link *link;     /* NULL: alone */
    MPI_Comm comm;             /* of processes */
    struct exec_hub *hub;      /* of threads */
    exec_recorder recorder; /* of a process; ranks that are threads have none */
    exec_failpoints *failpoints; /* NULL: none */
    exec_parker parker;          /* of the polling thread */
};

enum {
    EXEC_TAG_LOSS = 30000,
    EXEC_TAG_STOP,
    EXEC_TAG_TRACE,
    EXEC_TAG_TIMING,
    EXEC_TAG_PING,
    EXEC_TAG_GROUP
};

/* What a call of MPI returned: a fault ends the job. */
void exec_mpi(exec_world *world, int code, const char *call);
/* exec_world_abort, and what for. */
void exec_world_abort_for(exec_world *world, exec_fault fault,
                          const char *cause) __attribute__((noreturn));
int32_t exec_usable_cores(void);

/* Zeroed memory for `what`, never NULL: a rank that has none ends the job. */
void *exec_world_alloc(exec_world *world, size_t count, size_t size,
                       const char *what);

/* Element-wise reduction (a P kind) over all ranks, in place; nothing to do
 * when alone. */
void exec_world_reduce(exec_world *world, ir_sbp_kind kind, ir_dtype dtype,
                       void *data, int64_t count);
void exec_world_bcast(exec_world *world, void *data, int64_t bytes,
                      int32_t root);
void exec_world_barrier(exec_world *world);

/* What a polling loop does when a round moved nothing: give way at once when
 * ranks share cores, else spin; then nap, the longer the longer it has waited.
 * Who wakes the world's parker ends a nap. */
typedef struct exec_idle {
    int64_t rounds; /* empty ones in a row */
    bool called;    /* whoever it waits for wakes the parker */
    bool at_once;   /* what it waits for is wanted within a fraction of a ms */
    int64_t since_ns;
} exec_idle;
void exec_idle_wait(exec_world *world, exec_idle *idle);

#endif
