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
#include "search/lift.h"
#include "search/built.h"
#include "search/engine/memo.h"
#include "search/engine/prices.h"

#include <math.h>
#include <string.h>

static int32_t like_of(const search_lifting *l, int32_t v)
{
    return l->view->fold->like[l->view->stage_of[v]];
}

/* Nodes of the whole network that it stands for. */
static double copies_of(const search_lifting *l, int32_t v)
{
    return (double)l->view->times[v] * like_of(l, v);
}

/* ---- parts ---- */

/* All that stands for itself alone is one part; the rest of a stage that stands
 * for several is one; so is every run of layers that one stands for. */
static void find_parts(search_lifting *l)
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

static void find_states(search_lifting *l, search_lift_kind *k, int32_t maker)
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

static int32_t kind_of(search_lifting *l, search_memo *known,
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
        search_lift_kind made = {.out_slot = out_slot,
                                 .domain = l->built->domain[u]};
        find_states(l, &made, u);
        fs_push(l->arena, &l->kinds, made);
    }
    return *at;
}

static void add_maker(search_lifting *l, search_lift_kind *k, int32_t u)
{
    for (int32_t i = 0; i < k->makers.n; i++)
        if (k->makers.at[i] == u)
            return;
    fs_push(l->arena, &k->makers, u);
    k->made += copies_of(l, u);
}

/* Hubs of edges between parts. False: makers of one kind differ. */
static bool find_hubs(search_lifting *l)
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
        search_lift_kind *k = &l->kinds.at[of];
        if (k->domain != l->built->domain[u])
            return false;
        add_maker(l, k, u);
        const hub_key key = {of, view->run[v],
                             view->run[v] < 0 ? v : view->copy[v],
                             view->stage_of[v]};
        int32_t *at = search_memo_at(&hubs, &key, sizeof key);
        if (*at < 0) {
            *at = l->hubs.n;
            search_lift_hub made = {of, loose->n_nodes + l->hubs.n, v,
                                    copies_of(l, v)};
            fs_push(l->arena, &k->hubs, l->hubs.n);
            fs_push(l->arena, &l->hubs, made);
            k->read += made.times;
        }
        l->hub[e] = *at;
    }
    return true;
}

/* One that is read by many copies pays for each. */
static double paid_by(const search_lifting *l, const search_lift_kind *k,
                      int32_t maker)
{
    if (k->makers.n == 1 && copies_of(l, maker) == 1)
        return k->read;
    return copies_of(l, maker);
}

static void match(search_lifting *l)
{
    for (int32_t i = 0; i < l->kinds.n; i++) {
        search_lift_kind *k = &l->kinds.at[i];
        const bool one = k->makers.n == 1 && k->made == 1;
        k->free = !one && k->made != k->read;
    }
}

/* ---- potentials that drift ---- */

/* Makers and readers of a chain are copies of one run in one stage, of which
 * one stands for several, makes and reads. */
static bool on_chain(const search_lifting *l, const search_lift_kind *k,
                     int32_t v)
{
    const search_view *view = l->view;
    const int32_t u = k->makers.at[0];
    return view->run[v] >= 0 && view->run[v] == view->run[u] &&
           view->stage_of[v] == view->stage_of[u] &&
           (view->times[v] == 1) == (view->copy[v] != k->mid);
}

static void find_chain(search_lifting *l, search_lift_kind *k)
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
static double drift_of(const search_lift_kind *k, int32_t copy, bool makes,
                       bool late)
{
    if (!k->chain)
        return 0;
    double at = copy < k->mid ? 0 : k->n_mid;
    if (copy == k->mid)
        at = (late ? k->n_mid : 1) - (makes == k->forth ? 0 : 1);
    return 2 * at / k->n_mid - 1;
}

static void add_term(search_lifting *l, int32_t of, int32_t node, int32_t v,
                     double weight, const int32_t *state_of)
{
    const search_lift_kind *k = &l->kinds.at[of];
    const bool makes = state_of != NULL;
    const int32_t copy = l->view->copy[v], twin = l->twin ? l->twin[node] : -1;
    const double share = twin < 0 ? 1 : 0.5;
    search_lift_term one = {node, of, share * weight,
                            drift_of(k, copy, makes, false), state_of};
    fs_push(l->arena, &l->terms, one);
    one.node = twin;
    one.drift = drift_of(k, copy, makes, true);
    if (twin >= 0)
        fs_push(l->arena, &l->terms, one);
}

static void find_terms(search_lifting *l)
{
    l->terms.n = 0;
    for (int32_t i = 0; i < l->kinds.n; i++) {
        const search_lift_kind *k = &l->kinds.at[i];
        for (int32_t j = 0; j < k->makers.n && !k->free; j++) {
            const int32_t u = k->makers.at[j];
            add_term(l, i, u, u, -paid_by(l, k, u), k->state_of);
        }
        for (int32_t j = 0; j < k->hubs.n && !k->free; j++) {
            const search_lift_hub *h = &l->hubs.at[k->hubs.at[j]];
            add_term(l, i, h->node, h->reader, h->times, NULL);
        }
    }
}

