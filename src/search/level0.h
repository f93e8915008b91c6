/* Level 0 of search: what its files share. Internal to this folder. */
#ifndef FS_SEARCH_LEVEL0_H
#define FS_SEARCH_LEVEL0_H

#include "search/view.h"

/* What an engine is asked about a configuration, and what it answers. */
typedef struct search_asked {
    search_budget budget;
    double seconds; /* of work, and as much again for what follows; but */
    double left;    /* no more steps than that in all, */
    int64_t begun;  /* from here on */
    fs_status status;
    search_solution solution; /* in the configuration's arena */
    fs_err err;
} search_asked;

/* Stages that are cut otherwise than all others of their number (recut.c). */
typedef struct search_part {
    int32_t number;       /* of those of the search */
    const int32_t *begin; /* [stages] as search_ranks counts; NULL: by time */
    const ir_mesh *mesh;  /* [stages] each has its own; NULL: all have one */
} search_part;

/* What a plan's pieces take where they run, by rank (search_ranks). */
typedef struct search_measured {
    const search_ranks *ranks;
    double *micro_s, *step_s; /* [ranks] without moves between stages */
    int32_t *stage;           /* [ranks] */
    double cost_s;            /* of the plan */
} search_measured;

/* A configuration on its way. */
typedef struct search_candidate {
    const search_graph *graph;
    int32_t n_stages;
    int32_t depth;             /* of these on a group of devices */
    ir_mesh mesh;              /* of the first stage */
    const search_part *part;   /* NULL: equal meshes, cut by time */
    search_measured *measured; /* NULL: not */
    double any_cut_s; /* bound however these stages are cut; 0: none is known */
    const char *schedule;    /* NULL: all that are to choose from */
    search_layout layout;    /* of the whole graph */
    search_layout shown;     /* what its network is built on: the same, or */
    const search_view *view; /* this view of it */
    search_built built;
    fs_arena *arena; /* its tables */
    search_config record;
    int64_t steps;               /* of work done */
    search_asked *asked;         /* the last time; NULL: never */
    int32_t asked_in;            /* this round, */
    double asked_s;              /* with so much work; 0: never */
    bool looked, weighed, tried; /* how far the first pass came with it */
    double pressed_s;      /* bound that it was pressed for by prices alone (0:
                              none), */
    double pressed_with_s; /* so much work, at */
    const struct search_prices *prices; /* these; NULL: of no byte */
    bool solved;                        /* an engine was asked */
    bool anchored;                      /* asked for lean plans */
    bool again;                         /* what is computed again is chosen, */
    bool covered;      /* or there is one for which it is, too */
    double weighed_s;  /* bound whatever the limits */
    bool whole;        /* its network is not to be folded, */
    bool unfolds;      /* or not any more */
    bool memory_binds; /* as the engine saw it */
    bool settled;      /* no further effort would change its record */
    bool bare;         /* moments as for any plan, whatever z->missing */
    bool anew;         /* there are moments that its tables lack */
    double share;      /* of the limits that its network has, */
    int32_t level, tried_level; /* where narrowed: that in steps (narrow.c), */
    int32_t top, under;         /* the highest; up to here nothing is better */
    bool fitted, exhausted;     /* there is such a level; no other is left */
    uint64_t levels;            /* that were tried, from the top on */
    double proven_s;    /* bound for the whole limits; 0: the record's */
    int64_t need_bytes; /* least memory, when that is what it lacks */
    char why[1024];     /* it is infeasible */
} search_candidate;

/* Configurations of equal p and m, or on cores enough for all, share the
 * boxing paths that were looked for; so do searches that are parts of one. */
typedef struct search_rates_entry {
    int32_t n_stages, micro_batches;
    search_rates *rates;
} search_rates_entry;

typedef struct search_book {
    fs_arena *arena;
    FS_VEC(search_rates_entry) rates;
} search_book;

/* A graph bound to the stages of a cut (ir_recompute_bind); meshes of one
 * number of stages mostly share the cut. */
typedef struct search_bound_graph {
    const ir_graph *from, *graph;
    int32_t *cut;      /* [nodes of from] */
    int32_t *stage_of; /* [nodes of graph] */
} search_bound_graph;

/* A graph cut into stages, folded; no view where that leaves nothing out. */
typedef struct search_folded {
    const ir_graph *graph;
    const int32_t *stage_of;
    int32_t devices; /* of a stage */
    const search_view *view;
    cost_standing standing;
    cost_program program;
    plan_stage *stages;
    cost_memory *memory;
} search_folded;

/* A graph cut into so many stages. */
typedef struct search_cut_made {
    const ir_graph *graph;
    int32_t n_stages, n_groups;
    const char *schedule;
    const search_part *part;
    fs_status status;
    const char *why;
    int32_t *stage_of;
    double fill;
} search_cut_made;

/* A plan, the best one that fits say, with its network's figures. */
typedef struct search_kept {
    search_candidate *from; /* NULL: none yet */
    const ir_graph *graph;  /* the layout's, but for copies left out: */
    const ir_graph *all;    /* of this one, with all of them, */
    const bool *left;       /* [its nodes] these; NULL: none */
    plan_strategy *strategy;
    double cost_s;
    bool fits; /* it was looked at when lowered */
    int32_t net_nodes, net_edges, kernel_nodes;
} search_kept;

/* A plan that search_whole_plan made, and all that it is made of. */
typedef struct search_whole {
    fs_arena *arena;
    const plan_strategy *strategy; /* NULL: there was none */
} search_whole;

/* Values of a folded network's variables for the whole graph: of the layers of
 * a stage the first, this share of them, have other ones. */
