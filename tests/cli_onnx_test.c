/* The ONNX backend tests (Debian: libonnx-testdata) through the program: every
 * case passes but those named here, with the reason. */
#include "config.h"
#include "tests/run_cli.h"

#define SUITES "/usr/share/libonnx-testdata/data"

/* Tables of datasets/onnx: onnx_ops.csv, and excused.tsv (case, reason), what
 * no program but the one that recorded it can give. */
static char tables[1 << 16], excused[1 << 14];

static void read_table(const char *name, char *out, size_t size)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/datasets/onnx/%s",
             cli_env("FS_SRCDIR", "."), name);
    FILE *file = fopen(path, "rb");
    size_t n = file ? fread(out, 1, size - 1, file) : 0;
    if (n == 0)
        printf("Bail out! %s cannot be read\n", path);
    out[n] = '\0';
    if (file)
        fclose(file);
}

static bool is_excused(const char *name)
{
    char line[200];
    snprintf(line, sizeof line, "\n%s\t", name);
    return strstr(excused, line) != NULL;
}

/* The tier's letter, '?' for what the table does not have. */
static char tier_of(const char *op)
{
    char key[128];
    snprintf(key, sizeof key, ",%s,", op);
    const char *at = op[0] ? strstr(tables, key) : NULL;
    /* domain, op_type, then the fifteenth column */
    for (int column = 1; at && column < 14; column++)
        at = strchr(at + 1, ',');
    return at ? at[1] : '?';
}

static const char *text_of(const json_t *detail, const char *key)
{
    const char *text = json_string_value(json_object_get(detail, key));
    return text ? text : "";
}

/* A refusal says which node it is for, and its operator; an output is named
 * itself. */
static bool names_node(const json_t *detail)
{
    const char *why = text_of(detail, "reason"), *node = strstr(why, "node ");
    return strstr(why, ": output \"") || (node && strstr(node, "\" ("));
}

/* Strings, sequences and optionals, and operators beyond tiers A, B and T. */
static bool may_refuse(const json_t *detail)
{
    const char *why = text_of(detail, "reason"), *op = text_of(detail, "op");
    char tier = tier_of(op);
    if (strstr(why, "(STRING)") || strstr(why, "is a sequence"))
        return names_node(detail);
    if (strcmp(op, "Loop") == 0 || strcmp(op, "If") == 0 ||
        strcmp(op, "Scan") == 0)
        return false;
    return (tier == 'C' || tier == 'D' || tier == 'E') && names_node(detail);
}

static json_t *conformance(const char *root, const char *suite)
{
    char command[2048], path[600];
    snprintf(path, sizeof path, "%s/%s.json", cli_scratch, suite);
    snprintf(command, sizeof command,
             "'%s/flowsearch' conformance '%s/%s' --db none --json "
             ">'%s' 2>'%s.err'",
             cli_env("FS_BUILDDIR", "."), root, suite, path, path);
    int status = system(command);
    tap_ok(WIFEXITED(status) && WEXITSTATUS(status) <= 1,
           "%s: conformance ends", suite);
    return json_load_file(path, 0, NULL);
}

static void test_suite(const char *root, const char *suite, size_t cases)
{
    json_t *answer = conformance(root, suite), *detail;
    json_t *details = json_object_get(answer, "details");
    size_t i, bad = 0;
    json_array_foreach(details, i, detail)
    {
        const char *name = text_of(detail, "case");
        const char *status = text_of(detail, "status");
        const bool passed = strcmp(status, "passed") == 0;
        if (passed != is_excused(name) &&
            (passed || strcmp(status, "failed") == 0))
            continue;
        if (strcmp(status, "refused") == 0 && may_refuse(detail))
            continue;
        bad++;
        printf("# %s %s: %s\n", name, status, text_of(detail, "reason"));
    }
    tap_ok(json_array_size(details) >= cases, "%s: %zu cases", suite,
           json_array_size(details));
    tap_equal_int(
        (int64_t)bad, 0,
        "%s: each passes, is refused by name, or is excused and fails", suite);
    json_decref(answer);
}

/* Operators younger than the release that Debian has. */
static void test_own(void)
{
    char root[512];
    snprintf(root, sizeof root, "%s/onnx", cli_env("FS_DATA", "datasets"));
    test_suite(root, "node", 44);
}

int main(void)
{
    cli_begin_scratch("cli_onnx_test");
    read_table("onnx_ops.csv", tables, sizeof tables);
    read_table("excused.tsv", excused, sizeof excused);
    tap_ok(tier_of("MatMul") == 'A' && tier_of("TfIdfVectorizer") == 'D' &&
               tier_of("Adam") == 'T',
           "tiers are read");
    test_own();
    if (access(SUITES "/node", R_OK) != 0) {
        tap_skip(SUITES " is not there (Debian: libonnx-testdata)",
                 "the ONNX backend tests");
    } else {
        test_suite(SUITES, "node", 900);
        test_suite(SUITES, "pytorch-converted", 80);
        test_suite(SUITES, "pytorch-operator", 35);
        test_suite(SUITES, "simple", 20);
    }
    cli_end_scratch();
    return tap_done();
}
