/* The search against every baseline, engines and planners, each run on its own
 * under the same cost model: on random chains and small models of the zoo, with
 * all memory and with two thirds of what the best recipe takes; then on random
 * chains under tighter limits with little work, as much for each (FS_SEED=n for
 * others, FS_CASE=n for one, FS_CASES=n for so many). Margins are printed.
 * Baselines whose stages may differ, or that have their own schedules, are
 * outside the space that the search's proof speaks of. */
#include "config.h"
#include "search/planner.h"

#include "base/hash.h"
#include "ir/losses.h"
#include "ir/rewrite.h"
#include "ir/train.h"
#include "search_cluster.h"
#include "tap.h"
#include "zoo/zoo.h"

#include <stdlib.h>
#include <string.h>

enum {
    CHAINS = 12,
    PRESSED = 16,
    MOST_WAYS = 32,
    MOST_GRAPHS = 3,
    SAMPLES = 32,
    MANY_SAMPLES = 256
};

typedef struct bench {
    fs_arena *arena;
    const char *name;
    int32_t n;
    search_graph graphs[MOST_GRAPHS];
    search_problem problem;
} bench;

typedef struct margin {
    int32_t n, none, worse;
    double sum, most; /* of the baseline's seconds over the search's, less 1 */
} margin;

static margin margins[MOST_WAYS];

static ir_graph *train(ir_graph *g, int32_t m, int64_t samples)
{
    fs_err err = {0};
    const ir_rewrite_options rewrites = ir_rewrite_usual();
    ir_train_options options = ir_train_defaults();
    options.micro_batches = m;
    options.optimizer = IR_ADAMW;
    ir_rewrite(g, &rewrites);
    FS_ASSERT(ir_train(g, &options, &err) == FS_OK);
    ir_rewrite_step(g, &rewrites);
    g->batch = samples;
    return g;
}

static ir_graph *from_zoo(const char *spec, int32_t m, int64_t samples)
{
    fs_err err = {0};
    ir_graph *g = NULL;
    FS_ASSERT(zoo_build(spec, samples / m, &err, &g) == FS_OK);
    return train(g, m, samples);
}

/* Layers of unlike widths. */
static ir_graph *chain(uint64_t seed, int32_t m)
{
    static const int64_t widths[] = {32, 64, 200, 512, 2048};
    uint64_t rng = fs_mix(seed);
    ir_graph *g = ir_graph_create("chain");
    const int64_t samples = SAMPLES / m;
    int64_t wide = widths[fs_rand_below(&rng, 5)];
    int32_t x = ir_input(g, "x", IR_F32, (ir_shape){2, {samples, wide}}, 0);
    const int64_t layers = 2 + fs_rand_below(&rng, 3);
    for (int64_t k = 0; k < layers; k++) {
        char name[16];
        const int64_t next =
            k + 1 < layers ? widths[fs_rand_below(&rng, 5)] : 8;
        snprintf(name, sizeof name, "w%d", (int)k);
        const int32_t w =
            ir_parameter(g, name, IR_F32, (ir_shape){2, {wide, next}},
                         (ir_init){.kind = IR_INIT_NORMAL, .spread = 0.1});
        x = ir_matmul(g, x, w, false, false);
        if (fs_rand_below(&rng, 2))
            x = ir_unary(g, IR_OP_gelu, x);
        wide = next;
    }
    g->loss = ir_mse(
        g, x, ir_input(g, "t", IR_F32, (ir_shape){2, {samples, wide}}, 0));
    return train(g, m, SAMPLES);
}

static void begin(bench *b, const char *name, uint64_t seed, int64_t samples,
                  const char *cluster)
{
    *b = (bench){.arena = fs_arena_create(), .name = name};
    const hw_cluster *opened = open_cluster(cluster, b->arena);
    for (int32_t m = 1; m <= 4; m *= 2)
        b->graphs[b->n++] = (search_graph){
            m, seed ? chain(seed, m) : from_zoo(name, m, samples), NULL};
    b->problem = (search_problem){
        .cluster = opened,
        .cost = cost_model_create(opened, b->arena),
        .n_graphs = b->n,
        .graphs = b->graphs,
        .schedule = "1f1b",
        .fix_mesh = {.n = -1},
        .max_mesh_axes = 2,
        .time_limit_s = 120,
        .reduce = true,
    };
}

