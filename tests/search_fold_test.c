/* Folded networks (src/search/view.h) against whole ones, on random networks of
 * equal layers, clusters, stages, limits and cuts: what a folded search claims
 * holds for the whole graph. */
#include "config.h"
#include "search/attempt.h"
#include "search/built.h"
#include "search/cuts/cut.h"
#include "search/fit.h"
#include "search/kept.h"
#include "search/known.h"
#include "search/lay_out.h"
#include "search/narrow.h"
#include "search/engine/prices.h"
#include "search/recipe/recipe.h"

#include "base/hash.h"
#include "cost/parts.h"
#include "ir/blocks.h"
#include "ir/recompute.h"
#include "ir/train.h"
#include "plan/lower.h"
#include "search_cluster.h"
#include "search_fold_case.h"
#include "tap.h"

enum { CASES = 48 };
#define TOLERANCE 1e-9

/* Of all cases. */
typedef struct tally {
    int32_t cases, folded, left_out, bounds, even, cuts, refused, plans,
        moments, paid;
    int32_t pressed, bad_press;
    int32_t bad_bound, bad_config, bad_claim, bad_below, bad_even, bad_refusal,
        bad_need, bad_bytes, bad_arena, bad_cost;
    int32_t worse, better, lost;
    double worst, even_gap, press_gap;
    const char *worst_case;
} tally;

/* ---- what is asked ---- */

typedef struct asked {
    fs_arena *arena;
    hw_cluster *cluster;
    search_graph graph;
    search_problem problem;
    search_recipe recipe;
    search_layers layers[FOLD_MOST_STAGES];
} asked;

static fs_status open_problem(asked *a, const fold_case *c,
                              const ir_graph *graph, fs_err *err)
{
    const int32_t rounds = c->share > 0 ? 6 : 0;
    a->graph = (search_graph){graph->micro_batches, graph, NULL};
    a->problem =
        (search_problem){.cluster = a->cluster,
                         .cost = cost_model_create(a->cluster, a->arena),
                         .n_graphs = 1,
                         .graphs = &a->graph,
                         .engine = "ilp",
                         .schedule = c->schedule,
                         .fix_stages = c->stages,
                         .fix_mesh = c->mesh,
                         .max_mesh_axes = c->axes,
                         .time_limit_s = 3,
                         .effort_s = 0.25,
                         .rounds = rounds,
                         .gap = 1e-3,
                         .interleave = c->interleave,
                         .reduce = true};
    search_recipe recipe = search_recipe_free();
    if (!c->recipe)
        return FS_OK;
    FS_TRY(search_recipe_parse(c->recipe, a->arena, err, &recipe));
    FS_TRY(
        search_recipe_complete(a->cluster, graph->batch, true, err, &recipe));
    FS_TRY(search_recipe_check(&recipe, graph, err));
    a->recipe = recipe;
    search_recipe_apply(&a->recipe, a->arena, &a->problem);
    a->problem.schedule = c->schedule;
    return FS_OK;
}

static int32_t count_blocks(const ir_graph *graph)
{
    fs_arena *arena = fs_arena_create();
    ir_blocks blocks;
    int32_t n = 0;
    ir_find_blocks(graph, arena, &blocks);
    for (int32_t k = 0; k < blocks.repeats.n; k++) {
        const ir_repeat *r = &blocks.repeats.at[k];
        const ir_node *node = &graph->nodes.at[blocks.node[r->first]];
        n += node->phase == IR_FORWARD ? r->copies : 0;
    }
    fs_arena_destroy(arena);
    return n;
}

/* Some blocks and now and then some nodes for each stage. */
static bool draw_cut(asked *a, uint64_t *rng, int32_t stages)
{
    const ir_graph *graph = a->graph.graph;
    const int32_t blocks = count_blocks(graph);
    fs_err err = {0};
    for (int32_t attempt = 0; attempt < 20; attempt++) {
        memset(a->layers, 0, sizeof a->layers);
        for (int32_t b = 0; b < blocks; b++)
            a->layers[fs_rand_below(rng, stages)].blocks++;
        const int64_t halves = fs_rand_below(rng, 3);
        for (int32_t p = 0; p + 1 < stages && halves; p++)
            if (fs_rand_below(rng, 2))
                a->layers[p].nodes = (int32_t)fs_rand_below(rng, 10);
        if (search_cut_check(graph, a->layers, stages, &err) == FS_OK) {
            a->problem.layers = a->layers;
            a->problem.n_layers = stages;
            return true;
        }
    }
    return false;
}

