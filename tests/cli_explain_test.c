/* `explain` says where the time and the bytes of a plan go: the bytes are those
 * that its ranks allocate. The text is golden (FS_GOLDEN=rewrite). */
#include "config.h"
#include "tests/cli_plans.h"

#include <math.h>

typedef struct plan_case {
    const char *name, *words;
} plan_case;

#define GPT "zoo:gpt,layers=2,hidden=64,heads=4,vocab=256,seq=32"

static const plan_case cases[] = {
    /* activations are cut and nothing of them is boxed */
    {"mlp-dp8", "zoo:mlp,layers=1,in=64,hidden=1024,classes=8 --cluster "
                "1x8:a100-sxm4-80g --batch 8192 --dp 8"},
    {"gpt-dp2-tp2", GPT " --cluster 1x4:a100-sxm4-80g --batch 8 --dp 2 --tp 2"},
    {"gpt-pp2", GPT " --cluster 1x4:a100-sxm4-80g --batch 16 --dp 2 --pp 2 "
                    "--micro-batches 4 --zero 1"},
};

enum { CASES = sizeof cases / sizeof cases[0] };

static double value_of(const json_t *tree)
{
    return json_number_value(json_object_get(tree, "value"));
}

/* The tree's root is its largest stage, each stage the sum of its kinds. */
static bool adds_up(const json_t *tree)
{
    const json_t *stages = json_object_get(tree, "children");
    double most = 0;
    for (size_t i = 0; i < json_array_size(stages); i++) {
        const json_t *stage = json_array_get(stages, i);
        const json_t *kinds = json_object_get(stage, "children");
        double sum = 0;
        for (size_t k = 0; k < json_array_size(kinds); k++)
            sum += value_of(json_array_get(kinds, k));
        if (sum != value_of(stage))
            return false;
        most = fmax(most, sum);
    }
    return most == value_of(tree);
}

static void test_bytes(const plan_case *c)
{
    cli_answer *a = cli("plan %s -o \"$D/%s.json\" --json", c->words, c->name);
    json_int_t peak = cli_largest_peak(a);
    a = cli("explain \"$D/%s.json\" --json", c->name);
    const json_t *memory =
        json_object_get(json_object_get(a->json, "tree"), "memory");
    tap_ok(peak > 0 && value_of(memory) == (double)peak,
           "%s: memory is the plan's, %.0f of %lld bytes", c->name,
           value_of(memory), (long long)peak);
    tap_ok(adds_up(memory), "%s: its kinds add up", c->name);
}

static bool near(double a, double b)
{
    return fabs(a - b) <= 2e-3 * fabs(b); /* twice what a search leaves open */
}

/* Every branch is the sum of its own. */
static bool tree_adds_up(const json_t *tree)
{
    const json_t *children = json_object_get(tree, "children");
    double sum = 0;
    for (size_t i = 0; i < json_array_size(children); i++) {
        if (!tree_adds_up(json_array_get(children, i)))
            return false;
        sum += value_of(json_array_get(children, i));
    }
    return !json_array_size(children) ||
           fabs(sum - value_of(tree)) <= 1e-9 * sum;
}

static const char *kind_of(const json_t *binds, size_t i)
{
    return json_string_value(json_object_get(json_array_get(binds, i), "kind"));
}

static bool binds(const cli_answer *a, const char *kind)
{
    const json_t *list = json_object_get(a->json, "binds");
    for (size_t i = 0; i < json_array_size(list); i++)
        if (strcmp(kind_of(list, i), kind) == 0)
            return true;
    return false;
}

static double number_in(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

/* Of a searched plan: no other signature is better, and all else chosen anew is
 * no worse than all else as planned. */
static void test_op(const char *name)
{
    cli_answer *a = cli("explain \"$D/best.json\" --op %s --json", name);
    const json_t *tree = json_object_get(a->json, "tree");
    const json_t *list = json_object_get(tree, "signatures");
    const json_t *anew = json_object_get(a->json, "anew");
    const json_t *next = json_object_get(anew, "next_best");
    const double iteration_s = cli_number(a, "iteration_s");
    const double found = number_in(next, "iteration_s");
    double listed = NAN;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *row = json_array_get(list, i);
        if (json_is_true(json_object_get(row, "next_best")))
            listed = number_in(row, "iteration_s");
    }
    printf("# %s: %.6g s, next %.6g s, listed %.6g s\n", name, iteration_s,
           found, listed);
    tap_ok(a->status == 0 && tree_adds_up(json_object_get(tree, "cost")),
           "%s: its cost adds up", name);
    tap_ok(found >= iteration_s * (1 - 1e-3) && found <= listed &&
               number_in(next, "lower_bound_s") <= found,
           "%s: the next best is no better, all else as planned no cheaper",
           name);
    tap_ok(near(number_in(json_object_get(anew, "chosen"), "iteration_s"),
                iteration_s) &&
               !binds(a, "told"),
           "%s: with its own signature the plan is as good as it was", name);
}

