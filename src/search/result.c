/* What level 0 tells: of the plan that it found, or why there is none. */
#include "config.h"
#include "search/anchor.h"
#include "search/attempt.h"
#include "search/cuts/recut.h"
#include "search/digest.h"
#include "search/effort.h"
#include "search/fit.h"
#include "search/kept.h"
#include "search/lay_out.h"
#include "search/narrow.h"
#include "search/offers.h"
#include "search/plans.h"

#include "base/clock.h"
#include "ir/recompute.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* "zb-h1", "interleaved of 2 stages per group of devices" */
static void add_schedule(const search_problem *p, int32_t k, fs_text *text)
{
    const int32_t depth = search_depth_of(p, k);
    fs_text_add(text, "%s%s", k ? ", " : "", p->schedules[k]);
    if (depth > 1)
        fs_text_add(text, " of %d stages per group of devices", depth);
}

/* Who reads what another stage computes again reads what that computed first,
 * and copies that nobody reads are none: a cut that such a copy crosses has
 * less to compute, and bounds of every cut do not hold for it. */
static bool has_copies(const search_problem *p)
{
    for (int32_t k = 0; k < p->n_graphs; k++)
        for (int32_t v = 0; v < p->graphs[k].graph->nodes.n; v++)
            if (ir_computes_again(p->graphs[k].graph, v))
                return true;
    return false;
}

/* However stages of equal meshes are cut. */
static double any_cut_bound(const search_level0 *z)
{
    const search_problem *p = z->problem;
    double bound = z->kept.from ? z->kept.cost_s : INFINITY;
    bool any = false;
    if (p->stage_of || p->n_layers || p->stage_mesh)
        return 0;
    for (int32_t k = 0; k < z->all.n; k++) {
        const search_candidate *c = z->all.at[k];
        if (c->part || c->covered)
            continue;
        any = true;
        bound = fmin(bound, c->n_stages == 1 ? search_bound(c) : c->any_cut_s);
    }
    return any && isfinite(bound) ? bound : 0;
}

