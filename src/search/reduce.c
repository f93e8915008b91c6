/* Exact reductions of an additive network. Each keeps at least one optimum;
 * all but search_cfn_arcs need the objective to be a plain sum (one stage, or
 * prices in the place of the maxima and the memory limits). */
#include "config.h"
#include "search/cfn.h"

#include <math.h>
#include <string.h>

/* Least entry of row s of a pair as `node` sees it. */
static double row_least(const search_cfn *cfn, const search_pair *pair,
                        int32_t node, int32_t s)
{
    int64_t own, other;
    search_pair_strides(cfn, pair, node, &own, &other);
    int32_t n = cfn->dom[search_pair_other(pair, node)];
    const double *row = pair->cost + s * own;
    double best = INFINITY;
    for (int32_t x = 0; x < n; x++)
        best = row[x * other] < best ? row[x * other] : best;
    return best;
}

/* Drops values of infinite cost, or that no value of a neighbour goes with.
 * True when something was dropped. */
static bool drop_dead_values(search_cfn *cfn, int32_t node)
{
    bool keep[UINT16_MAX], any = false;
    const search_incident *at = &cfn->at[node];
    for (int32_t s = 0; s < cfn->dom[node]; s++) {
        keep[s] = isfinite(cfn->unary[node][s]);
        for (int32_t k = 0; keep[s] && k < at->pairs.n; k++)
            keep[s] = isfinite(
                row_least(cfn, &cfn->pairs.at[at->pairs.at[k]], node, s));
        any |= !keep[s];
    }
    if (any)
        search_cfn_keep(cfn, node, keep);
    return any;
}

/* A node is looked at again when a neighbour has lost a value. */
void search_cfn_arcs(search_cfn *cfn)
{
    fs_arena *arena = fs_arena_create();
    bool *listed = fs_new(arena, bool, cfn->n);
    FS_VEC(int32_t) list = {0};
    for (int32_t i = cfn->n; i-- > 0;)
        if (!cfn->gone[i]) {
            listed[i] = true;
            fs_push(arena, &list, i);
        }
    while (list.n > 0 && !cfn->infeasible) {
        int32_t node = list.at[--list.n];
        const search_incident *at = &cfn->at[node];
        listed[node] = false;
        if (!drop_dead_values(cfn, node))
            continue;
        for (int32_t k = 0; k < at->pairs.n; k++) {
            int32_t other =
                search_pair_other(&cfn->pairs.at[at->pairs.at[k]], node);
            if (!listed[other])
                fs_push(arena, &list, other);
            listed[other] = true;
        }
    }
    fs_arena_destroy(arena);
}

/* Exact for any additive objective: the cost of a pair that is u(a) + v(b)
 * belongs to its ends. Rounding of the split is below 1e-13 of the entries. */
static bool split_pair(search_cfn *cfn, int32_t id)
{
    search_pair *pair = &cfn->pairs.at[id];
    int32_t nu = cfn->dom[pair->u], nv = cfn->dom[pair->v];
    const double *r = pair->cost;
    for (int32_t x = 0; x < nv; x++)
        if (!isfinite(r[x]))
            return false;
    for (int64_t s = 1; s < nu; s++) {
        double shift = r[s * nv] - r[0];
        for (int32_t x = 0; x < nv; x++) {
            double here = r[s * nv + x];
            if (!isfinite(here) ||
                fabs(here - r[x] - shift) > 1e-14 * (fabs(here) + fabs(r[x])))
                return false;
        }
    }
    for (int64_t s = 0; s < nu; s++)
        cfn->unary[pair->u][s] += r[s * nv] - r[0];
    for (int32_t x = 0; x < nv; x++)
        cfn->unary[pair->v][x] += r[x];
    search_cfn_drop_pair(cfn, id);
    return true;
}

/* Degree 0, or one value: its cost is added to what is next to it. */
static void fold_single(search_cfn *cfn, int32_t node)
{
    const double *unary = cfn->unary[node];
    uint16_t *best = fs_new(cfn->arena, uint16_t, 1);
    for (int32_t s = 1; s < cfn->dom[node]; s++)
        if (unary[s] < unary[*best])
            *best = (uint16_t)s;
    cfn->offset += unary[*best];
    const search_incident *at = &cfn->at[node];
    for (int32_t k = 0; k < at->pairs.n; k++) {
        const search_pair *pair = &cfn->pairs.at[at->pairs.at[k]];
        int32_t other = search_pair_other(pair, node);
        for (int32_t x = 0; x < cfn->dom[other]; x++)
            cfn->unary[other][x] += pair->cost[x];
    }
    search_cfn_record(cfn, node, NULL, 0, best);
}

