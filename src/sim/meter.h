/* What a role does over time, and how many bytes live meanwhile. */
#ifndef FS_SIM_METER_H
#define FS_SIM_METER_H

#include "plan/actor_chain.h"
#include "plan/actor_wakes.h"

/* What there is to know of a task, told once: two in a line of the cache, for
 * a large plan's are gone through again and again. */
typedef struct sim_task {
    int64_t demand_ps; /* alone */
    uint64_t wakes;    /* streams of its role that may go on when it is done
                          (plan_stream_bit) */
    int32_t line;      /* communicator, or behind those the channel; -1: none;
                          once all is made, its place in lanes' `lines` */
    bool on_core;      /* of cores that are shared */
    bool loads, computes, communicates;
    bool slowed; /* by collectives beside it */
} sim_task;

/* What a chain does from its start to the end of one of its parts. */
typedef struct sim_sums {
    int64_t busy_ns, comm_ns, both_ns;
} sim_sums;

/* A chain over time. */
typedef struct sim_span {
    const plan_chain *chain;
    uint64_t wakes;
    int64_t end_ns;                 /* since its start */
    sim_sums *sums;                 /* [parts] by their ends */
    int64_t peak_bytes, live_bytes; /* above those when the first has claimed:
                                       the most at once, those at its end */
} sim_span;

/* A line of the cache, and one more for chains. */
typedef struct sim_meter {
    /* Jobs running now; chains are not among them. */
    int32_t communicating;
    int8_t computing;    /* of the compute streams, which are few */
    bool spans, claimed; /* does a chain; what its next part claims */
    int64_t since_ns;
    int64_t busy_ns, comm_ns, exposed_ns; /* summed up */
    int64_t live_bytes, peak_bytes;
    /* The chain that runs now, and how far it is counted. */
    const sim_span *span;
    int64_t span_start_ns;
    int32_t ended; /* of the span's parts */
    sim_sums counted;
} __attribute__((aligned(64))) sim_meter;

/* tasks: of the role. */
sim_span *sim_span_make(const plan_chain *chain, const sim_task *tasks,
                        fs_arena *arena);

/* Adds the time since the last call; before every change of the counts. What
 * starts at an instant claims its bytes after all that ends then has let go of
 * its own: `begun` tells that it has come to that. */
void sim_meter_pass(sim_meter *m, int64_t now_ns, bool begun);
static inline void sim_meter_advance(sim_meter *m, int64_t now_ns, bool begun)
{
    if ((m->since_ns != now_ns) | m->spans)
        sim_meter_pass(m, now_ns, begun);
}
static inline void sim_meter_count(sim_meter *m, const sim_task *task,
                                   int32_t change)
{
    /* Nothing to guess: tasks of all kinds follow each other. */
    const bool computes = task->computes & !task->communicates;
    m->communicating += change & -(int32_t)task->communicates;
    m->computing += (int8_t)(change & -(int32_t)computes);
}
static inline void sim_meter_claim(sim_meter *m, int64_t bytes)
{
    m->live_bytes += bytes;
    if (m->live_bytes > m->peak_bytes)
        m->peak_bytes = m->live_bytes;
}
/* A chain starts; it ends when advanced to its end. */
void sim_meter_start(sim_meter *m, const sim_span *span, int64_t now_ns);
/* Bytes that are live from start to end of a run. */
int64_t sim_standing_bytes(const plan_role *role);

#endif
