/* search: several plans compared, and --pareto. */
#include "config.h"
#include "tests/cli_plans.h"

#define MLP "zoo:mlp,layers=4,hidden=64"
#define GPT "zoo:gpt,layers=2,hidden=128,heads=4,vocab=512,seq=64"
#define TINY "zoo:gpt,layers=2,hidden=64,heads=4,vocab=256,seq=32"
#define CPU "--cluster 1x4:cpu --batch 16"
#define GPU "--cluster 1x4:a100-sxm4-80g --batch 16"

static double real_of(const json_t *row, const char *key)
{
    return json_number_value(json_object_get(row, key));
}

static bool is_true(const json_t *row, const char *key)
{
    return json_is_true(json_object_get(row, key));
}

/* The plan returned is the one that is marked; its figures are those told. */
static void test_plans(const char *words)
{
    cli_answer *a = cli("search %s -o \"$D/p.json\" --json", words);
    const json_t *plans = json_object_get(a->json, "plans"), *row;
    const json_t *chosen = NULL;
    size_t i;
    int marked = 0, least = 0, faster = 0;
    json_array_foreach(plans, i, row)
    {
        marked += is_true(row, "chosen");
        least += is_true(row, "least_regret");
        if (is_true(row, "chosen"))
            chosen = row;
    }
    tap_ok(a->status == 0 && json_array_size(plans) >= 2 && marked == 1 &&
               least == 1,
           "%s: %zu plans, one chosen, one of least regret", words,
           json_array_size(plans));
    json_array_foreach(plans, i, row) faster +=
        real_of(row, "gap") <= 0.01 &&
        real_of(row, "sim_iteration_s") < real_of(chosen, "sim_iteration_s");
    tap_equal_int(faster, 0, "none that is proven to 1 %% simulates faster");
    tap_ok(real_of(chosen, "iteration_s") == cli_number(a, "iteration_s") &&
               real_of(chosen, "gap") == cli_number(a, "gap") &&
               fabs(real_of(chosen, "sim_iteration_s") -
                    cli_number(a, "sim_iteration_s")) < 1e-12,
           "the figures are those of the plan returned");
}

/* Where memory binds cheaper offers do not fit: the best plan stays in. */
static void test_within(const char *more)
{
    cli_answer *a = cli("search zoo:gpt2 --cluster 1x8:a100-sxm4-80g --batch "
                        "32 --memory 3G --time-limit 10 %s -o \"$D/p.json\" "
                        "--json",
                        more);
    const json_t *first = json_array_get(json_object_get(a->json, "plans"), 0);
    tap_ok(a->status == 0 && first &&
               real_of(first, "iteration_s") <= cli_number(a, "iteration_s"),
           "3 GiB %s: %s", more, a->err);
    tap_ok((double)cli_largest_peak(a) <= 3 * 1073741824.0,
           "the plan returned keeps them");
}

static void test_keep(void)
{
    cli_answer *a = cli("search " MLP " " CPU " --keep 1 -o \"$D/p.json\" "
                        "--json");
    tap_ok(a->status == 0 &&
               json_array_size(json_object_get(a->json, "plans")) == 1,
           "--keep 1: one plan");
    a = cli("search " MLP " " CPU " --keep 0 -o \"$D/p.json\"");
    tap_ok(a->status == 2 && strstr(a->err, "--keep"), "--keep 0 is refused");
    a = cli("search " MLP " " CPU " --engine megatron -o \"$D/p.json\" --json");
    tap_ok(a->status == 0 &&
               json_array_size(json_object_get(a->json, "plans")) == 1,
           "a planner has one plan");
}

/* Rows of a kind: each slower than the one before, and less of `key`. */
static int disorder(const json_t *rows, const char *kind, const char *key)
{
    const json_t *row, *last = NULL;
    int wrong = 0;
    size_t i;
    json_array_foreach(rows, i, row)
    {
        if (strcmp(json_string_value(json_object_get(row, "kind")), kind) != 0)
            continue;
        wrong += last &&
                 (real_of(row, "iteration_s") <= real_of(last, "iteration_s") ||
                  real_of(row, key) >= real_of(last, key));
        wrong += real_of(row, "lower_bound_s") >
                 real_of(row, "iteration_s") * (1 + 1e-12);
        last = row;
    }
    return wrong + (last == NULL);
}

static void test_fronts(void)
{
    cli_answer *a = cli("search " GPT " " GPU " --time-limit 8 --json --pareto="
                        "\"$D/front.svg\" -o \"$D/p.json\"");
    const json_t *rows = json_object_get(a->json, "pareto");
    char path[700];
    tap_equal_int(a->status, 0, "--pareto: %s", a->err);
    tap_equal_int(disorder(rows, "memory", "peak_bytes"), 0,
                  "time against memory: no point beats another");
    tap_equal_int(disorder(rows, "cost", "usd_per_iteration"), 0,
                  "time against cost: no point beats another");
    tap_ok(cli_number(a, "usd_per_device_hour") > 0 &&
               json_object_get(a->json, "price_source"),
           "the price is told with its source");
    snprintf(path, sizeof path, "%s/front.svg", cli_scratch);
    tap_ok(access(path, R_OK) == 0, "and drawn");
}

