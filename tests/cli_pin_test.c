/* Parameters that are to lie in a certain way: experts by expert, tables by
 * rows and by columns. Whatever is cut, the losses are those of one rank. */
#include "config.h"
#include "tests/cli_plans.h"

enum { STEPS = 4 };

#define EXPERTS "moe\\.(gate|fc|proj)\\.weight"
#define GPT "zoo:gpt,layers=1,hidden=16,heads=2,vocab=24,seq=8"
#define WIDE_DEEP "zoo:wide_deep,fields=3,dense=4,rows=40,embedding=8,hidden=16"
#define DLRM "zoo:dlrm,tables=10,rows=200,embedding=8,dense=3,bottom=8,top=16"

static const struct {
    const char *spec, *more; /* options of one rank, too */
    const char *pin, *sbp;
    const char *one; /* of what the pin is on */
} rows[] = {
    {"zoo:moe,layers=2,hidden=16,heads=2,vocab=11,seq=8,experts=4", "", EXPERTS,
     "S(0)", "blocks.1.moe.fc.weight"},
    {"zoo:moe,layers=2,hidden=16,heads=2,vocab=11,seq=8,experts=6,active=1,"
     "every=1",
     "--optimizer adamw", EXPERTS, "S(0)", "blocks.0.moe.proj.weight"},
    {"zoo:llama,layers=1,hidden=16,heads=4,kv_heads=2,ffn=24,vocab=11,seq=8,"
     "experts=5,active=2,group=4",
     "", EXPERTS, "S(0)", "blocks.0.moe.gate.weight"},
    {"zoo:t5,layers=2,hidden=16,heads=2,head=8,ffn=24,vocab=11,seq=6,target=4,"
     "experts=4",
     "", EXPERTS, "S(0)", "encoder.1.moe.fc.weight"},
    {"\"$D/moe.onnx\"", "", EXPERTS, "S(0)", "blocks.1.moe.fc.weight"},
    /* Tied: the head multiplies by the table. */
    {GPT, "", "^tok", "S(0)", "tok.weight"},
    {GPT, "", "^tok", "S(1)", "tok.weight"},
    {GPT, "--padding tok.weight=3 --optimizer adamw", "^tok", "S(0)",
     "tok.weight"},
    {GPT, "--padding tok.weight=3 --optimizer adamw", "^tok", "S(1)",
     "tok.weight"},
    {WIDE_DEEP, "--padding deep.weight=39", "^deep", "S(0)", "deep.weight"},
    {WIDE_DEEP, "--padding deep.weight=39", "^deep", "S(1)", "deep.weight"},
    {DLRM, "--optimizer adagrad", "tables\\.0\\.", "S(0)",
     "tables.0.embed.weight"},
    {DLRM, "--optimizer adagrad", "tables\\.", "S(1)", "tables.0.embed.weight"},
};

/* Of the node in $D/plan.json, what its output `slot` lies as, or "". */
static const char *output_of(const char *node)
{
    static char found[64];
    char path[600];
    size_t i;
    json_t *each;
    snprintf(path, sizeof path, "%s/plan.json", cli_scratch);
    json_t *root = json_load_file(path, 0, NULL);
    json_t *strategy = json_object_get(root, "strategy");
    found[0] = '\0';
    json_array_foreach(json_object_get(strategy, "nodes"), i, each)
    {
        const char *name = json_string_value(json_object_get(each, "name"));
        json_t *out = json_array_get(json_object_get(each, "out"), 0);
        if (name && strcmp(name, node) == 0 && out)
            snprintf(found, sizeof found, "%s", json_string_value(out));
    }
    json_decref(root);
    return found;
}

/* How many collectives of that name a step of $D/plan.json has. */
static int count_collectives(const char *name)
{
    static char plan[1 << 21];
    int n = 0;
    cli_slurp("plan.json", plan, sizeof plan);
    for (const char *at = plan; (at = strstr(at, name)); at++)
        n++;
    return n;
}

