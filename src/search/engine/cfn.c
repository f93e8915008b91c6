#include "config.h"
#include "search/engine/reduce.h"

#include "search/engine/content.h"

#include <math.h>
#include <string.h>

search_cfn *search_cfn_new(int32_t n, fs_arena *arena)
{
    search_cfn *cfn = fs_new(arena, search_cfn, 1);
    cfn->arena = arena;
    cfn->n = cfn->n_live = n;
    cfn->dom = fs_new(arena, int32_t, n);
    cfn->unary = fs_new(arena, double *, n);
    cfn->value = fs_new(arena, int32_t *, n);
    cfn->gone = fs_new(arena, bool, n);
    cfn->at = fs_new(arena, search_incident, n);
    return cfn;
}

void search_cfn_set(search_cfn *cfn, int32_t node, int32_t dom,
                    const double *unary)
{
    FS_ASSERT(dom < UINT16_MAX);
    cfn->dom[node] = dom;
    cfn->unary[node] =
        fs_memdup(cfn->arena, unary, (size_t)dom * sizeof *unary);
    cfn->value[node] = fs_new(cfn->arena, int32_t, dom);
    for (int32_t s = 0; s < dom; s++)
        cfn->value[node][s] = s;
    if (dom == 0)
        cfn->infeasible = true;
}

int32_t search_cfn_pair(const search_cfn *cfn, int32_t u, int32_t v)
{
    if (cfn->at[v].pairs.n < cfn->at[u].pairs.n)
        return search_cfn_pair(cfn, v, u);
    const search_incident *at = &cfn->at[u];
    for (int32_t k = 0; k < at->pairs.n; k++)
        if (search_pair_other(&cfn->pairs.at[at->pairs.at[k]], u) == v)
            return at->pairs.at[k];
    return -1;
}

static int32_t push_pair(search_cfn *cfn, search_pair pair)
{
    int32_t id = cfn->pairs.n;
    fs_push(cfn->arena, &cfn->pairs, pair);
    fs_push(cfn->arena, &cfn->at[pair.u].pairs, id);
    fs_push(cfn->arena, &cfn->at[pair.v].pairs, id);
    return id;
}

static size_t cells_of(const search_cfn *cfn, int32_t u, int32_t v)
{
    return (size_t)cfn->dom[u] * (size_t)cfn->dom[v];
}

static void own_table(search_cfn *cfn, search_pair *pair)
{
    size_t bytes = cells_of(cfn, pair->u, pair->v) * sizeof *pair->cost;
    if (pair->shared)
        pair->cost = fs_memdup(cfn->arena, pair->cost, bytes);
    pair->shared = false;
    pair->content = 0;
}

void search_cfn_add(search_cfn *cfn, int32_t u, int32_t v, const double *cost,
                    double scale)
{
    int32_t nu = cfn->dom[u], nv = cfn->dom[v];
    int32_t id = search_cfn_pair(cfn, u, v);
    if (id < 0) {
        search_pair fresh = {.u = u, .v = v};
        fresh.cost = fs_new(cfn->arena, double, cells_of(cfn, u, v));
        id = push_pair(cfn, fresh);
    }
    search_pair *pair = &cfn->pairs.at[id];
    int64_t own, other;
    own_table(cfn, pair);
    search_pair_strides(cfn, pair, u, &own, &other);
    cfn->steps += (int64_t)nu * nv;
    for (int64_t s = 0; s < nu; s++)
        for (int64_t x = 0; x < nv; x++) {
            double c = cost[s * nv + x];
            /* A price of 0 must not make a forbidden pair legal. */
            pair->cost[s * own + x * other] += isinf(c) ? c : scale * c;
            pair->forbids |= isinf(c);
        }
    search_pair_changed(cfn, id);
}

/* Sums of two tables that were summed before are the same table. */
static void join_pair(search_cfn *cfn, int32_t id, int32_t u, int32_t v,
                      const search_outcome *table)
{
    search_pair *pair = &cfn->pairs.at[id];
    search_deed_key key = {0};
    search_deed_add(&key, SEARCH_DEED_ADD);
    search_deed_add(&key, search_content_of_pair(cfn, pair));
    search_deed_add(&key, pair->u == u ? table->content : -table->content);
    search_outcome *sum = search_deed_of(cfn, &key);
    if (!sum->known) {
        search_cfn_add(cfn, u, v, table->cost, 1);
        *sum = (search_outcome){
            .known = true, .cost = pair->cost, .content = sum->content};
    } else {
        cfn->steps += (int64_t)cells_of(cfn, u, v);
        pair->cost = sum->cost;
        pair->forbids |= table->forbids;
        search_pair_changed(cfn, id);
    }
    pair->shared = true;
    pair->content = sum->content;
}

