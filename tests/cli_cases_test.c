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

static void test_node_case(void)
{
    copy_model("datasets/train_cases/mlp/model.onnx", "nodes/relu");
    cli_answer *a = cli("conformance \"$D/nodes\" --json");
    tap_equal_int(a->status, 1, "conformance: none passed is no success");
    cli_show(a);
    tap_ok(cli_number(a, "refused") == 1 && cli_number(a, "passed") == 0,
           "conformance: a case of one node is refused");
    const char *op = json_string_value(json_object_get(detail(a, 0), "op"));
    const char *why =
        json_string_value(json_object_get(detail(a, 0), "reason"));
    tap_ok(op && !*op && why && strstr(why, "only training cases"),
           "conformance: its reason is given");
    a = cli("conformance \"$D/nodes\" --kernels foo");
    tap_ok(a->status == 2 && strstr(a->err, "foo"),
           "conformance: unknown kernels are refused");
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
}

int main(void)
{
    cli_begin_scratch("cli_cases_test");
    test_node_case();
    test_runs();
    cli_end_scratch();
    return tap_done();
}
