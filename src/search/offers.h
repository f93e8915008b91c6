/* What is told in the end: the best plan, others, or why there is none
 * (plans.c, result.c). Internal to this folder. */
#ifndef FS_SEARCH_OFFERS_H
#define FS_SEARCH_OFFERS_H

#include "search/built.h"
#include "search/level0.h"

/* Where there is a ranking, plans of configurations (plans.c). Is one of that
 * cost among those to keep? It may not fit; the first of them is the one kept.
 */
bool search_wants(const search_level0 *z, const search_candidate *c,
                  double cost_s);
void search_offer(search_level0 *z, const search_kept *found);
/* That of values of its network. */
void search_offer_values(search_level0 *z, search_candidate *c,
                         const search_built *built,
                         const search_solution *solution);
void search_withdraw(search_level0 *z, const search_candidate *c);
/* Is a plan of it among those, or the best? */
bool search_is_offered(const search_level0 *z, const search_candidate *c);
/* Plans of configurations that were not solved, as long as there are not as
 * many as are wanted. */
void search_more_plans(search_level0 *z);
/* result->plans: of the offers those that fit, with what cost_strategy and the
 * ranking say. */
void search_list_plans(search_level0 *z, search_result *out);
/* Does the best plan fit, if that was a guess? Of a part, whose plan the whole
 * proves, a guess will do. */
bool search_prove_fit(search_level0 *z);
/* How its graph comes of problem->again's. */
search_again search_again_of(const search_level0 *z, const search_kept *kept);

/* What is told in the end (result.c): of a plan, or why there is none. */
/* False: a plan was taken to fit that does not. */
bool search_fill_best(search_level0 *z, search_result *out);
fs_status search_fill_none(search_level0 *z, fs_err *err, search_result *out);

#endif
