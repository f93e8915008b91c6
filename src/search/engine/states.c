/* The oracle's way through networks with too many assignments to walk: they
 * are built up node by node, and those that agree in every node that a later
 * one still looks at are one state (Bellman 1957). Of a state only sums that
 * no others of it undercut in every figure are kept, which is exact: the
 * formula and the limits rise with each. Shares nothing with the reductions
 * and eliminations of engine ilp. */
#include "config.h"
#include "search/engine/engine.h"
#include "search/engine/memo.h"

#include <math.h>
#include <string.h>

enum { MOST_KEPT = 1500000, MOST_NODES = 2000 };
#define MOST_STEPS 1000000000
/* Between looks at whether it was stopped. */
enum { LOOK_STEPS = 1 << 12 };

/* One way to a state. */
typedef struct way {
    int32_t parent, value, next; /* next: of the same state */
} way;

/* Ways up to a place in the order. */
typedef struct layer {
    fs_arena *arena;
    FS_VEC(double) sums;  /* [ways][figures] */
    FS_VEC(int32_t) seen; /* [ways][open] values of the open nodes */
    FS_VEC(way) ways;
    int32_t n_open, *open; /* nodes that later ones look at */
} layer;

typedef struct building {
    const search_net *net;
    fs_arena *arena;
    search_incidence edges;
    int32_t *order, *place;
    int32_t figures;   /* micro and step of each stage (one stage: their sum),
                          then each limit that can be exceeded */
    int32_t *limit;    /* [n_limits] its figure, or -1 */
    double *most;      /* [figures] limits; INFINITY: seconds */
    double *rest;      /* [places][figures] least that comes from there on */
    const fs_end *end; /* nobody waits for it any more */
    double upper;      /* a cost that is known to be possible */
    way **kept;        /* [places] */
    int64_t n_kept, steps;
} building;

/* ---- figures ---- */

static void add_cost(const building *b, int32_t stage, bool per_step,
                     double cost, double *sums)
{
    const search_net *net = b->net;
    if (net->n_stages == 1)
        sums[0] += (per_step ? 1 : net->micro_batches) * cost;
    else
        sums[(per_step ? net->n_stages : 0) + stage] += cost;
}

static void add_loads(const building *b, const search_load *loads, int32_t n,
                      int64_t at, double *sums)
{
    for (int32_t k = 0; k < n; k++)
        if (b->limit[loads[k].limit] >= 0)
            sums[b->limit[loads[k].limit]] += (double)loads[k].bytes[at];
}

static double cost_of(const building *b, const double *sums)
{
    int32_t p = b->net->n_stages;
    double total = 0, slowest = 0, step = 0;
    if (p == 1)
        return sums[0];
    for (int32_t i = 0; i < p; i++) {
        total += search_net_like(b->net, i) * sums[i];
        slowest = fmax(slowest, sums[i]);
        step = fmax(step, sums[p + i]);
    }
    return search_net_formula(b->net, total, slowest, step);
}

static double extreme(const search_load *load, int64_t n, double sign)
{
    double most = n ? sign * (double)load->bytes[0] : 0;
    for (int64_t at = 1; at < n; at++)
        most = fmax(most, sign * (double)load->bytes[at]);
    return sign * most;
}

/* The least that a table adds. */
static void add_least(const building *b, int32_t stage, bool per_step,
                      const double *cost, int64_t n, double *sums)
{
    double least = INFINITY;
    for (int64_t at = 0; at < n; at++)
        least = fmin(least, cost[at]);
    add_cost(b, stage, per_step, least, sums);
}

static void add_least_loads(const building *b, const search_load *loads,
                            int32_t n_loads, int64_t n, double *sums)
{
    for (int32_t k = 0; k < n_loads; k++)
        if (b->limit[loads[k].limit] >= 0)
            sums[b->limit[loads[k].limit]] += extreme(&loads[k], n, -1);
}

static int64_t cells(const search_net *net, const search_net_edge *edge)
{
    return (int64_t)net->nodes[edge->u].n * net->nodes[edge->v].n;
}

