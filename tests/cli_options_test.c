/* What is asked for is done or refused: nothing said is passed over. */
#include "config.h"
#include "tests/run_cli.h"

#define MODEL "\"$S/datasets/models/gpt_bytes.dyn.onnx\""
#define BERT                                                                   \
    "\"$S/datasets/train_cases/bert_tiny/model.onnx\" --cluster 1x2:cpu "      \
    "--batch 4 --dp 2"
#define SEARCH "search zoo:mlp --cluster 1x4:cpu --batch 8 -o \"$D/bad.json\" "

/* Status 2, and both words are in the message. */
static void refused(const char *fact, const char *a_word, const char *b_word,
                    const cli_answer *a)
{
    char path[700];
    snprintf(path, sizeof path, "%s/bad.json", cli_scratch);
    int good = a->status == 2 && strstr(a->err, a_word) &&
               strstr(a->err, b_word) && access(path, F_OK) != 0;
    tap_ok(good, "%s", fact);
    if (!good) {
        printf("# wanted status 2, '%s' and '%s'\n", a_word, b_word);
        cli_show(a);
    }
}

static void test_contradictions(void)
{
    refused("a count of micro-batches by flag and by --fix",
            "--micro-batches 4", "micro-batches=2",
            cli(SEARCH "--micro-batches 4 --fix micro-batches=2"));
    refused("a schedule by flag and by --fix", "gpipe", "1f1b",
            cli(SEARCH "--schedule gpipe --fix schedule=1f1b"));
    refused("a key of --fix twice", "dp=2", "dp=4",
            cli(SEARCH "--fix dp=2,dp=4"));
    refused("a schedule in --fix twice", "gpipe", "1f1b",
            cli(SEARCH "--fix schedule=gpipe,schedule=1f1b"));
    refused("zero twice in --fix", "zero=0", "zero=1",
            cli(SEARCH "--fix zero=0,zero=1"));
    refused("an option twice with two values", "--batch 8", "--batch 16",
            cli("model zoo:mlp --batch 8 --batch 16"));
    refused("a dimension bound twice", "batch=4", "batch=8",
            cli("model " MODEL " --bind batch=4 --bind batch=8"));
    refused("no micro-batches at all", "--micro-batches", "1",
            cli(SEARCH "--micro-batches 0"));
    cli_answer *a = cli("search zoo:mlp --cluster 1x2:cpu --batch 8 --batch 8 "
                        "--fix micro-batches=2,micro-batches=2 "
                        "--micro-batches 2 -o \"$D/twice.json\"");
    tap_equal_int(a->status, 0, "the same said twice passes");
    if (a->status)
        cli_show(a);
}

