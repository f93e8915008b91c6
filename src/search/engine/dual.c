/* Sequential reweighted message passing (Kolmogorov, TPAMI 28(10), 2006; 37(5),
 * 2015). A message moves cost from a pair to one of its ends; any messages
 * leave the sum unchanged, so
 *   bound = offset + sum_i min_s hat_i(s),
 *   hat_i = unary_i + sum of the messages to i,
 * is proven whenever every pair keeps nothing negative, which holds here
 * after each step: a node hands its hat to the pairs that lie ahead, and each
 * of these passes its minimum on at once.
 *
 * Reduced-cost fixing: when node i is visited all its pairs have given it what
 * they can, so no assignment with value s costs less than
 *   bound + hat_i(s) - min hat_i;
 * a value whose bound reaches the best known cost is dropped (exact for what
 * could still be better). */
#include "config.h"
#include "search/engine/dual.h"

#include "base/wide.h"
#include "search/engine/minplus.h"

#include <math.h>
#include <string.h>

static double *message(const search_pair *pair, int32_t node)
{
    return pair->msg[pair->u == node ? 0 : 1];
}

/* Sets to[] to the least that the pair has left for each value of `node`. */
static void pull(search_dual *d, const search_pair *pair, int32_t node,
                 double *to)
{
    search_cfn *cfn = d->cfn;
    int32_t nu = cfn->dom[pair->u], nv = cfn->dom[pair->v];
    const double *from = message(pair, search_pair_other(pair, node));
    (node == pair->u ? search_rows_less : search_columns_less)(pair->cost, from,
                                                               nu, nv, to);
    cfn->steps += (int64_t)nu * nv;
}

static double least_of(const double *at, int32_t n)
{
    double best = INFINITY;
    for (int32_t s = 0; s < n; s++)
        best = at[s] < best ? at[s] : best;
    return best;
}

static void set_least(search_dual *d, int32_t node)
{
    const double least = least_of(d->hat[node], d->cfn->dom[node]);
    d->sum += least - d->least[node];
    d->least[node] = least;
}

static void collect(search_dual *d, int32_t node)
{
    const search_cfn *cfn = d->cfn;
    const search_incident *at = &cfn->at[node];
    int32_t n = cfn->dom[node];
    double *hat = d->hat[node];
    memcpy(hat, cfn->unary[node], (size_t)n * sizeof *hat);
    for (int32_t k = 0; k < at->pairs.n; k++) {
        const double *msg = message(&cfn->pairs.at[at->pairs.at[k]], node);
        for (int32_t s = 0; s < n; s++)
            hat[s] += msg[s];
    }
    set_least(d, node);
}

/* The sum afresh: running sums drift. */
static double total(const search_dual *d)
{
    double sum = d->cfn->offset;
    for (int32_t i = 0; i < d->cfn->n; i++)
        if (!d->cfn->gone[i])
            sum += d->least[i];
    return sum;
}

search_dual *search_dual_new(search_cfn *cfn, fs_arena *arena)
{
    search_dual *d = fs_new(arena, search_dual, 1);
    d->cfn = cfn;
    d->arena = arena;
    d->upper = d->best = INFINITY;
    d->hat = fs_new(arena, double *, cfn->n);
    d->least = fs_new(arena, double, cfn->n);
    d->value = fs_new(arena, int32_t, cfn->n);
    d->place = fs_new(arena, int32_t, cfn->n);
    d->drop = fs_new(arena, bool *, cfn->n);
    d->stale = fs_new(arena, bool, cfn->n);
    int32_t most = 0;
    for (int32_t p = 0; p < cfn->pairs.n; p++) {
        search_pair *pair = &cfn->pairs.at[p];
        if (pair->gone)
            continue;
        pair->msg[0] = fs_new(arena, double, cfn->dom[pair->u]);
        pair->msg[1] = fs_new(arena, double, cfn->dom[pair->v]);
        pull(d, pair, pair->v, pair->msg[1]);
    }
    for (int32_t i = 0; i < cfn->n; i++) {
        most = cfn->dom[i] > most ? cfn->dom[i] : most;
        d->hat[i] = fs_new(arena, double, cfn->dom[i]);
        if (!cfn->gone[i])
            collect(d, i);
    }
    d->room = fs_new(arena, double, most);
    d->bound = d->sum = total(d);
    return d;
}

