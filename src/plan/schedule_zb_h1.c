#include "config.h"

#include "plan/schedule.h"

/* H1 (Qi et al. 2023, arXiv 2401.10241, section 2): weight slots come later
 * the later the role, so that all hold as many activations as 1f1b's first, p,
 * with a bubble of (p - 1) (f + b - w); f, b and w are the seconds of a role's
 * forward, backward and weight slots. */
void plan_schedule_zb_h1(const plan_turn *turn, plan_slot *slots)
{
    plan_slots_alternate(turn, turn->n_roles - turn->role - 1, turn->role,
                         slots);
}
