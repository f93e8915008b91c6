/* `compare`: two plans of one model, what they do otherwise and what it costs.
 */
#include "config.h"
#include "tests/run_cli.h"

#include <math.h>
#include <string.h>

#define GPT(layers)                                                            \
    "plan zoo:gpt,layers=" layers                                              \
    ",hidden=64,heads=4,seq=64,vocab=512 --batch 16 --db none "
#define FOUR "--cluster 1x4:a100-sxm4-80g "

static json_t *differences(const cli_answer *a)
{
    return json_object_get(a->json, "differences");
}

static const char *text_of(const json_t *row, const char *key)
{
    const char *text = json_string_value(json_object_get(row, key));
    return text ? text : "";
}

/* The i-th difference of a kind. */
static const json_t *of_kind(const cli_answer *a, const char *kind, size_t i)
{
    size_t k;
    json_t *row;
    json_array_foreach(differences(a), k, row)
    {
        if (strcmp(text_of(row, "kind"), kind) == 0 && i-- == 0)
            return row;
    }
    return NULL;
}

static const json_t *named(const cli_answer *a, const char *kind,
                           const char *name)
{
    const json_t *row;
    for (size_t i = 0; (row = of_kind(a, kind, i)) != NULL; i++)
        if (strcmp(text_of(row, "name"), name) == 0)
            return row;
    return NULL;
}

static bool is_setting(const cli_answer *a, const char *name, const char *of_a,
                       const char *of_b)
{
    const json_t *row = named(a, "setting", name);
    return row && strcmp(text_of(row, "a"), of_a) == 0 &&
           strcmp(text_of(row, "b"), of_b) == 0;
}

static double half(const json_t *row, const char *which)
{
    const json_t *value = json_object_get(row, which);
    return json_is_number(value) ? json_number_value(value) : 0;
}

/* Parts of stage 0, or of device group 0, add up to "all" of it. */
static void test_sums(const cli_answer *a, const char *kind)
{
    double parts = 0, all = NAN;
    const json_t *row;
    for (size_t i = 0; (row = of_kind(a, kind, i)) != NULL; i++) {
        const double more = half(row, "b") - half(row, "a");
        if (json_integer_value(json_object_get(row, "first")) != 0)
            continue;
        if (strcmp(text_of(row, "part"), "all") == 0)
            all = more;
        else
            parts += more;
    }
    tap_ok(fabs(parts - all) <= 1e-9 * fabs(all) + 1e-12,
           "%s: differences of the parts (%g) are that of the whole (%g)", kind,
           parts, all);
}

static void test_same(void)
{
    const cli_answer *a = cli("compare \"$D/dp4.json\" \"$D/dp4.json\" --json");
    tap_ok(a->status == 0 && differences(a) &&
               json_array_size(differences(a)) == 0,
           "a plan does not differ from itself");
    tap_equal_int((int64_t)cli_number(a, "changed_ops"), 0,
                  "nor does one of its ops");
}

static void test_signatures(void)
{
    const double alone_s =
        cli_number(cli("explain \"$D/tp2.json\" --json"), "iteration_s");
    const cli_answer *a = cli("compare \"$D/dp4.json\" \"$D/tp2.json\" --json");
    const json_t *first = json_array_get(differences(a), 0);
    tap_ok(strcmp(text_of(first, "kind"), "setting") == 0 &&
               is_setting(a, "mesh", "4", "2x2"),
           "settings come first: the mesh");
    tap_ok(!of_kind(a, "setting", 1), "and nothing else that was asked for");
    tap_ok(json_number_value(json_object_get(json_object_get(a->json, "b"),
                                             "iteration_s")) == alone_s,
           "its seconds are those of `explain`");
    test_sums(a, "time");
    test_sums(a, "memory");
    const json_t *op = named(a, "op", "blocks.0.mlp.fc.weight");
    tap_ok(op && json_integer_value(json_object_get(op, "copies")) == 4,
           "copies of a block that change alike are one");
    tap_ok(
        op && !strcmp(text_of(json_object_get(op, "a"), "signature"), "-> B") &&
            !strcmp(text_of(json_object_get(op, "b"), "signature"),
                    "-> (B,S(0))"),
        "with their signatures");
    a = cli("compare \"$D/dp4.json\" \"$D/tp2.json\"");
    tap_ok(a->status == 0 && strstr(a->out, "blocks.0.mlp.fc.weight x4") &&
               strstr(a->out, "all-reduce"),
           "for people too");
}