/* ---- decoding ---- */

/* d->room += what the pair costs with each value of `node`, given the other's
 * place. */
static void add_given(search_dual *d, const search_pair *pair, int32_t node)
{
    const int32_t n = d->cfn->dom[node],
                  place = d->place[search_pair_other(pair, node)];
    int64_t own, step;
    search_pair_strides(d->cfn, pair, node, &own, &step);
    const double *cost = pair->cost + place * step;
    for (int32_t s = 0; s < n; s++)
        d->room[s] += cost[s * own];
}

static int32_t place_of_least(const double *at, int32_t n)
{
    int32_t best = 0;
    for (int32_t s = 1; s < n; s++)
        best = at[s] < at[best] ? s : best;
    return best;
}

/* Best value of a node given the nodes before it, with the messages standing
 * for those after it. */
static int32_t decode(search_dual *d, int32_t node)
{
    const search_cfn *cfn = d->cfn;
    const search_incident *at = &cfn->at[node];
    const int32_t n = cfn->dom[node];
    memcpy(d->room, cfn->unary[node], (size_t)n * sizeof *d->room);
    for (int32_t k = 0; k < at->pairs.n; k++) {
        const search_pair *pair = &cfn->pairs.at[at->pairs.at[k]];
        const double *msg = message(pair, node);
        if (search_pair_other(pair, node) < node)
            add_given(d, pair, node);
        else
            for (int32_t s = 0; s < n; s++)
                d->room[s] += msg[s];
    }
    return place_of_least(d->room, n);
}

/* One value at a time, given all neighbours; true when something changed. */
static bool improve(search_dual *d, int32_t node)
{
    const search_cfn *cfn = d->cfn;
    const search_incident *at = &cfn->at[node];
    const int32_t n = cfn->dom[node];
    memcpy(d->room, cfn->unary[node], (size_t)n * sizeof *d->room);
    for (int32_t k = 0; k < at->pairs.n; k++)
        add_given(d, &cfn->pairs.at[at->pairs.at[k]], node);
    const int32_t best = place_of_least(d->room, n);
    if (!(d->room[best] < d->room[d->place[node]]))
        return false;
    d->place[node] = best;
    for (int32_t k = 0; k < at->pairs.n; k++)
        d->stale[search_pair_other(&cfn->pairs.at[at->pairs.at[k]], node)] =
            true;
    return true;
}

static void take_decoded(search_dual *d)
{
    const search_cfn *cfn = d->cfn;
    enum { ROUNDS = 10 };
    memset(d->stale, !d->plain, (size_t)cfn->n);
    for (int32_t round = 0, any = 1; any && round < ROUNDS; round++) {
        any = 0;
        for (int32_t i = 0; i < cfn->n; i++) {
            if (cfn->gone[i] || !d->stale[i])
                continue;
            d->stale[i] = false;
            any |= improve(d, i);
        }
    }
    double cost = search_cfn_cost(cfn, d->place);
    if (cost < d->best) {
        d->best = cost;
        for (int32_t i = 0; i < cfn->n; i++)
            if (!cfn->gone[i])
                d->value[i] = cfn->value[i][d->place[i]];
    }
}

/* ---- sweeps ---- */

static void count_sides(const search_dual *d, int32_t node, int32_t *before,
                        int32_t *after)
{
    const search_incident *at = &d->cfn->at[node];
    *before = *after = 0;
    for (int32_t k = 0; k < at->pairs.n; k++) {
        const search_pair *pair = &d->cfn->pairs.at[at->pairs.at[k]];
        (*(search_pair_other(pair, node) < node ? before : after))++;
    }
}