static fs_status ask(asked *a, bool folded, fs_err *err, search_result *out)
{
    a->problem.without = folded ? 0 : SEARCH_LAYERS;
    *out = (search_result){.iteration_s = INFINITY};
    return search_run(&a->problem, a->arena, err, out);
}

/* ---- checks ---- */

static bool beyond(double bound, double cost)
{
    return bound > cost * (1 + TOLERANCE);
}

static double recomputed(const asked *a, const search_result *r,
                         fs_arena *arena)
{
    cost_summary summary = {0};
    fs_err err = {0};
    return cost_strategy(a->problem.cost, r->graph, r->strategy, arena, &err,
                         &summary) == FS_OK
               ? summary.iteration_s
               : -1;
}

static void complain(const fold_case *c, const asked *a, const char *what,
                     double got, double wanted)
{
    printf("# %s: %s: %.12g, %.12g (%+.3g %%)\n", fold_case_text(c, a->arena),
           what, got, wanted, 100 * (got / wanted - 1));
}

static void compare_plans(const fold_case *c, const asked *a,
                          const search_result *folded,
                          const search_result *whole, tally *t)
{
    const bool both = folded->strategy && whole->strategy;
    if (folded->strategy) {
        const double s = recomputed(a, folded, a->arena);
        if (s < folded->iteration_s || s > folded->iteration_s) {
            complain(c, a, "claim", folded->iteration_s, s);
            t->bad_claim++;
        }
        if (beyond(whole->lower_bound_s, folded->iteration_s)) {
            complain(c, a, "whole bound, folded plan", whole->lower_bound_s,
                     folded->iteration_s);
            t->bad_below++;
        }
    }
    t->plans += both;
    if (!both) {
        t->lost += whole->strategy && !folded->strategy;
        if (whole->strategy)
            printf("# %s: the folded search finds no plan (%s)\n",
                   fold_case_text(c, a->arena), folded->status);
        return;
    }
    const double by = folded->iteration_s / whole->iteration_s - 1;
    t->worse += by > 1e-3;
    t->better += by < -1e-3;
    if (by > 0.01)
        complain(c, a, "folded plan, whole plan", folded->iteration_s,
                 whole->iteration_s);
    if (by > t->worst) {
        t->worst = by;
        t->worst_case = fold_case_text(c, a->arena);
    }
}

static void compare_bounds(const fold_case *c, const asked *a,
                           const search_result *folded,
                           const search_result *whole, tally *t)
{
    if (whole->strategy) {
        t->bounds++;
        if (beyond(folded->lower_bound_s, whole->iteration_s)) {
            complain(c, a, "folded bound, whole plan", folded->lower_bound_s,
                     whole->iteration_s);
            t->bad_bound++;
        }
        if (strcmp(folded->status, "infeasible") == 0) {
            complain(c, a, "refused, whole plan", 0, whole->iteration_s);
            t->bad_refusal++;
        }
    }
    /* Values of the network count too, whether or not they fit lowered. */
    for (int32_t k = 0; k < folded->n_configs && k < whole->n_configs; k++)
        if (c->share <= 0 && isfinite(whole->configs[k].iteration_s) &&
            beyond(folded->configs[k].lower_bound_s,
                   whole->configs[k].iteration_s)) {
            complain(c, a, "folded bound, whole network",
                     folded->configs[k].lower_bound_s,
                     whole->configs[k].iteration_s);
            t->bad_config++;
        }
    if (folded->need_bytes > 0 && whole->strategy &&
        folded->need_bytes > a->problem.memory_bytes) {
        complain(c, a, "needed bytes", (double)folded->need_bytes,
                 (double)a->problem.memory_bytes);
        t->bad_need++;
    }
}

/* ---- whatever the cut ---- */

