/* `export` as a user calls it: models, training steps and plans as ONNX. */
#include "config.h"

#include "run_cli.h"

static int items(const cli_answer *a, const char *key)
{
    return (int)json_array_size(json_object_get(a->json, key));
}

static void test_models(void)
{
    cli_answer *a = cli("export zoo:mlp --to onnx -o \"$D/m.onnx\" --json");
    tap_ok(a->status == 0 && cli_number(a, "nodes") > 0,
           "a model is written: %s", a->err);
    tap_equal_int(items(a, "inexpressible"), 0,
                  "its forward pass is standard ONNX: other ops");
    a = cli("export zoo:mlp --train --optimizer adam --to onnx "
            "-o \"$D/t.onnx\" --json");
    tap_ok(a->status == 0 && cli_number(a, "nodes") > 0,
           "a training step is written: %s", a->err);
    tap_equal_int(items(a, "inexpressible"), 0,
                  "its gradients and updates are functions: other ops");
    a = cli("model \"$D/t.onnx\" --json");
    tap_ok(a->status == 0 && cli_number(a, "params") == 26122,
           "it reads as a network to train, states left out: %g parameters %s",
           cli_number(a, "params"), a->err);
    a = cli("export zoo:lstm --to onnx -o \"$D/r.onnx\" --json");
    tap_ok(a->status == 0 && items(a, "inexpressible") == 0,
           "a recurrent layer is a function of a Scan: %s", a->err);
    const double whole = cli_number(a, "nodes");
    a = cli("export zoo:lstm --rewrite usual,steps --to onnx -o \"$D/r.onnx\" "
            "--json");
    tap_ok(a->status == 0 && cli_number(a, "nodes") > 10 * whole,
           "--rewrite steps writes it step by step: %g nodes, %g before",
           cli_number(a, "nodes"), whole);
    a = cli("export zoo:gpt --external --to onnx -o \"$D/x.onnx\" --json");
    tap_ok(a->status == 0 && cli_number(a, "data_bytes") > 0,
           "values stand apart when asked: %s", a->err);
    a = cli("model \"$D/x.onnx\" --json");
    tap_ok(a->status == 0 && cli_number(a, "params") == 842496,
           "and are read from there: %g parameters", cli_number(a, "params"));
}

/* What a user of another tool has to be told. */
static void test_told(void)
{
    struct stat at;
    char path[600];
    tap_ok(system("grep -q 'step: starts at 1' \"$D/t.onnx\" && "
                  "grep -q 'step starts at 1' \"$D/t.onnx\"") == 0,
           "the input `step` and the metadata say where it starts");
    cli_answer *a = cli("export zoo:mlp --no-weights --external --to onnx "
                        "-o \"$D/nothing.onnx\" --json");
    snprintf(path, sizeof path, "%s/nothing.onnx.data", cli_scratch);
    tap_ok(a->status == 0 && stat(path, &at) != 0,
           "no file of values where none stands apart: %s", a->err);
}

/* The loss of the first step on the data of seed 3. */
static double first_loss(const char *model, const char *seed)
{
    cli("plan %s --batch 4 --cluster local --ranks 1 %s -o \"$D/l.json\"",
        model, seed);
    cli_answer *a = cli("run \"$D/l.json\" --data synthetic --steps 1 --seed 3 "
                        "--json");
    json_t *losses = json_object_get(a->json, "losses");
    return json_number_value(json_array_get(losses, 0));
}

/* What a run would begin with stands in the file. */
static void test_values(void)
{
    cli("export zoo:mlp --seed 3 --to onnx -o \"$D/v.onnx\"");
    cli("export zoo:mlp --seed 4 --to onnx -o \"$D/w.onnx\"");
    cli("plan zoo:mlp --batch 4 --cluster local --ranks 1 -o \"$D/v.json\"");
    cli("export \"$D/v.json\" --seed 3 --to onnx -o \"$D/vp.onnx\"");
    const double drawn = first_loss("zoo:mlp", "");
    const double read = first_loss("\"$D/v.onnx\"", "");
    const double other = first_loss("\"$D/w.onnx\"", "");
    tap_ok(drawn > 0 && drawn == read,
           "a run from the exported values has the loss of one from its seed: "
           "%g, %g",
           read, drawn);
    tap_ok(other != read, "another seed gives other values: %g", other);
    tap_ok(system("grep -q flowsearch.plan_digest \"$D/vp.onnx\" && "
                  "test $(wc -c < \"$D/vp.onnx\") -gt "
                  "$(wc -c < \"$D/v.onnx\")") == 0,
           "a plan's export has them too");
    cli_answer *a = cli("export zoo:mlp --no-weights --to onnx -o "
                        "\"$D/n.onnx\"");
    tap_ok(a->status == 0 && system("test $(wc -c < \"$D/n.onnx\") -lt "
                                    "$(wc -c < \"$D/v.onnx\")") == 0,
           "--no-weights leaves them out: %s", a->err);
    a = cli("model \"$D/n.onnx\" --json");
    tap_equal_int((int)cli_number(a, "params"), 26122,
                  "its parameters are inputs, by their names: all of them");
}

