/* From a configuration to its cost network. Internal to this folder. */
#ifndef FS_SEARCH_LAYOUT_H
#define FS_SEARCH_LAYOUT_H

#include "cost/memory.h"
#include "search/engine.h"

typedef struct search_span {
    int32_t first, last;
} search_span;

/* A configuration: which nodes run on which devices. */
typedef struct search_layout {
    const ir_graph *graph; /* bound to the stages (ir_recompute_bind) */
    int32_t n_stages;
    plan_stage *stages;      /* devices in order */
    const int32_t *stage_of; /* [nodes] */
    const int32_t *begin;    /* [n_stages] where each is to begin, of the nodes
                                that search_ranks orders; NULL: search_cut says */
    int32_t n_groups;  /* of devices, each of which runs a stage or several */
    int32_t *group_of; /* [n_stages] */
    const char *schedule;
    double fill; /* plan_schedule_fill */
    int64_t *limit_bytes;
    struct search_rates *rates;
    const cost_standing *standing;  /* NULL: each stage and node is one */
    const int32_t *like;            /* [n_groups] search_net's */
    const struct search_view *view; /* NULL: it is the whole graph */
    const plan_stage *meant; /* the stages of the pipeline; NULL: these */
    const search_span *span; /* [n_stages] of meant's, those it stands for */
    cost_memory *memory;     /* of this and alike ones; NULL: none yet */
    const int32_t *equal;  /* [nodes] one before it, or itself, that is to have
                              the same value; NULL: itself */
    bool seconds_only;     /* no limits: enough for a first bound */
    bool least_moves;      /* between stages what these take at least: for one,
                              too */
    int32_t any_cut;       /* pieces may be of different ones of meant, which
                              lie alike in their nodes after so many: an edge
                              between them takes the least of what it does on
                              one and across; 0: they may not */
    fs_end end;            /* building stops there */
    const double *plain_s; /* [nodes] on one device; NULL: not known */
    int32_t *const *readers; /* [nodes][inputs, or a variable's loop] an edge
                                takes one so manieth of its seconds; 0: there is
                                none. NULL: all of them */
    bool chooses;            /* nodes that compute again may be left out */
    const struct search_pieces
        *pieces;         /* of the graph; NULL: not known. What */
    int32_t heaviest[2]; /* that piece takes per micro-batch, per step counts as
                            if a second group of devices had it; -1: no piece's
                            does */
} search_layout;

/* Pieces of a graph that no cut divides (pieces.c), numbered by one node each;
 * of a view those that stand for `times` pieces of the whole graph. */
typedef struct search_pieces {
    const ir_graph *graph;
    int32_t *of;    /* [nodes] its piece; negative: it is not of one */
    int32_t *times; /* [nodes] of the piece of that number; 0: there is none */
} search_pieces;

/* What seconds are counted with: [0] per micro-batch, [1] per step. */
typedef struct search_rates {
    const cost_model *cost[2];
    plan_boxer *boxer[2];
} search_rates;

/* Cuts the graph into runs of forward nodes, one for each stage of the layout:
 * as many repeated blocks each as problem->layers says, or balanced by time (on
 * one device over the number of the stage's devices, and receiving) at places
 * that as few activations as possible cross; all other nodes follow. FS_NO when
 * there are not enough places. */
fs_status search_cut(const search_problem *problem, const search_layout *layout,
                     fs_err *err, int32_t *stage_of);

/* The forward nodes that compute with data, in the order in which stages have
 * them; each other node is of the stage of one of these. The same nodes have
 * the same ranks when the graph is bound to stages, and with copies. */
typedef struct search_ranks {
    const ir_graph *graph;
    int32_t n;
    int32_t *order; /* [n] nodes */
    int32_t *rank;  /* [nodes] theirs, or that of the one that is followed */
} search_ranks;
void search_find_ranks(const ir_graph *graph, fs_arena *arena,
                       search_ranks *out);

/* [stages] How many of the first device each stage's devices are as fast as, by
 * seconds of the whole graph on one; the slowest of a stage counts. */
double *search_find_speeds(const search_problem *problem,
                           const search_layout *layout, fs_arena *arena);

/* Where a layout's graph may be cut: at[0] = 0, at[1 .. n - 1] ranks that few
 * activations cross (fewest first, at most `most`, but not fewer than stages
 * need), at[n] = all ranks. [stage * (n + 1) + place] seconds in which a stage
 * receives what crosses there: from the one before when it begins there, from
 * the one behind when it ends there. */
