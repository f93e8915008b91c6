/* A configuration as pure mathematics, and what engines say of it. */
#ifndef FS_SEARCH_NET_H
#define FS_SEARCH_NET_H

#include "base/arena.h"
#include "base/clock.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* A cost network: minimise
 *   fill sum_i like_i a_i + (m - fill) max_i a_i + max_i b_i
 * where stage i's a_i (b_i) is the sum of its unary and pair costs that count
 * per micro-batch (per step), and like_i how many stages it stands for; subject
 * to memory: for each limit, the sum of the bytes that nodes and edges load it
 * with is at most the limit. A stage has a limit for each moment at which it
 * may be fullest. The pure mathematics of a configuration; engines see no more.
 */
typedef struct search_load {
    int32_t limit;        /* which */
    const int64_t *bytes; /* of a node: [n]; of an edge: [n_u * n_v], row u */
} search_load;

typedef struct search_net_node {
    int32_t n; /* values; a net with a node of 0 values is infeasible */
    int32_t stage;
    bool per_step;
    double *cost; /* [n], INFINITY forbids */
    int32_t n_loads;
    search_load *loads;
} search_net_node;

typedef struct search_net_edge {
    int32_t u, v;  /* u < v */
    int32_t stage; /* whose time it is */
    bool per_step;
    double *cost; /* [n_u * n_v], row u; INFINITY forbids */
    int32_t n_loads;
    search_load *loads;
} search_net_edge;

typedef struct search_net {
    int32_t n_nodes, n_edges, n_stages, micro_batches, n_limits;
    double fill; /* 0 to 1: plan_schedule_fill; of one stage of no account */
    const int32_t *like; /* [n_stages] stages that one stands for; NULL: 1 */
    search_net_node *nodes;
    search_net_edge *edges;
    int64_t *limit_bytes; /* [n_limits] */
} search_net;

typedef struct search_solution {
    int32_t *value;       /* [n_nodes] */
    double cost;          /* INFINITY: none found */
    double lower_bound;   /* proven: no solution costs less */
    int64_t steps;        /* of work done (FS_STEPS_PER_S) */
    int32_t kernel_nodes; /* left by the reductions; all without them */
    bool memory_binds;    /* a memory limit had a price */
    bool open;            /* the deadline ended it: with more it may say more */
    const struct search_prices *prices; /* that prove the bound but for what a
                                           MILP closed; NULL */
} search_solution;

/* Cost of an assignment by the formula above, INFINITY when it breaks memory.
 * Every engine's claim is recomputed with it. */
double search_net_cost(const search_net *net, const int32_t *value);

typedef struct search_budget {
    fs_deadline deadline;
    double cutoff;    /* stop once lower_bound >= cutoff */
    double gap;       /* or once it is that near to the cost, as a fraction */
    bool reduce;      /* exact reductions first (ablation switch), */
    uint32_t without; /* but for these (reductions.h) */
    int32_t rounds; /* of prices at most, and no closing: a plan soon, whatever
                       the clock says; 0: as many as help */
    const struct search_prices
        *prices;            /* to begin with; NULL: none are known */
    struct search_met *met; /* by earlier attempts, and now; NULL */
    double beyond;    /* prices that prove the cutoff go on to prove so much
                         more, as a share of it: who begins at them reaches
                         less; 0, */
    int32_t patience; /* until so many in a row bring little of it */
    bool roomy;       /* plans of others of its kind fit: whether one limit
                         forbids all is not asked */
    double within;    /* > 0: a plan as near to its bound as the gap is wanted,
                         whatever the cutoff, within this share of the limits,
                         if there is one */
    bool plan;        /* which is all that is wanted, where one is found that
                         bytes are in the way of */
} search_budget;

/* Rows of engines.def: search_exhaustive, search_ilp, .. Returns
 * FS_NO when the net is proven infeasible. */
typedef fs_status search_engine_fn(const search_net *net,
                                   const search_budget *budget, fs_arena *arena,
                                   fs_err *err, search_solution *out);
search_engine_fn *search_engine_find(const char *name);
const char *search_engine_names(void);

#endif
