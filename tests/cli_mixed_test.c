/* Clusters of several kinds of devices: what is told of them counts all. */
#include "config.h"
#include "tests/run_cli.h"

#define GPT "zoo:gpt,layers=2,hidden=256,heads=4,vocab=512,seq=128"
#define A100 "a100-sxm4-80g"

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
        {"fp32", "fp32_flops"}, {"bf16", "bf16_flops"}, {"fp16", "bf16_flops"}};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        figures f = simulate("2x1:" A100, rows[k].precision);
        tap_near(f.mfu, f.flops / peak_of("1x1:" A100, rows[k].peak), 1e-9,
                 "mfu: of the peak of what products take, %s",
                 rows[k].precision);
    }
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

int main(void)
{
    cli_begin_scratch("cli_mixed_test");
    test_rates();
    test_precisions();
    test_groups();
    cli_end_scratch();
    return tap_done();
}
