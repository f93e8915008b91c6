/* What is computed again in the backward pass, chosen node by node: on random
 * networks, clusters and limits the bound holds for every other choice, what is
 * claimed is what the plan costs, and no moment holds more than its arena. */
#include "config.h"
#include "search/built.h"
#include "search/engine/engine.h"
#include "search/fit.h"
#include "search/kept.h"
#include "search/known.h"
#include "search/lay_out.h"
#include "search/engine/lean.h"
#include "search/narrow.h"

#include "base/hash.h"
#include "ir/recompute.h"
#include "ir/rewrite.h"
#include "ir/train.h"
#include "plan/check.h"
#include "plan/lower.h"
#include "search_cluster.h"
#include "search_draw.h"
#include "tap.h"
#include "zoo/zoo.h"

enum { CASES = 10, OTHERS = 2 };

typedef struct again_case {
    uint64_t seed;
    const char *model, *cluster, *schedule, *policy;
    int64_t samples; /* of a micro-batch */
    int32_t m, stages;
    double share; /* of what a plan without takes: the limit */
    fs_arena *arena;
    search_graph graph;
    ir_graph *all; /* with copies of all that may be computed again */
    search_problem problem;
} again_case;

typedef struct tally {
    int32_t cases, limited, chose, some, plans, others, moments, missing;
    int32_t bad_bound, bad_claim, bad_graph, bad_arena, bad_check, worse;
    double worst, best;
} tally;

#define ONE_OF(rng, ...)                                                       \
    ((const char *const[]){__VA_ARGS__})[fs_rand_below(                        \
        rng, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))]

static const char *draw_model(uint64_t *rng, fs_arena *arena)
{
    const int layers = 2 + (int)fs_rand_below(rng, 7);
    const int hidden = 32 << fs_rand_below(rng, 2);
    const int seq = 16 << fs_rand_below(rng, 3);
    switch (fs_rand_below(rng, 6)) {
    case 0:
        return fs_printf(arena,
                         "zoo:llama,layers=%d,hidden=%d,heads=4,kv_heads=2,ffn="
                         "%d,vocab=128,seq=%d",
                         layers, hidden, 2 * hidden, seq);
    case 1:
        return fs_printf(arena,
                         "zoo:bert,layers=%d,hidden=%d,heads=4,vocab=96,seq=%d",
                         layers, hidden, seq);
    case 2:
        return "zoo:resnet,depth=34,width=8,classes=8,size=32";
    case 3:
        return "zoo:unet,depth=2,width=8,size=32";
    default:
        return fs_printf(arena,
                         "zoo:gpt,layers=%d,hidden=%d,heads=4,vocab=%d,seq=%d",
                         layers, hidden, 64 << fs_rand_below(rng, 3), seq);
    }
}

static again_case draw_case(uint64_t seed, fs_arena *arena)
{
    uint64_t rng = fs_mix(seed);
    again_case c = {.seed = seed, .arena = arena};
    c.model = draw_model(&rng, arena);
    c.cluster = ONE_OF(&rng, "1x1:l4", "1x2:a100-sxm4-80g", "1x4:cpu",
                       "2x2:h100-sxm5-80g");
    const int32_t devices = c.cluster[0] == '2' ? 4 : c.cluster[2] - '0';
    c.stages = devices > 1 ? 1 << fs_rand_below(&rng, 2) : 1;
    c.m = c.stages << fs_rand_below(&rng, 2);
    c.samples = 4 << fs_rand_below(&rng, 2);
    c.schedule = ONE_OF(&rng, "1f1b", "1f1b", "gpipe", "zb-h1");
    c.share = 0.5 + 0.48 * fs_rand_unit(&rng);
    return c;
}

static const char *case_text(const again_case *c)
{
    return fs_printf(c->arena, "seed %llu: %s on %s, %d stages, m %d, %s, %.2f",
                     (unsigned long long)c->seed, c->model, c->cluster,
                     (int)c->stages, (int)c->m, c->schedule, c->share);
}

static fs_status build(const again_case *c, const char *recompute,
                       const char *again, fs_err *err, ir_graph **out)
{
    ir_train_options options = ir_train_defaults();
    ir_rewrite_options rewrites;
    FS_TRY(zoo_build(c->model, c->samples, err, out));
    FS_TRY(ir_rewrite_parse("usual", err, &rewrites));
    ir_rewrite(*out, &rewrites);
    options.optimizer = IR_ADAMW;
    options.micro_batches = c->m;
    options.recompute = recompute;
    FS_TRY(ir_train(*out, &options, err));
    ir_rewrite_step(*out, &rewrites);
    (*out)->batch = c->samples * c->m;
    return again[0] ? ir_recompute(*out, again, err) : FS_OK;
}

