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
 * folded network's own bound, which none exceeds (step of Polyak 1969), and
 * prices of bytes with them.
 *
 * Copies that are alike can be in a state that nothing leads to: what it would
 * cost to come there from where the chain of copies begins is paid by none. So
 * where that bound stays low the potential may drift along the chain, from
 * copy to copy by the same delta: phi + c delta, c from -1 before the first to
 * 1 behind the last. The minimum of copy l is then a concave function of l
 * (affine for each assignment), so all n together are no less than n / 2 times
 * the first and n / 2 times the last: twins, in the place of one. */
#include "config.h"
#include "search/view.h"

#include "search/cfn.h"
#include "search/engine.h"

#include <math.h>
#include <string.h>

enum { ROUNDS = 60, SWEEPS = 20 };
/* Where no upper bound is known it is taken to be so much higher. */
#define UNKNOWN 0.02
/* Potentials that drift cost twice as much: what is missing by more than this
 * share is not looked for there. */
#define FAR 0.04
/* Where only so much is wanted, so much more is aimed at. */
#define BEYOND 0.005
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
    double made, read; /* copies of each in all */
    bool free;         /* makers and readers do not match: no potential */
    bool chain;        /* from each copy of a run in a stage to the next, */
    bool forth;        /* in the order of copies; */
    int32_t mid;       /* that copy stands for so many: */
    double n_mid;
    double *phi, *delta; /* [n_states] */
    double *slope, *tilt;
} kind;

typedef struct hub {
    int32_t kind, node; /* of the additive network */
    int32_t reader;
    double times;
} hub;

/* What a node of the additive network pays of a kind's potentials: in value s
 * weight (phi[t] + drift delta[t]) with t the state of s. */
typedef struct term {
    int32_t node, kind;
    double weight, drift;
    const int32_t *state_of; /* NULL: its values are states */
} term;

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
    FS_VEC(term) terms;
    int32_t n;     /* nodes of the additive network */
    int32_t *twin; /* [loose.n_nodes + hubs] there; -1: none. NULL: nothing
                      drifts */
    double over;
    double *excess; /* [limits] (bytes - limit) / limit; NULL: prices stay */
    bool *priced;   /* [limits] may have a price */
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
    k->delta = fs_new(l->arena, double, k->n_states);
    k->slope = fs_new(l->arena, double, k->n_states);
    k->tilt = fs_new(l->arena, double, k->n_states);
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
            hub made = {of, loose->n_nodes + l->hubs.n, v, copies_of(l, v)};
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

/* ---- potentials that drift ---- */

/* Makers and readers of a chain are copies of one run in one stage, of which
 * one stands for several, makes and reads. */
static bool on_chain(const lifting *l, const kind *k, int32_t v)
{
    const search_view *view = l->view;
    const int32_t u = k->makers.at[0];
    return view->run[v] >= 0 && view->run[v] == view->run[u] &&
           view->stage_of[v] == view->stage_of[u] &&
           (view->times[v] == 1) == (view->copy[v] != k->mid);
}

static void find_chain(lifting *l, kind *k)
{
    const search_view *view = l->view;
    bool forth = false, back = false, reads = false, all = !k->free;
    k->mid = -1;
    for (int32_t j = 0; j < k->makers.n; j++) {
        const int32_t u = k->makers.at[j];
        if (view->times[u] == 1)
            continue;
        k->mid = view->copy[u];
        k->n_mid = view->times[u];
    }
    for (int32_t j = 0; j < k->makers.n; j++) {
        const int32_t u = k->makers.at[j];
        all = all && on_chain(l, k, u);
        forth |= view->copy[u] < k->mid;
        back |= view->copy[u] > k->mid;
    }
    for (int32_t j = 0; j < k->hubs.n; j++) {
        const int32_t v = l->hubs.at[k->hubs.at[j]].reader;
        all = all && on_chain(l, k, v);
        forth |= view->copy[v] > k->mid;
        back |= view->copy[v] < k->mid;
        reads |= view->copy[v] == k->mid;
    }
    k->chain = all && k->mid >= 0 && reads && forth != back;
    k->forth = forth;
}

/* c of the tensor that a copy makes or reads: it lies between copy l and the
 * next, l from 0 (the copy before those in the middle) to n_mid. */
