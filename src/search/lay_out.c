/* Where a configuration's nodes run, and what its network is built on. */
#include "config.h"
#include "search/lay_out.h"

#include "search/built.h"
#include "search/cuts/cut.h"
#include "search/effort.h"
#include "search/fit.h"
#include "search/kept.h"
#include "search/known.h"
#include "search/narrow.h"
#include "search/recipe/recipe.h"
#include "search/shares.h"

#include "ir/compact.h"
#include "ir/recompute.h"
#include "plan/schedule.h"

#include <math.h>
#include <string.h>

int32_t search_depth(const search_problem *problem)
{
    return problem->interleave > 1 ? problem->interleave : 1;
}

int32_t search_depth_of(const search_problem *problem, int32_t k)
{
    return problem->depths ? problem->depths[k] : search_depth(problem);
}

int32_t search_groups(const search_candidate *c)
{
    return c->n_stages / c->depth;
}

void search_set_schedule(const search_problem *problem, int32_t k,
                         search_candidate *c)
{
    const int32_t groups = search_groups(c);
    c->schedule = problem->schedules[k];
    c->depth = c->record.depth = search_depth_of(problem, k);
    c->n_stages = c->record.n_stages = groups * c->depth;
}

search_rates *search_rates_for(search_level0 *z, int32_t n_stages, int32_t m)
{
    const cost_model *cost = z->problem->cost;
    if (!z->book) {
        z->book = fs_new(z->scratch, search_book, 1);
        z->book->arena = z->scratch;
    }
    search_book *book = z->book;
    const cost_model *micro = cost_model_for(cost, n_stages, m, book->arena);
    const search_rates *step = book->rates.n ? book->rates.at[0].rates : NULL;
    for (int32_t k = 0; k < book->rates.n; k++) {
        const search_rates_entry *known = &book->rates.at[k];
        if (micro == known->rates->cost[0] ||
            (known->n_stages == n_stages && known->micro_batches == m))
            return known->rates;
    }
    search_rates *rates = fs_new(book->arena, search_rates, 1);
    plan_boxer *boxer = plan_boxer_create(cost_boxing(micro), book->arena);
    *rates =
        (search_rates){{micro, cost}, {boxer, step ? step->boxer[1] : boxer}};
    search_rates_entry entry = {n_stages, m, rates};
    fs_push(book->arena, &book->rates, entry);
    return rates;
}

static const char *schedule_of(const search_problem *problem,
                               const search_candidate *c)
{
    return c->schedule ? c->schedule : problem->schedule;
}

/* NULL: all have the candidate's. */
static const ir_mesh *meshes_of(const search_problem *problem,
                                const search_candidate *c)
{
    return c->part && c->part->mesh ? c->part->mesh : problem->stage_mesh;
}

/* Groups of devices in order, stages on them as the schedule wants it. */
static void place_stages(const search_problem *problem,
                         const search_candidate *c, search_layout *layout)
{
    const plan_schedule *schedule = plan_schedule_find(schedule_of(problem, c));
    const ir_mesh *each = meshes_of(problem, c);
    const plan_placing placing =
        schedule ? schedule->placing : PLAN_PLACED_ONCE;
    layout->n_groups = search_groups(c);
    for (int32_t i = 0; i < c->n_stages; i++) {
        const int32_t group = plan_placing_role(placing, layout->n_groups, i);
        int32_t first = 0;
        for (int32_t g = 0; g < group; g++)
            first += ir_mesh_size(each ? &each[g] : &c->mesh);
        layout->group_of[i] = group;
        layout->stages[i].mesh = each ? each[group] : c->mesh;
        layout->stages[i].first_device =
            problem->first_device
                ? problem->first_device[group]
                : search_order_place(c->order, first,
                                     ir_mesh_size(&layout->stages[i].mesh));
    }
}

const ir_graph *search_graph_of(search_level0 *z, const search_candidate *c)
{
    const search_problem *problem = z->problem;
    const int64_t k = c->graph - problem->graphs;
    if (!c->again)
        return c->graph->graph;
    if (!z->again)
        z->again = fs_new(z->scratch, const ir_graph *, problem->n_graphs);
    if (!z->again[k])
        z->again[k] = problem->again(problem->again_ctx, c->graph);
    return z->again[k] ? z->again[k] : c->graph->graph;
}

