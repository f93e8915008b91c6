#include "config.h"
#include "search/planner.h"

#include "base/clock.h"
#include "search/engine/engine.h"
#include "search/level0.h"
#include "search/plans.h"

#include <math.h>
#include <string.h>

static const search_planner planners[] = {
#define SEARCH_PLANNER(name, function, source, what)                           \
    {name, search_plan_##function, source, what},
#include "search/planners.def"
#undef SEARCH_PLANNER
};

enum { N_PLANNERS = sizeof planners / sizeof planners[0] };

const search_planner *search_planner_find(const char *name)
{
    for (int32_t k = 0; k < N_PLANNERS; k++)
        if (strcmp(planners[k].name, name) == 0)
            return &planners[k];
    return NULL;
}

static bool refused_by_memory(const search_result *found)
{
    bool any = !found->strategy || found->memory_decides;
    for (int32_t k = 0; k < found->n_configs; k++)
        any |= strcmp(found->configs[k].status, "memory") == 0 ||
               strcmp(found->configs[k].status, "misfit") == 0;
    return any;
}

/* False: there are none. */
static bool take_copies(const search_problem *problem, search_again_fn *copies,
                        search_graph *graphs)
{
    for (int32_t k = 0; k < problem->n_graphs; k++) {
        graphs[k] = problem->graphs[k];
        graphs[k].graph = copies(problem->again_ctx, &problem->graphs[k]);
        if (!graphs[k].graph)
            return false;
    }
    return true;
}

/* What there is for all runs: half of what is left for each but the last where
 * a limit of memory was said. */
typedef struct budget {
    fs_end end;
    double most_steps; /* 0: any */
} budget;

static budget budget_of(const search_problem *problem)
{
    const double s = problem->time_limit_s > 0 ? problem->time_limit_s : 1e8;
    budget all = {fs_end_after(fs_now_ns(), s, problem->stop),
                  problem->most_steps};
    if (problem->end && problem->end->wall_ns < all.end.wall_ns)
        all.end = *problem->end;
    return all;
}

/* A planner's runs. */
typedef struct running {
    const search_planner *planner;
    const search_problem *problem;
    fs_arena *arena;
    budget all;
    fs_status status; /* of all so far, */
    fs_err *err;
    search_result *out; /* and the best plan of them */
} running;

/* What runs before did is this one's, too. */
static void add_spent(search_result *to, const search_result *before)
{
    to->steps += before->steps;
    to->late |= before->late;
    to->search_s += before->search_s;
}

/* A run for less than the best so far. */
static void run_on(running *r, const search_graph *graphs, bool last,
                   search_again as)
{
    const search_problem *problem = r->problem;
    const bool first = r->status == FS_FAULT;
    search_problem one = *problem;
    search_result more = {0};
    fs_err err = {0};
    const fs_end half = fs_end_share(&r->all.end, 0.5);
    one.again = one.casts = NULL;
    one.graphs = graphs;
    one.end = last ? &r->all.end : &half;
    if (r->all.most_steps > 0) {
        const double left = r->all.most_steps - (double)r->out->steps;
        one.most_steps = fmax(1, last ? left : left / 2);
    }
    if (problem->again && problem->memory_bytes > 0)
        one.soon_steps = problem->soon_steps / 2;
    if (r->status == FS_OK)
        one.below_s = r->out->iteration_s;
    const fs_status status =
        r->planner->run(r->planner, &one, r->arena, &err, &more);
    if (!first && status != FS_OK) {
        add_spent(r->out, &more);
        return;
    }
    if (r->status == FS_OK)
        more.first_s = r->out->first_s;
    else
        more.first_s += r->out->search_s;
    more.memory_decides |= r->out->memory_decides;
    add_spent(&more, r->out);
    if (status == FS_OK) {
        more.of = problem->graphs + (more.of - graphs);
        more.again = as;
    }
    *r->err = err;
    *r->out = more;
    r->status = status;
}

static bool may_go_on(const running *r)
{
    return r->status == FS_OK || r->status == FS_NO;
}

/* With casts made again, if there are any: where memory refused none, plain;
 * where it refused some or all, with copies of all. */
static fs_status run_all(const search_planner *planner,
                         const search_problem *problem, fs_arena *arena,
                         fs_err *err, search_result *out)
{
    running r = {planner,  problem, arena, budget_of(problem),
                 FS_FAULT, err,     out};
    const bool limited = problem->again && problem->memory_bytes > 0;
    search_graph *graphs = fs_new(arena, search_graph, problem->n_graphs);
    const bool casts =
        problem->casts && take_copies(problem, problem->casts, graphs);
    *out = (search_result){0};
    if (casts)
        run_on(&r, graphs, !limited,
               (search_again){.chosen = true, .casts = true});
    if (!casts || (may_go_on(&r) && !refused_by_memory(out)))
        run_on(&r, problem->graphs, casts || !limited, (search_again){0});
    graphs = fs_new(arena, search_graph, problem->n_graphs);
    if (may_go_on(&r) && problem->again && refused_by_memory(out) &&
        take_copies(problem, problem->again, graphs))
        run_on(&r, graphs, true, (search_again){.chosen = true});
    return r.status;
}

/* Whatever a planner searches on its way ranks nothing; it has one plan. */
fs_status search_by_planner(const search_planner *planner,
                            const search_problem *problem, fs_arena *arena,
                            fs_err *err, search_result *out)
{
    search_problem one = *problem;
    one.ranking = NULL;
    one.in_full = false;
    search_book book = {.arena = fs_arena_create()};
    if (!one.book)
        one.book = &book;
    const fs_status status = run_all(planner, &one, arena, err, out);
    fs_arena_destroy(book.arena);
    FS_TRY(status);
    if (!problem->ranking)
        return FS_OK;
    search_plan only = {.of = out->of,
                        .graph = out->graph,
                        .strategy = out->strategy,
                        .again = out->again,
                        .iteration_s = out->iteration_s};
    only.score_s = search_score_plan(problem->ranking, 0, &only);
    out->plans = fs_memdup(arena, &only, sizeof only);
    out->n_plans = 1;
    search_choose_plan(problem->ranking, out);
    return FS_OK;
}

const char *search_planner_names(void)
{
#define SEARCH_PLANNER(name, function, source, what) ", " name
    static const char names[] =
#include "search/planners.def"
        ;
#undef SEARCH_PLANNER
    return names + 2;
}

const char *search_way_names(void)
{
#define SEARCH_ENGINE(name, what) ", " #name
#define SEARCH_PLANNER(name, function, source, what) ", " name
    static const char names[] =
#include "search/engine/engines.def"
#include "search/planners.def"
        ;
#undef SEARCH_PLANNER
#undef SEARCH_ENGINE
    return names + 2;
}

const search_way *search_way_at(int32_t place)
{
    static const search_way ways[] = {
#define SEARCH_ENGINE(name, what) {#name, what, NULL},
#define SEARCH_PLANNER(name, function, source, what) {name, what, source},
#include "search/engine/engines.def"
#include "search/planners.def"
#undef SEARCH_PLANNER
#undef SEARCH_ENGINE
    };
    const int32_t n = sizeof ways / sizeof ways[0];
    return place < n ? &ways[place] : NULL;
}
