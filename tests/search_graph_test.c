/* Whole searches on random small graphs: the exhaustive engine against the
 * ilp, recomputed by the cost model; recipes; what is infeasible. */
#include "config.h"
#include "search/recipe/recipe.h"

#include "base/hash.h"
#include "ir/losses.h"
#include "ir/train.h"
#include "search_cluster.h"
#include "search_draw.h"
#include "tap.h"

enum { GRAPHS = 560 };

/* ---- searches ---- */

typedef struct bench {
    fs_arena *arena;
    search_graph graph;
    search_problem problem;
} bench;

static void open_bench(bench *b, const hw_cluster *cluster, ir_graph *graph,
                       const char *engine)
{
    b->arena = fs_arena_create();
    b->graph = (search_graph){graph->micro_batches, graph, NULL};
    b->problem = (search_problem){
        .cluster = cluster,
        .cost = cost_model_create(cluster, b->arena),
        .n_graphs = 1,
        .graphs = &b->graph,
        .engine = engine,
        .schedule = "1f1b",
        .fix_mesh = {.n = -1},
        .max_mesh_axes = 2,
        .time_limit_s = 60,
        .reduce = true,
    };
}

/* The cost model's own figure for a result's strategy. */
static double recomputed(const bench *b, const search_result *result)
{
    cost_summary summary = {0};
    fs_err err = {0};
    fs_status status =
        cost_strategy(b->problem.cost, result->graph, result->strategy,
                      b->arena, &err, &summary);
    return status == FS_OK ? summary.iteration_s : -1;
}

static bool same(double a, double b)
{
    return fabs(a - b) <= 1e-12 * fabs(b);
}

typedef struct tally {
    int graphs, refused, bad_cost, bad_claim, bad_status, greedy_better;
    int pipelined;
} tally;

static void compare(tally *t, const hw_cluster *cluster, ir_graph *graph,
                    int32_t stages)
{
    static const char *const engines[] = {"exhaustive", "ilp", "greedy"};
    double cost[3] = {0};
    bench b;
    for (int e = 0; e < 3; e++) {
        fs_err err = {0};
        search_result result;
        open_bench(&b, cluster, graph, engines[e]);
        b.problem.fix_stages = stages;
        fs_status status = search_run(&b.problem, b.arena, &err, &result);
        if (status != FS_OK) {
            printf("# %s: %s\n", engines[e], err.text);
            fs_arena_destroy(b.arena);
            t->refused++;
            return;
        }
        cost[e] = result.iteration_s;
        const double s = recomputed(&b, &result);
        t->bad_claim += s < result.iteration_s || s > result.iteration_s;
        t->bad_status += e < 2 && strcmp(result.status, "optimal") != 0;
        fs_arena_destroy(b.arena);
    }
    t->graphs++;
    t->pipelined += stages > 1;
    t->greedy_better += cost[2] < cost[0] * (1 - 1e-9);
    if (!same(cost[1], cost[0])) {
        printf("# exhaustive %.15g, ilp %.15g\n", cost[0], cost[1]);
        t->bad_cost++;
    }
}

/* Graphs of up to 10 ops where the oracle can: two devices, or two stages of
 * two; smaller ones on meshes of two axes. */
static void test_engines(uint64_t seed, fs_arena *arena)
{
    static const struct {
        const char *cluster;
        int32_t stages;
        int most;
    } settings[] = {{"1x2:cpu", 1, 10},
                    {"1x4:cpu", 1, 4},
                    {"2x2:a100-sxm4-80g", 1, 4},
                    {"1x4:cpu", 2, 10}};
    tally t = {0};
    for (int i = 0; i < GRAPHS; i++) {
        uint64_t rng = fs_mix(seed + (uint64_t)i);
        int which = i % 4;
        bool train = i % 8 >= 4 && (which == 0 || which == 3);
        const search_draw draw = {.train = train,
                                  .most = train ? 0 : settings[which].most,
                                  .rows = 64};
        ir_graph *graph = search_draw_graph(&rng, &draw);
        FS_ASSERT(graph->err.status == FS_OK);
        /* Two stages need enough forward nodes. */
        int32_t stages = graph->nodes.n > 6 ? settings[which].stages : 1;
        compare(&t, open_cluster(settings[which].cluster, arena), graph,
                stages);
        ir_graph_destroy(graph);
    }
    printf("# %d graphs compared, %d of them in two stages, %d refused\n",
           t.graphs, t.pipelined, t.refused);
    tap_ok(t.graphs >= 500, "at least 500 graphs were compared");
    tap_ok(t.pipelined >= 20, "some of them in two stages");
    tap_equal_int(t.bad_cost, 0, "search: ilp equals exhaustive");
    tap_equal_int(t.bad_status, 0, "search: both prove their optimum");
    tap_equal_int(t.bad_claim, 0,
                  "search: claims are cost_strategy's, to the bit");
    tap_equal_int(t.greedy_better, 0, "search: greedy is never better");
}

