/* Other cuts are bounded before they are attempted: most of those that are no
 * better are ruled out without tables of moves, and without an engine. */
#include "config.h"
#include "tests/cli_plans.h"

#include <math.h>

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

static const char L4[] =
    "{\"version\": 1, \"groups\": [{\"nodes\": 2, \"devices_per_node\": 4"
    ", \"cores_per_node\": 0, \"device\": {\"name\": \"l4\", \"memory_byte"
    "s\": 25769803776, \"memory_bps\": 300000000000, \"fp32_flops\": 3"
    "0300000000000, \"tf32_flops\": 60000000000000, \"bf16_flops\": 1"
    "21000000000000, \"matmul_efficiency\": 0.7, \"memory_efficiency"
    "\": 0.85, \"launch_s\": 5e-06, \"source\": \"without tiles\"}, \"inn"
    "er\": {\"name\": \"PCIe 4.0 x16\", \"latency_s\": 5.7e-06, \"bandwid"
    "th_bps\": 23625000000}, \"memory\": {\"name\": \"device memory\", \""
    "latency_s\": 5e-06, \"bandwidth_bps\": 127500000000}}], \"outer\""
    ": {\"name\": \"1x Ethernet 100 Gb/s\", \"nics_per_node\": 1, \"late"
    "ncy_s\": 1e-05, \"bandwidth_bps\": 9250000000}}";

/* Small networks, of which many cuts are walked (walk.c): none is left that a
 * baseline comes upon by itself. */
static void test_walk(const char *words)
{
    const cli_answer *a =
        cli("search %s --db none -o \"$D/own.json\" --json", words);
    const double own_s = a->status ? INFINITY : number_of(a, "iteration_s");
    const double proven_s = number_of(a, "lower_bound_s");
    a = cli("search %s --engine greedy --db none -o \"$D/greedy.json\" --json",
            words);
    const double greedy_s = a->status ? 0 : number_of(a, "iteration_s");
    tap_ok(own_s <= 1.001 * greedy_s && proven_s > 0.98 * own_s,
           "%s: %.6g s, nothing below %.6g s; greedy %.6g s", words, own_s,
           proven_s, greedy_s);
    tap_equal_int(cli("check \"$D/own.json\"")->status, 0, "it is sound");
}

/* Two nodes of four L4, whose products take as long as their operations alone
 * make them: the case was found so. */
static void put_l4(void)
{
    char path[700];
    snprintf(path, sizeof path, "%s/l4.json", cli_scratch);
    FILE *file = fopen(path, "wb");
    fputs(L4, file);
    fclose(file);
}

/* What is to be looked into later is the best of all, and of another cut: such
 * cuts were forgotten, and then read. */
static void test_forgotten(void)
{
    const cli_answer *a =
        cli("search zoo:wide_deep,rows=20000,fields=8,hidden=256,layers=3 "
            "--cluster 1x5:rtx-3090 --batch 2 --precision fp16 --memory "
            "8286336 --gap 0 --work-limit 6 --db none -o \"$D/cut.json\"");
    tap_equal_int(a->status, 0, "within little memory, to the last digit");
    tap_equal_int(cli("check \"$D/cut.json\"")->status, 0, "it is sound");
}

/* A rival's plan, or a glance's, is proven like all others. */
static void test_unproven(void)
{
    const cli_answer *a =
        cli("search zoo:vit,layers=2 --cluster 1x1:l4+1x3:h100-sxm5-80g "
            "--batch 3 --precision fp16 --memory 3352780 --db none "
            "-o \"$D/vit.json\" --json");
    tap_ok(a->status == 0 && number_of(a, "gap") < 0.05,
           "a plan that a rival led to is proven to %.3g %%",
           100 * number_of(a, "gap"));
}

static const char *status_of(const cli_answer *a)
{
    const char *text = json_string_value(json_object_get(a->json, "status"));
    return text ? text : "";
}

/* Within memory, where little is proven of other cuts: no worse than what a
 * rival finds, and no more is said of it than of the cuts looked at. */
static void test_open_within(const char *words, const char *rival)
{
    const cli_answer *a =
        cli("search %s --gap 0 --db none -o \"$D/own.json\" --json", words);
    const double own_s = a->status ? INFINITY : number_of(a, "iteration_s");
    const bool all = json_is_true(json_object_get(a->json, "every_cut"));
    tap_ok(all || strcmp(status_of(a), "optimal") != 0, "%s: %s, of %s", words,
           status_of(a), all ? "every cut" : "the cuts looked at");
    const cli_answer *b = cli("search %s --engine %s --db none -o "
                              "\"$D/other.json\" --json",
                              words, rival);
    const double rival_s = number_of(b, "iteration_s");
    tap_ok(own_s <= rival_s * (1 + 1e-12),
           "it takes %.6g s, no more than %s's %.6g s", own_s, rival, rival_s);
}

/* What is best of all fits: it is found within its own peak, too. */
static void test_own_peak(void)
{
    const char *words = "zoo:vit,layers=2 --batch 30 --cluster 1x3:l4 "
                        "--work-limit 20 --db none -o \"$D/own.json\" --json";
    const cli_answer *a = cli("search %s", words);
    const double free_s = number_of(a, "iteration_s");
    const int64_t peak = cli_largest_peak(a);
    a = cli("search %s --memory %lld", words, (long long)peak);
    tap_ok(a->status == 0 && number_of(a, "iteration_s") <= 1.001 * free_s,
           "%.6g s without a limit, %.6g s within its %lld bytes", free_s,
           number_of(a, "iteration_s"), (long long)peak);
}

/* A wider space has the usual one in it. */
static void test_wider(void)
{
    double s[2];
    for (int32_t k = 0; k < 2; k++) {
        const cli_answer *a =
            cli("search zoo:bert,layers=4 --cluster 4x4:a100-sxm4-80g --batch "
                "64 --axes %d --work-limit %d --gap 0.01 --db none -o "
                "\"$D/wide.json\" --json",
                k + 2, k ? 8 : 2);
        s[k] = a->status ? NAN : number_of(a, "iteration_s");
    }
    tap_ok(s[1] <= s[0], "three axes: %.6g s, two: %.6g s", s[1], s[0]);
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
    test_walk("zoo:mobilenet,percent=50,size=64,classes=10 --cluster "
              "1x4:a100-sxm4-80g --batch 3 --precision fp16");
    put_l4();
    test_walk("zoo:gpt,layers=4,hidden=256,heads=8,seq=128,vocab=1000 "
              "--cluster \"$D/l4.json\" --batch 1");
    test_forgotten();
    test_unproven();
    test_open_within("zoo:wide_deep,rows=20000,fields=8,hidden=256,layers=3 "
                     "--batch 255 --cluster 1x5:l4 --memory 4278886 "
                     "--work-limit 20",
                     "greedy");
    test_own_peak();
    test_wider();
    cli_end_scratch();
    return tap_done();
}