static void test_stages(void)
{
    const cli_answer *a = cli("compare \"$D/dp4.json\" \"$D/pp2.json\" --json");
    tap_ok(is_setting(a, "stages", "1", "2") &&
               is_setting(a, "micro-batches", "1", "4") &&
               is_setting(a, "layers", "4", "2x2"),
           "stages, micro-batches and layers are told");
    const json_t *op = named(a, "op", "blocks.2.mlp.fc.weight");
    tap_ok(op && json_integer_value(json_object_get(op, "copies")) == 2 &&
               json_integer_value(json_object_get(json_object_get(op, "b"),
                                                  "first_stage")) == 1,
           "ops that only moved to another stage are told");
    tap_ok(!named(a, "op", "blocks.0.mlp.fc.weight"), "others are not");
    const cli_answer *back =
        cli("compare \"$D/pp2.json\" \"$D/again.json\" --json");
    tap_ok(is_setting(back, "recompute", "none", "block"),
           "what the training graph is made with is told");
    op = named(back, "op", "/blocks.3/mlp/fc/gelu.again");
    tap_ok(op && json_is_null(json_object_get(op, "a")) &&
               json_is_object(json_object_get(op, "b")),
           "an op that only one has is told as such");
}

/* The limit that a plan was made within changes nothing in it. */
static void test_limits(void)
{
    cli(GPT("4") FOUR "--dp 4 --memory 1G -o \"$D/within.json\"");
    const cli_answer *a =
        cli("compare \"$D/dp4.json\" \"$D/within.json\" --json");
    tap_ok(
        a->status == 0 && json_array_size(differences(a)) == 1 &&
            is_setting(a, "memory limit", "the device's", "1 GiB (--memory)") &&
            json_is_true(json_object_get(a->json, "same_plan")),
        "one plan, of which one was made within less memory");
}

static void test_clusters(void)
{
    const cli_answer *a =
        cli("compare \"$D/dp4.json\" \"$D/h100.json\" --json");
    tap_ok(a->status == 0 && named(a, "setting", "cluster") &&
               is_setting(a, "devices", "4", "8"),
           "plans of two clusters are compared");
}

static void test_refused(void)
{
    const cli_answer *a =
        cli("compare \"$D/dp4.json\" \"$D/other.json\" --json");
    tap_ok(a->status == 2 && strstr(a->err, "model_digest") &&
               strstr(a->err, "layers=2") && !strchr(a->err, '\n')[1],
           "plans of two models are refused in one line, both named");
    a = cli("compare \"$D/dp4.json\"");
    tap_ok(a->status == 2 && strstr(a->err, "two PLANs"), "so is one alone");
    a = cli("compare \"$D/dp4.json\" \"$D/missing.json\"");
    tap_ok(a->status == 2 && strstr(a->err, "missing.json"),
           "so is a plan that is not there");
}

int main(void)
{
    cli_begin_scratch("cli_compare");
    cli(GPT("4") FOUR "--dp 4 -o \"$D/dp4.json\"");
    cli(GPT("4") FOUR "--dp 2 --tp 2 --zero 1 -o \"$D/tp2.json\"");
    cli(GPT("4") FOUR "--dp 2 --pp 2 --micro-batches 4 -o \"$D/pp2.json\"");
    cli(GPT("4") FOUR "--dp 2 --pp 2 --micro-batches 4 --recompute block "
                      "-o \"$D/again.json\"");
    cli(GPT("4") "--cluster 1x8:h100-sxm5-80g --dp 8 -o \"$D/h100.json\"");
    cli(GPT("2") FOUR "--dp 4 -o \"$D/other.json\"");
    test_same();
    test_signatures();
    test_stages();
    test_limits();
    test_clusters();
    test_refused();
    cli_end_scratch();
    return tap_done();
}