/* ---- recipes ---- */

/* Two layers, Adam: x (64, 128) -> 256 -> 32. */
static ir_graph *mlp(int32_t micro_batches)
{
    ir_graph *g = ir_graph_create("mlp");
    int32_t x = ir_input(g, "x", IR_F32, search_shape2(64, 128), 0);
    int32_t t = ir_input(g, "t", IR_F32, search_shape2(64, 32), 0);
    int32_t h = ir_matmul(g, x, search_new_weight(g, 128, 256), false, false);
    h = ir_unary(g, IR_OP_gelu, h);
    int32_t y = ir_matmul(g, h, search_new_weight(g, 256, 32), false, false);
    g->loss = ir_mse(g, y, t);
    ir_train_options options = ir_train_defaults();
    fs_err err = {0};
    options.optimizer = IR_ADAM;
    options.micro_batches = micro_batches;
    FS_ASSERT(ir_train(g, &options, &err) == FS_OK);
    g->batch = 64 * (int64_t)micro_batches;
    return g;
}

static search_result plan_recipe(bench *b, const hw_cluster *cluster,
                                 ir_graph *graph, const char *text)
{
    fs_err err = {0};
    search_recipe recipe = search_recipe_free();
    search_result result = {0};
    open_bench(b, cluster, graph, "ilp");
    if (search_recipe_parse(text, b->arena, &err, &recipe) == FS_OK &&
        search_recipe_complete(cluster, graph->batch, true, &err, &recipe) ==
            FS_OK) {
        search_recipe_apply(&recipe, b->arena, &b->problem);
        search_run(&b->problem, b->arena, &err, &result);
    }
    if (err.status != FS_OK)
        printf("# %s: %s\n", text, err.text);
    return result;
}

/* SBP kinds on `axis` of the variables of a role: 'B', 'S', or '?' when they
 * differ or there are none. */
static char kind_of(const search_result *r, ir_role role, int32_t axis)
{
    char kind = 0;
    for (int32_t v = 0; v < r->graph->nodes.n; v++) {
        const ir_node *node = &r->graph->nodes.at[v];
        if (node->n_out == 0 || r->graph->tensors.at[node->out[0]].role != role)
            continue;
        ir_sbp sbp = r->strategy->sig[v].out[0].at[axis];
        char here = sbp.kind == IR_B ? 'B' : sbp.kind == IR_S ? 'S' : 'P';
        kind = kind && kind != here ? '?' : here;
    }
    return kind ? kind : '?';
}

static void test_parallel_recipes(fs_arena *arena)
{
    static const struct {
        const char *recipe, *cluster;
        char input[2], param[2], state[2]; /* per mesh axis */
        int32_t axes;
    } cases[] = {
        {"dp=2", "1x2:cpu", {'S'}, {'B'}, {'B'}, 1},
        {"dp=2,zero=1", "1x2:cpu", {'S'}, {'B'}, {'S'}, 1},
        {"dp=2,zero=3", "1x2:cpu", {'S'}, {'S'}, {'S'}, 1},
        {"tp=2", "1x2:cpu", {'B'}, {'S'}, {'?'}, 1},
        {"dp=2,tp=2", "1x4:cpu", {'S', 'B'}, {'B', 'S'}, {'B', '?'}, 2},
        {"dp=2,tp=2,zero=1", "1x4:cpu", {'S', 'B'}, {'B', 'S'}, {'S', '?'}, 2},
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        bench b;
        ir_graph *graph = mlp(1);
        search_result r = plan_recipe(&b, open_cluster(cases[c].cluster, arena),
                                      graph, cases[c].recipe);
        bool good = r.strategy && r.strategy->stages[0].mesh.n == cases[c].axes;
        for (int32_t a = 0; good && a < cases[c].axes; a++)
            good = kind_of(&r, IR_INPUT, a) == cases[c].input[a] &&
                   kind_of(&r, IR_PARAM, a) == cases[c].param[a] &&
                   (cases[c].state[a] == '?' ||
                    kind_of(&r, IR_STATE, a) == cases[c].state[a]);
        tap_ok(good, "recipe %s: inputs, parameters and state lie as it says",
               cases[c].recipe);
        fs_arena_destroy(b.arena);
        ir_graph_destroy(graph);
    }
}