static void test_pick(void)
{
    cli_answer *a =
        cli("search " TINY " " CPU " --time-limit 8 --json --pareto "
            "--pick 2 -o \"$D/picked.json\"");
    const json_t *row = json_array_get(json_object_get(a->json, "pareto"), 1);
    const double peak = real_of(row, "peak_bytes");
    tap_ok(a->status == 0 && peak > 0 &&
               real_of(row, "iteration_s") == cli_number(a, "iteration_s"),
           "--pick 2: the second point is the answer");
    a = cli("check \"$D/picked.json\" --json");
    tap_ok(a->status == 0 && (double)cli_largest_peak(a) == peak,
           "its plan is sound and takes what the front tells");
    a = cli("search " MLP " " CPU " --time-limit 2 --pareto --pick 10 -o "
            "\"$D/none.json\"");
    tap_ok(a->status == 2 && strstr(a->err, "--pick 10"),
           "a point that is not there is refused: %s", a->err);
}

/* What is proven with more memory holds with less: who does not prove as much
 * has that bound, and it is said. */
static void test_inherited(void)
{
    cli_answer *a = cli("search zoo:gpt,layers=4,hidden=64,heads=4,seq=64,"
                        "vocab=512 --cluster 1x4:v100-sxm2-16g --batch 16 "
                        "--work-limit 0.5 --pareto --json -o \"$D/p.json\"");
    const json_t *rows = json_object_get(a->json, "pareto"), *row;
    int inherited = 0, wrong = 0, n = 0;
    double last = 0;
    size_t i;
    json_array_foreach(rows, i, row)
    {
        const double bound = real_of(row, "lower_bound_s");
        const json_t *said = json_object_get(row, "bound_inherited");
        if (strcmp(json_string_value(json_object_get(row, "kind")), "memory"))
            continue;
        wrong += !json_is_boolean(said) || bound < last ||
                 (json_is_true(said) && (n == 0 || bound > last));
        inherited += json_is_true(said);
        last = bound;
        n++;
    }
    const double bytes = real_of(json_array_get(rows, 1), "limit_bytes");
    tap_ok(a->status == 0 && n > 2 && wrong == 0 && inherited > 0,
           "%d of %d points have the bound of the one above", inherited, n);
    a = cli("search zoo:gpt,layers=4,hidden=64,heads=4,seq=64,vocab=512 "
            "--cluster 1x4:v100-sxm2-16g --batch 16 --work-limit 0.5 --pareto "
            "--pick 2 -o \"$D/p.json\"");
    tap_ok(a->status == 0 && strstr(a->out, " ^ ") &&
               strstr(a->out, "^ proven with more memory, by a point above"),
           "the table says which, and what that means");
    a = cli("explain \"$D/p.json\" --json");
    tap_ok(bytes > 0 && cli_number(a, "limit_bytes") == bytes,
           "a point's file keeps the limit that it was searched within");
}

/* No plan is told twice; where there may be more, what finds them is said. */
static void test_different(const char *more, size_t keep)
{
    cli_answer *a = cli("search zoo:gpt,layers=4,hidden=64,heads=4,seq=64,"
                        "vocab=512 --cluster 1x4:v100-sxm2-16g --batch 16 %s "
                        "--json -o \"$D/p.json\"",
                        more);
    const json_t *plans = json_object_get(a->json, "plans");
    const size_t n = json_array_size(plans);
    int alike = 0;
    char digest[16][24];
    for (size_t i = 0; i < n && i < 16; i++) {
        cli_answer *one =
            cli("search zoo:gpt,layers=4,hidden=64,heads=4,seq=64,vocab=512 "
                "--cluster 1x4:v100-sxm2-16g --batch 16 %s --pick %zu --json "
                "-o \"$D/p.json\"",
                more, i + 1);
        const char *text =
            json_string_value(json_object_get(one->json, "plan_digest"));
        snprintf(digest[i], sizeof digest[i], "%s", text ? text : "");
        for (size_t k = 0; k < i; k++)
            alike += strcmp(digest[k], digest[i]) == 0;
    }
    tap_ok(n == keep && alike == 0, "%s: %zu plans, %d told twice", more, n,
           alike);
}