static double drift_of(const kind *k, int32_t copy, bool makes, bool late)
{
    if (!k->chain)
        return 0;
    double at = copy < k->mid ? 0 : k->n_mid;
    if (copy == k->mid)
        at = (late ? k->n_mid : 1) - (makes == k->forth ? 0 : 1);
    return 2 * at / k->n_mid - 1;
}

static void add_term(lifting *l, int32_t of, int32_t node, int32_t v,
                     double weight, const int32_t *state_of)
{
    const kind *k = &l->kinds.at[of];
    const bool makes = state_of != NULL;
    const int32_t copy = l->view->copy[v], twin = l->twin ? l->twin[node] : -1;
    const double share = twin < 0 ? 1 : 0.5;
    term one = {node, of, share * weight, drift_of(k, copy, makes, false),
                state_of};
    fs_push(l->arena, &l->terms, one);
    one.node = twin;
    one.drift = drift_of(k, copy, makes, true);
    if (twin >= 0)
        fs_push(l->arena, &l->terms, one);
}

static void find_terms(lifting *l)
{
    l->terms.n = 0;
    for (int32_t i = 0; i < l->kinds.n; i++) {
        const kind *k = &l->kinds.at[i];
        for (int32_t j = 0; j < k->makers.n && !k->free; j++) {
            const int32_t u = k->makers.at[j];
            add_term(l, i, u, u, -paid_by(l, k, u), k->state_of);
        }
        for (int32_t j = 0; j < k->hubs.n && !k->free; j++) {
            const hub *h = &l->hubs.at[k->hubs.at[j]];
            add_term(l, i, h->node, h->reader, h->times, NULL);
        }
    }
}

/* Twins for the parts that a chain goes through. False: there are none. */
static bool let_drift(lifting *l)
{
    const search_net *loose = &l->loose;
    const int32_t n = loose->n_nodes + l->hubs.n;
    bool *drifts = fs_new(l->arena, bool, n), any = false;
    for (int32_t i = 0; i < l->kinds.n; i++) {
        kind *k = &l->kinds.at[i];
        find_chain(l, k);
        for (int32_t j = 0; j < k->makers.n && k->chain; j++)
            if (l->view->times[k->makers.at[j]] > 1)
                any = drifts[l->part[k->makers.at[j]]] = true;
    }
    if (!any)
        return false;
    l->twin = fs_new(l->arena, int32_t, n);
    l->n = n;
    for (int32_t i = 0; i < n; i++) {
        const bool is_hub = i >= loose->n_nodes;
        const int32_t v = is_hub ? l->hubs.at[i - loose->n_nodes].reader : i;
        l->twin[i] = drifts[l->part[v]] ? l->n++ : -1;
    }
    find_terms(l);
    return true;
}

/* ---- the network in parts ---- */

/* Does it go into the network? If only the core does, what stands for itself
 * alone is left out. */
static bool taken(const lifting *l, int32_t v, bool core)
{
    return !core || l->part[v] > 0;
}

/* Each of two twins has half. */
static double share_of(const lifting *l, int32_t v)
{
    return l->twin && l->twin[v] >= 0 ? 0.5 : 1;
}

static int32_t twin_of(const lifting *l, int32_t v)
{
    return l->twin ? l->twin[v] : -1;
}

static double *price_node(const lifting *l, int32_t v, fs_arena *scratch)
{
    const search_net *loose = &l->loose;
    const search_net_node *node = &loose->nodes[v];
    const double share = share_of(l, v);
    const double price =
        search_price_of(loose, &l->at, node->stage, node->per_step);
    double *unary = fs_new(scratch, double, node->n);
    for (int32_t s = 0; s < node->n; s++)
        unary[s] = isinf(node->cost[s]) ? INFINITY : price * node->cost[s];
    search_add_prices(node->loads, node->n_loads, &l->at, node->n, unary);
    for (int32_t s = 0; s < node->n; s++)
        unary[s] *= share;
    return unary;
}

/* Values of a node of the additive network. */
static int32_t values_of(const lifting *l, int32_t i)
{
    const int32_t n = l->loose.n_nodes;
    return i < n ? l->loose.nodes[i].n
                 : l->kinds.at[l->hubs.at[i - n].kind].n_states;
}