static const ir_graph *again_of(void *ctx, const search_graph *of)
{
    (void)of;
    return ((again_case *)ctx)->all;
}

/* Of one graph, with the choice or without. */
static fs_status ask(again_case *c, const ir_graph *graph, bool chooses,
                     search_result *out)
{
    fs_err err = {0};
    c->graph = (search_graph){graph->micro_batches, graph, NULL};
    c->problem.again = chooses ? again_of : NULL;
    c->problem.again_ctx = c;
    *out = (search_result){.iteration_s = INFINITY};
    return search_run(&c->problem, c->arena, &err, out);
}

static int64_t peak_of(const search_result *r)
{
    int64_t peak = 0;
    for (int32_t k = 0; k < r->n_configs; k++)
        if (r->configs[k].peak_bytes > peak)
            peak = r->configs[k].peak_bytes;
    return peak;
}

/* Some of the copies are left out. */
static ir_graph *draw_other(const again_case *c, uint64_t *rng)
{
    ir_graph *graph = ir_graph_copy(c->all, c->arena);
    bool *out = fs_new(c->arena, bool, graph->nodes.n);
    int32_t *of = fs_new(c->arena, int32_t, graph->nodes.n);
    const uint64_t salt = fs_rand_below(rng, 1000);
    for (int32_t v = 0; v < graph->nodes.n; v++) /* alike in all layers */
        out[v] = ir_computes_again(graph, v) &&
                 fs_mix(salt + (uint64_t)graph->nodes.at[v].op) % 2;
    ir_recompute_keep(graph, out, of);
    return graph;
}

static void hold_bound(const again_case *c, const search_result *chosen,
                       const search_result *other, tally *t)
{
    if (!other->strategy)
        return;
    t->others++;
    if (chosen->lower_bound_s <= other->iteration_s * (1 + 1e-9) &&
        strcmp(chosen->status, "infeasible") != 0)
        return;
    printf("# %s: bound %.12g (%s), a plan of %.12g\n", case_text(c),
           chosen->lower_bound_s, chosen->status, other->iteration_s);
    t->bad_bound++;
}

/* The graph that its words make again is the plan's. */
static bool same_graph(const again_case *c, const search_result *r)
{
    ir_graph *graph = ir_graph_copy(c->all, c->arena);
    const int32_t n = graph->nodes.n;
    bool *out = fs_new(c->arena, bool, n), same = true;
    int32_t *of = fs_new(c->arena, int32_t, n);
    for (int32_t k = 0; k < r->again.n_left; k++) {
        const int32_t v = ir_graph_find_again(graph, r->again.left[k]);
        if (v < 0)
            return false;
        out[v] = true;
    }
    ir_recompute_keep(graph, out, of);
    if (c->stages > 1) /* bound to its stages there are fewer */
        return graph->nodes.n >= r->graph->nodes.n;
    for (int32_t v = 0; same && v < r->graph->nodes.n; v++)
        same = v < graph->nodes.n &&
               strcmp(graph->nodes.at[v].name, r->graph->nodes.at[v].name) == 0;
    return same && graph->nodes.n == r->graph->nodes.n;
}

static void check_plan(const again_case *c, const hw_cluster *cluster,
                       const search_result *r, tally *t)
{
    plan_lower_options options = plan_lower_defaults();
    int64_t *enough = fs_new(c->arena, int64_t, r->strategy->n_stages);
    cost_summary summary;
    plan_report proof = {0};
    plan *lowered;
    fs_err err = {0};
    for (int32_t i = 0; i < r->strategy->n_stages; i++)
        enough[i] = c->problem.memory_bytes;
    options.enough_bytes = enough; /* packed until they fit, as by commands */
    t->chose += r->again.chosen;
    t->some += r->again.chosen && r->again.n_left > 0;
    if (cost_strategy(c->problem.cost, r->graph, r->strategy, c->arena, &err,
                      &summary) != FS_OK ||
        fabs(summary.iteration_s / r->iteration_s - 1) > 1e-12)
        t->bad_claim++;
    if (r->again.chosen && !same_graph(c, r)) {
        printf("# %s: another graph\n", case_text(c));
        t->bad_graph++;
    }
    if (plan_lower(r->graph, cluster, r->strategy, &options, c->arena, &err,
                   &lowered) != FS_OK ||
        plan_check(r->graph, cluster, lowered, c->arena, &proof) != FS_OK) {
        printf("# %s: %s\n", case_text(c), err.text);
        t->bad_check++;
        return;
    }
    for (int32_t k = 0; k < lowered->n_roles; k++) {
        if (lowered->roles[k].arena_bytes <= c->problem.memory_bytes)
            continue;
        printf("# %s: an arena of %lld bytes, allowed %lld\n", case_text(c),
               (long long)lowered->roles[k].arena_bytes,
               (long long)c->problem.memory_bytes);
        t->bad_arena++;
    }
}

