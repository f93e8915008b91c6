/* A baseline: OneFlow's auto parallel (sbp_constructor.cpp of its sources; the
 * eliminations are those of Jia et al., ICML 2018, arXiv 1802.04924, section
 * 5.2). On the additive network in which all stages have one price: nodes of
 * low degree are eliminated exactly, neighbours merged while they have few
 * values together, then, from the answer of `deduce`, the best values of up to
 * four neighbours at once while that helps. Bytes get a price, doubled while
 * limits are broken. No bound but the floor. */
#include "config.h"
#include "search/engine/cfn.h"
#include "search/engine/engine.h"
#include "search/engine/prices.h"

#include "base/clock.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MERGED_VALUES = 100,  /* at most, of two nodes together */
    RING = 4,             /* groups chosen at once */
    RING_STEPS = 20000,   /* of the search among their values */
    VISITS_PER_GROUP = 8, /* then it is enough */
    DOUBLINGS = 10,
    PAIR_STEPS = 5
};
/* The first price of all bytes together, of the cost. */
#define FIRST_PRICE (1.0 / 16)

/* A node of the kernel, or two merged. */
typedef struct group {
    int32_t n, node[2];
    int32_t n_values;
    int32_t *place; /* [n_values][n] */
    bool queued;
} group;

typedef struct ring {
    int32_t n, group[RING];
    double *base[RING];     /* [n_values] against all that stays */
    double least[RING + 1]; /* of these from here on */
    int32_t *order[RING];   /* cheapest first */
    int32_t at[RING], best[RING];
    double best_cost;
    int32_t steps;
} ring;

typedef struct greedy {
    search_cfn *cfn;
    fs_arena *arena;
    int32_t *place;    /* [node] as it is */
    int32_t *group_of; /* [node] */
    FS_VEC(group) groups;
    ring r;
} greedy;

/* ---- merging ---- */

static double pair_cost(const greedy *g, const search_pair *pair)
{
    return pair->cost[(int64_t)g->place[pair->u] * g->cfn->dom[pair->v] +
                      g->place[pair->v]];
}

typedef struct merge {
    double share; /* of its entries that are finite */
    int32_t pair;
} merge;

static int by_share(const void *a, const void *b)
{
    const merge *x = a, *y = b;
    if (x->share < y->share || x->share > y->share)
        return x->share < y->share ? -1 : 1;
    return x->pair - y->pair;
}

static void add_group(greedy *g, int32_t u, int32_t v)
{
    const search_cfn *cfn = g->cfn;
    const int32_t nv = v >= 0 ? cfn->dom[v] : 1;
    group made = {.n = v >= 0 ? 2 : 1, .node = {u, v}};
    const int32_t pair = v >= 0 ? search_cfn_pair(cfn, u, v) : -1;
    int64_t own = 0, other = 0;
    if (pair >= 0)
        search_pair_strides(cfn, &cfn->pairs.at[pair], u, &own, &other);
    made.place = fs_new(g->arena, int32_t, made.n * cfn->dom[u] * nv);
    for (int32_t s = 0; s < cfn->dom[u]; s++)
        for (int32_t t = 0; t < nv; t++) {
            if (pair >= 0 &&
                isinf(cfn->pairs.at[pair].cost[s * own + t * other]))
                continue;
            int32_t *at = &made.place[made.n * made.n_values++];
            at[0] = s;
            if (v >= 0)
                at[1] = t;
        }
    g->group_of[u] = g->groups.n;
    if (v >= 0)
        g->group_of[v] = g->groups.n;
    fs_push(g->arena, &g->groups, made);
}

/* Pairs that leave least to choose first. */
static void merge_pairs(greedy *g)
{
    const search_cfn *cfn = g->cfn;
    merge *all = fs_new(g->arena, merge, cfn->pairs.n);
    int32_t n = 0;
    for (int32_t p = 0; p < cfn->pairs.n; p++) {
        const search_pair *pair = &cfn->pairs.at[p];
        if (pair->gone)
            continue;
        const int64_t size = (int64_t)cfn->dom[pair->u] * cfn->dom[pair->v];
        int64_t finite = 0;
        for (int64_t k = 0; k < size; k++)
            finite += isfinite(pair->cost[k]);
        if (finite <= MERGED_VALUES)
            all[n++] = (merge){(double)finite / (double)size, p};
    }
    if (n)
        qsort(all, (size_t)n, sizeof *all, by_share);
    for (int32_t k = 0; k < n; k++) {
        const search_pair *pair = &cfn->pairs.at[all[k].pair];
        if (g->group_of[pair->u] < 0 && g->group_of[pair->v] < 0)
            add_group(g, pair->u, pair->v);
    }
    for (int32_t i = 0; i < cfn->n; i++)
        if (!cfn->gone[i] && g->group_of[i] < 0)
            add_group(g, i, -1);
}

