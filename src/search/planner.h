/* Planners: ways to a plan of the whole problem, beside the search itself.
 * Where an engine solves one configuration's network, a planner chooses the
 * configurations too. Baselines to compare with, and the search's first plan.
 * Rows of planners.def. */
#ifndef FS_SEARCH_PLANNER_H
#define FS_SEARCH_PLANNER_H

#include "search/recipe/recipe.h"

struct search_planner;

/* As search_run: FS_NO when nothing fits or was found. The result's bound is 0:
 * a planner proves nothing of the plans that it does not make. What it does
 * hangs on the problem alone unless time runs out. */
typedef fs_status search_planner_fn(const struct search_planner *self,
                                    const search_problem *problem,
                                    fs_arena *arena, fs_err *err,
                                    search_result *out);

typedef struct search_planner {
    const char *name;
    search_planner_fn *run;
    const char *source; /* paper, section */
    const char *what;   /* one sentence */
} search_planner;

#define SEARCH_PLANNER(name, function, source, what)                           \
    search_planner_fn search_plan_##function;
#include "search/planners.def"
#undef SEARCH_PLANNER

/* NULL when there is none of that name. */
const search_planner *search_planner_find(const char *name);
const char *search_planner_names(void); /* comma-separated */

/* Runs it; where memory refused some, or all, also with casts of mixed
 * precision made again, and then with all that problem->again has copies of. */
fs_status search_by_planner(const search_planner *planner,
                            const search_problem *problem, fs_arena *arena,
                            fs_err *err, search_result *out);

/* What search_problem.engine may be: engines, then planners. */
typedef struct search_way {
    const char *name, *what;
    const char *source; /* of a planner */
} search_way;
const search_way *search_way_at(int32_t place); /* NULL behind the last */
const char *search_way_names(void);

#endif