/* Products as fast as their operations alone make them: the cases of
 * test_without were found so, and whole waves of tiles make them alike. */
static void leave_tiles_out(bench *b)
{
    hw_cluster *cluster = (hw_cluster *)(uintptr_t)b->problem.cluster;
    for (int32_t g = 0; g < cluster->n_groups; g++) {
        hw_device *device = &cluster->groups[g].device;
        device->units = 0;
        device->fp32_efficiency = 0;
        device->matmul_efficiency = 0.8692;
    }
    hw_cluster_finish(cluster);
    b->problem.cost = cost_model_create(cluster, b->arena);
}

static void end(bench *b)
{
    for (int32_t k = 0; k < b->n; k++)
        ir_graph_destroy((ir_graph *)(uintptr_t)b->graphs[k].graph);
    fs_arena_destroy(b->arena);
}

static search_result run(const bench *b, const char *way, const char *start)
{
    search_result r = {0};
    fs_err err = {0};
    search_problem one = b->problem;
    one.engine = way;
    one.start = start;
    if (search_run(&one, b->arena, &err, &r) != FS_OK)
        r.iteration_s = INFINITY;
    return r;
}

static bool inside(const bench *b, const search_result *r)
{
    const plan_strategy *s = r->strategy;
    bool same = strcmp(s->schedule, b->problem.schedule) == 0;
    for (int32_t i = 1; i < s->n_stages; i++)
        same &= plan_same_mesh(&s->stages[i].mesh, &s->stages[0].mesh);
    return same;
}

/* Less work than that is too little for all that is to be looked at. Of what
 * there is the search has a part for each way to a plan, so that an engine
 * which has all of it for one may be better by so much; planners may not, nor
 * may any have a plan where the search has none. */
#define ENOUGH_STEPS 3e8
#define LUCK 0.12

static bool is_pressed(const bench *b)
{
    return b->problem.most_steps > 0;
}

static double allowed(const bench *b, const search_way *way)
{
    return is_pressed(b) && !way->source ? LUCK : 1e-9;
}

static void judge(const bench *b, const search_result *best)
{
    const search_way *way;
    int32_t worse = 0, outside = 0;
    for (int32_t k = 0; (way = search_way_at(k)) != NULL; k++) {
        margin *m = &margins[k];
        if (strcmp(way->name, "ilp") == 0 ||
            strcmp(way->name, "exhaustive") == 0)
            continue;
        const search_result r = run(b, way->name, NULL);
        if (!r.strategy) {
            m->none++;
            continue;
        }
        /* -1: it has a plan and the search has none. */
        const double more =
            best->strategy ? r.iteration_s / best->iteration_s - 1 : -1;
        m->n++;
        m->sum += more;
        m->most = fmax(m->most, more);
        if (more >= -1e-9)
            continue;
        m->worse++;
        outside += !inside(b, &r);
        worse += inside(b, &r) && more < -allowed(b, way);
        printf("# %s: %s %.9g s, search %.9g s (%s), %d stages%s\n", b->name,
               way->name, r.iteration_s, best->iteration_s, best->status,
               r.strategy->n_stages, inside(b, &r) ? "" : ", outside");
    }
    if (is_pressed(b) && b->problem.most_steps < ENOUGH_STEPS)
        printf("# %s: %d baselines are better by more than that\n", b->name,
               (int)worse);
    else
        tap_equal_int(worse, 0,
                      "%s: no baseline in the search's space is better",
                      b->name);
    if (outside)
        printf("# %s: %d better plans outside the space\n", b->name, outside);
}

