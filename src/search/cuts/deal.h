/* A chain of pieces dealt out to the stages of a pipeline by the objective's
 * own formula. Pure mathematics, no graph: internal to this folder. */
#ifndef FS_SEARCH_DEAL_H
#define FS_SEARCH_DEAL_H

#include "base/arena.h"

#include <stdint.h>

/* Places 0 to n lie before, between and behind the pieces. Stage k from place i
 * to place j takes, with row k of each table of [stage * (n + 1) + place],
 *   a_k = micro[j] - micro[i] + in[i] + back[j]    per micro-batch
 *   b_k = step[j] - step[i]                        per step
 * and all of them fill sum a_k + (m - fill) max a_k + max b_k. */
typedef struct search_deal_chain {
    int32_t n, n_stages, micro_batches;
    double fill;
    const double *micro, *step; /* sums before each place */
    const double *in, *back;    /* seconds of receiving */
} search_deal_chain;

typedef struct search_deal {
    double cost;
    int32_t *begin; /* [n_stages] places, ascending from 0 */
} search_deal;

/* What a cut comes to. */
double search_deal_cost(const search_deal_chain *chain, const int32_t *begin);

/* The cheapest of all ways to cut in which no stage is empty, at most `most`,
 * ascending; returns how many. Partial cuts that end at the same place are
 * compared by what they come to if nothing behind them is slower: of more than
 * `most` the rest is dropped, so that with one label a cell it is a heuristic,
 * with many it mostly has the best. n_stages n^2 / 2 times `most` steps, which
 * are added to *steps. */
int32_t search_deal_best(const search_deal_chain *chain, int32_t most,
                         fs_arena *arena, int64_t *steps, search_deal *out);

#endif