/* Limits that no assignment exceeds are no figures. */
static void choose_figures(building *b)
{
    const search_net *net = b->net;
    double *most = fs_new(b->arena, double, net->n_limits);
    b->figures = net->n_stages == 1 ? 1 : 2 * net->n_stages;
    b->limit = fs_new(b->arena, int32_t, net->n_limits);
    b->most = fs_new(b->arena, double, b->figures + net->n_limits);
    for (int32_t k = 0; k < b->figures; k++)
        b->most[k] = INFINITY;
    for (int32_t i = 0; i < net->n_nodes; i++)
        for (int32_t k = 0; k < net->nodes[i].n_loads; k++)
            most[net->nodes[i].loads[k].limit] +=
                extreme(&net->nodes[i].loads[k], net->nodes[i].n, 1);
    for (int32_t e = 0; e < net->n_edges; e++)
        for (int32_t k = 0; k < net->edges[e].n_loads; k++)
            most[net->edges[e].loads[k].limit] +=
                extreme(&net->edges[e].loads[k], cells(net, &net->edges[e]), 1);
    for (int32_t k = 0; k < net->n_limits; k++) {
        bool binds = most[k] > (double)net->limit_bytes[k];
        b->limit[k] = binds ? b->figures++ : -1;
        if (binds)
            b->most[b->limit[k]] = (double)net->limit_bytes[k];
    }
}

/* ---- the order ---- */

static int32_t other_end(const search_net_edge *edge, int32_t i)
{
    return edge->u == i ? edge->v : edge->u;
}

/* Is `i`, with `extra` taken too, looked at by a node not yet taken? */
static bool is_open(const building *b, int32_t i, int32_t extra)
{
    for (int32_t k = b->edges.first[i]; k < b->edges.first[i + 1]; k++) {
        int32_t o = other_end(&b->net->edges[b->edges.edge[k]], i);
        if (b->place[o] < 0 && o != extra)
            return true;
    }
    return false;
}

/* By how much the logarithm of the number of states grows if `i` is next. */
static double growth(const building *b, int32_t i)
{
    double sum = is_open(b, i, i) ? log(fmax(1, b->net->nodes[i].n)) : 0;
    for (int32_t k = b->edges.first[i]; k < b->edges.first[i + 1]; k++) {
        int32_t o = other_end(&b->net->edges[b->edges.edge[k]], i);
        if (b->place[o] >= 0 && !is_open(b, o, i))
            sum -= log(fmax(1, b->net->nodes[o].n));
    }
    return sum;
}

/* The node after which fewest states are to be told apart comes next. */
static void choose_order(building *b)
{
    int32_t n = b->net->n_nodes;
    b->order = fs_new(b->arena, int32_t, n);
    b->place = fs_new(b->arena, int32_t, n);
    for (int32_t i = 0; i < n; i++)
        b->place[i] = -1;
    for (int32_t at = 0; at < n; at++) {
        double least = INFINITY;
        for (int32_t i = 0; i < n; i++) {
            double more = b->place[i] < 0 ? growth(b, i) : INFINITY;
            if (more >= least)
                continue;
            least = more;
            b->order[at] = i;
        }
        b->place[b->order[at]] = at;
    }
}

/* Edges count with their later end. */
static bool counts_here(const building *b, int32_t e, int32_t i)
{
    return b->place[other_end(&b->net->edges[e], i)] < b->place[i];
}

static void sum_rest(building *b)
{
    const search_net *net = b->net;
    int32_t f = b->figures;
    b->rest = fs_new(b->arena, double, (size_t)(net->n_nodes + 1) * (size_t)f);
    for (int32_t at = net->n_nodes - 1; at >= 0; at--) {
        int32_t i = b->order[at];
        const search_net_node *node = &net->nodes[i];
        double *rest = &b->rest[(size_t)at * (size_t)f];
        memcpy(rest, rest + f, (size_t)f * sizeof *rest);
        add_least(b, node->stage, node->per_step, node->cost, node->n, rest);
        add_least_loads(b, node->loads, node->n_loads, node->n, rest);
        for (int32_t k = b->edges.first[i]; k < b->edges.first[i + 1]; k++) {
            const search_net_edge *edge = &net->edges[b->edges.edge[k]];
            int64_t n = cells(net, edge);
            if (!counts_here(b, b->edges.edge[k], i))
                continue;
            add_least(b, edge->stage, edge->per_step, edge->cost, n, rest);
            add_least_loads(b, edge->loads, edge->n_loads, n, rest);
        }
    }
}

