/* What does not fit is explained: how much would do, and which bytes of the
 * smallest plan are too many. The proven least and the smallest plan found hold
 * each other: below the one there is no plan, at the other there is one. */
#include "config.h"
#include "tests/cli_plans.h"

#include <stdint.h>

#define GPT "zoo:gpt,layers=2,hidden=64,heads=4,vocab=256,seq=32"
#define MLP "zoo:mlp,layers=4,hidden=64"
#define QUICK "--time-limit 20 -o \"$D/p.json\" --json"

static json_int_t whole(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

/* Terms add up to what plan_check counts, and the term that is said to be over
 * is the first with which they exceed the limit. */
static bool adds_up(const json_t *stage)
{
    static const char *const terms[] = {
        "parameters",  "optimizer_state", "constants", "gradients",
        "activations", "copies",          "scratch",   "gaps"};
    const json_t *bytes = json_object_get(stage, "bytes");
    const char *said = json_string_value(json_object_get(stage, "over"));
    const char *over = NULL;
    json_int_t sum = 0;
    for (size_t k = 0; k < sizeof terms / sizeof *terms; k++) {
        if (whole(bytes, terms[k]) < 0)
            return false;
        sum += whole(bytes, terms[k]);
        if (!over && sum > whole(stage, "limit_bytes"))
            over = terms[k];
    }
    return sum == whole(stage, "arena_bytes") &&
           json_object_size(bytes) == sizeof terms / sizeof *terms &&
           (over ? said && strcmp(said, over) == 0 : !said) &&
           (over != NULL) == (whole(stage, "over_bytes") > 0);
}

/* What is free at the fullest moment is what placing costs: with one stream of
 * kernels the bytes that are live then are the bound that lowering computes. */
static bool gaps_are_placing(const cli_answer *a)
{
    const json_t *stages = json_object_get(a->json, "stages");
    for (size_t i = 0; i < json_array_size(stages); i++) {
        const json_t *stage = json_array_get(stages, i);
        if (whole(json_object_get(stage, "bytes"), "gaps") !=
            whole(stage, "arena_bytes") - whole(stage, "bound_bytes"))
            return false;
    }
    return true;
}

/* Of an answer that says no: the largest arena of its stages, 0 when a figure
 * is wrong. */
static json_int_t largest(const cli_answer *a)
{
    const json_t *stages = json_object_get(a->json, "stages");
    json_int_t most = 0;
    for (size_t i = 0; i < json_array_size(stages); i++) {
        const json_t *stage = json_array_get(stages, i);
        if (!adds_up(stage))
            return 0;
        if (whole(stage, "arena_bytes") > most)
            most = whole(stage, "arena_bytes");
    }
    return most;
}

static void test_search(const char *words, json_int_t limit)
{
    cli_answer *a =
        cli("search %s --memory %lld " QUICK, words, (long long)limit);
    const json_int_t needed = whole(a->json, "needed_bytes");
    const json_int_t smallest = whole(a->json, "smallest_bytes");
    printf("# %lld bytes: needed %lld, smallest %lld\n", (long long)limit,
           (long long)needed, (long long)smallest);
    tap_ok(a->status == 1 && limit < needed && needed <= smallest &&
               largest(a) == smallest,
           "%s in %lld bytes: terms of the smallest plan add up", words,
           (long long)limit);
    char known[64];
    snprintf(known, sizeof known, "--memory %lld is known to do",
             (long long)smallest);
    tap_ok(strstr(a->err, "needs at least ") && strstr(a->err, known),
           "the message has both: %s", a->err);
    tap_ok(json_is_null(json_object_get(a->json, "iteration_s")) &&
               json_is_null(json_object_get(a->json, "gap")) &&
               json_is_null(json_object_get(a->json, "plan")) &&
               json_object_get(a->json, "lower_bound_s") &&
               json_object_get(a->json, "search_s") &&
               json_is_array(json_object_get(a->json, "peak_bytes")),
           "the object has the keys of one with a plan");
    a = cli("search %s --memory %lld " QUICK, words, (long long)(needed - 1));
    tap_ok(a->status == 1, "a byte less than what is needed is too little");
    a = cli("search %s --memory %lld " QUICK, words, (long long)smallest);
    tap_ok(a->status == 0 && cli_largest_peak(a) <= smallest,
           "the smallest plan's bytes are enough");
}

/* Where nothing is proven a memory that does is told, too. */
static void test_limit(void)
{
    const char *words = "search " GPT " --cluster 1x4:a100-sxm4-80g --batch 8 "
                        "-o \"$D/p.json\" --json";
    cli_answer *a = cli("%s --memory 580000 --work-limit 4", words);
    const char *status = json_string_value(json_object_get(a->json, "status"));
    const json_int_t smallest = whole(a->json, "smallest_bytes");
    char known[64];
    snprintf(known, sizeof known, "--memory %lld is known to do",
             (long long)smallest);
    tap_ok(a->status == 1 && status && strcmp(status, "limit") == 0 &&
               smallest > 580000 && strstr(a->err, known),
           "nothing found in 580000 bytes: %s", a->err);
    a = cli("%s --memory %lld --time-limit 20", words, (long long)smallest);
    tap_ok(a->status == 0 && cli_largest_peak(a) <= smallest, "which does: %s",
           a->err);
}

/* The least that configurations need is that of all. */
static void test_configs(void)
{
    cli_answer *a =
        cli("search " MLP " --cluster 1x4:cpu --batch 16 --memory 4K " QUICK);
    const json_t *configs = json_object_get(a->json, "configs");
    json_int_t least = INT64_MAX;
    for (size_t k = 0; k < json_array_size(configs); k++) {
        const json_int_t need = whole(json_array_get(configs, k), "need_bytes");
        if (need > 0 && need < least)
            least = need;
    }
    tap_equal_int(least, whole(a->json, "needed_bytes"),
                  "what is needed is the least of all configurations");
}

static void test_recipes(void)
{
    static const char *const recipes[] = {
        "--dp 4", "--dp 2 --tp 2", "--dp 2 --pp 2 --micro-batches 4 --zero 1",
        "--pp 4 --micro-batches 8 --schedule zb-h1 --dp 1",
        "--dp 2 --pp 2 --interleave 2 --micro-batches 4"};
    for (size_t k = 0; k < sizeof recipes / sizeof *recipes; k++) {
        cli_answer *a = cli("plan " GPT " --cluster 1x4:cpu --batch 16 %s "
                            "-o \"$D/p.json\" --json",
                            recipes[k]);
        const json_int_t peak = cli_largest_peak(a);
        a = cli("plan " GPT " --cluster 1x4:cpu --batch 16 %s --memory %lld "
                "-o \"$D/p.json\" --json",
                recipes[k], (long long)peak / 2);
        const json_int_t smallest = largest(a);
        printf("# free %lld, smallest %lld\n", (long long)peak,
               (long long)smallest);
        tap_ok(a->status == 1 && smallest > peak / 2 &&
                   smallest == whole(a->json, "smallest_bytes") &&
                   gaps_are_placing(a),
               "%s in half of its bytes: terms add up", recipes[k]);
        if (a->status != 1)
            cli_show(a);
    }
}

/* Golden text (FS_GOLDEN=rewrite). */
static void test_golden(void)
{
    static char all[1 << 16];
    static const char *const words[] = {
        "search " GPT " --cluster 1x4:a100-sxm4-80g --batch 8 --memory 300K",
        "plan " GPT " --cluster 1x4:a100-sxm4-80g --batch 16 --dp 2 --pp 2 "
        "--micro-batches 4 --zero 1 --memory 1M"};
    size_t n = 0;
    for (size_t k = 0; k < sizeof words / sizeof *words; k++) {
        cli_answer *a = cli("%s -o \"$D/p.json\"", words[k]);
        n += (size_t)snprintf(all + n, sizeof all - n, "%s\n%s%s\n", words[k],
                              a->out, a->err);
    }
    tap_ok(cli_is_golden("infeasible.txt", all),
           "the tables are those of tests/golden/infeasible.txt");
}

static void take_text(const cli_answer *a, const char *key, char out[17])
{
    const char *text = json_string_value(json_object_get(a->json, key));
    snprintf(out, 17, "%s", text ? text : "");
}

/* The digest of a question is that of what is asked, not of how. */
static void digest_of(const char *words, char out[17])
{
    cli_answer *a = cli("search " GPT " --cluster 1x4:cpu %s " QUICK, words);
    take_text(a, "question_digest", out);
    const json_int_t n =
        (json_int_t)json_array_size(json_object_get(a->json, "configs"));
    tap_ok(n > 0 && whole(a->json, "closed") == n &&
               whole(a->json, "bounded") == n &&
               whole(a->json, "expanded") > 0 &&
               whole(a->json, "expanded") <= n,
           "%s: all %lld configurations are bounded and closed", words,
           (long long)n);
}

static void test_digests(void)
{
    static const char *const others[] = {"--batch 16",
                                         "--batch 8 --memory 1G",
                                         "--batch 8 --fix dp=2,zero=1",
                                         "--batch 8 --optimizer sgd",
                                         "--batch 8 --schedule any",
                                         "--batch 8 --pin tok=B"};
    char first[17], again[17], other[17];
    digest_of("--batch 8", first);
    digest_of("--batch 8 --start none --no-reduce=goldstein --gap 0.01", again);
    tap_ok(first[0] && strcmp(first, again) == 0,
           "another way to the answer is the same question: %s, %s", first,
           again);
    for (size_t k = 0; k < sizeof others / sizeof *others; k++) {
        digest_of(others[k], other);
        tap_ok(strcmp(first, other) != 0, "%s is another question", others[k]);
    }
}

/* That of the space is of which cuts were looked at, too. */
static void test_cut_digests(void)
{
    static const char *const how[] = {"", "--no-reduce=goldstein",
                                      "--no-reduce=cuts", "--fix layers=1x2"};
    char question[4][17], space[4][17];
    json_int_t cuts[4];
    for (int k = 0; k < 4; k++) {
        cli_answer *a = cli("search " GPT " --cluster 1x4:cpu --batch 8 %s%s "
                            "--gap 0 " QUICK,
                            k < 3 ? "--fix pp=2 " : "", how[k]);
        take_text(a, "question_digest", question[k]);
        take_text(a, "space_digest", space[k]);
        cuts[k] = whole(a->json, "other_cuts");
    }
    printf("# %lld, %lld, %lld, %lld other cuts\n", (long long)cuts[0],
           (long long)cuts[1], (long long)cuts[2], (long long)cuts[3]);
    tap_ok(cuts[0] > 0 && cuts[2] == 0 && cuts[3] == 0,
           "a search looks at other cuts, or is told not to");
    tap_ok(strcmp(question[0], question[1]) == 0 &&
               strcmp(question[0], question[2]) == 0 &&
               strcmp(question[0], question[3]) != 0,
           "which is the same question, a cut asked for is another");
    tap_ok((strcmp(space[0], space[1]) == 0) == (cuts[0] == cuts[1]) &&
               strcmp(space[0], space[2]) != 0 &&
               strcmp(space[2], space[3]) != 0 &&
               strcmp(space[2], question[2]) == 0,
           "but the proof speaks of another space");
}

int main(void)
{
    cli_begin_scratch("cli_infeasible_test");
    test_search(MLP " --cluster 1x4:cpu --batch 16", 8192);
    test_search(GPT " --cluster 1x4:a100-sxm4-80g --batch 8", 300000);
    test_search(GPT " --cluster 1x2:cpu --batch 8 --fix pp=2", 300000);
    test_limit();
    test_configs();
    test_recipes();
    test_golden();
    test_digests();
    test_cut_digests();
    cli_end_scratch();
    return tap_done();
}