/* Who of its stages reads what is computed again. */
static void bind_graph(search_level0 *z, search_layout *layout)
{
    const ir_graph *graph = layout->graph;
    const size_t bytes = (size_t)graph->nodes.n * sizeof *layout->stage_of;
    search_bound_graph made = {.from = graph};
    if (!ir_recompute_crosses(graph, layout->stage_of))
        return;
    for (int32_t k = 0; k < z->bound.n && !made.graph; k++)
        if (z->bound.at[k].from == graph &&
            memcmp(z->bound.at[k].cut, layout->stage_of, bytes) == 0)
            made = z->bound.at[k];
    if (!made.graph) {
        ir_graph *copy = ir_graph_copy(graph, z->scratch);
        made.cut = fs_memdup(z->scratch, layout->stage_of, bytes);
        made.stage_of = fs_memdup(z->scratch, layout->stage_of, bytes);
        ir_recompute_bind(copy, made.stage_of);
        if (ir_is_compact(copy)) /* who looks whether plans fit wants these */
            ir_compact_bound(copy, graph);
        made.graph = copy;
        fs_push(z->scratch, &z->bound, made);
    }
    layout->graph = made.graph;
    layout->stage_of = made.stage_of;
}

const ir_graph *search_lasting(const search_level0 *z, const ir_graph *graph)
{
    for (int32_t k = 0; k < z->bound.n; k++)
        if (z->bound.at[k].graph == graph)
            return ir_graph_copy(graph, z->arena);
    return graph;
}

/* ---- folding ---- */

/* Where stages and layers are told apart by the problem they are not equal;
 * engines that are baselines see every layer. Of compact graphs a planner alone
 * pins, and tables of all layers alike. */
static bool may_fold(const search_problem *problem)
{
    const bool known = !problem->filter.allow || problem->recipe;
    return known && problem->reduce && !(problem->without & SEARCH_LAYERS) &&
           strcmp(problem->engine, "ilp") == 0 &&
           problem->cluster->n_groups == 1 && !problem->stage_of &&
           !problem->stage_mesh &&
           !(problem->recipe && problem->recipe->pins.n && !problem->outgrown);
}

/* The pipeline that a view shows, and what its stages hold: of every mesh of
 * as many devices. */
static void describe(const search_candidate *c, const search_layout *whole,
                     fs_arena *arena, search_folded *of)
{
    const search_fold *fold = of->view->fold;
    plan_pipeline *pipe = fs_new(arena, plan_pipeline, 1);
    *pipe = plan_pipeline_of(whole->stages, whole->n_stages, whole->schedule,
                             whole->graph->micro_batches, arena);
    of->standing = (cost_standing){pipe, fold->stage, of->view->times,
                                   of->view->run, of->view->equal};
    of->stages = fs_new(arena, plan_stage, fold->n_stages);
    for (int32_t i = 0; i < fold->n_stages; i++)
        of->stages[i] = (plan_stage){c->mesh, i * ir_mesh_size(&c->mesh)};
    of->program = (cost_program){
        of->view->graph, fold->n_stages, whole->graph->micro_batches,
        whole->schedule, of->stages,     of->view->stage_of,
        &of->standing,   whole->chooses};
}

/* What it holds, as soon as limits are asked for. */
static cost_memory *memory_of(search_level0 *z, search_folded *folded)
{
    if (!folded->memory)
        folded->memory = cost_memory_create(&folded->program, z->scratch);
    return folded->memory;
}

/* NULL: the whole graph is as small; of a compact one there is a view always.
 * Walked cuts are many, of small graphs, and folding takes longer than what it
 * saves. */
