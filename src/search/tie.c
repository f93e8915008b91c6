/* From a network with a variable per node to one in which nodes that are to be
 * equal are one variable: their tables are summed up, and so are those of all
 * edges between two variables. What is made of equal parts is made once. */
#include "config.h"
#include "search/built.h"
#include "search/layout.h"
#include "search/engine/memo.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One of the tables that are summed up; turned: its rows are the other's
 * columns. No padding. */
typedef struct part {
    const void *table;
    int64_t turned;
} part;

typedef struct tying {
    search_built *built;
    fs_arena *arena, *scratch;
    search_memo seconds_known, bytes_known; /* parts -> table */
    FS_VEC(double *) seconds;
    FS_VEC(const int64_t *) bytes;
} tying;

static int64_t entry(const part *p, int64_t row, int64_t column, int64_t rows,
                     int64_t columns)
{
    return p->turned ? column * rows + row : row * columns + column;
}

static double *sum_seconds(tying *t, const part *parts, int32_t n, int64_t rows,
                           int64_t columns)
{
    if (n == 1 && !parts->turned)
        return (double *)parts->table;
    int32_t *known =
        search_memo_at(&t->seconds_known, parts, (size_t)n * sizeof *parts);
    if (*known < 0) {
        double *sum = fs_new(t->arena, double, rows *columns);
        for (int32_t k = 0; k < n; k++)
            for (int64_t r = 0; r < rows; r++)
                for (int64_t c = 0; c < columns; c++)
                    sum[r * columns + c] +=
                        ((const double *)parts[k]
                             .table)[entry(&parts[k], r, c, rows, columns)];
        *known = t->seconds.n;
        fs_push(t->scratch, &t->seconds, sum);
    }
    return t->seconds.at[*known];
}

static const int64_t *sum_bytes(tying *t, const part *parts, int32_t n,
                                int64_t rows, int64_t columns)
{
    if (n == 1 && !parts->turned)
        return parts->table;
    int32_t *known =
        search_memo_at(&t->bytes_known, parts, (size_t)n * sizeof *parts);
    if (*known < 0) {
        int64_t *sum = fs_new(t->arena, int64_t, rows * columns);
        for (int32_t k = 0; k < n; k++)
            for (int64_t r = 0; r < rows; r++)
                for (int64_t c = 0; c < columns; c++)
                    sum[r * columns + c] +=
                        ((const int64_t *)parts[k]
                             .table)[entry(&parts[k], r, c, rows, columns)];
        *known = t->bytes.n;
        fs_push(t->scratch, &t->bytes, sum);
    }
    return t->bytes.at[*known];
}

static tying tying_of(search_built *built, fs_arena *arena)
{
    fs_arena *scratch = fs_arena_create();
    return (tying){.built = built,
                   .arena = arena,
                   .scratch = scratch,
                   .seconds_known = {.arena = scratch},
                   .bytes_known = {.arena = scratch}};
}

typedef FS_VEC(part) part_list;

/* Of a limit. */
typedef struct load_part {
    int32_t limit, order; /* in which they came */
    part part;
} load_part;

/* What is summed up for one node or edge of the network. */
typedef struct pile {
    part_list seconds;
    FS_VEC(load_part) bytes;
} pile;

static void add_to_pile(const tying *t, pile *p, const double *seconds,
                        const search_load *loads, int32_t n_loads, bool turned)
{
    part one = {seconds, turned};
    fs_push(t->scratch, &p->seconds, one);
    for (int32_t k = 0; k < n_loads; k++) {
        load_part load = {loads[k].limit, p->bytes.n, {loads[k].bytes, turned}};
        fs_push(t->scratch, &p->bytes, load);
    }
}

static int by_limit(const void *a, const void *b)
{
    const load_part *x = a, *y = b;
    return x->limit != y->limit ? (x->limit < y->limit ? -1 : 1)
                                : (x->order > y->order) - (x->order < y->order);
}

static search_load *sum_loads(tying *t, pile *p, int64_t rows, int64_t columns,
                              int32_t *n_loads)
{
    const int32_t n = p->bytes.n;
    part *parts = fs_new(t->scratch, part, n);
    search_load *loads = fs_new(t->scratch, search_load, n);
    int32_t made = 0;
    if (n > 1)
        qsort(p->bytes.at, (size_t)n, sizeof *p->bytes.at, by_limit);
    for (int32_t k = 0, first = 0; k < n; k++) {
        const int32_t limit = p->bytes.at[k].limit;
        parts[k] = p->bytes.at[k].part;
        if (k + 1 < n && p->bytes.at[k + 1].limit == limit)
            continue;
        loads[made++] = (search_load){
            limit, sum_bytes(t, parts + first, k + 1 - first, rows, columns)};
        first = k + 1;
    }
    *n_loads = made;
    return fs_memdup(t->arena, loads, (size_t)made * sizeof *loads);
}

