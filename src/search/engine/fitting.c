/* A plan that fits, soon. Where prices prove most the slowest stage has nearly
 * all of them, and minimisers take a little too much of one stage or of
 * another. With all stages at the same price what one takes is hardly another's
 * business: each has its own price of bytes, and that is brought, by halves of
 * its logarithm, to where its minimiser just fits; all stages at once, a
 * minimum each round. A stage's price is of the limits that were exceeded most
 * so far, each as often as it was. */
#include "config.h"
#include "search/engine/fitting.h"

#include <math.h>

/* Of a stage's share of all seconds, its bytes where nothing is known. */
#define FIRST_SHARE 0.03125
/* Steps until there are both prices, and how near is enough. */
#define STRIDE 4
#define NEAR_ENOUGH 1.2

static int32_t *stages_of(const search_net *net, fs_arena *arena)
{
    int32_t *stage = fs_new(arena, int32_t, net->n_limits);
    for (int32_t e = 0; e < net->n_edges; e++)
        for (int32_t k = 0; k < net->edges[e].n_loads; k++)
            stage[net->edges[e].loads[k].limit] = net->edges[e].stage;
    for (int32_t i = 0; i < net->n_nodes; i++)
        for (int32_t k = 0; k < net->nodes[i].n_loads; k++)
            stage[net->nodes[i].loads[k].limit] = net->nodes[i].stage;
    return stage;
}

search_fitting search_fitting_new(const search_net *net, double scale,
                                  fs_arena *arena)
{
    search_fitting f = {
        .net = net,
        .of = fs_new(arena, search_stage_price, net->n_stages),
        .stage_of = stages_of(net, arena),
        .weight = fs_new(arena, double, net->n_limits),
        .first = FIRST_SHARE * scale / net->n_stages,
    };
    for (int32_t i = 0; i < net->n_stages; i++)
        f.of[i].high = INFINITY;
    return f;
}

/* The limit of a stage that is exceeded most; -1: none. */
static int32_t fullest(const search_fitting *f, int32_t stage,
                       const search_sums *taken)
{
    int32_t worst = -1;
    double most = 1;
    for (int32_t k = 0; k < f->net->n_limits; k++) {
        const double full =
            (double)taken->bytes[k] / (double)f->net->limit_bytes[k];
        if (f->stage_of[k] == stage && full > most) {
            most = full;
            worst = k;
        }
    }
    return worst;
}

/* False: it stays where it is. */
static bool move(search_fitting *f, int32_t stage, const search_sums *taken)
{
    search_stage_price *of = &f->of[stage];
    const int32_t worst = fullest(f, stage, taken);
    if (worst >= 0) {
        f->weight[worst]++;
        of->low = of->price;
        if (of->high <= of->low) /* at other weights */
            of->high = INFINITY;
        of->price = of->price <= 0    ? f->first
                    : isinf(of->high) ? STRIDE * of->price
                                      : sqrt(of->low * of->high);
        return true;
    }
    if (of->price <= 0)
        return false;
    of->high = of->price;
    if (of->low > 0 && of->high < NEAR_ENOUGH * of->low)
        return false;
    of->price = of->low > 0 ? sqrt(of->low * of->high) : of->price / STRIDE;
    return true;
}

bool search_fitting_next(search_fitting *f, const search_sums *taken,
                         search_prices *at)
{
    const search_net *net = f->net;
    bool moves = !f->begun;
    for (int32_t i = 0; i < net->n_stages; i++) {
        at->micro[i] = at->step[i] = 1.0 / net->n_stages;
        if (f->begun)
            moves |= move(f, i, taken);
    }
    f->begun = true;
    for (int32_t k = 0; k < net->n_limits; k++) {
        double all = 0;
        for (int32_t j = 0; j < net->n_limits; j++)
            if (f->stage_of[j] == f->stage_of[k])
                all += f->weight[j];
        at->bytes[k] = f->weight[k] > 0
                           ? f->of[f->stage_of[k]].price * f->weight[k] / all /
                                 (double)net->limit_bytes[k]
                           : 0;
    }
    return moves;
}