static void test_pipeline_recipe(fs_arena *arena)
{
    bench b;
    ir_graph *graph = mlp(4);
    search_result r = plan_recipe(&b, open_cluster("1x2:cpu", arena), graph,
                                  "pp=2,micro-batches=4");
    bool ordered = r.strategy != NULL, home = ordered, both = false;
    for (int32_t v = 0; ordered && v < graph->nodes.n; v++) {
        const ir_node *node = &graph->nodes.at[v];
        int32_t stage = r.strategy->stage_of[v];
        both |= stage == 1;
        for (int32_t k = 0; k < node->n_in; k++) {
            int32_t from = graph->tensors.at[node->in[k]].producer;
            int32_t before = r.strategy->stage_of[from];
            if (node->phase == IR_FORWARD)
                ordered &= before <= stage;
            else if (graph->nodes.at[from].phase == IR_BACKWARD)
                ordered &= before >= stage;
        }
        if (node->phase == IR_UPDATE && node->forward >= 0)
            home &= stage == r.strategy->stage_of[node->forward];
    }
    tap_ok(ordered && both, "recipe pp=2: forward goes down, backward up");
    tap_ok(home, "recipe pp=2: updates stay with their variables");
    fs_arena_destroy(b.arena);
    ir_graph_destroy(graph);
}

static void test_bad_recipes(fs_arena *arena)
{
    static const char *const bad[] = {
        "dp",    "dp=0",  "dp=2,xp=2", "zero=4", "schedule=none",
        "dp=2x", "dp=-1", ""};
    static const char *const wrong[] = {
        "dp=3", "dp=2,tp=2,pp=2", "micro-batches=7",
        "micro-batch=4,micro-batches=2", "dp=4,micro-batches=4"};
    hw_cluster *cluster = open_cluster("1x4:cpu", arena);
    for (size_t k = 0; k < sizeof bad / sizeof bad[0]; k++) {
        search_recipe recipe = search_recipe_free();
        fs_err err = {0};
        tap_ok(search_recipe_parse(bad[k], arena, &err, &recipe) ==
                       FS_INVALID &&
                   err.text[0],
               "recipe '%s' is refused", bad[k]);
    }
    for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
        search_recipe recipe = search_recipe_free();
        fs_err err = {0};
        tap_ok(search_recipe_parse(wrong[k], arena, &err, &recipe) == FS_OK &&
                   search_recipe_complete(cluster, 8, false, &err, &recipe) ==
                       FS_INVALID,
               "recipe '%s' does not fit 4 devices and a batch of 8", wrong[k]);
    }
}

/* ---- limits and mistakes ---- */

static void test_memory(fs_arena *arena)
{
    bench b;
    ir_graph *graph = mlp(1);
    hw_cluster *cluster = open_cluster("1x2:cpu", arena);
    fs_err err = {0};
    search_result free_result, tight, none;
    open_bench(&b, cluster, graph, "ilp");
    search_run(&b.problem, b.arena, &err, &free_result);
    int64_t peak = 0;
    for (int32_t k = 0; k < free_result.n_configs; k++)
        if (free_result.configs[k].peak_bytes > peak)
            peak = free_result.configs[k].peak_bytes;
    b.problem.memory_bytes = peak - 1;
    fs_status less = search_run(&b.problem, b.arena, &err, &tight);
    tap_ok(less == FS_NO || tight.iteration_s >= free_result.iteration_s,
           "memory: a byte less never helps");
    b.problem.memory_bytes = 1000;
    err = (fs_err){0};
    tap_equal_int(search_run(&b.problem, b.arena, &err, &none), FS_NO,
                  "memory: 1000 bytes are not enough");
    tap_equal_text(none.status, "infeasible", "memory: the status says so");
    tap_ok(strstr(err.text, "needs at least"),
           "memory: the message says how much would do");
    printf("# %s\n", err.text);
    fs_arena_destroy(b.arena);
    ir_graph_destroy(graph);
}

/* A share of a limit is a smaller limit; without time nothing is claimed. */
static void test_shares(fs_arena *arena)
{
    bench b;
    ir_graph *graph = mlp(1);
    fs_err err = {0};
    search_result half, whole, none;
    open_bench(&b, open_cluster("1x2:cpu", arena), graph, "ilp");
    b.problem.memory_bytes = 1 << 20;
    search_run(&b.problem, b.arena, &err, &whole);
    b.problem.memory_bytes = 2 << 20;
    b.problem.memory_share = 0.5;
    search_run(&b.problem, b.arena, &err, &half);
    tap_near(half.iteration_s, whole.iteration_s, 0,
             "memory: half of two MiB is one");
    b.problem.time_limit_s = 1e-9;
    err = (fs_err){0};
    tap_equal_int(search_run(&b.problem, b.arena, &err, &none), FS_NO,
                  "no time: nothing is found");
    tap_ok(strstr(err.text, "allow more time") &&
               strcmp(none.status, "limit") == 0 &&
               !strstr(err.text, "no plan") && none.lower_bound_s <= 0,
           "no time: nothing is proven");
    printf("# %s\n", err.text);
    fs_arena_destroy(b.arena);
    ir_graph_destroy(graph);
}

