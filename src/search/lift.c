/* From a bound of a folded network, in which equal layers of a stage and equal
 * stages have equal values, to one of the whole network, in which they need
 * not.
 *
 * At given prices the whole network is additive. It is taken apart where a node
 * that stands for several meets others: what a layer reads of the one before is
 * not what that makes, but a variable of its own (a hub: the SBP of the
 * tensor). With any potential phi(SBP) that the reader's hub pays and the maker
 * gets,
 *
 *   sum over layers of [ cost(x) + phi(hub) - phi(made(x)) ]
 *
 * is the cost of every assignment of the whole network: where layers meet, hub
 * and made agree, and the potentials cancel. Parts being independent then, the
 * sum of their minima is a bound for all assignments (Lagrangian decomposition;
 * Guignard and Kim, Mathematical Programming 39, 1987), and parts that are
 * alike have one minimum. Potentials are raised by subgradients towards the
 * folded network's own bound, which none exceeds (step of Polyak 1969). */
#include "config.h"
#include "search/view.h"

#include "search/cfn.h"
#include "search/engine.h"

#include <math.h>
#include <string.h>

enum { ROUNDS = 60, SWEEPS = 20 };
/* Where no upper bound is known it is taken to be so much higher. */
#define UNKNOWN 0.02
/* Every few rounds: would as many times what they gained do? If not, no more
 * are tried. */
enum { LOOK = 4, HOPE = 8 };
/* Steps shrink when they lead to no better bound; not below this. */
#define SLOWEST 0.05
/* Of sums of some ten thousand terms, relative to their size. */
#define ROUNDING 1e-12

/* A tensor on its way between parts: what makes it, with how many copies, and
 * the hubs that stand for it, with as many. */
typedef struct kind {
    int32_t out_slot, domain;
    int32_t n_states;
    int32_t *state_of; /* [values of a maker] */
    int32_t *value_of; /* [n_states] one of its values */
    FS_VEC(int32_t) makers, hubs;
    double made, read;  /* copies of each in all */
    bool free;          /* makers and readers do not match: no potential */
    double *phi, *best; /* [n_states] */
    double *slope;
} kind;

typedef struct hub {
    int32_t kind, node; /* of the additive network */
    double times;
} hub;

typedef struct lifting {
    const search_built *built;
    search_net loose; /* built's */
    const search_view *view;
    search_prices at;
    fs_arena *arena;
    int32_t *part; /* [graph node] */
    int32_t *hub;  /* [edge] whose reader has one; -1: the edge stays */
    FS_VEC(kind) kinds;
    FS_VEC(hub) hubs;
    double over;
} lifting;

static int32_t like_of(const lifting *l, int32_t v)
{
    return l->view->fold->like[l->view->stage_of[v]];
}

/* Nodes of the whole network that it stands for. */
static double copies_of(const lifting *l, int32_t v)
{
    return (double)l->view->times[v] * like_of(l, v);
}

/* ---- parts ---- */

/* All that stands for itself alone is one part; the rest of a stage that stands
 * for several is one; so is every run of layers that one stands for. */
static void find_parts(lifting *l)
{
    const search_view *view = l->view;
    const int32_t n_runs = view->fold->layers->runs.n;
    l->part = fs_new(l->arena, int32_t, view->graph->nodes.n);
    for (int32_t v = 0; v < view->graph->nodes.n; v++) {
        const int32_t of_stage = 1 + view->stage_of[v] * (n_runs + 1);
        if (view->times[v] > 1)
            l->part[v] = of_stage + 1 + view->run[v];
        else if (like_of(l, v) > 1)
            l->part[v] = of_stage;
    }
}

/* What makers of one kind have in common; no padding. */
typedef struct kind_key {
    int32_t stage, run, position, out_slot;
} kind_key;

/* A hub is read by one copy. No padding. */
typedef struct hub_key {
    int32_t kind, run, copy, stage;
} hub_key;

static void find_states(lifting *l, kind *k, int32_t maker)
{
    const search_built *built = l->built;
    const int32_t n = built->loose.nodes[maker].n;
    k->state_of = fs_new(l->arena, int32_t, n);
    k->value_of = fs_new(l->arena, int32_t, n);
    for (int32_t s = 0; s < n; s++) {
        int32_t at = 0;
        while (
            at < k->n_states &&
            !search_leaves_alike(built, maker, k->out_slot, k->value_of[at], s))
            at++;
        if (at == k->n_states)
            k->value_of[k->n_states++] = s;
        k->state_of[s] = at;
    }
    k->phi = fs_new(l->arena, double, k->n_states);
    k->best = fs_new(l->arena, double, k->n_states);
    k->slope = fs_new(l->arena, double, k->n_states);
}