static int64_t peak(const bench *b, const search_result *r)
{
    cost_summary sum;
    fs_err err = {0};
    int64_t most = 0;
    FS_ASSERT(cost_strategy(b->problem.cost, r->graph, r->strategy, b->arena,
                            &err, &sum) == FS_OK);
    for (int32_t i = 0; i < sum.n_stages; i++)
        most = sum.peak_bytes[i] > most ? sum.peak_bytes[i] : most;
    return most;
}

static void test(const char *name, uint64_t seed, const char *cluster,
                 bool tight)
{
    bench b;
    begin(&b, name, seed, SAMPLES, cluster);
    const search_result best = run(&b, "ilp", "megatron");
    tap_ok(best.strategy != NULL, "%s: it has a plan", name);
    if (best.strategy)
        judge(&b, &best);
    if (best.strategy && tight) {
        b.problem.memory_bytes = peak(&b, &best) * 2 / 3;
        const search_result less = run(&b, "ilp", "megatron");
        if (less.strategy)
            judge(&b, &less);
    }
    end(&b);
}

/* Little memory, of what the fastest plan takes, and little work. */
static void test_pressed(uint64_t seed)
{
    static const char *const clusters[] = {"1x2:a100-sxm4-80g", "1x4:cpu",
                                           "2x2:v100-sxm2-16g",
                                           "1x8:a100-sxm4-80g"};
    static const double steps[] = {1e8, 3e8, 1e9, 3e9};
    uint64_t rng = fs_mix(seed);
    const char *cluster = clusters[fs_rand_below(&rng, 4)];
    const double share = 0.3 + 0.01 * (double)fs_rand_below(&rng, 60);
    char name[100];
    bench b;
    begin(&b, name, seed, SAMPLES, cluster);
    b.problem.most_steps = steps[fs_rand_below(&rng, 4)];
    b.problem.recut = true;
    const search_result all = run(&b, "ilp", "megatron");
    snprintf(name, sizeof name, "FS_CASE=%llu, %s, %.2f, %.0e steps",
             (unsigned long long)seed, cluster, share, b.problem.most_steps);
    if (all.strategy) {
        b.problem.memory_bytes = (int64_t)(share * (double)peak(&b, &all));
        const search_result less = run(&b, "ilp", "megatron");
        judge(&b, &less);
    }
    end(&b);
}

/* Balanced by seconds on one device the stages that would be best are ruled out
 * by their own bound before they have a plan. */
static void test_cut(const char *name, int64_t samples, const char *cluster)
{
    bench b;
    begin(&b, name, 0, samples, cluster);
    b.problem.recut = true;
    const search_result best = run(&b, "ilp", "megatron");
    judge(&b, &best);
    end(&b);
}

/* The same within so much memory and work. */
static void test_within(const char *name, int64_t samples, const char *cluster,
                        int64_t bytes, double steps)
{
    bench b;
    begin(&b, name, 0, samples, cluster);
    b.problem.recut = true;
    b.problem.memory_bytes = bytes;
    b.problem.most_steps = steps;
    const search_result best = run(&b, "ilp", "megatron");
    judge(&b, &best);
    end(&b);
}

/* Within little memory and little work, what a plan is found by. Glances: the
 * plan that an engine proves to be best of a cut need not fit, and to close one
 * takes the work of thirty looks. Sweeps: configurations with the least bounds
 * have few plans that fit. Blends: the cheapest lean plan that fits leaves
 * room. */
static void test_without(const char *name, const char *cluster, int64_t bytes,
                         double steps, uint32_t without, double most,
                         const char *what)
{
    bench b;
    begin(&b, name, 0, MANY_SAMPLES, cluster);
    leave_tiles_out(&b);
    b.problem.recut = true;
    b.problem.memory_bytes = bytes;
    b.problem.most_steps = steps;
    const search_result best = run(&b, "ilp", "megatron");
    b.problem.without = without;
    const search_result closed = run(&b, "ilp", "megatron");
    printf("# %s: %.9g s, %.9g s without\n", name, best.iteration_s,
           closed.iteration_s);
    tap_ok(best.strategy && best.iteration_s < most * closed.iteration_s,
           "%s: %s make a better plan", name, what);
    end(&b);
}