/* ---- neighbourhoods ---- */

static int32_t ring_place(const ring *r, int32_t id)
{
    for (int32_t k = 0; k < r->n; k++)
        if (r->group[k] == id)
            return k;
    return -1;
}

/* The group, and those next to it. */
static void gather_ring(greedy *g, int32_t first)
{
    const search_cfn *cfn = g->cfn;
    ring *r = &g->r;
    *r = (ring){.n = 1, .group = {first}};
    const group *middle = &g->groups.at[first];
    for (int32_t m = 0; m < middle->n; m++) {
        const search_incident *at = &cfn->at[middle->node[m]];
        for (int32_t k = 0; k < at->pairs.n && r->n < RING; k++) {
            const search_pair *pair = &cfn->pairs.at[at->pairs.at[k]];
            const int32_t id =
                g->group_of[search_pair_other(pair, middle->node[m])];
            if (!pair->gone && ring_place(r, id) < 0)
                r->group[r->n++] = id;
        }
    }
}

static void put(greedy *g, int32_t id, int32_t s)
{
    const group *at = &g->groups.at[id];
    for (int32_t m = 0; m < at->n; m++)
        g->place[at->node[m]] = at->place[s * at->n + m];
}

/* Of group k of the ring as it is now: its own and its pairs with groups of the
 * ring before it (`within`), or with what is not in the ring and its own. */
static double group_cost(const greedy *g, int32_t k, bool within)
{
    search_cfn *cfn = g->cfn;
    const group *at = &g->groups.at[g->r.group[k]];
    double cost = 0;
    for (int32_t m = 0; m < at->n; m++) {
        const int32_t u = at->node[m];
        if (!within)
            cost += cfn->unary[u][g->place[u]];
        cfn->steps += PAIR_STEPS * cfn->at[u].pairs.n;
        for (int32_t e = 0; e < cfn->at[u].pairs.n; e++) {
            const search_pair *pair = &cfn->pairs.at[cfn->at[u].pairs.at[e]];
            const int32_t v = search_pair_other(pair, u);
            const int32_t there = ring_place(&g->r, g->group_of[v]);
            const bool inner = there == k;
            if (pair->gone || (inner && (within || v < u)))
                continue;
            if (within ? there >= 0 && there < k : there < 0 || inner)
                cost += pair_cost(g, pair);
        }
    }
    return cost;
}

static void sort_values(ring *r, int32_t k, int32_t n)
{
    for (int32_t s = 0; s < n; s++) {
        int32_t i = s;
        for (; i > 0 && r->base[k][r->order[k][i - 1]] > r->base[k][s]; i--)
            r->order[k][i] = r->order[k][i - 1];
        r->order[k][i] = s;
    }
}

static void prepare_ring(greedy *g, fs_arena *scratch)
{
    ring *r = &g->r;
    for (int32_t k = 0; k < r->n; k++) {
        const int32_t n = g->groups.at[r->group[k]].n_values;
        r->base[k] = fs_new(scratch, double, n);
        r->order[k] = fs_new(scratch, int32_t, n);
        for (int32_t s = 0; s < n; s++) {
            put(g, r->group[k], s);
            r->base[k][s] = group_cost(g, k, false);
        }
        sort_values(r, k, n);
    }
    r->least[r->n] = 0;
    for (int32_t k = r->n - 1; k >= 0; k--)
        r->least[k] = r->least[k + 1] + r->base[k][r->order[k][0]];
}

static void descend(greedy *g, int32_t k, double cost)
{
    ring *r = &g->r;
    if (k == r->n) {
        r->best_cost = cost;
        memcpy(r->best, r->at, sizeof r->best);
        return;
    }
    const int32_t n = g->groups.at[r->group[k]].n_values;
    for (int32_t i = 0; i < n && r->steps < RING_STEPS; i++) {
        const int32_t s = r->order[k][i];
        if (cost + r->base[k][s] + r->least[k + 1] >= r->best_cost)
            return;
        r->steps++;
        put(g, r->group[k], s);
        r->at[k] = s;
        const double now = cost + r->base[k][s] + group_cost(g, k, true);
        if (now + r->least[k + 1] < r->best_cost)
            descend(g, k + 1, now);
    }
}

/* What the ring costs as it is. */
static double ring_cost(const greedy *g)
{
    double cost = 0;
    for (int32_t k = 0; k < g->r.n; k++)
        cost += group_cost(g, k, false) + group_cost(g, k, true);
    return cost;
}

