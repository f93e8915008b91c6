#include "config.h"
#include "cli/cli.h"
#include "cli/guard.h"

#include "base/clock.h"
#include "search/engine/iopddl.h"
#include "search/engine/ration.h"

#include <math.h>
#include <string.h>

/* A bound holds to this fraction: sums are of doubles. */
#define ROUNDING 1e-9

/* `ctx`: what no choice is below. */
static void show(void *ctx, double cost, double bound)
{
    bound = fmax(bound, *(const double *)ctx);
    if (!isfinite(cost))
        fs_progress("no solution yet, none below %.0f", bound);
    else
        fs_progress("cost %.0f, none below %.0f, gap %.3f %%", cost, bound,
                    100 * (cost - bound) / fmax(1, fabs(cost)));
}

/* Costs are whole numbers, so the least of them is one; none is below the sum
 * of the least entries. */
static int64_t whole_bound(double bound, const search_iopddl *problem)
{
    bound = fmax(bound, search_iopddl_floor(problem));
    bound = ceil(bound - ROUNDING * fabs(bound));
    if (bound >= 0x1p63)
        return INT64_MAX;
    return bound > -0x1p63 ? (int64_t)bound : INT64_MIN;
}

static fs_status no_solution(cli *c, const search_ration *found,
                             const search_iopddl *problem)
{
    json_object_set_new(c->result, "status",
                        json_string(found->open ? "limit" : "infeasible"));
    if (!found->open)
        return fs_fail(&c->err, FS_NO,
                       "%s is infeasible: no choice of strategies is allowed "
                       "(costs from 10^18 on forbid) and stays within its "
                       "usage limit of %lld",
                       c->args.operands[0], (long long)problem->limit_bytes);
    return fs_fail(&c->err, FS_NO,
                   "no solution of %s was found within its limits of time and "
                   "work, and none is below %lld; give it more with --%s-limit",
                   c->args.operands[0],
                   (long long)whole_bound(found->bound, problem),
                   isnan(c->args.work_limit) ? "time" : "work");
}

typedef struct answer {
    int64_t cost, peak, bound;
    double gap, seconds;
} answer;

static json_t *solution_json(const search_iopddl *problem, const int32_t *value)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < problem->n_nodes; i++)
        json_array_append_new(list, json_integer(value[i]));
    return list;
}

static fs_status tell(cli *c, const search_iopddl *problem,
                      const search_ration *found, const answer *a)
{
    json_t *r = c->result;
    const bool limited = problem->limit_bytes < INT64_MAX;
    char text[32];
    fs_json_set_text(r, "name", problem->name);
    fs_json_set_int(r, "cost", a->cost);
    fs_json_set_int(r, "lower_bound", a->bound);
    fs_json_set_real(r, "gap", a->gap);
    fs_json_set_int(r, "usage_peak", a->peak);
    if (limited)
        fs_json_set_int(r, "usage_limit", problem->limit_bytes);
    else
        json_object_set_new(r, "usage_limit", json_null());
    fs_json_set_int(r, "nodes", problem->n_nodes);
    fs_json_set_int(r, "edges", problem->n_edges);
    fs_json_set_int(r, "nodes_left", found->kernel_nodes);
    fs_json_set_int(r, "parts", found->parts);
    fs_json_set_bool(r, "open", found->open);
    if (cli_guard_asked(c))
        fs_json_set_text(
            r, "stopped",
            fs_printf(c->arena, "SIG%s", sigabbrev_np(cli_guard_asked(c))));
    json_object_set_new(r, "solution", solution_json(problem, found->value));
    cli_figure(c, "cost", (double)a->cost, "");
    cli_figure(c, "lower_bound", (double)a->bound, "");
    cli_figure(c, "solve_s", a->seconds, "s");
    cli_say(c,
            "problem         %d nodes, %d edges; %d nodes left after exact "
            "reductions\n",
            problem->n_nodes, problem->n_edges, found->kernel_nodes);
    cli_say(c, "cost            %lld\n", (long long)a->cost);
    cli_say(c, "lower bound     %lld, proven: gap %.4g %%\n",
            (long long)a->bound, 100 * a->gap);
    if (limited)
        cli_say(c, "usage           %lld at its peak, of %lld\n",
                (long long)a->peak, (long long)problem->limit_bytes);
    else
        cli_say(c, "usage           %lld at its peak, no limit\n",
                (long long)a->peak);
    if (cli_guard_asked(c))
        cli_say(c, "stopped         by SIG%s: the best so far\n",
                sigabbrev_np(cli_guard_asked(c)));
    cli_say(c, "solved in       %s with reading, %d part%s\n",
            fs_human_seconds(text, a->seconds), found->parts,
            found->parts == 1 ? "" : "s");
    if (c->args.output) {
        FS_TRY(fs_json_save(r, c->args.output, &c->err));
        cli_say(c, "written to      %s\n", c->args.output);
    }
    /* Not of the file, which is the same each time. */
    fs_json_set_real(r, "solve_s", a->seconds);
    return FS_OK;
}

