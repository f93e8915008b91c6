/* What breaks the memory limit whatever the other nodes choose: a value with
 * which a step is too full even when all others hold their least, and a pair
 * of values of linked nodes likewise. Exact for any costs. */
#include "config.h"
#include "search/engine/limit.h"

#include "search/engine/binding.h"

#include <math.h>
#include <string.h>

enum { LEVELS = 32 };

typedef struct slack {
    search_cfn *cfn;
    fs_arena *arena;
    int32_t n;
    int64_t *left[LEVELS]; /* [level][step] the least, over 2^level steps, of
                              limit - what is held at least */
    bool any;
} slack;

static int64_t least_of(const search_usage *u, int32_t dom)
{
    int64_t least = u->bytes[0];
    for (int32_t s = 1; s < dom; s++)
        least = u->bytes[s] < least ? u->bytes[s] : least;
    return least;
}

/* While these are changes from step to step. */
static void take(slack *k, const search_usage *u, int64_t bytes)
{
    k->left[0][u->from] -= bytes;
    k->left[0][u->to] += bytes;
}

static void fill_level(slack *k, int32_t level)
{
    const int32_t half = 1 << (level - 1), n = k->n - 2 * half + 1;
    const int64_t *below = k->left[level - 1];
    int64_t *left = k->left[level] = fs_new(k->arena, int64_t, n);
    for (int32_t t = 0; t < n; t++)
        left[t] = below[t] < below[t + half] ? below[t] : below[t + half];
}

/* False: some step is too full whatever is chosen. */
static bool fill(slack *k, int64_t limit)
{
    const search_cfn *cfn = k->cfn;
    k->left[0] = fs_new(k->arena, int64_t, k->n + 1);
    k->left[0][0] = limit;
    for (int32_t h = 0; h < cfn->held.n; h++)
        take(k, &cfn->held.at[h], cfn->held.at[h].bytes[0]);
    for (int32_t i = 0; i < cfn->n; i++)
        for (int32_t p = 0; !cfn->gone[i] && p < cfn->usage[i].n; p++) {
            const search_usage *u = &cfn->usage[i].at[p];
            take(k, u, least_of(u, cfn->dom[i]));
        }
    for (int32_t t = 0; t < k->n; t++) {
        if (k->left[0][t] < 0)
            return false;
        k->left[0][t + 1] += k->left[0][t];
    }
    for (int32_t level = 1; 1 << level <= k->n; level++)
        fill_level(k, level);
    return true;
}

static int64_t least_left(const slack *k, int32_t from, int32_t to)
{
    const int32_t level = 31 - __builtin_clz((unsigned)(to - from));
    const int64_t a = k->left[level][from];
    const int64_t b = k->left[level][to - (1 << level)];
    return a < b ? a : b;
}

/* The node's own least counts for what it takes: each value against it. */
static void limit_values(slack *k, int32_t node)
{
    search_cfn *cfn = k->cfn;
    const search_usages *list = &cfn->usage[node];
    int32_t dom = cfn->dom[node], kept = 0;
    bool *keep = fs_new(k->arena, bool, dom);
    memset(keep, true, (size_t)dom);
    for (int32_t p = 0; p < list->n; p++) {
        const search_usage *u = &list->at[p];
        const int64_t most = least_left(k, u->from, u->to) + least_of(u, dom);
        for (int32_t s = 0; s < dom; s++)
            keep[s] &= u->bytes[s] <= most;
    }
    for (int32_t s = 0; s < dom; s++)
        kept += keep[s];
    if (kept < dom) {
        k->any = true;
        search_cfn_keep(cfn, node, keep);
    }
}

/* ---- pairs ---- */

typedef struct meeting {
    const slack *k;
    int32_t nu, nv;
    double *forbids; /* [nu * nv] 0 or INFINITY */
    bool any;
} meeting;

static void meet(meeting *m, const search_usage *a, const search_usage *b)
{
    const int32_t from = a->from > b->from ? a->from : b->from;
    const int32_t to = a->to < b->to ? a->to : b->to;
    if (from >= to)
        return;
    const int64_t most =
        least_left(m->k, from, to) + least_of(a, m->nu) + least_of(b, m->nv);
    for (int32_t s = 0; s < m->nu; s++)
        for (int32_t x = 0; x < m->nv; x++)
            if (a->bytes[s] + b->bytes[x] > most) {
                m->forbids[(int64_t)s * m->nv + x] = INFINITY;
                m->any = true;
            }
}

/* Is an entry finite that the bytes forbid? */
static bool news(const meeting *m, const search_pair *pair)
{
    for (int64_t c = 0; m->any && c < (int64_t)m->nu * m->nv; c++)
        if (isinf(m->forbids[c]) && isfinite(pair->cost[c]))
            return true;
    return false;
}

static void limit_pair(slack *k, int32_t id)
{
    search_cfn *cfn = k->cfn;
    const search_pair *pair = &cfn->pairs.at[id];
    const int32_t u = pair->u, v = pair->v;
    const search_usages *a = &cfn->usage[u], *b = &cfn->usage[v];
    meeting m = {.k = k, .nu = cfn->dom[u], .nv = cfn->dom[v]};
    m.forbids = fs_new(k->arena, double, (size_t)m.nu *(size_t)m.nv);
    for (int32_t p = 0, q = 0; p < a->n && q < b->n;) {
        meet(&m, &a->at[p], &b->at[q]);
        if (a->at[p].to <= b->at[q].to)
            p++;
        else
            q++;
    }
    if (news(&m, pair)) {
        k->any = true;
        search_cfn_add(cfn, u, v, m.forbids, 1);
    }
}

bool search_cfn_limit(search_cfn *cfn, int64_t limit)
{
    slack k = {.cfn = cfn, .n = search_usage_steps(cfn)};
    if (!cfn->usage || cfn->infeasible)
        return false;
    k.arena = fs_arena_create();
    if (!fill(&k, limit))
        cfn->infeasible = true;
    for (int32_t i = 0; i < cfn->n && !cfn->infeasible; i++)
        if (!cfn->gone[i])
            limit_values(&k, i);
    for (int32_t p = 0; p < cfn->pairs.n && !cfn->infeasible; p++)
        if (!cfn->pairs.at[p].gone)
            limit_pair(&k, p);
    fs_arena_destroy(k.arena);
    return k.any && !cfn->infeasible;
}
