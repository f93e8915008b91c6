/* libFuzzer target: a plan file against a small training graph and cluster. A
 * plan that is read can be proven or refused, whatever stands in it.
 * With FUZZ_SEEDS=DIR set it writes plans there first. */
#include "plan_hand.h"

#include "fuzz.h"

static ir_graph *graph;
static hw_cluster *cluster;

static void write_seed(const char *folder, int i, fs_arena *arena)
{
    static const plan_origin origin = {.model = "mlp.onnx",
                                       .loss = "mse",
                                       .params = "w.*",
                                       .rewrite = "all",
                                       .optimizer = "adam",
                                       .lr_schedule = "cosine,steps=9",
                                       .lr = 0.1,
                                       .weight_decay = -1,
                                       .momentum = -1,
                                       .beta1 = 0.9,
                                       .beta2 = 0.999,
                                       .epsilon = 1e-8,
                                       .cluster = "1x4:hand",
                                       .batch = 16};
    plan_origin local = origin;
    fs_err err = {0};
    ir_mesh mesh = {1, {i % 2 ? 2 : 4}};
    plan_strategy *s = hand_stages(graph, i % 2 ? 2 : 1, mesh, arena);
    hand_signatures(graph, s, (uint64_t)i, arena);
    plan *p = hand_lower(graph, cluster, s, true, arena);
    if (i == 3)
        local.cluster = "local";
    if (plan_write(fs_printf(arena, "%s/plan%d.json", folder, i), graph, p,
                   &local, cluster, &err) != FS_OK) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static fs_arena *arena;
    const char *seeds = getenv("FUZZ_SEEDS");
    (void)argc, (void)argv;
    arena = fs_arena_create();
    graph = hand_mlp(2, 8, 8, 2);
    cluster = hand_cluster(arena, 1, 4, 0);
    for (int i = 0; seeds && i < 4; i++)
        write_seed(seeds, i, arena);
    return 0;
}

static void expect(fs_status status, const fs_err *err)
{
    if (status != FS_OK && !(status == FS_INVALID && err->text[0])) {
        fprintf(stderr, "status %d, \"%s\"\n", status, err->text);
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const char *path = fuzz_file("plan.json", data, n);
    fs_arena *arena = fs_arena_create();
    fs_err err = {0};
    plan_origin origin = {0};
    hw_cluster *stored = NULL;
    plan *p = NULL;
    plan_report report;
    fs_status status = plan_read_origin(path, arena, &err, &origin, &stored);
    expect(status, &err);
    if (status == FS_OK) {
        status = plan_read(path, graph, cluster, arena, &err, &p);
        expect(status, &err);
    }
    if (status == FS_OK) {
        plan_check(graph, cluster, p, arena, &report);
        plan_digest_of(graph, p, &origin);
    }
    fs_arena_destroy(arena);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t most,
                               unsigned seed)
{
    return fuzz_mutate_json(data, n, most, seed);
}
