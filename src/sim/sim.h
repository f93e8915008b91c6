/* Discrete-event simulation of a plan: steps the actor protocol of plan/ with
 * durations from a timing table. Deterministic to the byte. Knows neither cost
 * nor kernels. */
#ifndef FS_SIM_SIM_H
#define FS_SIM_SIM_H

#include "base/clock.h"
#include "plan/actor.h"
#include "plan/timing.h"

typedef struct sim_options {
    int64_t steps;        /* iterations played; the last but one is steady */
    plan_trace *trace;    /* NULL: none. Filled for the last steps played, */
    int64_t traced_steps; /* so many of them; 0: 1 */
    bool live;            /* the trace tells live bytes too */
    double straggler;     /* 1.0; > 1 slows the compute of */
    int32_t straggler_rank;
    double jitter; /* relative deviation of each firing's time; 0: none. Where
                      there is some, all steps are played, and figures are means
                      over those but the first and the last */
    uint64_t seed; /* of it */
    bool in_full;  /* micro-batches that are alike are played one by one:
                      slow, and the same to the last bit */
    const fs_end *end; /* gives up then; NULL: never */
    /* Told which part of all firings has been, now and then; NULL: nobody is */
    void (*progress)(void *ctx, double part);
    void *progress_ctx;
} sim_options;

typedef struct sim_stage {
    double busy_s, comm_s, exposed_comm_s, idle_s; /* per iteration, per rank */
    int64_t peak_bytes; /* most bytes of live pieces at once */
} sim_stage;            /* of its devices: stages that share them have equal
                           figures */

typedef struct sim_result {
    double iteration_s; /* steady state: between ends of the steps before the
                           last */
    double bubble;      /* of the step: neither computing nor communicating, in
                           the mean over ranks */
    double comm_s, exposed_comm_s; /* of a rank and iteration, in the mean */
    int32_t n_stages;
    sim_stage *stages;
    int64_t n_steps, first_step, last_step; /* iteration_s is of these */
    double *step_s;  /* [n_steps] between ends of steps; of the first from 0 */
    int64_t events;  /* in all, */
    int64_t skipped; /* and of these not played, for they repeat others; */
    int64_t paired;  /* played as one with what runs beside them */
    double wall_s;
} sim_result;

/* FS_NO with the stalled heads when the plan deadlocks, or at options->end. */
fs_status sim_run(const ir_graph *graph, const plan *p,
                  const hw_cluster *cluster, const plan_timing *timing,
                  const sim_options *options, fs_arena *arena, fs_err *err,
                  sim_result *out);

#endif
