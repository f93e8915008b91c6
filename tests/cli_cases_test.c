/* conformance and runs: what they answer when there is nothing to pass or to
 * read. */
#include "config.h"
#include "tests/run_cli.h"

static json_t *detail(const cli_answer *a, size_t i)
{
    return json_array_get(json_object_get(a->json, "details"), i);
}

static void copy_model(const char *from, const char *to)
{
    char command[700];
    snprintf(command, sizeof command,
             "mkdir -p \"$D/%s\" && cp \"$S/%s\" \"$D/%s/model.onnx\"", to,
             from, to);
    if (system(command) != 0)
        printf("Bail out! %s\n", command);
}

static const char *reason(const cli_answer *a)
{
    const char *why =
        json_string_value(json_object_get(detail(a, 0), "reason"));
    return why ? why : "";
}

/* Forward only, as the ONNX backend tests are: $D/nodes has no record, beside
 * it stand the record of the case `mlp` and a wrong one. */
static void test_node_case(void)
{
    copy_model("datasets/train_cases/mlp/model.onnx", "nodes/mlp");
    cli_answer *a = cli("conformance \"$D/nodes\" --json");
    tap_ok(a->status == 1 && cli_number(a, "failed") == 1 &&
               strstr(reason(a), "test_data_set_0"),
           "conformance: a model without a record failed");
    if (system("mkdir -p \"$D/data/set\" && cp -r \"$D/nodes/mlp\" "
               "\"$S/datasets/train_cases/mlp/test_data_set_0\" "
               "\"$D/data/set\" && cd \"$D/data/set\" && "
               "mv mlp/model.onnx . && chmod -R u+w .") != 0)
        printf("Bail out! no case was made\n");
    a = cli("conformance \"$D/data\" --json");
    tap_ok(a->status == 0 && cli_number(a, "passed") == 1,
           "conformance: a case below its folder gives its record");
    json_t *off = json_object_get(detail(a, 0), "output_error");
    tap_ok(json_is_real(off) && json_real_value(off) < 1,
           "conformance: --json has its output_error");
    if (system("cd \"$D/data/set/test_data_set_0\" && "
               "head -c -1 output_0.pb >x && printf A >>x && "
               "mv x output_0.pb") != 0)
        printf("Bail out! no case was spoiled\n");
    a = cli("conformance \"$D/data\" --json");
    tap_ok(a->status == 1 && cli_number(a, "failed") == 1 &&
               strstr(reason(a), "output 0: element 0"),
           "conformance: another value failed, named");
    a = cli("conformance \"$D/nodes\" --kernels foo");
    tap_ok(a->status == 2 && strstr(a->err, "foo"),
           "conformance: unknown kernels are refused");
}

/* ModelProto: ir 8, opset 17, graph{ node{x -> y, Op, Relu}, x, y float [2] }
 */
static void test_by_op(void)
{
    if (system("mkdir -p \"$D/op/relu/test_data_set_0\" && "
               "cd \"$D/op/relu\" && printf "
               "'\\010\\010\\072\\060\\012\\014\\012\\001x\\022\\001y\\042"
               "\\004ReluZ\\017\\012\\001x\\022\\012\\012\\010\\010\\001"
               "\\022\\004\\012\\002\\010\\002b\\017\\012\\001y\\022\\012"
               "\\012\\010\\010\\001\\022\\004\\012\\002\\010\\002B\\002"
               "\\020\\021' >model.onnx && cd test_data_set_0 && "
               "printf '\\010\\002\\020\\001\\112\\010\\000\\000\\200\\077"
               "\\000\\000\\200\\277' >input_0.pb && "
               "printf '\\010\\002\\020\\001\\112\\010\\000\\000\\200\\077"
               "\\000\\000\\000\\000' >output_0.pb") != 0)
        printf("Bail out! no case was made\n");
    cli_answer *a = cli("conformance \"$D/op\" --json --by-op \"$D/op.tsv\"");
    json_t *relu = json_object_get(json_object_get(a->json, "ops"), "Relu");
    const char *gradient = json_string_value(json_object_get(relu, "gradient"));
    char lines[1 << 14];
    cli_show(a);
    tap_ok(a->status == 0 &&
               json_integer_value(json_object_get(relu, "passed")) == 1,
           "conformance: cases add up by operator");
    tap_ok(gradient && strcmp(gradient, "yes") == 0 &&
               json_integer_value(json_object_get(relu, "cuts")) >= 1,
           "conformance: its gradient and its cuts");
    cli_slurp("op.tsv", lines, sizeof lines);
    tap_ok(strstr(lines, "Relu\t1\t1\t0\t0\tyes\t"),
           "conformance: --by-op writes them");
}