/* What is left out counts with the least of its own: one value, its pairs 0. */
static void set_nodes(const lifting *l, search_cfn *cfn, bool core)
{
    const int32_t n = l->loose.n_nodes, all = n + l->hubs.n;
    fs_arena *scratch = fs_arena_create();
    double **unary = fs_new(scratch, double *, l->n);
    int32_t *dom = fs_new(scratch, int32_t, l->n);
    for (int32_t i = 0; i < all; i++) {
        const int32_t twin = twin_of(l, i);
        dom[i] = values_of(l, i);
        unary[i] =
            i < n ? price_node(l, i, scratch) : fs_new(scratch, double, dom[i]);
        if (twin < 0)
            continue;
        dom[twin] = dom[i];
        unary[twin] =
            fs_memdup(scratch, unary[i], (size_t)dom[i] * sizeof **unary);
    }
    for (int32_t j = 0; j < l->terms.n; j++) {
        const term *t = &l->terms.at[j];
        const kind *k = &l->kinds.at[t->kind];
        for (int32_t s = 0; s < dom[t->node]; s++) {
            const int32_t state = t->state_of ? t->state_of[s] : s;
            unary[t->node][s] +=
                t->weight * (k->phi[state] + t->drift * k->delta[state]);
        }
    }
    for (int32_t v = 0; v < n; v++) {
        if (taken(l, v, core))
            continue;
        for (int32_t s = 1; s < dom[v]; s++)
            unary[v][0] = fmin(unary[v][0], unary[v][s]);
        dom[v] = 1;
    }
    for (int32_t i = 0; i < l->n; i++)
        search_cfn_set(cfn, i, dom[i], unary[i]);
    fs_arena_destroy(scratch);
}

/* Priced tables of the edges, by hub where there is one: they do not depend on
 * potentials. */
typedef struct tables {
    double **at;   /* [loose.n_edges] */
    bool *current; /* [loose.n_edges] at the prices as they are */
} tables;

static tables new_tables(const lifting *l)
{
    return (tables){fs_new(l->arena, double *, l->loose.n_edges),
                    fs_new(l->arena, bool, l->loose.n_edges)};
}

/* The row of the edge's table that a value of what its reader reads stands for:
 * a hub's is a state. */
static int32_t row_of(const lifting *l, int32_t e, int32_t value)
{
    if (l->hub[e] < 0)
        return value;
    return l->kinds.at[l->hubs.at[l->hub[e]].kind].value_of[value];
}

static int32_t source_of(const lifting *l, int32_t e)
{
    return l->hub[e] < 0 ? l->loose.edges[e].u : l->hubs.at[l->hub[e]].node;
}

static const double *price_edge(const lifting *l, const tables *t, int32_t e)
{
    const search_net *loose = &l->loose;
    const search_net_edge *edge = &loose->edges[e];
    const int32_t rows = values_of(l, source_of(l, e)),
                  columns = loose->nodes[edge->v].n;
    const double share = share_of(l, edge->v);
    const double price =
        search_price_of(loose, &l->at, edge->stage, edge->per_step);
    if (t->current[e])
        return t->at[e];
    t->current[e] = true;
    if (!t->at[e])
        t->at[e] = fs_new(l->arena, double, (int64_t)rows *columns);
    for (int32_t r = 0; r < rows; r++) {
        const int64_t from = (int64_t)row_of(l, e, r) * columns;
        double *row = &t->at[e][(int64_t)r * columns];
        for (int32_t s = 0; s < columns; s++)
            row[s] = isinf(edge->cost[from + s]) ? INFINITY
                                                 : price * edge->cost[from + s];
        for (int32_t k = 0; k < edge->n_loads; k++) {
            const double w = l->at.bytes[edge->loads[k].limit];
            for (int32_t s = 0; w > 0 && s < columns; s++)
                row[s] += w * (double)edge->loads[k].bytes[from + s];
        }
        for (int32_t s = 0; s < columns && share < 1; s++)
            row[s] *= share;
    }
    return t->at[e];
}

/* Hubs may be read by several edges of one node, which are summed up. */
static void add_edge(search_cfn *cfn, int32_t u, int32_t v, const double *cost,
                     bool alone)
{
    if (alone)
        search_cfn_share(cfn, u, v, (double *)cost);
    else
        search_cfn_add(cfn, u, v, cost, 1);
}

