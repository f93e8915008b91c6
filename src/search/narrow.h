/* Plans that fit: rounds, misfits, lean plans, what is kept (narrow.c,
 * missing.c, start.c). Internal to this folder. */
#ifndef FS_SEARCH_NARROW_H
#define FS_SEARCH_NARROW_H

#include "search/level0.h"

/* The first plan (start.c), by problem->start. */
void search_start(search_level0 *z);
/* One that is a part of it: a plan, no proof. Its work is counted; false: there
 * is none. */
search_problem search_part_of(const search_level0 *z);
bool search_run_part(search_level0 *z, const search_problem *one,
                     search_result *found);
/* Keeps its plan, as that of this configuration, and what is to be beaten. */
void search_keep_found(search_level0 *z, search_candidate *from,
                       const search_result *found);
/* Other engines (rivals.c), where memory decides. */
fs_status search_try_rivals(search_level0 *z, fs_err *err);
/* And one to begin with, where memory refused plans. */
void search_start_uneven(search_level0 *z);
/* The usual space, where a wider one is asked for. */
void search_start_usual(search_level0 *z);
/* The cut of the best plan, where nothing is proven of it yet. */
fs_status search_prove_best_cut(search_level0 *z, fs_err *err);
/* Keeps the best plan, if it fits; else it is as if it had not been found. */
bool search_keep_fitting(search_level0 *z);
/* What a quick look finds for a configuration that is prepared (where memory
 * decides greedy's plan), kept if it fits; does it, or need it not? */
bool search_glance(search_level0 *z, search_candidate *c, search_solution *out);
/* The same in steps; of these the middle one is a crew's job. */
void search_pose_glance(search_level0 *z, search_candidate *c);
void search_answer_glance(search_level0 *z, search_candidate *c);
bool search_conclude_glance(search_level0 *z, search_candidate *c);
/* The same of one that an engine was asked about. What is best by the network
 * leaves nothing of the limits for what the network does not count; another
 * engine's plan may. */
void search_keep_other(search_level0 *z, search_candidate *c);
/* Keeps the best plan, if it fits; else nothing happens. */
bool search_keep_best(search_level0 *z);

/* All configurations by bound (qsort of pointers to them), the same however
 * the cluster is written. */
int search_by_bound(const void *a, const void *b);
void search_sort(search_level0 *z);
/* Solves configurations, best bound first, until no bound is below the best
 * or time runs out. */
fs_status search_explore(search_level0 *z, fs_err *err);
/* The same, until the best plan fits when it is lowered (narrow.c). */
fs_status search_explore_fitting(search_level0 *z, fs_err *err);
/* The gap that a search begins with and, after all that, cuts too, the tighter
 * one that was asked for (tighten.c; *gap: problem->gap). */
double search_first_gap(const search_problem *problem);
fs_status search_tighten(search_level0 *z, double *gap, fs_err *err);
/* Bounds of every cut of equal stages, too (any_cut_s); is there a search of
 * them, and do they say that no plan of any costs less than `enough`? */
void search_prove_every_cut(search_level0 *z);
bool search_has_every_cut(const search_problem *problem);
bool search_every_cut_proven(const search_level0 *z, double enough);
/* Or may one cost less, for all that is to be said of it? Where there is no
 * bound of every cut nothing is. */
bool search_every_cut_open(const search_level0 *z, double enough);
/* Explores on, where less than so much was proof enough before. */
fs_status search_explore_on(search_level0 *z, double was_enough_s, fs_err *err);
/* Where a better plan does not fit, and tells of moments that were missing,
 * before more is proven of it: true, and configurations are open again with
 * them. Where it tells of none others are asked for. */
bool search_learn_early(search_level0 *z);
void search_anchor_early(search_level0 *z);
/* Lean plans of the best one's configuration, if there were misfits before. */
void search_lean_best(search_level0 *z);
/* Where cuts leave much open, memory had no say, and the best plan there is is
 * wanted: is a rival's better? */
bool search_ask_rivals(search_level0 *z);
/* A plan as it is lowered: arenas beside limits and, where it exceeds these,
 * search_fits_or's nodes. */
typedef struct search_lowered {
    int64_t *limit, *bytes; /* [n_stages] */
    int32_t *fullest;       /* [n_stages] */
} search_lowered;
/* Moments that misfits show to be missing (missing.c). Of a plan of the
 * candidate's built network that does not fit: is there one at which what is
 * counted exceeds the limits? Then tables that are made from now on have it.
 */
bool search_note_missing(search_level0 *z, search_candidate *c,
                         const search_kept *found, const search_lowered *as);
/* A layout's memory with them, where its graph has any. */
void search_add_missing(const search_level0 *z, const search_candidate *c,
                        search_layout *layout);
/* Has it been given less than its limits? */
bool search_narrowed(const search_candidate *c);
/* What is proven for its whole limits; INFINITY: no plan of it fits. */
double search_bound(const search_candidate *c);
/* The same though another one says it, too. */
double search_own_bound(const search_candidate *c);

/* Plans that cost as much are of no interest; INFINITY: all are. */
double search_wanted(const search_problem *problem);
/* Keeps a plan that fits if it is the best so far. */
void search_keep(search_level0 *z, const search_kept *found);
/* One that does not fit. */
void search_note_misfit(search_level0 *z, const search_kept *found,
                        const int64_t *limit, const int64_t *bytes);
void search_stage_limits(const search_level0 *z, const search_layout *layout,
                         int64_t *limit);

#endif