/* The case of test_by_op after `spoil` in the folder of its record: why it
 * failed. */
static const char *spoiled_record(const char *spoil)
{
    static char why[600];
    char command[1024];
    snprintf(command, sizeof command,
             "rm -rf \"$D/rec\" && cp -r \"$D/op\" \"$D/rec\" && "
             "cd \"$D/rec/relu/test_data_set_0\" && %s",
             spoil);
    if (system(command) != 0)
        printf("Bail out! %s\n", command);
    cli_answer *a = cli("conformance \"$D/rec\" --json");
    snprintf(why, sizeof why, "%s", reason(a));
    if (cli_number(a, "failed") != 1)
        cli_show(a);
    return cli_number(a, "failed") == 1 ? why : "";
}

/* A folder of models, each with its record beside it, as newer releases of ONNX
 * have `light`: the runner feeds k / n. */
static void test_flat(void)
{
    if (system("mkdir -p \"$D/flat\" && cd \"$D/flat\" && "
               "cp ../op/relu/model.onnx good.onnx && "
               "cp ../op/relu/model.onnx wrong.onnx && "
               "cp ../op/relu/model.onnx bare.onnx && "
               "printf '\\010\\002\\020\\001\\112\\010\\000\\000\\000\\000"
               "\\000\\000\\000\\077' >good_output_0.pb && "
               "cp ../op/relu/test_data_set_0/output_0.pb wrong_output_0.pb && "
               "cp good_output_0.pb lost_output_0.pb") != 0)
        printf("Bail out! no case was made\n");
    static const struct {
        const char *name, *status, *says;
    } wanted[] = {
        {"bare", "failed", "bare_output_0.pb"},
        {"good", "passed", ""},
        {"lost", "failed", "lost.onnx cannot be read"},
        {"wrong", "failed", "output 0: element 0 is 0, recorded 1"},
    };
    cli_answer *a = cli("conformance \"$D/flat\" --json");
    tap_equal_int((int)cli_number(a, "cases"), 4,
                  "conformance: a flat folder has a case per model");
    for (size_t i = 0; i < 4; i++) {
        json_t *row = detail(a, i);
        const char *why = json_string_value(json_object_get(row, "reason"));
        tap_equal_text(json_string_value(json_object_get(row, "case")),
                       wanted[i].name, "conformance: case %zu", i);
        tap_equal_text(json_string_value(json_object_get(row, "status")),
                       wanted[i].status, "conformance: %s", wanted[i].name);
        tap_ok(why && strstr(why, wanted[i].says), "conformance: %s", why);
    }
}

static void test_record_fits(void)
{
    tap_ok(strstr(spoiled_record("rm output_0.pb"),
                  "0 recorded outputs, 1 wanted"),
           "conformance: a record without outputs failed");
    tap_ok(strstr(spoiled_record("cp input_0.pb input_1.pb"),
                  "2 recorded inputs, 1 wanted"),
           "conformance: a record with more inputs than the model failed");
    tap_ok(strstr(spoiled_record("printf '\\010\\001\\020\\001\\112\\004"
                                 "\\000\\000\\200\\077' >input_0.pb"),
                  "input: \"x\" is 1, but the model declares 2"),
           "conformance: an input of another shape than declared failed");
    cli_answer *a = cli("conformance \"$D/op\"");
    tap_ok(strstr(a->out, "output off") && !strstr(a->out, "gradients") &&
               !strstr(a->out, "loss off"),
           "conformance: columns that no case has are left out");
    char lines[1 << 14];
    cli("conformance \"$D/op\" --by-op \"$D/op.tsv\"");
    cli_slurp("op.tsv", lines, sizeof lines);
    tap_ok(strstr(lines, "Gelu\t0\t0\t0\t0\tno case\tno case\n"),
           "conformance: what no case measured is called so");
}

