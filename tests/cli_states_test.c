/* Optimizer states in 16 bits, as a user asks for them: half the bytes, losses
 * that are fp32's but for roundings and one device's whatever the plan, and a
 * search that takes them where the others do not fit. */
#include "config.h"
#include "tests/cli_plans.h"

#define MODEL "\"$S/datasets/models/gpt_bytes.dyn.onnx\""
#define TEXT "\"$S/datasets/data/moby-dick.txt\""
#define MLP "zoo:mlp,in=512,hidden=512,layers=3,classes=8"

enum { STEPS = 10 };

static bool train(int ranks, const char *words, double losses[STEPS])
{
    char plan[600];
    snprintf(plan, sizeof plan,
             "plan " MODEL " --cluster local --ranks %d --batch 8 %s", ranks,
             words);
    return cli_train(plan, TEXT, STEPS, losses);
}

static const char *text_of(const cli_answer *a, const char *key)
{
    const char *text = json_string_value(json_object_get(a->json, key));
    return text ? text : "";
}

/* With one rank and by a recipe with two. */
static void test_losses(const char *optimizer, const char *recipe, double off)
{
    double full[STEPS], one[STEPS], two[STEPS];
    char words[300];
    snprintf(words, sizeof words, "--optimizer %s", optimizer);
    bool ran = train(1, words, full);
    snprintf(words, sizeof words, "--optimizer %s --states bf16", optimizer);
    ran &= train(1, words, one);
    tap_ok(ran && cli_losses_off(one, full, STEPS) < off &&
               one[STEPS - 1] < one[0],
           "%s: %d losses are those of fp32 states within %g (%.1e)", optimizer,
           STEPS, off, ran ? cli_losses_off(one, full, STEPS) : (double)NAN);
    snprintf(words, sizeof words, "--optimizer %s --states bf16 %s", optimizer,
             recipe);
    ran &= train(2, words, two);
    tap_ok(ran && cli_losses_off(two, one, STEPS) < off,
           "%s, %s: losses are one device's within %g (%.1e)", optimizer,
           recipe, off, ran ? cli_losses_off(two, one, STEPS) : (double)NAN);
}

/* Of the optimizer's states on the device that has most. */
static double state_bytes(const json_t *tree)
{
    size_t i;
    json_t *child;
    double most = 0;
    if (strstr(json_string_value(json_object_get(tree, "name")),
               "optimizer state"))
        return json_number_value(json_object_get(tree, "value"));
    json_array_foreach(json_object_get(tree, "children"), i, child) most =
        fmax(most, state_bytes(child));
    return most;
}

static double explain_states(const char *words, const char *states)
{
    cli_answer *a = cli("%s -o \"$D/told.json\" --json", words);
    tap_ok(a->status == 0 && strcmp(text_of(a, "states"), states) == 0,
           "%s: states are told", words);
    a = cli("explain \"$D/told.json\" --json");
    tap_ok(a->status == 0 && strcmp(text_of(a, "states"), states) == 0,
           "so does explain");
    return state_bytes(
        json_object_get(json_object_get(a->json, "tree"), "memory"));
}

static void test_bytes(void)
{
    const double wide =
        explain_states("plan " MLP " --cluster 1x2:cpu --batch 8", "fp32");
    const double narrow = explain_states(
        "plan " MLP " --cluster 1x2:cpu --batch 8 --states bf16", "bf16");
    tap_ok(wide > 0 && fabs(narrow - wide / 2) < 1e-3 * wide,
           "in half the bytes (%g of %g; those of memory follow)", narrow,
           wide);
    const cli_answer *a = cli("check \"$D/told.json\"");
    tap_ok(a->status == 0, "the plan is sound");
}

static json_t *load(const char *name)
{
    char path[700];
    snprintf(path, sizeof path, "%s/%s", cli_scratch, name);
    return json_load_file(path, 0, NULL);
}

/* `check` of the plan with the field of its origin as it says. */
static cli_answer *check_with(json_t *plan, const char *states)
{
    char path[700];
    json_t *origin = json_object_get(plan, "origin");
    if (states)
        json_object_set_new(origin, "states", json_string(states));
    else
        json_object_del(origin, "states");
    snprintf(path, sizeof path, "%s/edited.json", cli_scratch);
    json_dump_file(plan, path, 0);
    return cli("check \"$D/edited.json\"");
}

/* What the file says makes the same graph again. */
static void test_origin(void)
{
    cli_answer *a = cli("plan " MLP " --cluster 1x2:cpu --batch 8 "
                        "--states fp32 -o \"$D/wide.json\"");
    tap_ok(a->status == 0, "--states fp32 is the usual");
    a = cli("compare \"$D/wide.json\" \"$D/told.json\"");
    tap_ok(a->status <= 1 && strstr(a->out, "states"),
           "compare tells the setting");
    json_t *wide = load("wide.json"), *narrow = load("told.json");
    tap_ok(!json_object_get(json_object_get(wide, "origin"), "states"),
           "a plan of fp32 states does not say so");
    a = check_with(narrow, NULL);
    tap_ok(a->status == 1 && strstr(a->out, ".fc.weight.m"),
           "a plan of bf16 states has no room for others");
    a = check_with(narrow, "fp8");
    tap_ok(a->status == 2 && strstr(a->err, "origin.states") &&
               strstr(a->err, "fp8"),
           "a field that is none is named: %s", a->err);
    json_decref(wide);
    json_decref(narrow);
}

