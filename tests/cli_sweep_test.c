/* sweep: all usual recipes priced, beside what `plan` says of some of them. */
#include "config.h"
#include "base/hash.h"
#include "tests/cli_plans.h"

#define NET "zoo:gpt,layers=12,hidden=1024,heads=8,seq=512,vocab=512"
#define A100 "a100-sxm4-80g"
#define ON " --cluster 4x2:" A100 " --batch 16 --precision bf16"

static double number(const json_t *of, const char *key)
{
    return json_number_value(json_object_get(of, key));
}

/* `plan` stops within 0.1 % of the best of a recipe, and a sheet prices one
 * that it could have taken: never much cheaper, and at most some percent
 * dearer. */
static bool is_near(double priced_s, double plan_s)
{
    return priced_s > plan_s * (1 - 2e-3) && priced_s < plan_s * 1.15;
}

static int64_t most_bytes(const json_t *answer)
{
    const json_t *list = json_object_get(answer, "peak_bytes"), *one;
    json_int_t most = 0;
    size_t i;
    json_array_foreach(list, i, one) if (json_integer_value(one) > most) most =
        json_integer_value(one);
    return most;
}

/* What is told of a recipe is what `plan` makes of it. */
static bool is_as_planned(const json_t *row, const char *on)
{
    char recipe[300];
    snprintf(recipe, sizeof recipe, "%s",
             json_string_value(json_object_get(row, "recipe")));
    const cli_answer *a =
        cli("plan %s %s -o \"$D/plan.json\" --json", on, recipe);
    const bool same =
        a->status == 0 &&
        number(row, "iteration_s") == number(a->json, "iteration_s") &&
        number(row, "sim_iteration_s") == number(a->json, "sim_iteration_s") &&
        number(row, "peak_bytes") == (double)most_bytes(a->json) &&
        is_near(number(row, "priced_s"), number(a->json, "iteration_s"));
    if (a->status != 0)
        cli_show(a);
    if (!same)
        printf("# %s %s: told %.9g s, %.9g s simulated, %.0f bytes, priced "
               "%.9g s; planned %.9g s, %.9g s simulated, %lld bytes\n",
               on, recipe, number(row, "iteration_s"),
               number(row, "sim_iteration_s"), number(row, "peak_bytes"),
               number(row, "priced_s"), number(a->json, "iteration_s"),
               number(a->json, "sim_iteration_s"),
               (long long)most_bytes(a->json));
    return same;
}

static void beside_plan(const json_t *row)
{
    tap_ok(is_as_planned(row, NET ON), "as planned: %s",
           json_string_value(json_object_get(row, "recipe")));
}

/* Rows of the file, of which `*fits` are known to fit, and the least seconds of
 * these; -1: a row has not as many cells as the head. */
static int read_rows(int *fits, double *least_s)
{
    char path[600], line[300];
    snprintf(path, sizeof path, "%s/all.csv", cli_scratch);
    FILE *file = fopen(path, "r");
    int n = -1;
    *fits = 0;
    *least_s = INFINITY;
    while (file && fgets(line, sizeof line, file)) {
        int commas = 0;
        const char *cell[13] = {line};
        for (char *at = line; *at; at++)
            if (*at == ',' && ++commas < 13)
                cell[commas] = at + 1;
        if (commas != 12)
            return -1;
        const double s = n >= 0 ? strtod(cell[9], NULL) : INFINITY;
        if (n++ >= 0 && cell[11][0] == '1') {
            ++*fits;
            *least_s = s < *least_s ? s : *least_s;
        }
    }
    if (file)
        fclose(file);
    return n;
}