/* The best of a ring; true: something changed. */
static bool improve_ring(greedy *g, int32_t first)
{
    int32_t old[RING][2];
    ring *r = &g->r;
    fs_arena *scratch = fs_arena_create();
    gather_ring(g, first);
    for (int32_t k = 0; k < r->n; k++)
        for (int32_t m = 0; m < g->groups.at[r->group[k]].n; m++)
            old[k][m] = g->place[g->groups.at[r->group[k]].node[m]];
    const double before = ring_cost(g);
    prepare_ring(g, scratch);
    r->best_cost = isfinite(before) ? before - 1e-12 * fabs(before) : before;
    const double wanted = r->best_cost;
    descend(g, 0, 0);
    const bool better = r->best_cost < wanted;
    for (int32_t k = 0; k < r->n; k++) {
        if (better)
            put(g, r->group[k], r->best[k]);
        for (int32_t m = 0; !better && m < g->groups.at[r->group[k]].n; m++)
            g->place[g->groups.at[r->group[k]].node[m]] = old[k][m];
    }
    fs_arena_destroy(scratch);
    return better;
}

static void sweep(greedy *g, const search_budget *budget)
{
    const int64_t most = (int64_t)VISITS_PER_GROUP * g->groups.n;
    int32_t waiting = g->groups.n;
    for (int32_t k = 0; k < g->groups.n; k++)
        g->groups.at[k].queued = true;
    for (int64_t visit = 0; waiting > 0 && visit < most;)
        for (int32_t k = 0; k < g->groups.n; k++) {
            if (!g->groups.at[k].queued)
                continue;
            g->groups.at[k].queued = false;
            waiting--;
            visit++;
            if (search_cfn_late(g->cfn, &budget->deadline))
                return;
            if (!improve_ring(g, k))
                continue;
            for (int32_t i = 0; i < g->r.n; i++) {
                waiting += !g->groups.at[g->r.group[i]].queued;
                g->groups.at[g->r.group[i]].queued = true;
            }
        }
}

/* ---- one price of bytes ---- */

/* The place of a value that no reduction took out. */
static int32_t place_of(const search_cfn *cfn, int32_t node, int32_t value)
{
    for (int32_t s = 0; s < cfn->dom[node]; s++)
        if (cfn->value[node][s] == value)
            return s;
    return 0;
}

static void solve(const search_net *net, const search_budget *budget,
                  const search_prices *at, int32_t *value)
{
    fs_arena *arena = fs_arena_create();
    greedy g = {.cfn = search_net_priced(net, at, arena), .arena = arena};
    search_cfn *cfn = g.cfn;
    search_cfn_reduce(cfn, (SEARCH_ARCS | SEARCH_FOLD) & ~budget->without);
    g.place = fs_new(arena, int32_t, cfn->n);
    g.group_of = fs_new(arena, int32_t, cfn->n);
    for (int32_t i = 0; i < cfn->n; i++) {
        g.group_of[i] = -1;
        if (!cfn->gone[i])
            g.place[i] = place_of(cfn, i, value[i]);
    }
    if (!cfn->infeasible) {
        merge_pairs(&g);
        sweep(&g, budget);
        for (int32_t i = 0; i < cfn->n; i++)
            if (!cfn->gone[i])
                value[i] = cfn->value[i][g.place[i]];
        search_cfn_finish(cfn, value);
    }
    fs_arena_destroy(arena);
}

fs_status search_greedy(const search_net *net, const search_budget *budget,
                        fs_arena *arena, fs_err *err, search_solution *out)
{
    FS_TRY(search_deduce(net, budget, arena, err, out));
    if (isinf(out->cost) || net->n_nodes == 0)
        return FS_OK;
    const size_t bytes = (size_t)net->n_nodes * sizeof *out->value;
    search_prices at = search_prices_new(net, arena);
    int64_t limits = 0;
    for (int32_t k = 0; k < net->n_limits; k++)
        limits += net->limit_bytes[k];
    double price = FIRST_PRICE * fabs(out->cost) / fmax(1, (double)limits);
    for (int32_t round = 0; round <= DOUBLINGS; round++, price *= 2) {
        int32_t *value = fs_memdup(arena, out->value, bytes);
        solve(net, budget, &at, value);
        const double cost = search_net_cost(net, value);
        if (cost < out->cost) {
            out->cost = cost;
            out->value = value;
        }
        if (isfinite(cost) || fs_deadline_over(&budget->deadline))
            break;
        for (int32_t k = 0; k < net->n_limits; k++)
            at.bytes[k] = price;
    }
    return FS_OK;
}