static search_level0 level0_of(const asked *a)
{
    search_level0 z = {.problem = &a->problem,
                       .arena = a->arena,
                       .scratch = a->arena,
                       .start_ns = fs_now_ns(),
                       .best_s = INFINITY};
    z.end = fs_end_after(z.start_ns, 1e8, NULL);
    search_rates_for(&z, 1, 1);
    return z;
}

static search_candidate candidate_of(const asked *a, const fold_case *c)
{
    return (search_candidate){.graph = &a->graph,
                              .n_stages = c->stages * c->interleave,
                              .depth = c->interleave,
                              .mesh = c->mesh,
                              .share = 1};
}

/* The bounds of `look` and `weigh` (level0.c). */
static double even_bound(asked *a, const fold_case *c)
{
    a->problem.without = 0;
    search_level0 z = level0_of(a);
    search_candidate even = candidate_of(a, c);
    search_look(&z, &even);
    search_weigh(&z, &even);
    search_weigh_every_cut(&z, &even);
    return even.any_cut_s;
}

/* Those of its own cut, unfolded: at even prices, then at any. */
static double own_bound(asked *a, const fold_case *c)
{
    search_level0 z = level0_of(a);
    search_candidate own = candidate_of(a, c);
    own.whole = true;
    for (int32_t k = 0; k < SEARCH_CUT; k++)
        if (search_lay_out_own(&z, &own))
            search_weigh_own(&z, &own);
    return own.record.lower_bound_s;
}

static void compare_even(const fold_case *c, const asked *a, double even,
                         const search_result *whole, tally *t)
{
    if (!whole->strategy)
        return;
    t->even++;
    t->even_gap += 1 - even / whole->iteration_s;
    if (beyond(even, whole->iteration_s)) {
        complain(c, a, "bound without limits, whole plan", even,
                 whole->iteration_s);
        t->bad_even++;
    }
}

/* ---- memory ---- */

/* What a moment holds under a strategy. */
static int64_t moment_bytes(const cost_memory *memory, int32_t moment,
                            const ir_graph *graph, const plan_strategy *s)
{
    int64_t sum = 0;
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        sum += cost_memory_node(memory, moment, v,
                                &s->stages[s->stage_of[v]].mesh, &s->sig[v]);
        for (int32_t e = s->first_edge[v]; e < s->first_edge[v + 1]; e++) {
            const int32_t slot = e - s->first_edge[v];
            cost_holding held;
            if (plan_edge_tensor(graph, s, v, slot) < 0 ||
                !cost_memory_edge(
                    memory, moment,
                    (cost_reader){v, slot, s->edge[e].sharing > 0, false},
                    &held))
                continue;
            const plan_ends ends = plan_edge_ends(graph, s, v, slot);
            sum += cost_holding_bytes(&held, &ends, &s->edge[e]);
        }
    }
    return sum;
}

static bool same_node(const ir_graph *a, int32_t v, const ir_graph *b,
                      int32_t w)
{
    if (v < 0 || w < 0)
        return v < 0 && w < 0;
    return strcmp(a->nodes.at[v].name, b->nodes.at[w].name) == 0;
}

static bool same_moment(const search_view *view, const cost_moment *at,
                        const ir_graph *graph, const cost_moment *of)
{
    return !at->payers && view->fold->stage[at->stage] == of->stage &&
           at->phase == of->phase && at->scratch_slot == of->scratch_slot &&
           at->first == of->first &&
           same_node(view->graph, at->node, graph, of->node) &&
           same_node(view->graph, at->scratch_node, graph, of->scratch_node);
}

/* Of values that copies have alike: bytes of the folded network against those
 * of the whole graph at the same moments, and against arenas. */
