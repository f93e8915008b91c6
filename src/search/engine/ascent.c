/* Dual ascent over messages and prices together (sequential reweighted message
 * passing with a price for each step of time). The bound
 *   offset - sum_t w_t room_t + sum_i min_s hat_i(s)
 * is proven for any messages and any w >= 0, so that neither has to be at its
 * best before the other moves: a sweep of messages, then a step of prices
 * towards what the choice that the messages tell holds too much. */
#include "config.h"
#include "search/engine/ascent.h"

#include "base/clock.h"
#include "search/engine/settle.h"

#include <math.h>
#include <string.h>

enum { SETTLE_EVERY = 10, PATIENCE = 20 };
/* The first step's part of the bound; the last's, and of the gap. */
#define FIRST_HOPE 0.02
#define LEAST 1e-5
#define LITTLE 0.01
/* Of what a step's direction is made of: the last choice's part. */
#define FRESH 0.1

struct search_ascent {
    search_pricing *p;
    search_kernel *k;
    search_cfn *cfn;
    search_dual *dual;
    int32_t *at;    /* [n] the last choice */
    double *toward; /* [n_steps] mean excess, as a share of the limit */
    double *sum;    /* [n_steps + 1] of prices */
    double *best;   /* [n_steps] prices of the best bound */
    double hope;    /* how much a step is to raise the bound */
    int32_t since;  /* the last step that did, sweeps */
    int32_t sweeps;
};

/* ---- prices of values ---- */

static void sum_prices(search_ascent *a)
{
    const search_kernel *k = a->k;
    double all = 0;
    for (int32_t t = 0; t < k->n_steps; t++) {
        a->sum[t + 1] = a->sum[t] + a->p->price[t];
        all += a->p->price[t] * ((double)k->room[t] / k->unit);
    }
    a->cfn->offset = k->offset - all;
}

static void price_node(search_ascent *a, int32_t i)
{
    const search_kernel *k = a->k;
    const int32_t *value = a->cfn->value[i];
    double *unary = a->cfn->unary[i];
    for (int32_t s = 0; s < a->cfn->dom[i]; s++)
        unary[s] = k->unary[k->first[i] + value[s]];
    for (int32_t p = k->first_piece[i]; p < k->first_piece[i + 1]; p++) {
        const search_piece *piece = &k->pieces[p];
        const double price =
            (a->sum[piece->to] - a->sum[piece->from]) / k->unit;
        for (int32_t s = 0; price > 0 && s < a->cfn->dom[i]; s++)
            unary[s] += price * (double)piece->bytes[value[s]];
    }
}

static void set_prices(search_ascent *a)
{
    sum_prices(a);
    for (int32_t i = 0; i < a->k->n; i++)
        price_node(a, i);
    search_dual_recollect(a->dual);
    a->p->steps += a->k->n_values;
}

/* ---- steps ---- */

static void know_choice(search_ascent *a, const int32_t *at)
{
    search_pricing *p = a->p;
    const search_kernel *k = a->k;
    for (int32_t i = 0; i < k->n; i++) {
        a->at[i] = at[i];
        double *share = p->share + k->first[i];
        for (int32_t s = 0; s < k->dom[i]; s++)
            share[s] *= 1 - FRESH;
        share[at[i]] += FRESH;
    }
    const double cost = search_kernel_cost(k, at);
    if (!(cost < p->cost) || search_kernel_over(a->k, at, 0) > 0)
        return;
    p->cost = cost;
    memcpy(p->best, at, (size_t)k->n * sizeof *at);
}

/* Towards the mean of what recent choices hold too much. */
static void move_prices(search_ascent *a)
{
    const search_kernel *k = a->k;
    double *w = a->p->price, squares = 0;
    search_kernel_over(a->k, a->at, 0); /* fills k->usage */
    for (int32_t t = 0; t < k->n_steps; t++) {
        const double over = (double)(k->usage[t] - k->room[t]) / k->unit;
        a->toward[t] += FRESH * (over - a->toward[t]);
        if (w[t] > 0 || a->toward[t] > 0)
            squares += a->toward[t] * a->toward[t];
    }
    if (!(squares > 0))
        return;
    const double step = a->hope / squares;
    for (int32_t t = 0; t < k->n_steps; t++)
        w[t] = fmax(0, w[t] + step * a->toward[t]);
    set_prices(a);
}

