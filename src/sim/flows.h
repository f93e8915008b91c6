/* Flows over routes of links, max-min fair: nobody can have more without
 * another having less that has no more than he has (Bertsekas and Gallager,
 * Data Networks, 6.5.2). What a flow has hangs on which others are there now,
 * never on how that came about: all is integer arithmetic, and where a link's
 * share is not whole, the rest is left. */
#ifndef FS_SIM_FLOWS_H
#define FS_SIM_FLOWS_H

#include "base/arena.h"

#include <stdbool.h>

/* A flow is one of several streams that all have the same rate: of these, `n`
 * cross the link. */
typedef struct sim_use {
    int32_t link, n;
} sim_use;

typedef struct sim_flows sim_flows;

/* bps: [n_links] what each carries in a second, above 0. */
sim_flows *sim_flows_create(int32_t n_links, const double *bps, int32_t n_flows,
                            fs_arena *arena);
/* Before it starts: the links that it crosses, each once; a stream of it has at
 * most `most_bps` (INFINITY: what the links give). It must cross a link. */
void sim_flows_route(sim_flows *f, int32_t flow, const sim_use *uses, int32_t n,
                     double most_bps);
void sim_flows_start(sim_flows *f, int32_t flow);
void sim_flows_end(sim_flows *f, int32_t flow);
/* After starts and ends: solves anew what they reach, as far as rates change.
 * Returns the flows that run and have another rate now, *n of them. */
const int32_t *sim_flows_solve(sim_flows *f, int32_t *n);
/* Of a stream of the flow, as solved last; and what it would have alone. In
 * the same unit, of which sim_flows_bps is the size. */
int64_t sim_flows_rate(const sim_flows *f, int32_t flow);
int64_t sim_flows_alone(const sim_flows *f, int32_t flow);
double sim_flows_bps(const sim_flows *f);

#endif
