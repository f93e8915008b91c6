/* Why a step takes as long as it does: the chain of firings, each of which
 * began when the one before it ended, from the end of a simulated step back to
 * its begin; and which communication nothing hid. Read off a trace, so that the
 * simulation itself knows nothing of it. */
#ifndef FS_SIM_CRITICAL_H
#define FS_SIM_CRITICAL_H

#include "sim/sim.h"

/* What a piece of time went to. Kinds of communication stand last, those of
 * boxing in their table's order. */
typedef enum sim_class {
    SIM_FORWARD,
    SIM_BACKWARD,
    SIM_WEIGHT, /* gradients of weights, where they are split off */
    SIM_UPDATE,
    SIM_BOXING, /* local */
    SIM_LOADING,
    SIM_SLOWED,  /* longer than alone: cores and links shared, stragglers */
    SIM_WAITING, /* nothing on the path ran; 0 in a sound simulation */
    SIM_POINT_TO_POINT,
    SIM_COLLECTIVE, /* + plan_box_kind */
    SIM_CLASSES = SIM_COLLECTIVE + PLAN_BOX_KINDS
} sim_class;
const char *sim_class_name(sim_class what);
sim_class sim_class_of(const plan_task *task);

/* What came last of all that a firing waited for. */
typedef enum sim_why {
    SIM_BY_BEGIN,  /* what is traced begins with it */
    SIM_BY_DATA,   /* a piece that it reads */
    SIM_BY_STREAM, /* the firing before it on its stream */
    SIM_BY_BUFFER, /* a free register: credits */
    SIM_BY_PLACE,  /* a collective's place in the program */
    SIM_BY_TURN,   /* another stream of its rank computed */
    SIM_BY_LINE,   /* another stream used its communicator or channel */
    SIM_BY_NOTHING,
    SIM_WHYS
} sim_why;
const char *sim_why_name(sim_why why);

typedef struct sim_link {
    int32_t event;     /* of the trace */
    int32_t last;      /* of those who met, the event of who came last; itself
                          where it met nobody or was the last */
    sim_why why;       /* .. of `last` */
    int64_t from_ns;   /* its part of the path, up to the next one's, */
    int64_t to_ns;     /* or to the step's end */
    int64_t slowed_ns; /* of that, beyond its demand */
} sim_link;

typedef struct sim_sum {
    double seconds;
    int64_t firings; /* or, of exposed communication, tasks */
} sim_sum;

/* A task of a role, as far as it lies on the path. */
typedef struct sim_on_path {
    int32_t role, task;
    sim_sum sum;
} sim_on_path;

typedef struct sim_critical {
    int64_t begin_ns, end_ns; /* the measured step's, on the trace's clock */
    int32_t n_links;
    sim_link *links; /* ascending in time; they fill begin to end, but for */
    double waiting_s;
    sim_sum path[SIM_CLASSES]; /* seconds add up to the iteration */
    int64_t why[SIM_WHYS];     /* links by what they waited for */
    int64_t meetings;          /* links that waited for another role to come */
    int32_t n_tasks;
    sim_on_path *tasks; /* most seconds first */
    /* Seconds per iteration and rank in which a kind of communication ran and
     * nothing computed; where several did, each has an equal share. They add up
     * to sim_result.exposed_comm_s. `whole`: hidden or not. */
    sim_sum exposed[SIM_CLASSES];
    double whole_s[SIM_CLASSES];
} sim_critical;

/* Steps that the trace must hold (sim_options.traced_steps). */
enum { SIM_CRITICAL_STEPS = 2 };
/* Of the step that `result` measured; `trace` holds what the same simulation
 * pushed to it, from event 0 on. O(events log events). */
sim_critical sim_critical_of(const plan *p, const plan_timing *timing,
                             const plan_trace *trace, const sim_result *result,
                             fs_arena *arena);

/* The same of a plan of so many micro-batches that few tell how those between
 * them go on (critical_short.c), but for the links: there are none. `whole`:
 * what it simulates to, with the same options but for the trace. False: there
 * are not as many, or too few are steady. */
bool sim_critical_short(const ir_graph *graph, const plan *p,
                        const hw_cluster *cluster, const plan_timing *timing,
                        const sim_options *options, const sim_result *whole,
                        fs_arena *arena, sim_critical *out);

#endif
