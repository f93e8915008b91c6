/* The ranks of the job, for the other files of this folder. One thread of a
 * rank talks to the others (MPI_THREAD_SERIALIZED); a process that was not
 * started by mpirun is alone and never calls MPI. */
#ifndef FS_EXEC_WORLD_H
#define FS_EXEC_WORLD_H

#include "exec/exec.h"
#include "exec/failpoint.h"
#include "exec/link.h"
#include "exec/recorder.h"

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
    exec_bell own; /* of the polling thread, where no other process has it */
    exec_bell **bells;   /* [size] of ranks that can be called, its own among
                            them; NULL: no rank can */
    exec_records shared; /* where they lie, without a supervisor */
    int32_t long_waits;  /* in a row: exec_idle_wait */
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

/* ---- waiting ---- */

/* Where this rank sleeps. */
static inline exec_bell *exec_world_bell(exec_world *world)
{
    return world->bells ? world->bells[world->rank] : &world->own;
}
/* NULL: this rank cannot be called. */
static inline exec_bell *exec_bell_of(const exec_world *world, int32_t rank)
{
    return world->bells ? world->bells[rank] : NULL;
}
/* To a rank that may sleep: of this one. */
static inline void exec_ring(const exec_world *world, int32_t rank,
                             exec_cause cause)
{
    exec_bell *bell = exec_bell_of(world, rank);
    if (bell)
        exec_bell_ring(bell, cause, exec_bell_bit(world->rank));
}
/* All of them, for any message. */
void exec_ring_all(exec_world *world);
/* All ranks of a host together (NULL: alone), once they know their numbers. */
void exec_bells_open(exec_world *world, MPI_Comm host);
void exec_bells_close(exec_world *world);

/* What a polling loop does when a round moved nothing: give way at once when
 * ranks share cores, else spin; then sleep until it is called, or nap, the
 * longer the longer it has waited. */
typedef struct exec_idle {
    /* By who waits: */
    bool called;  /* whoever it waits for rings its bell */
    bool at_once; /* what it waits for is wanted within a fraction of a ms */
    exec_wants wants; /* who is to ring */
    /* Zeroes at first: */
    bool rung; /* for what it has not found yet */
    bool slept;
    int32_t looks;  /* since it was armed, this one too; 0: it is not */
    int64_t rounds; /* empty ones in a row */
    int64_t since_ns;
} exec_idle;
void exec_idle_wait(exec_world *world, exec_idle *idle);
/* Something moved, after rounds that did not. */
void exec_idle_end(exec_world *world, exec_idle *idle);

#endif