void search_cfn_join(search_cfn *cfn, int32_t u, int32_t v,
                     const search_outcome *table)
{
    const int32_t id = search_cfn_pair(cfn, u, v);
    if (id >= 0) {
        join_pair(cfn, id, u, v, table);
        return;
    }
    search_pair fresh = {.u = u,
                         .v = v,
                         .cost = table->cost,
                         .shared = true,
                         .forbids = table->forbids,
                         .content = table->content};
    cfn->steps += (int64_t)cells_of(cfn, u, v);
    search_pair_changed(cfn, push_pair(cfn, fresh));
}

void search_cfn_share(search_cfn *cfn, int32_t u, int32_t v, double *cost)
{
    if (search_cfn_pair(cfn, u, v) >= 0) {
        search_cfn_add(cfn, u, v, cost, 1);
        return;
    }
    search_pair pair = {.u = u, .v = v, .cost = cost, .shared = true};
    cfn->steps += (int64_t)cells_of(cfn, u, v);
    for (size_t k = 0; k < cells_of(cfn, u, v) && !pair.forbids; k++)
        pair.forbids = isinf(cost[k]);
    search_pair_changed(cfn, push_pair(cfn, pair));
}

search_cfn *search_cfn_live(const search_cfn *cfn, int32_t *number,
                            fs_arena *arena)
{
    search_cfn *live = search_cfn_new(cfn->n_live, arena);
    int32_t n = 0;
    for (int32_t i = 0; i < cfn->n; i++) {
        number[i] = cfn->gone[i] ? -1 : n++;
        if (!cfn->gone[i])
            search_cfn_set(live, number[i], cfn->dom[i], cfn->unary[i]);
    }
    for (int32_t p = 0; p < cfn->pairs.n; p++) {
        const search_pair *from = &cfn->pairs.at[p];
        if (from->gone)
            continue;
        const search_pair pair = {.u = number[from->u],
                                  .v = number[from->v],
                                  .cost = from->cost,
                                  .forbids = from->forbids,
                                  .shared = true};
        live->steps += (int64_t)cells_of(live, pair.u, pair.v);
        push_pair(live, pair);
    }
    return live;
}

int32_t search_pair_other(const search_pair *pair, int32_t node)
{
    return pair->u == node ? pair->v : pair->u;
}

void search_pair_strides(const search_cfn *cfn, const search_pair *pair,
                         int32_t node, int64_t *own, int64_t *other)
{
    bool row = pair->u == node;
    *own = row ? cfn->dom[pair->v] : 1;
    *other = row ? 1 : cfn->dom[pair->v];
}

/* Dead pairs leave the lists of both ends, so that lists stay short. */
static void unlink_pair(search_incident *at, int32_t pair)
{
    int32_t n = 0;
    for (int32_t k = 0; k < at->pairs.n; k++)
        if (at->pairs.at[k] != pair)
            at->pairs.at[n++] = at->pairs.at[k];
    at->pairs.n = n;
}

void search_cfn_drop_pair(search_cfn *cfn, int32_t pair)
{
    search_pair *p = &cfn->pairs.at[pair];
    p->gone = true;
    unlink_pair(&cfn->at[p->u], pair);
    unlink_pair(&cfn->at[p->v], pair);
    search_degree_fell(cfn, p->u);
    search_degree_fell(cfn, p->v);
}

static int32_t shrink(double *at, int32_t n, const bool *keep)
{
    int32_t kept = 0;
    for (int32_t s = 0; s < n; s++)
        if (keep[s])
            at[kept++] = at[s];
    return kept;
}

static double *room_for_kept(search_cfn *cfn, const search_pair *pair,
                             int32_t node, const bool *keep)
{
    int64_t kept = 0;
    if (!pair->shared)
        return pair->cost;
    for (int32_t s = 0; s < cfn->dom[node]; s++)
        kept += keep[s];
    return fs_new(cfn->arena, double,
                  kept * cfn->dom[search_pair_other(pair, node)]);
}

static void keep_entries(search_cfn *cfn, search_pair *pair, int32_t node,
                         const bool *keep)
{
    const int32_t nu = cfn->dom[pair->u], nv = cfn->dom[pair->v];
    const bool row = pair->u == node;
    const double *from = pair->cost;
    double *to = room_for_kept(cfn, pair, node, keep);
    pair->cost = to;
    pair->shared = false;
    pair->content = 0;
    for (int32_t s = 0; s < nu; s++) {
        if (row && !keep[s])
            continue;
        for (int32_t x = 0; x < nv; x++)
            if (row || keep[x])
                *to++ = from[(int64_t)s * nv + x];
    }
}