static void compare_bytes(const fold_case *c, asked *a,
                          const search_candidate *of, const int64_t *bytes,
                          const plan_strategy *s, tally *t)
{
    const ir_graph *graph = of->layout.graph;
    const cost_program program = {graph,       s->n_stages, s->micro_batches,
                                  s->schedule, s->stages,   s->stage_of,
                                  NULL,        false};
    cost_memory *memory = cost_memory_create(&program, a->arena);
    const cost_moment *whole, *at;
    plan_lower_options options = plan_lower_defaults();
    plan *lowered;
    fs_err err = {0};
    const int32_t n = cost_memory_moments(memory, &whole);
    /* Readers on fewer stages lose less to shares being whole bytes. */
    const int64_t lost = of->view->fold->n_stages < of->view->fold->n_whole
                             ? s->first_edge[s->n_nodes]
                             : 0;
    cost_memory_moments(of->built.memory, &at);
    for (int32_t k = 0; k < of->built.net.n_limits; k++)
        for (int32_t w = 0; w < n; w++) {
            const cost_moment *here = &at[of->built.moment[k]];
            /* Those of stages that stand for several prove nothing. */
            if (of->view->fold->like[here->stage] > 1 ||
                !same_moment(of->view, here, graph, &whole[w]))
                continue;
            const int64_t all = moment_bytes(memory, w, graph, s);
            t->moments++;
            if (bytes[k] > all + lost) {
                complain(c, a, "bytes of a moment, of the whole",
                         (double)bytes[k], (double)all);
                printf("# at %s of stage %d\n",
                       graph->nodes.at[whole[w].node].name, whole[w].stage);
                t->bad_bytes++;
            }
        }
    if (plan_lower(graph, a->cluster, s, &options, a->arena, &err, &lowered) !=
        FS_OK)
        return;
    for (int32_t k = 0; k < of->built.net.n_limits; k++) {
        const cost_moment *here = &at[of->built.moment[k]];
        const int32_t stage = of->view->fold->stage[here->stage];
        for (int32_t r = 0; r < lowered->n_roles; r++)
            if (lowered->roles[r].stages[0] == stage &&
                of->view->fold->like[here->stage] == 1 &&
                bytes[k] > lowered->roles[r].arena_bytes) {
                complain(c, a, "bytes of a moment, arena", (double)bytes[k],
                         (double)lowered->roles[r].arena_bytes);
                t->bad_arena++;
            }
    }
}

/* Its folded network, all of whose moments are limits, none of which binds. */
static bool build_folded(const asked *a, search_level0 *z, search_candidate *of)
{
    fs_err err = {0};
    of->arena = a->arena;
    if (search_lay_out(z, of, &err) != FS_OK || !of->view)
        return false;
    of->shown.end = z->end;
    for (int32_t i = 0; i < of->shown.n_stages; i++)
        of->shown.limit_bytes[i] = 0;
    if (!search_build_nodes(&a->problem, &of->shown, a->arena, &of->built) ||
        of->built.empty >= 0 || !search_build_edges(a->arena, &of->built))
        return false;
    for (int32_t k = 0; k < of->built.net.n_limits; k++)
        of->built.net.limit_bytes[k] = of->built.loose.limit_bytes[k] =
            INT64_MAX / 4;
    return true;
}

static bool solve_folded(const asked *a, const search_level0 *z,
                         search_candidate *of, const char *engine,
                         search_solution *found)
{
    const search_budget budget = {
        .deadline = fs_deadline_after(FS_STEPS_PER_S, &of->steps, z->end),
        .cutoff = INFINITY,
        .gap = 1e-2,
        .reduce = true,
        .rounds = 2};
    fs_err err = {0};
    return search_engine_find(engine)(&of->built.net, &budget, a->arena, &err,
                                      found) == FS_OK &&
           isfinite(found->cost);
}

/* The plan of the values; its moments are held against its arenas. */
static search_kept hold_values(const fold_case *c, asked *a, search_level0 *z,
                               search_candidate *of,
                               const search_solution *found, tally *t)
{
    const search_kept whole = search_whole_plan(
        z, of, &of->built, &(search_mix){.value = found->value}, found->cost);
    search_sums sums = search_sums_new(&of->built.net, a->arena);
    search_net_sums(&of->built.net, found->value, &sums);
    compare_bytes(c, a, of, sums.bytes, whole.strategy, t);
    return whole;
}

/* Moments at which readers pay that hold most in one plan, of another plan
 * too, and of the first no less than was counted before. */