static search_folded *folded_of(search_level0 *z, const search_candidate *c,
                                const search_layout *layout)
{
    const bool compact = ir_is_compact(layout->graph);
    if ((c->whole && !compact) || layout->n_stages > layout->n_groups ||
        (c->part && (c->part->mesh || (c->part->walked && !compact))) ||
        !may_fold(z->problem)) {
        if (compact)
            search_outgrow(z->problem);
        return NULL;
    }
    for (int32_t k = 0; k < z->folded.n; k++) {
        search_folded *known = z->folded.at[k];
        if (known->graph == layout->graph &&
            known->stage_of == layout->stage_of &&
            known->devices == ir_mesh_size(&c->mesh))
            return known->view ? known : NULL;
    }
    search_folded *made = fs_new(z->scratch, search_folded, 1);
    made->graph = layout->graph;
    made->stage_of = layout->stage_of;
    made->devices = ir_mesh_size(&c->mesh);
    made->view = search_known_view(z->problem->known, made->graph,
                                   made->stage_of, layout->n_stages);
    if (made->view)
        describe(c, layout, z->scratch, made);
    else if (compact)
        search_outgrow(z->problem);
    fs_push(z->scratch, &z->folded, made);
    return made->view ? made : NULL;
}

static search_span *spans_of(const search_candidate *c, const search_fold *fold)
{
    search_span *span = fs_new(c->arena, search_span, fold->n_stages);
    for (int32_t i = 0; i < fold->n_stages; i++)
        span[i] = (search_span){fold->stage[i], fold->last[i]};
    return span;
}

/* Of the one stage that all of the graph is looked at on. */
static search_span *span_of_all(const search_candidate *c)
{
    const search_span all = {0, c->n_stages - 1};
    return fs_memdup(c->arena, &all, sizeof all);
}

/* The layout of a view. */
static void show(const search_candidate *c, const search_layout *whole,
                 const search_folded *folded, search_layout *layout)
{
    const search_view *view = folded->view;
    const search_fold *fold = view->fold;
    const int32_t n = fold->n_stages;
    *layout = *whole;
    layout->limit_bytes = fs_new(c->arena, int64_t, n);
    layout->graph = view->graph;
    layout->stage_of = view->stage_of;
    layout->n_stages = layout->n_groups = n;
    layout->stages = fs_new(c->arena, plan_stage, n);
    layout->group_of = fs_new(c->arena, int32_t, n);
    layout->meant = whole->stages;
    layout->span = spans_of(c, fold);
    layout->standing = &folded->standing;
    layout->like = fold->like;
    layout->view = view;
    layout->equal = view->equal;
    for (int32_t i = 0; i < n; i++) {
        layout->stages[i] = whole->stages[fold->stage[i]];
        layout->group_of[i] = i;
        layout->limit_bytes[i] = whole->limit_bytes[fold->stage[i]];
    }
}

/* The cut of a graph into so many stages, and how much of fill and drain its
 * schedule lets show: once for all meshes, unless stages have each their own.
 */
static const search_cut_made *cut_of(search_level0 *z, const search_part *part,
                                     const search_order *order,
                                     search_layout *layout)
{
    for (int32_t k = 0; k < z->cuts.n; k++)
        if (z->cuts.at[k]->graph == layout->graph &&
            z->cuts.at[k]->part == part && z->cuts.at[k]->order == order &&
            z->cuts.at[k]->n_stages == layout->n_stages &&
            z->cuts.at[k]->n_groups == layout->n_groups &&
            strcmp(z->cuts.at[k]->schedule, layout->schedule) == 0)
            return z->cuts.at[k];
    fs_err err = {0};
    const int32_t m = layout->graph->micro_batches;
    search_cut_made *made = fs_new(z->scratch, search_cut_made, 1);
    *made = (search_cut_made){
        .graph = layout->graph,
        .n_stages = layout->n_stages,
        .n_groups = layout->n_groups,
        .schedule = layout->schedule,
        .part = part,
        .order = order,
        .stage_of = fs_new(z->scratch, int32_t, layout->graph->nodes.n)};
    layout->fill = made->fill =
        part && part->mesh ? search_fill_of(layout, m)
                           : search_known_fill(z->problem->known, layout, m);
    made->status = search_cut(z->problem, layout, &err, made->stage_of);
    made->why = fs_strdup(z->scratch, err.text);
    fs_push(z->scratch, &z->cuts, made);
    return made;
}

/* Memory remembers what its moments hold at most; hands that build tables at
 * once share it. */
static void count_most(cost_memory *memory)
{
    const cost_moment *at;
    const int32_t n = memory ? cost_memory_moments(memory, &at) : 0;
    for (int32_t k = 0; k < n; k++)
        cost_memory_most(memory, k);
}

