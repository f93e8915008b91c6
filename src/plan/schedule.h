/* Schedules as data: the order in which a role runs its (phase, micro-batch,
 * chunk). */
#ifndef FS_PLAN_SCHEDULE_H
#define FS_PLAN_SCHEDULE_H

#include "plan/plan.h"

/* Where stage i of a pipeline over p roles lies. */
typedef enum plan_placing {
    PLAN_PLACED_ONCE,  /* on role i; as many stages as roles */
    PLAN_PLACED_ROUND, /* on role i mod p; a multiple of p stages */
    PLAN_PLACED_V      /* on role i, then back: 2 p - 1 - i; 2 p stages */
} plan_placing;

/* A role of a pipeline: the role-th of n_roles in the order of their first
 * stages, running n_chunks stages each. */
typedef struct plan_turn {
    int32_t role, n_roles, n_chunks, micro_batches;
} plan_turn;

/* Fills the slots between BEGIN and END. */
typedef void plan_schedule_fn(const plan_turn *turn, plan_slot *slots);
#define PLAN_SCHEDULE(id, ...) plan_schedule_fn plan_schedule_##id;
#include "plan/schedules.def"
#undef PLAN_SCHEDULE
/* What several of them are: after `ahead` forwards one forward, one backward,
 * in turns; where weights have slots of their own, each `delay` backwards
 * behind its own backward; delay -1: they have none. */
void plan_slots_alternate(const plan_turn *turn, int32_t ahead, int32_t delay,
                          plan_slot *slots);

typedef struct plan_schedule {
    const char *name;
    plan_schedule_fn *fill;
    plan_placing placing;
    bool splits;    /* weight gradients have slots of their own */
    int32_t passes; /* with streams of their own, at most PLAN_PASSES */
    bool whole;     /* all of fill and drain shows */
} plan_schedule;
/* NULL when unknown; plan_schedule_names lists them, comma-separated. */
const plan_schedule *plan_schedule_find(const char *name);
const char *plan_schedule_names(void);
/* How many slots it fills. */
int32_t plan_schedule_slots(const plan_schedule *schedule,
                            const plan_turn *turn);
/* Whose streams run a phase: with one pass all are in pass 0; with two, the
 * backward pass and what follows it are in pass 1. */
enum { PLAN_PASSES = 2 };
int32_t plan_schedule_pass(const plan_schedule *schedule, plan_phase phase);
/* The role that stage i of a pipeline over n_roles lies on. */
int32_t plan_placing_role(plan_placing placing, int32_t n_roles, int32_t stage);

/* Which stages share devices, and so a role. Roles stand in the order of their
 * first stages. */
typedef struct plan_pipeline {
    int32_t n_stages, n_roles, micro_batches;
    const plan_schedule *schedule; /* NULL: unknown */
    int32_t *role_of;              /* [n_stages] */
    int32_t *chunk_of;             /* [n_stages] place among its role's */
    int32_t *first;                /* [n_roles + 1] into: */
    int32_t *stage;                /* [n_stages] by role, ascending */
} plan_pipeline;
plan_pipeline plan_pipeline_of(const plan_stage *stages, int32_t n_stages,
                               const char *schedule, int32_t micro_batches,
                               fs_arena *arena);
/* FS_INVALID tells which stage its schedule wants on other devices, or of
 * another mesh than that of the others there. */
fs_status plan_pipeline_check(const plan_pipeline *pipe,
                              const plan_stage *stages, fs_err *err);

/* The whole program of a role: BEGIN, the schedule's slots, END. */
int32_t plan_program_slots(const plan_pipeline *pipe, int32_t role);
void plan_program_fill(const plan_pipeline *pipe, int32_t role,
                       plan_slot *slots);

/* Most (micro-batch, chunk) whose forward began and whose activations are
 * still held: up to the end of their last slot. */
int32_t plan_schedule_in_flight(const plan_slot *slots, int32_t n);
/* Most micro-batches whose slot `from` began and whose slot `to` has not
 * ended (micro_batch of the two is of no account). */
int32_t plan_schedule_held(const plan_slot *slots, int32_t n, plan_slot from,
                           plan_slot to);

/* When slots end if each takes one unit and waits only for the one before it
 * on its role, for the same micro-batch's forward of the stage before and
 * backward of the stage behind. */
typedef struct plan_pace {
    int32_t n_stages, micro_batches;
    int32_t *ends; /* [n_stages][3: forward, backward, weight][micro_batches] */
} plan_pace;
/* Of a pipeline with a schedule. */
plan_pace plan_pace_of(const plan_pipeline *pipe, fs_arena *arena);

/* Seconds from the first slot to the end of the last, where slots of a stage
 * take seconds[3 * stage + (forward, backward, weight)] and wait likewise. */
double plan_schedule_span(const plan_pipeline *pipe, const double *seconds);

/* How much of the pipeline's fill and drain shows, step after step, when slots
 * are equally long: what a role waits, (span - m u) / ((p - 1) u) for p roles
 * of u slots per micro-batch, of the role that waits most; 0 to 1. 1 of 1f1b, 1
 * / v of v stages per role, 1/3 of zb-h1, 0 of zb-h2 and zb-v, of few
 * micro-batches more. 1 where a schedule does not suit its stages. */
/* Of as many more it is the same as of so few that all roles are busy in
 * between (schedules may go by groups of as many as there are stages). */
int32_t plan_schedule_enough(int32_t n_stages, int32_t micro_batches);
double plan_schedule_fill(const plan_pipeline *pipe, const plan_stage *stages);

/* What is made in one place and read in another. */
typedef struct plan_crossing {
    int32_t from, to;      /* stages */
    plan_phase made, read; /* FORWARD, BACKWARD or WEIGHT */
} plan_crossing;

/* Buffers that a receiving stage needs so that no sender waits for a reader
 * that keeps the pace, when the sender has two; `least` or more, at most m. */
int32_t plan_pace_buffers(const plan_pace *pace, const plan_crossing *crossing,
                          int32_t least);

#endif
