/* What else there is, and what keeps it from being chosen. */
#include "config.h"
#include "cli/explain.h"

#include "base/clock.h"
#include "plan/fullest.h"

#include <math.h>
#include <stdarg.h>

/* What is below is rounding. */
#define SAME 1e-6
/* As near as a search comes unless it is asked for more. */
#define TOLD 2e-3

const char *cli_against(const cli_explaining *e, double seconds)
{
    const double more = seconds / e->cost.iteration_s - 1;
    if (!isfinite(seconds))
        return "-";
    return fabs(more) < SAME ? "the same"
                             : fs_printf(e->c->arena, "%+.3g %%", 100 * more);
}

const char *cli_limit_source(const cli_explaining *e)
{
    return e->c->args.memory ? "of --memory" : "that the plan was made within";
}

int64_t cli_role_limit(const cli_explaining *e, const plan_role *role)
{
    double least = e->memory_bytes > 0 ? (double)e->memory_bytes : INFINITY;
    for (int32_t k = 0; k < role->n_ranks; k++)
        least = fmin(least, hw_group_of(e->p->cluster, role->first_rank + k)
                                ->device.memory_bytes);
    return least < 9e18 ? (int64_t)least : INT64_MAX;
}

const char *cli_over_text(const cli_explaining *e, const ir_graph *graph,
                          const plan_strategy *strategy)
{
    fs_arena *arena = e->c->arena;
    plan_lower_options options = plan_lower_defaults();
    plan *lowered;
    fs_err err = {0};
    char taken[32], had[32];
    if (plan_lower(graph, e->p->cluster, strategy, &options, arena, &err,
                   &lowered) != FS_OK)
        return fs_strdup(arena, err.text);
    for (int32_t r = 0; r < lowered->n_roles; r++) {
        const plan_role *role = &lowered->roles[r];
        const int64_t limit = cli_role_limit(e, role);
        if (role->arena_bytes <= limit)
            continue;
        const plan_fullest full = plan_fullest_of(graph, lowered, r);
        const plan_term over = plan_fullest_over(&full, limit);
        return fs_printf(arena, "%s would take %s of %s, over with %s at %s",
                         plan_role_stages_text(role, arena),
                         fs_human_bytes(taken, (double)role->arena_bytes),
                         fs_human_bytes(had, (double)limit),
                         plan_term_name(over),
                         plan_fullest_text(graph, role, &full, arena));
    }
    return NULL;
}

/* A search of its own; what is proven without limits holds with them. */
static void look(const cli_explaining *e, bool any_memory, cli_other *other)
{
    fs_err err = {0};
    other->variant.any_memory = any_memory;
    fs_progress("looking at %s", other->what);
    other->status =
        search_variant_run(&other->variant, e->c->arena, &err, &other->found);
    fs_progress("%s", "");
    other->why = fs_strdup(e->c->arena, err.text);
    other->iteration_s =
        other->status == FS_OK ? other->found.iteration_s : (double)NAN;
    if (other->status == FS_OK)
        other->bound_s = fmax(other->bound_s, other->found.lower_bound_s);
}

void cli_other_begin(const cli_explaining *e, cli_other *other)
{
    other->variant.cluster = e->p->cluster;
    other->variant.cost = e->p->cost;
    other->variant.strategy = e->p->plan->strategy;
    other->variant.memory_bytes = e->memory_bytes;
    other->bound_s = NAN;
    look(e, true, other);
    other->free_s = other->iteration_s;
    if (other->status == FS_OK)
        other->over =
            cli_over_text(e, other->found.graph, other->found.strategy);
    if (!other->over)
        return;
    other->open = true;
    other->iteration_s = NAN;
}

void cli_other_finish(const cli_explaining *e, cli_other *other)
{
    if (other->open)
        look(e, false, other);
    other->open = false;
}

static void set_seconds(json_t *object, const char *key, double seconds)
{
    json_object_set_new(object, key,
                        isfinite(seconds) ? json_real(seconds) : json_null());
}