static fs_status lay_out(search_level0 *z, search_candidate *c, bool limits,
                         fs_err *err)
{
    const search_problem *problem = z->problem;
    const ir_graph *graph = search_graph_of(z, c);
    search_layout *layout = &c->layout;
    int32_t p = c->n_stages;
    *layout = (search_layout){
        .graph = graph,
        .n_stages = p,
        .stages = fs_new(c->arena, plan_stage, p),
        .schedule = schedule_of(problem, c),
        .chooses = c->again,
        .limit_bytes = fs_new(c->arena, int64_t, p),
        .group_of = fs_new(c->arena, int32_t, p),
        .rates = search_rates_for(z, search_groups(c), graph->micro_batches)};
    if (c->part)
        layout->begin = c->part->begin;
    place_stages(problem, c, layout);
    for (int32_t i = 0; i < p; i++) {
        layout->limit_bytes[i] =
            search_device_bytes(problem, &layout->stages[i]);
        if (c->share < 1)
            layout->limit_bytes[i] =
                (int64_t)(c->share * (double)layout->limit_bytes[i]);
    }
    const search_cut_made *cut = cut_of(z, c->part, c->order, layout);
    if (cut->status != FS_OK)
        return fs_fail(err, cut->status, "%s", cut->why);
    layout->stage_of = cut->stage_of;
    layout->fill = cut->fill;
    search_folded *folded = folded_of(z, c, layout);
    c->view = folded ? folded->view : NULL;
    if (folded) {
        show(c, layout, folded, &c->shown);
        c->shown.memory = limits ? memory_of(z, folded) : NULL;
    } else {
        bind_graph(z, layout);
        c->shown = *layout;
    }
    if (limits) {
        search_add_missing(z, c, &c->shown);
        count_most(c->shown.memory);
    }
    return FS_OK;
}

fs_status search_lay_out(search_level0 *z, search_candidate *c, fs_err *err)
{
    return lay_out(z, c, true, err);
}

search_candidate search_anew(const search_candidate *c)
{
    return (search_candidate){.graph = c->graph,
                              .n_stages = c->n_stages,
                              .depth = c->depth,
                              .mesh = c->mesh,
                              .order = c->order,
                              .part = c->part,
                              .schedule = c->schedule,
                              .again = c->again,
                              .share = 1,
                              .arena = fs_arena_create()};
}

fs_status search_lay_out_cut(search_level0 *z, search_candidate *c, fs_err *err)
{
    return lay_out(z, c, false, err);
}

/* What of fill and drain shows of a configuration with its schedule. */
static double fill_of_candidate(search_level0 *z, const search_candidate *c)
{
    fs_arena *scratch = fs_arena_create();
    search_layout one = {.graph = c->graph->graph,
                         .n_stages = c->n_stages,
                         .stages = fs_new(scratch, plan_stage, c->n_stages),
                         .schedule = schedule_of(z->problem, c),
                         .group_of = fs_new(scratch, int32_t, c->n_stages)};
    place_stages(z->problem, c, &one);
    const double fill =
        search_known_fill(z->problem->known, &one, one.graph->micro_batches);
    fs_arena_destroy(scratch);
    return fill;
}

/* Of all schedules that it may have. */
double search_least_fill(search_level0 *z, const search_candidate *c)
{
    double least = fill_of_candidate(z, c);
    for (int32_t k = 0; !c->schedule && k < z->problem->n_schedules; k++) {
        search_candidate one = *c;
        search_set_schedule(z->problem, k, &one);
        least = fmin(least, fill_of_candidate(z, &one));
    }
    return least;
}

/* After so many stages of a size their places in nodes are the same. */
static int32_t period_of(const hw_cluster *cluster, int32_t size)
{
    const int32_t per = hw_cluster_period(cluster);
    int32_t n = 1;
    while (n * size % per)
        n++;
    return n;
}

