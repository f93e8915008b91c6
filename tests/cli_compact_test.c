/* Networks of very many layers are searched with few of them: that finds, and
 * proves, what a search of the graph in full does. */
#include "config.h"
#include "tests/run_cli.h"

#include <math.h>
#include <string.h>

#define GPT "zoo:gpt,hidden=32,heads=4,vocab=100,seq=16"
#define LLAMA "zoo:llama,hidden=32,heads=4,kv_heads=2,ffn=48,vocab=100,seq=16"
#define BERT "zoo:bert,hidden=32,heads=4,vocab=100,seq=16"

typedef struct row {
    const char *words;
    bool compact; /* enough few layers do; or memory asks for all */
} row;

static const row rows[] = {
    {GPT ",layers=60 --cluster 1x1:l4 --batch 4 --recompute none", true},
    {GPT ",layers=120 --cluster 1x2:l4 --batch 8 --recompute block", true},
    {GPT ",layers=120 --cluster 1x2:l4 --batch 8 --fix pp=2", true},
    {GPT ",layers=300 --cluster 1x4:a100-sxm4-80g --batch 16 --precision bf16",
     true},
    {LLAMA ",layers=150 --cluster 1x3:l4 --batch 6 --recompute none", true},
    {LLAMA ",layers=120 --cluster 2x1:l4 --batch 8 --recompute block "
           "--precision bf16",
     true},
    {BERT ",layers=120 --cluster 1x2:l4 --batch 8 --gap 0.01", true},
    {"zoo:mlp,layers=120 --cluster 1x2:l4 --batch 8", true},
    {GPT ",layers=12 --cluster 1x2:l4 --batch 8", false},
    {GPT ",layers=60 --cluster 1x8:l4 --batch 8 --gap 0.01", false},
    {GPT ",layers=120 --cluster 1x2:l4 --batch 8 --schedule any", false},
};

typedef struct answer {
    double s, bound_s, any_cut_s, sim_bound_s;
    char digest[32];
    bool compact;
} answer;

static answer search(const char *words, const char *more)
{
    answer found = {.s = NAN};
    cli_answer *a = cli("search %s %s -o \"$D/plan.json\" --json", words, more);
    if (a->status != 0) {
        cli_show(a);
        return found;
    }
    found.s = cli_number(a, "iteration_s");
    found.bound_s = cli_number(a, "lower_bound_s");
    found.any_cut_s = cli_number(a, "any_cut_bound_s");
    found.sim_bound_s = cli_number(a, "sim_bound_s");
    found.compact = json_object_get(a->json, "layers_searched") != NULL;
    snprintf(found.digest, sizeof found.digest, "%s",
             json_string_value(json_object_get(a->json, "plan_digest")));
    return found;
}

/* Bounds sum up other numbers. */
static bool is_near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * b;
}

/* Proofs end where they are enough (0.1 %), on ways of their own. */
static bool is_proven(const answer *a, const answer *other)
{
    return a->bound_s <= a->s * (1 + 1e-9) &&
           fabs(a->bound_s - other->bound_s) <= 1e-3 * a->s;
}

static void test_row(const row *r)
{
    const answer few = search(r->words, ""),
                 all = search(r->words, "--no-reduce=compact");
    tap_ok(few.compact == r->compact && !all.compact, "%s: %s", r->words,
           r->compact ? "few of its layers" : "all of them");
    tap_ok(few.s == all.s && strcmp(few.digest, all.digest) == 0,
           "%s: the same plan, %.17g and %.17g s", r->words, few.s, all.s);
    tap_ok(is_proven(&few, &all) && is_proven(&all, &few) &&
               is_near(few.any_cut_s, all.any_cut_s) &&
               is_near(few.sim_bound_s, all.sim_bound_s),
           "%s: the same bounds, %g and %g s", r->words, few.bound_s,
           all.bound_s);
}

/* Within less there may be plans that few layers cannot tell to fit: then all
 * of them are searched, as if nothing had been. */
static void test_memory(void)
{
    static const char *const words =
        GPT ",layers=60 --cluster 1x1:l4 --batch 4 --recompute none";
    cli_answer *a = cli("search %s -o \"$D/plan.json\" --json", words);
    const json_t *peaks = json_object_get(a->json, "peak_bytes");
    const json_int_t bytes = json_integer_value(json_array_get(peaks, 0));
    static const int percent[] = {101, 95, 85};
    for (size_t k = 0; k < sizeof percent / sizeof *percent; k++) {
        char more[400];
        snprintf(more, sizeof more, "%s --memory %lld", words,
                 (long long)(bytes * percent[k] / 100));
        const answer all = search(more, "--no-reduce=compact"),
                     few = search(more, "");
        tap_ok(few.s == all.s && strcmp(few.digest, all.digest) == 0 &&
                   is_near(few.bound_s, all.bound_s),
               "within %d %%: the same plan, %g s (%s layers) and %g",
               percent[k], few.s, few.compact ? "few" : "all", all.s);
        a = cli("check \"$D/plan.json\" --json");
        tap_equal_int(a->status, 0, "within %d %%: it is sound", percent[k]);
    }
    a = cli("search %s --memory 1M -o \"$D/plan.json\"", words);
    tap_ok(a->status == 1 && strstr(a->err, "every plan needs at least"),
           "what fits nowhere is told of all layers: %s", a->err);
}

int main(void)
{
    cli_begin_scratch("cli_compact_test");
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        test_row(&rows[k]);
    test_memory();
    cli_end_scratch();
    return tap_done();
}