/* Rows by the neighbour's value: out[x * n + s]. */
static const double *rows_by_other(search_cfn *cfn, const search_pair *pair,
                                   int32_t node)
{
    int64_t own, other;
    search_pair_strides(cfn, pair, node, &own, &other);
    int32_t n = cfn->dom[node], nx = cfn->dom[search_pair_other(pair, node)];
    if (own == 1)
        return pair->cost;
    double *out = fs_new(cfn->arena, double, (size_t)n *(size_t)nx);
    for (int64_t x = 0; x < nx; x++)
        for (int64_t s = 0; s < n; s++)
            out[x * n + s] = pair->cost[s * own + x * other];
    return out;
}

static void fold_leaf(search_cfn *cfn, int32_t node)
{
    const search_pair *pair = &cfn->pairs.at[cfn->at[node].pairs.at[0]];
    int32_t other = search_pair_other(pair, node), n = cfn->dom[node];
    const double *rows = rows_by_other(cfn, pair, node);
    uint16_t *best = fs_new(cfn->arena, uint16_t, cfn->dom[other]);
    for (int32_t x = 0; x < cfn->dom[other]; x++) {
        double least = INFINITY;
        for (int32_t s = 0; s < n; s++) {
            double c = cfn->unary[node][s] + rows[(int64_t)x * n + s];
            if (c < least) {
                least = c;
                best[x] = (uint16_t)s;
            }
        }
        cfn->unary[other][x] += least;
    }
    cfn->steps += (int64_t)n * cfn->dom[other];
    search_cfn_record(cfn, node, &other, 1, best);
}

/* Min-plus product of the two pairs of a node of degree 2. */
static void fold_link(search_cfn *cfn, int32_t node)
{
    const int32_t *ids = cfn->at[node].pairs.at;
    const search_pair *p = &cfn->pairs.at[ids[0]], *q = &cfn->pairs.at[ids[1]];
    int32_t scope[2] = {search_pair_other(p, node), search_pair_other(q, node)};
    int64_t n = cfn->dom[node], nx = cfn->dom[scope[0]],
            ny = cfn->dom[scope[1]];
    const double *left = rows_by_other(cfn, p, node);
    const double *right = rows_by_other(cfn, q, node);
    double *cost = fs_new(cfn->arena, double, nx *ny);
    uint16_t *best = fs_new(cfn->arena, uint16_t, nx * ny);
    double *sum = fs_new(cfn->arena, double, n);
    for (int64_t x = 0; x < nx; x++) {
        for (int64_t s = 0; s < n; s++)
            sum[s] = cfn->unary[node][s] + left[x * n + s];
        for (int64_t y = 0; y < ny; y++) {
            double least = INFINITY;
            int64_t which = 0;
            for (int64_t s = 0; s < n; s++) {
                double c = sum[s] + right[y * n + s];
                which = c < least ? s : which;
                least = c < least ? c : least;
            }
            cost[x * ny + y] = least;
            best[x * ny + y] = (uint16_t)which;
        }
    }
    cfn->steps += n * nx * ny;
    search_cfn_record(cfn, node, scope, 2, best);
    search_cfn_add(cfn, scope[0], scope[1], cost, 1);
}

/* One pass over the nodes of degree <= 2; true when one was eliminated. */
static bool fold_nodes(search_cfn *cfn)
{
    bool any = false;
    for (int32_t i = 0; i < cfn->n; i++) {
        if (cfn->gone[i])
            continue;
        int32_t degree = cfn->at[i].pairs.n;
        if (cfn->dom[i] == 1 || degree == 0)
            fold_single(cfn, i);
        else if (degree == 1)
            fold_leaf(cfn, i);
        else if (degree == 2)
            fold_link(cfn, i);
        else
            continue;
        any = true;
    }
    return any;
}

/* What Goldstein's test needs of one node, made once per visit. */
typedef struct dominance {
    search_cfn *cfn;
    int32_t node, n, n_pairs;
    const double **row; /* [pair] [s * n_other + x] */
    double **least;     /* [pair] [s] */
    int32_t *n_other;
} dominance;

