/* sweep: all usual recipes priced, beside what `plan` says of some of them. */
#include "config.h"
#include "tests/cli_plans.h"

#define NET "zoo:gpt,layers=12,hidden=1024,heads=8,seq=512,vocab=512"
#define A100 "a100-sxm4-80g"
#define ON " --cluster 4x2:" A100 " --batch 16 --precision bf16"

static double number(const json_t *of, const char *key)
{
    return json_number_value(json_object_get(of, key));
}

/* Of a single micro-batch a recipe of so few devices is completed as plan does,
 * on its own mesh with its own samples; of others with more samples or fewer,
 * and both stop within 0.1 % of the best (src/search/SWEEP.md). */
static double tolerance(const char *recipe)
{
    const char *count = strstr(recipe, "--micro-batches ");
    return count && atoi(count + strlen("--micro-batches ")) == 1 ? 1e-9 : 2e-3;
}

static void beside_plan(const json_t *row)
{
    char recipe[300];
    const double swept_s = number(row, "iteration_s");
    snprintf(recipe, sizeof recipe, "%s",
             json_string_value(json_object_get(row, "recipe")));
    const cli_answer *a =
        cli("plan " NET ON " %s -o \"$D/plan.json\" --json", recipe);
    const double plan_s = number(a->json, "iteration_s");
    if (a->status != 0)
        cli_show(a);
    tap_ok(a->status == 0 && fabs(swept_s / plan_s - 1) < tolerance(recipe),
           "%s: swept %.9g s, planned %.9g s", recipe, swept_s, plan_s);
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
        const char *cell[12] = {line};
        for (char *at = line; *at; at++)
            if (*at == ',' && ++commas < 12)
                cell[commas] = at + 1;
        if (commas != 11)
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

static void test_memory(void)
{
    cli_answer *a =
        cli("sweep " NET ON
            " --fix pp=2,recompute=block --memory 1M -o \"$D/small.csv\"");
    tap_ok(a->status == 1 && strstr(a->err, "smallest wants"),
           "nothing fits: no");
    a = cli("sweep " NET ON " --fix pp=2,tp=2,schedule=zb-h1 --json");
    tap_ok(a->status == 0 && number(a->json, "fits") == 0 &&
               number(a->json, "may_fit") > 0,
           "of a zero-bubble schedule nothing is known to fit");
    a = cli("runs --sql \"SELECT count(*) AS n FROM figures WHERE name = "
            "'plans_per_s'\" --json");
    const json_t *kept = json_array_get(json_object_get(a->json, "runs"), 0);
    tap_equal_int((int)number(kept, "n"), 7, "figures of each sweep are kept");
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
    test_refused();
    cli_end_scratch();
    return tap_done();
}
