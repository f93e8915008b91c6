/* What `sim` says a prediction is worth: published runs that resemble it, runs
 * of this host, or why nothing is known. */
#include "config.h"
#include "tests/cli_tables.h"

#include <stdlib.h>

#define GPT "zoo:gpt,layers=2,hidden=256,heads=4,seq=128,vocab=1000"

static double of_interval(const cli_answer *a, const char *key)
{
    return cli_real(json_object_get(a->json, "interval"), key);
}

static void unknown(const cli_answer *a, const char *part, const char *name)
{
    const char *why =
        json_string_value(json_object_get(a->json, "interval_unknown"));
    const bool good = a->status == 0 && why && strstr(why, part) &&
                      !json_object_get(a->json, "interval");
    tap_ok(good, "%s: %s", name, why ? why : "?");
    if (!good)
        cli_show(a);
}

static void test_regimes(void)
{
    cli("plan " GPT " --cluster 1x8:a100-sxm4-80g --batch 8 --dp 8 --precision "
        "bf16 --db none -o \"$D/narrow.json\"");
    const cli_answer *a = cli("sim \"$D/narrow.json\" --db none --json");
    tap_ok(of_interval(a, "rows") >= 8 &&
               of_interval(a, "low_s") < of_interval(a, "high_s"),
           "published runs that resemble it: %g", of_interval(a, "rows"));
    tap_ok(strstr(json_string_value(json_object_get(
                      json_object_get(a->json, "interval"), "of")),
                  "other runtimes") != NULL,
           "by other runtimes than ours");
    a = cli("sim \"$D/narrow.json\" --db none --json --framework megatron-lm");
    const char *of = json_string_value(
        json_object_get(json_object_get(a->json, "interval"), "of"));
    tap_ok(of && strstr(of, "megatron-lm") && strstr(of, "16-bit"),
           "of that framework: %s", of ? of : "?");
    unknown(cli("sim \"$D/narrow.json\" --db none --json "
                "--set 'device.bf16_flops*=1000000'"),
            "--set", "nobody measured a changed device");
    unknown(cli("sim \"$D/narrow.json\" --db none --json --straggler 2"),
            "straggler", "nor a straggler");
    unknown(cli("sim \"$D/narrow.json\" --db none --json --jitter 0.1"),
            "--jitter", "predictions of them had no jitter");
    cli("plan " GPT " --cluster 1x8:a100-sxm4-80g --batch 8 --dp 8 --db none "
        "-o \"$D/wide.json\"");
    unknown(cli("sim \"$D/wide.json\" --db none --json"), "fp32",
            "another precision");
    cli("plan zoo:resnet50 --cluster 1x4:tpuv4 --batch 8 --dp 4 --precision "
        "bf16 --db none -o \"$D/cnn.json\"");
    unknown(cli("sim \"$D/cnn.json\" --db none --json"), "tpuv4",
            "another device");
    cli("plan zoo:wide_deep --cluster 1x2:a100-sxm4-80g --batch 64 --dp 2 "
        "--db none -o \"$D/other.json\"");
    unknown(cli("sim \"$D/other.json\" --db none --json"), "other",
            "another kind of network");
    cli("plan zoo:moe --cluster 1x4:a100-sxm4-80g --batch 8 --dp 4 --precision "
        "bf16 --db none -o \"$D/experts.json\"");
    unknown(cli("sim \"$D/experts.json\" --db none --json"), "experts",
            "nor are experts a transformer's");
}

/* A cluster of the shipped device at `times` its rate. */
static void write_cluster(double times)
{
    char path[700];
    snprintf(path, sizeof path, "%s/datasets/clusters/a100-sxm4-80g.json",
             cli_env("FS_SRCDIR", "."));
    json_t *shipped = json_load_file(path, 0, NULL);
    json_t *device = json_object_get(shipped, "device");
    json_t *node = json_object_get(shipped, "node");
    json_object_set_new(device, "bf16_flops",
                        json_real(times * json_number_value(json_object_get(
                                              device, "bf16_flops"))));
    json_t *cluster =
        json_pack("{s:i, s:[{s:i, s:i, s:O, s:O, s:O}], s:O}", "version", 1,
                  "groups", "nodes", 1, "devices_per_node", 8, "device", device,
                  "inner", json_object_get(node, "inner"), "memory",
                  json_object_get(node, "memory"), "outer",
                  json_object_get(shipped, "outer"));
    snprintf(path, sizeof path, "%s/mine.json", cli_scratch);
    tap_ok(cluster && json_dump_file(cluster, path, 0) == 0,
           "a cluster of one's own at %g times the rate", times);
    json_decref(cluster);
    json_decref(shipped);
}

