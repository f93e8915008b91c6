#include "config.h"
#include "search/front.h"

#include "base/clock.h"
#include "plan/lower.h"
#include "search/fit.h"
#include "search/layout.h"

#include <math.h>
#include <string.h>

/* Of the last plan's memory. */
#define NEXT_LIMIT 0.8
/* Nothing is looked for between what fits and what does not once they are as
 * near as this share of what fits. */
#define NEAR_FLOOR 0.02

/* A search may take so much longer than its work should. */
#define SLOW 2

/* `enough`: of each stage, as in plan_lower_options. */
static fs_status largest_arena(const search_problem *problem,
                               const search_result *found,
                               const int64_t *enough, fs_err *err, int64_t *out)
{
    plan_lower_options options = plan_lower_defaults();
    fs_arena *scratch = fs_arena_create();
    plan *lowered;
    *out = 0;
    options.enough_bytes = enough;
    const fs_status status =
        plan_lower(found->graph, problem->cluster, found->strategy, &options,
                   scratch, err, &lowered);
    for (int32_t r = 0; status == FS_OK && r < lowered->n_roles; r++)
        if (lowered->roles[r].arena_bytes > *out)
            *out = lowered->roles[r].arena_bytes;
    fs_arena_destroy(scratch);
    return status;
}

/* Offsets stop at what is little above the bound; the limit may be nearer. */
static fs_status peak_of(const search_problem *problem, int64_t limit,
                         const search_result *found, fs_err *err, int64_t *out)
{
    const int32_t n = found->strategy->n_stages;
    FS_TRY(largest_arena(problem, found, NULL, err, out));
    if (*out <= limit)
        return FS_OK;
    fs_arena *scratch = fs_arena_create();
    int64_t *enough = fs_new(scratch, int64_t, n);
    for (int32_t i = 0; i < n; i++)
        enough[i] = limit;
    const fs_status status = largest_arena(problem, found, enough, err, out);
    fs_arena_destroy(scratch);
    return status;
}

/* What no plan within more memory undercuts none within less does: then all
 * that is said of the bound is what was said of that one. Is it? */
static bool inherit_bound(const search_front *front, search_result *found)
{
    const search_result *more =
        front->n > 0 ? &front->points[front->n - 1].found : found;
    const bool inherits = more->lower_bound_s > found->lower_bound_s;
    if (inherits) {
        found->lower_bound_s = more->lower_bound_s;
        found->space = more->space;
        found->question_digest = more->question_digest;
        found->space_digest = more->space_digest;
        found->cost_digest = more->cost_digest;
        found->n_recuts = more->n_recuts;
        found->n_bounded = more->n_bounded;
        found->n_expanded = more->n_expanded;
        found->n_closed = more->n_closed;
        found->any_cut_s = more->any_cut_s;
    }
    found->lower_bound_s = fmin(found->lower_bound_s, found->iteration_s);
    found->any_cut_s = fmin(found->any_cut_s, found->lower_bound_s);
    found->gap = 1 - found->lower_bound_s / found->iteration_s;
    return inherits;
}

/* Those before it that are no faster are not of the front: they take more. */
static fs_status add_point(const search_problem *problem, int64_t limit,
                           const search_result *found, fs_err *err,
                           search_front *front)
{
    search_front_point point = {.limit_bytes = limit, .found = *found};
    FS_TRY(peak_of(problem, limit, found, err, &point.peak_bytes));
    point.inherited = inherit_bound(front, &point.found);
    while (front->n > 0 &&
           front->points[front->n - 1].found.iteration_s >= found->iteration_s)
        front->n--;
    front->points[front->n++] = point;
    return FS_OK;
}

static int64_t whole_limit(const search_problem *problem)
{
    const plan_stage all = {.mesh = {1, {problem->cluster->n_devices}}};
    return search_device_bytes(problem, &all);
}

/* One rung down. FS_NO: nothing was found. */
static fs_status descend(const search_problem *one, fs_arena *arena,
                         fs_err *err, search_front *front)
{
    search_result found = {0};
    fs_err none = {0};
    const fs_status status = search_run(one, arena, &none, &found);
    if (status == FS_OK)
        return add_point(one, one->memory_bytes, &found, err, front);
    if (status != FS_NO)
        return fs_fail(err, status, "%s", none.text);
    front->end_bytes = one->memory_bytes;
    front->none = strcmp(found.status, "infeasible") == 0;
    front->need_bytes = found.need_bytes;
    return FS_NO;
}

/* Where a whole step down finds nothing, half of what is left; 0: no more. */
static int64_t next_limit(const search_front *front)
{
    const int64_t peak = front->points[front->n - 1].peak_bytes;
    const int64_t step = (int64_t)(NEXT_LIMIT * (double)peak);
    const int64_t floor = front->end_bytes; /* 0: not known */
    if (step > floor)
        return step;
    if ((double)(peak - floor) < NEAR_FLOOR * (double)peak)
        return 0;
    return floor + (peak - floor) / 2;
}

static bool is_over(const search_problem *problem, const fs_end *end)
{
    return fs_end_reached(end) || (problem->stop && atomic_load(problem->stop));
}

fs_status search_front_run(const search_problem *problem,
                           const search_result *first, int32_t most,
                           fs_arena *arena, fs_err *err, search_front *out)
{
    search_problem one = *problem;
    const double limit_s =
        problem->time_limit_s > 0 ? problem->time_limit_s : 1e8;
    const fs_end end = fs_end_after(fs_now_ns(), SLOW * limit_s, problem->stop);
    *out = (search_front){.points = fs_new(arena, search_front_point, most)};
    FS_TRY(add_point(problem, whole_limit(problem), first, err, out));
    one.ranking = NULL;
    one.in_full = false;
    one.end = &end;
    one.most_steps = search_most_steps(problem) / most;
    one.time_limit_s = SLOW * limit_s / most;
    for (int32_t k = 1; k < most && !is_over(problem, &end); k++) {
        one.memory_bytes = next_limit(out);
        if (one.memory_bytes == 0)
            break;
        const fs_status status = descend(&one, arena, err, out);
        if (status != FS_OK && status != FS_NO)
            return status;
    }
    return FS_OK;
}
