/* What all meshes of a number of stages have in common (shares.c). Internal to
 * this folder. */
#ifndef FS_SEARCH_SHARES_H
#define FS_SEARCH_SHARES_H

#include "search/level0.h"
#include "search/cuts/parting.h"

/* Of all graphs; before hands that look share them. */
const struct search_shares *search_find_shares(search_level0 *z);
/* What its own cut may part, of what is computed again, by any schedule that it
 * may have: bounds before its attempts leave that out. */
const search_parting *search_parts_of(search_level0 *z,
                                      const search_candidate *c);
/* Do they hold for another cut of its stages? */
bool search_part_of_bound(search_level0 *z, const search_candidate *c,
                          const search_part *part);
/* A bound of all configurations of that graph, number of stages and schedule,
 * whatever their meshes and cuts; raises what is known of simulations, too. */
double search_share_floor(search_level0 *z, search_candidate *c);
/* The same of one cut, with what any move between its stages takes at least;
 * nothing of it is computed again or left out as is best. */
double search_share_cut_floor(const search_level0 *z, const search_layout *cut);
/* [nodes of its graph] The seconds that this is of. */
double *search_share_seconds(search_level0 *z, const search_candidate *c,
                             fs_arena *arena);

#endif