/* Pulls to `node`; its hat changes by what the message does, so that a node of
 * many pairs is not summed up for each of them. */
static void pass_on(search_dual *d, const search_pair *pair, int32_t node)
{
    double *msg = message(pair, node), *hat = d->hat[node];
    pull(d, pair, node, d->room);
    for (int32_t s = 0; s < d->cfn->dom[node]; s++) {
        hat[s] += d->room[s] - msg[s];
        msg[s] = d->room[s];
    }
    set_least(d, node);
}

/* Hands the node's hat to the pairs ahead of it and lets them pass it on. */
static void push(search_dual *d, int32_t node, bool forth)
{
    search_cfn *cfn = d->cfn;
    const search_incident *at = &cfn->at[node];
    int32_t before, after;
    count_sides(d, node, &before, &after);
    int32_t ahead = forth ? after : before;
    if (ahead == 0)
        return;
    double share = 1.0 / (before > after ? before : after);
    double *hat = d->hat[node];
    for (int32_t k = 0; k < at->pairs.n; k++) {
        const search_pair *pair = &cfn->pairs.at[at->pairs.at[k]];
        int32_t other = search_pair_other(pair, node);
        if ((other > node) != forth)
            continue;
        double *msg = message(pair, node);
        for (int32_t s = 0; s < cfn->dom[node]; s++)
            msg[s] -= share * hat[s];
        pass_on(d, pair, other);
    }
    collect(d, node);
}

/* Flags values that cannot lead to less than `upper`; costs within 1e-10 of
 * it count as equal. */
static void flag(search_dual *d, int32_t node)
{
    double upper = d->upper - 1e-10 * fabs(d->upper);
    int32_t n = d->cfn->dom[node];
    bool *keep = fs_new(d->arena, bool, n), any = false;
    for (int32_t s = 0; s < n; s++) {
        keep[s] = !(d->sum + d->hat[node][s] - d->least[node] >= upper);
        any |= !keep[s];
    }
    d->drop[node] = any ? keep : NULL;
}

static void sweep(search_dual *d, bool forth, bool decodes)
{
    search_cfn *cfn = d->cfn;
    d->sum = total(d);
    for (int32_t k = 0; k < cfn->n; k++) {
        int32_t i = forth ? k : cfn->n - 1 - k;
        if (cfn->gone[i])
            continue;
        if (decodes) {
            d->place[i] = decode(d, i);
            if (isfinite(d->upper))
                flag(d, i);
        }
        push(d, i, forth);
    }
    d->now = total(d);
    d->bound = fmax(d->bound, d->now);
}

static void apply_drops(search_dual *d)
{
    search_cfn *cfn = d->cfn;
    bool any = false;
    for (int32_t i = 0; i < cfn->n && !cfn->infeasible; i++) {
        if (cfn->gone[i] || !d->drop[i])
            continue;
        any = true;
        search_cfn_keep(cfn, i, d->drop[i]);
        d->drop[i] = NULL;
    }
    if (any)
        search_cfn_reduce(cfn, SEARCH_ARCS);
    if (cfn->infeasible) {
        d->closed = true;
        return;
    }
    for (int32_t i = 0; any && i < cfn->n; i++)
        if (!cfn->gone[i])
            collect(d, i);
}

void search_dual_sweep(search_dual *d)
{
    if (d->closed)
        return;
    sweep(d, true, true);
    take_decoded(d);
    apply_drops(d);
    if (!d->closed)
        sweep(d, false, false);
    if (d->bound >= d->upper)
        d->closed = true;
}

void search_dual_raise(search_dual *d)
{
    sweep(d, true, false);
    sweep(d, false, false);
}

void search_dual_recollect(search_dual *d)
{
    for (int32_t i = 0; i < d->cfn->n; i++)
        if (!d->cfn->gone[i])
            collect(d, i);
}

void search_dual_pull(search_dual *d, int32_t pair)
{
    const search_pair *p = &d->cfn->pairs.at[pair];
    pull(d, p, p->v, p->msg[1]);
}
