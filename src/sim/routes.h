/* Which links transfers and collectives cross, and so who slows whom. A line is
 * a communicator, or behind those a channel. */
#ifndef FS_SIM_ROUTES_H
#define FS_SIM_ROUTES_H

#include "plan/plan.h"
#include "sim/flows.h"

/* Whom may a line meet on a link? */
typedef enum sim_sharing {
    SIM_UNSHARED,   /* nobody: it always has what it has alone: no flow */
    SIM_WITH_ROLE,  /* what other streams of its one role run */
    SIM_WITH_OTHERS /* other roles' too, or itself is of several */
} sim_sharing;

/* The flows of all lines; *shared: [lines]. */
sim_flows *sim_routes_make(const plan *p, const hw_cluster *cluster,
                           fs_arena *arena, sim_sharing **shared);

#endif
