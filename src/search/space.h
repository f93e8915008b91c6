/* The space: which configurations there are (configs.c, wider.c). Internal to
 * this folder. */
#ifndef FS_SEARCH_SPACE_H
#define FS_SEARCH_SPACE_H

#include "search/level0.h"

/* Of problem->graphs, kind of states by kind, how many of the first need not be
 * looked at (wider.c): with the narrower ones that follow no plan is worse. */
int32_t search_wider_graphs(const search_problem *problem);

/* The space (configs.c): all configurations, and those that come of others. */
void search_enumerate(search_level0 *z);
/* One for each schedule in the place of one for all. */
void search_tell_schedules_apart(search_level0 *z, search_candidate *c);
/* Memory had a say: with what is computed again chosen, there may be better
 * ones. */
void search_ask_again(search_level0 *z, search_candidate *c);
/* Do more devices than cores share a node? */
bool search_is_crowded(const search_level0 *z);
/* What no plan of a configuration takes less than when simulated (simulated.c),
 * by the tables of the nodes of all of its graph on the devices of one stage;
 * and no plan of the space: 0, nothing is known. */
double search_sim_floor(search_level0 *z, const search_candidate *c);
double search_sim_bound(search_level0 *z);
/* That of `of`, its stages cut as `part` says. */
search_candidate *search_add_part(search_level0 *z, const search_candidate *of,
                                  const search_part *part);
/* The configuration of a planner's plan, which may have more axes than those
 * that are enumerated. */
search_candidate *search_candidate_of(search_level0 *z,
                                      const search_result *found);

#endif