/* Every kind that the importer has is one that the command line takes. */
static void test_loss_kinds(void)
{
    static const char *const kinds[] = {"cross-entropy",
                                        "mse",
                                        "l1",
                                        "bce",
                                        "bce-logits",
                                        "margin",
                                        "margin,m2=0,m3=0.35,scale=30"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        cli_answer *a = cli("model " MODEL " --loss %s", kinds[i]);
        tap_ok(a->status == 2 && strstr(a->err, "has a loss"),
               "--loss %s is known", kinds[i]);
    }
    static const char *const wrong[] = {"margin,m4=1", "margin,m2=x",
                                        "margin,scale=0", "marginal"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        tap_equal_int(cli("model " MODEL " --loss %s", wrong[i])->status, 2,
                      "--loss %s is refused", wrong[i]);
    cli_answer *a = cli("model " MODEL " --loss l3");
    tap_ok(a->status == 2 && strstr(a->err, "bce-logits"),
           "--loss l3 is not: the kinds are listed");
}

static void test_without_effect(void)
{
    refused("--loss for a model that has one", "loss", "mse",
            cli("model " MODEL " --loss mse"));
    refused("--loss for a zoo network", "zoo:mlp", "mse",
            cli("model zoo:mlp --loss mse"));
    refused("--params that match nothing", "zzz", "matches no parameter",
            cli("model " MODEL " --params zzz"));
    refused("--params for a zoo network", "zzz", "zoo:mlp",
            cli("model zoo:mlp --params zzz"));
    refused("--bind for a zoo network", "n=3", "zoo:mlp",
            cli("model zoo:mlp --bind n=3"));
}

/* Each constant with each optimizer: taken where the update uses it. */
static void test_optimizer_constants(void)
{
    static const struct {
        const char *option, *taken;
    } all[] = {{"--momentum 0.5", " momentum "},
               {"--beta1 0.5", " adam adamw "},
               {"--beta2 0.5", " adam adamw "},
               {"--epsilon 0.5", " adam adamw "},
               {"--lr 0.5", " sgd momentum adam adamw "},
               {"--weight-decay 0.5", " sgd momentum adam adamw "}};
    static const char *const optimizers[] = {"sgd", "momentum", "adam",
                                             "adamw"};
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < 4; k++) {
            char word[32], fact[64], name[32];
            snprintf(name, sizeof name, "--optimizer %s", optimizers[k]);
            snprintf(fact, sizeof fact, "%s with %s", all[i].option, name);
            snprintf(word, sizeof word, " %s ", optimizers[k]);
            const cli_answer *a =
                cli("plan zoo:mlp --cluster 1x2:cpu --batch 8 --dp 2 %s %s "
                    "-o \"$D/%s.json\"",
                    name, all[i].option,
                    strstr(all[i].taken, word) ? "good" : "bad");
            if (strstr(all[i].taken, word))
                tap_ok(a->status == 0, "taken: %s", fact);
            else
                refused(fact, all[i].option, name, a);
        }
    refused("--momentum with the default", "--momentum 0.5",
            "--optimizer adamw (the default)",
            cli("search zoo:mlp --cluster 1x2:cpu --batch 8 --momentum 0.5 "
                "-o \"$D/bad.json\""));
}

/* A row of an embedding that takes no gradient is the plan's. */
static void test_padding(void)
{
    static const struct {
        const char *said, *why;
    } bad[] = {{"m.w.weight", "NAME=ROW"},
               {"m.w.weight=x", "NAME=ROW"},
               {"m.w.weight=-1", "no row -1"},
               {"m.w.weight=1000", "no row"},
               {"zzz=0", "zzz"},
               {"m.dec.bias=0", "looked up"}};
    for (int i = 0; i < 6; i++)
        refused(
            "a padding that is none", bad[i].said, bad[i].why,
            cli("plan " BERT " --padding %s -o \"$D/bad.json\"", bad[i].said));
    refused("two rows of one table", "weight=0", "weight=1",
            cli("plan " BERT " --padding m.w.weight=0 --padding m.w.weight=1 "
                "-o \"$D/bad.json\""));
    cli_answer *a = cli("plan " BERT " --padding m.w.weight=0 "
                        "-o \"$D/padding.json\"");
    tap_equal_int(a->status, 0, "a plan with a padding row");
    if (a->status)
        cli_show(a);
    cli_slurp("padding.json", a->out, sizeof a->out);
    tap_ok(strstr(a->out, "m.w.weight=0") != NULL, "stands in its origin");
    a = cli("check \"$D/padding.json\"");
    tap_ok(a->status == 0 && !strstr(a->out, "edited"), "and is read again");
}

static void test_endings(void)
{
    refused("a picture of a kind that is not drawn", ".svg, .png", ".pdf or",
            cli("show zoo:mlp -o \"$D/bad.html\""));
    refused("a picture without an ending", ".svg, .png", ".pdf or",
            cli("show zoo:mlp -o \"$D/bad\""));
}

static void test_steps(void)
{
    cli("plan zoo:mlp --cluster 1x2:cpu --batch 8 -o \"$D/plan.json\"");
    refused("sim of no step", "--steps", "1 to 10000",
            cli("sim \"$D/plan.json\" --steps 0"));
    refused("sim of too many steps", "--steps", "1 to 10000",
            cli("sim \"$D/plan.json\" --steps 100000000"));
    tap_equal_int(cli("sim \"$D/plan.json\" --steps 1")->status, 0,
                  "sim of one step");
}

