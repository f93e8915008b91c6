/* Where the nodes of a configuration run (lay_out.c, pieces.c). Internal to
 * this folder. */
#ifndef FS_SEARCH_LAY_OUT_H
#define FS_SEARCH_LAY_OUT_H

#include "search/cuts/cut.h"
#include "search/level0.h"

/* Stages of a group of devices, where schedules do not each have their own, and
 * of the k-th of those. */
int32_t search_depth(const search_problem *problem);
int32_t search_depth_of(const search_problem *problem, int32_t k);
/* A candidate of another schedule: of as many groups of devices. */
void search_set_schedule(const search_problem *problem, int32_t k,
                         search_candidate *c);
/* Groups of devices. */
int32_t search_groups(const search_candidate *c);
/* Those made first are those of what happens per step. */
struct search_rates *search_rates_for(search_level0 *z, int32_t n_stages,
                                      int32_t micro_batches);
/* Stages, limits (times the candidate's share) and cut of a configuration;
 * its arena holds them. */
fs_status search_lay_out(search_level0 *z, search_candidate *c, fs_err *err);
/* The same configuration, of which nothing is known yet, in an arena of its own
 * that is the caller's. */
search_candidate search_anew(const search_candidate *c);
/* Without what its stages hold: enough for seconds. */
fs_status search_lay_out_cut(search_level0 *z, search_candidate *c,
                             fs_err *err);
/* As if it had not been solved, since its layout was let go with its tables:
 * `anew`, whose arena is made. */
bool search_lay_out_anew(search_level0 *z, const search_candidate *c,
                         search_candidate *anew);
/* All of its graph on the devices of one of its stages, with the schedule's
 * fill and drain: p stages take q sum_i a_i + (m - q) max_i a_i + max_i b_i >=
 * (q + (m - q) / p) a + b / p for a, b of the whole, however it is cut. Without
 * limits. */
void search_lay_out_even(search_level0 *z, search_candidate *c,
                         search_layout *out);
/* How much of fill and drain shows, by any schedule that it may have. */
double search_least_fill(search_level0 *z, const search_candidate *c);
/* Of a graph, once each; and the pieces of a layout's graph, or of a view of it
 * (NULL: there is none). */
const search_ranks *search_ranks_of(search_level0 *z, const ir_graph *graph);
const search_pieces *search_pieces_of(search_level0 *z,
                                      const search_layout *whole,
                                      const search_view *view);
/* The graph that a configuration is laid out with. */
const ir_graph *search_graph_of(search_level0 *z, const search_candidate *c);
/* The graph of a plan, as the result has it: what is bound to stages only lives
 * as long as the search. */
const ir_graph *search_lasting(const search_level0 *z, const ir_graph *graph);

#endif
