/* What a search is asked. */
#ifndef FS_SEARCH_PROBLEM_H
#define FS_SEARCH_PROBLEM_H

#include "base/clock.h"
#include "cost/cost.h"
#include "search/engine/reductions.h"

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
    bool chosen;       /* it is problem->again's, */
    bool casts;        /* or problem->casts', but that n_left */
    int32_t n_left;    /* nodes of the forward pass are not computed again, */
    const char **left; /* these */
} search_again;

struct search_plan;

/* Of compact graphs (ir/compact.h), set: they cannot say it, and those in full
 * are to be searched; what this search says does not count. */
typedef atomic_bool search_outgrown;

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
    const int32_t *first_device; /* [fix_stages] of groups; NULL: one after the
                                    other, in any order of the cluster's */
    const struct search_order *order; /* in which stages take groups of devices,
                                         of a part; NULL: the cluster's, and
                                         where it cuts again any other */
    int32_t max_mesh_axes;            /* 2 */
    int32_t n_layers;                 /* 0: stages are cut by time */
    const search_layers *layers;      /* [n_layers] else: what each has */
    const int32_t *stage_of; /* [nodes] of the only graph: its cut; NULL */
    bool recut; /* stages that are cut by time are cut again by what plans take
                   (recut.c), but for what `without` says */
    search_filter filter;
    const struct search_recipe *recipe; /* that made it; NULL: none */
    search_lives lives;
    search_again_fn *again; /* NULL: graphs are as they are */
    search_again_fn *casts; /* with copies of casts of mixed precision alone,
                               for planners; NULL */
    void *again_ctx;
    bool lowers_all;    /* to see whether plans fit, without guesses (deep.h) */
    plan_known *placed; /* what lowering plans finds is kept there; NULL */
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
    atomic_bool *any_plan;    /* set when there is one, be it of a part; NULL */
    double gap;               /* a bound so near (a fraction) is proof enough */
    double effort_s;          /* most work of one attempt at a configuration, in
                                 seconds (FS_STEPS_PER_S); 0: no limit */
    int32_t rounds;   /* search_budget's, of the one attempt that each gets; 0:
                         attempts of growing effort */
    double below_s;   /* only plans that cost less are of interest; 0: all */
    bool overlap;     /* plans are lowered so that collectives may run beside
                         what computes */
    bool buckets;     /* and that collectives of a step go together: what a
                         simulation takes at least is not known then */
    bool in_full;     /* told are digests of the question, a bound of all
                         simulations and, where memory forbids all, the smallest
                         plan */
    bool reduce;      /* exact reductions first, */
    uint32_t without; /* but for these (reductions.h) */
    const struct search_ranking *ranking; /* plans.h; NULL: one plan will do */
    struct search_known *known;           /* of the graphs; NULL: nothing yet */
    search_outgrown *outgrown; /* graphs are compact; NULL: they are in full */
    void (*progress)(void *ctx, const char *line);
    void *progress_ctx;
} search_problem;

#endif
