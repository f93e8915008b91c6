/* Search: from a network and a cluster to the best strategy with its proof.
 *
 * Level 0 enumerates configurations (stages, mesh, micro-batches, stage cut);
 * each becomes a cost network (one variable per node, one value per signature,
 * pair costs per edge); an engine solves the networks, best bound first, until
 * no bound is below the incumbent: that is the proof for the whole space.
 * No engine is trusted: a claim is cost_strategy's own figure. */
#ifndef FS_SEARCH_SEARCH_H
#define FS_SEARCH_SEARCH_H

#include "base/clock.h"
#include "cost/cost.h"
#include "search/reductions.h"

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
        *prices; /* to begin with; NULL: none are known */
} search_budget;

/* Rows of engines.def: search_exhaustive, search_ilp, .. Returns
 * FS_NO when the net is proven infeasible. */
typedef fs_status search_engine_fn(const search_net *net,
                                   const search_budget *budget, fs_arena *arena,
                                   fs_err *err, search_solution *out);
search_engine_fn *search_engine_find(const char *name);
const char *search_engine_names(void);

/* ---- the planning problem ---- */

/* For one micro-batch count: its inputs hold batch / m samples. Where the
 * precision of the optimizer's states is searched there is one of each count
 * for each of them, kind by kind, the widest first. */
typedef struct search_graph {
    int32_t micro_batches;
    const ir_graph *graph;
    const char *states; /* their precision; NULL: there is but one */
} search_graph;

/* Where memory decides, what is computed again in the backward pass is chosen,
 * node by node: that one of problem->graphs with copies (ir_recompute_set) of
 * all that may be. NULL: it has none. */
typedef const ir_graph *search_again_fn(void *ctx, const search_graph *of);

/* A one-axis choice a user or a recipe insists on: false forbids `sig` for
 * this node. NULL: everything legal is allowed. */
typedef struct search_filter {
    bool (*allow)(void *ctx, const ir_graph *graph, int32_t node, int32_t stage,
                  const ir_mesh *mesh, const ir_nd_sig *sig);
    void *ctx;
} search_filter;

/* How long copies of variables live that forward and backward nodes read
 * (plan_boxing): chosen where memory may bind, kept for the step, or made anew
 * for each pass. */
typedef enum search_lives {
    SEARCH_CHOOSES,
    SEARCH_KEEPS,
    SEARCH_ANEW
} search_lives;

struct search_recipe;
struct search_ranking;
/* Of a plan's graph. */
typedef struct search_again {
    bool chosen;       /* it is problem->again's, but that n_left */
    int32_t n_left;    /* nodes of the forward pass are not computed again, */
    const char **left; /* these */
} search_again;

struct search_plan;

/* What a stage has of a network: so many repeated blocks (what comes before the
 * first is the first stage's, what comes behind the last the last's), then so
 * many forward nodes. */
typedef struct search_layers {
    int32_t blocks, nodes;
} search_layers;

typedef struct search_problem {
    const hw_cluster *cluster;
    const cost_model *cost;
    int32_t n_graphs;
    const search_graph *graphs;
    int64_t memory_bytes; /* limit per device besides its own; 0: none */
    double memory_share;  /* of the limits, what plans may take; 0: all */
    const char *engine;   /* or a planner (planner.h) */
    const char *start;    /* planner whose plan is the first one; NULL */
    const char *schedule; /* "1f1b" unless fixed */
    bool fix_schedule;    /* planners too take no other */
    int32_t n_schedules;  /* 0: that one; else */
    const char *const *schedules; /* these are to choose from; that one is the
                                     first, and that of one group of devices */
    const int32_t *depths; /* [n_schedules] stages of a group under each, where
                              there are several groups; NULL: interleave says */
    int32_t fix_stages;    /* groups of devices; 0: free */
    int32_t interleave;    /* stages of a group, placed as the schedule has
                              them; 0: one */
    ir_mesh fix_mesh;      /* n = -1: free; of one stage */
    const ir_mesh *stage_mesh; /* [fix_stages] of groups that differ; NULL: they
                                  do not */
    int32_t max_mesh_axes;     /* 2 */
    int32_t n_layers;          /* 0: stages are cut by time */
    const search_layers *layers; /* [n_layers] else: what each has */
    const int32_t *stage_of;     /* [nodes] of the only graph: its cut; NULL */
    bool recut; /* stages that are cut by time are cut again by what plans take
                   (recut.c), but for what `without` says */
    search_filter filter;
    const struct search_recipe *recipe; /* that made it; NULL: none */
    search_lives lives;
    search_again_fn *again; /* NULL: graphs are as they are */
    void *again_ctx;
    plan_known *placed;  /* what lowering plans finds is kept there; NULL */
    double time_limit_s; /* of a clock; of steps of work, too, half of it
                            is for the first round */
    double most_steps;   /* of work, which end it as time does; 0: any */
    double soon_steps;   /* of a planner: after that much work any plan is
                            enough; 0: not before it ends */
    const fs_end *end;   /* of what it is a part of; NULL: none */
    bool claims;         /* a part whose plan the whole proves, if it is best */
    struct search_book *book; /* tables that parts of it share (level0.h); NULL:
                                 its own */
    const atomic_bool *stop;  /* set: as when time is over; NULL: it never is */
    double gap;               /* a bound so near (a fraction) is proof enough */
    double effort_s;          /* most work of one attempt at a configuration, in
                                 seconds (FS_STEPS_PER_S); 0: no limit */
    int32_t rounds;   /* search_budget's, of the one attempt that each gets; 0:
                         attempts of growing effort */
    double below_s;   /* only plans that cost less are of interest; 0: all */
    bool in_full;     /* told are digests of the question and, where memory
                         forbids all, the smallest plan */
    bool reduce;      /* exact reductions first, */
    uint32_t without; /* but for these (reductions.h) */
    const struct search_ranking *ranking; /* plans.h; NULL: one plan will do */
    struct search_known *known;           /* of the graphs; NULL: nothing yet */
    void (*progress)(void *ctx, const char *line);
    void *progress_ctx;
} search_problem;