static double searched(const char *memory, const char *states)
{
    const cli_answer *a =
        cli("search " MLP " --cluster local --ranks 1 --batch 8 --memory %s "
            "--states %s --gap 0 --json -o \"$D/found.json\"",
            memory, states);
    if (a->status == 1)
        return INFINITY;
    if (a->status != 0)
        cli_show(a);
    return json_number_value(json_object_get(a->json, "iteration_s"));
}

/* Where fp32 states do not fit any takes the others; and what it finds runs. */
static void test_any(void)
{
    static const char *const limits[] = {"9M", "12M", "40M"};
    for (size_t k = 0; k < sizeof limits / sizeof *limits; k++) {
        const double wide = searched(limits[k], "fp32");
        const double narrow = searched(limits[k], "bf16");
        const double any = searched(limits[k], "any");
        const double least = fmin(wide, narrow);
        tap_ok(isinf(least) ? isinf(any) : any <= least * (1 + 1e-9),
               "within %s: any takes %g, fp32 %g, bf16 %g", limits[k], any,
               wide, narrow);
        if (k == 1)
            tap_ok(isinf(wide) && isfinite(any), "bf16 alone fits there");
    }
    searched("12M", "any");
    const cli_answer *a = cli("run \"$D/found.json\" --data synthetic --steps "
                              "3 --json");
    tap_ok(a->status == 0 && cli_largest_peak(a) < 12 << 20,
           "the plan runs in that much memory");
}

/* Search with any is search with what it takes. */
static void test_same(void)
{
    const cli_answer *a =
        cli("search zoo:gpt,layers=2 --cluster 1x4:a100-sxm4-80g --batch 16 "
            "--states any -o \"$D/any.json\" --json");
    tap_ok(a->status == 0 && strcmp(text_of(a, "states"), "bf16") == 0 &&
               strstr(text_of(a, "space"), "optimizer states in fp32, bf16"),
           "the proof speaks of both: %s", text_of(a, "space"));
    char *digest = strdup(text_of(a, "plan_digest"));
    a = cli("search zoo:gpt,layers=2 --cluster 1x4:a100-sxm4-80g --batch 16 "
            "--fix states=bf16 -o \"$D/one.json\" --json");
    tap_equal_text(text_of(a, "plan_digest"), digest,
                   "its plan is that of --fix states=bf16");
    free(digest);
}

/* Both choices of graph at once: the file makes the plan's graph again. */
static void test_again(void)
{
    const cli_answer *a =
        cli("search zoo:gpt,layers=4,hidden=64,seq=64 --cluster "
            "1x2:a100-sxm4-80g --batch 32 --memory 16M --states any "
            "-o \"$D/again.json\" --json");
    tap_ok(a->status == 0 && strcmp(text_of(a, "states"), "bf16") == 0 &&
               cli_number(a, "recomputed_ops") > 0,
           "some is computed again beside narrow states");
    a = cli("check \"$D/again.json\"");
    tap_ok(a->status == 0, "its file makes that graph: %s", a->err);
}

static void test_words(void)
{
    static const struct {
        const char *words, *says;
    } bad[] = {
        {"plan zoo:mlp --states fp8",
         "--states: 'fp8' is unknown (fp32, bf16; any, of search)"},
        {"plan zoo:mlp --states any", "any is for search"},
        {"plan zoo:mlp --states bf16 --optimizer sgd",
         "--states: bf16 has no effect: optimizer sgd keeps no states"},
        {"search zoo:mlp --states any --optimizer sgd",
         "--states: any has no effect: optimizer sgd keeps no states"},
        {"search zoo:mlp --states fp32 --fix states=bf16",
         "--states fp32 and states=bf16 of the recipe contradict"},
        {"search zoo:mlp --fix states=fp8", "'fp8' is unknown"},
    };
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        const cli_answer *a = cli("%s --cluster 1x1:cpu --batch 8 "
                                  "-o \"$D/none.json\"",
                                  bad[k].words);
        tap_ok(a->status == 2 && strstr(a->err, bad[k].says),
               "%s is refused: %s", bad[k].words, a->err);
    }
    const cli_answer *a =
        cli("plan zoo:mlp --cluster 1x1:cpu --batch 8 --optimizer sgd "
            "--states fp32 -o \"$D/sgd.json\"");
    tap_ok(a->status == 0, "fp32 says what is so in any case");
    a = cli("export zoo:mlp --states bf16 --to onnx -o \"$D/m.onnx\"");
    tap_ok(a->status == 2 && strstr(a->err, "--states wants --train"),
           "export wants --train with it: %s", a->err);
}

int main(void)
{
    cli_begin_scratch("cli_states");
    test_words();
    test_bytes();
    test_origin();
    test_same();
    test_again();
    test_any();
    test_losses("adamw", "--dp 2 --zero 1", 1e-3);
    test_losses("momentum", "--tp 2 --micro-batches 2", 1e-3);
    test_losses("adagrad", "--dp 2 --zero 3", 1e-3);
    test_losses("lamb", "--dp 2 --zero 1", 1e-3);
    cli_end_scratch();
    return tap_done();
}