/* ---- layer by layer ---- */

static int32_t value_in(const layer *from, int32_t w, int32_t node)
{
    for (int32_t k = 0; k < from->n_open; k++)
        if (from->open[k] == node)
            return from->seen.at[(size_t)w * (size_t)from->n_open + (size_t)k];
    FS_ASSERT(!"an edge's earlier end is open");
    return -1;
}

/* The sums of way w with value s of node i; false when that is forbidden. */
static bool extend(const building *b, const layer *from, int32_t w, int32_t i,
                   int32_t s, double *sums)
{
    const search_net *net = b->net;
    const search_net_node *node = &net->nodes[i];
    memcpy(sums, &from->sums.at[(size_t)w * (size_t)b->figures],
           (size_t)b->figures * sizeof *sums);
    add_cost(b, node->stage, node->per_step, node->cost[s], sums);
    add_loads(b, node->loads, node->n_loads, s, sums);
    for (int32_t k = b->edges.first[i]; k < b->edges.first[i + 1]; k++) {
        const search_net_edge *edge = &net->edges[b->edges.edge[k]];
        if (!counts_here(b, b->edges.edge[k], i))
            continue;
        int64_t width = net->nodes[edge->v].n;
        int64_t o = value_in(from, w, other_end(edge, i));
        int64_t at = edge->v == i ? o * width + s : s * width + o;
        add_cost(b, edge->stage, edge->per_step, edge->cost[at], sums);
        add_loads(b, edge->loads, edge->n_loads, at, sums);
    }
    return isfinite(cost_of(b, sums));
}

static bool hopeful(const building *b, int32_t at, const double *sums,
                    double *both)
{
    const double *rest = &b->rest[(size_t)(at + 1) * (size_t)b->figures];
    for (int32_t k = 0; k < b->figures; k++) {
        both[k] = sums[k] + rest[k];
        if (both[k] > b->most[k])
            return false;
    }
    double cost = cost_of(b, both);
    return isfinite(cost) &&
           cost <= b->upper + SEARCH_TOLERANCE * fabs(b->upper);
}

static bool undercut(const building *b, const layer *to, int32_t w,
                     const double *sums)
{
    const double *have = &to->sums.at[(size_t)w * (size_t)b->figures];
    for (int32_t k = 0; k < b->figures; k++)
        if (have[k] > sums[k])
            return false;
    return true;
}

/* Adds a way to its state, unless another is as good in every figure. */
static void offer(building *b, search_memo *states, layer *to,
                  const int32_t *seen, const double *sums, way from)
{
    int32_t *head =
        search_memo_at(states, seen, (size_t)to->n_open * sizeof *seen);
    for (int32_t w = *head; w >= 0; w = to->ways.at[w].next, b->steps++)
        if (undercut(b, to, w, sums))
            return;
    from.next = *head;
    *head = to->ways.n;
    fs_push(to->arena, &to->ways, from);
    for (int32_t k = 0; k < b->figures; k++)
        fs_push(to->arena, &to->sums, sums[k]);
    for (int32_t k = 0; k < to->n_open; k++)
        fs_push(to->arena, &to->seen, seen[k]);
    b->n_kept++;
}

static void open_nodes(const building *b, int32_t at, const layer *from,
                       layer *to)
{
    to->open = fs_new(to->arena, int32_t, from->n_open + 1);
    for (int32_t k = 0; k <= from->n_open; k++) {
        int32_t i = k < from->n_open ? from->open[k] : b->order[at];
        bool open = false;
        for (int32_t e = b->edges.first[i]; e < b->edges.first[i + 1]; e++)
            open |=
                b->place[other_end(&b->net->edges[b->edges.edge[e]], i)] > at;
        if (open)
            to->open[to->n_open++] = i;
    }
}