/* ---- nodes ---- */

/* Nodes that the filter tells apart are not equal. */
static void number(search_built *built)
{
    const int32_t *equal = built->layout->equal;
    built->net.n_nodes = 0;
    for (int32_t v = 0; v < built->loose.n_nodes; v++) {
        const bool follows = equal && equal[v] != v &&
                             built->domain[equal[v]] == built->domain[v];
        built->var[v] = follows ? built->var[equal[v]] : built->net.n_nodes++;
    }
}

void search_tie_nodes(search_built *built, fs_arena *arena)
{
    const search_net *loose = &built->loose;
    search_net *net = &built->net;
    *net = *loose;
    built->var = fs_new(arena, int32_t, loose->n_nodes);
    number(built);
    if (net->n_nodes == loose->n_nodes)
        return;
    tying t = tying_of(built, arena);
    pile **piles = fs_new(t.scratch, pile *, net->n_nodes);
    net->nodes = fs_new(arena, search_net_node, net->n_nodes);
    for (int32_t v = 0; v < loose->n_nodes; v++) {
        const search_net_node *from = &loose->nodes[v];
        const int32_t i = built->var[v];
        if (!piles[i]) {
            piles[i] = fs_new(t.scratch, pile, 1);
            net->nodes[i] = *from;
        }
        add_to_pile(&t, piles[i], from->cost, from->loads, from->n_loads,
                    false);
    }
    for (int32_t i = 0; i < net->n_nodes; i++) {
        search_net_node *node = &net->nodes[i];
        node->cost = sum_seconds(&t, piles[i]->seconds.at, piles[i]->seconds.n,
                                 node->n, 1);
        node->loads = sum_loads(&t, piles[i], node->n, 1, &node->n_loads);
    }
    fs_arena_destroy(t.scratch);
}

/* ---- edges ---- */

/* No padding. */
typedef struct edge_key {
    int32_t u, v, stage, per_step;
} edge_key;

/* A value next to itself in the copy before or behind. Its bytes are of no
 * account: bounds count too little rather than too much. */
static void add_to_itself(search_net *net, const search_net_edge *edge,
                          int32_t var, fs_arena *arena)
{
    search_net_node *node = &net->nodes[var];
    double *cost = fs_new(arena, double, node->n);
    for (int32_t k = 0; k < node->n; k++)
        cost[k] = node->cost[k] + edge->cost[k * (node->n + 1)];
    node->cost = cost;
}

void search_tie_edges(search_built *built, fs_arena *arena)
{
    const search_net *loose = &built->loose;
    search_net *net = &built->net;
    if (net->n_nodes == loose->n_nodes) {
        net->edges = loose->edges;
        net->n_edges = loose->n_edges;
        return;
    }
    tying t = tying_of(built, arena);
    search_memo known = {.arena = t.scratch};
    pile **piles = fs_new(t.scratch, pile *, loose->n_edges);
    net->edges = fs_new(arena, search_net_edge, loose->n_edges);
    net->n_edges = 0;
    for (int32_t e = 0; e < loose->n_edges; e++) {
        const search_net_edge *from = &loose->edges[e];
        const int32_t u = built->var[from->u], v = built->var[from->v];
        const bool turned = u > v;
        const edge_key key = {turned ? v : u, turned ? u : v, from->stage,
                              from->per_step};
        if (u == v) {
            add_to_itself(net, from, u, arena);
            continue;
        }
        int32_t *at = search_memo_at(&known, &key, sizeof key);
        if (*at < 0) {
            *at = net->n_edges;
            net->edges[net->n_edges] = *from;
            net->edges[net->n_edges].u = key.u;
            net->edges[net->n_edges].v = key.v;
            piles[net->n_edges++] = fs_new(t.scratch, pile, 1);
        }
        add_to_pile(&t, piles[*at], from->cost, from->loads, from->n_loads,
                    turned);
    }
    for (int32_t e = 0; e < net->n_edges; e++) {
        search_net_edge *edge = &net->edges[e];
        const int64_t rows = net->nodes[edge->u].n,
                      columns = net->nodes[edge->v].n;
        edge->cost = sum_seconds(&t, piles[e]->seconds.at, piles[e]->seconds.n,
                                 rows, columns);
        edge->loads = sum_loads(&t, piles[e], rows, columns, &edge->n_loads);
    }
    fs_arena_destroy(t.scratch);
}
