#include "config.h"

#include "plan/schedule.h"

/* Order emerges from credits: forward and backward have streams of their own,
 * each with its micro-batches ascending, and whichever has its inputs and room
 * for its outputs runs. The slots bind neither to the other. They are what is
 * wanted: 1f1b's order, kept as long as nobody is late (plan_actor_turn). From
 * them follow the credits, so that no more micro-batches are in flight than
 * under 1f1b; and since theirs is one of the orders that may emerge, it is
 * live. */
void plan_schedule_dynamic(const plan_turn *turn, plan_slot *slots)
{
    plan_schedule_1f1b(turn, slots);
}