/* A copy of the case `mlp` under $D/bad, then `spoil` in its folder. */
static const char *spoiled(const char *name, const char *spoil)
{
    static char why[600];
    char command[1024];
    snprintf(command, sizeof command,
             "rm -rf \"$D/bad\"; mkdir -p \"$D/bad\" && cp -r "
             "\"$S/datasets/train_cases/mlp\" \"$D/bad/%s\" && "
             "cd \"$D/bad/%s\" && chmod -R u+w . && %s",
             name, name, spoil);
    if (system(command) != 0)
        printf("Bail out! %s\n", command);
    cli_answer *a = cli("conformance \"$D/bad\" --json");
    const char *got =
        json_string_value(json_object_get(detail(a, 0), "status"));
    const char *reason =
        json_string_value(json_object_get(detail(a, 0), "reason"));
    snprintf(why, sizeof why, "%s", reason ? reason : "");
    tap_ok(a->status == 1 && got && strcmp(got, "failed") == 0 &&
               cli_number(a, "failed") == 1,
           "conformance: %s: failed, not refused", name);
    if (a->status != 1)
        cli_show(a);
    printf("# %s\n", why);
    return why;
}

static void test_corrupt_cases(void)
{
    spoiled("cut-model", "head -c 1000 model.onnx >x && mv x model.onnx");
    spoiled("no-model", "rm model.onnx");
    spoiled("noise", "echo this is no model >model.onnx");
    spoiled("empty-json", ": >train.json");
    tap_ok(strstr(spoiled("no-curves", "echo '{}' >train.json"), "losses"),
           "conformance: what is missing in train.json is named");
    spoiled("text-curve",
            "echo '{\"losses\":{\"sgd\":[1,\"x\"]}}' >train.json");
    tap_ok(strstr(spoiled("unknown-curve",
                          "sed -i 's/\"sgd\"/\"rprop\"/' train.json"),
                  "losses.rprop"),
           "conformance: a curve of an unknown optimizer is named");
    tap_ok(strstr(spoiled("cut-gradient", "head -c 40 grad/m.0.weight.pb >x && "
                                          "mv x grad/m.0.weight.pb"),
                  "m.0.weight.pb"),
           "conformance: the file of the gradient is named");
    spoiled("no-input", "rm test_data_set_0/input_0.pb");
    spoiled("no-gradient", "rm grad/m.2.bias.pb");
    tap_ok(strstr(spoiled("stray-gradient",
                          "cp grad/m.2.bias.pb grad/m.9.bias.pb"),
                  "grad/m.9.bias.pb: no parameter \"m.9.bias\""),
           "conformance: a gradient of no parameter is named");
}

/* A folder called as one of a case's own is no case by that alone. */
static void test_folder_grad(void)
{
    if (system("mkdir -p \"$D/by-kind/grad\" && "
               "cp -r \"$D/op/relu\" \"$D/by-kind/grad/\"") != 0)
        printf("Bail out! no case was made\n");
    cli_answer *a = cli("conformance \"$D/by-kind\" --json");
    tap_ok(a->status == 0 && cli_number(a, "passed") == 1,
           "conformance: cases in a folder called grad are found");
}

/* ModelProto{ graph{ node{ output "y" name "n0" op_type "Frob" } } } */
static void test_unsupported(void)
{
    if (system("mkdir -p \"$D/frob/case\" && cd \"$D/frob/case\" && printf "
               "'\\010\\010\\102\\004\\012\\000\\020\\021\\072\\017"
               "\\012\\015\\022\\001y\\032\\002n0\\042\\004Frob' "
               ">model.onnx && echo '{\"losses\":{}}' >train.json") != 0)
        return;
    cli_answer *a = cli("conformance \"$D/frob\" --json");
    const char *op = json_string_value(json_object_get(detail(a, 0), "op"));
    tap_ok(cli_number(a, "refused") == 1 && op && strcmp(op, "Frob") == 0,
           "conformance: an operator that is not known is refused, named");
}

