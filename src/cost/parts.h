/* What the files of this folder share. */
#ifndef FS_COST_PARTS_H
#define FS_COST_PARTS_H

#include "cost/choice.h"
#include "cost/cost.h"
#include "cost/memory.h"
#include "cost/numbers.h"
#include "cost/numbers.h"
#include "hw/crowd.h"
#include "plan/exchange.h"
#include "plan/schedule.h"

/* How the members of a communicator (some mesh axes of a stage) reach each
 * other; of the stage's communicators of those axes, the worst in each figure.
 */
typedef struct cost_route {
    int32_t ranks;    /* n: members */
    int32_t nodes;    /* k: nodes that a communicator spans */
    int32_t per_node; /* g: most members on one node */
    bool even;        /* n = k g: every node has g */
    bool on_cores;    /* members are processes that move bytes themselves */
    /* Of the whole, as the ring's formula wants it: inside nodes for rings, for
     * exchanges of all with all, and for those of neighbours; and a
     * communicator's share of a node's way out for those and for trees. They
     * differ where the cluster tells its wires or leaves. */
    hw_link inner, pairs, beside;
    hw_link outer, far, tree;
    hw_link rail; /* one member's share when all members use it at once */
    /* All-reduces by the switches of a node, and between nodes by a member's
     * share of those there; none: no bandwidth. */
    hw_reduction in_node, in_fabric;
    bool told;     /* by the graph of links (hw_links_told) */
    double turn_s; /* what a meeting of ranks on cores waits beside messages */
    double memory_bps; /* of the slowest device, as reached */
} cost_route;
cost_route cost_route_of(const cost_model *model, const plan_stage *stage,
                         uint32_t axes);

/* A collective on `bytes` of the whole tensor per rank: input of all-reduce,
 * reduce-scatter and all-to-all, of re-slicing the larger side, output of
 * all-gather; of a halo what a rank borrows. Fills network_s, latency_s,
 * memory_s; false when the algorithm does not do this kind on this route. */
typedef bool cost_collective_fn(plan_box_kind kind, const cost_route *route,
                                double bytes, plan_demand *out);
#define PLAN_ALGORITHM(name, where, runs) COST_OF_##where(name)
#define COST_OF_BOTH(name) cost_collective_fn cost_coll_##name;
#define COST_OF_CORES(name) cost_collective_fn cost_coll_##name;
#define COST_OF_NETWORK(name) cost_collective_fn cost_coll_##name;
#define COST_OF_NOWHERE(name)
#include "plan/algorithms.def"
#undef COST_OF_BOTH
#undef COST_OF_CORES
#undef COST_OF_NETWORK
#undef COST_OF_NOWHERE
#undef PLAN_ALGORITHM

/* The least bytes that a group's measured curve of that kind tells of on that
 * route (measured.c); 0: there is none. What it takes by the curve; before its
 * first point as there. */
double cost_measured_bytes(const hw_group *group, plan_box_kind kind,
                           const cost_route *route);
plan_demand cost_measured_collective(const hw_group *group, plan_box_kind kind,
                                     const cost_route *route, double bytes);

/* Of plan/algorithms.def; -1: there is none of that name. */
int32_t cost_collective_find(const char *name);
/* What all-reduces are done by; PLAN_ALGORITHMS: what is quickest. */
plan_algorithm cost_model_reduces_by(const cost_model *model);
/* What a step's meetings wait for turns. */
double cost_turns_seconds(const cost_model *model, const plan_stage *stage,
                          const plan_box_step *step);
/* The rows that a model chooses from, a bit each; and a view of a model that
 * has these alone. */
uint32_t cost_model_collectives(const cost_model *model);
const cost_model *cost_model_with(const cost_model *model, uint32_t collectives,
                                  fs_arena *arena);

/* How long ranks that outnumber their cores wait for their turn at a meeting.
 */
double cost_turn_seconds(const cost_model *model, const plan_stage *stage);
/* Adds what firing a task takes beside it. */
void cost_fire(const cost_model *model, const plan_stage *stage,
               plan_demand *demand);
