/* Does a plan fit when it is lowered (fit.c)? Internal to this folder. */
#ifndef FS_SEARCH_FIT_H
#define FS_SEARCH_FIT_H

#include "search/layout.h"

/* What each device of a stage may take. */
int64_t search_device_bytes(const search_problem *problem,
                            const plan_stage *stage);

/* Does the lowered plan keep within the limits of its stages? If that is not
 * clear from afar, it is lowered and bytes[] are its arenas. Where it does not,
 * what forward gathered is gathered again for backward: by the formula, which
 * counts each reader's boxing, that takes no longer. */
bool search_fits(const search_problem *problem, const ir_graph *graph,
                 const int64_t *limit, plan_strategy *strategy, int64_t *bytes);

/* The same; what else is told. */
typedef struct search_fit {
    int64_t *bytes;   /* [n_stages] NULL: nobody asks */
    int32_t *fullest; /* [n_stages] of what does not fit: a node that runs when
                         the arena of the stage's role is fullest, on the stage
                         that this one is; -1 on others. NULL: nobody asks */
    bool guesses;     /* a guess by few of its layers will do (deep.h) */
    bool guessed;     /* it was one: bytes are not told */
} search_fit;
bool search_fits_or(const search_problem *problem, const ir_graph *graph,
                    const int64_t *limit, plan_strategy *strategy,
                    search_fit *out);

/* What a plan that does not fit takes of its limits, by the network. */
double search_share_taken(const ir_graph *graph, const plan_strategy *strategy,
                          const int64_t *limit, const int64_t *bytes);

/* Backward readers of what the forward pass boxed get a boxing of their own
 * where that makes pieces larger; unless `all`, only of what is made of
 * variables alone. Returns how many. */
int32_t search_box_again(const ir_graph *graph, bool all, plan_strategy *s);

#endif