static void test_ops(void)
{
    static const char *const names[] = {"/blocks.0/mlp/fc/gelu", "tok.weight",
                                        "/blocks.1/attn/q/add",
                                        "blocks.1.mlp.proj.weight"};
    /* Stages of one device each, which are faster, leave no choice. */
    cli("search " GPT " --cluster 1x4:a100-sxm4-80g --batch 8 --gap 0 "
        "--fix pp=2 -o \"$D/best.json\"");
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        test_op(names[k]);
}

/* A layer more or less is what search finds when it is told so. */
static void test_layers(void)
{
    cli("search zoo:gpt,layers=4,hidden=64,heads=4,vocab=256,seq=32 --cluster "
        "1x4:a100-sxm4-80g --batch 16 --fix pp=2,micro-batches=4 "
        "-o \"$D/four.json\"");
    cli_answer *a = cli("explain \"$D/four.json\" --stage 0 --json");
    const double planned = cli_number(a, "iteration_s");
    const double anew =
        number_in(json_object_get(a->json, "anew"), "iteration_s");
    const json_t *others = json_object_get(a->json, "others");
    const double next =
        number_in(json_object_get(a->json, "next_best"), "iteration_s");
    char layers[4][32] = {"", "", "", ""};
    double at[4] = {NAN, NAN, NAN, NAN}, least = INFINITY;
    const size_t n = json_array_size(others);
    for (size_t i = 0; i < n && i < 4; i++) {
        const char *what = json_string_value(
            json_object_get(json_array_get(others, i), "what"));
        const char *said = what ? strstr(what, ": layers ") : NULL;
        snprintf(layers[i], sizeof layers[i], "%s", said ? said + 9 : "");
        at[i] = number_in(json_array_get(others, i), "iteration_s");
        least = fmin(least, at[i]);
    }
    tap_ok(n == 4 && layers[0][0] == '3' && layers[1][0] == '4' &&
               layers[2][0] == '1' && layers[3][0] == '0',
           "a layer and two, either way: %s, %s, %s, %s", layers[0], layers[1],
           layers[2], layers[3]);
    tap_ok(near(anew, planned) && binds(a, "memory") && binds(a, "pace"),
           "a stage of a searched plan as it is: %g s of %g s", anew, planned);
    tap_ok(next >= least && next <= least, "the least of the others is next");
    for (int k = 0; k < 4; k++) {
        a = cli("search zoo:gpt,layers=4,hidden=64,heads=4,vocab=256,seq=32 "
                "--cluster 1x4:a100-sxm4-80g --batch 16 "
                "--fix pp=2,micro-batches=4,layers=%s -o \"$D/l.json\" --json",
                layers[k]);
        tap_ok(near(cli_number(a, "iteration_s"), at[k]),
               "layers %s: %g s, search says %g s", layers[k], at[k],
               cli_number(a, "iteration_s"));
    }
}

/* Below what a plan takes memory is what binds. */
static void test_memory(void)
{
    cli_answer *a = cli("check \"$D/best.json\" --json");
    const long long half = (long long)cli_largest_peak(a) * 3 / 4;
    a = cli("explain \"$D/best.json\" --stage 0 --memory %lld --json", half);
    const json_t *anew = json_object_get(a->json, "anew");
    tap_ok(a->status == 0 && json_object_get(anew, "over") &&
               number_in(anew, "any_memory_s") <=
                   cli_number(a, "iteration_s") * (1 + 1e-3),
           "three quarters of its bytes: what would not fit is said");
    a = cli("explain \"$D/best.json\" --op tok.weight --memory %lld --json",
            half);
    tap_ok(a->status == 0 && binds(a, "memory"), "and binds an op's signature");
}

static int count(const char *text, const char *word)
{
    int n = 0;
    for (; (text = strstr(text, word)); text += strlen(word))
        n++;
    return n;
}

/* A plan's file keeps the limit that it was made within: what binds is said of
 * that, not of the device's; what --memory says goes before it. */
