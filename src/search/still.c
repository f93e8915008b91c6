/* The network of a lifting at one price after the other. Potentials are paid by
 * hubs and their makers alone, and prices of bytes by what holds any at a
 * moment that has one: few nodes of all. So the rest is reduced once, with
 * those nodes staying whole (cfn.h: `stays`), and what is left, with what moves
 * added, is what is minimised each time. A reduction that looks at a node or
 * pair is exact whatever its neighbours cost, so that the least of what is left
 * is that of all; costs that move are sums of one of a node's and one of a
 * pair's ends, which stay. Another price that leaves 0 makes more nodes stay:
 * the rest is reduced anew. */
#include "config.h"
#include "search/still.h"

#include <math.h>
#include <string.h>

search_lift_still search_lift_still_new(search_lifting *l)
{
    search_lift_still still = {.l = l,
                               .moves =
                                   fs_new(l->arena, bool, l->loose.n_limits),
                               .stays = fs_new(l->arena, bool, l->n),
                               .number = fs_new(l->arena, int32_t, l->n)};
    return still;
}

void search_lift_still_end(search_lift_still *still)
{
    if (still->arena)
        fs_arena_destroy(still->arena);
    still->arena = NULL;
    still->cfn = NULL;
}

/* Prices that stay at nothing need no room; those that move do so for good. */
bool search_lift_still_moved(search_lift_still *still)
{
    search_lifting *l = still->l;
    bool moved = false;
    for (int32_t k = 0; l->excess && k < l->loose.n_limits; k++)
        if (l->at.bytes[k] > 0 && !still->moves[k])
            still->moves[k] = still->any = moved = true;
    if (moved)
        search_lift_still_end(still);
    return moved;
}

static bool holds(const search_lift_still *still, const search_load *loads,
                  int32_t n)
{
    for (int32_t k = 0; k < n; k++)
        if (still->moves[loads[k].limit])
            return true;
    return false;
}

bool search_lift_still_holds(const search_lift_still *still, int32_t e)
{
    const search_net_edge *edge = &still->l->loose.edges[e];
    return holds(still, edge->loads, edge->n_loads);
}

static void stay(search_lift_still *still, int32_t node)
{
    const int32_t twin = search_lift_twin(still->l, node);
    still->stays[node] = true;
    if (twin >= 0)
        still->stays[twin] = true;
}

static void find_staying(search_lift_still *still)
{
    const search_lifting *l = still->l;
    const search_net *loose = &l->loose;
    for (int32_t j = 0; j < l->terms.n; j++)
        still->stays[l->terms.at[j].node] = true;
    for (int32_t v = 0; v < loose->n_nodes; v++)
        if (holds(still, loose->nodes[v].loads, loose->nodes[v].n_loads))
            stay(still, v);
    for (int32_t e = 0; e < loose->n_edges; e++) {
        if (!search_lift_still_holds(still, e))
            continue;
        stay(still, loose->edges[e].v);
        stay(still, search_lift_source(l, e));
    }
}

static void make(search_lift_still *still)
{
    still->arena = fs_arena_create();
    find_staying(still);
    still->cfn = search_lift_apart(still->l, still->moves, SEARCH_LIFT_STILL,
                                   still->arena);
    still->cfn->stays = still->stays;
    search_cfn_reduce(still->cfn, SEARCH_REDUCE_ALL);
}

/* ---- what moves ---- */

/* In a node of the whole, or the twin of one. */
static void add_bytes(const search_lift_still *still, int32_t v, int32_t node,
                      double *unary)
{
    const search_lifting *l = still->l;
    const search_net_node *of = &l->loose.nodes[v];
    const int32_t *value = still->cfn->value[node];
    for (int32_t k = 0; k < of->n_loads; k++) {
        const search_load *load = &of->loads[k];
        const double w = search_lift_share(l, v) * l->at.bytes[load->limit];
        const bool moves = still->moves[load->limit] && w > 0;
        for (int32_t s = 0; moves && s < still->cfn->dom[node]; s++)
            unary[s] += w * (double)load->bytes[value[s]];
    }
}

void search_lift_still_add(const search_lift_still *still, double **unary)
{
    const search_lifting *l = still->l;
    const search_net *loose = &l->loose;
    for (int32_t j = 0; j < l->terms.n; j++) {
        const search_lift_term *term = &l->terms.at[j];
        const int32_t *value = still->cfn->value[term->node];
        double *to = unary[still->number[term->node]];
        for (int32_t s = 0; s < still->cfn->dom[term->node]; s++)
            to[s] += search_lift_paid(l, term, value[s]);
    }
    for (int32_t v = 0; v < loose->n_nodes && still->any; v++) {
        const int32_t twin = search_lift_twin(l, v);
        if (!holds(still, loose->nodes[v].loads, loose->nodes[v].n_loads))
            continue;
        add_bytes(still, v, v, unary[still->number[v]]);
        if (twin >= 0)
            add_bytes(still, v, twin, unary[still->number[twin]]);
    }
}

