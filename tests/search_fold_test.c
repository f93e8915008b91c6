/* Folded networks (src/search/view.h) against whole ones, on random networks of
 * equal layers, clusters, stages, limits and cuts: what a folded search claims
 * holds for the whole graph. */
#include "config.h"
#include "search/attempt.h"
#include "search/kept.h"
#include "search/known.h"
#include "search/lay_out.h"
#include "search/narrow.h"
#include "search/recipe.h"

#include "base/hash.h"
#include "cost/parts.h"
#include "ir/blocks.h"
#include "ir/recompute.h"
#include "ir/rewrite.h"
#include "ir/train.h"
#include "plan/lower.h"
#include "search_cluster.h"
#include "tap.h"
#include "zoo/zoo.h"

enum { CASES = 48, MOST_STAGES = 16 };
#define TOLERANCE 1e-9

typedef struct fold_case {
    uint64_t seed;
    const char *model, *cluster, *precision, *recompute, *schedule, *recipe;
    bool clips;
    int64_t samples; /* of a micro-batch */
    int32_t m, stages, axes, interleave;
    ir_mesh mesh;
    double share; /* of the peak: a memory limit; 0: none */
    bool cut;     /* at random, not by time */
} fold_case;

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

static int64_t below(uint64_t *rng, int64_t n)
{
    return fs_rand_below(rng, n);
}