static void dominance_init(dominance *d, search_cfn *cfn, int32_t node,
                           fs_arena *arena)
{
    const search_incident *at = &cfn->at[node];
    *d = (dominance){cfn,
                     node,
                     cfn->dom[node],
                     at->pairs.n,
                     fs_new(arena, const double *, at->pairs.n),
                     fs_new(arena, double *, at->pairs.n),
                     fs_new(arena, int32_t, at->pairs.n)};
    for (int32_t k = 0; k < d->n_pairs; k++) {
        const search_pair *pair = &cfn->pairs.at[at->pairs.at[k]];
        int64_t own, other;
        search_pair_strides(cfn, pair, node, &own, &other);
        int32_t nx = cfn->dom[search_pair_other(pair, node)];
        d->n_other[k] = nx;
        double *row = fs_new(arena, double, (size_t)d->n *(size_t)nx);
        d->least[k] = fs_new(arena, double, d->n);
        for (int64_t s = 0; s < d->n; s++) {
            d->least[k][s] = INFINITY;
            for (int64_t x = 0; x < nx; x++) {
                double c = pair->cost[s * own + x * other];
                row[s * nx + x] = c;
                if (c < d->least[k][s])
                    d->least[k][s] = c;
            }
        }
        d->row[k] = row;
    }
}

/* max over x of R(t, x) - R(s, x), over the x that go with s. */
static double worst_change(const double *s, const double *t, int32_t n)
{
    double worst = -INFINITY;
    for (int32_t x = 0; x < n; x++) {
        if (!isfinite(s[x]))
            continue;
        double change = t[x] - s[x];
        worst = change > worst ? change : worst;
    }
    return worst;
}

/* Is value s never better than t, whatever the neighbours choose? Exact when
 * c(t) + sum_k max_x [R_k(t, x) - R_k(s, x)] <= c(s) (Goldstein 1994). */
static bool dominated(const dominance *d, int32_t s, int32_t t)
{
    const double *unary = d->cfn->unary[d->node];
    double gap = unary[t] - unary[s];
    for (int32_t k = 0; k < d->n_pairs; k++)
        gap += d->least[k][t] - d->least[k][s];
    /* `gap` is now a lower bound of the sum; each pair makes it exact. */
    for (int32_t k = 0; gap <= 0 && k < d->n_pairs; k++) {
        int64_t n = d->n_other[k];
        gap +=
            worst_change(d->row[k] + s * n, d->row[k] + t * n, d->n_other[k]) -
            (d->least[k][t] - d->least[k][s]);
    }
    return gap <= 0;
}

static bool drop_dominated(search_cfn *cfn, int32_t node)
{
    fs_arena *arena = fs_arena_create();
    dominance d;
    dominance_init(&d, cfn, node, arena);
    bool *keep = fs_new(arena, bool, d.n), any = false;
    memset(keep, true, (size_t)d.n * sizeof *keep);
    for (int32_t s = 0; s < d.n; s++)
        for (int32_t t = 0; keep[s] && t < d.n; t++)
            if (t != s && keep[t] && dominated(&d, s, t)) {
                keep[s] = false;
                any = true;
            }
    cfn->steps += (int64_t)d.n * d.n;
    if (any)
        search_cfn_keep(cfn, node, keep);
    fs_arena_destroy(arena);
    return any;
}

static bool drop_all_dominated(search_cfn *cfn)
{
    bool any = false;
    for (int32_t i = 0; i < cfn->n; i++)
        if (!cfn->gone[i] && cfn->dom[i] > 1)
            any |= drop_dominated(cfn, i);
    return any;
}

static bool split_pairs(search_cfn *cfn)
{
    bool any = false;
    for (int32_t p = 0; p < cfn->pairs.n; p++)
        if (!cfn->pairs.at[p].gone)
            any |= split_pair(cfn, p);
    return any;
}

void search_cfn_reduce(search_cfn *cfn)
{
    for (bool again = true; again;) {
        search_cfn_arcs(cfn);
        if (cfn->infeasible)
            return;
        again = drop_all_dominated(cfn);
        again |= split_pairs(cfn);
        again |= fold_nodes(cfn);
    }
}