static void check_payers(const fold_case *c, asked *a, search_level0 *z,
                         search_candidate *of, const search_kept *whole,
                         const search_solution *found, tally *t)
{
    static const char *const engines[] = {"deduce", "mcmc", "ilp"};
    const search_lowered as = {fs_new(a->arena, int64_t, of->n_stages),
                               fs_new(a->arena, int64_t, of->n_stages),
                               fs_new(a->arena, int32_t, of->n_stages)};
    search_candidate again = candidate_of(a, c);
    search_solution other;
    search_fit fit = {as.bytes, as.fullest, false, false};
    if (search_fits_or(&a->problem, whole->graph, as.limit, whole->strategy,
                       &fit) ||
        !search_note_missing(z, of, whole, &as) || !build_folded(a, z, &again))
        return;
    const cost_moment *at;
    cost_memory_moments(again.built.memory, &at);
    for (int32_t k = 0; k < again.built.net.n_limits; k++)
        t->paid += at[again.built.moment[k]].payers != NULL;
    hold_values(c, a, z, &again, found, t);
    if (solve_folded(a, z, &again, engines[c->seed % 3], &other))
        hold_values(c, a, z, &again, &other, t);
}

static void check_memory(const fold_case *c, asked *a, tally *t)
{
    a->problem.without = 0;
    search_level0 z = level0_of(a);
    search_candidate of = candidate_of(a, c);
    search_solution found;
    if (!build_folded(a, &z, &of))
        return;
    t->folded++;
    t->left_out += of.view->fold->like[of.shown.n_stages - 1] > 1;
    if (!solve_folded(a, &z, &of, c->seed % 2 ? "greedy" : "ilp", &found))
        return;
    const search_kept whole = hold_values(c, a, &z, &of, &found, t);
    /* What a network says is not more than what it stands for. */
    if (beyond(found.cost, whole.cost_s)) {
        complain(c, a, "network, its plan", found.cost, whole.cost_s);
        t->bad_cost++;
    }
    check_payers(c, a, &z, &of, &whole, &found, t);
}

/* ---- at prices that are found ---- */

/* As high as it comes: of the whole network, so below all its plans. */
static void compare_pressed(const fold_case *c, asked *a,
                            const search_result *whole, tally *t)
{
    search_level0 z = level0_of(a);
    search_candidate of = candidate_of(a, c);
    search_prices prices;
    fs_err err = {0};
    of.arena = a->arena;
    if (!whole->strategy || search_lay_out(&z, &of, &err) != FS_OK || !of.view)
        return;
    of.shown.end = z.end;
    if (!search_build_nodes(&a->problem, &of.shown, a->arena, &of.built) ||
        of.built.empty >= 0 || !search_build_edges(a->arena, &of.built))
        return;
    prices = search_prices_new(&of.built.net, a->arena);
    const double bound = search_press(
        &of.built, true, (t->pressed % 2 ? 1.001 : 2) * whole->iteration_s,
        fs_deadline_after(5 * FS_STEPS_PER_S, &of.steps, z.end), a->arena,
        &prices, NULL);
    t->pressed++;
    t->press_gap += 1 - bound / whole->iteration_s;
    if (beyond(bound, whole->iteration_s)) {
        complain(c, a, "pressed bound, whole plan", bound, whole->iteration_s);
        t->bad_press++;
    }
}

/* ---- all of a case ---- */

static int64_t peak_of(const search_result *r)
{
    int64_t peak = 0;
    for (int32_t k = 0; k < r->n_configs; k++)
        peak =
            r->configs[k].peak_bytes > peak ? r->configs[k].peak_bytes : peak;
    return peak;
}