static search_cfn *take_apart(const lifting *l, const tables *t, bool core,
                              fs_arena *scratch)
{
    const search_net *loose = &l->loose;
    search_cfn *cfn = search_cfn_new(l->n, scratch);
    set_nodes(l, cfn, core);
    for (int32_t e = 0; e < loose->n_edges; e++) {
        const search_net_edge *edge = &loose->edges[e];
        const int32_t h = l->hub[e], v = edge->v, twin = twin_of(l, v);
        if (!taken(l, v, core) || (h < 0 && !taken(l, edge->u, core)))
            continue;
        const double *cost = price_edge(l, t, e);
        const int32_t u = source_of(l, e);
        add_edge(cfn, u, v, cost, h < 0);
        if (twin >= 0)
            add_edge(cfn, l->twin[u], twin, cost, h < 0);
    }
    return cfn;
}

/* ---- potentials ---- */

/* How often hubs have a state beyond makers, per copy, and how far along the
 * chain. Returns the sum of the squares. Counts are added up before they are
 * divided: what cancels is 0, not what rounding leaves of it, which would make
 * a step of any length. */
static double find_slopes(lifting *l, const int32_t *value)
{
    double squares = 0;
    for (int32_t i = 0; i < l->kinds.n; i++) {
        kind *k = &l->kinds.at[i];
        memset(k->slope, 0, (size_t)k->n_states * sizeof *k->slope);
        memset(k->tilt, 0, (size_t)k->n_states * sizeof *k->tilt);
    }
    for (int32_t j = 0; j < l->terms.n; j++) {
        const term *t = &l->terms.at[j];
        const kind *k = &l->kinds.at[t->kind];
        const int32_t s = value[t->node];
        const int32_t state = t->state_of ? t->state_of[s] : s;
        k->slope[state] += t->weight;
        /* In parts of 1 / n_mid, which are whole numbers. */
        if (l->twin && k->chain)
            k->tilt[state] += 2 * t->weight * rint(k->n_mid * t->drift);
    }
    for (int32_t i = 0; i < l->kinds.n; i++) {
        kind *k = &l->kinds.at[i];
        for (int32_t s = 0; s < k->n_states; s++) {
            k->slope[s] /= k->read;
            k->tilt[s] /= k->chain ? 2 * k->n_mid * sqrt(k->read) : 1;
            squares += k->slope[s] * k->slope[s] + k->tilt[s] * k->tilt[s];
        }
    }
    return squares;
}

/* ---- prices of bytes ---- */

/* What values hold of each limit, beyond it, as a share of it, tamed: far
 * beyond it says no more of the price than beyond it. Adds the squares, but of
 * what has no price and no need of one. */
static double find_excess(lifting *l, const int32_t *value)
{
    const search_net *loose = &l->loose;
    double squares = 0;
    memset(l->excess, 0, (size_t)loose->n_limits * sizeof *l->excess);
    for (int32_t v = 0; v < loose->n_nodes; v++) {
        const search_net_node *node = &loose->nodes[v];
        for (int32_t i = v; i >= 0; i = i == v ? twin_of(l, v) : -1)
            for (int32_t k = 0; k < node->n_loads; k++)
                l->excess[node->loads[k].limit] +=
                    share_of(l, v) * (double)node->loads[k].bytes[value[i]];
    }
    for (int32_t e = 0; e < loose->n_edges; e++) {
        const search_net_edge *edge = &loose->edges[e];
        const int32_t v = edge->v, u = source_of(l, e);
        for (int32_t i = v; edge->n_loads && i >= 0;
             i = i == v ? twin_of(l, v) : -1) {
            const int32_t from = value[i == v ? u : l->twin[u]];
            const int64_t at =
                (int64_t)row_of(l, e, from) * loose->nodes[v].n + value[i];
            for (int32_t k = 0; k < edge->n_loads; k++)
                l->excess[edge->loads[k].limit] +=
                    share_of(l, v) * (double)edge->loads[k].bytes[at];
        }
    }
    for (int32_t k = 0; k < loose->n_limits; k++) {
        const double limit = (double)loose->limit_bytes[k];
        const double over = l->excess[k] / limit - 1;
        const bool idle = !l->priced[k] || (over < 0 && l->at.bytes[k] <= 0);
        l->excess[k] = idle ? 0 : over > 0 ? over / (1 + over) : over;
        squares += l->excess[k] * l->excess[k];
    }
    return squares;
}

