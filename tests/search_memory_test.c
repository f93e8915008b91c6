/* What search binds of memory, against the arenas of lowered plans
 * (src/cost/README.md). */
#include "config.h"
#include "search/recipe/recipe.h"

#include "cost/memory.h"
#include "ir/train.h"
#include "search_cluster.h"
#include "tap.h"
#include "zoo/zoo.h"

typedef struct plan_case {
    const char *model, *cluster, *recipe;
    int64_t batch;
} plan_case;

#define TINY "zoo:gpt,layers=4,hidden=64,heads=4,vocab=256,seq=32"
#define WIDE "zoo:gpt,layers=2,hidden=256,heads=4,vocab=256,seq=64"
#define VOCAB "zoo:gpt,layers=2,hidden=128,heads=4,vocab=8192,seq=64"
#define MLP "zoo:mlp,layers=4,hidden=64"

static const plan_case cases[] = {
    {TINY, "1x1:cpu", "dp=1", 8},
    {TINY, "1x4:cpu", "dp=4", 16},
    {TINY, "1x4:cpu", "dp=4,zero=1", 16},
    {TINY, "1x4:cpu", "dp=4,zero=2", 16},
    {TINY, "1x4:cpu", "dp=4,zero=3", 16},
    {TINY, "1x4:cpu", "tp=4", 16},
    {TINY, "1x4:cpu", "pp=4,micro-batches=1", 16},
    {TINY, "1x4:cpu", "pp=4,micro-batches=8", 16},
    {TINY, "1x4:cpu", "dp=2,tp=2", 16},
    {TINY, "1x4:cpu", "dp=2,tp=2,micro-batches=4", 16},
    {TINY, "1x4:cpu", "dp=2,pp=2,micro-batches=4", 16},
    {TINY, "1x4:cpu", "tp=2,pp=2,micro-batches=4", 16},
    {TINY, "1x8:cpu", "dp=2,tp=2,pp=2,micro-batches=4", 16},
    {TINY, "1x8:cpu", "dp=4,pp=2,zero=3,micro-batches=4", 32},
    {TINY, "1x4:cpu", "pp=4,micro-batches=8,schedule=gpipe", 16},
    {WIDE, "1x4:cpu", "dp=4", 8},
    {WIDE, "1x4:cpu", "dp=4,zero=1", 8},
    {WIDE, "1x4:cpu", "dp=4,zero=3", 8},
    {WIDE, "1x4:cpu", "tp=4", 8},
    {WIDE, "1x4:cpu", "dp=2,tp=2,zero=1", 8},
    {WIDE, "1x4:cpu", "pp=2,tp=2,micro-batches=2", 8},
    {VOCAB, "1x4:cpu", "dp=4", 8},
    {VOCAB, "1x4:cpu", "tp=4", 8},
    {VOCAB, "1x4:cpu", "dp=4,zero=3", 8},
    {VOCAB, "1x4:cpu", "dp=2,pp=2,micro-batches=2", 8},
    {MLP, "1x4:cpu", "dp=4", 16},
    {MLP, "1x4:cpu", "tp=4", 16},
    {MLP, "1x4:cpu", "dp=4,zero=3", 16},
};

static fs_status build(const plan_case *c, const search_recipe *recipe,
                       fs_err *err, ir_graph **out)
{
    int32_t m = recipe->micro_batches > 0 ? recipe->micro_batches : 1;
    ir_train_options options = ir_train_defaults();
    FS_TRY(zoo_build(c->model, c->batch / m, err, out));
    options.optimizer = IR_ADAMW;
    options.micro_batches = m;
    FS_TRY(ir_train(*out, &options, err));
    (*out)->batch = c->batch;
    return FS_OK;
}

/* Of all stages of all cases. */
typedef struct tally {
    bool keeps; /* asked: copies of variables for the step */
    int32_t stages, above, near;
    double least, sum;
    int32_t fuller_above; /* of moments that a plan was asked for, */
    double fuller;        /* and sums of their most */
    int64_t arena_bytes;  /* of the last stage */
    double iteration_s;   /* of the last case */
} tally;

/* At its fullest moment that is not looked at by itself; what is above the
 * plan's counts. */
static int64_t fullest_of(const ir_graph *graph, const plan_strategy *s,
                          const plan_role *role, tally *t)
{
    enum { APART = 5 };
    int64_t most = 0;
    for (int32_t v = 0; v < graph->nodes.n; v += APART) {
        if (s->stage_of[v] != role->stages[0])
            continue;
        fs_arena *scratch = fs_arena_create();
        const cost_program program = cost_program_of(graph, s);
        cost_memory *memory = cost_memory_create(&program, scratch);
        const int64_t bytes =
            cost_fuller_moment(memory, s, role->stages[0], v, scratch).bytes;
        fs_arena_destroy(scratch);
        t->fuller_above += bytes > role->bound_bytes;
        most = bytes > most ? bytes : most;
    }
    return most;
}