/* What only the library could do before. */
static void test_reached(void)
{
    double plain =
        cli_number(cli("sim \"$D/plan.json\" --json"), "iteration_s");
    double slow = cli_number(cli("sim \"$D/plan.json\" --straggler 3 --json"),
                             "iteration_s");
    tap_ok(slow > plain, "sim --straggler: %g s, %g s without", slow, plain);
    refused("a straggler that is faster", "--straggler", "more than 1",
            cli("sim \"$D/plan.json\" --straggler 0.5"));
    static char text[1 << 16];
    const cli_answer *a = cli("show zoo:mlp --batch 8 -o \"$D/mlp.txt\"");
    cli_slurp("mlp.txt", text, sizeof text);
    tap_ok(a->status == 0 && strstr(text, "matmul"),
           "show: a model as text, a line per node");
}

/* Rows of `explain --op`, cheapest first; the first that is not chosen is the
 * next best. */
static void test_explain(void)
{
    cli("plan zoo:mlp --cluster 1x4:cpu --batch 8 --dp 2 --tp 2 -o "
        "\"$D/explain.json\"");
    cli_answer *a =
        cli("explain \"$D/explain.json\" --op /blocks.0/fc/add --json");
    json_t *tree = json_object_get(a->json, "tree");
    json_t *rows = json_object_get(tree, "signatures");
    const char *op = json_string_value(json_object_get(tree, "op"));
    tap_equal_text(op ? op : "none", "matmul",
                   "explain --op: a tree of the op");
    double before = 0;
    int sorted = 1, chosen = 0, next = 0, first_other = -1, marked = -1;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        json_t *row = json_array_get(rows, i);
        double s = json_number_value(json_object_get(row, "iteration_s"));
        int is_chosen = json_is_true(json_object_get(row, "chosen"));
        sorted &= s >= before;
        before = s;
        chosen += is_chosen;
        if (!is_chosen && first_other < 0)
            first_other = (int)i;
        if (json_is_true(json_object_get(row, "next_best"))) {
            marked = (int)i;
            next++;
        }
    }
    tap_ok(sorted && json_array_size(rows) > 3,
           "explain --op: %zu signatures, the cheapest first",
           json_array_size(rows));
    tap_ok(chosen == 1 && next == 1 && marked == first_other,
           "explain --op: the chosen and the next best are marked");
    if (!rows)
        cli_show(a);
    a = cli("explain \"$D/explain.json\" --op /blocks.0/fc/add");
    tap_ok(strstr(a->out, "the cheapest other costs"),
           "explain --op: says by how much");
}

static void test_tokens(void)
{
    cli_answer *a = cli("sim \"$D/plan.json\" --json");
    tap_ok(json_is_null(json_object_get(a->json, "tokens_per_s")),
           "an MLP has samples, no tokens");
    a = cli("sim \"$D/plan.json\"");
    tap_ok(a->status == 0 && !strstr(a->out, "tokens"), "nor is one printed");
    cli("plan zoo:gpt,layers=1,hidden=32,heads=2,vocab=64,seq=16 --cluster "
        "1x2:cpu --batch 8 -o \"$D/gpt.json\"");
    a = cli("sim \"$D/gpt.json\" --json");
    tap_near(cli_number(a, "tokens_per_s"), 16 * cli_number(a, "samples_per_s"),
             1e-9, "a sample of a GPT is a sequence of tokens");
}

static int count(const char *text, const char *word)
{
    int n = 0;
    while ((text = strstr(text, word))) {
        text += strlen(word);
        n++;
    }
    return n;
}

static void test_short_data(void)
{
    if (system("printf %018d 0 >\"$D/short.txt\"; printf %0100d 0 "
               ">\"$D/long.txt\"") != 0)
        return;
    cli("calibrate"); /* once: `local` is then known */
    cli("plan zoo:gpt,layers=1,hidden=32,heads=2,vocab=64,seq=16 --cluster "
        "local --ranks 2 --batch 8 --dp 2 -o \"$D/here.json\"");
    cli_answer *a =
        cli("run \"$D/here.json\" --data \"$D/short.txt\" --steps 1");
    tap_ok(a->status == 0 && count(a->err, "same window") == 1,
           "data of one window is warned of, once");
    if (a->status)
        cli_show(a);
    a = cli("run \"$D/here.json\" --data \"$D/long.txt\" --steps 1");
    tap_ok(a->status == 0 && !strstr(a->err, "window"), "other data is not");
}

