/* Plans of the whole graph and their memory. Internal to this folder. */
#ifndef FS_SEARCH_KEPT_H
#define FS_SEARCH_KEPT_H

#include "search/built.h"
#include "search/level0.h"

/* The strategy of values of the candidate's network `built`, for the whole
 * graph, and what the formula says of it; cost_s is that of the network, whose
 * layers and stages may stand for others. It stays while it is kept, offered,
 * or the misfit that is told of; others only until the next one is made. */
search_kept search_whole_plan(search_level0 *z, search_candidate *c,
                              const search_built *built, const search_mix *mix,
                              double cost_s);
/* Their memory (kept.c): an arena for the next one, in which it was made; */
fs_arena *search_plan_arena(search_level0 *z);
void search_plan_made(search_level0 *z, fs_arena *arena,
                      const plan_strategy *strategy);
/* of one that is told, which becomes the result's; all others' in the end. */
void search_plan_told(search_level0 *z, const plan_strategy *strategy);
void search_drop_plans(search_level0 *z);

#endif
