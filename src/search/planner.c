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
static bool take_again(const search_problem *problem, search_graph *graphs)
{
    for (int32_t k = 0; k < problem->n_graphs; k++) {
        graphs[k] = problem->graphs[k];
        graphs[k].graph =
            problem->again(problem->again_ctx, &problem->graphs[k]);
        if (!graphs[k].graph)
            return false;
    }
    return true;
}

/* What there is for two runs: half of it for the first where a limit of memory
 * was said, then the rest. */
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

/* Plain, and where memory refused some or all, with copies of all. */
static fs_status run_both(const search_planner *planner,
                          const search_problem *problem, fs_arena *arena,
                          fs_err *err, search_result *out)
{
    search_problem one = *problem;
    search_result more = {0};
    fs_err ignored = {0};
    const budget all = budget_of(problem);
    const fs_end half = fs_end_share(&all.end, 0.5);
    one.again = NULL;
    if (problem->again && problem->memory_bytes > 0) {
        one.end = &half;
        one.most_steps = all.most_steps / 2;
        one.soon_steps = problem->soon_steps / 2;
    }
    const fs_status status = planner->run(planner, &one, arena, err, out);
    search_graph *graphs = fs_new(arena, search_graph, problem->n_graphs);
    if ((status != FS_OK && status != FS_NO) || !problem->again ||
        !refused_by_memory(out) || !take_again(problem, graphs))
        return status;
    one.graphs = graphs;
    one.end = &all.end;
    if (all.most_steps > 0)
        one.most_steps = fmax(1, all.most_steps - (double)out->steps);
    if (status == FS_OK)
        one.below_s = out->iteration_s;
    const fs_status second =
        planner->run(planner, &one, arena, &ignored, &more);
    more.steps += out->steps;
    more.late |= out->late;
    more.search_s += out->search_s;
    if (second != FS_OK) {
        out->steps = more.steps;
        out->late = more.late;
        out->search_s = more.search_s;
        return status;
    }
    if (status == FS_OK)
        more.first_s = out->first_s;
    else
        more.first_s += out->search_s;
    more.of = problem->graphs + (more.of - graphs);
    more.again.chosen = true;
    *err = (fs_err){0};
    *out = more;
    return FS_OK;
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
    const fs_status status = run_both(planner, &one, arena, err, out);
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
