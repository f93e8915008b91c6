/* Cuts by what plans take. Internal to this folder. */
#ifndef FS_SEARCH_RECUT_H
#define FS_SEARCH_RECUT_H

#include "search/level0.h"

/* Configurations whose plans are dearer than the best by more are not cut
 * again: between two cuts of one there is rarely as much. */
#define SEARCH_NEAR 0.25
/* Are any cut again? */
bool search_wants_cuts(const search_level0 *z);
/* What each piece takes by the values of c's network, which is built on a view
 * or on all of its graph (measure.c). */
search_measured *search_measured_by(search_level0 *z, const search_candidate *c,
                                    const search_view *view,
                                    const int32_t *value, fs_arena *arena);
/* The same of the values of its own network, with their seconds and prices. */
search_measured *search_measured_of(search_level0 *z, const search_candidate *c,
                                    const search_solution *solution);

/* Other cuts (recut.c): what a plan found for a configuration takes, piece by
 * piece, */
void search_measure(search_level0 *z, search_candidate *c,
                    const search_solution *solution);
/* something of the limits kept for them, */
void search_reserve(search_level0 *z);
/* and configurations cut again by that, as long as they promise something. They
 * join those that the proof speaks of, but for what is neither better nor
 * closed. */
fs_status search_recut(search_level0 *z, fs_err *err);
/* The same of the best plan alone, as soon as it is found: a better one makes
 * less enough of all others. */
fs_status search_recut_best(search_level0 *z, fs_err *err);
/* Where memory decides, cuts come before what is nearly closed takes all work;
 * of equal meshes. */
fs_status search_recut_early(search_level0 *z, fs_err *err);
/* Cuts at a glance, before what was tried once gets more work. */
void search_glance_early(search_level0 *z);
/* Those that are neither better nor closed are as if they had not been. */
void search_drop_useless(search_level0 *z);
/* Of the cuts besides the balanced ones that the proof speaks of, whether told
 * or not. */
uint64_t search_cuts_digest(const search_level0 *z);
/* What none of those takes less than that count and are not told; INFINITY. */
double search_walked_bound(const search_level0 *z);

#endif