static void move_prices(lifting *l, const tables *t, double step)
{
    const search_net *loose = &l->loose;
    bool moved = false;
    for (int32_t k = 0; k < loose->n_limits; k++) {
        const double by = step * l->excess[k] / (double)loose->limit_bytes[k];
        moved |= by != 0;
        l->at.bytes[k] = fmax(0, l->at.bytes[k] + by);
    }
    for (int32_t e = 0; e < loose->n_edges && moved; e++)
        t->current[e] = t->current[e] && loose->edges[e].n_loads == 0;
    l->over = search_price_excess(loose, &l->at);
}

/* What sums in which potentials cancel may be off by. */
static double rounding(const lifting *l)
{
    double sum = 0;
    for (int32_t i = 0; i < l->kinds.n; i++) {
        const kind *k = &l->kinds.at[i];
        double most = 0;
        for (int32_t s = 0; s < k->n_states; s++)
            most = fmax(most, fabs(k->phi[s]) + fabs(k->delta[s]));
        sum += k->read * most;
    }
    return ROUNDING * sum;
}

static void move(lifting *l, double step)
{
    for (int32_t i = 0; i < l->kinds.n; i++) {
        kind *k = &l->kinds.at[i];
        for (int32_t s = 0; s < k->n_states; s++) {
            k->phi[s] += step * k->slope[s] / k->read;
            k->delta[s] += step * k->tilt[s] / sqrt(k->read);
        }
    }
}

/* Prices of stages that stand for others bind bytes that those do not hold. */
static void drop_prices(lifting *l)
{
    const search_built *built = l->built;
    const cost_moment *at;
    if (built->loose.n_limits == 0)
        return;
    l->priced = fs_new(l->arena, bool, built->loose.n_limits);
    cost_memory_moments(built->memory, &at);
    for (int32_t k = 0; k < built->loose.n_limits; k++) {
        l->priced[k] = l->view->fold->like[at[built->moment[k]].stage] == 1;
        if (!l->priced[k])
            l->at.bytes[k] = 0;
    }
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
    if (isfinite(min.cost) && !core) {
        *squares = find_slopes(l, min.value);
        if (l->excess)
            *squares += find_excess(l, min.value);
    }
    fs_arena_destroy(scratch);
    return min.bound - l->over - rounding(l);
}

/* Rounds of one kind of potentials. Prices, where they move, are the best in
 * the end. */
static double climb(lifting *l, double best, double upper, double enough,
                    fs_deadline deadline, search_prices *prices)
{
    const tables t = new_tables(l);
    double pace = 1, squares, before = -INFINITY;
    if (isinf(best))
        best = least(l, &t, true, enough, deadline, &squares);
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
        if (bound > best && prices)
            search_prices_copy(&l->loose, prices, &l->at);
        best = fmax(best, bound);
        if (squares <= 0)
            break;
        const double far =
            (isfinite(upper) ? upper : best + UNKNOWN * fabs(best)) - bound;
        const double step = pace * fmax(far, 0) / squares;
        move(l, step);
        if (l->excess)
            move_prices(l, &t, step);
    }
    return best;
}

/* Until the bound reaches `enough` or comes no nearer to `upper`. What stands
 * for many may do alone. */
static double raise(lifting *l, double upper, double enough,
                    fs_deadline deadline, search_prices *prices)
{
    const double best = climb(l, -INFINITY, upper, enough, deadline, prices);
    if (best >= enough || isinf(upper) || enough - best > FAR * enough ||
        fs_deadline_over(&deadline) || !let_drift(l))
        return best;
    return climb(l, best, upper, enough, deadline, prices);
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
    l->n = l->loose.n_nodes + l->hubs.n;
    find_terms(l);
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
        bound = raise(&l, upper, enough, deadline, NULL);
    }
    fs_arena_destroy(l.arena);
    return bound;
}

double search_press(const search_built *built, bool memory, double enough,
                    fs_deadline deadline, search_prices *prices)
{
    /* Aimed at is a little more, so that enough is reached. */
    const double upper = enough * (1 + BEYOND);
    lifting l;
    double bound = 0;
    if (begin(&l, built)) {
        drop_prices(&l);
        if (memory && built->loose.n_limits)
            l.excess = fs_new(l.arena, double, built->loose.n_limits);
        bound = raise(&l, upper, enough, deadline, prices);
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
                      deadline, NULL);
    }
    fs_arena_destroy(l.arena);
    return bytes;
}
