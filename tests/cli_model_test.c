/* What `model` says: sums, and the networks that are known by name. */
#include "config.h"
#include "tests/run_cli.h"

/* A backward pass takes a little more than twice the forward pass. */
static void test_large_sums(void)
{
    static const char *const models[] = {"zoo:llama3-70b --batch 4096",
                                         "zoo:gpt3-175b --batch 16384",
                                         "zoo:gpt --batch 100000000000"};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        cli_answer *a = cli("model %s --json", models[i]);
        const double forward = cli_number(a, "fwd_flop");
        const double ratio = cli_number(a, "bwd_flop") / forward;
        tap_ok(a->status == 0 && ratio > 1.9 && ratio < 2.3,
               "model %s: forward %g flop, backward %.3g times that", models[i],
               forward, ratio);
        const double macs = cli_number(a, "fwd_macs");
        tap_ok(macs > 0.4 * forward && macs <= 0.5 * forward &&
                   cli_number(a, "capped_ops") == 0,
               "half of them are multiply-adds, %g", macs);
    }
    cli_answer *a = cli("model zoo:gpt --batch 3000000000000");
    tap_ok(a->status == 0 && strstr(a->out, "at least: ") &&
               strstr(a->out, "keeps at least ") && !strstr(a->out, "ward -"),
           "an op of more work than is counted: so the sums say");
}

static void test_names(void)
{
    cli_answer *a = cli("model zoo:");
    tap_ok(a->status == 0 && strstr(a->out, "zoo:llama3-70b") &&
               strstr(a->out, "70.6 G") && strstr(a->out, "unet"),
           "model zoo: lists models, presets and their parameters");
    a = cli("model zoo: --json");
    tap_ok(json_array_size(json_object_get(a->json, "presets")) > 40,
           "as JSON too");
    a = cli("model zoo:resnet-50");
    tap_ok(a->status == 2 && strstr(a->err, "near it: resnet50; there are"),
           "zoo:resnet-50: the near name is resnet50");
    a = cli("model zoo:GPT");
    tap_ok(a->status == 2 && strstr(a->err, "near it: gpt; there are"),
           "zoo:GPT: the near name is gpt");
    a = cli("model zoo:zzzzzzzzz");
    tap_ok(a->status == 2 && strstr(a->err, "\"; there are"),
           "nothing near it: one space");
}

static void test_no_effect(void)
{
    static const char *const words[][2] = {
        {"zoo:moe,every=9", "every=9 has no effect with layers=4"},
        {"zoo:moe,experts=1", "experts=1: a number from 2 to"},
        {"zoo:t5,experts=2,every=3", "every=3 has no effect with layers=2"},
        {"zoo:gpt --no-dropout", "zoo:gpt has no dropouts"},
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        cli_answer *a = cli("model %s", words[i][0]);
        tap_ok(a->status == 2 && strstr(a->err, words[i][1]),
               "model %s is refused: %s", words[i][0], words[i][1]);
    }
    cli_answer *a = cli("plan zoo:mlp --cluster 1x1:cpu --batch 4 "
                        "--lr-schedule constant,steps=10 -o \"$D/p.json\"");
    tap_ok(a->status == 2 && strstr(a->err, "steps=10 has no effect on a"),
           "a constant rate has no steps");
}

static void test_no_database(void)
{
    cli_answer *a = cli("model zoo:mlp --db \"$D/no such/x.db\"");
    tap_ok(a->status == 2 && strstr(a->err, "--db none"),
           "a database that cannot be made: a hint at --db none");
}

int main(void)
{
    cli_begin_scratch("model");
    test_large_sums();
    test_names();
    test_no_effect();
    test_no_database();
    cli_end_scratch();
    return tap_done();
}
