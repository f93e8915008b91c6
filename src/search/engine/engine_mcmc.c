/* A baseline: Metropolis over single signatures, as FlexFlow searches (Jia,
 * Zaharia, Aiken, MLSys 2019, arXiv 1807.05358, section 6.2): a node and one of
 * its values are drawn, the change is kept with probability
 * min(1, exp(-(new - old) / t)). It starts from what deduce finds, and ends
 * when half of all steps so far brought nothing better, or after so many per
 * node. The draws hang on the network alone. */
#include "config.h"
#include "search/engine/engine.h"

#include "base/hash.h"

#include <math.h>
#include <string.h>

enum { STEPS_PER_NODE = 2000, LEAST_PER_NODE = 200, LOOK = 1024 };
/* t, as a share of the best cost: what FlexFlow counts in milliseconds. */
#define TEMPERATURE 1e-3

typedef struct chain {
    const search_net *net;
    search_moves moves;
    double cost, best_s;
    int32_t *best;
    int64_t steps, best_at;
    uint64_t rng;
} chain;

static void step(chain *c)
{
    const search_net *net = c->net;
    const int32_t i = (int32_t)fs_rand_below(&c->rng, net->n_nodes);
    const int32_t s = (int32_t)fs_rand_below(&c->rng, net->nodes[i].n);
    const int32_t old = c->moves.value[i];
    c->steps++;
    if (s == old)
        return;
    const double cost = search_moves_try(&c->moves, i, s);
    if (isinf(cost))
        return;
    const double t = TEMPERATURE * fabs(c->best_s);
    if (cost > c->cost && fs_rand_unit(&c->rng) >= exp(-(cost - c->cost) / t)) {
        search_moves_put(&c->moves, i, old);
        return;
    }
    c->cost = cost;
    /* A margin against rounding: the sums are kept up to date. */
    if (cost >= c->best_s - 1e-12 * fabs(c->best_s))
        return;
    c->best_s = cost;
    c->best_at = c->steps;
    memcpy(c->best, c->moves.value, (size_t)net->n_nodes * sizeof *c->best);
}

static bool done(const chain *c)
{
    const int64_t n = c->net->n_nodes;
    return c->steps >= STEPS_PER_NODE * n ||
           (c->steps >= LEAST_PER_NODE * n && c->best_at < c->steps / 2);
}

static bool late(chain *c, const fs_deadline *deadline)
{
    fs_deadline_spend(deadline, c->moves.steps);
    c->moves.steps = 0;
    return fs_deadline_over(deadline);
}

fs_status search_mcmc(const search_net *net, const search_budget *budget,
                      fs_arena *arena, fs_err *err, search_solution *out)
{
    search_solution first;
    FS_TRY(search_deduce(net, budget, arena, err, &first));
    *out = first;
    if (isinf(first.cost) || net->n_nodes == 0)
        return FS_OK;
    chain c = {.net = net,
               .moves = search_moves_new(net, first.value, arena),
               .cost = first.cost,
               .best_s = first.cost,
               .rng = fs_mix((uint64_t)net->n_nodes)};
    c.best = fs_memdup(arena, first.value,
                       (size_t)net->n_nodes * sizeof *first.value);
    while (!done(&c) && (c.steps % LOOK || !late(&c, &budget->deadline)))
        step(&c);
    out->value = c.best;
    out->cost = search_net_cost(net, c.best);
    out->steps += c.steps;
    return FS_OK;
}