void search_lift_still_add_edge(const search_lift_still *still, int32_t e,
                                int32_t u, int32_t v, double *cost)
{
    const search_lifting *l = still->l;
    const search_cfn *cfn = still->cfn;
    const search_net_edge *edge = &l->loose.edges[e];
    const int64_t columns = l->loose.nodes[edge->v].n;
    const double share = search_lift_share(l, edge->v);
    for (int32_t k = 0; k < edge->n_loads; k++) {
        const search_load *load = &edge->loads[k];
        const double w = share * l->at.bytes[load->limit];
        double *to = cost;
        if (!still->moves[load->limit] || !(w > 0))
            continue;
        for (int32_t a = 0; a < cfn->dom[u]; a++) {
            const int64_t *row =
                load->bytes + search_lift_row(l, e, cfn->value[u][a]) * columns;
            for (int32_t b = 0; b < cfn->dom[v]; b++)
                *to++ += w * (double)row[cfn->value[v][b]];
        }
    }
}

typedef void edge_job(search_lift_still *still, int32_t e, int32_t u, int32_t v,
                      search_cfn *kernel);

/* Edges that hold bytes whose price moves, and their twins. */
static void for_edges(search_lift_still *still, edge_job *job,
                      search_cfn *kernel)
{
    const search_lifting *l = still->l;
    for (int32_t e = 0; e < l->loose.n_edges && still->any; e++) {
        const int32_t u = search_lift_source(l, e), v = l->loose.edges[e].v;
        if (!search_lift_still_holds(still, e))
            continue;
        job(still, e, u, v, kernel);
        if (search_lift_twin(l, v) >= 0)
            job(still, e, l->twin[u], l->twin[v], kernel);
    }
}

static void add_pair(search_lift_still *still, int32_t e, int32_t u, int32_t v,
                     search_cfn *kernel)
{
    const search_cfn *cfn = still->cfn;
    fs_arena *scratch = fs_arena_create();
    double *cost = fs_new(scratch, double, (int64_t)cfn->dom[u] * cfn->dom[v]);
    search_lift_still_add_edge(still, e, u, v, cost);
    search_cfn_add(kernel, still->number[u], still->number[v], cost, 1);
    fs_arena_destroy(scratch);
}

static void need_pair(search_lift_still *still, int32_t e, int32_t u, int32_t v,
                      search_cfn *kernel)
{
    const int32_t i = still->number[u], j = still->number[v];
    const search_cfn *cfn = still->cfn;
    (void)e;
    if (search_cfn_pair(kernel, i, j) < 0)
        search_cfn_share(
            kernel, i, j,
            fs_new(kernel->arena, double, (int64_t)cfn->dom[u] * cfn->dom[v]));
}

static search_cfn *kernel_of(search_lift_still *still, fs_arena *arena)
{
    if (!still->cfn)
        make(still);
    if (still->cfn->infeasible)
        return NULL;
    search_cfn *kernel = search_cfn_live(still->cfn, still->number, arena);
    kernel->offset = still->cfn->offset;
    kernel->steps += still->cfn->steps;
    still->cfn->steps = 0;
    return kernel;
}

search_cfn *search_lift_still_kernel(search_lift_still *still, fs_arena *arena)
{
    search_cfn *kernel = kernel_of(still, arena);
    if (kernel)
        for_edges(still, need_pair, kernel);
    return kernel;
}

int32_t *search_lift_still_finish(const search_lift_still *still,
                                  const int32_t *place, fs_arena *arena)
{
    const search_cfn *cfn = still->cfn;
    int32_t *value = fs_new(arena, int32_t, cfn->n);
    for (int32_t i = 0; i < cfn->n; i++)
        if (!cfn->gone[i])
            value[i] = cfn->value[i][place[still->number[i]]];
    search_cfn_finish(cfn, value);
    return value;
}

void search_lift_still_minimise(search_lift_still *still,
                                const search_effort *effort, fs_arena *arena,
                                search_minimum *out)
{
    search_lift_still_moved(still);
    search_cfn *kernel = kernel_of(still, arena);
    if (!kernel) {
        *out = (search_minimum){.bound = INFINITY, .cost = INFINITY};
        return;
    }
    search_lift_still_add(still, kernel->unary);
    for_edges(still, add_pair, kernel);
    search_cfn_minimise(kernel, effort, arena, out);
    if (isfinite(out->cost))
        out->value = search_lift_still_finish(still, out->value, arena);
}
