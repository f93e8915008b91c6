/* Timing beside the plan, and the trace that simulator and runtime write. */
#ifndef FS_PLAN_TIMING_H
#define FS_PLAN_TIMING_H

#include "plan/plan.h"

/* Where a duration is from. */
typedef enum plan_evidence {
    PLAN_BY_FORMULA,   /* rates and latencies of the machine */
    PLAN_INTERPOLATED, /* between measured points of the op */
    PLAN_MEASURED      /* of these very shapes */
} plan_evidence;

/* Isolated service demand of one firing: waiting and contention are the
 * simulator's. */
typedef struct plan_demand {
    double compute_s, memory_s; /* roofline: the larger one counts */
    double network_s;           /* bytes over the bottleneck link */
    double latency_s;           /* collective steps x link latency */
    double launch_s;            /* fixed cost of starting the task */
    double total_s;             /* what the simulator plays */
    bool on_core;               /* occupies a core of its host while it runs */
    plan_evidence known;
} plan_demand;

/* demand[role][task]. */
typedef struct plan_timing {
    const char *source; /* "predicted", or the run's id */
    int32_t n_roles;
    plan_demand **demand;
} plan_timing;
plan_timing *plan_timing_new(const plan *p, const char *source,
                             fs_arena *arena);

typedef struct plan_event {
    int32_t rank, stream, task;
    int32_t micro_batch;
    int64_t step; /* from 0; measured: of the training. Files count from 1 */
    int64_t ready_ns; /* could fire from here, for all this rank knows */
    int64_t start_ns, end_ns; /* of the work; a transfer's waits for nobody */
} plan_event;

/* Bytes that are live on a rank from then on, by class. */
typedef struct plan_live {
    int32_t rank;
    int64_t at_ns;
    int64_t bytes[PLAN_BYTES_KINDS];
} plan_live;

typedef struct plan_trace {
    fs_arena *arena;
    FS_VEC(plan_event) events;
    FS_VEC(plan_live) live; /* of simulated traces */
    FS_VEC(int32_t) path;   /* events of the critical path, in order */
    /* NULL: all of it is kept. Else a simulation hands over what there is,
     * again and again, and forgets it. Times are then its own: the first event
     * of all starts at first_ns. */
    void (*take)(void *ctx, const struct plan_trace *piece, int64_t first_ns);
    void *take_ctx;
} plan_trace;

/* A trace whose ranks noted when they came to their transfers: each starts when
 * the last of its members came. What was before is waiting (ready_ns stays). */
void plan_trace_arrivals(const plan *p, plan_trace *trace);

/* Of the last step, which may be of very many micro-batches: how many at either
 * end of it a trace of about `most` events over all ranks has room for, one at
 * least. 0: for all of it. */
int32_t plan_trace_ends(const plan *p, int64_t most);
static inline bool plan_trace_shows(const plan *p, int32_t ends,
                                    int32_t micro_batch)
{
    return ends == 0 || micro_batch < ends ||
           micro_batch >= p->micro_batches - ends;
}

/* Where time or bytes go, as a tree, so that report draws it without knowing
 * who computed it. */
typedef struct plan_breakdown {
    const char *name;
    double value;
    const char *note; /* "bound by memory", or NULL */
    int32_t n;
    struct plan_breakdown *child; /* [n] */
} plan_breakdown;

/* What ranks allocate, exactly: roles -> kinds. The root is the largest. */
plan_breakdown plan_memory_tree(const plan *p, fs_arena *arena);

#endif