/* What shapes the training step is in the file: each gives another one. */
static void test_training(void)
{
    static const char *const said[] = {"--lr 0.25",
                                       "--lr-schedule cosine,steps=9",
                                       "--weight-decay 0.25",
                                       "--beta1 0.5",
                                       "--beta2 0.5",
                                       "--epsilon 0.25",
                                       "--padding tok.weight=3"};
    const char *export = "export zoo:gpt,layers=1,hidden=16,heads=2 --train "
                         "--to onnx -o";
    cli("%s \"$D/usual.onnx\"", export);
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        cli_answer *a = cli("%s \"$D/said.onnx\" %s", export, said[i]);
        tap_ok(a->status == 0 &&
                   system("cmp -s \"$D/usual.onnx\" \"$D/said.onnx\"") != 0,
               "export --train %s: %s", said[i], a->err);
    }
}

static void test_plans(void)
{
    cli_answer *a =
        cli("plan zoo:gpt --cluster 1x8:h100-sxm5-80g --batch 16 --dp 2 "
            "--tp 2 --pp 2 --micro-batches 2 -o \"$D/p.json\"");
    tap_equal_int(a->status, 0, "a plan: %s", a->err);
    a = cli("export \"$D/p.json\" --to onnx -o \"$D/p.onnx\" --json");
    tap_ok(a->status == 0 && strstr(a->out, "partial values") != NULL,
           "it is written, partial values are told: %s", a->err);
    tap_equal_int(strstr(a->out, "op accumulate") != NULL, 0,
                  "sums over micro-batches are functions: other ops");
    tap_ok(system("grep -aq 'flowsearch.sum.' \"$D/p.onnx\" && "
                  "grep -aq '2 runs, one per micro-batch' \"$D/p.onnx\"") == 0,
           "and it is told what goes from one to the next");
    tap_ok(a->status == 0 && strstr(a->out, "values within ops") == NULL,
           "of values within ops it is told how they lie");
    /* a linear layer, w (N, K) cut by rows, is Transpose, MatMul and Add */
    tap_ok(system("grep -aqF '(B,S(0)) -> (B,S(1))' \"$D/p.onnx\" && "
                  "grep -aqF '(S(0),B) (B,S(1)) -> (S(0),S(2))' "
                  "\"$D/p.onnx\"") == 0,
           "a linear layer's turned weight and product lie by its cut");
    tap_ok(system("grep -aqF 'matmul: (S(0),B) (B,S(0)) (B,S(0)) -> "
                  "(S(0),S(2))' \"$D/p.onnx\"") == 0,
           "and its nodes name the op with its own signature");
    tap_ok(json_object_get(a->json, "plan_digest") != NULL,
           "its digest joins it with other commands");
    a = cli("model \"$D/p.onnx\" --json");
    tap_ok(a->status == 0 && cli_number(a, "params") > 0,
           "the importer passes over the annotations: %s", a->err);
}

/* Each is refused, says why, and leaves no file. */
static void test_refused(void)
{
    static const char *const rows[][2] = {
        {"export zoo:mlp -o \"$D/no.onnx\"", "--to onnx"},
        {"export zoo:mlp --to megatron -o \"$D/no.onnx\"", "not there yet"},
        {"export zoo:mlp --to abc -o \"$D/no.onnx\"", "no format"},
        {"export zoo:mlp --to onnx", "-o FILE"},
        {"export zoo:mlp --optimizer sgd --to onnx -o \"$D/no.onnx\"",
         "--train"},
        {"export zoo:mlp --lr 0.1 --to onnx -o \"$D/no.onnx\"",
         "--lr wants --train"},
        {"export zoo:mlp --train --momentum 0.5 --to onnx -o \"$D/no.onnx\"",
         "--momentum 0.5 has no effect"},
        {"export \"$D/p.json\" --lr 0.1 --to onnx -o \"$D/no.onnx\"",
         "--lr is of a MODEL"},
        {"export zoo:mlp --rewrite abc --to onnx -o \"$D/no.onnx\"",
         "rewrite 'abc' is unknown"},
        {"export \"$D/p.json\" --rewrite all --to onnx -o \"$D/no.onnx\"",
         "--rewrite is of a MODEL"},
        {"export \"$D/p.json\" --train --to onnx -o \"$D/no.onnx\"",
         "of a MODEL"},
        {"export \"$D/p.json\" --to onnx -o \"$D/p.json\"", "destroy"},
        {"export zoo:mlp --to onnx -o \"$D\"", "it is a folder"},
        {"export zoo:mlp --to onnx -o \"$D/none/no.onnx\"", "No such file"},
        {"export zoo:gpt,hidden=983040,heads=96,layers=96 --to onnx "
         "-o \"$D/no.onnx\"",
         "are free there; --no-weights"},
        {"export zoo:mlp --external --to onnx -o \"$D/no.onnx\" "
         "--db \"$D/no.onnx.data\"",
         "destroy"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cli_answer *a = cli("%s", rows[i][0]);
        char path[600];
        struct stat at;
        snprintf(path, sizeof path, "%s/no.onnx", cli_scratch);
        tap_ok(a->status == 2 && strstr(a->err, rows[i][1]) != NULL &&
                   stat(path, &at) != 0,
               "%s: %s", rows[i][0], a->err);
    }
}

int main(void)
{
    cli_begin_scratch("cli_export_test");
    test_models();
    test_told();
    test_training();
    test_values();
    test_plans();
    test_refused();
    cli_end_scratch();
    return tap_done();
}