static void test_prices(void)
{
    cli_answer *a = cli("sweep " NET ON " -o \"$D/all.csv\" --json");
    json_t *all = json_deep_copy(a->json), *row, *best;
    long long refused = 0;
    size_t i;
    int fits;
    double least_s, last_s = 0;
    if (a->status != 0)
        cli_show(a);
    tap_equal_int(read_rows(&fits, &least_s), (int)number(all, "priced"),
                  "the file has a row for each price");
    tap_equal_int(fits, (int)number(all, "fits"), "as many of them fit");
    json_array_foreach(json_object_get(all, "refused"), i, row) refused +=
        (long long)number(row, "recipes");
    tap_equal_int((long long)(number(all, "priced")) + refused,
                  (long long)number(all, "rows"),
                  "recipes have a price, or a reason why not");
    best = json_object_get(all, "best");
    tap_ok(json_array_size(best) == 10 &&
               number(json_array_get(best, 0), "iteration_s") == least_s,
           "ten are told, the first is the least of the file: %.9g", least_s);
    json_array_foreach(best, i, row)
    {
        tap_ok(number(row, "iteration_s") >= last_s, "in order: %.9g",
               number(row, "iteration_s"));
        last_s = number(row, "iteration_s");
        if (i % 3 == 0)
            beside_plan(row);
    }
    json_decref(all);
}

static void test_pipelines(void)
{
    const char *const fixed[] = {"pp=2,recompute=block", "pp=4,zero=1",
                                 "pp=4,tp=2,seq-parallel=1",
                                 "pp=2,dp=2,tp=2,zero=3,micro-batches=8"};
    for (size_t k = 0; k < sizeof fixed / sizeof *fixed; k++) {
        cli_answer *a = cli("sweep " NET ON " --fix %s --json", fixed[k]);
        if (a->status != 0)
            cli_show(a);
        json_t *all = json_deep_copy(a->json);
        beside_plan(json_array_get(json_object_get(all, "best"), 0));
        json_decref(all);
    }
}

/* What is priced is completed and planned by the algorithm that is said. */
static void test_collectives(void)
{
    const char *const on[] = {NET ON " --collectives direct",
                              NET ON " --collectives ring",
                              NET " --cluster 2x8:l4 --batch 16 --precision"
                                  " bf16 --collectives tree"};
    for (size_t k = 0; k < sizeof on / sizeof *on; k++) {
        cli_answer *a = cli("sweep %s --fix pp=1,zero=0 --json", on[k]);
        if (a->status != 0)
            cli_show(a);
        json_t *all = json_deep_copy(a->json);
        const json_t *best = json_array_get(json_object_get(all, "best"), 0);
        const double priced_s = number(best, "priced_s"),
                     plan_s = number(best, "iteration_s");
        tap_ok(is_as_planned(best, on[k]) && fabs(priced_s / plan_s - 1) < 1e-3,
               "priced %.9g s, planned %.9g s: %s", priced_s, plan_s, on[k]);
        json_decref(all);
    }
}

static void test_memory(void)
{
    cli_answer *a =
        cli("sweep " NET ON
            " --fix pp=2,recompute=block --memory 1M -o \"$D/small.csv\"");
    tap_ok(a->status == 1 && strstr(a->err, "smallest wants"),
           "nothing fits: no");
    a = cli("sweep " NET ON " --fix pp=2,tp=2,schedule=zb-h1 --json");
    tap_ok(a->status == 0 && number(a->json, "fits") == 20 &&
               number(a->json, "may_fit") > 0,
           "of a zero-bubble schedule what was planned is known to fit");
    a = cli("runs --sql \"SELECT count(*) AS n FROM figures WHERE name = "
            "'plans_per_s'\" --json");
    const json_t *kept = json_array_get(json_object_get(a->json, "runs"), 0);
    tap_equal_int((int)number(kept, "n"), 7, "figures of each sweep are kept");
}

/* One of the words. */
static const char *draw(uint64_t *seed, int n, const char *const *words)
{
    return words[fs_rand_below(seed, n)];
}
#define DRAW(seed, ...)                                                        \
    draw((seed), sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *),       \
         (const char *const[]){__VA_ARGS__})

/* Whatever the network, the machine and the recipe: what is told is what `plan`
 * says, seconds, simulated seconds and bytes. */