/* ---- bytes of a network's assignments ---- */

static void check_arenas(again_case *c, const hw_cluster *cluster,
                         search_level0 *z, search_candidate *of,
                         const search_lean_plan *lean, tally *t)
{
    const search_net *net = &of->built.net;
    const cost_moment *at;
    plan_lower_options options = plan_lower_defaults();
    plan *lowered;
    fs_err err = {0};
    const search_kept whole = search_whole_plan(
        z, of, &of->built, &(search_mix){.value = lean->value}, lean->cost);
    search_sums sums = search_sums_new(net, c->arena);
    search_net_sums(net, lean->value, &sums);
    cost_memory_moments(of->built.memory, &at);
    if (plan_lower(whole.graph, cluster, whole.strategy, &options, c->arena,
                   &err, &lowered) != FS_OK)
        return;
    for (int32_t k = 0; k < net->n_limits; k++)
        for (int32_t r = 0; r < lowered->n_roles; r++) {
            const cost_moment *here = &at[of->built.moment[k]];
            if (lowered->roles[r].stages[0] != here->stage)
                continue;
            t->moments++;
            if (sums.bytes[k] <= lowered->roles[r].arena_bytes)
                continue;
            printf("# %s: %lld bytes at %s, arena %lld\n", case_text(c),
                   (long long)sums.bytes[k],
                   of->layout.graph->nodes.at[here->node].name,
                   (long long)lowered->roles[r].arena_bytes);
            t->bad_arena++;
        }
}

/* Its network, all of whose moments are limits, none of which binds. */
static bool build_bare(again_case *c, search_level0 *z, search_candidate *of)
{
    fs_err err = {0};
    if (search_lay_out(z, of, &err) != FS_OK)
        return false;
    of->shown.end = z->end;
    for (int32_t i = 0; i < of->shown.n_stages; i++)
        of->shown.limit_bytes[i] = 0;
    return search_build_nodes(&c->problem, &of->shown, c->arena, &of->built) &&
           of->built.empty < 0 && search_build_edges(c->arena, &of->built);
}

/* Moments at which readers pay that hold most in one plan: of others too. */
static void check_payers(again_case *c, const hw_cluster *cluster,
                         search_level0 *z, search_candidate *of,
                         const search_lean *lean, tally *t)
{
    search_candidate again = *of;
    const search_lowered as = {fs_new(c->arena, int64_t, of->n_stages),
                               fs_new(c->arena, int64_t, of->n_stages),
                               fs_new(c->arena, int32_t, of->n_stages)};
    const search_lean_plan *first = &lean->plans.at[0];
    const search_kept whole = search_whole_plan(
        z, of, &of->built, &(search_mix){.value = first->value}, first->cost);
    again.built = (search_built){0};
    search_fit fit = {as.bytes, as.fullest, false, false};
    if (search_fits_or(&c->problem, whole.graph, as.limit, whole.strategy,
                       &fit) ||
        !search_note_missing(z, of, &whole, &as) || !build_bare(c, z, &again))
        return;
    t->missing += z->missing.n;
    for (int32_t k = 0; k < lean->plans.n; k += 1 + lean->plans.n / 3)
        check_arenas(c, cluster, z, &again, &lean->plans.at[k], t);
}

static void check_lean(again_case *c, const hw_cluster *cluster, tally *t)
{
    search_level0 z = {.problem = &c->problem,
                       .arena = c->arena,
                       .scratch = c->arena,
                       .start_ns = fs_now_ns(),
                       .best_s = INFINITY};
    search_candidate of = {.graph = &c->graph,
                           .n_stages = c->stages,
                           .depth = 1,
                           .mesh = {.n = 1},
                           .share = 1,
                           .again = true,
                           .whole = true,
                           .arena = c->arena};
    search_lean lean = {0};
    of.mesh.dim[0] = cluster->n_devices / c->stages;
    of.mesh.n = of.mesh.dim[0] > 1;
    z.end = fs_end_after(z.start_ns, 1e8, NULL);
    c->problem.again = again_of;
    search_rates_for(&z, 1, 1);
    if (!build_bare(c, &z, &of))
        return;
    search_lean_plans(
        &of.built.net,
        &(search_lean_wish){.limit = INT64_MAX, .below_s = INFINITY},
        fs_deadline_after(FS_STEPS_PER_S, &of.steps, z.end), c->arena, &lean);
    for (int32_t k = 0; k < lean.plans.n; k += 1 + lean.plans.n / 6)
        check_arenas(c, cluster, &z, &of, &lean.plans.at[k], t);
    if (lean.plans.n)
        check_payers(c, cluster, &z, &of, &lean, t);
}