void search_lay_out_even(search_level0 *z, search_candidate *c,
                         search_layout *out)
{
    const search_problem *problem = z->problem;
    const int32_t p = search_groups(c);
    search_layout whole = {.graph = c->graph->graph,
                           .n_stages = c->n_stages,
                           .stages = fs_new(c->arena, plan_stage, c->n_stages),
                           .schedule = schedule_of(problem, c),
                           .limit_bytes = fs_new(c->arena, int64_t, 1),
                           .group_of = fs_new(c->arena, int32_t, c->n_stages),
                           .rates =
                               search_rates_for(z, p, c->graph->micro_batches)};
    place_stages(problem, c, &whole);
    whole.n_stages = whole.n_groups = 1;
    if (c->depth > 1) /* does not suit one stage */
        whole.schedule = "1f1b";
    const search_cut_made *cut = cut_of(z, NULL, NULL, &whole);
    whole.stage_of = cut->stage_of;
    whole.fill = search_least_fill(z, c);
    const search_folded *folded = folded_of(z, c, &whole);
    if (folded)
        show(c, &whole, folded, out);
    else
        *out = whole;
    out->meant = whole.stages;
    out->span = span_of_all(c);
    static const int32_t once[] = {1, 1};
    out->pieces = search_pieces_of(z, &whole, folded ? folded->view : NULL);
    out->in_runs = c->depth == 1 && !problem->stage_of;
    out->heaviest[0] = out->heaviest[1] = -1;
    out->n_groups = 2; /* the heaviest piece apart */
    out->like = once;
    out->any_cut = period_of(problem->cluster, ir_mesh_size(&c->mesh));
    search_leave_parted(search_parts_of(z, c), whole.graph, c->arena, out);
}

/* The values of the nodes of the whole graph, each of the view's node that
 * stands for it, or its own. */
typedef struct whole_values {
    const int32_t *rep; /* NULL: its own */
    int32_t *pick;
} whole_values;

/* Copies of a run that a stage has: from the first to the one behind the last,
 * and the first of those that do not have the values of `other`. */
typedef struct copies_there {
    int32_t first, end, rest;
} copies_there;

/* In a stage the first layers of each run, `share` of them, have the values of
 * `other`. */
static bool is_other(const search_view *view, const int32_t *stage_of,
                     const copies_there *there, int32_t v, int32_t was,
                     const double *share)
{
    const ir_layers *layers = view->fold->layers;
    const int32_t run = layers->run[was];
    if (run < 0)
        return share[stage_of[v]] >= 1;
    return layers->copy[was] < there[stage_of[v] * layers->runs.n + run].rest;
}

/* [stage][run] */
static copies_there *copies_of(const search_candidate *c, const int32_t *before,
                               fs_arena *arena)
{
    const ir_layers *layers = c->view->fold->layers;
    const search_layout *layout = &c->layout;
    const size_t n = (size_t)layout->n_stages * (size_t)(layers->runs.n + 1);
    copies_there *at = fs_new(arena, copies_there, n);
    for (int32_t v = layout->graph->nodes.n - 1; v >= 0; v--) {
        const int32_t run = layers->run[before[v]],
                      c1 = layers->copy[before[v]];
        if (run < 0)
            continue;
        copies_there *one = &at[layout->stage_of[v] * layers->runs.n + run];
        const bool met = one->end > 0;
        one->first = met && one->first < c1 ? one->first : c1;
        one->end = met && one->end > c1 + 1 ? one->end : c1 + 1;
    }
    return at;
}

static void share_out(const ir_layers *layers, int32_t n_stages,
                      const double *share, copies_there *there)
{
    const int32_t n_runs = layers->runs.n;
    for (int32_t i = 0; i < n_stages * n_runs; i++)
        there[i].rest =
            there[i].first +
            (int32_t)(share[i / n_runs] * (there[i].end - there[i].first));
}

/* Those of one run in one stage of a compact graph come to stand for others
 * than before: the copies before `rest` for as many as `share` of all are. Of
 * each side the last but one or two that may stands for those besides. The ones
 * at the ends may lie in another stage, too. False: these are too few. */
static bool count_anew(ir_graph *graph, int32_t run, copies_there *at,
                       double share)
{
    const int32_t n = at->end - at->first;
    int32_t meant = 0;
    for (int32_t c = at->first; c < at->end; c++)
        meant += ir_copy_times(graph->layers, run, c);
    const int32_t wanted = (int32_t)(share * meant), left = meant - wanted;
    int32_t before = wanted < n / 2 ? wanted : n / 2;
    before = before < n - left ? n - left : before;
    const bool more[2] = {wanted > before, left > n - before};
    at->rest = at->first + before;
    if ((more[0] && before < 5) || (more[1] && n - before < 5))
        return false;
    for (int32_t c = at->first; c < at->end; c++)
        ir_compact_count(graph, run, c, 1);
    if (more[0])
        ir_compact_count(graph, run, at->first + 2, 1 + wanted - before);
    if (more[1])
        ir_compact_count(graph, run, at->end - 3, 1 + left - (n - before));
    return true;
}

