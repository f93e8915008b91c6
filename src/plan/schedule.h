/* Schedules as data: the order in which a stage runs (phase, micro-batch). */
#ifndef FS_PLAN_SCHEDULE_H
#define FS_PLAN_SCHEDULE_H

#include "plan/plan.h"

/* Forward and backward slots of `stage` (of n_stages) for m micro-batches;
 * 2 m slots. Rows of schedules.def are such functions. */
typedef void plan_schedule_fn(int32_t stage, int32_t n_stages, int32_t m,
                              plan_slot *slots);
#define PLAN_SCHEDULE(id, name) plan_schedule_fn plan_schedule_##id;
#include "plan/schedules.def"
#undef PLAN_SCHEDULE
/* NULL when unknown; plan_schedule_names lists them, comma-separated. */
plan_schedule_fn *plan_schedule_find(const char *name);
const char *plan_schedule_names(void);

/* The whole program of a stage: BEGIN, the schedule's slots, END; 2 m + 2. The
 * strategy's schedule is a known one. */
void plan_schedule_program(const plan_strategy *strategy, int32_t stage,
                           plan_slot *slots);

/* Most micro-batches whose forward began and backward has not ended. */
int32_t plan_schedule_in_flight(const plan_slot *slots, int32_t n);

/* When slots end if each takes one unit and waits only for the one before it
 * on its stage, for the same micro-batch's forward on the stage before and
 * backward on the stage behind. */
typedef struct plan_pace {
    int32_t n_stages, micro_batches;
    int32_t *ends; /* [n_stages][2: forward, backward][micro_batches] */
} plan_pace;

plan_pace plan_pace_of(plan_schedule_fn *fill, int32_t n_stages, int32_t m,
                       fs_arena *arena);

/* What is made in one place and read in another. */
typedef struct plan_crossing {
    int32_t from, to;      /* stages */
    plan_phase made, read; /* FORWARD or BACKWARD */
} plan_crossing;

/* Buffers that a receiving stage needs so that no sender waits for a reader
 * that keeps the pace, when the sender has two; `least` or more, at most m. */
int32_t plan_pace_buffers(const plan_pace *pace, const plan_crossing *crossing,
                          int32_t least);

#endif
