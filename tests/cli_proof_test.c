/* What `search` says that it proved: the bound of simulations, gaps that are
 * asked for, the end by work. */
#include "config.h"
#include "tests/run_cli.h"

#include <math.h>

static double real_of(const cli_answer *a, const char *key)
{
    const json_t *value = json_object_get(a->json, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

/* Readers share what the formula counts for each: below the formula's bound, in
 * the simulator, but not below that of all simulations. */
static void test_simulated(const char *what)
{
    cli_answer *a =
        cli("search %s --gap 0.01 --json --db none -o \"$D/p.json\"", what);
    const double sim = real_of(a, "sim_iteration_s"),
                 bound = real_of(a, "sim_bound_s"), gap = real_of(a, "sim_gap");
    tap_equal_int(a->status, 0, "search %s", what);
    tap_ok(bound > 0 && bound <= real_of(a, "sim_floor_s") * (1 + 1e-9) &&
               bound <= sim,
           "the bound of all simulations is none above this one's");
    tap_ok(gap >= 0 && fabs(gap - (sim - bound) / sim) < 1e-12,
           "the second gap is to it: %g", gap);
}

int main(void)
{
    cli_begin_scratch("cli_proof_test");
    test_simulated("zoo:mlp,in=32,hidden=64,layers=20,classes=8 --cluster "
                   "4x4:l4 --batch 64");
    test_simulated("zoo:resnet,depth=18,width=16,classes=8,size=32 --cluster "
                   "1x4:a100-sxm4-80g --batch 64");
    test_simulated("zoo:mlp,layers=4,hidden=64 --cluster 1x4:cpu --batch 64");
    /* 160,000 columns are too many for GLPK. */
    cli_answer *a = cli("search zoo:gpt,layers=4,hidden=256,heads=8,vocab=1024,"
                        "seq=128 --cluster 1x4:a100-sxm4-80g --batch 32 "
                        "--gap 0.005 --work-limit 10 --json --db none -o "
                        "\"$D/p.json\"");
    tap_equal_int(a->status, 0, "a stage too wide for elimination");
    tap_ok(real_of(a, "gap") <= 0.005, "comes as near as is asked: %g",
           real_of(a, "gap"));
    /* GLPK went round in the prices of bytes. */
    a = cli("search zoo:gpt,layers=4,hidden=256,heads=8,vocab=1024,seq=128 "
            "--cluster 1x4:a100-sxm4-80g --batch 32 --memory 20M --gap 0 "
            "--time-limit 4 --json --db none -o \"$D/p.json\"");
    tap_ok(a->status == 0 && real_of(a, "search_s") < 60,
           "prices of many limits end");
    cli_end_scratch();
    return tap_done();
}
