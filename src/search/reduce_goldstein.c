/* Dead-end elimination (Goldstein 1994): value s is dropped when, whatever the
 * neighbours choose, value t costs no more,
 *   c(t) - c(s) + sum_k max_x [R_k(t, x) - R_k(s, x)] <= 0,
 * and t never holds more bytes. */
#include "config.h"
#include "search/reduce.h"

#include <math.h>

/* A pair as the node sees it: entry (s, x) is cost[s * own + x * other]. */
typedef struct side {
    const double *cost;
    int64_t own, other;
    int32_t n;      /* values of the neighbour */
    double *least;  /* [s] least entry of row s, */
    int32_t *where; /* [s] and the x that has it */
    int32_t tried;  /* an x at which the value in question does well */
} side;

typedef struct dominance {
    const search_cfn *cfn;
    const double *unary;
    int32_t node, n, n_sides;
    side *sides;
    double *least; /* [s] cost with the least entries of all sides */
    int64_t cells; /* of the sides */
} dominance;

static void find_least(const side *a, int32_t n)
{
    for (int64_t s = 0; s < n; s++) {
        a->least[s] = INFINITY;
        a->where[s] = 0;
    }
    for (int64_t x = 0; x < a->n; x++)
        for (int64_t s = 0; s < n; s++) {
            double c = a->cost[s * a->own + x * a->other];
            a->where[s] = c < a->least[s] ? (int32_t)x : a->where[s];
            a->least[s] = c < a->least[s] ? c : a->least[s];
        }
}

static size_t room_of(int32_t n, int32_t n_sides)
{
    size_t numbers = (size_t)(n_sides + 1) * (size_t)n;
    return (size_t)n_sides * sizeof(side) +
           numbers * (sizeof(double) + sizeof(int32_t));
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
    double *least = (double *)(void *)(d->sides + d->n_sides);
    int32_t *where = (int32_t *)(void *)(least + (d->n_sides + 1) * (int64_t)n);
    d->least = least;
    for (int32_t s = 0; s < n; s++)
        d->least[s] = d->unary[s];
    for (int32_t k = 0; k < d->n_sides; k++, where += n) {
        const search_pair *pair = &cfn->pairs.at[at->pairs.at[k]];
        side *a = &d->sides[k];
        *a = (side){.cost = pair->cost,
                    .n = cfn->dom[search_pair_other(pair, node)],
                    .least = least += n,
                    .where = where};
        search_pair_strides(cfn, pair, node, &a->own, &a->other);
        find_least(a, n);
        d->cells += (int64_t)n * a->n;
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

/* max over x of R(t, x) - R(s, x), over the x that go with s, or something
 * above `most` as soon as that is clear; its x is tried first for the next t.
 * An x that does not go with s gives -INFINITY or NAN, never larger. */
static double worst_change(side *a, int32_t s, int32_t t, double most)
{
    const double *from = a->cost + s * a->own, *to = a->cost + t * a->own;
    double worst = -INFINITY;
    for (int32_t x = 0; x < a->n; x++, from += a->other, to += a->other) {
        double change = *to - *from;
        if (change > worst) {
            worst = change;
            if (worst > most) {
                a->tried = x;
                break;
            }
        }
    }
    return worst;
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
        double guess = change_at(a, s, t);
        gap += worst_change(a, s, t, guess - gap) - guess;
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

void search_reduce_goldstein(search_cfn *cfn, int32_t node)
{
    int32_t n = cfn->dom[node], n_sides = cfn->at[node].pairs.n, kept = n;
    dominance d;
    if (n == 1)
        return;
    size_t bytes = room_of(n, n_sides);
    char *room = search_reduce_room(cfn, bytes + (size_t)n);
    bool *keep = (bool *)(room + bytes);
    dominance_init(&d, cfn, node, room);
    search_usage_pack(cfn, node);
    for (int32_t s = 0; s < n; s++)
        keep[s] = true;
    for (int32_t s = 0; s < n; s++)
        if (dominated_by_any(&d, s, keep)) {
            keep[s] = false;
            kept--;
        }
    cfn->steps += (int64_t)n * n + 2 * d.cells;
    if (kept < n)
        search_cfn_keep(cfn, node, keep);
}