/* Two devices, a layer of 40,000 classes: the logits stay cut by class, the
 * largest of a row is put together from P(max). */
static void test_large_classes(fs_arena *arena)
{
    bench b;
    ir_graph *g = ir_graph_create("head");
    int32_t x = ir_input(g, "x", IR_F32, search_shape2(64, 128), 0);
    int32_t labels = ir_input(g, "y", IR_I64, (ir_shape){1, {64}}, 0);
    int32_t logits =
        ir_matmul(g, x, search_new_weight(g, 128, 40000), false, false);
    const ir_label_loss of = {.labels = labels, .weights = -1};
    g->loss = ir_cross_entropy_parts(g, logits, &of);
    ir_train_options options = ir_train_defaults();
    fs_err err = {0};
    search_result r = {0};
    bool cut = false;
    ir_train(g, &options, &err);
    g->batch = 64;
    open_bench(&b, open_cluster("1x2:cpu", arena), g, "ilp");
    tap_equal_int(search_run(&b.problem, b.arena, &err, &r), FS_OK,
                  "many classes: a plan is found %s", err.text);
    for (int32_t v = 0; r.strategy && v < r.graph->nodes.n; v++)
        cut |= r.graph->nodes.at[v].op == IR_OP_reduce_max &&
               r.strategy->sig[v].out[0].at[0].kind == IR_PMAX;
    tap_ok(cut, "many classes: the layer and its softmax are cut by class");
    fs_arena_destroy(b.arena);
    ir_graph_destroy(g);
}

static void test_mistakes(fs_arena *arena)
{
    bench b;
    ir_graph *graph = mlp(1);
    fs_err err = {0};
    search_result r;
    open_bench(&b, open_cluster("1x2:cpu", arena), graph, "best");
    tap_equal_int(search_run(&b.problem, b.arena, &err, &r), FS_INVALID,
                  "an unknown engine is refused");
    b.problem.engine = "ilp";
    b.problem.schedule = "fastest";
    err = (fs_err){0};
    tap_equal_int(search_run(&b.problem, b.arena, &err, &r), FS_INVALID,
                  "an unknown schedule is refused");
    b.problem.schedule = "1f1b";
    b.problem.fix_stages = 3;
    err = (fs_err){0};
    tap_equal_int(search_run(&b.problem, b.arena, &err, &r), FS_NO,
                  "three stages do not divide two devices");
    fs_arena_destroy(b.arena);
    ir_graph_destroy(graph);
}

/* The same question twice: the same strategy to the byte. */
static void test_determinism(fs_arena *arena)
{
    bench one, two;
    ir_graph *graph = mlp(2);
    hw_cluster *cluster = open_cluster("1x4:cpu", arena);
    fs_err err = {0};
    search_result a = {0}, b = {0};
    open_bench(&one, cluster, graph, "ilp");
    open_bench(&two, cluster, graph, "ilp");
    search_run(&one.problem, one.arena, &err, &a);
    search_run(&two.problem, two.arena, &err, &b);
    size_t bytes = (size_t)graph->nodes.n * sizeof *a.strategy->sig;
    tap_ok(a.strategy && b.strategy &&
               memcmp(a.strategy->sig, b.strategy->sig, bytes) == 0,
           "search: the same question has the same answer");
    tap_ok(a.lower_bound_s <= a.iteration_s * (1 + 1e-9) && a.n_configs > 2,
           "search: the bound is below the cost");
    fs_arena_destroy(one.arena);
    fs_arena_destroy(two.arena);
    ir_graph_destroy(graph);
}

int main(void)
{
    fs_arena *arena = fs_arena_create();
    uint64_t seed = tap_seed(7);
    test_engines(seed, arena);
    test_parallel_recipes(arena);
    test_pipeline_recipe(arena);
    test_bad_recipes(arena);
    test_memory(arena);
    test_shares(arena);
    test_large_classes(arena);
    test_mistakes(arena);
    test_determinism(arena);
    fs_arena_destroy(arena);
    return tap_done();
}
