/* What a plan would cost with another signature of one node (search/variant.h)
 * against the exhaustive engine under a filter of this test's own; with stages
 * as they are, against the search that found it. */
#include "config.h"
#include "search/variant.h"

#include "base/hash.h"
#include "search_cluster.h"
#include "search_draw.h"
#include "tap.h"

#include <math.h>
#include <string.h>

enum { GRAPHS = 240, NODES = 3 };
#define NEAR 1e-3 /* as near as a variant comes */

typedef struct other {
    int32_t node;
    const ir_nd_sig * not ;
} other;

static bool is_other(void *ctx, const ir_graph *graph, int32_t node,
                     int32_t stage, const ir_mesh *mesh, const ir_nd_sig *sig)
{
    const other *o = ctx;
    (void)graph, (void)stage, (void)mesh;
    return node != o->node || memcmp(sig, o->not, sizeof *sig) != 0;
}

typedef struct tally {
    int plans, variants, none, wrong, unproven;
} tally;

/* The plan's own stages and cut are those of the balanced cut. */
static void compare(tally *t, search_problem problem, const search_result *best,
                    int32_t node)
{
    fs_arena *arena = fs_arena_create();
    other o = {node, &best->strategy->sig[node]};
    const search_variant variant = {.cluster = problem.cluster,
                                    .cost = problem.cost,
                                    .graph = best->graph,
                                    .strategy = best->strategy,
                                    .node = node};
    search_result oracle, found;
    fs_err a = {0}, b = {0};
    problem.engine = "exhaustive";
    problem.fix_mesh = best->strategy->stages[0].mesh;
    problem.filter = (search_filter){is_other, &o};
    const fs_status want = search_run(&problem, arena, &a, &oracle);
    const fs_status got = search_variant_run(&variant, arena, &b, &found);
    t->variants++;
    t->none += want == FS_NO;
    if (want != got) {
        printf("# '%s': %s; %s\n", best->graph->nodes.at[node].name, a.text,
               b.text);
        t->wrong++;
    } else if (want == FS_OK) {
        const bool near =
            found.iteration_s <= oracle.iteration_s * (1 + NEAR) &&
            found.iteration_s >= oracle.iteration_s * (1 - 1e-9);
        t->wrong += !near;
        t->unproven += found.lower_bound_s > oracle.iteration_s * (1 + 1e-9);
        if (!near)
            printf("# '%s': exhaustive %.12g, variant %.12g\n",
                   best->graph->nodes.at[node].name, oracle.iteration_s,
                   found.iteration_s);
    }
    fs_arena_destroy(arena);
}

/* Nothing otherwise: the plan that was found, which is optimal. */
static bool is_itself(const search_problem *problem, const search_result *best)
{
    fs_arena *arena = fs_arena_create();
    const search_variant variant = {.cluster = problem->cluster,
                                    .cost = problem->cost,
                                    .graph = best->graph,
                                    .strategy = best->strategy,
                                    .node = -1};
    search_result found;
    fs_err err = {0};
    const fs_status status = search_variant_run(&variant, arena, &err, &found);
    const bool same = status == FS_OK &&
                      found.iteration_s <= best->iteration_s * (1 + NEAR) &&
                      found.iteration_s >= best->iteration_s * (1 - 1e-9);
    if (!same)
        printf("# plan %.12g, found %.12g: %s\n", best->iteration_s,
               found.iteration_s, err.text);
    fs_arena_destroy(arena);
    return same;
}

static void test_graph(tally *t, uint64_t seed, int32_t stages,
                       const hw_cluster *cluster)
{
    uint64_t rng = seed;
    const search_draw draw = {.most = 8, .rows = 64};
    ir_graph *ir = search_draw_graph(&rng, &draw);
    fs_arena *arena = fs_arena_create();
    const search_graph graph = {ir->micro_batches, ir, NULL};
    const search_problem problem = {.cluster = cluster,
                                    .cost = cost_model_create(cluster, arena),
                                    .n_graphs = 1,
                                    .graphs = &graph,
                                    .engine = "ilp",
                                    .schedule = "1f1b",
                                    .fix_stages = ir->nodes.n > 6 ? stages : 1,
                                    .fix_mesh = {.n = -1},
                                    .max_mesh_axes = 2,
                                    .time_limit_s = 60,
                                    .reduce = true};
    search_result best;
    fs_err err = {0};
    if (search_run(&problem, arena, &err, &best) == FS_OK) {
        t->plans++;
        t->wrong += !is_itself(&problem, &best);
        for (int32_t k = 0; k < NODES; k++)
            compare(t, problem, &best,
                    (int32_t)fs_rand_below(&rng, best.graph->nodes.n));
    }
    ir_graph_destroy(ir);
    fs_arena_destroy(arena);
}

int main(int argc, char **argv)
{
    const uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 20261123;
    fs_arena *arena = fs_arena_create();
    const hw_cluster *two = open_cluster("1x2:cpu", arena);
    const hw_cluster *four = open_cluster("1x4:cpu", arena);
    tally t = {0};
    printf("# seed %llu\n", (unsigned long long)seed);
    for (int i = 0; i < GRAPHS; i++)
        test_graph(&t, fs_mix(seed + (uint64_t)i), 1 + i % 2,
                   i % 2 ? four : two);
    printf("# %d plans, %d other signatures, of %d there is none\n", t.plans,
           t.variants, t.none);
    tap_equal_int(t.wrong, 0,
                  "another signature costs what exhaustive search says");
    tap_equal_int(t.unproven, 0, "its bound is never above that");
    tap_ok(t.plans > GRAPHS / 2 && t.none > 0 && t.none < t.variants,
           "some nodes have another, some have none");
    fs_arena_destroy(arena);
    return tap_done();
}