static int32_t kind_of(lifting *l, search_memo *known,
                       const search_net_edge *edge, int32_t out_slot)
{
    const search_view *view = l->view;
    const int32_t u = edge->u;
    const bool crosses = view->stage_of[u] != view->stage_of[edge->v];
    const kind_key key = {crosses ? -1 : view->stage_of[u], view->run[u],
                          view->run[u] < 0 ? u : view->position[u], out_slot};
    int32_t *at = search_memo_at(known, &key, sizeof key);
    if (*at < 0) {
        *at = l->kinds.n;
        kind made = {.out_slot = out_slot, .domain = l->built->domain[u]};
        find_states(l, &made, u);
        fs_push(l->arena, &l->kinds, made);
    }
    return *at;
}

static void add_maker(lifting *l, kind *k, int32_t u)
{
    for (int32_t i = 0; i < k->makers.n; i++)
        if (k->makers.at[i] == u)
            return;
    fs_push(l->arena, &k->makers, u);
    k->made += copies_of(l, u);
}

/* Hubs of edges between parts. False: makers of one kind differ. */
static bool find_hubs(lifting *l)
{
    const search_net *loose = &l->loose;
    const search_view *view = l->view;
    search_memo kinds = {.arena = l->arena}, hubs = {.arena = l->arena};
    l->hub = fs_new(l->arena, int32_t, loose->n_edges);
    for (int32_t e = 0; e < loose->n_edges; e++) {
        const search_net_edge *edge = &loose->edges[e];
        const int32_t u = edge->u, v = edge->v;
        l->hub[e] = -1;
        if (l->part[u] == l->part[v])
            continue;
        if (l->built->out_slot[e] < 0)
            return false;
        const int32_t of = kind_of(l, &kinds, edge, l->built->out_slot[e]);
        kind *k = &l->kinds.at[of];
        if (k->domain != l->built->domain[u])
            return false;
        add_maker(l, k, u);
        const hub_key key = {of, view->run[v],
                             view->run[v] < 0 ? v : view->copy[v],
                             view->stage_of[v]};
        int32_t *at = search_memo_at(&hubs, &key, sizeof key);
        if (*at < 0) {
            *at = l->hubs.n;
            hub made = {of, loose->n_nodes + l->hubs.n, copies_of(l, v)};
            fs_push(l->arena, &k->hubs, l->hubs.n);
            fs_push(l->arena, &l->hubs, made);
            k->read += made.times;
        }
        l->hub[e] = *at;
    }
    return true;
}

/* One that is read by many copies pays for each. */
static double paid_by(const lifting *l, const kind *k, int32_t maker)
{
    if (k->makers.n == 1 && copies_of(l, maker) == 1)
        return k->read;
    return copies_of(l, maker);
}

static void match(lifting *l)
{
    for (int32_t i = 0; i < l->kinds.n; i++) {
        kind *k = &l->kinds.at[i];
        const bool one = k->makers.n == 1 && k->made == 1;
        k->free = !one && k->made != k->read;
    }
}

/* ---- the network in parts ---- */

/* Does it go into the network? If only the core does, what stands for itself
 * alone is left out. */
static bool taken(const lifting *l, int32_t v, bool core)
{
    return !core || l->part[v] > 0;
}

