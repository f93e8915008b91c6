#include "config.h"
#include "search/engine/iopddl.h"

#include "base/json_lists.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct reader {
    fs_arena *arena;
    fs_err *err;
    search_iopddl *out;
    fs_json problem, nodes, edges;
    fs_json_lists *lists;
} reader;

/* "nodes.costs[12]": of messages; item `at` of a list, or of an item of it. */
static fs_status wrong(reader *r, const fs_json *list, int64_t at,
                       const char *what)
{
    return fs_fail(r->err, FS_INVALID, "%s: %s[%lld] %s", list->file,
                   list->where, (long long)at, what);
}

/* Two whole numbers, each in [low, high]. */
static bool read_two(reader *r, const json_t *list, int64_t low, int64_t high,
                     int64_t out[2])
{
    fs_numbers two;
    if (!fs_json_numbers(r->lists, list, &two) || two.n != 2)
        return false;
    for (size_t k = 0; k < 2; k++) {
        out[k] = two.at[k];
        if (out[k] < low || out[k] > high)
            return false;
    }
    return true;
}

/* ---- nodes ---- */

static fs_status read_costs(reader *r)
{
    search_iopddl *p = r->out;
    fs_json list;
    FS_TRY(fs_json_array(&r->nodes, "costs", r->err, &list));
    const size_t n = json_array_size(list.value);
    if (n == 0 || n > INT32_MAX / 4)
        return fs_json_fail(&r->nodes, "costs", r->err,
                            n ? "has too many nodes" : "has no nodes");
    p->n_nodes = (int32_t)n;
    p->dom = fs_new(r->arena, int32_t, n);
    p->cost = fs_new(r->arena, const int64_t *, n);
    for (int32_t i = 0; i < p->n_nodes; i++) {
        const json_t *costs = json_array_get(list.value, (size_t)i);
        fs_numbers cost;
        if (!fs_json_numbers(r->lists, costs, &cost))
            return wrong(r, &list, i, "must be a list of whole numbers");
        if (cost.n == 0)
            return wrong(r, &list, i,
                         "is empty: a node without strategies has no solution");
        if (cost.n >= UINT16_MAX)
            return wrong(r, &list, i, "has more than 65534 strategies");
        p->dom[i] = (int32_t)cost.n;
        p->cost[i] = cost.at;
    }
    return FS_OK;
}

/* A list with an item for each node. */
static fs_status per_node(reader *r, const char *key, fs_json *list)
{
    FS_TRY(fs_json_array(&r->nodes, key, r->err, list));
    if (json_array_size(list->value) == (size_t)r->out->n_nodes)
        return FS_OK;
    return fs_json_fail(&r->nodes, key, r->err,
                        "has %zu items, problem.nodes.costs %d",
                        json_array_size(list->value), r->out->n_nodes);
}

static fs_status read_usages(reader *r)
{
    search_iopddl *p = r->out;
    fs_json list;
    FS_TRY(per_node(r, "usages", &list));
    p->bytes = fs_new(r->arena, const int64_t *, p->n_nodes);
    for (int32_t i = 0; i < p->n_nodes; i++) {
        const json_t *usages = json_array_get(list.value, (size_t)i);
        fs_numbers bytes;
        if (!fs_json_numbers(r->lists, usages, &bytes) ||
            bytes.n != (size_t)p->dom[i])
            return wrong(r, &list, i,
                         "must have a whole number for each strategy");
        for (int32_t s = 0; s < p->dom[i]; s++)
            if (bytes.at[s] < 0 ||
                bytes.at[s] > INT64_MAX / (4 * (int64_t)p->n_nodes))
                return wrong(r, &list, i, "is negative or too large");
        p->bytes[i] = bytes.at;
    }
    return FS_OK;
}

