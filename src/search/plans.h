/* Several plans in the place of one: the best by the formula, each of another
 * configuration, ranked by whoever asks. */
#ifndef FS_SEARCH_PLANS_H
#define FS_SEARCH_PLANS_H

#include "search/search.h"

/* A plan that fits. */
typedef struct search_plan {
    const search_graph *of; /* one of problem->graphs, */
    const ir_graph *graph;  /* its graph, or a copy bound to the stages */
    plan_strategy *strategy;
    search_again again;
    double iteration_s; /* cost_strategy's */
    double gap;         /* to the bound of the whole space */
    double score_s;     /* the ranking's; INFINITY: it was not asked */
} search_plan;

/* Who asks for several plans. */
typedef struct search_ranking {
    int32_t keep;   /* so many at most, 1 or more */
    double within;  /* of interest is what costs at most this fraction more
                       than the best */
    double promise; /* the plan returned is the best or has no larger gap */
    /* Seconds of a plan, the `place`-th by the formula, as another model than
     * the formula has it; INFINITY: it does not fit, or is of no use. NULL: the
     * formula's. */
    double (*score)(void *ctx, int32_t place, const search_plan *plan);
    void *ctx;
} search_ranking;

/* What the ranking, or else the formula, says of one. */
double search_score_plan(const search_ranking *ranking, int32_t place,
                         const search_plan *p);
/* Gaps of out's plans, which have scores; which one is chosen. */
void search_choose_plan(const search_ranking *ranking, search_result *out);

#endif