/* What is left out counts with the least of its own: one value, its pairs 0. */
static void set_nodes(const lifting *l, search_cfn *cfn, bool core)
{
    const search_net *loose = &l->loose;
    fs_arena *scratch = fs_arena_create();
    double **unary = fs_new(scratch, double *, loose->n_nodes);
    for (int32_t v = 0; v < loose->n_nodes; v++) {
        const search_net_node *node = &loose->nodes[v];
        const double price =
            search_price_of(loose, &l->at, node->stage, node->per_step);
        unary[v] = fs_new(scratch, double, node->n);
        for (int32_t s = 0; s < node->n; s++)
            unary[v][s] =
                isinf(node->cost[s]) ? INFINITY : price * node->cost[s];
        search_add_prices(node->loads, node->n_loads, &l->at, node->n,
                          unary[v]);
    }
    for (int32_t i = 0; i < l->kinds.n; i++) {
        const kind *k = &l->kinds.at[i];
        for (int32_t j = 0; j < k->makers.n && !k->free; j++) {
            const int32_t u = k->makers.at[j];
            const double times = paid_by(l, k, u);
            for (int32_t s = 0; s < loose->nodes[u].n; s++)
                unary[u][s] -= times * k->phi[k->state_of[s]];
        }
    }
    for (int32_t v = 0; v < loose->n_nodes; v++) {
        const int32_t n = loose->nodes[v].n;
        for (int32_t s = 1; s < n && !taken(l, v, core); s++)
            unary[v][0] = fmin(unary[v][0], unary[v][s]);
        search_cfn_set(cfn, v, taken(l, v, core) ? n : 1, unary[v]);
    }
    for (int32_t h = 0; h < l->hubs.n; h++) {
        const kind *k = &l->kinds.at[l->hubs.at[h].kind];
        double *phi = fs_new(scratch, double, k->n_states);
        for (int32_t s = 0; s < k->n_states && !k->free; s++)
            phi[s] = l->hubs.at[h].times * k->phi[s];
        search_cfn_set(cfn, l->hubs.at[h].node, k->n_states, phi);
    }
    fs_arena_destroy(scratch);
}

/* Priced tables of the edges, by hub where there is one: they do not depend on
 * potentials. */
typedef struct tables {
    double **at; /* [loose.n_edges] */
} tables;

static double *price_edge(const lifting *l, int32_t e, fs_arena *scratch)
{
    const search_net *loose = &l->loose;
    const search_net_edge *edge = &loose->edges[e];
    const int64_t rows = loose->nodes[edge->u].n,
                  columns = loose->nodes[edge->v].n;
    const double price =
        search_price_of(loose, &l->at, edge->stage, edge->per_step);
    double *cost = fs_new(scratch, double, rows *columns);
    for (int64_t s = 0; s < rows * columns; s++)
        cost[s] = isinf(edge->cost[s]) ? INFINITY : price * edge->cost[s];
    search_add_prices(edge->loads, edge->n_loads, &l->at, rows * columns, cost);
    if (l->hub[e] < 0)
        return cost;
    const kind *k = &l->kinds.at[l->hubs.at[l->hub[e]].kind];
    double *by_state = fs_new(scratch, double, k->n_states *columns);
    for (int32_t s = 0; s < k->n_states; s++)
        memcpy(&by_state[s * columns], &cost[k->value_of[s] * columns],
               (size_t)columns * sizeof *cost);
    return by_state;
}

static search_cfn *take_apart(const lifting *l, const tables *t, bool core,
                              fs_arena *scratch)
{
    const search_net *loose = &l->loose;
    search_cfn *cfn = search_cfn_new(loose->n_nodes + l->hubs.n, scratch);
    set_nodes(l, cfn, core);
    for (int32_t e = 0; e < loose->n_edges; e++) {
        const search_net_edge *edge = &loose->edges[e];
        const int32_t h = l->hub[e];
        if (!taken(l, edge->v, core) || (h < 0 && !taken(l, edge->u, core)))
            continue;
        if (!t->at[e])
            t->at[e] = price_edge(l, e, l->arena);
        if (h < 0)
            search_cfn_share(cfn, edge->u, edge->v, t->at[e]);
        else
            search_cfn_add(cfn, l->hubs.at[h].node, edge->v, t->at[e], 1);
    }
    return cfn;
}

/* ---- potentials ---- */

/* How often hubs have a state beyond makers, per copy. Returns the sum of the
 * squares. Counts are added up before they are divided: what cancels is 0, not
 * what rounding leaves of it, which would make a step of any length. */
static double find_slopes(lifting *l, const int32_t *value)
{
    double squares = 0;
    for (int32_t i = 0; i < l->kinds.n; i++) {
        kind *k = &l->kinds.at[i];
        memset(k->slope, 0, (size_t)k->n_states * sizeof *k->slope);
        if (k->free)
            continue;
        for (int32_t j = 0; j < k->hubs.n; j++) {
            const hub *h = &l->hubs.at[k->hubs.at[j]];
            k->slope[value[h->node]] += h->times;
        }
        for (int32_t j = 0; j < k->makers.n; j++) {
            const int32_t u = k->makers.at[j];
            k->slope[k->state_of[value[u]]] -= paid_by(l, k, u);
        }
        for (int32_t s = 0; s < k->n_states; s++) {
            k->slope[s] /= k->read;
            squares += k->slope[s] * k->slope[s];
        }
    }
    return squares;
}

