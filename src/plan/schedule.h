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

#endif
