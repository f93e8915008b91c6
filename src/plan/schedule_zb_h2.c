#include "config.h"

#include "plan/schedule.h"

/* H2 (Qi et al. 2023, arXiv 2401.10241, section 2): as H1 with twice as many
 * forwards ahead and weights twice as late: 2 p - 1 activations, and a bubble
 * of (p - 1) (f + b - 2 w). */
void plan_schedule_zb_h2(const plan_turn *turn, plan_slot *slots)
{
    plan_slots_alternate(turn, 2 * (turn->n_roles - turn->role - 1),
                         2 * turn->role, slots);
}