/* What sums in which potentials cancel may be off by. */
static double rounding(const lifting *l)
{
    double sum = 0;
    for (int32_t i = 0; i < l->kinds.n; i++) {
        const kind *k = &l->kinds.at[i];
        double most = 0;
        for (int32_t s = 0; s < k->n_states; s++)
            most = fmax(most, fabs(k->phi[s]));
        sum += k->read * most;
    }
    return ROUNDING * sum;
}

static void move(lifting *l, double step)
{
    for (int32_t i = 0; i < l->kinds.n; i++) {
        kind *k = &l->kinds.at[i];
        for (int32_t s = 0; s < k->n_states; s++)
            k->phi[s] += step * k->slope[s] / k->read;
    }
}

/* Prices of stages that stand for others bind bytes that those do not hold. */
static void drop_prices(lifting *l)
{
    const search_built *built = l->built;
    const cost_moment *at;
    if (built->loose.n_limits == 0)
        return;
    cost_memory_moments(built->memory, &at);
    for (int32_t k = 0; k < built->loose.n_limits; k++)
        if (l->view->fold->like[at[built->moment[k]].stage] > 1)
            l->at.bytes[k] = 0;
}

/* One minimum at the potentials as they are. */
static double least(lifting *l, const tables *t, bool core, double enough,
                    fs_deadline deadline, double *squares)
{
    fs_arena *scratch = fs_arena_create();
    search_cfn *cfn = take_apart(l, t, core, scratch);
    search_effort effort = {deadline, SWEEPS, enough + l->over, 0, false, 0};
    search_minimum min;
    search_cfn_minimise(cfn, &effort, scratch, &min);
    *squares = 0;
    if (isfinite(min.cost) && !core)
        *squares = find_slopes(l, min.value);
    fs_arena_destroy(scratch);
    return min.bound - l->over - rounding(l);
}

/* Until the bound reaches `enough` or comes no nearer to `upper`. What stands
 * for many may do alone. */
static double raise(lifting *l, double upper, double enough,
                    fs_deadline deadline)
{
    const tables t = {fs_new(l->arena, double *, l->loose.n_edges)};
    double pace = 1, squares, before = -INFINITY;
    double best = least(l, &t, true, enough, deadline, &squares);
    for (int32_t round = 0; round < ROUNDS && pace > SLOWEST; round++) {
        if (best >= enough || fs_deadline_over(&deadline))
            break;
        if (round % LOOK == LOOK - 1) {
            if (HOPE * (best - before) < enough - best)
                break;
            before = best;
        }
        const double bound = least(l, &t, false, enough, deadline, &squares);
        pace *= bound > best ? 1 : 0.7;
        best = fmax(best, bound);
        if (squares <= 0)
            break;
        const double far =
            (isfinite(upper) ? upper : best + UNKNOWN * fabs(best)) - bound;
        move(l, pace * fmax(far, 0) / squares);
    }
    return best;
}

static bool begin(lifting *l, const search_built *built)
{
    *l = (lifting){.built = built,
                   .loose = built->loose,
                   .view = built->layout->view,
                   .arena = fs_arena_create()};
    l->at = search_prices_new(&built->loose, l->arena);
    find_parts(l);
    if (!find_hubs(l))
        return false;
    match(l);
    return true;
}

double search_lift(const search_built *built, const search_prices *at,
                   double upper, double enough, fs_deadline deadline)
{
    lifting l;
    double bound = 0;
    if (!built->layout->view)
        return upper;
    if (begin(&l, built)) {
        search_prices_copy(&built->loose, &l.at, at);
        drop_prices(&l);
        l.over = search_price_excess(&built->loose, &l.at);
        bound = raise(&l, upper, enough, deadline);
    }
    fs_arena_destroy(l.arena);
    return bound;
}

double search_lift_bytes(const search_built *built, int32_t limit,
                         fs_deadline deadline)
{
    lifting l;
    double bytes = 0;
    const int32_t n = built->loose.n_stages;
    if (begin(&l, built)) {
        l.loose.fill = 0; /* no second counts */
        for (int32_t i = 0; i < n; i++)
            l.at.micro[i] = l.at.step[i] = 0;
        l.at.bytes[limit] = 1;
        drop_prices(&l);
        bytes = raise(&l, INFINITY, 1 + (double)l.loose.limit_bytes[limit],
                      deadline);
    }
    fs_arena_destroy(l.arena);
    return bytes;
}
