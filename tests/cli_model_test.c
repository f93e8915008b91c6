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

int main(void)
{
    cli_begin_scratch("model");
    test_large_sums();
    cli_end_scratch();
    return tap_done();
}