static void compare(const plan_case *c, const ir_graph *graph,
                    const plan_strategy *s, const cost_summary *summary,
                    const plan *lowered, tally *t)
{
    for (int32_t r = 0; r < lowered->n_roles; r++) {
        const plan_role *role = &lowered->roles[r];
        int64_t bytes = summary->peak_bytes[role->stages[0]];
        double share = (double)bytes / (double)role->arena_bytes;
        t->arena_bytes = role->arena_bytes;
        t->stages++;
        t->above += bytes > role->bound_bytes;
        t->near += share >= 0.95;
        t->least = fmin(t->least, share);
        t->sum += share;
        const double fuller =
            (double)fullest_of(graph, s, role, t) / (double)role->arena_bytes;
        t->fuller += fuller;
        printf("# %s %s, stage %d: %lld of %lld = %.3f, %.3f when asked\n",
               c->model + 4, c->recipe, role->stages[0], (long long)bytes,
               (long long)role->arena_bytes, share, fuller);
    }
}

static fs_status plan_case_run(const plan_case *c, fs_arena *arena, fs_err *err,
                               ir_graph **graph, tally *t)
{
    hw_cluster *cluster = open_cluster(c->cluster, arena);
    search_recipe recipe = search_recipe_free();
    cost_summary summary;
    search_result found;
    plan *lowered;
    FS_TRY(search_recipe_parse(c->recipe, arena, err, &recipe));
    FS_TRY(search_recipe_complete(cluster, c->batch, true, err, &recipe));
    FS_TRY(build(c, &recipe, err, graph));
    search_graph one = {(*graph)->micro_batches, *graph, NULL};
    search_problem problem = {.cluster = cluster,
                              .cost = cost_model_create(cluster, arena),
                              .n_graphs = 1,
                              .graphs = &one,
                              .engine = "ilp",
                              .schedule = "1f1b",
                              .fix_mesh = {.n = -1},
                              .max_mesh_axes = 2,
                              .time_limit_s = 20,
                              .effort_s = 0.25,
                              .reduce = true};
    search_recipe_apply(&recipe, arena, &problem);
    if (t->keeps)
        problem.lives = SEARCH_KEEPS;
    FS_TRY(search_run(&problem, arena, err, &found));
    FS_TRY(cost_strategy(problem.cost, *graph, found.strategy, arena, err,
                         &summary));
    plan_lower_options options = plan_lower_defaults();
    FS_TRY(plan_lower(*graph, cluster, found.strategy, &options, arena, err,
                      &lowered));
    compare(c, *graph, found.strategy, &summary, lowered, t);
    t->iteration_s = summary.iteration_s;
    return FS_OK;
}

/* Gathered for each pass or once for the step: bytes against time. */
static void test_lives(void)
{
    static const plan_case zero = {TINY, "1x4:cpu",
                                   "dp=4,zero=3,micro-batches=2", 16};
    fs_arena *arena = fs_arena_create();
    ir_graph *graph[2] = {NULL, NULL};
    fs_err err = {0};
    tally t[2] = {{.keeps = true}, {.keeps = false}};
    tap_ok(plan_case_run(&zero, arena, &err, &graph[0], &t[0]) == FS_OK &&
               plan_case_run(&zero, arena, &err, &graph[1], &t[1]) == FS_OK,
           "ZeRO-3 with copies for the step, and for each pass");
    tap_ok(t[1].arena_bytes < t[0].arena_bytes * 9 / 10,
           "for each pass: at least a tenth of the bytes less");
    tap_ok(t[1].iteration_s > t[0].iteration_s, "and a longer step");
    ir_graph_destroy(graph[0]);
    ir_graph_destroy(graph[1]);
    fs_arena_destroy(arena);
}

/* A limit below what the bound allows is refused as proven; between it and
 * the arena a plan is found or none; a plan that is told always fits. */
static void test_misfits(void)
{
    static const plan_case mlp = {MLP, "1x4:cpu", "", 16};
    fs_arena *arena = fs_arena_create();
    search_recipe free_recipe = search_recipe_free();
    hw_cluster *cluster = open_cluster(mlp.cluster, arena);
    ir_graph *graph = NULL;
    fs_err err = {0};
    int32_t found_some = 0, wrong = 0, bound = 0, anchored = 0;
    tap_ok(build(&mlp, &free_recipe, &err, &graph) == FS_OK, "a graph");
    search_graph one = {1, graph, NULL};
    for (int64_t limit = 68000; limit < 124000; limit += 8000) {
        search_problem problem = {.cluster = cluster,
                                  .cost = cost_model_create(cluster, arena),
                                  .n_graphs = 1,
                                  .graphs = &one,
                                  .memory_bytes = limit,
                                  .engine = "ilp",
                                  .schedule = "1f1b",
                                  .fix_stages = 1,
                                  .fix_mesh = {.n = -1},
                                  .max_mesh_axes = 2,
                                  .time_limit_s = 60,
                                  .effort_s = 0.25,
                                  .reduce = true};
        search_result found;
        plan_lower_options options = plan_lower_defaults();
        plan *lowered;
        fs_status status = search_run(&problem, arena, &err, &found);
        anchored += found.anchored;
        bound += found.lower_bound_s > found.iteration_s;
        if (status != FS_OK)
            continue;
        found_some++;
        wrong += plan_lower(graph, cluster, found.strategy, &options, arena,
                            &err, &lowered) != FS_OK ||
                 lowered->roles[0].arena_bytes > limit;
    }
    printf("# plans under %d of 7 limits\n", found_some);
    tap_ok(found_some >= 2 && found_some < 7, "limits: some leave no plan");
    tap_ok(anchored > 0, "limits: a misfit has any plan that fits looked for");
    tap_equal_int(wrong, 0, "limits: what is found fits when it is lowered");
    tap_equal_int(bound, 0, "limits: no bound is above its plan");
    ir_graph_destroy(graph);
    fs_arena_destroy(arena);
}