/* Of the graph of these layers; NULL: it is not that one, as it was bound to
 * stages, or has too few. */
static ir_graph *share_out_compact(const ir_graph *graph,
                                   const ir_layers *layers, int32_t n_stages,
                                   const double *share, copies_there *there,
                                   fs_arena *arena)
{
    ir_graph *made =
        graph == layers->graph ? ir_compact_copy(graph, arena) : NULL;
    const int32_t n_runs = graph->layers->runs.n;
    for (int32_t i = 0; made && i < n_stages * n_runs; i++)
        if (there[i].end > 0 &&
            !count_anew(made, i % n_runs, &there[i], share[i / n_runs]))
            return NULL;
    return made;
}

/* Of the graph of *layout, another one (in `kept`) where layers of a compact
 * graph differ; no values: it cannot be. */
static whole_values values_of(search_level0 *z, search_candidate *c,
                              const search_built *built, const search_mix *mix,
                              search_layout *layout, fs_arena *kept,
                              fs_arena *arena)
{
    whole_values all = {0};
    const int32_t *before = NULL;
    copies_there *first = NULL;
    if (c->view) {
        bind_graph(z, &c->layout);
        all.rep = search_view_nodes(c->view, c->layout.graph, arena);
        before = search_view_before(c->view, c->layout.graph, arena);
        first = copies_of(c, before, arena);
    }
    *layout = c->layout;
    if (c->view && mix->other && ir_is_compact(layout->graph)) {
        layout->graph =
            share_out_compact(layout->graph, c->view->fold->layers,
                              layout->n_stages, mix->share, first, kept);
        if (!layout->graph)
            return all;
    } else if (c->view && mix->other) {
        share_out(c->view->fold->layers, layout->n_stages, mix->share, first);
    }
    const int32_t n = c->layout.graph->nodes.n;
    all.pick = fs_new(arena, int32_t, n);
    for (int32_t v = 0; v < n; v++) {
        const int32_t of = all.rep ? all.rep[v] : v;
        const bool other =
            mix->other && is_other(c->view, c->layout.stage_of, first, v,
                                   before[v], mix->share);
        all.pick[v] = (other ? mix->other : mix->value)[built->var[of]];
    }
    return all;
}

search_kept search_whole_plan(search_level0 *z, search_candidate *c,
                              const search_built *built, const search_mix *mix,
                              double cost_s)
{
    fs_arena *scratch = fs_arena_create(), *arena = search_plan_arena(z);
    search_layout layout;
    const whole_values all =
        values_of(z, c, built, mix, &layout, arena, scratch);
    search_kept found = {.from = c, .cost_s = cost_s};
    if (!all.pick) {
        search_plan_made(z, arena, NULL);
        fs_arena_destroy(scratch);
        return found;
    }
    const bool *out =
        search_left_out(built, &layout, all.rep, all.pick, scratch);
    found.graph = layout.graph;
    found.strategy = search_strategy(z->problem, built, &layout, all.rep,
                                     all.pick, out ? scratch : arena);
    FS_ASSERT(found.strategy || mix->other);
    if (out && found.strategy) {
        found.left = fs_memdup(arena, out, (size_t)found.graph->nodes.n);
        found.all = found.graph;
        found.graph = search_leave_out(&layout, out, &found.strategy, arena);
    }
    /* Copies that nobody reads cost nothing any more. */
    if (found.strategy && (c->view || out)) {
        found.cost_s = cost_strategy_seconds(z->problem->cost, found.graph,
                                             found.strategy);
        FS_ASSERT(c->view || found.cost_s <= cost_s * (1 + SEARCH_TOLERANCE));
    }
    search_plan_made(z, arena, found.strategy);
    fs_arena_destroy(scratch);
    return found;
}