static void check_memory(again_case *c, const hw_cluster *cluster, tally *t)
{
    c->problem.known = search_known_create();
    check_lean(c, cluster, t);
    search_known_destroy(c->problem.known);
    c->problem.known = NULL;
}

/* ---- all of a case ---- */

static void compare(again_case *c, const hw_cluster *cluster,
                    const ir_graph *plain, uint64_t *rng, tally *t)
{
    search_result none, chosen, other;
    ask(c, plain, false, &none);
    ask(c, c->all, false, &other);
    ask(c, plain, true, &chosen);
    t->plans += chosen.strategy != NULL;
    if (chosen.strategy)
        check_plan(c, cluster, &chosen, t);
    hold_bound(c, &chosen, &none, t);
    hold_bound(c, &chosen, &other, t);
    const double best = fmin(none.iteration_s, other.iteration_s);
    if (isfinite(best)) {
        const double by = chosen.iteration_s / best - 1;
        t->worse += by > 1e-3;
        t->worst = fmax(t->worst, by);
        t->best = fmin(t->best, by);
        if (by > 1e-3)
            printf("# %s: %.6g, without %.6g, with all %.6g\n", case_text(c),
                   chosen.iteration_s, none.iteration_s, other.iteration_s);
    }
    for (int32_t k = 0; k < OTHERS; k++) {
        ask(c, draw_other(c, rng), false, &other);
        hold_bound(c, &chosen, &other, t);
    }
    c->graph = (search_graph){plain->micro_batches, plain, NULL};
}

static void run_case(uint64_t seed, tally *t)
{
    fs_arena *arena = fs_arena_create();
    again_case c = draw_case(seed, arena);
    hw_cluster *cluster = open_cluster(c.cluster, arena);
    uint64_t rng = fs_mix(seed + 99);
    ir_graph *plain = NULL;
    fs_err err = {0};
    search_result free;
    if (build(&c, "", "", &err, &plain) == FS_OK &&
        (build(&c, "", "block", &err, &c.all) == FS_OK ||
         build(&c, "", "cheap", &err, &c.all) == FS_OK)) {
        c.problem = (search_problem){.cluster = cluster,
                                     .cost = cost_model_create(cluster, arena),
                                     .n_graphs = 1,
                                     .graphs = &c.graph,
                                     .engine = "ilp",
                                     .schedule = c.schedule,
                                     .fix_stages = c.stages,
                                     .fix_mesh = {.n = -1},
                                     .max_mesh_axes = 1,
                                     .time_limit_s = 20,
                                     .effort_s = 0.25,
                                     .gap = 1e-3,
                                     .reduce = true};
        t->cases++;
        if (ask(&c, plain, false, &free) == FS_OK) {
            c.problem.memory_bytes =
                (int64_t)(c.share * (double)peak_of(&free));
            t->limited++;
            compare(&c, cluster, plain, &rng, t);
            check_memory(&c, cluster, t);
        }
        ir_graph_destroy(c.all);
    }
    ir_graph_destroy(plain);
    fs_arena_destroy(arena);
}

/* ---- whatever the memory ---- */

enum { DRAWN = 400 };

/* The best of a graph on one stage of all devices; INFINITY: none. */
static double best_of(search_level0 *z, search_candidate *of)
{
    fs_err err = {0};
    search_solution found;
    of->whole = true;
    of->arena = z->arena;
    if (search_lay_out(z, of, &err) != FS_OK)
        return INFINITY;
    of->shown.end = z->end;
    of->shown.seconds_only = true;
    if (!search_build_nodes(z->problem, &of->shown, of->arena, &of->built) ||
        of->built.empty >= 0 || !search_build_edges(of->arena, &of->built))
        return INFINITY;
    const search_budget budget = {
        .deadline = fs_deadline_after(5 * FS_STEPS_PER_S, &of->steps, z->end),
        .cutoff = INFINITY,
        .reduce = true};
    const fs_status status = search_engine_find("ilp")(&of->built.net, &budget,
                                                       of->arena, &err, &found);
    return status == FS_OK ? found.cost : INFINITY;
}