/* All values of the node at `at` behind all ways; false: too many. */
static bool advance(building *b, int32_t at, const layer *from, layer *to)
{
    int32_t i = b->order[at];
    search_memo states = {.arena = to->arena};
    double *sums = fs_new(to->arena, double, b->figures);
    double *both = fs_new(to->arena, double, b->figures);
    open_nodes(b, at, from, to);
    int32_t *seen = fs_new(to->arena, int32_t, to->n_open + 1);
    for (int32_t w = 0; w < from->ways.n; w++)
        for (int32_t s = 0; s < b->net->nodes[i].n; s++, b->steps++) {
            if (b->n_kept > MOST_KEPT || b->steps > MOST_STEPS ||
                (b->steps % LOOK_STEPS == 0 && fs_end_stopped(b->end)))
                return false;
            if (!extend(b, from, w, i, s, sums) || !hopeful(b, at, sums, both))
                continue;
            for (int32_t k = 0; k < to->n_open; k++)
                seen[k] = to->open[k] == i ? s : value_in(from, w, to->open[k]);
            offer(b, &states, to, seen, sums, (way){w, s, -1});
        }
    b->kept[at] = fs_memdup(b->arena, to->ways.at,
                            (size_t)to->ways.n * sizeof *to->ways.at);
    return true;
}

/* The cheapest way to the end, read backwards. */
static double read_back(const building *b, const layer *last, int32_t *value)
{
    double best = INFINITY;
    int32_t w = -1;
    for (int32_t k = 0; k < last->ways.n; k++) {
        double cost =
            cost_of(b, &last->sums.at[(size_t)k * (size_t)b->figures]);
        if (cost >= best)
            continue;
        best = cost;
        w = k;
    }
    for (int32_t at = b->net->n_nodes - 1; at >= 0 && isfinite(best); at--) {
        value[b->order[at]] = b->kept[at][w].value;
        w = b->kept[at][w].parent;
    }
    return best;
}

static bool run(building *b, int32_t *value, double *cost)
{
    layer here = {.arena = fs_arena_create()};
    bool good = true;
    fs_push(here.arena, &here.ways, ((way){-1, -1, -1}));
    for (int32_t k = 0; k < b->figures; k++)
        fs_push(here.arena, &here.sums, 0);
    for (int32_t at = 0; good && at < b->net->n_nodes; at++) {
        layer next = {.arena = fs_arena_create()};
        good = advance(b, at, &here, &next);
        fs_arena_destroy(here.arena);
        here = next;
    }
    if (good)
        *cost = read_back(b, &here, value);
    fs_arena_destroy(here.arena);
    return good;
}

fs_status search_states(const search_net *net, double upper, const fs_end *end,
                        fs_arena *arena, fs_err *err, search_solution *out)
{
    building b = {
        .net = net, .arena = fs_arena_create(), .upper = upper, .end = end};
    double cost = INFINITY;
    int32_t *value = fs_new(arena, int32_t, net->n_nodes);
    b.edges = search_net_incidence(net, true, b.arena);
    b.kept = fs_new(b.arena, way *, net->n_nodes);
    bool good = net->n_nodes <= MOST_NODES;
    if (good) {
        choose_figures(&b);
        choose_order(&b);
        sum_rest(&b);
        good = run(&b, value, &cost);
    }
    fs_arena_destroy(b.arena);
    if (!good)
        return fs_fail(err, FS_INVALID, "more than %d states of %d nodes",
                       MOST_KEPT, net->n_nodes);
    if (isinf(cost))
        return fs_fail(err, FS_NO, "no assignment is legal and fits memory");
    cost = search_net_cost(net, value);
    *out = (search_solution){.value = value,
                             .cost = cost,
                             .lower_bound = cost,
                             .steps = b.steps,
                             .kernel_nodes = net->n_nodes};
    return FS_OK;
}
