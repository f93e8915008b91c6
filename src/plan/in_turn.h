/* Where a rank computes nothing until what it sends is there, its SENDs stand
 * in the program of the compute stream (of their section), in their turn.
 *
 * The plan is for simulating: of what its roles hold all but tasks' streams is
 * shared with `p`. No place in memory changes: what waits holds no more. */
#ifndef FS_PLAN_IN_TURN_H
#define FS_PLAN_IN_TURN_H

#include "plan/plan.h"

const plan *plan_sends_in_turn(const plan *p, fs_arena *arena);

#endif