/* What is said of a graph without copies holds for all choices of them
 * (search_ask_again), if these only add seconds: what is computed again as it
 * is wanted might save more boxing than it takes. */
static void draw_and_compare(uint64_t seed, int32_t *n, int32_t *n_less)
{
    fs_arena *arena = fs_arena_create();
    uint64_t rng = fs_mix(seed), graph_seed = fs_mix(seed + 7);
    const char *text = ONE_OF(&rng, "1x2:cpu", "2x1:a100-sxm4-80g", "1x4:l4",
                              "2x2:l4", "1x8:l4", "4x1:h100-sxm5-80g");
    const search_draw draw = {true, (int32_t)fs_rand_below(&rng, 12),
                              64 << (2 * fs_rand_below(&rng, 5)), 1, false};
    uint64_t same = graph_seed;
    again_case c = {.arena = arena};
    ir_graph *plain = search_draw_graph(&graph_seed, &draw);
    fs_err err = {0};
    c.all = search_draw_graph(&same, &draw);
    FS_ASSERT(ir_recompute(c.all, ".", &err) == FS_OK);
    hw_cluster *cluster = open_cluster(text, arena);
    c.graph = (search_graph){plain->micro_batches, plain, NULL};
    c.problem = (search_problem){.cluster = cluster,
                                 .cost = cost_model_create(cluster, arena),
                                 .n_graphs = 1,
                                 .graphs = &c.graph,
                                 .engine = "ilp",
                                 .schedule = "1f1b",
                                 .fix_mesh = {.n = -1},
                                 .max_mesh_axes = 1,
                                 .reduce = true,
                                 .again = again_of,
                                 .again_ctx = &c,
                                 .known = search_known_create()};
    search_level0 z = {.problem = &c.problem,
                       .arena = arena,
                       .scratch = arena,
                       .start_ns = fs_now_ns(),
                       .best_s = INFINITY};
    z.end = fs_end_after(z.start_ns, 1e8, NULL);
    search_rates_for(&z, 1, 1);
    search_candidate none = {
        .graph = &c.graph, .n_stages = 1, .depth = 1, .share = 1};
    none.mesh = (ir_mesh){.n = 1, .dim = {cluster->n_devices}};
    search_candidate chosen = none;
    chosen.again = true;
    const double least = best_of(&z, &none), other = best_of(&z, &chosen);
    *n += isfinite(least) && isfinite(other);
    if (other < least * (1 - 1e-9)) {
        printf("# draw %llu on %s: %.12g, with copies %.12g\n",
               (unsigned long long)seed, text, least, other);
        ++*n_less;
    }
    search_known_destroy(c.problem.known);
    ir_graph_destroy(plain);
    ir_graph_destroy(c.all);
    fs_arena_destroy(arena);
}

static void test_copies_add(void)
{
    int32_t n = 0, n_less = 0;
    for (uint64_t seed = 1; seed <= DRAWN; seed++)
        draw_and_compare(seed, &n, &n_less);
    tap_ok(
        n > DRAWN / 2 && n_less == 0,
        "of %d networks none is faster when what is computed again is chosen",
        n);
}

int main(void)
{
    tally t = {0};
    const char *cases = getenv("FS_CASES"), *only = getenv("FS_SEED");
    const int32_t n = only ? 1 : cases ? atoi(cases) : CASES;
    const uint64_t first = only ? strtoull(only, NULL, 10) : 1;
    printf("# seeds from %llu (FS_SEED=n runs one)\n",
           (unsigned long long)first);
    for (int32_t k = 0; k < n; k++)
        run_case(first + (uint64_t)k, &t);
    printf("# %d cases, %d limited, %d plans, %d of them with a choice (%d of "
           "some), %d others, %d moments, %d of misfits; against none and all "
           "%.3g to %.3g %%, %d worse by 0.1 %%\n",
           t.cases, t.limited, t.plans, t.chose, t.some, t.others, t.moments,
           t.missing, 100 * t.best, 100 * t.worst, t.worse);
    tap_ok(t.limited > 0 && t.plans > 0, "plans were found");
    tap_ok(t.bad_bound == 0, "no other choice has a plan below the bound");
    tap_ok(t.bad_claim == 0, "what is claimed is what cost_strategy says");
    tap_ok(t.bad_graph == 0, "the names told make the plan's graph again");
    tap_ok(t.bad_check == 0, "plans are sound");
    tap_ok(t.bad_arena == 0, "no moment holds more than the arena");
    if (!only)
        test_copies_add();
    return tap_done();
}
