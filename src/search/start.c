/* The first plan is another's: the search is never worse. Where memory refuses
 * plans, the configurations that its best recipes led to are then looked at as
 * they are, without recipes: which of them fit is known by then, and bounds do
 * not tell. */
#include "config.h"
#include "search/effort.h"
#include "search/narrow.h"
#include "search/space.h"

#include <math.h>
#include <string.h>

/* Configurations, and prices for each. */
enum { FREED = 4, ROUNDS = 4 };

void search_keep_found(search_level0 *z, search_candidate *from,
                       const search_result *found)
{
    search_keep(z,
                &(search_kept){.from = from,
                               .graph = found->graph,
                               .strategy = found->strategy,
                               .cost_s = found->iteration_s,
                               .casts = found->again.casts,
                               .fits = true,
                               .guessed = found->guessed,
                               .net_nodes = (int32_t)found->net_nodes,
                               .net_edges = (int32_t)found->net_edges,
                               .kernel_nodes = (int32_t)found->kernel_nodes});
    z->best_s = found->iteration_s;
}

static void keep_first(search_level0 *z, const search_result *found)
{
    search_keep_found(z, search_candidate_of(z, found), found);
}

search_problem search_part_of(const search_level0 *z)
{
    search_problem one = *z->problem;
    one.book = z->book;
    one.start = NULL;
    one.ranking = NULL;
    one.in_full = false;
    one.claims = true;
    one.recut = false;
    one.fix_schedule = true;
    one.n_schedules = 0;
    return one;
}

bool search_run_part(search_level0 *z, const search_problem *one,
                     search_result *found)
{
    fs_err ignored = {0};
    const fs_status status = search_run(one, z->arena, &ignored, found);
    z->other_steps += found->steps;
    z->late |= found->late;
    return status == FS_OK;
}

static bool same_place(const search_config *a, const search_config *b)
{
    return a->n_stages == b->n_stages && a->depth == b->depth &&
           a->micro_batches == b->micro_batches &&
           strcmp(a->schedule, b->schedule) == 0 &&
           plan_same_mesh(a->mesh, b->mesh);
}

/* The configuration of the best plan behind those listed; NULL. */
static const search_config *next_best(const search_result *found,
                                      const search_config *const *listed,
                                      int32_t n)
{
    const search_config *best = NULL;
    for (int32_t k = 0; k < found->n_configs; k++) {
        const search_config *c = &found->configs[k];
        bool known = !isfinite(c->iteration_s) || c->depth > 1;
        for (int32_t i = 0; i < n && !known; i++)
            known = same_place(listed[i], c);
        if (!known && (!best || c->iteration_s < best->iteration_s))
            best = c;
    }
    return best;
}

static const search_graph *graph_of(const search_problem *problem, int32_t m)
{
    for (int32_t k = 0; k < problem->n_graphs; k++)
        if (problem->graphs[k].micro_batches == m)
            return &problem->graphs[k];
    return NULL;
}

/* The search of one configuration, whatever lies how. */
static void free_one(search_level0 *z, const search_config *c,
                     const search_order *order, const fs_end *end,
                     double most_steps)
{
    search_problem one = search_part_of(z);
    search_result found = {0};
    one.order = order;
    one.graphs = graph_of(z->problem, c->micro_batches);
    one.n_graphs = 1;
    one.fix_stages = c->n_stages;
    one.fix_mesh = *c->mesh;
    one.schedule = c->schedule;
    one.rounds = ROUNDS;
    one.below_s = z->best_s;
    one.progress = NULL;
    one.end = end;
    one.most_steps = most_steps;
    if (one.graphs && search_run_part(z, &one, &found) &&
        found.iteration_s < z->best_s)
        keep_first(z, &found);
}

static void free_best(search_level0 *z, const search_result *found,
                      const search_order *order)
{
    const search_config *listed[FREED];
    double most;
    const fs_end end = search_freeing_end(z, &most);
    for (int32_t n = 0; n < FREED; n++) {
        const double left = most - (double)search_steps(z);
        listed[n] = next_best(found, listed, n);
        if (!listed[n] || left <= 0 || fs_end_reached(&end))
            return;
        free_one(z, listed[n], order, &end, left);
    }
}

/* The best recipe's configuration where it is casts that are made again, which
 * fit where they are kept does not: a search of what is computed again takes
 * several times as long. */
static void free_casts(search_level0 *z, const search_result *found,
                       const search_order *order)
{
    search_problem one = search_part_of(z);
    search_graph graph = *found->of;
    search_result freed = {0};
    double most;
    const fs_end end = search_freeing_end(z, &most);
    graph.graph = one.casts(one.again_ctx, found->of);
    one.again = one.casts = NULL;
    one.order = order;
    one.graphs = &graph;
    one.n_graphs = 1;
    one.fix_stages = found->strategy->n_stages;
    one.fix_mesh = found->strategy->stages[0].mesh;
    one.schedule = found->strategy->schedule;
    one.rounds = ROUNDS;
    one.below_s = z->best_s;
    one.progress = NULL;
    one.end = &end;
    one.most_steps = most - (double)search_steps(z);
    if (!graph.graph || one.most_steps <= 0 ||
        !search_run_part(z, &one, &freed) || freed.iteration_s >= z->best_s)
        return;
    freed.of = found->of;
    freed.again = found->again;
    keep_first(z, &freed);
}

static void start_in(search_level0 *z, const search_order *order)
{
    search_problem one = search_part_of(z);
    search_result found = {0};
    one.engine = z->problem->start;
    one.order = order;
    one.below_s = isfinite(z->best_s) ? z->best_s : 0;
    const fs_end end = search_start_end(z, &one);
    one.end = &end;
    const bool any = search_run_part(z, &one, &found);
    z->refused |= found.memory_decides ||
                  (!any && one.below_s <= 0 && one.memory_bytes > 0);
    if (!any || found.iteration_s >= z->best_s)
        return;
    const bool first = !z->kept.from;
    keep_first(z, &found);
    if (first) /* it was kept when its own search had ended */
        z->first_s = found.first_s;
    if (found.memory_decides && z->problem->memory_bytes > 0)
        free_best(z, &found, order);
    if (found.again.casts)
        free_casts(z, &found, order);
}

/* The cluster as it is written, and back to front: which of the two it is makes
 * no difference. */
void search_start(search_level0 *z)
{
    if (!z->problem->start)
        return;
    search_start_usual(z);
    const search_order *back = search_order_back(&z->orders);
    const bool first = back && back->number < z->orders.own;
    if (first)
        start_in(z, back);
    start_in(z, NULL);
    if (back && !first)
        start_in(z, back);
    if (!back) /* planners of pipelines keep to the order as written */
        search_start_uneven(z);
}