/* One configuration as explored, for the record and the report. */
typedef struct search_config {
    int32_t n_stages, micro_batches;
    const char *states;  /* its search_graph's */
    int32_t depth;       /* stages of a group of devices */
    int32_t n_meshes;    /* 1, or groups of devices that differ */
    const ir_mesh *mesh; /* [n_meshes] */
    const char *schedule;
    bool again;         /* what is computed again was chosen */
    const char *status; /* "optimal", "near" (within problem->gap),
                           "bounded", "pruned", "infeasible", "memory",
                           "misfit" (its plans did not fit), "limit" */
    double iteration_s; /* INFINITY when none */
    double lower_bound_s;
    int64_t peak_bytes;
    int64_t need_bytes; /* "memory": what each of its plans takes of some device
                           at least; else 0 */
    double seconds;
} search_config;

typedef struct search_result {
    const char *status;     /* "optimal" (gap 0 within 1e-9), "feasible",
                               "infeasible" (proven), "limit" (neither) */
    const search_graph *of; /* the chosen one of problem->graphs, */
    const ir_graph *graph;  /* its graph, or a copy that is bound to the
                               strategy's stages (ir_recompute_bind) */
    search_again again;
    plan_strategy *strategy;
    double iteration_s, lower_bound_s, gap, search_s;
    int32_t n_plans, chosen; /* with a ranking: plans, cheapest first, */
    const struct search_plan *plans; /* and which of them this is; */
    double plans_s;                  /* spent on them, behind search_s */
    int32_t n_configs;
    search_config *configs;
    int32_t anchored;    /* configurations asked for lean plans, */
    double lean_s;       /* and the cheapest of these that became the best plan
                            when they were asked; INFINITY: none */
    double first_s;      /* until the first plan that fits was there */
    bool memory_decides; /* it ruled out what might be better: of planners */
    int64_t steps;       /* of work done */
    bool late;         /* a clock had a say: not late, the same problem has the
                          same answer always, to the last bit */
    int32_t n_recuts;  /* cuts besides the balanced ones, of the proof */
    double any_cut_s;  /* however stages of equal meshes are cut no plan takes
                          less; 0: nothing is known */
    const char *space; /* one sentence: what the certificate covers; of what: */
    uint64_t space_digest, cost_digest; /* equal ones, equal questions
                                           (digest.h); 0: not told
                                         */
    int32_t n_bounded;                  /* configurations with a bound, */
    int32_t n_expanded; /* those of them that an engine was asked about, */
    int32_t n_closed;   /* and those that can have no plan that is better */
    int64_t net_nodes, net_edges, kernel_nodes; /* of the winning config:
                                                   before and after reduction */
    /* When nothing fits: what every plan takes at least of a device, proven (0:
     * nothing is), and the plan looked at that is smallest (NULL: none was),
     * with what a device of each of its stages may take */
    int64_t need_bytes;
    const ir_graph *misfit_graph;
    const plan_strategy *misfit;
    int64_t *misfit_limit;
    double fullness; /* that, of its limit; where none was, need_bytes is; 0 */
} search_result;

/* Steps of work that its limits allow, if steps take as long as they should. */
double search_most_steps(const search_problem *problem);
/* FS_NO: nothing fits or was found (by result->status); err says what helps. */
fs_status search_run(const search_problem *problem, fs_arena *arena,
                     fs_err *err, search_result *out);

#endif
