/* Dead-end elimination (Goldstein 1994): value s is dropped when, whatever the
 * neighbours choose, value t costs no more,
 *   c(t) - c(s) + sum_k max_x [R_k(t, x) - R_k(s, x)] <= 0,
 * and t never holds more bytes. */
#include "config.h"
#include "search/engine/content.h"
#include "search/engine/minplus.h"
#include "search/engine/reduce.h"

#include <math.h>
#include <string.h>

/* A pair as the node sees it: entry (s, x) is cost[s * own + x * other]. */
typedef struct side {
    const double *cost;
    int64_t own, other;
    int32_t n;      /* values of the neighbour */
    double *least;  /* [s] least entry of row s, */
    int64_t *where; /* [s] and an x that has it */
    int64_t tried;  /* an x at which the value in question does well */
    double *room;   /* of n rows, where these are not rows of the table, */
    bool turned;    /* and if they were needed */
} side;

typedef struct dominance {
    const search_cfn *cfn;
    const double *unary;
    int32_t node, n, n_sides;
    side *sides;
    double *least; /* [s] cost with the least entries of all sides */
} dominance;

static void find_least(const side *a, int32_t n)
{
    if (a->other == 1)
        search_rows_least(a->cost, n, a->n, a->least, a->where);
    else
        search_columns_least(a->cost, a->n, n, a->least, a->where);
}

/* Row s, one entry after the other. */
static const double *row_of(side *a, int32_t n, int64_t s)
{
    if (a->other == 1)
        return a->cost + s * a->n;
    if (!a->turned)
        search_transpose(a->cost, a->n, n, a->room);
    a->turned = true;
    return a->room + s * a->n;
}

static size_t room_of(const search_cfn *cfn, int32_t node)
{
    const search_incident *at = &cfn->at[node];
    const int64_t n = cfn->dom[node];
    int64_t numbers = n;
    for (int32_t k = 0; k < at->pairs.n; k++) {
        const search_pair *pair = &cfn->pairs.at[at->pairs.at[k]];
        numbers += 2 * n + (pair->u == node ? 0 : n * cfn->dom[pair->u]);
    }
    return (size_t)at->pairs.n * sizeof(side) +
           (size_t)numbers * sizeof(double);
}

static void dominance_init(dominance *d, const search_cfn *cfn, int32_t node,
                           char *room)
{
    const search_incident *at = &cfn->at[node];
    int32_t n = cfn->dom[node];
    *d = (dominance){.cfn = cfn,
                     .unary = cfn->unary[node],
                     .node = node,
                     .n = n,
                     .n_sides = at->pairs.n,
                     .sides = (side *)(void *)room};
    double *next = (double *)(void *)(d->sides + d->n_sides);
    d->least = next;
    next += n;
    for (int32_t s = 0; s < n; s++)
        d->least[s] = d->unary[s];
    for (int32_t k = 0; k < d->n_sides; k++) {
        const search_pair *pair = &cfn->pairs.at[at->pairs.at[k]];
        side *a = &d->sides[k];
        *a = (side){.cost = pair->cost,
                    .n = cfn->dom[search_pair_other(pair, node)],
                    .least = next,
                    .where = (int64_t *)(void *)(next + n),
                    .room = next + 2 * n};
        next += 2 * n + (pair->u == node ? 0 : (int64_t)n * a->n);
        search_pair_strides(cfn, pair, node, &a->own, &a->other);
        find_least(a, n);
        for (int32_t s = 0; s < n; s++)
            d->least[s] += a->least[s];
    }
}

/* R(t, x) - R(s, x) at the x tried last: a bound of the largest change. */
static double change_at(const side *a, int32_t s, int32_t t)
{
    const double *column = a->cost + a->tried * a->other;
    return column[t * a->own] - column[s * a->own];
}

static bool dominated(dominance *d, int32_t s, int32_t t)
{
    if (!(d->least[t] <= d->least[s])) /* a bound of the sum, at once */
        return false;
    double gap = d->unary[t] - d->unary[s];
    for (int32_t k = 0; k < d->n_sides; k++)
        gap += change_at(&d->sides[k], s, t);
    /* `gap` is now a better bound; each pair makes it exact. */
    for (int32_t k = 0; gap <= 0 && k < d->n_sides; k++) {
        side *a = &d->sides[k];
        const double guess = change_at(a, s, t);
        /* An x that does not go with s gives -INFINITY or NAN, never larger;
         * the x of what is too large is tried first for the next t. */
        gap += search_largest_rise(row_of(a, d->n, s), row_of(a, d->n, t), a->n,
                                   guess - gap, &a->tried) -
               guess;
    }
    return gap <= 0 && search_usage_below(d->cfn, d->node, t, s);
}

static bool dominated_by_any(dominance *d, int32_t s, const bool *keep)
{
    for (int32_t k = 0; k < d->n_sides; k++)
        d->sides[k].tried = d->sides[k].where[s];
    for (int32_t t = 0; t < d->n; t++)
        if (t != s && keep[t] && dominated(d, s, t))
            return true;
    return false;
}

static void find_kept(search_cfn *cfn, int32_t node, bool *keep)
{
    const int32_t n = cfn->dom[node];
    dominance d;
    dominance_init(&d, cfn, node, search_reduce_room(cfn, room_of(cfn, node)));
    search_usage_pack(cfn, node);
    for (int32_t s = 0; s < n; s++)
        keep[s] = true;
    for (int32_t s = 0; s < n; s++)
        keep[s] = !dominated_by_any(&d, s, keep);
}

/* NULL: it is not worth asking, or bytes have a say. */
static search_outcome *outcome_of(search_cfn *cfn, int32_t node, int64_t cells)
{
    const search_incident *at = &cfn->at[node];
    search_deed_key key = {0};
    if (!search_is_worth(cfn, cells) || cfn->usage)
        return NULL;
    search_deed_add(&key, SEARCH_DEED_GOLDSTEIN);
    search_deed_add(&key, search_content_of_unary(cfn, node));
    for (int32_t k = 0; k < at->pairs.n; k++)
        search_deed_add_side(cfn, &key, &cfn->pairs.at[at->pairs.at[k]], node);
    return search_deed_of(cfn, &key);
}

void search_reduce_goldstein(search_cfn *cfn, int32_t node)
{
    const search_incident *at = &cfn->at[node];
    const int32_t n = cfn->dom[node];
    int64_t cells = 0;
    if (n == 1 || (cfn->stays && cfn->stays[node]))
        return;
    for (int32_t k = 0; k < at->pairs.n; k++)
        cells +=
            (int64_t)n *
            cfn->dom[search_pair_other(&cfn->pairs.at[at->pairs.at[k]], node)];
    cfn->steps += (int64_t)n * n + 2 * cells;
    search_outcome *known = outcome_of(cfn, node, cells);
    bool found[n], *keep = found;
    if (!known || !known->known)
        find_kept(cfn, node, found);
    if (known)
        keep = search_outcome_keep(cfn, known, found, n);
    if (keep && memchr(keep, false, (size_t)n))
        search_cfn_keep(cfn, node, keep);
}
