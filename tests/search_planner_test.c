/* Planners: rows of planners.def on small problems. What they claim the cost
 * model confirms, limits and the problem's own words are kept, the same problem
 * gives the same plan, and the search that starts from one is never worse. */
#include "config.h"
#include "search/planner.h"

#include "ir/rewrite.h"
#include "ir/train.h"
#include "search_cluster.h"
#include "tap.h"
#include "zoo/zoo.h"

enum { MOST_GRAPHS = 4 };

typedef struct bench {
    const char *name;
    fs_arena *arena;
    int32_t n;
    ir_graph *made[MOST_GRAPHS];
    search_graph graphs[MOST_GRAPHS];
    search_problem problem;
} bench;

static ir_graph *training(const char *spec, int32_t batch, int32_t m)
{
    fs_err err = {0};
    ir_graph *g = NULL;
    const ir_rewrite_options rewrites = ir_rewrite_usual();
    ir_train_options options = ir_train_defaults();
    options.micro_batches = m;
    options.optimizer = IR_ADAMW;
    if (zoo_build(spec, batch / m, &err, &g) == FS_OK) {
        ir_rewrite(g, &rewrites);
        if (ir_train(g, &options, &err) == FS_OK)
            ir_rewrite_step(g, &rewrites);
        g->batch = batch;
    }
    if (err.status != FS_OK) {
        printf("Bail out! %s: %s\n", spec, err.text);
        exit(1);
    }
    return g;
}

static void begin(bench *b, const char *spec, const char *cluster,
                  int32_t batch)
{
    *b = (bench){.name = spec, .arena = fs_arena_create()};
    const hw_cluster *opened = open_cluster(cluster, b->arena);
    for (int32_t m = 1; m <= 4; m *= 2) {
        b->made[b->n] = training(spec, batch, m);
        b->graphs[b->n] = (search_graph){m, b->made[b->n], NULL};
        b->n++;
    }
    b->problem = (search_problem){
        .cluster = opened,
        .cost = cost_model_create(opened, b->arena),
        .n_graphs = b->n,
        .graphs = b->graphs,
        .engine = "ilp",
        .schedule = "1f1b",
        .fix_mesh = {.n = -1},
        .max_mesh_axes = 2,
        .time_limit_s = 60,
        .gap = 1e-3,
        .reduce = true,
    };
}

static void end(bench *b)
{
    for (int32_t k = 0; k < b->n; k++)
        ir_graph_destroy(b->made[k]);
    fs_arena_destroy(b->arena);
}

static search_result run(bench *b, const char *way)
{
    search_result r = {0};
    fs_err err = {0};
    search_problem one = b->problem;
    one.engine = way;
    if (search_engine_find(way))
        one.time_limit_s = 4; /* what planners do must not hang on time */
    if (search_run(&one, b->arena, &err, &r) != FS_OK) {
        printf("# %s, %s: %s\n", b->name, way, err.text);
        r.iteration_s = INFINITY;
        r.strategy = NULL;
    }
    return r;
}

static bool confirmed(bench *b, const search_result *r)
{
    cost_summary sum;
    fs_err err = {0};
    if (cost_strategy(b->problem.cost, r->graph, r->strategy, b->arena, &err,
                      &sum) != FS_OK)
        return false;
    bool fits = true;
    for (int32_t i = 0; i < sum.n_stages; i++)
        fits &= !b->problem.memory_bytes ||
                sum.peak_bytes[i] <= b->problem.memory_bytes;
    return fits &&
           fabs(sum.iteration_s - r->iteration_s) <= 1e-9 * r->iteration_s;
}

static void test_table(void)
{
    const search_way *way, *other;
    bool said = true, single = true, known = true;
    for (int32_t i = 0; (way = search_way_at(i)) != NULL; i++) {
        said &= way->what[0] != '\0';
        known &= (search_engine_find(way->name) == NULL) ==
                 (search_planner_find(way->name) != NULL);
        for (int32_t k = 0; (other = search_way_at(k)) != NULL; k++)
            single &= i == k || strcmp(way->name, other->name) != 0;
        if (search_planner_find(way->name))
            said &= way->source && way->source[0];
    }
    tap_ok(said, "every way says what it is, every planner where from");
    tap_ok(single, "no two ways have one name");
    tap_ok(known, "each is an engine or a planner");
    tap_ok(search_planner_find("none") == NULL, "an unknown planner is NULL");
#define SEARCH_FAMILY(name, ...)                                               \
    tap_ok(search_planner_find(name) != NULL, "the family %s is a planner",    \
           name);
#include "search/families.def"
#undef SEARCH_FAMILY
}