/* Both to one place that is no terminal: what was said first stands first. */
static void test_order(void)
{
    static char text[1 << 14];
    char command[1024];
    snprintf(command, sizeof command,
             "'%s/flowsearch' conformance \"$D/nodes\" --db none "
             ">\"$D/both\" 2>&1",
             cli_env("FS_BUILDDIR", "."));
    int raw = system(command);
    cli_slurp("both", text, sizeof text);
    const char *table = strstr(text, "1 case");
    const char *message = strstr(text, "flowsearch: 1 case failed");
    tap_ok(WIFEXITED(raw) && table && message && table < message,
           "the message stands behind what was printed before it");
    if (!table || !message || table > message)
        printf("# %.200s\n", text);
}

static void test_figures(void)
{
    cli_answer *a = cli("conformance \"$S/datasets/train_cases/mlp\" --json");
    static const char *const keys[] = {"loss_error", "gradient_error",
                                       "curve_error"};
    for (int i = 0; i < 3; i++) {
        json_t *value = json_object_get(detail(a, 0), keys[i]);
        tap_ok(json_is_real(value) && json_real_value(value) < 1e-3,
               "conformance: --json has %s of a case", keys[i]);
    }
    json_t *n = json_object_get(detail(a, 0), "gradients");
    tap_equal_int(json_integer_value(n), 6, "conformance: and its gradients");
    n = json_object_get(json_object_get(detail(a, 0), "curve_steps"), "adamw");
    tap_equal_int(json_integer_value(n), 10,
                  "conformance: and the steps of a curve");
    a = cli("conformance \"$D/nodes\" --json");
    tap_ok(json_is_null(json_object_get(detail(a, 0), "loss_error")),
           "conformance: what was not compared has no figure");
    tap_equal_int(cli("conformance \"$D/nowhere\"")->status, 2,
                  "conformance: a folder that is not there is bad input");
}

static void test_runs(void)
{
    char path[700];
    snprintf(path, sizeof path, "%s/missing.db", cli_scratch);
    cli_answer *a = cli("runs --db \"$D/missing.db\"");
    tap_ok(a->status == 2 && access(path, F_OK) != 0,
           "runs: a missing database is refused, not made");
    cli("cluster 1x2:l4");
    snprintf(path, sizeof path, "%s/att.db", cli_scratch);
    a = cli("runs --sql \"attach database '$D/att.db' as y\"");
    tap_ok(a->status == 2 && access(path, F_OK) != 0,
           "runs: ATTACH is refused and makes no file");
    a = cli("runs --sql \"SELECT char(27) || '[31m' || char(10) || x'ff' AS "
            "t, 'nan' AS n\"");
    tap_ok(a->status == 0 && !strchr(a->out, 27) && strstr(a->out, "?[31m??"),
           "a table of rows holds nothing that acts on a terminal");
    a = cli("runs --sql \"SELECT char(27) || '[31m' || char(10) || x'ff' AS "
            "t, 'nan' AS n\" --json");
    const json_t *odd = json_array_get(json_object_get(a->json, "runs"), 0);
    tap_ok(json_is_string(json_object_get(odd, "t")) &&
               json_is_string(json_object_get(odd, "n")),
           "every column has its key, also where JSON has no such text");
    a = cli("runs --sql \"SELECT zeroblob(100) AS b\" --json");
    json_t *row = json_array_get(json_object_get(a->json, "runs"), 0);
    const char *text = json_string_value(json_object_get(row, "b"));
    tap_ok(text && strncmp(text, "x'0000", 6) == 0 &&
               strstr(text, "..' (100 bytes)"),
           "runs: a blob is hex, a long one cut with its count");
    tap_ok(json_is_false(json_object_get(a->json, "read_only")),
           "runs: says that the file could be written");
}

int main(void)
{
    cli_begin_scratch("cli_cases_test");
    test_node_case();
    test_by_op();
    test_flat();
    test_record_fits();
    test_corrupt_cases();
    test_folder_grad();
    test_unsupported();
    test_order();
    test_figures();
    test_runs();
    cli_end_scratch();
    return tap_done();
}
