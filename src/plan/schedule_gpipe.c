#include "config.h"

#include "plan/schedule.h"

/* All forwards, then all backwards (Huang et al. 2019, arXiv 1811.06965). The
 * backwards run in the order of the forwards, so that gradients arrive in the
 * order in which they were sent. */
void plan_schedule_gpipe(const plan_turn *turn, plan_slot *slots)
{
    int32_t m = turn->micro_batches;

    for (int32_t k = 0; k < m; k++) {
        slots[k] = (plan_slot){PLAN_FORWARD, k, 0};
        slots[m + k] = (plan_slot){PLAN_BACKWARD, k, 0};
    }
}
