#include "config.h"

#include "plan/schedule.h"

#include <string.h>

typedef struct schedule_row {
    const char *name;
    plan_schedule_fn *fill;
} schedule_row;

static const schedule_row schedule_table[] = {
#define PLAN_SCHEDULE(id, name) {name, plan_schedule_##id},
#include "plan/schedules.def"
#undef PLAN_SCHEDULE
};

enum { N_SCHEDULES = sizeof schedule_table / sizeof schedule_table[0] };

plan_schedule_fn *plan_schedule_find(const char *name)
{
    for (int32_t i = 0; i < N_SCHEDULES; i++)
        if (strcmp(schedule_table[i].name, name) == 0)
            return schedule_table[i].fill;
    return NULL;
}

const char *plan_schedule_names(void)
{
    /* Each name brings the comma before it; the first one is skipped. */
    static const char names[] =
#define PLAN_SCHEDULE(id, name) ", " name
#include "plan/schedules.def"
#undef PLAN_SCHEDULE
        ;
    return names + 2;
}

void plan_schedule_program(const plan_strategy *strategy, int32_t stage,
                           plan_slot *slots)
{
    int32_t m = strategy->micro_batches;
    slots[0] = (plan_slot){PLAN_BEGIN, 0};
    plan_schedule_find(strategy->schedule)(stage, strategy->n_stages, m,
                                           slots + 1);
    slots[2 * m + 1] = (plan_slot){PLAN_END, m - 1};
}

int32_t plan_schedule_in_flight(const plan_slot *slots, int32_t n)
{
    int32_t now = 0, most = 0;

    for (int32_t i = 0; i < n; i++) {
        now += slots[i].phase == PLAN_FORWARD;
        most = now > most ? now : most;
        now -= slots[i].phase == PLAN_BACKWARD;
    }
    return most;
}
