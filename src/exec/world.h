/* The ranks of the job, for the other files of this folder. One thread talks
 * to MPI (MPI_THREAD_SERIALIZED); a process that was not started by mpirun is
 * alone and never calls MPI. */
#ifndef FS_EXEC_WORLD_H
#define FS_EXEC_WORLD_H

#include "exec/exec.h"

#include <mpi.h>

struct exec_world {
    int32_t rank, size;
    int32_t on_host;     /* ranks on this host */
    int32_t cores;       /* for the ranks of this host */
    bool oversubscribed; /* more ranks on the host than cores */
    bool finalize;       /* MPI was started here */
    MPI_Comm comm;
};

enum { EXEC_TAG_LOSS = 30000, EXEC_TAG_TRACE, EXEC_TAG_TIMING, EXEC_TAG_PING };

/* Wraps every call of MPI: a fault ends the job. */
void exec_mpi(exec_world *world, int code, const char *call);
#define EXEC_MPI(world, call) exec_mpi((world), (call), #call)

/* Zeroed memory for `what`, never NULL: a rank that has none ends the job. */
void *exec_world_alloc(exec_world *world, size_t count, size_t size,
                       const char *what);

/* Element-wise reduction over all ranks, in place; nothing to do when alone.
 * Longer arrays than MPI's int counts go in parts. */
void exec_world_reduce(exec_world *world, void *data, int64_t count,
                       MPI_Datatype type, MPI_Op op);
void exec_world_bcast(exec_world *world, void *data, int64_t bytes,
                      int32_t root);
void exec_world_barrier(exec_world *world);

/* What a polling loop does when a round moved nothing: give way at once when
 * ranks share cores, sleep after many empty rounds. */
typedef struct exec_idle {
    int32_t rounds; /* empty ones in a row */
    int64_t nap_ns;
} exec_idle;
void exec_idle_wait(const exec_world *world, exec_idle *idle);

#endif