static void test_random(uint64_t seed)
{
    int wrong = 0, seen = 0;
    for (int k = 0; k < 12; k++) {
        char on[300], fix[200];
        snprintf(on, sizeof on, "%s --cluster %s --batch %s --precision %s",
                 DRAW(&seed,
                      "zoo:gpt,layers=12,hidden=256,heads=8,seq=128,vocab=512",
                      "zoo:llama,layers=12,hidden=256,heads=8,kv_heads=4,"
                      "ffn=512,seq=64,vocab=1000",
                      "zoo:bert,layers=12,hidden=256,heads=8,seq=64,"
                      "vocab=3000"),
                 DRAW(&seed, "4x2:" A100, "1x8:" A100, "2x4:h100-sxm5-80g",
                      "2x8:l4", "1x4:v100-sxm2-32g"),
                 DRAW(&seed, "16", "32", "48", "96"),
                 DRAW(&seed, "fp32", "bf16"));
        const char *pp = DRAW(&seed, "1", "2", "4");
        snprintf(fix, sizeof fix, "pp=%s,tp=%s,recompute=%s%s%s", pp,
                 DRAW(&seed, "1", "2", "4"),
                 DRAW(&seed, "none", "selective", "block"),
                 DRAW(&seed, "", ",zero=0", ",micro-batches=4"),
                 pp[0] == '1' ? ""
                              : DRAW(&seed, ",schedule=1f1b", ",schedule=gpipe",
                                     ",schedule=dynamic", ",schedule=zb-h1"));
        cli_answer *a = cli("sweep %s --fix %s --json", on, fix);
        json_t *all = json_deep_copy(a->json);
        const json_t *best = json_object_get(all, "best");
        const size_t n = json_array_size(best);
        for (size_t i = 0; n && i < 2; i++, seen++)
            wrong += !is_as_planned(
                json_array_get(best, (size_t)fs_rand_below(&seed, (int64_t)n)),
                on);
        json_decref(all);
    }
    tap_ok(seen > 8, "recipes drawn: %d", seen);
    tap_equal_int(wrong, 0, "all are as planned");
}

static void refuses(const char *words, const char *what)
{
    cli_answer *a = cli("sweep %s -o \"$D/no.csv\"", words);
    char path[600];
    snprintf(path, sizeof path, "%s/no.csv", cli_scratch);
    const bool clean = access(path, F_OK) != 0;
    tap_ok(a->status == 2 && strstr(a->err, what) && clean, "refused: %s",
           what);
    if (a->status != 2 || !strstr(a->err, what))
        cli_show(a);
}

static void test_refused(void)
{
    const char *on = "zoo:gpt --cluster 1x8:" A100;
    char words[400];
    const char *const cases[][2] = {
        {"", "--batch N"},
        {"--batch 8 --fix cp=2", "without cp"},
        {"--batch 8 --fix dp=2/4", "without numbers of each stage"},
        {"--batch 8 --fix dp=3", "does not divide the 8 devices"},
        {"--batch 8 --fix schedule=zb-v", "each device one stage"},
        {"--batch 8 --fix recompute=any", "for search"},
        {"--batch 8 --fix precision=bf16 --precision fp16", "contradict"},
        {"--batch 8 --fix micro-batches=3", "does not divide into 3"},
        {"--batch 8 --fix pp=8", "has a price"},
        {"--batch 8 --optimizer foo", "unknown optimizer"},
        {"--batch 8 --memory 1T", "more than"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        snprintf(words, sizeof words, "%s %s", on, cases[k][0]);
        refuses(words, cases[k][1]);
    }
    refuses("zoo:mixtral-8x7b --cluster 1x8:" A100 " --batch 8",
            "all alike in training");
    refuses("zoo:mlp --cluster 1x8:" A100 " --batch 8", "equal layers");
    refuses("zoo:resnet50 --cluster 1x8:" A100 " --batch 8", "equal layers");
    refuses("a.onnx --cluster 1x8:" A100 " --batch 8", "of the zoo");
    refuses("zoo:gpt --batch 8", "--cluster C");
    refuses("zoo:gpt --cluster 1x8:" A100 "+1x8:l4 --batch 8", "of one kind");
}

int main(void)
{
    cli_begin_scratch("sweep");
    test_prices();
    test_pipelines();
    test_memory();
    test_collectives();
    test_refused();
    test_random(tap_seed(30));
    cli_end_scratch();
    return tap_done();
}
