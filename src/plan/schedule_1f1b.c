#include "config.h"

#include "plan/schedule.h"

/* One forward, one backward (Narayanan et al. 2021, arXiv 2104.04473, section
 * 2.2): stage s of p runs p - s - 1 forwards ahead, then alternates, so that it
 * holds the activations of p - s micro-batches at most. */
void plan_schedule_1f1b(int32_t stage, int32_t n_stages, int32_t m,
                        plan_slot *slots)
{
    int32_t ahead = n_stages - stage - 1, n = 0;

    ahead = ahead < m ? ahead : m;
    for (int32_t k = 0; k < ahead; k++)
        slots[n++] = (plan_slot){PLAN_FORWARD, k};
    for (int32_t k = 0; k < m; k++) {
        if (ahead + k < m)
            slots[n++] = (plan_slot){PLAN_FORWARD, ahead + k};
        slots[n++] = (plan_slot){PLAN_BACKWARD, k};
    }
}
