/* Plans that trade seconds for bytes. The sum of seconds and of weighted bytes
 * of all moments is additive; its minimisers for a fixed series of weights
 * lead from the fastest plan to the leanest. Within a weight the fuller
 * moments get more of it (multiplicative weights; Arora, Hazan, Kale, Theory
 * of Computing 8, 2012). */
#include "config.h"
#include "search/layout.h"

#include "base/clock.h"
#include "search/cfn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Weights: LIGHTEST * 2^j of the fastest plan's seconds per byte. */
#define LIGHTEST (1.0 / 16)
enum { WEIGHTS = 10, HEAVY = 8, ROUNDS = 4, SWEEPS = 20, SHARPNESS = 20 };

typedef struct lean {
    search_net net; /* its limits are what the plan at work takes */
    fs_deadline deadline;
    fs_arena *arena;
    search_prices prices;
    double *part; /* [limit] of the weight, sum 1 */
    search_sums sums;
    search_lean *out;
} lean;

static int64_t fullest(const search_net *net, const search_sums *sums)
{
    int64_t most = 0;
    for (int32_t k = 0; k < net->n_limits; k++)
        most = sums->bytes[k] > most ? sums->bytes[k] : most;
    return most;
}

static void add_plan(lean *l, const int32_t *value)
{
    search_net *net = &l->net;
    search_lean_plan found = {
        .value =
            fs_memdup(l->arena, value, (size_t)net->n_nodes * sizeof *value)};
    found.bytes = fullest(net, &l->sums);
    for (int32_t k = 0; k < net->n_limits; k++)
        net->limit_bytes[k] = found.bytes;
    int64_t steps = 0;
    found.cost = search_net_improve(net, found.value, l->arena, &steps);
    fs_deadline_spend(&l->deadline, steps);
    for (int32_t k = 0; k < l->out->plans.n; k++)
        if (l->out->plans.at[k].cost <= found.cost &&
            l->out->plans.at[k].bytes <= found.bytes)
            return;
    fs_push(l->arena, &l->out->plans, found);
}

/* Seconds when bytes have these prices; false when nothing was found. */
static bool minimise(lean *l)
{
    fs_arena *scratch = fs_arena_create();
    search_effort effort = {l->deadline, SWEEPS, INFINITY, 0, false, 0};
    search_minimum min;
    search_cfn_minimise(search_net_priced(&l->net, &l->prices, scratch),
                        &effort, scratch, &min);
    bool found = isfinite(min.cost);
    if (found) {
        search_net_sums(&l->net, min.value, &l->sums);
        add_plan(l, min.value);
    }
    fs_arena_destroy(scratch);
    return found;
}

/* The fuller a moment is, the more of the weight. */
static void shift(lean *l)
{
    int32_t n = l->net.n_limits;
    double most = (double)fullest(&l->net, &l->sums), sum = 0;
    for (int32_t k = 0; k < n; k++) {
        double full = (double)l->sums.bytes[k] / most;
        l->part[k] *= exp(SHARPNESS * (full - 1));
        sum += l->part[k];
    }
    for (int32_t k = 0; k < n; k++)
        l->part[k] = fmax(l->part[k] / sum, 1e-9 / n);
}

static int by_cost(const void *a, const void *b)
{
    const search_lean_plan *x = a, *y = b;
    if (x->cost < y->cost || x->cost > y->cost)
        return x->cost < y->cost ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

void search_lean_plans(const search_net *net, bool leanest,
                       fs_deadline deadline, fs_arena *arena, search_lean *out)
{
    int32_t n = net->n_limits;
    lean l = {*net,
              deadline,
              arena,
              search_prices_new(net, arena),
              fs_new(arena, double, n),
              search_sums_new(net, arena),
              out};
    l.net.limit_bytes = fs_new(arena, int64_t, n);
    *out = (search_lean){0};
    for (int32_t k = 0; k < n; k++)
        l.part[k] = 1.0 / n;
    if (!minimise(&l) || n == 0 || fullest(net, &l.sums) == 0)
        return;
    double weight = LIGHTEST * search_sums_cost(net, &l.sums) /
                    (double)fullest(net, &l.sums);
    for (int32_t j = 0; j < WEIGHTS; j++, weight *= 2)
        for (int32_t r = 0; r < ROUNDS && (!leanest || j >= HEAVY); r++) {
            shift(&l);
            for (int32_t k = 0; k < n; k++)
                l.prices.bytes[k] = weight * l.part[k];
            if (fs_deadline_over(&deadline) || !minimise(&l))
                break;
        }
    qsort(out->plans.at, (size_t)out->plans.n, sizeof *out->plans.at, by_cost);
}
