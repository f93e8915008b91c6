/* Bucket elimination (Dechter, Artificial Intelligence 113, 1999): a node is
 * taken out by minimising the sum of all tables that mention it; the result is
 * a table over its neighbours. Exact for an additive objective; time and
 * space grow with the product of the neighbours' domains. */
#include "config.h"
#include "search/engine/cfn.h"
#include "search/engine/minplus.h"

#include <math.h>
#include <string.h>

enum { MAX_SCOPE = 24, MAX_NODES = 20000 };

/* A table over live nodes, last node of the scope fastest. */
typedef struct table {
    int32_t n;
    int32_t node[MAX_SCOPE];
    const double *cost;
    bool used;
} table;

typedef FS_VEC(int32_t) table_list;

typedef struct bucket {
    search_cfn *cfn;
    fs_arena *arena;
    FS_VEC(table) tables;
    table_list *of; /* [nodes] the tables that mention it, ascending */
    FS_VEC(int32_t) order;
} bucket;

/* ---- the order, found on the structure alone ---- */

typedef struct graph {
    int32_t n, words;
    int32_t *node;   /* [n] the live nodes, by which the rest counts */
    uint64_t *bits;  /* [n * words] adjacency */
    double *log_dom; /* [n] */
    double *weight;  /* [n] log of the table that eliminating the node makes */
} graph;

static uint64_t *row(const graph *g, int32_t i)
{
    return g->bits + (size_t)i * (size_t)g->words;
}

static double weight_of(const graph *g, int32_t i)
{
    double weight = g->log_dom[i];
    for (int32_t w = 0; w < g->words; w++)
        for (uint64_t b = row(g, i)[w]; b; b &= b - 1)
            weight += g->log_dom[64 * w + __builtin_ctzll(b)];
    return weight;
}

static void graph_init(graph *g, const search_cfn *cfn, fs_arena *arena)
{
    int32_t *number = fs_new(arena, int32_t, cfn->n);
    g->node = fs_new(arena, int32_t, cfn->n_live);
    for (int32_t i = 0; i < cfn->n; i++)
        if (!cfn->gone[i]) {
            number[i] = g->n;
            g->node[g->n++] = i;
        }
    g->words = (g->n + 63) / 64;
    g->bits = fs_new(arena, uint64_t, (size_t)g->n * (size_t)g->words);
    g->log_dom = fs_new(arena, double, g->n);
    g->weight = fs_new(arena, double, g->n);
    for (int32_t i = 0; i < g->n; i++)
        g->log_dom[i] = log(cfn->dom[g->node[i]]);
    for (int32_t p = 0; p < cfn->pairs.n; p++) {
        const search_pair *pair = &cfn->pairs.at[p];
        if (pair->gone)
            continue;
        int32_t u = number[pair->u], v = number[pair->v];
        row(g, u)[v / 64] |= 1ull << (v % 64);
        row(g, v)[u / 64] |= 1ull << (u % 64);
    }
    for (int32_t i = 0; i < g->n; i++)
        g->weight[i] = weight_of(g, i);
}

static void graph_eliminate(graph *g, int32_t v)
{
    for (int32_t w = 0; w < g->words; w++)
        for (uint64_t b = row(g, v)[w]; b; b &= b - 1) {
            int32_t i = 64 * w + __builtin_ctzll(b);
            for (int32_t k = 0; k < g->words; k++)
                row(g, i)[k] |= row(g, v)[k];
            row(g, i)[i / 64] &= ~(1ull << (i % 64));
            row(g, i)[v / 64] &= ~(1ull << (v % 64));
        }
    for (int32_t w = 0; w < g->words; w++)
        for (uint64_t b = row(g, v)[w]; b; b &= b - 1) {
            int32_t i = 64 * w + __builtin_ctzll(b);
            g->weight[i] = weight_of(g, i);
        }
    g->weight[v] = INFINITY;
}

/* Min-weight order; false when the tables need more than `entries` cells of
 * work in all. */
