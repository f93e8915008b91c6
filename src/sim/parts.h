/* Parts of the simulator; not for other folders. */
#ifndef FS_SIM_PARTS_H
#define FS_SIM_PARTS_H

#include "plan/actor_repeat.h"
#include "sim/sim.h"

/* ---- resources: who slows whom ---- */

/* Shares are fixed-point, so that progress is exact integer arithmetic. */
enum { SIM_RATE_BITS = 30 };
#define SIM_RATE_FULL ((int64_t)1 << SIM_RATE_BITS)

/* A rank runs its tasks on one thread, and loads data on another. */
typedef enum sim_thread {
    SIM_THREAD_MAIN,
    SIM_THREAD_LOAD,
    SIM_THREADS
} sim_thread;

/* `n` of something in one pool of cores or on one port. */
typedef struct sim_share {
    int32_t at, n;
} sim_share;

typedef struct sim_resources {
    const hw_cluster *cluster;
    int32_t n_ports;
    int32_t *cores;               /* [devices] of the pool that a device names
                                     (hw_core_pool); 0: nothing is shared */
    int32_t *threads;             /* [devices] of it that run a job now */
    int32_t (*jobs)[SIM_THREADS]; /* [roles] on-core jobs on each thread */
    int32_t *n_pools;             /* [roles] */
    sim_share **pools;            /* [roles][n_pools] ranks in each */
    int32_t *n_channel_ports;     /* [channels] */
    sim_share **channel_ports;    /* [channels] flows per port */
    int32_t *flows;               /* [ports] on their way now */
} sim_resources;

void sim_resources_make(sim_resources *r, const plan *p,
                        const hw_cluster *cluster, fs_arena *arena);
/* A job starts (change 1) or ends (-1) on a role's thread, on a channel. */
void sim_cores_change(sim_resources *r, int32_t role, sim_thread thread,
                      int32_t change);
void sim_channel_change(sim_resources *r, int32_t channel, int32_t change);
/* In (0, 1], of the speed that the job has alone. */
double sim_cores_rate(const sim_resources *r, int32_t role, sim_thread thread);
double sim_channel_rate(const sim_resources *r, int32_t channel);

/* ---- what a role does over time ---- */

typedef struct sim_meter {
    int32_t computing, communicating, occupied; /* jobs running now */
    int64_t since_ns;
    int64_t busy_ns, comm_ns, exposed_ns, occupied_ns; /* summed up */
    int64_t live_bytes, peak_bytes;
} sim_meter;

/* Adds the time since the last call; before every change of the counts. */
void sim_meter_advance(sim_meter *m, int64_t now_ns);
void sim_meter_count(sim_meter *m, const plan_role *role, const plan_task *task,
                     int32_t change);
/* Bytes that are live from start to end of a run. */
int64_t sim_standing_bytes(const plan_role *role);

/* ---- events: (time, sequence) in a binary heap ---- */

typedef struct sim_event {
    int64_t time_ns;
    int64_t sequence;
    int32_t job, version; /* of another version than its job's: stale */
} sim_event;
typedef struct sim_heap {
    fs_arena *arena;
    FS_VEC(sim_event) events;
} sim_heap;
void sim_heap_push(sim_heap *heap, sim_event event);
sim_event sim_heap_pop(sim_heap *heap);

/* ---- a run ---- */

/* What runs on a stream: from the firing of its head to its completion. A
 * transfer or collective of several roles is the job of one of its streams. */
typedef struct sim_job {
    int64_t left_ps; /* of the demand, at `updated_ns` */
    int64_t updated_ns, start_ns;
    int64_t rate;               /* fixed-point; 0: not set yet */
    int32_t role, stream, line; /* line -1: of this role alone */
    int32_t version, place;     /* place in `running` */
    bool on_core, on_link;
} sim_job;

typedef struct sim_head {
    int64_t ready_ns; /* -1: not seen ready yet */
    bool waits;       /* ready, but another stream's turn to compute */
} sim_head;

/* A communicator or channel: the roles that meet on it, and who has come. */
typedef struct sim_line {
    int32_t n_members, n_arrived;
    int32_t *arrived; /* [n_members] stream numbers over all roles */
} sim_line;

typedef struct sim_repeats sim_repeats;
typedef struct sim_watch sim_watch;
typedef struct sim_noise sim_noise;

typedef struct simulation {
    const ir_graph *graph;
    const plan *p;
    const plan_timing *timing;
    const sim_options *options;
    fs_arena *arena; /* of this run */
    int64_t steps, now_ns, sequence;
    int64_t n_events, n_skipped; /* of those, not played */
    plan_actors **actors;        /* [roles] */
    int32_t *first_stream;       /* [roles + 1] */
    int32_t *role_of;            /* [streams] */
    sim_job *jobs;               /* [streams] */
    sim_head *heads;             /* [streams] */
    sim_line *lines;             /* communicators, then channels */
    FS_VEC(int32_t) running;     /* streams whose job shares something */
    bool *touched;               /* [roles] whose heads may have become ready */
    sim_resources resources;
    sim_heap heap;
    sim_meter *meters; /* [roles] */
    int64_t firings;   /* of a step */
    int64_t *left;     /* [steps] firings to come */
    int64_t *end_ns;   /* [steps] */
    /* The meters are read over these, from the end of the one before. */
    int64_t first_measured, measured_step;
    sim_meter **at_end;   /* [steps][roles] */
    sim_repeats *repeats; /* NULL: everything is played */
    sim_watch *watch;     /* NULL: bytes are not told apart */
    sim_noise *noise;     /* NULL: firings take what they should */
} simulation;

/* ---- micro-batches that are alike (repeat.c) ---- */

/* NULL: they are to be played. In the simulation's arena. */
sim_repeats *sim_repeats_create(const simulation *s);
/* Between two instants: goes on to where what happens stops repeating. */
void sim_repeats_skip(sim_repeats *r, simulation *s);

#endif