search_ascent *search_ascent_new(search_pricing *p, fs_arena *arena)
{
    search_kernel *k = p->k;
    search_ascent *a = fs_new(arena, search_ascent, 1);
    *a = (search_ascent){.p = p, .k = k};
    a->at = fs_new(arena, int32_t, k->n);
    a->toward = fs_new(arena, double, k->n_steps);
    a->best = fs_new(arena, double, k->n_steps);
    a->sum = fs_new(arena, double, k->n_steps + 1);
    p->share = fs_new(p->arena, double, k->n_values);
    a->cfn = search_cfn_new(k->n, arena);
    for (int32_t i = 0; i < k->n; i++)
        search_cfn_set(a->cfn, i, k->dom[i], k->unary + k->first[i]);
    for (int32_t e = 0; e < k->n_links; e++)
        search_cfn_share(a->cfn, k->links[e].u, k->links[e].v,
                         k->links[e].cost);
    search_cfn_reduce(a->cfn, SEARCH_ARCS);
    p->infeasible |= a->cfn->infeasible;
    if (p->infeasible)
        return a;
    memcpy(a->best, p->price, (size_t)k->n_steps * sizeof *a->best);
    a->dual = search_dual_new(a->cfn, arena);
    a->dual->plain = true; /* as steps, they are as good: settle.c improves */
    set_prices(a);
    return a;
}

/* A step that keeps its promise is tried larger; when steps have not for long,
 * smaller ones are, from the best prices. */
static void adapt(search_ascent *a, double before)
{
    search_pricing *p = a->p;
    const double gain = p->bound - before;
    if (gain > 0.5 * a->hope)
        a->hope *= 1.02;
    if (gain > 0.1 * a->hope) {
        a->since = 0;
        return;
    }
    if (++a->since < PATIENCE)
        return;
    a->since = 0;
    a->hope *= 0.7;
    memcpy(p->price, a->best, (size_t)a->k->n_steps * sizeof *a->best);
    set_prices(a);
}

static void sweep(search_ascent *a)
{
    search_pricing *p = a->p;
    const double before = p->bound;
    a->dual->upper = fmin(p->upper, p->cost);
    a->dual->best = INFINITY; /* prices were others */
    const int64_t steps = a->cfn->steps;
    search_dual_sweep(a->dual);
    know_choice(a, a->dual->value);
    if (a->dual->now > p->bound) {
        p->bound = a->dual->now;
        memcpy(a->best, p->price, (size_t)a->k->n_steps * sizeof *a->best);
    }
    if (!(a->hope > 0))
        a->hope = FIRST_HOPE * fabs(p->bound);
    if (!a->dual->closed && ++a->sweeps % SETTLE_EVERY == 0) {
        search_settle(a->k, a->dual, a->at);
        know_choice(a, a->at);
    }
    adapt(a, before);
    move_prices(a);
    p->steps += a->cfn->steps - steps + a->k->n_values;
}

static bool stalled(const search_ascent *a)
{
    const search_pricing *p = a->p;
    const double gap = fmin(p->upper, p->cost) - p->bound;
    return a->sweeps > 0 &&
           a->hope < fmin(LITTLE * gap, LEAST * fabs(p->bound));
}

bool search_ascent_rise(search_ascent *a, int32_t sweeps)
{
    search_pricing *p = a->p;
    for (int32_t n = 0; n < sweeps; n++) {
        if (p->infeasible || a->dual->closed || stalled(a))
            return false;
        if (fs_deadline_over(&p->deadline))
            return true;
        sweep(a);
        if (a->dual->closed)
            p->bound = fmax(p->bound, a->dual->upper);
    }
    return true;
}

int32_t search_ascent_end(search_ascent *a, bool *keep)
{
    search_pricing *p = a->p;
    const search_kernel *k = a->k;
    int32_t kept = 0;
    memcpy(p->price, a->best, (size_t)k->n_steps * sizeof *a->best);
    memset(keep, 0, (size_t)k->n_values);
    for (int32_t i = 0; !p->infeasible && !a->dual->closed && i < k->n; i++)
        for (int32_t s = 0; s < a->cfn->dom[i]; s++, kept++)
            keep[k->first[i] + a->cfn->value[i][s]] = true;
    return k->n_values - kept;
}
