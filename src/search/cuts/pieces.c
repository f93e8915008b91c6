/* What no cut divides. A forward node that computes with data and all that
 * follows it (its backward nodes, its variables and their updates) is one piece
 * of some stage, so that of p stages, however they are cut,
 *
 *   max a >= max(a / p, a of the heaviest piece)
 *
 * and the same of b. Where stages are many the second is what a bound is worth:
 * a twelfth of a network whose vocabulary takes a quarter of its time has that
 * quarter all the same. More is said by the even-most runs: pieces stand in one
 * order, stages are runs of it, and there are no p runs of which the fullest is
 * below some figure (96 layers on 64 stages: 7 % above the mean). */
#include "config.h"
#include "search/lay_out.h"

#include "search/built.h"
#include "search/cuts/cut.h"
#include "search/known.h"
#include "search/engine/prices.h"

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
                            .times = fs_new(arena, int32_t, n_seen),
                            .n = ranks->n_meant,
                            .order = fs_new(arena, int32_t, ranks->n_meant)};
    enum { NONE = -1, SEVERAL = -2 };
    for (int32_t i = 0; i < n_seen; i++)
        made->of[i] = NONE;
    for (int32_t r = 0; r < ranks->n_meant; r++) {
        const int32_t v = ranks->order[ranks->meant[r]];
        made->order[r] = view ? view->rep[v] : v;
        made->times[made->order[r]]++;
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

/* More of them are too many to look at where cuts add something: for a bound of
 * every cut, and at a first look. */
#define MOST_RUN_STEPS 3e7
#define FEW_RUN_STEPS 1e6

static double least_of(const search_net_node *node)
{
    double least = INFINITY;
    for (int32_t s = 0; s < node->n; s++)
        least = fmin(least, node->cost[s]);
    return least;
}

/* Seconds of all pieces before each, and what a cut adds there. */
typedef struct piece_runs {
    int32_t n, p;
    double *sum;                   /* [n + 1] */
    const double *behind, *before; /* [n + 1]; NULL: nothing */
    int32_t *least;                /* [n + 1] runs that end there */
} piece_runs;

/* Is `most` enough for each of p runs, by those that are as long as they can
 * be? */
static bool is_enough_plain(const piece_runs *runs, double most)
{
    int32_t at = 0;
    for (int32_t i = 0; i < runs->p && at < runs->n; i++) {
        int32_t low = at, high = runs->n;
        while (low < high) {
            const int32_t mid = low + (high - low + 1) / 2;
            if (runs->sum[mid] - runs->sum[at] <= most)
                low = mid;
            else
                high = mid - 1;
        }
        at = low;
    }
    return at == runs->n;
}

/* The same with what cuts add, by the fewest runs that end at each place. */
static bool is_enough(const piece_runs *runs, double most)
{
    if (!runs->behind)
        return is_enough_plain(runs, most);
    for (int32_t to = 1; to <= runs->n; to++) {
        int32_t least = INT32_MAX - 1;
        const double end = runs->sum[to] + runs->before[to] - most;
        for (int32_t at = to - 1; at >= 0 && runs->sum[at] >= end; at--)
            if (runs->least[at] < least &&
                runs->sum[at] - runs->behind[at] >= end)
                least = runs->least[at];
        runs->least[to] = least + 1;
    }
    return runs->least[runs->n] <= runs->p;
}

/* What the fullest of p runs of all pieces takes at least, of[piece] / times
 * each: no less than `known`. */
static double fullest_run(const search_pieces *pieces, const double *of,
                          int32_t p, const search_crossings *cuts,
                          double most_steps, double known, fs_arena *scratch)
{
    enum { HALVINGS = 20 };
    const double steps = HALVINGS * (double)pieces->n * pieces->n / p;
    piece_runs runs = {
        .n = pieces->n, .p = p, .sum = fs_new(scratch, double, pieces->n + 1)};
    double heaviest = 0;
    for (int32_t r = 0; r < pieces->n; r++) {
        const int32_t i = pieces->order[r];
        const double one = of[i] / pieces->times[i];
        runs.sum[r + 1] = runs.sum[r] + one;
        heaviest = fmax(heaviest, one);
    }
    double low = known, high = runs.sum[pieces->n] / p + heaviest;
    if (cuts && cuts->behind && steps < most_steps) {
        runs.behind = cuts->behind;
        runs.before = cuts->before;
        runs.least = fs_new(scratch, int32_t, pieces->n + 1);
        high = runs.sum[pieces->n];
    }
    for (int32_t k = 0; k < HALVINGS && low < high; k++) {
        const double mid = low + (high - low) / 2;
        if (is_enough(&runs, mid * (1 + SEARCH_TOLERANCE)))
            high = mid;
        else
            low = mid;
    }
    return low;
}

/* Seconds of all, and of the heaviest piece if p of it are more: [0] per
 * micro-batch, [1] per step. */
typedef struct loads {
    double all[2], heaviest[2];
    double fullest[2]; /* of stages, by any cut */
    int32_t piece[2];  /* -1: all / p is more */
} loads;

static loads weigh(const search_built *built, int32_t p,
                   const search_crossings *cuts)
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
        found.fullest[k] = found.heaviest[k];
        if (pieces && built->layout->in_runs && isfinite(found.all[k]))
            found.fullest[k] = fullest_run(
                pieces, sum[k], p, k == 0 ? cuts : NULL,
                built->layout->tells_apart ? MOST_RUN_STEPS : FEW_RUN_STEPS,
                found.heaviest[k], scratch);
    }
    fs_arena_destroy(scratch);
    return found;
}

double search_even_floor(const search_built *built, int32_t p,
                         const search_crossings *cuts)
{
    const search_net *net = &built->loose;
    const loads found = weigh(built, p, cuts);
    if (isinf(found.all[0]) || isinf(found.all[1]))
        return INFINITY;
    const double all = found.all[0] + (cuts ? cuts->all_s : 0);
    return net->fill * all +
           (net->micro_batches - net->fill) * fmax(found.fullest[0], all / p) +
           found.fullest[1];
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
    const loads found = weigh(built, p, NULL);
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

double search_run_prices(const search_built *built, int32_t p,
                         const search_crossings *cuts, fs_arena *arena,
                         search_prices *out)
{
    const search_net *net = &built->loose;
    const loads found = weigh(built, p, cuts);
    if (found.fullest[0] <= found.heaviest[0])
        return 0;
    *out = search_even_prices(built, p, arena);
    for (int32_t i = 0; i < net->n_stages; i++)
        out->micro[i] = 0;
    return (net->micro_batches - net->fill) * found.fullest[0] +
           net->fill * cuts->all_s;
}