static bool same_strategy(const search_result *a, const search_result *b)
{
    const plan_strategy *x = a->strategy, *y = b->strategy;
    return x->n_stages == y->n_stages && x->n_nodes == y->n_nodes &&
           x->micro_batches == y->micro_batches &&
           memcmp(x->sig, y->sig, (size_t)x->n_nodes * sizeof *x->sig) == 0;
}

/* All planners on a problem; megatron's seconds. */
static double test_each(bench *b)
{
    const search_way *way;
    const search_result all = run(b, "megatron");
    for (int32_t i = 0; (way = search_way_at(i)) != NULL; i++) {
        if (!search_planner_find(way->name))
            continue;
        const search_result r = run(b, way->name);
        if (!r.strategy)
            continue;
        tap_ok(confirmed(b, &r), "%s, %s: the cost model confirms it", b->name,
               way->name);
        printf("# %.6g s after %.3g s; %s\n", r.iteration_s, r.search_s,
               r.space);
        tap_ok(r.lower_bound_s <= 0, "%s, %s: claims no bound", b->name,
               way->name);
        const search_result again = run(b, way->name);
        tap_ok(again.strategy && same_strategy(&r, &again),
               "%s, %s: the same problem gives the same plan", b->name,
               way->name);
    }
    tap_ok(all.strategy != NULL, "%s: megatron has a plan", b->name);
    return all.iteration_s;
}

static void test_start(bench *b, double megatron_s)
{
    b->problem.start = "megatron";
    const search_result r = run(b, "ilp");
    tap_ok(r.strategy && r.iteration_s <= megatron_s * (1 + 1e-9),
           "%s: the search that starts from megatron is not worse", b->name);
    printf("# %.6g s, megatron %.6g s: %+.2f %%\n", r.iteration_s, megatron_s,
           100 * (megatron_s / r.iteration_s - 1));
    tap_ok(r.first_s > 0 && r.first_s <= r.search_s,
           "%s: it tells when it had a plan", b->name);
    b->problem.start = NULL;
    const search_result alone = run(b, "ilp");
    tap_ok(alone.strategy &&
               r.iteration_s <= alone.iteration_s * (1 + b->problem.gap) &&
               alone.lower_bound_s <= r.iteration_s,
           "%s: it is within the gap of the one that starts from nothing",
           b->name);
}

static void test_memory(bench *b)
{
    const search_result r = run(b, "megatron");
    cost_summary sum;
    fs_err err = {0};
    int64_t most = 0;
    FS_ASSERT(r.strategy && cost_strategy(b->problem.cost, r.graph, r.strategy,
                                          b->arena, &err, &sum) == FS_OK);
    for (int32_t i = 0; i < sum.n_stages; i++)
        most = sum.peak_bytes[i] > most ? sum.peak_bytes[i] : most;
    b->problem.memory_bytes = most * 2 / 3;
    const search_result less = run(b, "megatron");
    tap_ok(less.strategy && confirmed(b, &less),
           "%s: two thirds of its memory are kept to", b->name);
    tap_ok(less.iteration_s >= r.iteration_s * (1 - 1e-9),
           "%s: with less memory it is no faster", b->name);
    printf("# %.6g s in %lld bytes, %.6g s in two thirds\n", r.iteration_s,
           (long long)most, less.iteration_s);
    b->problem.memory_bytes = 0;
}

/* What the user insists on, planners keep. */
static void test_words(bench *b)
{
    search_recipe recipe = search_recipe_free();
    fs_err err = {0};
    const search_problem before = b->problem;
    FS_ASSERT(search_recipe_parse("tp=2,zero=1,micro-batches=2", b->arena, &err,
                                  &recipe) == FS_OK);
    FS_ASSERT(search_recipe_complete(b->problem.cluster, b->made[0]->batch,
                                     false, &err, &recipe) == FS_OK);
    search_recipe_apply(&recipe, b->arena, &b->problem);
    const search_result r = run(b, "megatron");
    tap_ok(r.strategy && strstr(r.space, "tp=2") && strstr(r.space, "zero=1"),
           "%s: what was fixed is in the recipe", b->name);
    printf("# %s\n", r.space ? r.space : "");
    b->problem = before;
}

static void test_problem(const char *spec, const char *cluster, int32_t batch)
{
    bench b;
    begin(&b, spec, cluster, batch);
    const double s = test_each(&b);
    test_start(&b, s);
    test_memory(&b);
    test_words(&b);
    end(&b);
}

int main(void)
{
    test_table();
    test_problem("zoo:mlp", "1x4:a100-sxm4-80g", 64);
    test_problem("zoo:gpt,layers=2,hidden=256,heads=4,vocab=1000,seq=64",
                 "2x4:a100-sxm4-80g", 32);
    test_problem("zoo:dlrm,tables=4,rows=100000", "1x8:a100-sxm4-80g", 256);
    return tap_done();
}