typedef struct search_mix {
    const int32_t *value, *other; /* NULL: all layers are alike */
    double share;
} search_mix;

/* A moment at which plans of a graph are fuller than at those of its memory. */
typedef struct search_missing {
    const ir_graph *graph; /* that networks are built on */
    cost_moment at;
} search_missing;

typedef struct search_level0 {
    const search_problem *asked;   /* what was asked, */
    const search_problem *problem; /* without graphs that need no look */
    search_engine_fn *engine;
    fs_arena *arena; /* of the result */
    fs_arena *scratch;
    search_book *book; /* the problem's, or its own */
    FS_VEC(search_bound_graph) bound;
    FS_VEC(search_folded *) folded;
    FS_VEC(search_cut_made *) cuts;
    FS_VEC(search_ranks *) ranks;
    FS_VEC(search_pieces *) pieces;
    FS_VEC(search_missing) missing;
    FS_VEC(search_whole) whole;
    const ir_graph **again;   /* [n_graphs] problem->again's so far; NULL */
    struct search_crew *crew; /* NULL: not needed yet */
    int64_t start_ns;
    fs_end end;
    fs_end round_end; /* of the round, when memory decides: time for others */
    int64_t most_steps, round_steps; /* the same in steps of work */
    int64_t other_steps;             /* done, besides the candidates' */
    bool late;                       /* a clock had a say */
    bool memory_decides;
    FS_VEC(search_candidate *) all;
    search_candidate *best; /* NULL: none yet */
    double best_s;
    int32_t *value; /* of the best */
    int32_t kernel_nodes;
    search_kept kept;
    FS_VEC(search_kept) offers; /* others, cheapest first (plans.c) */
    double first_s;             /* until there was one, */
    double proof_s;             /* and until no more was to be proven */
    int32_t n_anchored;         /* asked for lean plans */
    double lean_s;              /* the cheapest of these that was kept */
    int32_t n_recuts;           /* other cuts that were looked at, */
    int32_t n_parts;            /* and those that were numbered */
    int32_t round;        /* of explore: 0, then after each misfit one more */
    int32_t n_misfits;    /* plans that were found and did not fit */
    int64_t misfit_bytes; /* the smallest of their arenas, */
    int64_t misfit_limit; /* what it was held against, */
    const ir_graph *misfit_graph; /* and the plan */
    const plan_strategy *misfit;
} search_level0;

double search_seconds_since(int64_t start_ns);

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
/* That of `of`, its stages cut as `part` says. */
search_candidate *search_add_part(search_level0 *z, const search_candidate *of,
                                  const search_part *part);
/* The configuration of a planner's plan, which may have more axes than those
 * that are enumerated. */
search_candidate *search_candidate_of(search_level0 *z,
                                      const search_result *found);

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
void search_try_rivals(search_level0 *z);
/* Keeps the best plan, if it fits; else it is as if it had not been found. */
bool search_keep_fitting(search_level0 *z);
/* Asks a configuration for lean plans. */
void search_anchor_one(search_level0 *z, search_candidate *c);
/* An attempt at one configuration, with the effort of that pass. */
fs_status search_solve_one(search_level0 *z, search_candidate *c, int32_t pass,
                           fs_err *err);

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
/* Where memory has a price: a plan in which layers of a stage differ
 * (splice.c).
 */
void search_splice(search_level0 *z, search_candidate *c,
                   const search_prices *at);
/* Bounds whatever the cut: from seconds of nodes, from all tables but bytes. */
void search_look(search_level0 *z, search_candidate *c);
void search_weigh(search_level0 *z, search_candidate *c);
/* Solves configurations, best bound first, until no bound is below the best
 * or time runs out. */
fs_status search_explore(search_level0 *z, fs_err *err);
/* The same, until the best plan fits when it is lowered (narrow.c). */
fs_status search_explore_fitting(search_level0 *z, fs_err *err);
/* After a first look at all: where the best plan does not fit, others are asked
 * for before more is proven of it. */
void search_anchor_early(search_level0 *z);
/* Moments that misfits show to be missing (missing.c). Of a plan of the
 * candidate's built network whose arenas are bytes[]: is there one at which
 * what is counted exceeds the limits? Then tables that are made from now on
 * have it.
 */
bool search_note_missing(search_level0 *z, search_candidate *c,
                         const search_kept *found, const int64_t *limit,
                         const int64_t *bytes);
/* A layout's memory with them, where its graph has any. */
void search_add_missing(const search_level0 *z, const search_candidate *c,
                        search_layout *layout);
/* Has it been given less than its limits? */
bool search_narrowed(const search_candidate *c);
/* What is proven for its whole limits; INFINITY: no plan of it fits. */
double search_bound(const search_candidate *c);

/* Plans that cost as much are of no interest; INFINITY: all are. */
double search_wanted(const search_problem *problem);
/* Keeps a plan that fits if it is the best so far. */
void search_keep(search_level0 *z, const search_kept *found);

/* Where memory forbids every configuration: the smallest plan of those that may
 * have it, least need first, as a misfit. */
void search_find_leanest(search_level0 *z);

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
/* Plans of configurations that were not solved, as long as there are not as
 * many as are wanted. */
void search_more_plans(search_level0 *z);
/* result->plans: of the offers those that fit, with what cost_strategy and the
 * ranking say. */
void search_list_plans(search_level0 *z, search_result *out);
/* How its graph comes of problem->again's. */
search_again search_again_of(const search_level0 *z, const search_kept *kept);

/* What is told in the end (result.c): of a plan, or why there is none. */
void search_fill_best(search_level0 *z, search_result *out);
fs_status search_fill_none(search_level0 *z, fs_err *err, search_result *out);

#endif
