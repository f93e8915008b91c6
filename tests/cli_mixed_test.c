/* Clusters of several kinds of devices: what is told of them counts all. */
#include "config.h"
#include "tests/run_cli.h"

#include <string.h>

#define GPT "zoo:gpt,layers=2,hidden=256,heads=4,vocab=512,seq=128"
#define A100 "a100-sxm4-80g"
#define V100 "v100-sxm2-16g"

typedef struct figures {
    double iteration_s, mfu, flops; /* flops: per device */
} figures;

static figures simulate(const char *cluster, const char *precision)
{
    cli_answer *a = cli("plan " GPT " --cluster %s --batch 8 --dp 2 "
                        "--precision %s -o \"$D/plan.json\"",
                        cluster, precision);
    tap_equal_int(a->status, 0, "%s", cluster);
    a = cli("sim \"$D/plan.json\" --json");
    return (figures){cli_number(a, "iteration_s"), cli_number(a, "mfu"),
                     1e12 * cli_number(a, "tflops_per_device")};
}

static double peak_of(const char *cluster, const char *peak)
{
    cli_answer *a = cli("cluster %s --json", cluster);
    return json_number_value(
        json_object_get(json_object_get(a->json, "device"), peak));
}

static void test_rates(void)
{
    figures l4 = simulate("2x1:l4", "fp32");
    figures a100 = simulate("2x1:" A100, "fp32");
    figures mixed = simulate("1x1:l4+1x1:" A100, "fp32");
    figures turned = simulate("1x1:" A100 "+1x1:l4", "fp32");
    double mean =
        (peak_of("1x1:l4", "fp32_flops") + peak_of("1x1:" A100, "fp32_flops")) /
        2;
    tap_near(mixed.mfu, mixed.flops / mean, 1e-9,
             "mfu: of the mean of the devices' peaks");
    tap_near(turned.mfu, mixed.mfu, 1e-9, "mfu: in any order");
    tap_ok(mixed.iteration_s <= fmax(l4.iteration_s, a100.iteration_s) + 2e-9,
           "a mixture is not slower than its slower kind: %g, %g and %g s",
           mixed.iteration_s, l4.iteration_s, a100.iteration_s);
}

static void test_precisions(void)
{
    static const struct {
        const char *precision, *peak;
    } rows[] = {
        {"fp32", "fp32_flops"}, {"bf16", "bf16_flops"}, {"fp16", "fp16_flops"}};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        figures f = simulate("2x1:" A100, rows[k].precision);
        tap_near(f.mfu, f.flops / peak_of("1x1:" A100, rows[k].peak), 1e-9,
                 "mfu: of the peak of what products take, %s",
                 rows[k].precision);
    }
    const figures fp16 = simulate("2x1:" V100, "fp16");
    tap_near(fp16.mfu, fp16.flops / peak_of("1x1:" V100, "fp16_flops"), 1e-9,
             "mfu: of V100's peak at fp16");
}

static const char *device_of(const json_t *group)
{
    const char *name = json_string_value(
        json_object_get(json_object_get(group, "device"), "name"));
    return name ? name : "";
}

static json_int_t whole_of(const json_t *group, const char *key)
{
    return json_integer_value(json_object_get(group, key));
}

static void test_groups(void)
{
    cli_answer *a = cli("cluster 1x1:l4+3x2:" A100 " --json");
    const json_t *groups = json_object_get(a->json, "groups");
    const json_t *one = json_array_get(groups, 0);
    const json_t *two = json_array_get(groups, 1);
    tap_equal_int((int)json_array_size(groups), 2, "cluster: two groups");
    tap_equal_text(device_of(one), "l4", "cluster: the first");
    tap_equal_text(device_of(two), A100, "cluster: and the second");
    tap_ok(whole_of(one, "nodes") == 1 && whole_of(two, "nodes") == 3 &&
               whole_of(one, "devices_per_node") == 1 &&
               whole_of(two, "devices_per_node") == 2,
           "cluster: with their nodes");
    const json_t *levels = json_object_get(a->json, "levels");
    tap_equal_int((int)json_array_size(levels), 3,
                  "cluster: a level between nodes, one inside each kind");
}

/* ---- which devices stages get ---- */

#define BERT "zoo:bert,layers=4,hidden=256,heads=4,vocab=512,seq=64"
#define OLD "1x2:l4"
#define NEW "1x2:" A100
#define GAP 0.001

static cli_answer *search(const char *model, const char *cluster,
                          const char *more)
{
    cli_answer *a = cli("search %s --cluster %s --batch 64 --gap %g %s "
                        "-o \"$D/plan.json\" --json",
                        model, cluster, GAP, more);
    tap_equal_int(a->status, 0, "%s %s", cluster, more);
    if (a->status)
        cli_show(a);
    return a;
}

static json_int_t first_of(const cli_answer *a, size_t stage)
{
    const json_t *stages = json_object_get(a->json, "stages");
    return whole_of(json_array_get(stages, stage), "first_device");
}

static bool any_groups(const cli_answer *a)
{
    size_t k;
    json_t *row;
    json_array_foreach(json_object_get(a->json, "configs"), k,
                       row) if (json_object_get(row, "groups")) return true;
    return false;
}