static bool train(int row, const char *recipe, double *losses)
{
    char words[800];
    snprintf(words, sizeof words,
             "plan %s --cluster local --batch 8 --lr 0.05 %s %s %s",
             rows[row].spec,
             strstr(rows[row].more, "--optimizer") ? "" : "--optimizer sgd",
             rows[row].more, recipe);
    return cli_train(words, "synthetic", STEPS, losses);
}

static void test_row(int row, int ranks, const double *wanted)
{
    double losses[STEPS];
    char recipe[200];
    snprintf(recipe, sizeof recipe, "--ranks %d --dp %d --pin '%s=%s'", ranks,
             ranks, rows[row].pin, rows[row].sbp);
    const bool ran = train(row, recipe, losses);
    const double most = ran ? cli_losses_off(losses, wanted, STEPS) : 0;
    tap_ok(ran && most <= 1e-5, "%s, %s %s: the losses of one rank (off %.1e)",
           rows[row].spec, rows[row].more, recipe, most);
    tap_equal_text(output_of(rows[row].one), rows[row].sbp, "%s lies so",
                   rows[row].one);
    if (strcmp(rows[row].pin, EXPERTS) == 0)
        tap_ok(count_collectives("\"all-to-all\"") >= 4,
               "tokens go to experts and back, their gradients too");
}

/* Machines that are described: the figures are the same everywhere. */
static void test_searched(void)
{
    cli_answer *a = cli(
        "search zoo:moe,layers=2,hidden=64,heads=4,vocab=64,seq=32,experts=8 "
        "--cluster 1x4:cpu --batch 8 --fix dp=4 -o \"$D/plan.json\"");
    tap_ok(a->status == 0, "a mixture of experts on four devices");
    tap_equal_text(output_of("blocks.1.moe.fc.weight"), "S(0)",
                   "the search itself cuts the experts by expert");
    tap_equal_text(output_of("/blocks.1/moe/fc/matmul"), "S(0)",
                   "and each device runs its own");
    tap_ok(count_collectives("\"all-to-all\"") >= 4,
           "tokens go to them and back");
    a = cli("search zoo:wide_deep,fields=3,dense=4,rows=200000,embedding=16,"
            "hidden=16,layers=2 --cluster 1x4:cpu --batch 64 --optimizer sgd "
            "--memory 12M --fix dp=1,tp=4 -o \"$D/plan.json\"");
    tap_ok(a->status == 0, "tables of 13 MB in 12 MB per device");
    tap_equal_text(output_of("wide.weight"), "S(0)",
                   "the search cuts the one of a column by rows");
    tap_equal_text(output_of("deep.weight"), "S(1)",
                   "the one of sixteen by columns");
}

static void test_pinned_whole(void)
{
    cli_answer *a = cli(
        "search zoo:moe,layers=2,hidden=64,heads=4,vocab=64,seq=32,experts=8 "
        "--cluster 1x4:cpu --batch 8 --fix dp=4 --pin '" EXPERTS "=B' "
        "-o \"$D/plan.json\"");
    tap_ok(a->status == 0, "experts that are not to be cut");
    tap_equal_text(output_of("blocks.1.moe.fc.weight"), "B", "lie whole");
}

static void test_refused(void)
{
    static const struct {
        const char *pin, *says;
    } cases[] = {
        {"tok", "--pin: 'tok': REGEX=S(0)"},
        {"=S(0)", "REGEX=S(0)"},
        {"tok=P", "REGEX=S(0)"},
        {"tok=S(0)-1+1", "REGEX=S(0)"},
        {"tok=(S(0),B)", "REGEX=S(0)"},
        {"(=S(0)", "--pin: '(': "},
        {"nothing=S(0)", "matches no parameter"},
        {"block.0.attn.q=S(0)", "matches no parameter; the nearest: blocks.0."},
        {"blocks=S(2)", "has no axis 2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cli_answer *a = cli("plan zoo:gpt,layers=1 --cluster 1x4:cpu --batch 8 "
                            "--pin '%s' -o \"$D/none.json\"",
                            cases[i].pin);
        tap_ok(a->status == 2 && strstr(a->err, cases[i].says),
               "--pin '%s' is refused: %.*s", cases[i].pin,
               (int)strcspn(a->err, "\n"), a->err);
    }
}