/* NULL: it is not worth asking. */
static search_outcome *outcome_of_keep(search_cfn *cfn, search_pair *pair,
                                       int32_t node, const bool *keep)
{
    search_deed_key key = {0};
    if (!search_is_worth(cfn, (int64_t)cells_of(cfn, pair->u, pair->v)) ||
        !(pair->shared || pair->content))
        return NULL;
    search_deed_add(&key, SEARCH_DEED_KEEP);
    search_deed_add_side(cfn, &key, pair, node);
    search_deed_add(&key, search_content_of_choice(cfn, keep, cfn->dom[node]));
    return search_deed_of(cfn, &key);
}

static void keep_in_pair(search_cfn *cfn, search_pair *pair, int32_t node,
                         const bool *keep)
{
    search_outcome *kept = outcome_of_keep(cfn, pair, node, keep);
    cfn->steps += (int64_t)cells_of(cfn, pair->u, pair->v);
    if (!kept || !kept->known)
        keep_entries(cfn, pair, node, keep);
    if (kept) {
        if (!kept->known)
            kept->cost = pair->cost;
        kept->known = true;
        pair->cost = kept->cost;
        pair->content = kept->content;
        pair->shared = true;
    }
    double *msg = pair->msg[pair->u == node ? 0 : 1];
    if (msg)
        shrink(msg, cfn->dom[node], keep);
}

void search_cfn_keep(search_cfn *cfn, int32_t node, const bool *keep)
{
    const search_incident *at = &cfn->at[node];
    for (int32_t k = 0; k < at->pairs.n; k++)
        keep_in_pair(cfn, &cfn->pairs.at[at->pairs.at[k]], node, keep);
    /* Records refer to the old list of values: make a new one. */
    int32_t *value = fs_new(cfn->arena, int32_t, cfn->dom[node]), n = 0;
    for (int32_t s = 0; s < cfn->dom[node]; s++)
        if (keep[s])
            value[n++] = cfn->value[node][s];
    shrink(cfn->unary[node], cfn->dom[node], keep);
    search_content_forget(cfn, node);
    search_usage_keep(cfn, node, keep);
    cfn->value[node] = value;
    cfn->dom[node] = n;
    if (n == 0)
        cfn->infeasible = true;
    search_domain_fell(cfn, node);
}

void search_cfn_record(search_cfn *cfn, int32_t node, const int32_t *scope,
                       int32_t n_scope, uint16_t *best)
{
    fs_arena *arena = cfn->arena;
    search_record record = {
        .node = node,
        .n_scope = n_scope,
        .scope = fs_memdup(arena, scope, (size_t)n_scope * sizeof *scope),
        .dom = fs_new(arena, int32_t, n_scope),
        .map = fs_new(arena, int32_t *, n_scope),
        .own = cfn->value[node],
        .best = best,
    };
    for (int32_t k = 0; k < n_scope; k++) {
        record.dom[k] = cfn->dom[scope[k]];
        record.map[k] = cfn->value[scope[k]];
    }
    fs_push(arena, &cfn->records, record);
    while (cfn->at[node].pairs.n)
        search_cfn_drop_pair(cfn, cfn->at[node].pairs.at[0]);
    cfn->gone[node] = true;
    cfn->n_live--;
}

double search_cfn_cost(const search_cfn *cfn, const int32_t *at)
{
    double cost = cfn->offset;
    for (int32_t i = 0; i < cfn->n; i++)
        if (!cfn->gone[i])
            cost += cfn->unary[i][at[i]];
    for (int32_t p = 0; p < cfn->pairs.n; p++) {
        const search_pair *pair = &cfn->pairs.at[p];
        if (!pair->gone)
            cost += pair->cost[(int64_t)at[pair->u] * cfn->dom[pair->v] +
                               at[pair->v]];
    }
    return cost;
}

/* Place of a value in a record's list of that time. */
static int32_t place_of(const int32_t *map, int32_t n, int32_t value)
{
    for (int32_t s = 0; s < n; s++)
        if (map[s] == value)
            return s;
    FS_ASSERT(!"a value stands in the domain it was chosen from");
    return 0;
}

void search_cfn_finish(const search_cfn *cfn, int32_t *value)
{
    for (int32_t r = cfn->records.n - 1; r >= 0; r--) {
        const search_record *record = &cfn->records.at[r];
        int64_t index = 0;
        for (int32_t k = 0; k < record->n_scope; k++)
            index = index * record->dom[k] + place_of(record->map[k],
                                                      record->dom[k],
                                                      value[record->scope[k]]);
        value[record->node] = record->own[record->best[index]];
    }
}