static void test_more(void)
{
    const char *words = "search zoo:gpt,layers=4,hidden=64,heads=4,seq=64,"
                        "vocab=512 --cluster 1x4:v100-sxm2-16g --batch 16 "
                        "-o \"$D/p.json\"";
    cli_answer *a = cli("%s --keep 2", words);
    int open = 0, keep = 0;
    const char *said = strstr(a->out, " more configurations have bounds");
    while (said && *said != '(')
        said--;
    tap_ok(said &&
               sscanf(said,
                      "(%d more configurations have bounds as near: "
                      "--keep %d looks",
                      &open, &keep) == 2 &&
               keep == (2 + open < 64 ? 2 + open : 64),
           "--keep 2: %d more, --keep %d looks for them", open, keep);
    a = cli("%s --keep 12", words);
    tap_ok(strstr(a->out, "the best of 12 configurations"), "it does");
}

static void test_planners(void)
{
    static const char *const names[] = {"megatron", "horovod", "gpipe", "alpa",
                                        "fsdp"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        cli_answer *a = cli("search " MLP " " GPU " --engine %s --keep 2 -o "
                            "\"$D/none.json\"",
                            names[k]);
        tap_ok(a->status == 2 && strstr(a->err, "--keep") &&
                   strstr(a->err, names[k]) &&
                   strstr(a->err, "is a planner, which has one plan"),
               "%s --keep 2: %s", names[k], a->err);
        a = cli("search " MLP " " GPU " --engine %s --keep 1 -o \"$D/p.json\"",
                names[k]);
        tap_ok(a->status == 0 && strstr(a->out, "proof           none: "),
               "%s --keep 1: a plan that claims no proof%s", names[k], a->err);
    }
    cli_answer *a = cli("search " MLP " " GPU " --engine fsdp --pick 2 -o "
                        "\"$D/none.json\"");
    tap_ok(a->status == 2 && strstr(a->err, "--pick: fsdp is a planner"),
           "--pick of a planner: %s", a->err);
}

static void test_price(void)
{
    cli_answer *a = cli("search " MLP " " CPU " --time-limit 2 --pareto -o "
                        "\"$D/p.json\"");
    tap_ok(a->status == 0 && strstr(a->out, "no price of cpu is known"),
           "without a price there is no cost, and it is said");
    a = cli("search " MLP " " CPU " --time-limit 2 --pareto --price 0.5 --json "
            "-o \"$D/p.json\"");
    const json_t *rows = json_object_get(a->json, "pareto"), *row;
    double off = 0;
    size_t i;
    json_array_foreach(rows, i,
                       row) if (json_object_get(row, "usd_per_iteration")) off =
        fmax(off,
             fabs(0.5 * real_of(row, "devices") * real_of(row, "iteration_s") /
                      3600 / real_of(row, "usd_per_iteration") -
                  1));
    tap_ok(a->status == 0 && disorder(rows, "cost", "usd_per_iteration") == 0 &&
               off < 1e-12,
           "--price: USD are devices, hours and the price");
}

static void test_refusals(void)
{
    static const char *const words[][2] = {
        {"--pick 9", "--pick 9: 1 to 8"},
        {"--pick 0", "--pick 0: 1 to 8"},
        {"--price 2", "--price is for --pareto"},
        {"--pareto --pick 0", "--pick must be"},
        {"--pareto --pick 99", "--pick must be"},
        {"--pareto --price 0", "--price 0"},
        {"--pareto --overlap", "--overlap"},
        {"--pareto=front.txt", "front.txt"},
        {"--pareto=/nowhere/front.svg", "/nowhere/front.svg"},
    };
    for (size_t k = 0; k < sizeof words / sizeof words[0]; k++) {
        cli_answer *a =
            cli("search " MLP " " CPU " %s -o \"$D/p.json\"", words[k][0]);
        tap_ok(a->status == 2 && strstr(a->err, words[k][1]), "%s: %s",
               words[k][0], a->err);
    }
}

/* A whole step below the last plan there is nothing; half a step below there
 * may be. */
static void test_floor(void)
{
    cli_answer *a = cli("search zoo:mlp,hidden=512,in=256 --cluster 1x4:l4 "
                        "--batch 64 --work-limit 4 --pareto -o \"$D/p.json\" "
                        "--json");
    const json_t *list = json_object_get(a->json, "pareto"), *row, *last = NULL;
    size_t i;
    json_array_foreach(list, i, row) if (json_object_get(row, "limit_bytes"))
        last = row;
    const double end =
        real_of(json_object_get(a->json, "pareto_end"), "limit_bytes");
    tap_ok(a->status == 0 && last && end > 0.9 * real_of(last, "peak_bytes"),
           "nothing within %.0f bytes, a plan within %.0f", end,
           last ? real_of(last, "peak_bytes") : 0);
}

int main(void)
{
    cli_begin_scratch("cli_front_test");
    test_plans(GPT " " GPU);
    test_plans(GPT " --cluster 2x4:a100-sxm4-80g --batch 16");
    test_within("");
    test_within("--overlap");
    test_keep();
    test_fronts();
    test_floor();
    test_pick();
    test_inherited();
    test_different("", 8);
    test_more();
    test_planners();
    test_price();
    test_refusals();
    cli_end_scratch();
    return tap_done();
}