static void test_limit(void)
{
    const char *words = "search zoo:gpt,layers=4,hidden=64,heads=4,vocab=512,"
                        "seq=64 --cluster 1x4:v100-sxm3-32g --batch 16 "
                        "--time-limit 20";
    cli_answer *a = cli("%s --memory 3M -o \"$D/within.json\" --json", words);
    tap_equal_int(a->status, 0, "a plan within 3 MiB: %s", a->err);
    a = cli("explain \"$D/within.json\" --json");
    tap_ok(cli_number(a, "limit_bytes") == 3 << 20, "its file says so");
    a = cli("explain \"$D/within.json\" --stage 0");
    tap_ok(a->status == 0 &&
               strstr(a->out, "of 3 MiB that the plan was made within") &&
               strstr(a->out, "where memory is no limit, but stage"),
           "memory binds, by that limit:\n%s", a->out);
    a = cli("explain \"$D/within.json\" --stage 0 --memory 16G");
    tap_ok(a->status == 0 && strstr(a->out, "of 16 GiB of --memory") &&
               !strstr(a->out, "where memory is no limit, but"),
           "not by another one");
    a = cli("explain \"$D/within.json\" --memory 33G");
    tap_ok(a->status == 2 && strstr(a->err, "--memory 33G"),
           "more than a device has limits nothing: %s", a->err);
    a = cli("explain \"$D/best.json\" --json");
    tap_ok(!json_object_get(a->json, "limit_bytes"),
           "without a limit nothing is said");
}

/* One line says what is next best; where the cheapest of the table is not, why.
 */
static void test_one_next_best(void)
{
    cli_answer *a =
        cli("explain \"$D/within.json\" --op blocks.0.mlp.fc.weight");
    const char *refused = strstr(a->out, "not that        -> ");
    tap_ok(a->status == 0 && count(a->out, "next best") == 1 &&
               count(a->out, "cheapest other") == 2,
           "one next best, and the cheapest of the table by another name:\n%s",
           a->out);
    a = cli("explain \"$D/within.json\" --op blocks.0.mlp.fc.weight --json");
    const json_t *next = json_object_get(json_object_get(a->json, "anew"),
                                         "next_best"),
                 *over = json_object_get(next, "refused");
    const json_t *rows = json_object_get(json_object_get(a->json, "tree"),
                                         "signatures"),
                 *row;
    double listed = INFINITY;
    size_t i;
    json_array_foreach(rows, i,
                       row) if (!json_is_true(json_object_get(row, "chosen")))
        listed = fmin(listed, number_in(row, "iteration_s"));
    const double found = number_in(next, "iteration_s");
    tap_ok((listed < found) == (over != NULL) && !over == !refused &&
               (!over || number_in(over, "iteration_s") == listed),
           "%g s listed, %g s next best: the difference is explained", listed,
           found);
}

static void test_near_names(void)
{
    static const char *const rows[][2] = {
        {"/blocks.1/mlp/fc/gel", ": /blocks.1/mlp/fc/gelu,"},
        {"blocks.0.mlp.fc.wieght", ": blocks.0.mlp.fc.weight,"},
        {"TOK.WEIGHT", ": tok.weight,"},
        {"x", "the nearest names: "}};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        cli_answer *a = cli("explain \"$D/best.json\" --op %s", rows[k][0]);
        tap_ok(a->status == 2 && strstr(a->err, rows[k][1]),
               "%s: the nearest come first: %s", rows[k][0], a->err);
    }
}

static void test_refusals(void)
{
    cli_answer *a = cli("explain \"$D/best.json\" --stage 9");
    tap_ok(a->status == 2 && strstr(a->err, "stages 0 to"), "no such stage");
    a = cli("explain \"$D/best.json\" --stage 0 --op tok.weight");
    tap_ok(a->status == 2 && strstr(a->err, "give one of --op, --stage"),
           "one of the two");
    a = cli("explain \"$D/best.json\" --op nothing");
    tap_ok(a->status == 2 && strstr(a->err, "--op nothing"), "no such op");
}

static void test_golden(void)
{
    static char all[1 << 16];
    static const char *const more[] = {
        "gpt-dp2-tp2.json\" --op /blocks.1/mlp/fc/gelu",
        "gpt-pp2.json\" --stage 0"};
    size_t n = 0;
    for (int32_t i = 0; i < CASES; i++) {
        cli_answer *a = cli("explain \"$D/%s.json\"", cases[i].name);
        n += (size_t)snprintf(all + n, sizeof all - n, "%s\n%s\n",
                              cases[i].words, a->out);
    }
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        cli_answer *a = cli("explain \"$D/%s", more[i]);
        n += (size_t)snprintf(all + n, sizeof all - n, "%s\n%s\n", more[i],
                              a->out);
    }
    tap_ok(cli_is_golden("explain.txt", all),
           "the trees are those of tests/golden/explain.txt");
}

int main(void)
{
    cli_begin_scratch("cli_explain_test");
    for (int32_t i = 0; i < CASES; i++)
        test_bytes(&cases[i]);
    test_golden();
    test_ops();
    test_layers();
    test_memory();
    test_limit();
    test_one_next_best();
    test_near_names();
    test_refusals();
    cli_end_scratch();
    return tap_done();
}