/* Of the slowest device of a stage, as reached. */
double cost_memory_bps(const cost_model *model, const plan_stage *stage);

/* The link that neighbours on one node or on two see at worst, of the route's
 * links inside nodes and out of them. */
hw_link cost_route_slowest(const cost_route *route, const hw_link *inner,
                           const hw_link *outer);

/* The cluster as a graph, where it tells of links that are not just ports to
 * switches; else NULL. */
const hw_links *cost_model_links(const cost_model *model);

/* The cluster's groups that a stage lies in; most stages lie in one. */
typedef struct cost_groups {
    int32_t first, last; /* indices of the cluster's groups */
} cost_groups;
cost_groups cost_groups_of(const cost_model *model, const plan_stage *stage);
/* How much longer what occupies a core of this group takes. */
double cost_core_share(const cost_model *model, const hw_group *group);

/* A node's demand on the devices of group `g`. */
typedef struct cost_piece {
    const ir_graph *graph;
    const ir_node *node;
    const ir_nd_sig *sig;
    const ir_mesh *mesh;
} cost_piece;
plan_demand cost_op_on(const cost_model *model, int32_t g,
                       const cost_piece *piece);
/* Points that were measured of one form each (forms.c); NULL: there are none.
 */
typedef struct cost_forms cost_forms;
const cost_forms *cost_forms_create(const hw_cluster *cluster, fs_arena *arena);
bool cost_forms_any(const cost_forms *forms, int32_t g, ir_op_kind op);
/* The one of the piece's form; NULL. */
const hw_point *cost_forms_find(const cost_forms *forms, int32_t g,
                                const cost_piece *piece);
/* The least seconds of those with so much work or more; INFINITY. */
double cost_forms_least(const cost_forms *forms, int32_t g, ir_op_kind op,
                        double work);
/* Of a product at `flops` when all processors are busy (product.c). */
double cost_product_seconds(const hw_device *device, const ir_product *p,
                            double flops);
/* The share of its rate that is left where rows begin anywhere. */
double cost_product_alignment(const hw_device *device, const ir_work *work,
                              const ir_product *p);
/* Of one of `work`'s types, no less than its flops take at the rate of these.
 */
double cost_product_rate(const hw_device *device, const ir_work *work);
double cost_product_at(const hw_device *device, const ir_work *work,
                       const ir_product *p);
/* Of a node of 16-bit floats where these are widened (widen.c). */
int64_t cost_widened_scratch(const cost_model *model, const cost_piece *piece);
/* The group whose devices set the pace of a stage's ops (pace.c). */
int32_t cost_pace_of(const cost_model *model, const ir_graph *graph,
                     const plan_stage *stage);
typedef struct cost_paces cost_paces;
cost_paces *cost_paces_create(fs_arena *arena);
cost_paces *cost_model_paces(const cost_model *model);

/* Messages and elements that a position of a move between two meshes (x->moves)
 * gives, or takes: as plan_exchange_gives and plan_exchange_takes list them. No
 * halos, and nothing stays partial. Most positions are alike: those before
 * `told` and the last `ends` are told, each of the others is as the one
 * `period` before it. */
typedef struct cost_tally {
    int64_t messages, elements;
} cost_tally;
typedef struct cost_tallies {
    int32_t positions, told, period, ends;
    cost_tally *at; /* [told + ends] */
} cost_tallies;
typedef struct cost_tallied {
    cost_tallies given, taken; /* of the one mesh and of the other */
} cost_tallied;
cost_tallied cost_tally_move(const plan_exchange *x, fs_arena *arena);
/* Of a position, where it is told. */
int32_t cost_tally_place(const cost_tallies *all, int32_t position);

/* Bytes of the largest piece. */
int64_t cost_piece_bytes(const ir_tensor *tensor, const ir_nd_sbp *sbp,
                         const ir_mesh *mesh);

