/* Parts of the simulator; not for other folders. */
#ifndef FS_SIM_PARTS_H
#define FS_SIM_PARTS_H

#include "plan/actor_repeat.h"
#include "sim/heap.h"
#include "sim/meter.h"
#include "sim/resources.h"
#include "sim/routes.h"
#include "sim/sim.h"

/* What runs on a stream: from the firing of its head to its completion. A
 * transfer or collective of several roles is the job of one of its streams. */
typedef struct sim_job {
    int64_t left_ps; /* of the demand, at `updated_ns` */
    int64_t updated_ns, start_ns;
    int64_t rate;          /* fixed-point; 0: not set yet */
    const sim_span *span;  /* the chain that it is, or NULL */
    int32_t role, stream;  /* of that role */
    int32_t line, running; /* line -1: of this role alone; place in running */
    bool on_core, on_link, beside; /* slowed by: cores, links, collectives */
} sim_job;

typedef struct sim_head {
    int64_t ready_ns; /* -1: not seen ready yet */
    bool waits;       /* ready, but another stream's turn to compute */
} sim_head;

/* What a stream has to do with, all along, and its head: a line of the cache.
 */
typedef struct sim_lane {
    plan_actors *actors;
    const plan_cursor *cursor;
    const sim_task *tasks; /* of its role */
    sim_meter *meter;
    sim_head head;
    const plan_actor_task *acts; /* of its role, as are these: */
    const int32_t *lines;
} __attribute__((aligned(64))) sim_lane;

/* A communicator or channel: the roles that meet on it, and who has come. */
typedef struct sim_line {
    int32_t n_members, n_arrived;
    int32_t *arrived; /* [n_members] stream numbers over all roles; the first
                         has the job */
} sim_line;

/* Chains that begin with a task: that with the stream beside it first. Each as
 * 1 + its place in the list of all, -1: there is none, 0: not looked for. */
enum { SIM_PAIR, SIM_ALONE, SIM_SPANS };
typedef struct sim_spans {
    int32_t of[SIM_SPANS];
} sim_spans;

typedef struct sim_repeats sim_repeats;
typedef struct sim_watch sim_watch;
typedef struct sim_noise sim_noise;
typedef struct sim_beside sim_beside;

typedef struct simulation {
    const ir_graph *graph;
    const plan *p;
    const plan_timing *timing;
    const sim_options *options;
    fs_arena *arena; /* of this run */
    int64_t steps, now_ns, sequence;
    bool begun;                  /* at this instant, what starts now */
    int64_t n_events, n_skipped; /* of those, not played */
    int64_t n_paired;            /* of those, as part of a pair */
    plan_actors **actors;        /* [roles] */
    sim_task **tasks;            /* [roles][tasks] */
    double **seconds;            /* [roles][tasks] of them, alone */
    plan_chains **chains;        /* [roles]; NULL: none */
    sim_spans **spans;           /* [roles][variants * tasks] */
    FS_VEC(const sim_span *) all_spans;
    int32_t *first_stream;   /* [roles + 1] */
    int32_t *role_of;        /* [streams] */
    sim_lane *lanes;         /* [streams] */
    sim_job *jobs;           /* [streams] */
    sim_line *lines;         /* communicators, then channels */
    FS_VEC(int32_t) running; /* streams whose job shares cores */
    bool cores_change;       /* since their rates were set */
    sim_flows *flows;        /* of lines */
    sim_sharing *shared;     /* [lines] whom it may meet on a link */
    bool flows_change;
    int32_t *touched, n_touched; /* roles: heads may have become ready, */
    uint64_t *woken;             /* [roles] those of these streams */
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
    sim_beside *beside;   /* NULL: collectives slow no computing */
    int64_t traced_ns;    /* when the first traced event started; -1: not known,
                             and not asked */
} simulation;

static inline int64_t sim_ps_of(double seconds)
{
    return (int64_t)(seconds * 1e12 + 0.5);
}

/* ---- making (make.c), once the options stand ---- */

void sim_make(simulation *s, const hw_cluster *cluster);

/* ---- playing (play.c) ---- */

/* FS_NO when it stalls, or at the end of its time. */
fs_status sim_play(simulation *s, fs_err *err);

/* ---- micro-batches that are alike (repeat.c) ---- */

/* NULL: they are to be played. In the simulation's arena. */
sim_repeats *sim_repeats_create(const simulation *s);
/* Between two instants: goes on to where what happens stops repeating. */
void sim_repeats_skip(sim_repeats *r, simulation *s);

#endif
