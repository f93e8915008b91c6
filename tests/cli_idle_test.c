/* --allow-idle: plans on a part of the cluster, and parts of cluster files. */
#include "config.h"
#include "tests/cli_plans.h"

#define NET "zoo:gpt,layers=2,hidden=64,heads=4,seq=32,vocab=64"
#define A100 "a100-sxm4-80g"

static double number(const cli_answer *a, const char *key)
{
    return json_number_value(json_object_get(a->json, key));
}

static void uses(const cli_answer *a, int used, int idle, const char *what)
{
    if (a->status != 0)
        cli_show(a);
    tap_ok(a->status == 0 && (int)number(a, "devices_used") == used &&
               (int)number(a, "devices_idle") == idle,
           "%s: %g devices used, %g idle", what, number(a, "devices_used"),
           number(a, "devices_idle"));
}

static void refuses(const cli_answer *a, const char *what)
{
    tap_ok(a->status == 2 && strstr(a->err, what), "refused: %s", what);
}

static void test_by_hand(void)
{
    uses(cli("plan " NET " --cluster 1x4:" A100 " --batch 16 --dp 2 "
             "--allow-idle -o \"$D/two.json\" --json"),
         2, 2, "dp=2 of four");
    tap_equal_int(cli("check \"$D/two.json\"")->status, 0, "it is sound");
    uses(cli("plan " NET " --cluster 3x8:" A100 " --batch 24 --dp 12 "
             "--allow-idle -o \"$D/more.json\" --json"),
         12, 12, "dp=12 of 3x8, two nodes of six");
    uses(cli("plan " NET " --cluster 1x4:" A100 " --batch 16 --allow-idle "
             "-o \"$D/all.json\" --json"),
         4, 0, "a recipe that is completed");
    refuses(cli("plan " NET " --cluster 1x4:" A100 " --batch 16 --dp 8 "
                "--allow-idle -o \"$D/no.json\""),
            "dp=8 does not make the 4 devices");
    refuses(cli("plan " NET " --cluster 1x4:" A100 " --batch 16 --dp 2 "
                "-o \"$D/no.json\""),
            "dp=2 does not make the 4 devices");
    refuses(cli("plan " NET " --cluster 1x2:" A100 "+1x2:l4 --batch 16 --dp 2 "
                "--allow-idle -o \"$D/no.json\""),
            "one kind of devices");
    refuses(cli("search " NET " --cluster 1x2:" A100 " --batch 16 --pareto "
                "--allow-idle -o \"$D/no.json\""),
            "--pareto and --allow-idle");
}

/* What is found is as good as the best on any part, and proven of all. */
static void test_search(void)
{
    cli_answer *a = cli("search " NET " --cluster 1x3:" A100 " --batch 4 "
                        "--allow-idle --work-limit 4 -o \"$D/best.json\" "
                        "--json");
    const double best_s = number(a, "iteration_s"),
                 bound_s = number(a, "lower_bound_s");
    if (a->status != 0)
        cli_show(a);
    tap_equal_int((long long)json_array_size(json_object_get(a->json, "parts")),
                  3, "three parts of three devices");
    tap_ok(bound_s > 0 && bound_s <= best_s, "nothing below %g s, %g s found",
           bound_s, best_s);
    tap_equal_int(cli("check \"$D/best.json\"")->status, 0, "it is sound");
    for (int d = 1; d <= 3; d++) {
        a = cli("search " NET " --cluster 1x%d:" A100 " --batch 4 "
                "--work-limit 4 -o \"$D/one.json\" --json",
                d);
        const double one_s = number(a, "iteration_s");
        tap_ok(a->status == 0 && best_s <= one_s * 1.011 &&
                   bound_s <= one_s * (1 + 1e-9),
               "%d devices: %g s, none of the parts %g s", d, one_s, best_s);
    }
}

static void test_file(void)
{
    cli("calibrate -o \"$D/here.json\"");
    cli_answer *a = cli("plan zoo:mlp --cluster \"$D/here.json\" --batch 16 "
                        "--dp 1 --allow-idle -o \"$D/part.json\" --json");
    tap_ok(a->status == 0 && (int)number(a, "devices_used") == 1,
           "one device of a cluster's file");
    tap_equal_int(cli("check \"$D/part.json\"")->status, 0,
                  "a plan for a part of it opens");
    a = cli("cluster \"1x1:$D/here.json\" --json");
    tap_ok(a->status == 0 && (int)number(a, "devices") == 1,
           "a part of a file is a cluster");
    refuses(cli("cluster \"99x1:$D/here.json\""), "has 1 nodes of");
}

int main(void)
{
    cli_begin_scratch("idle");
    test_by_hand();
    test_search();
    test_file();
    cli_end_scratch();
    return tap_done();
}