/* A backward slot of a stage with the most of its micro-batches in flight: the
 * first, behind which forward passes may come that read copies kept for the
 * step, or if possible one that has another before it, so that all sums of
 * gradients are there. */
typedef struct cost_fullest {
    int32_t in_flight;
    int32_t forwards, backwards; /* of the stage, behind it */
    bool goes_on;                /* there is one before it */
} cost_fullest;

/* One strategy being summed. */
typedef struct cost_sum {
    const cost_model *model, *micro; /* per step, per micro-batch */
    const ir_graph *graph;
    const plan_strategy *strategy;
    fs_arena *arena;
    const cost_memory *memory;
} cost_sum;
const cost_model *cost_sum_model(const cost_sum *sum, bool per_step);

/* Seconds of node `v`, and of its edge `slot`; the latter's boxing steps are
 * in the strategy. */
double cost_sum_node(const cost_sum *sum, int32_t v);
double cost_sum_edge(const cost_sum *sum, int32_t v, int32_t slot);
/* What an edge connects; false for a variable that no update changes. */
typedef struct cost_edge {
    plan_ends ends;
    const plan_boxing *path;
    bool anew; /* made anew for this reader: plan_boxing */
    bool per_step;
} cost_edge;
bool cost_sum_edge_at(const cost_sum *sum, int32_t v, int32_t slot,
                      cost_edge *out);

/* What of a strategy's formula is the same under all models of one cluster's
 * shape: its terms, in the order in which they are summed, with equal ones told
 * once, and its pipeline. */
typedef struct cost_term {
    int32_t node, slot; /* of the first such one; -1: the node itself */
    bool per_step;
    int32_t number; /* in `known` */
} cost_term;
typedef struct cost_counted {
    int32_t term, sum; /* 2 stage, and 1 per step */
    int32_t node;      /* whose it is, */
    int32_t times;     /* which counts so often */
} cost_counted;
typedef struct cost_formula {
    const ir_graph *graph;
    const plan_strategy *strategy;
    cost_numbers *known; /* of terms of several strategies, or NULL: */
    int32_t of;          /* those that are on one graph */
    plan_pipeline pipe;
    double fill; /* plan_schedule_fill */
    int32_t n_terms, n_counted;
    cost_term *terms;
    cost_counted *counted;
} cost_formula;
/* The strategy is one that cost_strategy takes. */
cost_formula cost_formula_of(const cost_model *model, const ir_graph *graph,
                             const plan_strategy *strategy, fs_arena *arena);
double cost_formula_seconds(const cost_formula *formula,
                            const cost_model *model);
/* Terms alone (terms.c). */
void cost_list_terms(const cost_model *model, fs_arena *arena,
                     cost_formula *formula);

/* The tree of a summary whose figures are filled in. */
plan_breakdown cost_time_tree(const cost_sum *sum, const cost_summary *s);

/* Values by keys without padding. Direct-mapped: a newcomer takes the place of
 * what was there. */
typedef struct cost_memo cost_memo;
enum { COST_FEW = 4096, COST_MANY = 16384 }; /* slots: powers of two */
cost_memo *cost_memo_create(size_t key_bytes, size_t value_bytes, size_t slots,
                            fs_arena *arena);
/* The value of a key; when it was not known the caller fills it. */
void *cost_memo_at(cost_memo *memo, const void *key, bool *known);

/* What a model remembers: straight moves (move.c), crossings (across.c), routes
 * (route.c), scratch of float copies (widen.c). */
cost_memo *cost_straights_create(fs_arena *arena);
cost_memo *cost_model_straights(const cost_model *model);
cost_memo *cost_crossings_create(fs_arena *arena);
cost_memo *cost_model_crossings(const cost_model *model);
cost_memo *cost_widened_create(fs_arena *arena);
cost_memo *cost_model_widened(const cost_model *model);
cost_memo *cost_routes_create(fs_arena *arena);
cost_memo *cost_model_routes(const cost_model *model);

#endif