/* Twins for the parts that a chain goes through. False: there are none. */
bool search_lift_drift(search_lifting *l)
{
    const search_net *loose = &l->loose;
    const int32_t n = loose->n_nodes + l->hubs.n;
    bool *drifts = fs_new(l->arena, bool, n), any = false;
    for (int32_t i = 0; i < l->kinds.n; i++) {
        search_lift_kind *k = &l->kinds.at[i];
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
static bool taken(const search_lifting *l, int32_t v, search_lift_part part)
{
    return part != SEARCH_LIFT_CORE || l->part[v] > 0;
}

/* Each of two twins has half. */
double search_lift_share(const search_lifting *l, int32_t v)
{
    return l->twin && l->twin[v] >= 0 ? 0.5 : 1;
}

int32_t search_lift_twin(const search_lifting *l, int32_t v)
{
    return l->twin ? l->twin[v] : -1;
}

static double byte_price(const search_lifting *l, const bool *without,
                         int32_t limit)
{
    return without && without[limit] ? 0 : l->at.bytes[limit];
}

static double *price_node(const search_lifting *l, const bool *without,
                          int32_t v, fs_arena *scratch)
{
    const search_net *loose = &l->loose;
    const search_net_node *node = &loose->nodes[v];
    const double share = search_lift_share(l, v);
    const double price =
        search_price_of(loose, &l->at, node->stage, node->per_step);
    double *unary = fs_new(scratch, double, node->n);
    for (int32_t s = 0; s < node->n; s++)
        unary[s] = isinf(node->cost[s]) ? INFINITY : price * node->cost[s];
    for (int32_t k = 0; k < node->n_loads; k++) {
        const double w = byte_price(l, without, node->loads[k].limit);
        for (int32_t s = 0; w > 0 && s < node->n; s++)
            unary[s] += w * (double)node->loads[k].bytes[s];
    }
    for (int32_t s = 0; s < node->n; s++)
        unary[s] *= share;
    return unary;
}

/* Values of a node of the additive network. */
static int32_t values_of(const search_lifting *l, int32_t i)
{
    const int32_t n = l->loose.n_nodes;
    return i < n ? l->loose.nodes[i].n
                 : l->kinds.at[l->hubs.at[i - n].kind].n_states;
}

static double **still_unaries(const search_lifting *l, const bool *without,
                              fs_arena *arena)
{
    const int32_t n = l->loose.n_nodes, all = n + l->hubs.n;
    double **unary = fs_new(arena, double *, l->n);
    for (int32_t i = 0; i < all; i++) {
        const int32_t twin = search_lift_twin(l, i), dom = values_of(l, i);
        unary[i] = i < n ? price_node(l, without, i, arena)
                         : fs_new(arena, double, dom);
        if (twin >= 0)
            unary[twin] =
                fs_memdup(arena, unary[i], (size_t)dom * sizeof **unary);
    }
    return unary;
}

double search_lift_paid(const search_lifting *l, const search_lift_term *term,
                        int32_t value)
{
    const search_lift_kind *k = &l->kinds.at[term->kind];
    const int32_t state = term->state_of ? term->state_of[value] : value;
    return term->weight * (k->phi[state] + term->drift * k->delta[state]);
}

double **search_lift_unaries(const search_lifting *l, fs_arena *arena)
{
    double **unary = still_unaries(l, NULL, arena);
    for (int32_t j = 0; j < l->terms.n; j++) {
        const search_lift_term *t = &l->terms.at[j];
        const search_lift_kind *k = &l->kinds.at[t->kind];
        const int32_t n_values =
            t->state_of ? l->loose.nodes[k->makers.at[0]].n : k->n_states;
        for (int32_t s = 0; s < n_values; s++)
            unary[t->node][s] += search_lift_paid(l, t, s);
    }
    return unary;
}

/* What is left out counts with the least of its own: one value, its pairs 0. */
static void set_nodes(const search_lifting *l, search_cfn *cfn,
                      const bool *without, search_lift_part part)
{
    fs_arena *scratch = fs_arena_create();
    double **unary = part == SEARCH_LIFT_STILL
                         ? still_unaries(l, without, scratch)
                         : search_lift_unaries(l, scratch);
    for (int32_t i = 0; i < l->loose.n_nodes + l->hubs.n; i++) {
        const int32_t twin = search_lift_twin(l, i);
        int32_t dom = values_of(l, i);
        if (i < l->loose.n_nodes && !taken(l, i, part)) {
            for (int32_t s = 1; s < dom; s++)
                unary[i][0] = fmin(unary[i][0], unary[i][s]);
            dom = 1;
        }
        search_cfn_set(cfn, i, dom, unary[i]);
        if (twin >= 0)
            search_cfn_set(cfn, twin, dom, unary[twin]);
    }
    fs_arena_destroy(scratch);
}

/* The row of the edge's table that a value of what its reader reads stands for:
 * a hub's is a state. */
int32_t search_lift_row(const search_lifting *l, int32_t e, int32_t value)
{
    if (l->hub[e] < 0)
        return value;
    return l->kinds.at[l->hubs.at[l->hub[e]].kind].value_of[value];
}

int32_t search_lift_source(const search_lifting *l, int32_t e)
{
    return l->hub[e] < 0 ? l->loose.edges[e].u : l->hubs.at[l->hub[e]].node;
}

/* ---- its tables: of edges that are alike one ---- */

typedef struct tables {
    const search_lifting *l;
    const bool *without;
    search_cfn *cfn;
    search_memo alike; /* parts -> made */
    FS_VEC(double *) made;
} tables;

/* What a table is made of; no padding. */
typedef struct table_part {
    const void *of;
    double scale;
} table_part;

static const int32_t *rows_of(const search_lifting *l, int32_t e)
{
    return l->hub[e] < 0 ? NULL
                         : l->kinds.at[l->hubs.at[l->hub[e]].kind].value_of;
}

/* [values of its source][of its reader] */
static double *make_table(const tables *t, int32_t e, double price,
                          double share)
{
    const search_lifting *l = t->l;
    const search_net_edge *edge = &l->loose.edges[e];
    const int32_t rows = values_of(l, search_lift_source(l, e)),
                  columns = l->loose.nodes[edge->v].n;
    double *cost = fs_new(t->cfn->arena, double, (int64_t)rows *columns);
    for (int32_t r = 0; r < rows; r++) {
        const int64_t from = (int64_t)search_lift_row(l, e, r) * columns;
        double *row = &cost[(int64_t)r * columns];
        for (int32_t s = 0; s < columns; s++)
            row[s] = isinf(edge->cost[from + s]) ? INFINITY
                                                 : price * edge->cost[from + s];
        for (int32_t k = 0; k < edge->n_loads; k++) {
            const double w = byte_price(l, t->without, edge->loads[k].limit);
            for (int32_t s = 0; w > 0 && s < columns; s++)
                row[s] += w * (double)edge->loads[k].bytes[from + s];
        }
        for (int32_t s = 0; s < columns && share < 1; s++)
            row[s] *= share;
    }
    return cost;
}

static double *table_of(tables *t, int32_t e)
{
    const search_lifting *l = t->l;
    const search_net_edge *edge = &l->loose.edges[e];
    fs_arena *scratch = fs_arena_create();
    table_part *key = fs_new(scratch, table_part, edge->n_loads + 2);
    const double share = search_lift_share(l, edge->v);
    const double price =
        search_price_of(&l->loose, &l->at, edge->stage, edge->per_step);
    int32_t n = 2;
    key[0] = (table_part){edge->cost, price};
    key[1] = (table_part){rows_of(l, e), share};
    for (int32_t k = 0; k < edge->n_loads; k++) {
        const double w = byte_price(l, t->without, edge->loads[k].limit);
        if (w > 0)
            key[n++] = (table_part){edge->loads[k].bytes, w};
    }
    int32_t *known = search_memo_at(&t->alike, key, (size_t)n * sizeof *key);
    if (*known < 0) {
        *known = t->made.n;
        fs_push(t->alike.arena, &t->made, make_table(t, e, price, share));
    }
    double *table = t->made.at[*known];
    fs_arena_destroy(scratch);
    return table;
}

search_cfn *search_lift_apart(const search_lifting *l, const bool *without,
                              search_lift_part part, fs_arena *arena)
{
    const search_net *loose = &l->loose;
    search_cfn *cfn = search_cfn_new(l->n, arena);
    fs_arena *scratch = fs_arena_create();
    tables t = {
        .l = l, .without = without, .cfn = cfn, .alike = {.arena = scratch}};
    set_nodes(l, cfn, without, part);
    for (int32_t e = 0; e < loose->n_edges; e++) {
        const search_net_edge *edge = &loose->edges[e];
        const int32_t h = l->hub[e], v = edge->v, twin = search_lift_twin(l, v);
        if (!taken(l, v, part) || (h < 0 && !taken(l, edge->u, part)))
            continue;
        double *cost = table_of(&t, e);
        const int32_t u = search_lift_source(l, e);
        search_cfn_share(cfn, u, v, cost);
        if (twin >= 0)
            search_cfn_share(cfn, l->twin[u], twin, cost);
    }
    fs_arena_destroy(scratch);
    return cfn;
}

bool search_lift_begin(search_lifting *l, const search_built *built)
{
    *l = (search_lifting){.built = built,
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
