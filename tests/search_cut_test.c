/* Stages cut by time: no slower by the formula than as many repeated blocks
 * each, over the published sizes. Experts add terms of their own to the loss;
 * logits are large. */
#include "config.h"
#include "search/layout.h"

#include "base/hash.h"
#include "ir/blocks.h"
#include "ir/rewrite.h"
#include "ir/train.h"
#include "search_cluster.h"
#include "tap.h"
#include "zoo/zoo.h"

enum { LEAST_BLOCKS = 8, MICRO_BATCHES = 8, MOST_STAGES = 8 };

/* Each stage on a node of its own. Meshes that are searched take longer. */
static const struct {
    int32_t stages, devices, most_blocks;
} settings[] = {
    {2, 1, INT32_MAX}, {4, 1, INT32_MAX}, {8, 1, INT32_MAX}, {8, 2, 12}};

/* How much slower than the even cut: communication, which a cut by time does
 * not know. */
static const double slack = 0.02;

static ir_graph *training(const char *spec)
{
    fs_err err = {0};
    ir_graph *g = NULL;
    const ir_rewrite_options rewrites = ir_rewrite_usual();
    ir_train_options options = ir_train_defaults();
    options.micro_batches = MICRO_BATCHES;
    if (zoo_build(spec, 1, &err, &g) == FS_OK) {
        ir_rewrite(g, &rewrites);
        if (ir_train(g, &options, &err) == FS_OK)
            ir_rewrite_step(g, &rewrites);
        g->batch = MICRO_BATCHES;
    }
    if (err.status != FS_OK) {
        printf("Bail out! %s: %s\n", spec, err.text);
        exit(1);
    }
    return g;
}

/* Copies of its one repeated block; 0: it has none, or several. */
static int32_t equal_blocks(const ir_graph *g, fs_arena *arena)
{
    ir_graph forward = *g;
    ir_blocks blocks;
    forward.nodes.n = 0;
    while (forward.nodes.n < g->nodes.n &&
           g->nodes.at[forward.nodes.n].phase == IR_FORWARD)
        forward.nodes.n++;
    ir_find_blocks(&forward, arena, &blocks);
    return blocks.repeats.n == 1 ? blocks.repeats.at[0].copies : 0;
}

typedef struct bench {
    ir_graph *graph;
    int32_t blocks;
    const char *name, *cluster;
    ir_mesh mesh;
} bench;

static double seconds(const bench *b, int32_t stages,
                      const search_layers *layers)
{
    fs_err err = {0};
    fs_arena *arena = fs_arena_create();
    search_result result = {0};
    hw_cluster *cluster = open_cluster(b->cluster, arena);
    cluster->groups[0].device.memory_bytes = (int64_t)1 << 55;
    search_graph graph = {MICRO_BATCHES, b->graph, NULL};
    search_problem problem = {
        .cluster = cluster,
        .cost = cost_model_create(cluster, arena),
        .n_graphs = 1,
        .graphs = &graph,
        .engine = "ilp",
        .schedule = "1f1b",
        .fix_stages = stages,
        .fix_mesh = b->mesh,
        .max_mesh_axes = 1,
        .n_layers = layers ? stages : 0,
        .layers = layers,
        .time_limit_s = 60,
        .gap = 1e-3,
        .reduce = true,
    };
    if (search_run(&problem, arena, &err, &result) != FS_OK)
        printf("# %s: %s\n", b->name, err.text);
    const double s = result.strategy ? result.iteration_s : INFINITY;
    fs_arena_destroy(arena);
    return s;
}

static void compare(const bench *b, int32_t stages, int32_t devices)
{
    search_layers even[MOST_STAGES] = {0};
    for (int32_t p = 0; p < stages; p++)
        even[p].blocks = b->blocks / stages + (p < b->blocks % stages);
    const double wanted = seconds(b, stages, even);
    const double got = seconds(b, stages, NULL);
    tap_ok(
        got <= wanted * (1 + slack),
        "%s, %d stages of %d: the cut by time is no slower than the even one",
        b->name, stages, devices);
    printf("# by time %.6g s, even %.6g s: %+.2f %%\n", got, wanted,
           100 * (got / wanted - 1));
}

static void test_preset(const char *name, fs_arena *arena)
{
    bench b = {.graph = training(fs_printf(arena, "zoo:%s", name)),
               .name = name};
    b.blocks = equal_blocks(b.graph, arena);
    for (size_t k = 0; k < sizeof settings / sizeof *settings; k++) {
        const int32_t stages = settings[k].stages;
        const int32_t devices = settings[k].devices;
        if (b.blocks < LEAST_BLOCKS || b.blocks > settings[k].most_blocks)
            continue;
        b.cluster = fs_printf(arena, "%dx%d:h100-sxm5-80g", stages, devices);
        b.mesh = (ir_mesh){devices > 1, {devices > 1 ? devices : 0}};
        compare(&b, stages, devices);
    }
    ir_graph_destroy(b.graph);
}

int main(void)
{
    fs_arena *arena = fs_arena_create();
    for (const zoo_preset *z = zoo_presets; z->name; z++)
        test_preset(z->name, arena);
    fs_arena_destroy(arena);
    return tap_done();
}
