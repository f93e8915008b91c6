/* Runs of layers on sub-meshes (src/search/cuts/runs.h): of so many devices
 * that few sub-meshes are of any pipeline of all of them, only these are looked
 * at. */
#include "config.h"
#include "search/known.h"
#include "search/cuts/runs.h"

#include "ir/train.h"
#include "search_cluster.h"
#include "tap.h"
#include "zoo/zoo.h"

static ir_graph *train(void)
{
    fs_err err = {0};
    ir_graph *g = NULL;
    ir_train_options options = ir_train_defaults();
    if (zoo_build("mlp,layers=12", 1024, &err, &g) != FS_OK ||
        ir_train(g, &options, &err) != FS_OK) {
        printf("Bail out! %s\n", err.text);
        exit(1);
    }
    return g;
}

static search_runs runs_on(const search_problem *problem, bool several,
                           double steps, fs_arena *arena)
{
    search_runs runs = {.problem = problem,
                        .graph = problem->graphs,
                        .keep = 1,
                        .several = several,
                        .scratch = arena,
                        .end = {INT64_MAX, NULL},
                        .runs_end = {INT64_MAX, NULL},
                        .runs_steps = steps};
    search_runs_find(&runs);
    return runs;
}

static bool has(const search_runs *runs, int32_t size)
{
    for (int32_t k = 0; k < runs->n_sizes; k++)
        if (runs->size[k] == size)
            return true;
    return false;
}

static void test_sizes(const search_problem *problem, fs_arena *arena)
{
    const search_runs all = runs_on(problem, false, 0, arena);
    tap_equal_int(all.n_layers, SEARCH_MOST_LAYERS, "there are eight layers");
    tap_equal_int(all.n_sizes, 8,
                  "of 1024 devices eight stages have sub-meshes of 8 to 1024");
    tap_ok(has(&all, 8) && !has(&all, 4) && has(&all, 1024),
           "from 512 + 256 + 128 + 64 + 32 + 16 + 8 + 8 on");
    const search_runs some = runs_on(problem, true, 0, arena);
    tap_ok(some.n_sizes == 7 && !has(&some, 1024),
           "several stages: none has all devices");
}

/* 512 and 256 devices are nine and eight meshes. */
static void test_work(const search_problem *problem, fs_arena *arena)
{
    const search_runs one = runs_on(problem, true, 1, arena);
    tap_equal_int(one.needed, 17, "seventeen meshes are of the largest sizes");
    const search_runs few =
        runs_on(problem, true, 6.0 * (double)one.steps, arena);
    tap_ok(few.n_meshes <= 2,
           "work for a few of them: the first tell that it is no use");
    tap_equal_int(few.found.n, 0, "and nothing is found");
    const search_runs whole = runs_on(problem, false, 1, arena);
    tap_ok(whole.n_meshes > 1, "a planner takes what it can have");
}

int main(void)
{
    fs_arena *arena = fs_arena_create();
    ir_graph *g = train();
    const search_graph graph = {.micro_batches = 1, .graph = g};
    const hw_cluster *cluster = open_cluster("128x8:a100-sxm4-80g", arena);
    const search_problem problem = {.cluster = cluster,
                                    .cost = cost_model_create(cluster, arena),
                                    .n_graphs = 1,
                                    .graphs = &graph,
                                    .engine = "ilp",
                                    .schedule = "1f1b",
                                    .fix_mesh = {.n = -1},
                                    .max_mesh_axes = 2,
                                    .known = search_known_create()};
    test_sizes(&problem, arena);
    test_work(&problem, arena);
    search_known_destroy(problem.known);
    ir_graph_destroy(g);
    fs_arena_destroy(arena);
    return tap_done();
}
