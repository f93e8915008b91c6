/* Followers: a pair in which each value of the leader goes with one value of
 * the follower ties the two into one node. A bijection is a function both
 * ways. Always exact: costs and bytes are those of the value that follows. */
#include "config.h"
#include "search/engine/content.h"
#include "search/engine/reduce.h"

#include <math.h>

typedef struct merge {
    int32_t leader, follower, pair;
    uint16_t *best; /* [leader's value] what follows */
} merge;

/* best[s]: the one value that goes with s of `node`. */
static bool determines(const search_cfn *cfn, const search_pair *pair,
                       int32_t node, uint16_t *best)
{
    int64_t own, other;
    search_pair_strides(cfn, pair, node, &own, &other);
    int32_t n = cfn->dom[node], nx = cfn->dom[search_pair_other(pair, node)];
    for (int64_t s = 0; s < n; s++) {
        int32_t found = 0;
        for (int32_t x = 0; x < nx; x++)
            if (isfinite(pair->cost[s * own + x * other])) {
                best[s] = (uint16_t)x;
                if (found++)
                    return false;
            }
        if (!found)
            return false;
    }
    return true;
}

/* Cells that the tables take more when the follower's pairs become the
 * leader's, who may have more values. */
static int64_t growth(const search_cfn *cfn, const merge *m)
{
    const search_incident *at = &cfn->at[m->follower];
    int64_t cells = 0;
    for (int32_t k = 0; k < at->pairs.n; k++) {
        const search_pair *pair = &cfn->pairs.at[at->pairs.at[k]];
        int32_t other = search_pair_other(pair, m->follower);
        cells -= (int64_t)cfn->dom[m->follower] * cfn->dom[other];
        if (other != m->leader && search_cfn_pair(cfn, m->leader, other) < 0)
            cells += (int64_t)cfn->dom[m->leader] * cfn->dom[other];
    }
    return cells;
}

/* Pair `id` of the follower as one of the leader, whose value stands for it. */
static void move_pair(search_cfn *cfn, const merge *m, int32_t id)
{
    const search_pair *pair = &cfn->pairs.at[id];
    int32_t other = search_pair_other(pair, m->follower);
    int64_t own, step, nx = cfn->dom[other], n = cfn->dom[m->leader];
    search_pair_strides(cfn, pair, m->follower, &own, &step);
    double *cost = search_reduce_room(cfn, (size_t)(n * nx) * sizeof *cost);
    for (int64_t s = 0; s < n; s++)
        for (int64_t x = 0; x < nx; x++)
            cost[s * nx + x] = pair->cost[m->best[s] * own + x * step];
    search_cfn_add(cfn, m->leader, other, cost, 1);
}

static void merge_nodes(search_cfn *cfn, const merge *m)
{
    const search_pair *pair = &cfn->pairs.at[m->pair];
    const search_incident *at = &cfn->at[m->follower];
    double *unary = cfn->unary[m->leader];
    int64_t own, other;
    search_pair_strides(cfn, pair, m->leader, &own, &other);
    for (int64_t s = 0; s < cfn->dom[m->leader]; s++)
        unary[s] += cfn->unary[m->follower][m->best[s]] +
                    pair->cost[s * own + m->best[s] * other];
    search_content_forget(cfn, m->leader);
    search_usage_follow(cfn, m->leader, m->follower, m->best);
    for (int32_t k = 0; k < at->pairs.n; k++)
        if (at->pairs.at[k] != m->pair)
            move_pair(cfn, m, at->pairs.at[k]);
    search_cfn_record(cfn, m->follower, &m->leader, 1, m->best);
    search_unary_changed(cfn, m->leader);
}

void search_reduce_follow(search_cfn *cfn, int32_t id)
{
    const search_pair *pair = &cfn->pairs.at[id];
    /* One value alone is nobody's leader: folding it makes no pairs. */
    if (!pair->forbids || cfn->dom[pair->u] == 1 || cfn->dom[pair->v] == 1)
        return;
    /* The one with fewer pairs to move follows where both may. */
    bool first = cfn->at[pair->v].pairs.n <= cfn->at[pair->u].pairs.n;
    for (int32_t k = 0; k < 2; k++) {
        merge m = {.pair = id};
        m.leader = (k == 0) == first ? pair->u : pair->v;
        m.follower = search_pair_other(pair, m.leader);
        if (cfn->stays && cfn->stays[m.follower])
            continue;
        size_t size = (size_t)cfn->dom[m.leader] * sizeof *m.best;
        m.best = search_reduce_room(cfn, size);
        if (!determines(cfn, pair, m.leader, m.best) || growth(cfn, &m) > 0)
            continue;
        m.best = fs_memdup(cfn->arena, m.best, size);
        merge_nodes(cfn, &m);
        return;
    }
}
