/* What no cut divides. A forward node that computes with data and all that
 * follows it (its backward nodes, its variables and their updates) is one piece
 * of some stage, so that of p stages, however they are cut,
 *
 *   max a >= max(a / p, a of the heaviest piece)
 *
 * and the same of b. Where stages are many the second is what a bound is worth:
 * a twelfth of a network whose vocabulary takes a quarter of its time has that
 * quarter all the same. */
#include "config.h"
#include "search/lay_out.h"

#include "search/built.h"
#include "search/cut.h"
#include "search/known.h"
#include "search/prices.h"

#include <math.h>
#include <string.h>

const search_ranks *search_ranks_of(search_level0 *z, const ir_graph *graph)
{
    if (graph->like)
        return search_known_ranks(z->problem->known, graph);
    for (int32_t k = 0; k < z->ranks.n; k++)
        if (z->ranks.at[k]->graph == graph)
            return z->ranks.at[k];
    search_ranks *made = fs_new(z->scratch, search_ranks, 1);
    made->graph = graph;
    search_find_ranks(graph, z->scratch, made);
    fs_push(z->scratch, &z->ranks, made);
    return made;
}

/* Pieces of the whole graph whose forward nodes one node of the view stands for
 * are one; what a node stands for is to be of one piece. */
static search_pieces *find_pieces(const search_ranks *ranks,
                                  const search_view *view, const ir_graph *seen,
                                  fs_arena *arena)
{
    const int32_t n_seen = seen->nodes.n;
    search_pieces *made = fs_new(arena, search_pieces, 1);
    *made = (search_pieces){.graph = seen,
                            .of = fs_new(arena, int32_t, n_seen),
                            .times = fs_new(arena, int32_t, n_seen)};
    enum { NONE = -1, SEVERAL = -2 };
    for (int32_t i = 0; i < n_seen; i++)
        made->of[i] = NONE;
    for (int32_t r = 0; r < ranks->n; r++) {
        const int32_t v = ranks->order[r];
        made->times[view ? view->rep[v] : v]++;
    }
    for (int32_t v = 0; v < ranks->graph->nodes.n; v++) {
        const int32_t first = ranks->order[ranks->rank[v]];
        const int32_t piece = view ? view->rep[first] : first;
        int32_t *of = &made->of[view ? view->rep[v] : v];
        *of = *of == NONE || *of == piece ? piece : SEVERAL;
    }
    return made;
}

const search_pieces *search_pieces_of(search_level0 *z,
                                      const search_layout *whole,
                                      const search_view *view)
{
    const ir_graph *seen = view ? view->graph : whole->graph;
    for (int32_t k = 0; k < z->pieces.n; k++)
        if (z->pieces.at[k]->graph == seen)
            return z->pieces.at[k];
    search_pieces *made =
        find_pieces(search_ranks_of(z, whole->graph), view, seen, z->scratch);
    fs_push(z->scratch, &z->pieces, made);
    return made;
}

static double least_of(const search_net_node *node)
{
    double least = INFINITY;
    for (int32_t s = 0; s < node->n; s++)
        least = fmin(least, node->cost[s]);
    return least;
}

/* Seconds of all, and of the heaviest piece if p of it are more: [0] per
 * micro-batch, [1] per step. */
typedef struct loads {
    double all[2], heaviest[2];
    int32_t piece[2]; /* -1: all / p is more */
} loads;

static loads weigh(const search_built *built, int32_t p)
{
    const search_net *net = &built->loose;
    const search_pieces *pieces = built->layout->pieces;
    fs_arena *scratch = fs_arena_create();
    loads found = {.piece = {-1, -1}};
    double *sum[2] = {fs_new(scratch, double, net->n_nodes),
                      fs_new(scratch, double, net->n_nodes)};
    for (int32_t v = 0; v < net->n_nodes; v++) {
        const search_net_node *node = &net->nodes[v];
        const double least = least_of(node);
        found.all[node->per_step] += least;
        if (pieces && pieces->of[v] >= 0)
            sum[node->per_step][pieces->of[v]] += least;
    }
    for (int32_t k = 0; k < 2; k++) {
        found.heaviest[k] = found.all[k] / p;
        for (int32_t i = 0; pieces && i < net->n_nodes; i++) {
            if (pieces->times[i] == 0 ||
                sum[k][i] / pieces->times[i] <= found.heaviest[k])
                continue;
            found.heaviest[k] = sum[k][i] / pieces->times[i];
            found.piece[k] = i;
        }
    }
    fs_arena_destroy(scratch);
    return found;
}

double search_even_floor(const search_built *built, int32_t p)
{
    const search_net *net = &built->loose;
    const loads found = weigh(built, p);
    if (isinf(found.all[0]) || isinf(found.all[1]))
        return INFINITY;
    return net->fill * found.all[0] +
           (net->micro_batches - net->fill) * found.heaviest[0] +
           found.heaviest[1];
}

double search_even_load(const search_built *built, int32_t p, bool crowded)
{
    const search_net *net = &built->loose;
    const search_pieces *pieces = built->layout->pieces;
    fs_arena *scratch = fs_arena_create();
    double *sum = fs_new(scratch, double, net->n_nodes), all = 0, most = 0;
    for (int32_t v = 0; v < net->n_nodes; v++) {
        const search_net_node *node = &net->nodes[v];
        const double times = node->per_step ? 1 : net->micro_batches;
        all += times * least_of(node);
        if (pieces->of[v] >= 0)
            sum[pieces->of[v]] += times * least_of(node);
    }
    for (int32_t i = 0; i < net->n_nodes && !crowded; i++)
        if (pieces->times[i] > 0)
            most = fmax(most, sum[i] / pieces->times[i]);
    fs_arena_destroy(scratch);
    return fmax(all / p, most);
}

void search_part_heaviest(search_built *built, search_layout *layout, int32_t p)
{
    const loads found = weigh(built, p);
    memcpy(layout->heaviest, found.piece, sizeof layout->heaviest);
    for (int32_t v = 0; v < built->loose.n_nodes; v++) {
        search_net_node *node = &built->loose.nodes[v];
        node->stage = search_bearer_of(layout, v, node->per_step);
    }
}

search_prices search_even_prices(const search_built *built, int32_t p,
                                 fs_arena *arena)
{
    const search_layout *layout = built->layout;
    search_prices even = search_prices_new(&built->net, arena);
    double *price[2] = {even.micro, even.step};
    for (int32_t k = 0; k < 2; k++) {
        const int32_t piece = layout->heaviest[k];
        price[k][0] = piece < 0 ? 1.0 / p : 0;
        if (built->loose.n_stages > 1)
            price[k][1] = piece < 0 ? 0 : 1.0 / layout->pieces->times[piece];
    }
    return even;
}