/* What else there is stays on the plan's own devices. */
static void test_explained(double iteration_s)
{
    cli_answer *a = cli("explain \"$D/plan.json\" --stage 0 --json");
    const json_t *memory =
        json_object_get(json_object_get(a->json, "tree"), "memory");
    const char *name = json_string_value(json_object_get(memory, "name"));
    tap_ok(name && strncmp(name, "stage 0 (", 9) == 0,
           "explain --stage 0: its own memory: %s", name ? name : "none");
    const json_t *anew = json_object_get(a->json, "anew");
    tap_near(json_number_value(json_object_get(anew, "iteration_s")),
             iteration_s, 0.01, "chosen anew it is as fast");
}

/* How a cluster is written down is not what the plan depends on. */
static void test_orders(void)
{
    cli_answer *a = search(BERT, OLD "+" NEW, "");
    const double one = cli_number(a, "iteration_s");
    tap_ok(first_of(a, 0) == 2 && first_of(a, 1) == 0,
           "the faster devices are the first stage's, though written last");
    tap_ok(any_groups(a), "configurations say which groups come first");
    a = cli("check \"$D/plan.json\"");
    tap_equal_int(a->status, 0, "such a plan is sound");
    test_explained(one);
    const double other =
        cli_number(search(BERT, NEW "+" OLD, ""), "iteration_s");
    tap_near(one, other, 2 * GAP, "the same in either order");
    cli("search %s --cluster %s --batch 64 --gap %g -o \"$D/ordered.json\"",
        BERT, OLD "+" NEW, GAP);
    a = search(BERT, OLD "+" NEW, "--no-reduce=orders");
    tap_ok(cli_number(a, "iteration_s") > 1.05 * one && !any_groups(a),
           "in the cluster's own order alone %g s, not %g",
           cli_number(a, "iteration_s"), one);
    a = cli("compare \"$D/plan.json\" \"$D/ordered.json\"");
    tap_ok(a->status == 0 && strstr(a->out, "2-3, 0-1"),
           "compare tells that stages have other devices");
}

/* What is ruled out as it is cut at first is cut again all the same. */
static void test_recut(void)
{
    static const char gpt[] =
        "zoo:gpt,layers=4,hidden=512,heads=8,seq=128,vocab=8192";
    const double one =
        cli_number(search(gpt, "1x2:l4+1x2:h100-sxm5-80g", ""), "iteration_s");
    const double other =
        cli_number(search(gpt, "1x2:h100-sxm5-80g+1x2:l4", ""), "iteration_s");
    tap_near(one, other, 0.01, "gpt: the same in either order");
}

static void put_cluster(double slower)
{
    char path[600];
    snprintf(path, sizeof path, "%s/two.json", cli_scratch);
    FILE *file = fopen(path, "w");
    const char *link = "{\"name\": \"shared memory\", \"latency_s\": 1e-6, "
                       "\"bandwidth_bps\": 6e9, \"source\": \"a test\"}";
    fprintf(file, "{\"version\": 1, \"groups\": [");
    for (int32_t k = 0; k < 2; k++)
        fprintf(file,
                "%s{\"nodes\": 1, \"devices_per_node\": 1, "
                "\"cores_per_node\": 1, \"inner\": %s, \"memory\": %s, "
                "\"device\": {\"name\": \"%s\", \"memory_bytes\": "
                "2147483648, \"memory_bps\": %g, \"fp32_flops\": %g, "
                "\"tf32_flops\": 0, \"bf16_flops\": 0, "
                "\"matmul_efficiency\": 1, \"memory_efficiency\": 1, "
                "\"launch_s\": 1e-6, \"source\": \"a test\"}}",
                k ? ", " : "", link, link, k ? "slow" : "cpu",
                1e10 / (k ? slower : 1), 1e10 / (k ? slower : 1));
    fprintf(file, "], \"outer\": %s}", link);
    fclose(file);
}

static double loss_of(const cli_answer *a, size_t step)
{
    const json_t *losses = json_object_get(a->json, "losses");
    return json_number_value(json_array_get(losses, step));
}

/* Ranks of this host, of which the second is told to be slower. */
static void test_run(void)
{
    enum { STEPS = 3 };
    double alone[STEPS];
    put_cluster(6);
    search(GPT, "local --ranks 1", "");
    cli_answer *a =
        cli("run \"$D/plan.json\" --data synthetic --steps 3 --json");
    for (size_t k = 0; k < STEPS; k++)
        alone[k] = loss_of(a, k);
    a = search(GPT, "\"$D/two.json\"", "--fix pp=2,micro-batches=16");
    tap_ok(first_of(a, 0) == 1 && first_of(a, 1) == 0,
           "the second rank is the first stage");
    a = cli("run \"$D/plan.json\" --data synthetic --steps 3 --json");
    tap_equal_int(a->status, 0, "it runs");
    for (size_t k = 0; k < STEPS; k++)
        tap_near(loss_of(a, k), alone[k], 1e-5, "step %zu: one rank's loss", k);
}

int main(void)
{
    cli_begin_scratch("cli_mixed_test");
    test_rates();
    test_precisions();
    test_groups();
    test_orders();
    test_recut();
    test_run();
    cli_end_scratch();
    return tap_done();
}
