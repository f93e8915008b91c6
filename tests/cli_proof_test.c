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

#define MLP                                                                    \
    "zoo:mlp,in=32,hidden=64,layers=20,classes=8 --cluster 1x4:l4 --batch 64 " \
    "--db none "

/* Any plan of the table is written, and what is told of it is its own. */
static void test_pick(void)
{
    double iteration_s = 0, peak = 0;
    for (int32_t n = 1; n <= 2; n++) {
        cli_answer *a =
            cli("search " MLP "--json --pick %d -o \"$D/p%d.json\"", n, n);
        const json_t *plan =
            json_array_get(json_object_get(a->json, "plans"), (size_t)n - 1);
        iteration_s = json_number_value(json_object_get(plan, "iteration_s"));
        peak = json_number_value(json_object_get(plan, "peak_bytes"));
        const json_t *told = json_object_get(a->json, "peak_bytes");
        double most = 0;
        for (size_t k = 0; k < json_array_size(told); k++)
            most = fmax(most, json_number_value(json_array_get(told, k)));
        tap_ok(a->status == 0 &&
                   json_is_true(json_object_get(plan, "chosen")) &&
                   fabs(real_of(a, "iteration_s") - iteration_s) < 1e-15,
               "--pick %d writes plan %d", n, n);
        tap_ok(peak == most, "one figure of its bytes: %g, %g", peak, most);
    }
    cli_answer *a = cli("check \"$D/p2.json\" --json --db none");
    tap_equal_int(a->status, 0, "which is sound");
    a = cli("compare \"$D/p1.json\" \"$D/p2.json\" --json --db none");
    tap_ok(json_is_false(json_object_get(a->json, "same_plan")),
           "and another plan");
    a = cli("compare \"$D/p2.json\" \"$D/p2.json\" --db none");
    tap_ok(a->status == 0 && strstr(a->out, "they are the same plan"),
           "than itself it is not");
}

static void refuses(const char *words, int status, const char *says)
{
    cli_answer *a = cli("%s", words);
    tap_ok(a->status == status && strstr(a->err, says), "%s: %s", words, says);
    if (a->status != status || !strstr(a->err, says))
        cli_show(a);
}

static void test_words(void)
{
    refuses("search " MLP "--keep 2 --pick 3 -o \"$D/x.json\"", 2,
            "--pick 3: 1 to 2 plans are kept");
    refuses("search " MLP "--time-limit -1 -o \"$D/x.json\"", 2,
            "--time-limit -1 is below 0");
    refuses("search " MLP "--gap x -o \"$D/x.json\"", 2,
            "--gap wants a number");
    refuses("search " MLP "--recompute nosuch -o \"$D/x.json\"", 2,
            "none; any, of search)");
    refuses("search " MLP "--time-limit 0.0001 -o \"$D/x.json\"", 1,
            "flowsearch: time ran out");
    refuses(
        "solve \"$S/datasets/iopddl/example.json\" --work-limit 0 --db none", 2,
        "--work-limit 0: more than 0");
    /* A byte in the middle: what is unpacked is no JSON before its sum is
     * known to be wrong. */
    refuses("solve \"$D/bad.json.gz\" --db none", 2,
            "its gzip data is broken or cut");
    cli_answer *a = cli("solve \"$S/datasets/iopddl/G.json.gz\" --work-limit 1 "
                        "--json --db none");
    tap_ok(a->status == 0 && json_is_false(json_object_get(a->json, "open")),
           "solve by work");
}

static void write_damaged(void)
{
    char command[4 * sizeof cli_scratch];
    snprintf(
        command, sizeof command,
        "cp \"$S/datasets/iopddl/G.json.gz\" '%s/bad.json.gz' && chmod u+w "
        "'%s/bad.json.gz' && printf '\\125' | dd of='%s/bad.json.gz' bs=1 "
        "seek=20000 conv=notrunc 2>/dev/null",
        cli_scratch, cli_scratch, cli_scratch);
    tap_ok(system(command) == 0, "a damaged file");
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
    test_pick();
    write_damaged();
    test_words();
    cli_end_scratch();
    return tap_done();
}