static const char *one_of(uint64_t *rng, const char *const *list, int64_t n)
{
    return list[below(rng, n)];
}
#define ONE_OF(rng, ...)                                                       \
    one_of(rng, (const char *const[]){__VA_ARGS__},                            \
           sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

/* ---- a case ---- */

/* Enough for most to be folded (lay_out.c, MUCH): three of each stage's are
 * kept, or four of many stages of one. */
static int draw_layers(uint64_t *rng, int32_t stages)
{
    if (stages > 8)
        return stages + (int)below(rng, 3);
    if (stages > 3)
        return 3 + (int)below(rng, 10);
    return stages * (8 - stages + (int)below(rng, 4));
}

static const char *draw_model(uint64_t *rng, int32_t stages, fs_arena *arena)
{
    const int layers = draw_layers(rng, stages);
    const int hidden = 32 << below(rng, 2);
    const int heads = 2 << below(rng, 2);
    const int seq = 16 << below(rng, 2);
    switch (below(rng, 11)) {
    case 0:
    case 1:
        return fs_printf(arena,
                         "zoo:gpt,layers=%d,hidden=%d,heads=%d,vocab=%d,seq=%d",
                         layers, hidden, heads, 64 << below(rng, 5), seq);
    case 2:
        return fs_printf(
            arena, "zoo:bert,layers=%d,hidden=%d,heads=%d,vocab=96,seq=%d",
            layers, hidden, heads, seq);
    case 3:
    case 4:
        return fs_printf(arena,
                         "zoo:llama,layers=%d,hidden=%d,heads=4,kv_heads=2,ffn="
                         "%d,vocab=128,seq=%d",
                         layers, hidden, 2 * hidden, seq);
    case 5:
        return fs_printf(arena,
                         "zoo:t5,layers=%d,hidden=%d,heads=2,head=16,ffn=%d,"
                         "vocab=64,seq=16,target=16",
                         stages < 3 ? 8 : 4, hidden, 2 * hidden);
    case 6:
        return fs_printf(arena,
                         "zoo:vit,layers=%d,hidden=%d,heads=%d,ffn=%d,patch=8,"
                         "size=32",
                         layers, hidden, heads, 2 * hidden);
    case 7:
        return fs_printf(arena,
                         "zoo:moe,layers=%d,hidden=%d,heads=2,vocab=64,seq=16,"
                         "experts=4,every=%d",
                         8, hidden, 1 + (int)below(rng, 2));
    case 8:
        return ONE_OF(rng, "zoo:resnet,depth=34,width=8,classes=8,size=32",
                      "zoo:resnet,depth=101,width=8,classes=8,size=32");
    case 9:
        return fs_printf(arena, "zoo:unet,depth=%d,width=8,size=32",
                         2 + (int)below(rng, 2));
    default:
        return fs_printf(arena, "zoo:mlp,in=32,hidden=%d,layers=%d,classes=8",
                         hidden, layers + 2);
    }
}

static int32_t draw_divisor(uint64_t *rng, int32_t n, int32_t most)
{
    int32_t d;
    do
        d = 1 + (int32_t)below(rng, n < most ? n : most);
    while (n % d);
    return d;
}

static ir_mesh draw_mesh(uint64_t *rng, int32_t devices, int32_t axes)
{
    ir_mesh mesh = {0};
    while (devices > 1) {
        int32_t d = mesh.n + 1 == axes ? devices : 1;
        while (d == 1)
            d = draw_divisor(rng, devices, devices);
        mesh.dim[mesh.n++] = d;
        devices /= d;
    }
    return mesh;
}

static void draw_place(uint64_t *rng, fs_arena *arena, fold_case *c)
{
    static const struct {
        int32_t nodes, per;
    } sizes[] = {{1, 2}, {1, 4}, {1, 4}, {1, 8}, {2, 4}, {2, 8}, {4, 2}, {8, 1},
                 {1, 3}, {1, 6}, {2, 3}, {3, 4}, {6, 4}, {2, 6}, {4, 4}};
    const size_t k = (size_t)below(rng, sizeof sizes / sizeof *sizes);
    const int32_t devices = sizes[k].nodes * sizes[k].per;
    c->cluster = fs_printf(
        arena, "%dx%d:%s", (int)sizes[k].nodes, (int)sizes[k].per,
        ONE_OF(rng, "cpu", "a100-sxm4-80g", "h100-sxm5-80g", "l4", "l40s"));
    c->stages = draw_divisor(rng, devices, MOST_STAGES);
    c->axes = 1 + (int32_t)below(rng, devices / c->stages > 8 ? 2 : 3);
    c->mesh = draw_mesh(rng, devices / c->stages, c->axes);
}

/* What a recipe says of a mesh of one axis. */
static const char *draw_recipe(uint64_t *rng, fs_arena *arena,
                               const fold_case *c)
{
    const int d = c->mesh.dim[0];
    const char *way = ONE_OF(rng, "dp=%d", "tp=%d", "dp=%d,zero=1",
                             "dp=%d,zero=3", "tp=%d,seq-parallel=1");
    return fs_printf(arena, "%s=%d%s,pp=%d,micro-batches=%d",
                     way[0] == 'd' ? "dp" : "tp", d, way + 5, (int)c->stages,
                     (int)c->m);
}

static fold_case draw_case(uint64_t seed, fs_arena *arena)
{
    uint64_t rng = fs_mix(seed);
    fold_case c = {.seed = seed};
    draw_place(&rng, arena, &c);
    c.model = draw_model(&rng, c.stages, arena);
    const bool blocks = !strstr(c.model, "unet") && !strstr(c.model, "mlp");
    const bool heads = blocks && !strstr(c.model, "resnet");
    c.m = 1 << below(&rng, 4);
    c.samples = 4 << below(&rng, 2);
    c.precision = ONE_OF(&rng, "fp32", "fp32", "bf16", "fp16");
    c.recompute = ONE_OF(&rng, "", "", "cheap");
    if (heads)
        c.recompute = ONE_OF(&rng, "", "", "block", "selective", "cheap");
    c.schedule =
        ONE_OF(&rng, "1f1b", "1f1b", "gpipe", "zb-h1", "zb-h2", "dynamic");
    c.clips = below(&rng, 3) == 0;
    c.cut = c.stages > 1 && below(&rng, 3) == 0;
    c.interleave = 1;
    if (c.mesh.n == 1 && below(&rng, 3) == 0) {
        c.recipe = draw_recipe(&rng, arena, &c);
    } else if (c.stages > 1 && c.stages <= 4 && below(&rng, 6) == 0) {
        c.interleave = 2;
        c.schedule = "interleaved";
        c.m = 2 * c.stages;
        c.cut = false;
    }
    /* Small enough for limits that bind. */
    const int64_t size = ir_mesh_size(&c.mesh);
    if (below(&rng, 2) && size <= 4 && c.mesh.n < 3 && heads)
        c.share = 0.3 + 0.75 * fs_rand_unit(&rng);
    return c;
}

static const char *case_text(const fold_case *c, fs_arena *arena)
{
    fs_text mesh = {.arena = arena};
    fs_text_add(&mesh, "%s", "");
    for (int32_t a = 0; a < c->mesh.n; a++)
        fs_text_add(&mesh, "%s%d", a ? "x" : "", (int)c->mesh.dim[a]);
    return fs_printf(arena,
                     "seed %llu: %s on %s, %d x (%s), m %d of %d, %s, %s%s%s%s"
                     "%s, share %.2f",
                     (unsigned long long)c->seed, c->model, c->cluster,
                     (int)c->stages, mesh.at, (int)c->m, (int)c->samples,
                     c->schedule, c->precision, c->clips ? ", clipped" : "",
                     *c->recompute ? ", recompute " : "", c->recompute,
                     c->cut              ? ", cut at random"
                     : c->interleave > 1 ? ", interleaved"
                     : c->recipe         ? fs_printf(arena, ", %s", c->recipe)
                                         : "",
                     c->share);
}

static fs_status build(const fold_case *c, fs_err *err, ir_graph **out)
{
    ir_train_options options = ir_train_defaults();
    ir_rewrite_options rewrites;
    ir_dtype narrow;
    FS_TRY(zoo_build(c->model, c->samples, err, out));
    FS_TRY(ir_rewrite_parse("usual", err, &rewrites));
    ir_rewrite(*out, &rewrites);
    FS_TRY(ir_precision_parse(c->precision, err, &narrow));
    ir_rewrite_precision(*out, narrow);
    FS_TRY(ir_loss_scale_parse("", narrow, err, &options.loss_scale));
    options.optimizer = IR_ADAMW;
    options.micro_batches = c->m;
    options.clip_norm = c->clips ? 1 : 0;
    options.recompute = c->recompute;
    FS_TRY(ir_train(*out, &options, err));
    ir_rewrite_step(*out, &rewrites);
    (*out)->batch = c->samples * c->m;
    return FS_OK;
}

/* ---- what is asked ---- */

typedef struct asked {
    fs_arena *arena;
    hw_cluster *cluster;
    search_graph graph;
    search_problem problem;
    search_recipe recipe;
    search_layers layers[MOST_STAGES];
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
            a->layers[below(rng, stages)].blocks++;
        const int64_t halves = below(rng, 3);
        for (int32_t p = 0; p + 1 < stages && halves; p++)
            if (below(rng, 2))
                a->layers[p].nodes = (int32_t)below(rng, 10);
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
    printf("# %s: %s: %.12g, %.12g (%+.3g %%)\n", case_text(c, a->arena), what,
           got, wanted, 100 * (got / wanted - 1));
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
                   case_text(c, a->arena), folded->status);
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
        t->worst_case = case_text(c, a->arena);
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
    return even.record.lower_bound_s;
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
        fs_deadline_after(FS_STEPS_PER_S, &of->steps, z->end),
        INFINITY,
        1e-2,
        true,
        0,
        2,
        NULL};
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
    if (search_fits_or(&a->problem, whole->graph, as.limit, whole->strategy,
                       as.bytes, as.fullest) ||
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
    double *reached;
    const double bound = search_press(
        &of.built, true, (t->pressed % 2 ? 1.001 : 2) * whole->iteration_s,
        fs_deadline_after(5 * FS_STEPS_PER_S, &of.steps, z.end), a->arena,
        &prices, &reached);
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
    if (build(c, &err, &graph) != FS_OK) {
        printf("# %s: %s\n", case_text(c, arena), err.text);
        t->refused++;
        ir_graph_destroy(graph);
        return;
    }
    if (open_problem(&a, c, graph, &err) != FS_OK) {
        printf("# %s: %s\n", case_text(c, arena), err.text);
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
        const fold_case c = draw_case(1000 * seed + (uint64_t)i, arena);
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