static void run_case(const fold_case *c, fs_arena *arena, tally *t)
{
    asked a = {.arena = arena};
    ir_graph *graph = NULL;
    fs_err err = {0};
    search_result folded, whole;
    uint64_t rng = fs_mix(c->seed + 77);
    a.cluster = open_cluster(c->cluster, arena);
    join_cluster(a.cluster, c->seed, arena);
    if (fold_case_build(c, &err, &graph) != FS_OK) {
        printf("# %s: %s\n", fold_case_text(c, arena), err.text);
        t->refused++;
        ir_graph_destroy(graph);
        return;
    }
    if (open_problem(&a, c, graph, &err) != FS_OK) {
        printf("# %s: %s\n", fold_case_text(c, arena), err.text);
        t->refused++;
        ir_graph_destroy(graph);
        return;
    }
    t->cases++;
    a.problem.known = search_known_create();
    if (c->cut)
        t->cuts += draw_cut(&a, &rng, c->stages);
    if (c->share > 0) {
        ask(&a, true, &err, &whole);
        a.problem.memory_bytes =
            1 + (int64_t)(c->share * (double)peak_of(&whole));
    }
    ask(&a, true, &err, &folded);
    ask(&a, false, &err, &whole);
    compare_plans(c, &a, &folded, &whole, t);
    compare_bounds(c, &a, &folded, &whole, t);
    const double even = even_bound(&a, c);
    compare_even(c, &a, even, &whole, t);
    compare_even(c, &a, own_bound(&a, c), &whole, t);
    compare_pressed(c, &a, &whole, t);
    check_memory(c, &a, t);
    if (c->stages > 1 && c->interleave == 1) {
        search_problem all = a.problem;
        a.problem.memory_bytes = 0;
        if (draw_cut(&a, &rng, c->stages)) {
            ask(&a, false, &err, &whole);
            compare_even(c, &a, even, &whole, t);
        }
        a.problem = all;
    }
    search_known_destroy(a.problem.known);
    ir_graph_destroy(graph);
}

/* FS_CASE=SEED: one case alone; FS_CASES=N: so many. */
int main(void)
{
    const uint64_t seed = tap_seed(11);
    const char *only = getenv("FS_CASE"), *many = getenv("FS_CASES");
    const int32_t n = many ? atoi(many) : CASES;
    fs_arena *kept = fs_arena_create();
    tally t = {.worst_case = "none"};
    for (int32_t i = 0; i < n; i++) {
        fs_arena *arena = fs_arena_create();
        const fold_case c = fold_case_draw(1000 * seed + (uint64_t)i, arena);
        if (!only || strtoull(only, NULL, 0) == c.seed) {
            const char *before = t.worst_case;
            run_case(&c, arena, &t);
            if (t.worst_case != before)
                t.worst_case = fs_strdup(kept, t.worst_case);
        }
        fs_arena_destroy(arena);
    }
    printf("# %d cases (%d refused), %d folded, %d cut at random; %d with both "
           "plans: folded worse by 0.1 %% in %d, better in %d, none in %d, "
           "worst %.3g %%: %s\n",
           t.cases, t.refused, t.folded, t.cuts, t.plans, t.worse, t.better,
           t.lost, 100 * t.worst, t.worst_case);
    printf("# %d bounds of all cuts, %.3g %% below in the mean; %d moments, %d "
           "of misfits\n",
           t.even, 100 * t.even_gap / (t.even ? t.even : 1), t.moments, t.paid);
    printf("# %d pressed bounds, %.3g %% below in the mean\n", t.pressed,
           100 * t.press_gap / (t.pressed ? t.pressed : 1));
    tap_equal_int(t.bad_press, 0, "no pressed bound is above a whole plan");
    tap_equal_int(t.bad_bound, 0, "no folded bound is above a whole plan");
    tap_equal_int(t.bad_config, 0,
                  "no folded bound of a configuration is above its network");
    tap_equal_int(t.bad_even, 0, "no bound of all cuts is above a plan");
    tap_equal_int(t.bad_claim, 0, "the cost model confirms folded claims");
    tap_equal_int(t.bad_cost, 0, "no folded network costs more than its plan");
    tap_equal_int(t.bad_below, 0, "no folded plan is below a whole bound");
    tap_equal_int(t.bad_refusal, 0, "what is refused has no plan");
    tap_equal_int(t.bad_need, 0, "no plan is below the bytes called needed");
    tap_equal_int(t.bad_bytes, 0, "no moment holds more than in the whole");
    tap_equal_int(t.bad_arena, 0, "no moment holds more than the arena");
    tap_ok(only || n < CASES || t.paid > 0,
           "moments of misfits are held against arenas");
    fs_arena_destroy(kept);
    return tap_done();
}
