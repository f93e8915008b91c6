/* Plans that trade seconds for bytes. The sum of seconds and of weighted bytes
 * of all moments is additive; its minimisers for a fixed series of weights
 * lead from the leanest plan to the fastest. Within a weight the fuller
 * moments get more of it (multiplicative weights; Arora, Hazan, Kale, Theory
 * of Computing 8, 2012). The series ends early where nothing fits: what is met
 * under a limit is met under every larger one. */
#include "config.h"
#include "search/engine/lean.h"

#include "base/clock.h"
#include "search/engine/cfn.h"
#include "search/engine/prices.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Weights, of the fastest plan's seconds per byte. The first one has no shares
 * of moments to begin with. */
static const double weights[] = {8, 2, 1, 0.5, 0.25, 0.125, 0.0625};
/* Rounds of a weight, unless a minimiser is met so often in a row; so many
 * weights in a row that nothing fits with are enough. */
enum { ROUNDS = 4, FIRST_ROUNDS = 8, STUCK = 2, TOO_LIGHT = 3 };
enum { SWEEPS = 20, SHARPNESS = 20 };
/* What is mended may be so much dearer before it is mixed. */
#define DEARER 1.1

typedef struct lean {
    search_net net; /* its limits are what the plan at work takes */
    search_lean_wish wish;
    fs_deadline deadline;
    fs_arena *arena;
    search_prices prices;
    double *part;  /* [limit] of the weight, sum 1, */
    double *asked; /* and as it was at the last minimum */
    search_sums sums;
    int32_t *value; /* of the last minimiser, */
    int32_t met;    /* which was met so often in a row */
    bool fits;      /* it does, or a better one */
    search_lean *out;
} lean;

static int64_t fullest(const search_net *net, const search_sums *sums)
{
    int64_t most = 0;
    for (int32_t k = 0; k < net->n_limits; k++)
        most = sums->bytes[k] > most ? sums->bytes[k] : most;
    return most;
}

/* One that is neither slower nor fuller. */
static const search_lean_plan *find_better(const lean *l,
                                           const search_lean_plan *found)
{
    for (int32_t k = 0; k < l->out->plans.n; k++) {
        const search_lean_plan *known = &l->out->plans.at[k];
        if (known->cost <= found->cost && known->bytes <= found->bytes)
            return known;
    }
    return NULL;
}

static bool fits(lean *l, search_lean_plan *found)
{
    const search_lean_wish *wish = &l->wish;
    return found->bytes <= wish->limit &&
           (!wish->fits || wish->fits(wish->ctx, found));
}

/* Does it, or a better one, fit? */
static bool add_plan(lean *l, const int32_t *value)
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
    const search_lean_plan *better = find_better(l, &found);
    if (better)
        return better->fits;
    found.fits = fits(l, &found);
    if (found.fits)
        l->wish.below_s = fmin(l->wish.below_s, found.cost);
    fs_push(l->arena, &l->out->plans, found);
    return found.fits;
}

