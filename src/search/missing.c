/* Moments that misfits show to be missing. A network binds bytes at a few
 * moments, chosen without knowing its plan: a relaxation. Where a plan that was
 * found takes more when it is lowered, the moment at which it does is one more
 * limit, as an inequality that cuts a point off: what is counted then is held
 * by every lowered plan (cost/memory.h), so that bounds stay bounds, and each
 * plan that fits stays one of the network. */
#include "config.h"
#include "search/level0.h"

#include <string.h>

/* Of one graph; each is a limit more to search under. */
enum { MOST_MISSING = 12 };

static int32_t count_missing(const search_level0 *z, const ir_graph *graph)
{
    int32_t n = 0;
    for (int32_t k = 0; k < z->missing.n; k++)
        n += z->missing.at[k].graph == graph;
    return n;
}

/* A layer between the first and the last of a stage stands for several, so that
 * the place of none is its: the one of those two that the backward pass comes
 * to first. */
static int32_t alone(const search_view *view, int32_t v)
{
    if (view->times[v] == 1)
        return v;
    for (int32_t u = 0; u < view->graph->nodes.n; u++)
        if (view->times[u] == 1 && view->equal[u] == view->equal[v])
            return u;
    return -1;
}

/* Copies that are left out are not in the plan's graph: who is who by name, in
 * the same order. */
static int32_t by_name(const search_candidate *c, const search_kept *found,
                       int32_t v)
{
    const ir_graph *whole = c->layout.graph;
    const char *name = found->graph->nodes.at[v].name;
    for (int32_t w = v; w < whole->nodes.n; w++)
        if (strcmp(whole->nodes.at[w].name, name) == 0)
            return w;
    return -1;
}

/* A moment of the plan's graph as one of the graph of the network. */
static bool place_moment(const search_candidate *c, const search_kept *found,
                         cost_moment *at)
{
    int32_t *const node[2] = {&at->node, &at->scratch_node};
    fs_arena *scratch = fs_arena_create();
    const int32_t *rep =
        c->view ? search_view_nodes(c->view, c->layout.graph, scratch) : NULL;
    bool good = true;
    for (int32_t k = 0; k < 2 && good; k++) {
        if (*node[k] < 0)
            continue;
        *node[k] = by_name(c, found, *node[k]);
        if (rep && *node[k] >= 0)
            *node[k] = rep[*node[k]];
        good = *node[k] >= 0;
    }
    if (good && rep)
        at->node = alone(c->view, at->node);
    good = good && at->node >= 0;
    if (good)
        at->stage = c->shown.stage_of[at->node];
    fs_arena_destroy(scratch);
    return good;
}

static bool is_known(const search_candidate *c, const cost_moment *at)
{
    const cost_moment *known;
    const int32_t n = cost_memory_moments(c->built.memory, &known);
    for (int32_t k = 0; k < n; k++)
        if (cost_moment_equal(&known[k], at))
            return true;
    return false;
}

/* False: there are enough. */
static bool add_moment(search_level0 *z, const search_candidate *c,
                       const cost_moment *at)
{
    const search_missing one = {c->shown.graph, *at};
    for (int32_t k = 0; k < z->missing.n; k++)
        if (z->missing.at[k].graph == one.graph &&
            cost_moment_equal(&z->missing.at[k].at, at))
            return true;
    if (count_missing(z, one.graph) >= MOST_MISSING)
        return false;
    fs_push(z->scratch, &z->missing, one);
    return true;
}

bool search_note_missing(search_level0 *z, search_candidate *c,
                         const search_kept *found, const int64_t *limit,
                         const int64_t *bytes)
{
    fs_arena *scratch = fs_arena_create();
    int32_t *node = fs_new(scratch, int32_t, c->n_stages);
    bool any = false;
    search_fullest_nodes(z->problem, found->graph, found->strategy, node);
    for (int32_t i = 0; i < c->n_stages; i++) {
        cost_moment at;
        if (bytes[i] <= limit[i] ||
            (double)cost_fuller_moment(found->graph, found->strategy, i,
                                       node[i],
                                       &at) <= c->share * (double)limit[i] ||
            !place_moment(c, found, &at) || is_known(c, &at))
            continue;
        any |= add_moment(z, c, &at);
    }
    fs_arena_destroy(scratch);
    return any;
}

void search_add_missing(const search_level0 *z, const search_candidate *c,
                        search_layout *layout)
{
    cost_moments more = {0};
    for (int32_t k = 0; k < z->missing.n && !c->bare; k++) {
        const search_missing *one = &z->missing.at[k];
        if (one->graph == layout->graph &&
            layout->stage_of[one->at.node] == one->at.stage)
            fs_push(c->arena, &more.list, one->at);
    }
    if (!more.list.n)
        return;
    cost_program *program = fs_new(c->arena, cost_program, 1);
    *program = search_program_of(layout);
    layout->memory = cost_memory_create_with(program, &more, c->arena);
}
