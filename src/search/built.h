/* Networks of layouts: made, tied, bounded and read back (build_*.c, tie.c,
 * lift.c, build_strategy.c). Internal to this folder. */
#ifndef FS_SEARCH_BUILT_H
#define FS_SEARCH_BUILT_H

#include "search/layout.h"
#include "search/engine/memo.h"

/* The network of a layout. Value k of node i of the graph is signature
 * sig[i][k]; from kept[i] on, with copies of what changes once per step made
 * anew for it. From left[i] on node i, which computes another again, is left
 * out: sig[i][k] says how that one made what its readers read, and by the last
 * value there are none. `loose` has a variable per node; in `net`, which
 * engines solve, those that are to be equal are one: node i is variable var[i].
 */
typedef struct search_built {
    const search_layout *layout;
    search_net loose, net;
    int32_t *var;
    ir_nd_sig **sig;
    int32_t *kept, *left;
    int32_t *domain;   /* [node] nodes of one number have equal tables */
    int32_t *out_slot; /* [loose.n_edges] which output of u v reads; -1: v's
                          next value is u's, or v computes u again */
    cost_memory *memory;
    int32_t *moment; /* [net.n_limits] which of memory's */
    double **apart;  /* [nodes][inputs] what an edge takes more, at least, where
                        a cut lies between its ends; NULL: nobody asked */
    int32_t empty;   /* a node that the filter leaves nothing, or -1 */
    int64_t steps;   /* of work that its tables took */
    struct search_tables *tables; /* which are in these (tables.h) */
} search_built;

/* What cuts of p stages add to a micro-batch (crossings.c): all of them, and
 * each, at a place of the order of pieces, to the stage behind it and to the
 * one before it. */
typedef struct search_crossings {
    double all_s;
    double *behind, *before; /* [pieces + 1] none at the ends; NULL: nothing */
} search_crossings;
/* By a network that tells what is apart; ranks: of the whole graph. */
struct search_ranks;
search_crossings search_find_crossings(const search_built *built,
                                       const struct search_ranks *ranks,
                                       int32_t p, fs_arena *arena);
/* To seconds of nodes alone: all that what crosses takes at least. */
search_crossings search_find_floors(const search_built *built,
                                    const struct search_ranks *ranks, int32_t p,
                                    fs_arena *arena);

/* Of all of a graph on the devices of one stage of p, with its nodes' tables: a
 * bound of what p stages take, with what cuts add (NULL: nothing). */
double search_even_floor(const search_built *built, int32_t p,
                         const search_crossings *cuts);
/* The same of what a simulated step takes: no compute stream is done before the
 * mean one is, nor, if each has a core of its own, before the heaviest piece.
 */
double search_even_load(const search_built *built, int32_t p, bool crowded);
/* Which pieces are the heaviest; what follows counts them apart, */
void search_part_heaviest(search_built *built, search_layout *layout,
                          int32_t p);
/* at prices that prove a bound for p stages. */
struct search_prices search_even_prices(const search_built *built, int32_t p,
                                        fs_arena *arena);
/* Even prices where the fullest run of pieces, with what cuts add to it, takes
 * so many seconds of a step, which are returned and not of the prices; 0: no
 * more than the mean does. */
double search_run_prices(const search_built *built, int32_t p,
                         const search_crossings *cuts, fs_arena *arena,
                         struct search_prices *out);

/* From loose to net (tie.c); nodes before edges. */
void search_tie_nodes(search_built *built, fs_arena *arena);
void search_tie_edges(search_built *built, fs_arena *arena);

/* A bound for the whole network that a folded one stands for, in which layers
 * and stages may differ, at given prices (lift.c): one that reaches `enough`,
 * or as near to `upper`, which no bound at these prices exceeds (INFINITY: not
 * known), as it comes. 0 where nothing is known. It begins at the potentials
 * *phi (NULL: at nothing), which become those of the bound, in the arena; NULL:
 * nobody wants them. */
double search_lift(const search_built *built, const struct search_prices *at,
                   double upper, double enough, fs_deadline deadline,
                   fs_arena *arena, double **phi);
/* The same with the least of each node in the place of what stands for itself
 * alone, at no potentials: one minimum of a small network. */
double search_lift_core(const search_built *built,
                        const struct search_prices *at, double enough,
                        fs_deadline deadline);
/* The same where only a bound that reaches `enough` (finite) is of use, at
 * prices that it finds: of bytes, if `memory` may have any. Written to `prices`
 * are the best. */
double search_press(const search_built *built, bool memory, double enough,
                    fs_deadline deadline, fs_arena *arena,
                    struct search_prices *prices, double **phi);
/* Bytes that every assignment of it loads a limit with, likewise; 0. */
double search_lift_bytes(const search_built *built, int32_t limit,
                         fs_deadline deadline);

/* Tables of nodes that stand for several, made once each. */
typedef struct search_scaler {
    fs_arena *arena;
    search_memo known;
    FS_VEC(double *) made;
} search_scaler;
double *search_scaled(search_scaler *scaler, double *table, int64_t n,
                      int32_t times);

/* Nodes only: enough for a bound. Both return false when time ran out. */
bool search_build_nodes(const search_problem *problem,
                        const search_layout *layout, fs_arena *arena,
                        search_built *out);
bool search_build_edges(fs_arena *arena, search_built *built);
/* Inputs and constants are made where they are read. */
bool search_made_anywhere(const ir_graph *graph, int32_t maker);
/* Of a network that is not folded, with its nodes' tables, by what any move
 * between its stages takes at least: a bound. */
double search_cut_floor(const search_built *built, fs_arena *arena);
/* What it takes node v at least to have that tensor, if it is of another stage.
 */
double search_crossing_floor(const search_layout *layout, int32_t v,
                             int32_t tensor, bool per_step);

/* Solution -> strategy, with its boxing paths: of the network's own layout, or
 * of another one, whose node v is what rep[v] is of the network. */
/* Of two values of the maker of an edge between nodes: are they one to all
 * readers of that output? */
bool search_leaves_alike(const search_built *built, int32_t maker, int32_t slot,
                         int32_t a, int32_t b);
/* Which nodes of the layout's graph are left out: NULL, none is. */
bool *search_left_out(const search_built *built, const search_layout *layout,
                      const int32_t *rep, const int32_t *pick, fs_arena *arena);
/* The graph without them, and the strategy for it. */
const ir_graph *search_leave_out(const search_layout *layout, const bool *out,
                                 plan_strategy **strategy, fs_arena *arena);
plan_strategy *search_strategy(const search_problem *problem,
                               const search_built *built,
                               const search_layout *layout, const int32_t *rep,
                               const int32_t *pick, fs_arena *arena);

#endif