static fs_status check_args(cli *c)
{
    const cli_args *a = &c->args;
    if (a->n_operands != 1)
        return fs_fail(&c->err, FS_INVALID,
                       "solve takes one PROBLEM.json (or .json.gz)");
    if (!isnan(a->time_limit) && !(a->time_limit > 0))
        return fs_fail(&c->err, FS_INVALID,
                       "--time-limit wants seconds above 0");
    if (!isnan(a->work_limit) && !(a->work_limit > 0))
        return fs_fail(
            &c->err, FS_INVALID,
            "--work-limit %g: more than 0 seconds of work are wanted",
            a->work_limit);
    if (!isnan(a->gap) && !(a->gap >= 0 && a->gap < 1))
        return fs_fail(&c->err, FS_INVALID,
                       "--gap wants a fraction from 0 to below 1");
    return a->output ? cli_check_writable(c, a->output) : FS_OK;
}

/* Time is not limited where work is, unless it is said. */
static search_ration_effort effort_of(const cli *c, int64_t began,
                                      int64_t *steps, double *least)
{
    const cli_args *a = &c->args;
    const double usual = isnan(a->work_limit) ? 60 : 1e8;
    const double limit = isnan(a->time_limit) ? usual : a->time_limit;
    const fs_end end =
        fs_end_after(began, fmin(limit, 1e8), cli_guard_stop_flag(c));
    const double most =
        isnan(a->work_limit) ? INFINITY : FS_STEPS_PER_S * a->work_limit;
    return (search_ration_effort){
        .deadline = fs_deadline_after(most, steps, end),
        .gap = isnan(c->args.gap) ? 0.001 : c->args.gap,
        .progress = show,
        .ctx = least};
}

fs_status cli_cmd_solve(cli *c)
{
    const int64_t began = fs_now_ns();
    search_iopddl problem;
    search_ration found;
    FS_TRY(check_args(c));
    fs_keep_freed();
    FS_TRY(cli_begin(c, NULL, NULL));
    FS_TRY(
        search_iopddl_read(c->args.operands[0], c->arena, &c->err, &problem));
    int64_t steps = 0;
    cli_guard_ask_first(c, NULL); /* an interrupt ends it with what it has */
    double least = search_iopddl_floor(&problem);
    const search_ration_effort effort = effort_of(c, began, &steps, &least);
    search_cfn *cfn = search_iopddl_cfn(&problem, c->arena);
    search_cfn_ration(cfn, problem.limit_bytes, &effort, c->arena, &found);
    fs_progress("%s", "");
    if (!isfinite(found.cost))
        return no_solution(c, &found, &problem);
    answer a = {.seconds = 1e-9 * (double)(fs_now_ns() - began)};
    if (search_iopddl_cost(&problem, found.value, &a.cost, &a.peak) != FS_OK)
        return fs_fail(&c->err, FS_INVALID,
                       "%s: the costs of its best choice add up to more than "
                       "the 9.2e18 that a whole number holds: scale them down",
                       c->args.operands[0]);
    a.bound = whole_bound(found.bound, &problem);
    a.bound = a.bound < a.cost ? a.bound : a.cost;
    a.gap = ((double)a.cost - (double)a.bound) / fmax(1, fabs((double)a.cost));
    return tell(c, &problem, &found, &a);
}
