/* Which links transfers and collectives cross, and so who slows whom. A line is
 * a communicator, or behind those a channel. */
#ifndef FS_SIM_ROUTES_H
#define FS_SIM_ROUTES_H

#include "plan/plan.h"
#include "sim/flows.h"

/* The flows of all lines; *shared: [lines] may it meet another on a link? Only
 * such ones are flows, for the others always have what they have alone. */
sim_flows *sim_routes_make(const plan *p, const hw_cluster *cluster,
                           fs_arena *arena, bool **shared);

#endif