/* Seconds when bytes have these prices; false when nothing was found. */
static bool minimise(lean *l, search_minimum *min)
{
    fs_arena *scratch = fs_arena_create();
    search_effort effort = {
        .deadline = l->deadline, .sweeps = SWEEPS, .cutoff = INFINITY};
    search_cfn_minimise(search_net_priced(&l->net, &l->prices, scratch),
                        &effort, scratch, min);
    bool found = isfinite(min->cost);
    if (found) {
        const size_t bytes = (size_t)l->net.n_nodes * sizeof *l->value;
        const bool again = memcmp(l->value, min->value, bytes) == 0;
        l->met = again ? l->met + 1 : 1;
        memcpy(l->value, min->value, bytes);
        search_net_sums(&l->net, min->value, &l->sums);
        if (!again)
            l->fits = add_plan(l, min->value);
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

/* Prices that hardly moved since they were asked for a minimum have the same
 * again. */
#define HARDLY 1e-3

static bool has_moved(const lean *l)
{
    double most = 0;
    for (int32_t k = 0; k < l->net.n_limits; k++)
        most = fmax(most, fabs(l->part[k] - l->asked[k]));
    return most > HARDLY;
}

typedef enum verdict { FITS, TOO_FULL, OVER } verdict;

/* Minimisers at one weight: does one of them fit? It is over when nothing that
 * fits can cost as little as is wanted. */
static verdict weigh(lean *l, double weight, int32_t rounds)
{
    verdict v = TOO_FULL;
    l->met = 0;
    for (int32_t r = 0; r < rounds && l->met < STUCK; r++) {
        search_minimum min;
        shift(l);
        if (r > 0 && !has_moved(l))
            continue;
        for (int32_t k = 0; k < l->net.n_limits; k++) {
            l->asked[k] = l->part[k];
            l->prices.bytes[k] = weight * l->part[k];
        }
        const bool known = !fs_deadline_over(&l->deadline) && minimise(l, &min);
        if (!known ||
            min.bound - weight * (double)l->wish.limit > l->wish.below_s)
            return OVER;
        if (l->fits)
            v = FITS;
    }
    return v;
}

/* From the leanest on until weights are too light, or from the fastest on until
 * one is heavy enough. */
static void weigh_all(lean *l, double per_byte)
{
    const int32_t n = sizeof weights / sizeof *weights;
    int32_t light = 0;
    for (int32_t j = 0; j < n && light < TOO_LIGHT; j++) {
        const double weight = weights[l->wish.near ? n - 1 - j : j];
        const verdict v =
            weigh(l, weight * per_byte, j ? ROUNDS : FIRST_ROUNDS);
        if (v == OVER || (v == FITS && l->wish.near))
            break;
        light = v == FITS || l->wish.near ? 0 : light + 1;
    }
}

double search_lean_fastest(const search_net *net, fs_deadline deadline,
                           fs_arena *arena)
{
    const search_prices even = search_prices_new(net, arena);
    search_effort effort = {
        .deadline = deadline, .sweeps = SWEEPS, .cutoff = INFINITY};
    search_minimum min;
    search_cfn_minimise(search_net_priced(net, &even, arena), &effort, arena,
                        &min);
    if (!isfinite(min.cost))
        return INFINITY;
    search_sums sums = search_sums_new(net, arena);
    search_net_sums(net, min.value, &sums);
    return search_sums_cost(net, &sums);
}

void search_lean_plans(const search_net *net, const search_lean_wish *wish,
                       fs_deadline deadline, fs_arena *arena, search_lean *out)
{
    int32_t n = net->n_limits;
    search_minimum fastest;
    lean l = {.net = *net,
              .wish = *wish,
              .deadline = deadline,
              .arena = arena,
              .prices = search_prices_new(net, arena),
              .part = fs_new(arena, double, n),
              .asked = fs_new(arena, double, n),
              .sums = search_sums_new(net, arena),
              .value = fs_new(arena, int32_t, net->n_nodes),
              .out = out};
    for (int32_t i = 0; i < net->n_nodes; i++)
        l.value[i] = -1;
    l.net.limit_bytes = fs_new(arena, int64_t, n);
    *out = (search_lean){0};
    for (int32_t k = 0; k < n; k++)
        l.part[k] = 1.0 / n;
    if (!minimise(&l, &fastest) || n == 0 || fullest(net, &l.sums) == 0)
        return;
    const double per_byte =
        search_sums_cost(net, &l.sums) / (double)fullest(net, &l.sums);
    weigh_all(&l, per_byte);
    qsort(out->plans.at, (size_t)out->plans.n, sizeof *out->plans.at, by_cost);
}

/* Between the minimisers of two weights there is none, but mixtures of both:
 * these use up what room there is. */
void search_lean_blend(const search_net *net, const search_lean *all,
                       const int64_t *limit, fs_deadline deadline,
                       fs_arena *arena, search_lean_plan *out)
{
    enum { PASSES = 3 };
    search_net within = *net;
    search_sums sums = search_sums_new(net, arena);
    within.limit_bytes =
        fs_memdup(arena, limit, (size_t)net->n_limits * sizeof *limit);
    double was = INFINITY;
    for (int32_t pass = 0; pass < PASSES && out->cost < was; pass++) {
        int64_t steps = 0;
        was = out->cost;
        for (int32_t k = 0; k < all->plans.n; k++)
            search_net_cross(&within, out->value, all->plans.at[k].value, arena,
                             &steps);
        out->cost = search_net_improve(&within, out->value, arena, &steps);
        fs_deadline_spend(&deadline, steps);
        if (fs_deadline_over(&deadline))
            break;
    }
    search_net_sums(net, out->value, &sums);
    out->bytes = fullest(net, &sums);
    out->fits = false;
    out->full = 0;
}

bool search_lean_mend(const search_net *net, const search_lean *all,
                      const int64_t *limit, double most_s, fs_deadline deadline,
                      fs_arena *arena, search_lean_plan *out)
{
    search_net within = *net;
    within.limit_bytes =
        fs_memdup(arena, limit, (size_t)net->n_limits * sizeof *limit);
    out->cost = search_net_mend(&within, out->value, deadline, arena);
    if (!(out->cost < DEARER * most_s) || fs_deadline_over(&deadline))
        return false;
    search_lean_blend(net, all, limit, deadline, arena, out);
    return out->cost < most_s;
}