static int by_size(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int32_t rank_of(const int64_t *times, int32_t n, int64_t time)
{
    const int64_t *at =
        bsearch(&time, times, (size_t)n, sizeof *times, by_size);
    return (int32_t)(at - times);
}

static fs_status read_intervals(reader *r)
{
    search_iopddl *p = r->out;
    fs_json list;
    FS_TRY(per_node(r, "intervals", &list));
    const int32_t n = p->n_nodes;
    int64_t *ends = fs_new(r->arena, int64_t, 2 * n);
    int64_t *times = fs_new(r->arena, int64_t, 2 * n);
    for (int32_t i = 0; i < n; i++)
        if (!read_two(r, json_array_get(list.value, (size_t)i), 0, INT64_MAX,
                      ends + 2 * i) ||
            ends[2 * i] > ends[2 * i + 1])
            return wrong(r, &list, i, "must be two times, [from, to)");
    memcpy(times, ends, (size_t)(2 * n) * sizeof *ends);
    qsort(times, (size_t)(2 * n), sizeof *times, by_size);
    for (int32_t k = 0; k < 2 * n; k++)
        if (k == 0 || times[k] > times[p->n_steps - 1])
            times[p->n_steps++] = times[k];
    p->from = fs_new(r->arena, int32_t, n);
    p->to = fs_new(r->arena, int32_t, n);
    for (int32_t i = 0; i < n; i++) {
        p->from[i] = rank_of(times, p->n_steps, ends[2 * i]);
        p->to[i] = rank_of(times, p->n_steps, ends[2 * i + 1]);
    }
    return FS_OK;
}

/* ---- edges ---- */

static fs_status read_edges(reader *r)
{
    search_iopddl *p = r->out;
    fs_json ends, costs;
    FS_TRY(fs_json_array(&r->edges, "nodes", r->err, &ends));
    FS_TRY(fs_json_array(&r->edges, "costs", r->err, &costs));
    const size_t n = json_array_size(ends.value);
    if (json_array_size(costs.value) != n || n > INT32_MAX / 4)
        return fs_json_fail(&r->edges, "costs", r->err,
                            "has %zu items, problem.edges.nodes %zu",
                            json_array_size(costs.value), n);
    p->n_edges = (int32_t)n;
    p->edges = fs_new(r->arena, search_iopddl_edge, n);
    for (int32_t e = 0; e < p->n_edges; e++) {
        const json_t *table = json_array_get(costs.value, (size_t)e);
        int64_t two[2];
        fs_numbers cost;
        if (!read_two(r, json_array_get(ends.value, (size_t)e), 0,
                      p->n_nodes - 1, two) ||
            two[0] == two[1])
            return wrong(r, &ends, e,
                         fs_printf(r->arena,
                                   "must name two different nodes of 0 to %d",
                                   p->n_nodes - 1));
        const size_t cells = (size_t)p->dom[two[0]] * (size_t)p->dom[two[1]];
        if (!fs_json_numbers(r->lists, table, &cost) || cost.n != cells)
            return wrong(
                r, &costs, e,
                "must have a whole number for each pair of strategies");
        p->edges[e] =
            (search_iopddl_edge){(int32_t)two[0], (int32_t)two[1], cost.at};
    }
    return FS_OK;
}

static fs_status read_limit(reader *r)
{
    const json_t *limit = json_object_get(r->problem.value, "usage_limit");
    r->out->limit_bytes = INT64_MAX;
    if (!limit || json_is_null(limit))
        return FS_OK;
    if (!fs_json_whole(limit, &r->out->limit_bytes) || r->out->limit_bytes < 0)
        return fs_json_fail(&r->problem, "usage_limit", r->err,
                            "must be a whole number of 0 or more");
    return FS_OK;
}

static fs_status read_problem(reader *r, const fs_json *file)
{
    FS_TRY(fs_json_object(file, "problem", r->err, &r->problem));
    FS_TRY(fs_json_object(&r->problem, "nodes", r->err, &r->nodes));
    FS_TRY(fs_json_object(&r->problem, "edges", r->err, &r->edges));
    r->out->name = "";
    if (fs_json_has(&r->problem, "name"))
        FS_TRY(fs_json_strdup(&r->problem, "name", r->arena, r->err,
                              &r->out->name));
    FS_TRY(read_costs(r));
    FS_TRY(read_usages(r));
    FS_TRY(read_intervals(r));
    FS_TRY(read_edges(r));
    return read_limit(r);
}

fs_status search_iopddl_read(const char *path, fs_arena *arena, fs_err *err,
                             search_iopddl *out)
{
    fs_json_lists *lists = fs_json_lists_new(arena);
    json_t *root;
    FS_TRY(fs_json_load_lists(path, lists, err, &root));
    const fs_json file = fs_json_root(path, root);
    search_iopddl found = {0};
    reader r = {.arena = arena, .err = err, .out = &found, .lists = lists};
    const fs_status status = read_problem(&r, &file);
    json_decref(root);
    if (status == FS_OK)
        *out = found;
    return status;
}

/* ---- as a network ---- */

static double *costs_of(const int64_t *cost, size_t n, fs_arena *arena)
{
    double *out = fs_new(arena, double, n);
    for (size_t k = 0; k < n; k++)
        out[k] = cost[k] >= SEARCH_IOPDDL_FORBIDS ? INFINITY : (double)cost[k];
    return out;
}

static bool any_of(const int64_t *bytes, int32_t n)
{
    for (int32_t s = 0; s < n; s++)
        if (bytes[s])
            return true;
    return false;
}

static int by_table(const void *a, const void *b)
{
    const search_iopddl_edge *const *x = a, *const *y = b;
    const uintptr_t p = (uintptr_t)(*x)->cost, q = (uintptr_t)(*y)->cost;
    return (p > q) - (p < q);
}

/* Edges of one table share its costs as numbers too. */
static void share_edges(const search_iopddl *p, search_cfn *cfn,
                        fs_arena *scratch)
{
    const int32_t n = p->n_edges;
    const search_iopddl_edge **order =
        fs_new(scratch, const search_iopddl_edge *, n);
    double **cost = fs_new(scratch, double *, n);
    for (int32_t e = 0; e < n; e++)
        order[e] = &p->edges[e];
    qsort(order, (size_t)n, sizeof *order, by_table);
    for (int32_t k = 0; k < n; k++) {
        const search_iopddl_edge *edge = order[k];
        const bool again = k > 0 && order[k - 1]->cost == edge->cost;
        const size_t cells = (size_t)p->dom[edge->u] * (size_t)p->dom[edge->v];
        cost[edge - p->edges] = again ? cost[order[k - 1] - p->edges]
                                      : costs_of(edge->cost, cells, cfn->arena);
    }
    for (int32_t e = 0; e < n; e++)
        search_cfn_share(cfn, p->edges[e].u, p->edges[e].v, cost[e]);
}

search_cfn *search_iopddl_cfn(const search_iopddl *p, fs_arena *arena)
{
    search_cfn *cfn = search_cfn_new(p->n_nodes, arena);
    fs_arena *scratch = fs_arena_create();
    for (int32_t i = 0; i < p->n_nodes; i++) {
        search_cfn_set(cfn, i, p->dom[i],
                       costs_of(p->cost[i], (size_t)p->dom[i], scratch));
        if (p->limit_bytes < INT64_MAX && any_of(p->bytes[i], p->dom[i]))
            search_cfn_load(cfn, i, p->from[i], p->to[i], p->bytes[i]);
    }
    share_edges(p, cfn, scratch);
    fs_arena_destroy(scratch);
    return cfn;
}

/* ---- checking ---- */

static double least_of(const int64_t *cost, int64_t n)
{
    int64_t least = n ? cost[0] : 0;
    for (int64_t k = 1; k < n; k++)
        least = cost[k] < least ? cost[k] : least;
    return (double)least;
}

double search_iopddl_floor(const search_iopddl *p)
{
    double sum = 0;
    for (int32_t i = 0; i < p->n_nodes; i++)
        sum += least_of(p->cost[i], p->dom[i]);
    for (int32_t e = 0; e < p->n_edges; e++) {
        const search_iopddl_edge *edge = &p->edges[e];
        sum += least_of(edge->cost, (int64_t)p->dom[edge->u] * p->dom[edge->v]);
    }
    return sum;
}

static int64_t peak_of(const search_iopddl *p, const int32_t *value)
{
    int64_t *change = calloc((size_t)p->n_steps + 1, sizeof *change);
    int64_t now = 0, peak = 0;
    FS_ASSERT(change);
    for (int32_t i = 0; i < p->n_nodes; i++) {
        change[p->from[i]] += p->bytes[i][value[i]];
        change[p->to[i]] -= p->bytes[i][value[i]];
    }
    for (int32_t t = 0; t < p->n_steps; t++) {
        now += change[t];
        peak = now > peak ? now : peak;
    }
    free(change);
    return peak;
}

static bool add_cost(int64_t *sum, int64_t cost)
{
    return cost < SEARCH_IOPDDL_FORBIDS &&
           !__builtin_add_overflow(*sum, cost, sum);
}

fs_status search_iopddl_cost(const search_iopddl *p, const int32_t *value,
                             int64_t *cost, int64_t *peak_bytes)
{
    int64_t sum = 0;
    for (int32_t i = 0; i < p->n_nodes; i++)
        if (!add_cost(&sum, p->cost[i][value[i]]))
            return FS_NO;
    for (int32_t e = 0; e < p->n_edges; e++) {
        const search_iopddl_edge *edge = &p->edges[e];
        const int64_t at =
            (int64_t)value[edge->u] * p->dom[edge->v] + value[edge->v];
        if (!add_cost(&sum, edge->cost[at]))
            return FS_NO;
    }
    *cost = sum;
    *peak_bytes = peak_of(p, value);
    return *peak_bytes <= p->limit_bytes ? FS_OK : FS_NO;
}