static bool find_order(bucket *b, int64_t entries)
{
    search_cfn *cfn = b->cfn;
    graph g = {0};
    graph_init(&g, cfn, b->arena);
    double total = 0;
    for (int32_t k = 0; k < cfn->n_live; k++) {
        int32_t best = 0;
        for (int32_t i = 1; i < g.n; i++)
            if (g.weight[i] < g.weight[best])
                best = i;
        total += exp(g.weight[best]);
        if (total > (double)entries)
            return false;
        int32_t width = 0;
        for (int32_t w = 0; w < g.words; w++)
            width += __builtin_popcountll(row(&g, best)[w]);
        if (width > MAX_SCOPE)
            return false;
        fs_push(b->arena, &b->order, g.node[best]);
        graph_eliminate(&g, best);
    }
    return true;
}

/* ---- the tables ---- */

static void add_table(bucket *b, table t)
{
    for (int32_t k = 0; k < t.n; k++)
        fs_push(b->arena, &b->of[t.node[k]], b->tables.n);
    fs_push(b->arena, &b->tables, t);
}

static void make_tables(bucket *b)
{
    search_cfn *cfn = b->cfn;
    b->of = fs_new(b->arena, table_list, cfn->n);
    for (int32_t p = 0; p < cfn->pairs.n; p++) {
        const search_pair *pair = &cfn->pairs.at[p];
        table t = {.n = 2, .node = {pair->u, pair->v}, .cost = pair->cost};
        if (!pair->gone)
            add_table(b, t);
    }
    for (int32_t i = 0; i < cfn->n; i++) {
        table t = {.n = 1, .node = {i}, .cost = cfn->unary[i]};
        if (!cfn->gone[i])
            add_table(b, t);
    }
}

/* The tables of one elimination, read in step with a counter over the scope but
 * for its last node, whose values are next to each other: stride[f][k] is how
 * far table f moves when scope node k goes up by one. */
typedef struct join {
    int32_t n_scope, n_tables, dom;
    int32_t scope[MAX_SCOPE], size[MAX_SCOPE];
    const double **cost;
    int64_t (*stride)[MAX_SCOPE];
    int64_t *own; /* stride of the node itself */
    bool *flat;   /* [table] the last of the scope is not in it */
    int64_t cells;
} join;

static void join_scope(join *j, const bucket *b, const table *t, int32_t node)
{
    for (int32_t k = 0; k < t->n; k++) {
        int32_t at = 0;
        while (at < j->n_scope && j->scope[at] != t->node[k])
            at++;
        if (t->node[k] == node || at < j->n_scope)
            continue;
        j->size[j->n_scope] = b->cfn->dom[t->node[k]];
        j->scope[j->n_scope++] = t->node[k];
    }
}

/* Strides of a table of those nodes. */
static void set_strides(join *j, const bucket *b, int32_t f, int32_t n,
                        const int32_t *nodes, int32_t node)
{
    int64_t stride = 1;
    memset(j->stride[f], 0, sizeof j->stride[f]);
    for (int32_t k = n - 1; k >= 0; k--) {
        for (int32_t s = 0; s < j->n_scope; s++)
            if (j->scope[s] == nodes[k])
                j->stride[f][s] = stride;
        if (nodes[k] == node)
            j->own[f] = stride;
        stride *= b->cfn->dom[nodes[k]];
    }
}

/* The same entries with the node's values slowest, then as the scope counts. */
static void turn_table(join *j, bucket *b, const table *t, int32_t f,
                       int32_t node)
{
    int32_t n = 0, order[MAX_SCOPE], count[MAX_SCOPE] = {0};
    int64_t from[MAX_SCOPE], size[MAX_SCOPE], cells = 1, at = 0;
    order[0] = node;
    from[n] = j->own[f];
    size[n++] = j->dom;
    for (int32_t s = 0; s < j->n_scope; s++)
        if (j->stride[f][s] > 0) {
            order[n] = j->scope[s];
            from[n] = j->stride[f][s];
            size[n++] = j->size[s];
        }
    for (int32_t k = 0; k < n; k++)
        cells *= size[k];
    double *to = fs_new(b->arena, double, cells);
    for (int64_t c = 0; c < cells; c++) {
        to[c] = t->cost[at];
        for (int32_t k = n - 1; k >= 0; k--) {
            const bool wraps = ++count[k] == size[k];
            at += (wraps ? 1 - size[k] : 1) * from[k];
            if (!wraps)
                break;
            count[k] = 0;
        }
    }
    j->cost[f] = to;
    set_strides(j, b, f, n, order, node);
}