json_t *cli_other_json(const cli_explaining *e, const cli_other *other)
{
    json_t *out = json_object();
    json_object_set_new(out, "what", fs_json_string(other->what));
    set_seconds(out, "iteration_s", other->iteration_s);
    set_seconds(out, "lower_bound_s", other->bound_s);
    set_seconds(out, "against", other->iteration_s / e->cost.iteration_s - 1);
    if (other->over) {
        set_seconds(out, "any_memory_s", other->free_s);
        json_object_set_new(out, "over", fs_json_string(other->over));
    }
    if (other->status != FS_OK)
        json_object_set_new(out, "why", fs_json_string(other->why));
    return out;
}

/* ---- what binds ---- */

void cli_bind(cli_binds *binds, const char *kind, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    json_array_append_new(binds->list, json_pack("{s:s, s:o}", "kind", kind,
                                                 "text", fs_json_string(text)));
    cli_say(binds->e->c, "%-15s %s\n", kind, text);
}

static double seconds_of_group(const cost_summary *cost, int32_t group)
{
    double sum = 0;
    for (int32_t i = 0; i < cost->n_stages; i++)
        sum += cost->group_of[i] == group ? cost->micro_s[i] : 0;
    return sum;
}

void cli_bind_pace(cli_binds *binds, int32_t stage)
{
    const cost_summary *cost = &binds->e->cost;
    const int32_t m = binds->e->p->plan->micro_batches;
    const double own = seconds_of_group(cost, cost->group_of[stage]);
    const double slowest = cost_slowest_group(cost, cost->micro_s);
    char a[32], b[32], more[32];
    if (cost->n_groups == 1 || cost->fill >= m)
        return; /* all that a stage takes counts */
    fs_human_seconds(a, own);
    if (own >= slowest * (1 - SAME))
        cli_bind(binds, "pace",
                 "the devices of stage %d are the slowest, %s per micro-batch: "
                 "what they take more counts %d times",
                 stage, a, m);
    else
        cli_bind(binds, "pace",
                 "the devices of stage %d take %s of the slowest's %s per "
                 "micro-batch: up to %s more count %.3g times, not %d",
                 stage, a, fs_human_seconds(b, slowest),
                 fs_human_seconds(more, slowest - own), cost->fill, m);
}

/* What no limit explains; of what it was told a plan's file keeps that alone.
 */
void cli_bind_told(cli_binds *binds, double anew_s)
{
    const cli_explaining *e = binds->e;
    char text[32];
    if (anew_s < e->cost.iteration_s * (1 - TOLD))
        cli_bind(binds, "told",
                 "these stages could take %s (%s): the plan was told otherwise "
                 "(a recipe, --fix, --pin%s), or its search ended early",
                 fs_human_seconds(text, anew_s), cli_against(e, anew_s),
                 e->c->args.memory ? ", another --memory" : "");
}

void cli_bind_memory(cli_binds *binds, int32_t stage)
{
    const cli_explaining *e = binds->e;
    const plan *p = e->p->plan;
    char taken[32], had[32];
    for (int32_t r = 0; r < p->n_roles; r++) {
        const plan_role *role = &p->roles[r];
        if (!plan_role_has_stage(role, stage))
            continue;
        const plan_fullest full = plan_fullest_of(e->p->model.graph, p, r);
        const int64_t limit = cli_role_limit(e, role);
        cli_bind(
            binds, "memory", "%s of %s%s%s (%.3g %%), fullest at %s",
            fs_human_bytes(taken, (double)role->arena_bytes),
            fs_human_bytes(had, (double)limit),
            limit == e->memory_bytes ? " " : "",
            limit == e->memory_bytes ? cli_limit_source(e) : "",
            100 * (double)role->arena_bytes / (double)limit,
            plan_fullest_text(e->p->model.graph, role, &full, e->c->arena));
    }
}