static void test_separator(void)
{
    cli_answer *a = cli("check --db none -- \"$D/plan.json\"");
    tap_equal_int(a->status, 0, "-- ends the options");
    if (a->status)
        cli_show(a);
    refused("what follows -- is an operand", "./--json", "No such file",
            cli("check --db none -- --json"));
    if (system("cd \"$D\" && cp plan.json ./-plan.json") != 0)
        return;
    char *program = realpath(cli_env("FS_BUILDDIR", "."), NULL);
    char command[2048];
    snprintf(command, sizeof command,
             "cd '%s' && '%s/flowsearch' check --db none -- -plan.json "
             ">out 2>err",
             cli_scratch, program);
    tap_equal_int(system(command), 0, "-- makes way for a file called -x");
    free(program);
}

/* The oracle answers for what is small to a user, too. */
static void test_exhaustive(void)
{
    double cost[2] = {0};
    for (int k = 0; k < 2; k++) {
        cli_answer *a =
            cli("search zoo:mlp,layers=1,in=16,hidden=32,classes=4 --cluster "
                "1x2:a100-sxm4-80g --batch 12 --gap 0 --engine %s -o "
                "\"$D/engine.json\" --json",
                k ? "exhaustive" : "ilp");
        cost[k] = cli_number(a, "iteration_s");
        tap_equal_int(a->status, 0, k ? "exhaustive: an mlp" : "ilp: an mlp");
        if (a->status != 0)
            cli_show(a);
    }
    tap_near(cost[1], cost[0], 1e-9, "exhaustive: as fast as ilp's");
    for (int k = 0; k < 2; k++) {
        cli_answer *a = cli("search zoo:mlp --cluster 1x4:v100-sxm2-16g "
                            "--batch 8 --gap 0 --engine %s --start none "
                            "--no-reduce=cuts --recompute none "
                            "-o \"$D/engine.json\" --json",
                            k ? "exhaustive" : "ilp");
        cost[k] = cli_number(a, "iteration_s");
        tap_equal_int(a->status, 0, "an mlp that is too large to be walked: %s",
                      a->err);
    }
    tap_near(cost[1], cost[0], 1e-9, "is built up, as fast as ilp's");
    cli_answer *a = cli("search zoo:gpt,layers=1 --cluster 1x2:v100-sxm2-16g "
                        "--batch 8 --engine exhaustive -o \"$D/engine.json\"");
    tap_ok(a->status == 2 && strstr(a->err, "(1e10 are walked)") &&
               strstr(a->err, "1500000 states") && strstr(a->err, "--fix dp=2"),
           "what is too large is told with the limits and what would do: %s",
           a->err);
}

/* Each exact reduction has its switch, and none changes the optimum. */
static void test_reductions(void)
{
    static const char *const flags[] = {"", "--no-reduce", "--no-reduce=arcs",
                                        "--no-reduce=goldstein,split",
                                        "--no-reduce=fold,follow"};
    double cost[5];
    for (int k = 0; k < 5; k++) {
        cli_answer *a = cli("search zoo:mlp,layers=2,hidden=64 --cluster "
                            "1x2:a100-sxm4-80g --batch 12 --gap 0 %s -o "
                            "\"$D/reduced.json\" --json",
                            flags[k]);
        cost[k] = cli_number(a, "iteration_s");
        tap_ok(a->status == 0 && cli_number(a, "gap") <= 1e-9,
               "a proven plan with '%s'", flags[k]);
        tap_near(cost[k], cost[0], 1e-9, "the same with '%s'", flags[k]);
    }
    refused("a reduction by a name that is none", "'fald'", "goldstein",
            cli(SEARCH "--no-reduce=fold,fald"));
    refused("a list with nothing in it", "''", "goldstein",
            cli(SEARCH "--no-reduce=fold,"));
}

int main(void)
{
    cli_begin_scratch("cli_options_test");
    test_contradictions();
    test_without_effect();
    test_optimizer_constants();
    test_padding();
    test_endings();
    test_steps();
    test_reached();
    test_explain();
    test_tokens();
    test_short_data();
    test_separator();
    test_exhaustive();
    test_reductions();
    test_loss_kinds();
    cli_end_scratch();
    return tap_done();
}
