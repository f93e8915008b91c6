#include "config.h"
#include "search/cuts/deal.h"

#include <stdbool.h>

/* Stages so far, which end at one place. */
typedef struct label {
    double sum, slowest, step;
    double cost;       /* if nothing behind is slower */
    int32_t from, was; /* the place before, and the label there */
} label;

typedef struct dealer {
    const search_deal_chain *chain;
    int32_t most;
    label *at;  /* [(stage * (n + 1) + place) * most] ascending by cost */
    int32_t *n; /* [stage * (n + 1) + place] */
} dealer;

static double formula(const search_deal_chain *c, const label *l)
{
    return c->fill * l->sum + (c->micro_batches - c->fill) * l->slowest +
           l->step;
}

static size_t cell_of(const search_deal_chain *c, int32_t stage, int32_t place)
{
    return (size_t)stage * (size_t)(c->n + 1) + (size_t)place;
}

static void add_stage(const search_deal_chain *c, int32_t k, int32_t i,
                      int32_t j, label *l)
{
    const double a = c->micro[cell_of(c, k, j)] - c->micro[cell_of(c, k, i)] +
                     c->in[cell_of(c, k, i)] + c->back[cell_of(c, k, j)];
    const double b = c->step[cell_of(c, k, j)] - c->step[cell_of(c, k, i)];
    l->sum += a;
    l->slowest = a > l->slowest ? a : l->slowest;
    l->step = b > l->step ? b : l->step;
    l->cost = formula(c, l);
}

double search_deal_cost(const search_deal_chain *chain, const int32_t *begin)
{
    label all = {0};
    for (int32_t k = 0; k < chain->n_stages; k++)
        add_stage(chain, k, begin[k],
                  k + 1 < chain->n_stages ? begin[k + 1] : chain->n, &all);
    return all.cost;
}

/* Cheapest first; of equals what comes from an earlier place. */
static bool is_before(const label *a, const label *b)
{
    if (a->cost != b->cost)
        return a->cost < b->cost;
    return a->from != b->from ? a->from < b->from : a->was < b->was;
}

/* Among the first, in order. */
static void keep(dealer *d, size_t cell, const label *made)
{
    label *at = &d->at[cell * (size_t)d->most];
    int32_t *n = &d->n[cell];
    if (*n == d->most && is_before(&at[*n - 1], made))
        return;
    int32_t k = *n < d->most ? (*n)++ : *n - 1;
    for (; k > 0 && is_before(made, &at[k - 1]); k--)
        at[k] = at[k - 1];
    at[k] = *made;
}

/* Does stage k alone, from place i or one before it to j, take longer than the
 * last that is kept? With a margin against rounding. */
static bool too_long(const dealer *d, int32_t k, int32_t i, int32_t j)
{
    const search_deal_chain *c = d->chain;
    const size_t to = cell_of(c, k + 1, j);
    const double a = c->micro[cell_of(c, k, j)] - c->micro[cell_of(c, k, i)] +
                     c->back[cell_of(c, k, j)];
    return d->n[to] == d->most &&
           c->micro_batches * a * (1 - 1e-9) >
               d->at[(to + 1) * (size_t)d->most - 1].cost;
}

/* Stage k from each place before j, the last first: from some on it alone takes
 * longer than what was found. */
static void extend(dealer *d, int32_t k, int32_t j)
{
    const search_deal_chain *c = d->chain;
    const size_t to = cell_of(c, k + 1, j);
    for (int32_t i = j - 1; i >= k && !too_long(d, k, i, j); i--) {
        const size_t from = cell_of(c, k, i);
        for (int32_t l = 0; l < d->n[from]; l++) {
            label made = d->at[from * (size_t)d->most + (size_t)l];
            made.from = i;
            made.was = l;
            add_stage(c, k, i, j, &made);
            keep(d, to, &made);
        }
    }
}

static void trace(const dealer *d, int32_t l, int32_t *begin)
{
    const search_deal_chain *c = d->chain;
    for (int32_t k = c->n_stages, j = c->n; k > 0; k--) {
        const label *at =
            &d->at[cell_of(c, k, j) * (size_t)d->most + (size_t)l];
        begin[k - 1] = j = at->from;
        l = at->was;
    }
}

int32_t search_deal_best(const search_deal_chain *chain, int32_t most,
                         fs_arena *arena, int64_t *steps, search_deal *out)
{
    const size_t cells = (size_t)(chain->n_stages + 1) * (size_t)(chain->n + 1);
    fs_arena *scratch = fs_arena_create();
    dealer d = {.chain = chain,
                .most = most,
                .at = fs_new(scratch, label, cells * (size_t)most),
                .n = fs_new(scratch, int32_t, cells)};
    d.n[0] = 1; /* no stage, nothing done */
    for (int32_t k = 0; k < chain->n_stages; k++) {
        const bool last = k + 1 == chain->n_stages;
        for (int32_t j = last ? chain->n : k + 1; j <= chain->n; j++)
            extend(&d, k, j);
    }
    *steps += (int64_t)chain->n_stages * chain->n * chain->n / 2 * most;
    const size_t end = cell_of(chain, chain->n_stages, chain->n);
    const int32_t n = d.n[end];
    for (int32_t l = 0; l < n; l++) {
        out[l].begin = fs_new(arena, int32_t, chain->n_stages);
        out[l].cost = d.at[end * (size_t)most + (size_t)l].cost;
        trace(&d, l, out[l].begin);
    }
    fs_arena_destroy(scratch);
    return n;
}
