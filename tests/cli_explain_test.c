/* `explain` says where the time and the bytes of a plan go: the bytes are those
 * that its ranks allocate. The text is golden (FS_GOLDEN=rewrite). */
#include "config.h"
#include "tests/cli_plans.h"

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

static void test_golden(void)
{
    static char all[1 << 16];
    size_t n = 0;
    for (int32_t i = 0; i < CASES; i++) {
        cli_answer *a = cli("explain \"$D/%s.json\"", cases[i].name);
        n += (size_t)snprintf(all + n, sizeof all - n, "%s\n%s\n",
                              cases[i].words, a->out);
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
    cli_end_scratch();
    return tap_done();
}
