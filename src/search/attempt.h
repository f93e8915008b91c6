/* Attempts at one configuration. Internal to this folder. */
#ifndef FS_SEARCH_ATTEMPT_H
#define FS_SEARCH_ATTEMPT_H

#include "search/level0.h"

/* A bound (seconds) that reaches this needs no further proof. */
double search_enough(const search_level0 *z);
/* Is its own plan the best one, or as near as is wanted? */
bool search_closed(const search_level0 *z, const search_config *record);
const char *search_status_of(const search_level0 *z,
                             const search_config *record);
/* Progress, if anybody looks: what is done with a configuration. */
void search_say(const search_level0 *z, const search_candidate *c,
                const char *what);

/* All tables of several, by as many hands as there are. How many there are to
 * solve, and time for, which are the first of the list then. */
int32_t search_prepare(search_level0 *z, search_candidate **list, int32_t n);
/* Of one, of the layout shown: its nodes' (false: there is nothing to solve, or
 * no time; of its whole cut by a crew's hand, with that hand's model), and its
 * edges' (false: no time). */
bool search_node_tables(search_level0 *z, search_candidate *c);
bool search_own_nodes(search_level0 *z, search_candidate *c);
bool search_edge_tables(search_candidate *c);
void search_raise_bound(search_candidate *c, double bound_s);
/* It has no plan. */
void search_reject(search_candidate *c, const char *status, const char *why);
/* And what was found with them. */
void search_drop_tables(search_candidate *c);
/* And what engines met: those of a folded network all that they looked at, of
 * another one plans that did not fit. */
struct search_met *search_met_of(search_candidate *c);
void search_forget_met(search_candidate *c);
/* Tables of what is settled and not the best are not needed any more. */
void search_release(const search_level0 *z, search_candidate *c);

/* Where a plan is known, most configurations are proven to have none that is
 * better sooner than an engine finds their best: has it not been tried yet? */
bool search_may_press(const search_level0 *z, const search_candidate *c);
/* Was it pressed for much more than what is enough now? */
bool search_pressed_for_more(const search_level0 *z, const search_candidate *c);
/* A crew's job for one that is posed: raises its bound by prices alone, at
 * which an engine may begin. */
void search_press_one(search_level0 *z, search_candidate *c);

/* An attempt, in three parts: what an engine is to say of the candidate's
 * network, in `seconds` of work; */
void search_pose(search_level0 *z, search_candidate *c, double seconds);
/* its answer, a crew's job; */
void search_answer(search_level0 *z, search_candidate *c);
/* and what follows from it. */
fs_status search_conclude(search_level0 *z, search_candidate *c, fs_err *err);
/* The configuration that the first plan is of is asked for a better one in the
 * place of a bound, once: what is enough of all others follows from it. Of
 * those that are to be pressed: how many are, few beside it. What each does, a
 * crew's job. Those that answered are done with, *n others are left. */
int32_t search_ask_first(const search_level0 *z, search_candidate **list,
                         int32_t n);
void search_press_or_answer(search_level0 *z, search_candidate *c);
fs_status search_conclude_first(search_level0 *z, search_candidate **list,
                                int32_t *n, fs_err *err);
/* An attempt at its whole network. Its tables stay those of the folded one,
 * which may have the best plan, unless this has a better one. */
fs_status search_solve_whole(search_level0 *z, search_candidate *c,
                             double seconds, fs_err *err);

/* Bounds whatever the cut: from shares of its work alone (shares.h), from
 * seconds of nodes, from all tables but bytes. */
void search_look(search_level0 *z, search_candidate *c);
/* First by shares alone, once for those that differ by their meshes. */
void search_look_at_shares(search_level0 *z, search_candidate *const *list,
                           int32_t n);
/* By seconds of nodes, whether shares are enough or not; the least of all. */
void search_look_at_nodes(search_level0 *z, search_candidate *c);
void search_look_at_least(search_level0 *z);
void search_weigh(search_level0 *z, search_candidate *c);
/* Once more, for any_cut_s, of one that its own cut ruled out: whatever it has
 * of its own stays. */
void search_weigh_every_cut(search_level0 *z, search_candidate *c);
/* What is cheapest with every stage at the same price, of the last one's
 * network, made anew; NULL: there is nothing. */
const int32_t *search_even_values(search_level0 *z, search_candidate *c);
/* At the prices of even stages, from all tables of a layout of all its graph on
 * the devices of one. */
double search_even_bound(const search_level0 *z, search_candidate *c);
/* Bounds of the candidate's own cut, from all tables but bytes and by what
 * moves between stages take at least, where its network is not folded: that of
 * one which is pressed. First its layout, which is the search's; false: it is
 * of no use. */
bool search_lay_out_own(search_level0 *z, search_candidate *c);
/* Nothing but shares of their own cuts, one of those that differ by their
 * meshes alone for all. */
void search_share_own(search_level0 *z, search_candidate *const *list,
                      int32_t n);
void search_weigh_own(search_level0 *z, search_candidate *c);
/* Of one that is laid out, by a crew's hand: that bound from seconds of nodes
 * alone (false: there is nothing to solve); by prices that rise so often (0: as
 * long as that is of use) until it is enough, and those that prove most (NULL:
 * none was asked for); and all its tables. */
bool search_floor_own(search_level0 *z, search_candidate *c);
const struct search_prices *search_press_own(search_level0 *z,
                                             search_candidate *c,
                                             int32_t rounds, double enough);
bool search_build_own(search_level0 *z, search_candidate *c);
/* Where memory has a price: a plan in which layers of a stage differ
 * (splice.c), of two assignments of each stage, of which one takes too much and
 * the other does not (NULL: not all have such). `scale`: what a step takes,
 * about. */
search_ends *search_splice_ends(const search_net *net, double scale,
                                fs_deadline deadline, uint32_t without,
                                fs_arena *arena);
void search_splice(search_level0 *z, search_candidate *c,
                   const search_ends *ends);
/* Attempts at two configurations at most, at once, with the effort of that
 * pass, unless they had as much. */
fs_status search_solve_few(search_level0 *z, search_candidate **list, int32_t n,
                           int32_t pass, fs_err *err);

#endif