static void join_table(join *j, bucket *b, const table *t, int32_t node)
{
    const int32_t f = j->n_tables++, last = j->n_scope - 1;
    j->cost[f] = t->cost;
    set_strides(j, b, f, t->n, t->node, node);
    if (last >= 0 && j->stride[f][last] > 1)
        turn_table(j, b, t, f, node);
    j->flat[f] = last < 0 || j->stride[f][last] == 0;
}

static void join_init(join *j, bucket *b, int32_t node)
{
    const table_list *of = &b->of[node];
    memset(j, 0, sizeof *j);
    j->dom = b->cfn->dom[node];
    for (int32_t f = 0; f < of->n; f++)
        if (!b->tables.at[of->at[f]].used)
            join_scope(j, b, &b->tables.at[of->at[f]], node);
    j->cost = fs_new(b->arena, const double *, of->n);
    j->stride = fs_alloc(b->arena, (size_t)of->n, sizeof *j->stride);
    j->own = fs_new(b->arena, int64_t, of->n);
    j->flat = fs_new(b->arena, bool, of->n);
    for (int32_t f = 0; f < of->n; f++) {
        table *t = &b->tables.at[of->at[f]];
        if (!t->used)
            join_table(j, b, t, node);
        t->used = true;
    }
    j->cells = 1;
    for (int32_t k = 0; k < j->n_scope; k++)
        j->cells *= j->size[k];
}

/* Minima over the node's values, for each cell of the scope. */
static void join_run(const join *j, fs_arena *arena, double *cost,
                     uint16_t *best)
{
    const int32_t last = j->n_scope - 1;
    const int64_t n = last < 0 ? 1 : j->size[last];
    int32_t count[MAX_SCOPE] = {0};
    const double **at =
        fs_memdup(arena, j->cost, (size_t)j->n_tables * sizeof *j->cost);
    for (int64_t c = 0; c < j->cells; c += n) {
        search_least_sums(at, j->own, j->flat, j->n_tables, j->dom, n, cost + c,
                          best + c);
        for (int32_t k = last - 1; k >= 0; k--) {
            bool wraps = ++count[k] == j->size[k];
            int64_t move = wraps ? 1 - j->size[k] : 1;
            for (int32_t f = 0; f < j->n_tables; f++)
                at[f] += move * j->stride[f][k];
            if (!wraps)
                break;
            count[k] = 0;
        }
    }
}

static void eliminate(bucket *b, int32_t node)
{
    search_cfn *cfn = b->cfn;
    join j;
    join_init(&j, b, node);
    double *cost = fs_new(b->arena, double, j.cells);
    uint16_t *best = fs_new(cfn->arena, uint16_t, j.cells);
    join_run(&j, b->arena, cost, best);
    cfn->steps += j.cells * j.dom;
    search_cfn_record(cfn, node, j.scope, j.n_scope, best);
    if (j.n_scope == 0) {
        cfn->offset += cost[0];
        cfn->infeasible |= !isfinite(cost[0]);
        return;
    }
    table t = {.n = j.n_scope, .cost = cost};
    memcpy(t.node, j.scope, sizeof j.scope);
    add_table(b, t);
}

bool search_cfn_eliminate(search_cfn *cfn, int64_t entries)
{
    if (cfn->n_live > MAX_NODES)
        return false;
    bucket b = {.cfn = cfn, .arena = fs_arena_create()};
    bool fits = find_order(&b, entries);
    if (fits) {
        make_tables(&b);
        for (int32_t k = 0; k < b.order.n; k++)
            eliminate(&b, b.order.at[k]);
    }
    fs_arena_destroy(b.arena);
    return fits;
}