static void test_own_device(void)
{
    for (int k = 1; k <= 2; k++) {
        write_cluster(k);
        const cli_answer *a =
            cli("plan " GPT " --cluster \"$D/mine.json\" --batch 8 --dp 8 "
                "--precision bf16 --db none -o \"$D/mine.plan.json\"");
        if (a->status)
            cli_show(a);
        a = cli("sim \"$D/mine.plan.json\" --db none --json");
        if (k == 1)
            tap_ok(of_interval(a, "rows") >= 8, "the same device");
        else
            unknown(a, "figures", "its name alone does not make it the same");
    }
}

static void with_residuals(const char *regime, const char *part)
{
    char path[700];
    snprintf(path, sizeof path, "%s/data/residuals.json", cli_scratch);
    unlink(path);
    FILE *file = fopen(path, "wb");
    fprintf(file, "{\"source\": \"s\", \"regimes\": [%s]}", regime);
    fclose(file);
    const cli_answer *a = cli("sim \"$D/narrow.json\" --db none --json");
    const bool good = a->status == 2 && strstr(a->err, "residuals.json") &&
                      strstr(a->err, part);
    tap_ok(good, "refused: %s (%s)", part, a->err);
}

#define REGIME                                                                 \
    "{\"network\": \"transformer\", \"precision\": \"16-bit\", \"device\": "   \
    "\"a100-sxm4-80g\", \"rows\": 9, "

static const char *in_data(void)
{
    static char data[700];
    snprintf(data, sizeof data, "%s/data", cli_scratch);
    return data;
}

static void test_broken(void)
{
    tap_ok(system("mkdir \"$D/data\" && ln -s \"$(cd \"$S\" && pwd)\"/datasets/"
                  "* \"$D/data/\"") == 0,
           "a data folder");
    setenv("FS_DATA", in_data(), 1);
    with_residuals(REGIME "\"low\": 9.9, \"median\": 1, \"high\": 1.2}", "low");
    with_residuals(REGIME "\"low\": 0.9, \"high\": 1.2}", "median");
    with_residuals("{\"rows\": 9}", "network");
    with_residuals("[", "");
    unsetenv("FS_DATA");
}

static void write_residuals(double low, double median, double high)
{
    char path[700];
    snprintf(path, sizeof path, "%s/data/residuals.json", cli_scratch);
    unlink(path);
    FILE *file = fopen(path, "wb");
    fprintf(file,
            "{\"source\": \"s\", \"regimes\": [" REGIME
            "\"low\": %g, \"median\": %g, \"high\": %g}]}",
            low, median, high);
    fclose(file);
}

/* Where nearly all runs took longer, or shorter, the prediction is not among
 * the times to expect, and that is said. */
static void test_beside(void)
{
    static const struct {
        double low, median, high;
        const char *line, *why;
    } rows[] = {{0.9, 1.1, 1.3, "uncertain ", ""},
                {1, 1.2, 1.3, "uncertain ", ""},
                {1.2, 1.31, 1.4, "expect ", "too short"},
                {0.5, 0.6, 0.9, "expect ", "too long"}};
    setenv("FS_DATA", in_data(), 1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const double low = rows[i].low, high = rows[i].high;
        write_residuals(low, rows[i].median, high);
        const cli_answer *a = cli("sim \"$D/narrow.json\" --db none --json");
        const double s = cli_number(a, "iteration_s");
        const json_t *has = json_object_get(
            json_object_get(a->json, "interval"), "has_predicted");
        tap_ok(json_is_boolean(has) &&
                   json_is_true(has) == (of_interval(a, "low_s") <= s &&
                                         s <= of_interval(a, "high_s")) &&
                   json_is_true(has) == (low <= 1 && high >= 1),
               "%g to %g times what is predicted: told whether that has it",
               low, high);
        tap_near(of_interval(a, "median_s"), rows[i].median * s, 1e-12,
                 "the middle of them");
        a = cli("sim \"$D/narrow.json\" --db none");
        tap_ok(strstr(a->out, rows[i].line) && strstr(a->out, rows[i].why),
               "people read %s%s", rows[i].line, rows[i].why);
    }
    unsetenv("FS_DATA");
}

static void test_own_runs(void)
{
    cli("plan zoo:mlp --cluster local --ranks 1 --batch 4 -o \"$D/l.json\"");
    unknown(cli("sim \"$D/l.json\" --json"), "0 plans of the 8",
            "no run of this host yet");
    cli("run \"$D/l.json\" --data synthetic --steps 3");
    unknown(cli("sim \"$D/l.json\" --json"), "1 plan of the 8 that it takes",
            "a run of this host");
    unknown(cli("sim \"$D/l.json\" --json --db none"), "database",
            "which the database knows");
}

int main(void)
{
    cli_begin_scratch("cli_interval_test");
    test_regimes();
    test_own_device();
    test_broken();
    test_beside();
    test_own_runs();
    cli_end_scratch();
    return tap_done();
}