/* A table of three rows is not cut among four devices. */
static void test_too_short(void)
{
    const cli_answer *a = cli("plan zoo:dlrm --cluster 1x4:l4 --batch 64 --pin "
                              "'embed=S(0)' -o \"$D/none.json\"");
    tap_ok(a->status == 1 && strstr(a->err, "'tables.5.embed.weight'") &&
               strstr(a->err, "variable of 3x128 can do -> B, -> S(1)"),
           "a pin that leaves nothing says what there is: %.*s",
           (int)strcspn(a->err, "\n"), a->err);
}

/* What each of several pins says, and where they hold. */
static void test_together(void)
{
    static const struct {
        const char *words;
        int status;
        const char *says;
    } cases[] = {
        {"--cluster 1x2:cpu --pin '^tok=S(0)' --pin 'tok.*=S(1)'", 2,
         "--pin: '^tok=S(0)' and 'tok.*=S(1)' contradict each other: both "
         "match tok.weight"},
        {"--cluster 1x2:cpu --pin 'tok.*=B' --pin '^tok=S(1)'", 2,
         "--pin: 'tok.*=B' and '^tok=S(1)' contradict"},
        {"--cluster 1x2:cpu --pin '^tok=S(0)' --pin '^tok=B'", 2,
         "--pin ^tok=S(0) and --pin ^tok=B contradict each other"},
        {"--cluster 1x2:cpu --pin '^tok=S(0)' --pin 'tok.*=S(0)'", 0, ""},
        {"--cluster 1x2:cpu --pin '^tok=S(0)' --pin '^tok=S(0)'", 0, ""},
        {"--cluster 1x2:cpu --pin '^tok=S(0)' --pin '^pos=S(1)'", 0, ""},
        {"--cluster 1x2:cpu --pin 'tok|a=b=B' --pin 'tok|a=c=B'", 0, ""},
        {"--cluster 1x2:cpu --pin 'tok|a=b=B' --pin 'pos|a=c=S(1)'", 0, ""},
        {"--cluster 1x1:cpu --pin '^tok=S(0)'", 2,
         "--pin: '^tok=S(0)': a stage has one device here"},
        {"--cluster 1x2:cpu --pp 2 --pin '^tok=S(0)'", 2,
         "--pin: '^tok=S(0)': a stage has one device here"},
        {"--cluster 1x1:cpu --pin '^tok=B'", 0, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cli_answer *a = cli("plan " GPT " --batch 8 %s -o \"$D/plan.json\"",
                            cases[i].words);
        tap_ok(a->status == cases[i].status && strstr(a->err, cases[i].says),
               "%s %s", cases[i].words,
               cases[i].status ? "is refused" : "is a plan");
        if (a->status != cases[i].status || !strstr(a->err, cases[i].says))
            cli_show(a);
    }
}

int main(void)
{
    cli_begin_scratch("pin");
    test_searched();
    test_pinned_whole();
    test_refused();
    test_too_short();
    test_together();
    cli("export zoo:moe,layers=2,hidden=16,heads=2,vocab=11,seq=8,experts=4 "
        "--batch 8 --to onnx -o \"$D/moe.onnx\"");
    cli("calibrate"); /* once: `local` is then known */
    for (int row = 0; row < (int)(sizeof rows / sizeof *rows); row++) {
        double one[STEPS];
        const bool ran = train(row, "--ranks 1 --dp 1", one);
        tap_ok(ran, "%s trains on one rank", rows[row].spec);
        for (int ranks = 2; ran && ranks <= 4; ranks += 2)
            test_row(row, ranks, one);
    }
    cli_end_scratch();
    return tap_done();
}