static void report(void)
{
    const search_way *way;
    for (int32_t k = 0; (way = search_way_at(k)) != NULL; k++) {
        const margin *m = &margins[k];
        if (m->n + m->none)
            printf("# %-16s %3d plans, %3d times none; slower than the search "
                   "by %.2f %% on average, %.2f %% at most; %d times faster\n",
                   way->name, m->n, m->none, m->n ? 100 * m->sum / m->n : 0,
                   100 * m->most, m->worse);
    }
}

int main(void)
{
    static const char *const clusters[] = {"1x2:a100-sxm4-80g", "1x4:cpu",
                                           "2x2:v100-sxm2-16g"};
    const char *one = getenv("FS_CASE"), *many = getenv("FS_CASES");
    const uint64_t seed = one ? strtoull(one, NULL, 10) : 1000 * tap_seed(3);
    const int32_t n = one ? 1 : many ? atoi(many) : PRESSED;
    fs_arena *arena = fs_arena_create();
    for (int32_t i = 0; i < n; i++)
        test_pressed(seed + (uint64_t)i);
    report();
    memset(margins, 0, sizeof margins);
    for (int32_t i = 0; i < CHAINS && !one && !many; i++)
        test(fs_printf(arena, "chain %d", (int)i), 100 + (uint64_t)i,
             clusters[i % 3], i % 2);
    if (!one && !many) {
        test_cut("zoo:lstm,layers=1", MANY_SAMPLES, "1x8:a100-sxm4-80g");
        test_cut("zoo:gru,layers=1", MANY_SAMPLES, "16x8:a100-sxm4-80g");
        /* What its plans take promises no cut that is better (walk.c). */
        test_cut("zoo:wide_deep,rows=100,fields=4,hidden=1024,layers=3", 12,
                 "1x3:a100-sxm4-80g");
        /* Cuts that no plan's pieces promise; many nodes, little work. */
        test_cut("zoo:mobilenet,percent=50,size=64,classes=10", 4,
                 "1x4:a100-sxm4-80g");
        test_cut("zoo:gpt,layers=4,hidden=256,heads=8,seq=128,vocab=1000", 4,
                 "1x5:rtx-3090");
        test_cut("zoo:bert,layers=2,hidden=128,heads=4,seq=64", 4,
                 "1x5:rtx-3090");
        /* No recipe's even stages are any good. */
        test_within("zoo:t5,layers=1,hidden=64,seq=32,target=32", 4,
                    "1x3:v100-sxm2-16g", 1700000, 3e9);
        /* With less neither has room; with more sweeps alone come as far. */
        test_without("zoo:lstm,layers=1", "16x8:a100-sxm4-80g", 2295557, 8e9,
                     SEARCH_GLANCES, 0.99, "cuts that are looked at first");
        test_without("zoo:resnet,depth=18,width=32,size=64,classes=100",
                     "4x8:a100-sxm4-80g", 33255996, 6e9, SEARCH_SWEEPS, 0.99,
                     "likely configurations first");
        test_without("zoo:vgg,depth=11,size=64,classes=100,hidden=1024",
                     "1x8:a100-sxm4-80g", 77319155, 1e9, SEARCH_BLENDS, 0.9995,
                     "mixtures of lean plans");
        test("zoo:mlp", 0, "1x4:a100-sxm4-80g", true);
        test("zoo:gpt,layers=2,hidden=64,heads=2,vocab=100,seq=16", 0,
             "2x2:a100-sxm4-80g", true);
        test("zoo:dlrm,tables=3,rows=20000", 0, "1x4:a100-sxm4-80g", true);
    }
    report();
    fs_arena_destroy(arena);
    return tap_done();
}
