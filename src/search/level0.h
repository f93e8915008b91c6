/* Level 0 of search: what its files share. Internal to this folder. */
#ifndef FS_SEARCH_LEVEL0_H
#define FS_SEARCH_LEVEL0_H

#include "search/candidate.h"
#include "search/cuts/cut.h"

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
    const search_order *order;
    fs_status status;
    const char *why;
    int32_t *stage_of;
    double fill;
} search_cut_made;

typedef struct search_passage search_passage; /* simulated.c */

/* A plan, the best one that fits say, with its network's figures. */
typedef struct search_kept {
    search_candidate *from; /* NULL: none yet */
    const ir_graph *graph;  /* the layout's, but for copies left out: */
    const ir_graph *all;    /* of this one, with all of them, */
    const bool *left;       /* [its nodes] these; NULL: none */
    bool casts;             /* it is problem->casts', a planner's */
    plan_strategy *strategy;
    double cost_s;
    bool fits, guessed; /* when lowered; with few of its layers only */
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
    const double *share;          /* [stages of the whole] */
} search_mix;

/* A moment at which plans of a graph are fuller than at those of its memory. */
typedef struct search_missing {
    const ir_graph *graph; /* that networks are built on */
    cost_moment at;
} search_missing;

/* Prices that a configuration proved most at (carry.c). */
typedef struct search_carried {
    const search_graph *graph;
    int32_t n_stages;
    bool again;
    double *micro, *step; /* [n_stages]; NULL: none yet */
    FS_VEC(cost_moment) moments;
    FS_VEC(double) bytes; /* [moments.n] */
} search_carried;

typedef struct search_level0 {
    const search_problem *asked;   /* what was asked, */
    const search_problem *problem; /* without graphs that need no look */
    search_engine_fn *engine;
    fs_arena *arena; /* of the result */
    fs_arena *scratch;
    search_book *book;          /* the problem's, or its own */
    struct search_shelf *shelf; /* tables of cuts (tables.c); NULL: none yet */
    FS_VEC(search_bound_graph) bound;
    FS_VEC(search_folded *) folded;
    FS_VEC(search_cut_made *) cuts;
    FS_VEC(search_ranks *) ranks;
    FS_VEC(search_pieces *) pieces;
    FS_VEC(search_passage *) passages;
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
    bool refused; /* faster plans by the planner that it began with */
    FS_VEC(search_candidate *) all;
    search_candidate *best; /* NULL: none yet */
    double best_s;
    int32_t *value;         /* of the best */
    const int32_t *fitting; /* those of the last one that was kept */
    int32_t kernel_nodes;
    search_kept kept;
    FS_VEC(search_kept) offers;       /* others, cheapest first (plans.c) */
    double first_s;                   /* until there was one, */
    double proof_s;                   /* and until no more was to be proven */
    int32_t n_anchored;               /* asked for lean plans */
    int64_t mixed_steps;              /* for mixtures with what was met */
    struct search_sweeps *sweeps;     /* anchor.h; NULL: not yet */
    double lean_s;                    /* the cheapest of these that was kept */
    struct search_recutter *recutter; /* NULL: nothing was cut again yet */
    int32_t n_recuts, n_parts;        /* other cuts: looked at, and numbered */
    int32_t round;     /* of explore: 0, then after each misfit one more */
    int32_t n_misfits; /* plans that were found and did not fit */
    int32_t n_pressed, n_ruled_out; /* in the first round; of these */
    FS_VEC(search_carried) carried;
    const struct search_shares *shares; /* [problem->n_graphs] */
    search_orders orders; /* of groups of devices, besides the cluster's */
    int32_t n_learnt;     /* of these told of moments early */
    int64_t misfit_bytes; /* the smallest of their arenas, */
    int64_t misfit_limit; /* what it was held against, */
    const ir_graph *misfit_graph; /* and the plan */
    const plan_strategy *misfit;
} search_level0;

double search_seconds_since(int64_t start_ns);

#endif
