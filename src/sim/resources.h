/* Who slows whom on cores. */
#ifndef FS_SIM_RESOURCES_H
#define FS_SIM_RESOURCES_H

#include "plan/pace.h"
#include "plan/plan.h"

/* A rank runs its tasks on one thread, and loads data on another. */
typedef enum sim_thread {
    SIM_THREAD_MAIN,
    SIM_THREAD_LOAD,
    SIM_THREADS
} sim_thread;

/* Ranks in one pool of cores. */
typedef struct sim_share {
    int32_t at, n;
} sim_share;

typedef struct sim_resources {
    const hw_cluster *cluster;
    int32_t *cores;               /* [devices] of the pool that a device names
                                     (hw_core_pool); 0: nothing is shared */
    int32_t *threads;             /* [devices] of it that run a job now */
    int32_t (*jobs)[SIM_THREADS]; /* [roles] on-core jobs on each thread */
    int32_t *n_pools;             /* [roles] */
    sim_share **pools;            /* [roles][n_pools] ranks in each */
} sim_resources;

void sim_resources_make(sim_resources *r, const plan *p,
                        const hw_cluster *cluster, fs_arena *arena);
/* Are there cores that ranks of a role share? */
bool sim_cores_shared(const sim_resources *r, int32_t role);
/* A job starts (change 1) or ends (-1) on a role's thread. */
void sim_cores_change(sim_resources *r, int32_t role, sim_thread thread,
                      int32_t change);
/* In (0, 1], of the speed that the job has alone. */
double sim_cores_rate(const sim_resources *r, int32_t role, sim_thread thread);

#endif