/* What is promised as the limit grows, whatever time allows: a bound is one
 * for every plan that was found under a smaller limit, and a lean plan that was
 * kept under one is there under every larger one. (A plan of the engine need
 * not be: see src/search/README.md.) */
typedef struct promise {
    double best_s, lean_s; /* of all smaller limits */
    int32_t found, lean, bounds, lost;
} promise;

static void hold_to(promise *p, const search_problem *problem, fs_arena *arena)
{
    search_result r;
    fs_err err = {0};
    bool found = search_run(problem, arena, &err, &r) == FS_OK;
    double cost_s = found ? r.iteration_s : INFINITY;
    printf("# %lld bytes: %s, %g s, not below %g s; lean %g s\n",
           (long long)problem->memory_bytes, r.status, cost_s, r.lower_bound_s,
           r.lean_s);
    p->found += found;
    p->lean += isfinite(r.lean_s);
    p->bounds += r.lower_bound_s > p->best_s * (1 + 1e-9);
    p->lost += isfinite(p->lean_s) && !(cost_s <= p->lean_s * (1 + 1e-9));
    p->best_s = fmin(p->best_s, cost_s);
    p->lean_s = fmin(p->lean_s, r.lean_s);
}

static void test_growing(void)
{
    static const plan_case gpt = {
        "zoo:gpt,layers=1,hidden=64,heads=4,vocab=256,seq=32", "1x4:cpu", "",
        8};
    fs_arena *arena = fs_arena_create();
    search_recipe free_recipe = search_recipe_free();
    hw_cluster *cluster = open_cluster(gpt.cluster, arena);
    ir_graph *graph = NULL;
    fs_err err = {0};
    promise p = {.best_s = INFINITY, .lean_s = INFINITY};
    tap_ok(build(&gpt, &free_recipe, &err, &graph) == FS_OK, "a graph");
    search_graph one = {1, graph, NULL};
    search_problem problem = {.cluster = cluster,
                              .cost = cost_model_create(cluster, arena),
                              .n_graphs = 1,
                              .graphs = &one,
                              .engine = "ilp",
                              .schedule = "1f1b",
                              .fix_stages = 1,
                              .fix_mesh = {.n = -1},
                              .max_mesh_axes = 2,
                              .time_limit_s = 600,
                              .effort_s = 0.25,
                              .reduce = true};
    for (int64_t limit = 700000; limit < 1060000; limit += 30000) {
        problem.memory_bytes = limit;
        hold_to(&p, &problem, arena);
    }
    tap_ok(p.found > 3 && p.found < 12,
           "limits: most of 12 leave a plan, not all");
    tap_ok(p.lean > 0, "limits: under some a lean plan is kept");
    tap_equal_int(p.lost, 0, "limits: larger ones have no slower plan than it");
    tap_equal_int(p.bounds, 0,
                  "limits: no bound is above a plan of a smaller one");
    ir_graph_destroy(graph);
    fs_arena_destroy(arena);
}

int main(void)
{
    tally t = {.least = INFINITY};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        fs_arena *arena = fs_arena_create();
        ir_graph *graph = NULL;
        fs_err err = {0};
        fs_status status = plan_case_run(&cases[k], arena, &err, &graph, &t);
        tap_ok(status == FS_OK, "%s, %s", cases[k].model + 4, cases[k].recipe);
        if (status != FS_OK)
            printf("# %s\n", err.text);
        ir_graph_destroy(graph);
        fs_arena_destroy(arena);
    }
    printf("# %d stages: at least %.3f of the arena, %.3f in the mean, %d from "
           "0.95 on\n",
           t.stages, t.least, t.sum / t.stages, t.near);
    tap_equal_int(t.above, 0, "what is counted is live at once in the plan");
    tap_equal_int(t.fuller_above, 0,
                  "so it is at any moment that a plan is asked for");
    tap_ok(t.least >= 0.65, "and at least 0.65 of its arena");
    tap_ok(t.sum / t.stages >= 0.9, "0.9 in the mean");
    test_lives();
    test_misfits();
    test_growing();
    return tap_done();
}
