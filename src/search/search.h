/* Search: from a network and a cluster to the best strategy with its proof.
 *
 * Level 0 enumerates configurations (stages, mesh, micro-batches, stage cut);
 * each becomes a cost network (one variable per node, one value per signature,
 * pair costs per edge); an engine solves the networks, best bound first, until
 * no bound is below the incumbent: that is the proof for the whole space.
 * No engine is trusted: a claim is cost_strategy's own figure. */
#ifndef FS_SEARCH_SEARCH_H
#define FS_SEARCH_SEARCH_H

#include "search/engine/net.h"
#include "search/problem.h"

/* One configuration as explored, for the record and the report. */
typedef struct search_config {
    int32_t n_stages, micro_batches;
    const char *states;  /* its search_graph's */
    int32_t depth;       /* stages of a group of devices */
    int32_t n_meshes;    /* 1, or groups of devices that differ */
    const ir_mesh *mesh; /* [n_meshes] */
    int32_t n_groups;    /* of the cluster's devices, where stages take them */
    const int32_t *groups; /* [n_groups] in another order than it: the first
                              first */
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
    bool guessed; /* of a part: that it fits was told by few of its layers */
    double iteration_s, lower_bound_s, gap, search_s;
    int32_t n_plans, chosen; /* with a ranking: plans, cheapest first, */
    const struct search_plan *plans; /* and which of them this is; */
    int32_t n_same; /* configurations whose plan is another one's of these */
    double plans_s; /* spent on them, behind search_s */
    int32_t n_configs;
    search_config *configs;
    int32_t anchored;    /* configurations asked for lean plans, */
    double lean_s;       /* and the cheapest of these that became the best plan
                            when they were asked; INFINITY: none */
    double first_s;      /* until the first plan that fits was there */
    bool memory_decides; /* it ruled out what might be better: of planners */
    int64_t steps;       /* of work done */
    bool late;          /* a clock had a say: not late, the same problem has the
                           same answer always, to the last bit */
    int32_t n_recuts;   /* cuts besides the balanced ones, of the proof */
    double any_cut_s;   /* however stages of equal meshes are cut no plan takes
                           less; 0: nothing is known */
    bool every_cut;     /* lower_bound_s holds for these, not only for the cuts
                           that were looked at */
    double sim_bound_s; /* no plan of these configurations takes less when
                           simulated; 0: nothing is known */
    const char *space; /* one sentence: what the certificate covers; of what: */
    uint64_t question_digest; /* equal ones, equal questions (digest.h); */
    uint64_t space_digest;    /* and equal cuts that were looked at */
    uint64_t cost_digest;     /* 0, all of them: not told */
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
