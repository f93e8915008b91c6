/* Other cuts are bounded before they are attempted: most of those that are no
 * better are ruled out without tables of moves, and without an engine. */
#include "config.h"
#include "tests/run_cli.h"

static double number_of(const cli_answer *a, const char *key)
{
    return json_number_value(json_object_get(a->json, key));
}

/* A good plan rules out cuts that a worse one goes through to a better: who
 * wants the best there is gets none worse than what a rival finds. */
static double seconds_by(const char *engine)
{
    const cli_answer *a =
        cli("search zoo:gpt,layers=4,hidden=512,heads=8,seq=256,vocab=4096 "
            "--cluster 1x2:h100-sxm5-80g+2x2:l4 --batch 64 --gap 0 "
            "--work-limit 13 --engine %s -o \"$D/plan.json\" --json",
            engine);
    tap_equal_int(a->status, 0, "two kinds of devices: a plan by %s", engine);
    return number_of(a, "iteration_s");
}

static void ask_rivals(void)
{
    const double own_s = seconds_by("ilp"), rival_s = seconds_by("mcmc");
    tap_ok(own_s <= rival_s, "it takes %.6g s, no more than mcmc's %.6g s",
           own_s, rival_s);
}

int main(void)
{
    cli_begin_scratch("cli_cuts_test");
    const cli_answer *a =
        cli("search zoo:gpt,layers=6,hidden=256,heads=4,seq=64,vocab=256 "
            "--cluster 4x2:a100-sxm4-80g --batch 32 --fix pp=4 "
            "--micro-batches 4 --gap 0.01 -o \"$D/plan.json\" --json");
    tap_equal_int(a->status, 0, "four stages of six layers: there is a plan");
    tap_ok(number_of(a, "gap") <= 0.01, "and a proof: a gap of %g",
           number_of(a, "gap"));
    tap_ok(number_of(a, "other_cuts") > 3 * number_of(a, "expanded"),
           "of %g other cuts few are attempted: %g configurations in all",
           number_of(a, "other_cuts"), number_of(a, "expanded"));
    ask_rivals();
    cli_end_scratch();
    return tap_done();
}