typedef struct search_places {
    int32_t n, *at;
    double *in, *back;
} search_places;
void search_find_places(const search_problem *problem,
                        const search_layout *layout, int32_t most,
                        fs_arena *arena, search_places *out);

/* FS_INVALID when the graph does not have as many repeated blocks. */
fs_status search_cut_check(const ir_graph *graph, const search_layers *layers,
                           int32_t n_stages, fs_err *err);

/* What each device of a stage may take. */
int64_t search_device_bytes(const search_problem *problem,
                            const plan_stage *stage);

/* Does the lowered plan keep within the limits of its stages? If that is not
 * clear from afar, it is lowered and bytes[] are its arenas. Where it does not,
 * what forward gathered is gathered again for backward: by the formula, which
 * counts each reader's boxing, that takes no longer. */
bool search_fits(const search_problem *problem, const ir_graph *graph,
                 const int64_t *limit, plan_strategy *strategy, int64_t *bytes);

/* The same; fullest[n_stages] of what does not fit: a node that runs when the
 * arena of the stage's role is fullest, on the stage that this one is; -1 on
 * others. */
bool search_fits_or(const search_problem *problem, const ir_graph *graph,
                    const int64_t *limit, plan_strategy *strategy,
                    int64_t *bytes, int32_t *fullest);

/* What a plan that does not fit takes of its limits, by the network. */
double search_share_taken(const ir_graph *graph, const plan_strategy *strategy,
                          const int64_t *limit, const int64_t *bytes);

/* Table from a key of any bytes to a number. */
typedef struct search_memo {
    fs_arena *arena;
    struct search_memo_entry *entries;
    int32_t n, n_buckets;
    int32_t *bucket;
} search_memo;
/* The number's place, made and set to -1 when the key is new; it moves when
 * the next key is added. */
int32_t *search_memo_at(search_memo *memo, const void *key, size_t bytes);

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
    int32_t empty;   /* a node that the filter leaves nothing, or -1 */
    int64_t steps;   /* of work that its tables took */
} search_built;

/* Of all of a graph on the devices of one stage of p, with its nodes' tables: a
 * bound of what p stages take. */
double search_even_floor(const search_built *built, int32_t p);
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

/* Assignments between the leanest and the fastest, cheapest first: a fixed
 * number of weights of bytes against seconds, but for those too light for any
 * to fit, or to be wanted. So what fits is a part of what there is for every
 * larger limit. */
typedef struct search_lean_plan {
    double cost;
    int64_t bytes; /* of the fullest moment */
    int32_t *value;
    bool fits;
} search_lean_plan;
typedef struct search_lean_wish {
    int64_t limit;  /* of each moment; 0: the leanest will do */
    double below_s; /* what costs more is not wanted */
    /* Does it fit when it is looked at? One that does under a limit does under
     * every larger one. NULL: what keeps the limit does. */
    bool (*fits)(void *ctx, const search_lean_plan *found);
    void *ctx;
} search_lean_wish;
typedef struct search_lean {
    FS_VEC(search_lean_plan) plans;
} search_lean;
void search_lean_plans(const search_net *net, const search_lean_wish *wish,
                       fs_deadline deadline, fs_arena *arena, search_lean *out);

/* The program of a layout. */
cost_program search_program_of(const search_layout *layout);
/* Nodes only: enough for a bound. Both return false when time ran out. */
bool search_build_nodes(const search_problem *problem,
                        const search_layout *layout, fs_arena *arena,
                        search_built *out);
bool search_build_edges(fs_arena *arena, search_built *built);
/* Of a network that is not folded, with its nodes' tables, by what any move
 * between its stages takes at least: a bound. */
double search_cut_floor(const search_built *built, fs_arena *arena);

int32_t search_group_of(const search_layout *layout, int32_t v);
/* Whose time what node v takes, or what it reads, counts as. */
int32_t search_bearer_of(const search_layout *layout, int32_t v, bool per_step);
/* How many nodes of its stage it stands for. */
int32_t search_times(const search_layout *layout, int32_t v);
/* Is a copy of that tensor, which changes once per step and lies on the
 * reader's stage, to be kept or made anew? */
bool search_copy_lives(const search_layout *layout, int32_t v, int32_t tensor);

/* Boxing made anew for node v (plan_boxing) is for one pass of one forward
 * node and what belongs to it: what is computed again, the backward nodes. */
int32_t search_sharing_of(const ir_graph *graph, int32_t v);

/* Backward readers of what the forward pass boxed get a boxing of their own
 * where that makes pieces larger; unless `all`, only of what is made of
 * variables alone. Returns how many. */
int32_t search_box_again(const ir_graph *graph, bool all, plan_strategy *s);

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
