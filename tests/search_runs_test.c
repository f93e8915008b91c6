/* Runs of layers on sub-meshes (src/search/runs.h): of so many devices that few
 * sub-meshes are of any pipeline of all of them, only these are looked at. */
#include "config.h"
#include "search/known.h"
#include "search/runs.h"

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

/* Without work: none is solved. */
static search_runs runs_on(const search_problem *problem, bool several,
                           fs_arena *arena)
{
    search_runs runs = {.problem = problem,
                        .graph = problem->graphs,
                        .keep = 1,
                        .several = several,
                        .scratch = arena,
                        .end = {INT64_MAX, NULL},
                        .runs_end = {INT64_MAX, NULL}};
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
    const search_runs all = runs_on(problem, false, arena);
    tap_equal_int(all.n_layers, SEARCH_MOST_LAYERS, "there are eight layers");
    tap_equal_int(all.n_sizes, 8,
                  "of 1024 devices eight stages have sub-meshes of 8 to 1024");
    tap_ok(has(&all, 8) && !has(&all, 4) && has(&all, 1024),
           "from 512 + 256 + 128 + 64 + 32 + 16 + 8 + 8 on");
    const search_runs some = runs_on(problem, true, arena);
    tap_ok(some.n_sizes == 7 && !has(&some, 1024),
           "several stages: none has all devices");
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
    search_known_destroy(problem.known);
    ir_graph_destroy(g);
    fs_arena_destroy(arena);
    return tap_done();
}
