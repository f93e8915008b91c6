/* When a search ends: by work first, which is the same everywhere. Internal to
 * this folder. */
#ifndef FS_SEARCH_EFFORT_H
#define FS_SEARCH_EFFORT_H

#include "search/level0.h"

/* The limits of the problem; */
void search_limit(search_level0 *z);
/* those of the planner that it starts from. */
fs_end search_start_end(const search_level0 *z, search_problem *one);
/* So many steps in all, and that end, for what follows from it. */
fs_end search_freeing_end(const search_level0 *z, double *most_steps);
/* By when (steps done) rivals are to end: they have what is left of the work,
 * but no more than was done. */
double search_rivals_end(const search_level0 *z);
/* Seconds of work that a first attempt at a configuration takes at most. */
double search_first_effort(const search_level0 *z);
/* Steps of work done so far. */
int64_t search_steps(const search_level0 *z);
/* Is time, or the work that is allowed, over? */
bool search_over(search_level0 *z);
/* The problem's compact graphs cannot say it. */
void search_outgrow(const search_problem *problem);
bool search_is_outgrown(const search_problem *problem);
/* A round leaves some of both for plans that fit; */
void search_begin_round(search_level0 *z);
/* more, where its best plan does not. */
void search_shorten_round(search_level0 *z);
/* What became of those that were pressed: a round that rules most of them out
 * is longer, and has no sweeps. */
void search_note_pressed(search_level0 *z, search_candidate *const *list,
                         int32_t n);
bool search_rules_out(const search_level0 *z);
bool search_round_over(search_level0 *z);
/* Is it the turn of lean plans of likely configurations? They have as much as
 * all else since they began. */
bool search_sweep_is_next(const search_level0 *z);
/* For work on a candidate that ends with the search only, */
fs_deadline search_rest(const search_level0 *z, search_candidate *c);
/* for lean plans, which leave something for others, */
fs_deadline search_lean_rest(const search_level0 *z, search_candidate *c);
/* for scouts (anchor.c), one and, steps done, all of them, */
fs_deadline search_scout_rest(const search_level0 *z, search_candidate *c);
double search_scouts_end(const search_level0 *z);
/* and for one attempt of `seconds` of work; where memory decides the round ends
 * it, too. */
/* steps that all attempts together have left: INFINITY, any. */
double search_attempt_left(const search_level0 *z);
fs_deadline search_attempt(const search_level0 *z, search_candidate *c,
                           double seconds);

#endif