/* Of which cuts the proof speaks. */
static const char *cuts_of(const search_level0 *z, const search_result *out)
{
    const search_problem *p = z->problem;
    char text[32];
    fs_text cuts = {.arena = z->arena};
    if (p->n_layers || p->stage_of)
        return "the cut asked for";
    fs_text_add(&cuts, "one balanced cut per number of stages");
    if (z->n_recuts)
        fs_text_add(&cuts, " and %d other%s, by what plans took", z->n_recuts,
                    z->n_recuts == 1 ? "" : "s");
    if (out->any_cut_s <= 0)
        return cuts.at;
    const char *where =
        has_copies(p) ? " where nothing that is computed again crosses" : "";
    if (out->lower_bound_s > 0 &&
        search_proven(out->any_cut_s, out->lower_bound_s))
        fs_text_add(&cuts, " (the bound holds however equal stages are cut%s)",
                    where);
    else
        fs_text_add(&cuts,
                    " (nothing below %s, gap %.3g %%, however equal stages are "
                    "cut%s)",
                    fs_human_seconds(text, out->any_cut_s),
                    100 * (1 - out->any_cut_s / out->iteration_s), where);
    return cuts.at;
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

/* "1, 2, 4", and where their states differ "; optimizer states in fp32, bf16":
 * graphs are listed count by count for each kind of these. */
static const char *graphs_of(const search_level0 *z)
{
    const search_problem *p = z->asked;
    fs_text text = {.arena = z->arena};
    for (int32_t g = 0; g < p->n_graphs; g++)
        if (same_text(p->graphs[g].states, p->graphs[0].states))
            fs_text_add(&text, "%s%d", g ? ", " : "",
                        p->graphs[g].micro_batches);
    for (int32_t g = 0; g < p->n_graphs; g++)
        if (p->graphs[g].states &&
            (g == 0 ||
             !same_text(p->graphs[g].states, p->graphs[g - 1].states)))
            fs_text_add(&text, "%s%s", g ? ", " : ", optimizer states in ",
                        p->graphs[g].states);
    if (z->problem->n_graphs < p->n_graphs)
        fs_text_add(&text, " (the last alone looked at: with wider ones no "
                           "plan is faster or smaller)");
    return text.n ? text.at : "none";
}

static const char *ordered(const search_level0 *z)
{
    const search_orders *orders = &z->orders;
    if (orders->list.n == 0)
        return "";
    if (orders->n_out < 1)
        return ", their groups as written in every order";
    return fs_printf(z->arena, ", their groups as written in %d of %.0f orders",
                     1 + orders->list.n, 1 + orders->list.n + orders->n_out);
}

static const char *space_of(const search_level0 *z, const search_result *out)
{
    const search_problem *p = z->problem;
    fs_text schedules = {.arena = z->arena};
    for (int32_t k = 0; k < p->n_schedules; k++)
        add_schedule(p, k, &schedules);
    const char *misfits = "";
    if (z->n_misfits)
        misfits = fs_printf(z->arena,
                            "; %d plans were found that do not fit: the bound "
                            "counts less memory than a plan takes, and more "
                            "time may not raise it",
                            z->n_misfits);
    return fs_printf(
        z->arena,
        "%d configuration%s: %s %d device%s%s, each stage a mesh of "
        "up to %d axes, micro-batch counts %s, schedule%s %s, %s; within each "
        "every combination of legal "
        "signatures%s, boxing by cheapest paths; "
        "among them all whose lowered plan fits memory%s",
        z->all.n, z->all.n == 1 ? "" : "s",
        p->stage_mesh ? "the stages asked for on" : "stages dividing",
        p->cluster->n_devices, p->cluster->n_devices == 1 ? "" : "s",
        ordered(z), p->max_mesh_axes, graphs_of(z), schedules.n ? "s" : "",
        schedules.n ? schedules.at : p->schedule, cuts_of(z, out),
        p->filter.allow ? " that the filter allows" : "", misfits);
}

/* Both sum up the same numbers, rounded once; stages of a group, and groups,
 * are added in another order. */
#define CLAIM_TOLERANCE (16 * DBL_EPSILON)

/* Engines are not trusted: the claim is computed afresh from the strategy, and
 * what is told is that figure. */
static void verify(search_level0 *z, search_result *out)
{
    search_candidate *c = z->kept.from;
    cost_summary summary;
    fs_err err = {0};
    fs_arena *scratch = fs_arena_create();
    FS_ASSERT(cost_strategy(z->problem->cost, out->graph, out->strategy,
                            scratch, &err, &summary) == FS_OK);
    FS_ASSERT(fabs(summary.iteration_s - z->kept.cost_s) <=
              CLAIM_TOLERANCE * summary.iteration_s);
    for (int32_t i = 0; i < c->n_stages; i++) {
        FS_ASSERT(summary.peak_bytes[i] <=
                  search_device_bytes(z->problem, &out->strategy->stages[i]));
        if (summary.peak_bytes[i] > c->record.peak_bytes)
            c->record.peak_bytes = summary.peak_bytes[i];
    }
    out->iteration_s = z->kept.cost_s = summary.iteration_s;
    c->record.iteration_s = summary.iteration_s;
    fs_arena_destroy(scratch);
}

/* What a compact graph's plan holds is told by the one in full. */
static void verify_seconds(search_level0 *z, search_result *out)
{
    const double seconds =
        cost_strategy_seconds(z->problem->cost, out->graph, out->strategy);
    FS_ASSERT(search_is_outgrown(z->problem) ||
              fabs(seconds - z->kept.cost_s) <= CLAIM_TOLERANCE * seconds);
    out->iteration_s = z->kept.cost_s = seconds;
    z->kept.from->record.iteration_s = seconds;
}

/* How far the proof came with each, once `bound` and the best plan stand. */
static void count_configs(const search_level0 *z, search_result *out)
{
    const double best = z->kept.from ? z->kept.cost_s : INFINITY;
    for (int32_t k = 0; k < z->all.n; k++) {
        const search_candidate *c = z->all.at[k];
        const double bound = search_bound(c);
        out->n_bounded += bound > 0;
        out->n_expanded += c->solved;
        out->n_closed +=
            isinf(bound) ||
            search_proven(bound, search_near(best, z->problem->gap));
    }
}

static void fill_configs(search_level0 *z, search_result *out)
{
    double bound = z->kept.from ? z->kept.cost_s : INFINITY;
    out->n_configs = z->all.n;
    out->configs = fs_new(z->arena, search_config, z->all.n);
    for (int32_t k = 0; k < z->all.n; k++) {
        const search_candidate *c = z->all.at[k];
        search_config *record = &out->configs[k];
        *record = c->record;
        record->schedule =
            c->schedule ? fs_strdup(z->arena, c->schedule) : "any";
        record->lower_bound_s = search_bound(c);
        record->need_bytes = c->need_bytes;
        if (search_narrowed(c))
            record->status =
                isfinite(record->iteration_s) ? "bounded" : "misfit";
        bound = fmin(bound, record->lower_bound_s);
    }
    out->lower_bound_s = fmin(bound, search_walked_bound(z));
    out->anchored = z->n_anchored;
    out->lean_s = z->lean_s;
    out->first_s = z->first_s;
    out->any_cut_s = any_cut_bound(z);
    out->n_recuts = z->n_recuts;
    out->space = space_of(z, out);
    if (z->problem->in_full) {
        out->question_digest = search_question_digest(z->asked);
        out->space_digest =
            search_space_digest(out->question_digest, search_cuts_digest(z));
        out->cost_digest = search_cost_digest(z->asked);
    }
    count_configs(z, out);
    out->search_s = z->proof_s;
}

/* The ranking's choice among several plans. */
static void choose(search_level0 *z, search_result *out)
{
    search_choose_plan(z->problem->ranking, out);
    const search_plan *chosen = &out->plans[out->chosen];
    out->of = chosen->of;
    out->graph = chosen->graph;
    out->again = chosen->again;
    out->strategy = chosen->strategy;
    out->iteration_s = chosen->iteration_s;
}

/* Are there no cuts besides those looked at, or does the bound hold for all of
 * equal stages? Of stages of several meshes or kinds nothing is known. */
static bool is_of_every_cut(const search_level0 *z, const search_result *out)
{
    const search_problem *p = z->problem;
    bool cut = false;
    if (!p->recut || p->stage_of || p->n_layers)
        return true;
    for (int32_t k = 0; k < z->all.n; k++)
        cut |= z->all.at[k]->n_stages > 1;
    return !cut || search_proven(out->any_cut_s, out->lower_bound_s);
}

bool search_fill_best(search_level0 *z, search_result *out)
{
    search_list_plans(z, out);
    if (!search_prove_fit(z))
        return false;
    out->plans_s = search_seconds_since(z->start_ns) - z->proof_s;
    out->of = z->kept.from->graph;
    out->graph = out->n_plans && out->plans[0].strategy == z->kept.strategy
                     ? out->plans[0].graph
                     : search_lasting(z, z->kept.graph);
    out->strategy = z->kept.strategy;
    out->guessed = z->kept.guessed;
    out->again = search_again_of(z, &z->kept);
    search_plan_told(z, z->kept.strategy);
    if (z->problem->outgrown)
        verify_seconds(z, out);
    else if (z->problem->claims)
        out->iteration_s = z->kept.from->record.iteration_s = z->kept.cost_s;
    else
        verify(z, out);
    out->net_nodes = z->kept.net_nodes;
    out->net_edges = z->kept.net_edges;
    out->kernel_nodes = z->kept.kernel_nodes;
    fill_configs(z, out);
    if (out->n_plans)
        choose(z, out);
    out->gap =
        fmax(0, (out->iteration_s - out->lower_bound_s) / out->iteration_s);
    out->every_cut = is_of_every_cut(z, out);
    out->status =
        out->every_cut && search_proven(out->lower_bound_s, out->iteration_s)
            ? "optimal"
            : "feasible";
    return true;
}

static int32_t count_open(const search_level0 *z)
{
    int32_t open = 0;
    for (int32_t k = 0; k < z->all.n; k++)
        open += isfinite(search_bound(z->all.at[k]));
    return open;
}

static void tell_misfit(search_level0 *z, search_result *out)
{
    if (!z->misfit)
        return;
    out->misfit_graph = search_lasting(z, z->misfit_graph);
    out->misfit = z->misfit;
    search_plan_told(z, z->misfit);
    out->fullness = (double)z->misfit_bytes / (double)z->misfit_limit;
    out->misfit_limit = fs_new(z->arena, int64_t, z->misfit->n_stages);
    for (int32_t i = 0; i < z->misfit->n_stages; i++)
        out->misfit_limit[i] =
            search_device_bytes(z->problem, &z->misfit->stages[i]);
}

/* Nothing was found, but some configurations are open: what is known all the
 * same, and whether time is what is missing. */
static fs_status give_up(search_level0 *z, int32_t open, fs_err *err,
                         search_result *out)
{
    char text[3][32];
    const bool late = z->late || fs_end_reached(&z->end);
    const bool done = search_steps(z) >= z->most_steps;
    const char *misfits = "", *how = "the search has no more to try";
    if (z->problem->in_full) /* a size that is known to do */
        search_find_leanest(z);
    if (done)
        how =
            fs_printf(z->arena, "the work of %.3g s that was allowed was done",
                      (double)z->most_steps / FS_STEPS_PER_S);
    if (late)
        how = fs_printf(z->arena, "time ran out after %.2g s",
                        search_seconds_since(z->start_ns));
    if (z->n_misfits)
        misfits =
            fs_printf(z->arena, "; %d plan%s looked at take%s %s or more of %s",
                      z->n_misfits, z->n_misfits == 1 ? "" : "s",
                      z->n_misfits == 1 ? "s" : "",
                      fs_human_bytes(text[0], (double)z->misfit_bytes),
                      fs_human_bytes(text[1], (double)z->misfit_limit));
    out->status = "limit";
    tell_misfit(z, out);
    return fs_fail(
        err, FS_NO,
        "%s%s before a plan that fits was found, which is no "
        "proof that there is none: %d of %d configurations are "
        "open, none below %s%s; %s",
        late && !z->memory_decides && !z->n_misfits ? "" : "memory: ", how,
        open, z->all.n, fs_human_seconds(text[2], out->lower_bound_s), misfits,
        late   ? "allow more time"
        : done ? "allow more work"
               : "more memory, more devices or a smaller batch would "
                 "help, more time would not");
}

/* The reason why every configuration is out. */
static fs_status refuse(search_level0 *z, fs_err *err, search_result *out)
{
    int64_t need = INT64_MAX;
    char wanted[32], had[32];
    for (int32_t k = 0; k < z->all.n; k++) {
        int64_t bytes = z->all.at[k]->need_bytes;
        if (bytes > 0 && bytes < need)
            need = bytes;
    }
    if (z->all.n == 0)
        return fs_fail(err, FS_NO,
                       "no configuration has the asked stages and mesh on %d "
                       "devices",
                       z->problem->cluster->n_devices);
    if (need == INT64_MAX)
        return fs_fail(err, FS_NO, "%s", z->all.at[0]->why);
    out->need_bytes = need;
    if (z->problem->in_full)
        search_find_leanest(z);
    tell_misfit(z, out);
    out->search_s = search_seconds_since(z->start_ns);
    plan_stage all = {.mesh = {1, {z->problem->cluster->n_devices}}};
    const int64_t limit = search_device_bytes(z->problem, &all);
    const char *which = "";
    for (int32_t k = 0; k < z->all.n; k++)
        if (z->all.at[k]->n_stages > 1 && search_has_every_cut(z->problem))
            which = " (stages cut by time; other cuts may need less)";
    if (!z->misfit)
        out->fullness = (double)need / (double)limit;
    return fs_fail(
        err, FS_NO,
        "memory: every plan needs at least %s per device%s, a device has %s; "
        "more devices or a smaller batch would help",
        fs_human_bytes(wanted, (double)need), which,
        fs_human_bytes(had, (double)limit));
}

fs_status search_fill_none(search_level0 *z, fs_err *err, search_result *out)
{
    int32_t open = count_open(z);
    fill_configs(z, out);
    out->iteration_s = INFINITY;
    out->gap = INFINITY;
    out->status = "infeasible";
    return open ? give_up(z, open, err, out) : refuse(z, err, out);
}

/* ---- so far ---- */

/* What is proven of the whole space so far; 0: nothing yet. */
static double bound_so_far(const search_level0 *z)
{
    double bound = z->best_s;
    for (int32_t k = 0; k < z->all.n; k++)
        bound = fmin(bound, search_bound(z->all.at[k]));
    return isfinite(bound) ? fmax(bound, 0) : 0;
}

/* "12.3 s: best 1.2 s, bound 1.1 s, gap 8.3 %; 2 stages of 4x2, .." */
void search_say(const search_level0 *z, const search_candidate *c,
                const char *what)
{
    char spent[32], best[32], bound[32], mesh[64] = "", line[256];
    const double bound_s = bound_so_far(z);
    const bool any = isfinite(z->best_s), proof = any && bound_s > 0;
    size_t n = 0;
    if (!z->problem->progress)
        return;
    for (int32_t a = 0; a < c->mesh.n && n < sizeof mesh; a++)
        n += (size_t)snprintf(mesh + n, sizeof mesh - n, "%s%d", a ? "x" : "",
                              c->mesh.dim[a]);
    fs_human_seconds(spent, search_seconds_since(z->start_ns));
    fs_human_seconds(best, z->best_s);
    fs_human_seconds(bound, bound_s);
    n = (size_t)snprintf(line, sizeof line, "%s: best %s, bound %s", spent,
                         any ? best : "none yet",
                         bound_s > 0 ? bound : "none yet");
    if (proof)
        n += (size_t)snprintf(line + n, sizeof line - n, ", gap %.3g %%",
                              100 * fmax(0, 1 - bound_s / z->best_s));
    snprintf(line + n, sizeof line - n, "; %d x (%s), m %d %s", c->n_stages,
             mesh, c->graph->micro_batches, what);
    z->problem->progress(z->problem->progress_ctx, line);
}
