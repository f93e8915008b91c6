#include "config.h"

#include "plan/schedule.h"

void plan_slots_alternate(const plan_turn *turn, int32_t ahead, int32_t delay,
                          plan_slot *slots)
{
    int32_t m = turn->micro_batches, n = 0, weights = 0;

    ahead = ahead < m ? ahead : m;
    for (int32_t k = 0; k < ahead; k++)
        slots[n++] = (plan_slot){PLAN_FORWARD, k, 0};
    for (int32_t k = 0; k < m; k++) {
        if (ahead + k < m)
            slots[n++] = (plan_slot){PLAN_FORWARD, ahead + k, 0};
        slots[n++] = (plan_slot){PLAN_BACKWARD, k, 0};
        if (delay >= 0 && k >= delay)
            slots[n++] = (plan_slot){PLAN_WEIGHT, weights++, 0};
    }
    while (delay >= 0 && weights < m)
        slots[n++] = (plan_slot){PLAN_WEIGHT, weights++, 0};
}

/* One forward, one backward (Narayanan et al. 2021, arXiv 2104.04473, section
 * 2.2): role r of p runs p - r - 1 forwards ahead, so that it holds the
 * activations of p - r micro-batches at most. */
void plan_schedule_1f1b(const plan_turn *turn, plan_slot *slots)
{
    plan_slots_alternate(turn, turn->n_roles - turn->role - 1, -1, slots);
}
