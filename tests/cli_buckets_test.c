/* --bucket-bytes: plans with fewer collectives that give the same weights, bit
 * by bit. */
#include "config.h"
#include "tests/run_cli.h"

#define NETWORK                                                                \
    "zoo:gpt,layers=2,hidden=32,heads=2,vocab=64,seq=16 --cluster local "      \
    "--ranks 2 --batch 4 --dp 2"

/* Tasks of a plan that lie on a communicator, and that have several parts. */
static void count_tasks(const char *file, int *collectives, int *buckets)
{
    char path[700];
    size_t i, k;
    json_t *role, *task;
    snprintf(path, sizeof path, "%s/%s", cli_scratch, file);
    json_t *root = json_load_file(path, 0, NULL);
    json_t *roles = json_object_get(json_object_get(root, "plan"), "roles");
    *collectives = *buckets = 0;
    json_array_foreach(roles, i, role)
        json_array_foreach(json_object_get(role, "tasks"), k, task)
    {
        const json_t *comm = json_object_get(task, "comm");
        *collectives += comm && json_integer_value(comm) >= 0;
        *buckets += json_object_get(task, "parts") != NULL;
    }
    json_decref(root);
}

static void make_plan(const char *options, const char *file)
{
    cli_answer *a = cli("plan " NETWORK " %s -o \"$D/%s\"", options, file);
    tap_equal_int(a->status, 0, "a plan with %s", options);
    if (a->status != 0)
        cli_show(a);
}

static void train(const char *file, char digest[64])
{
    cli_answer *a = cli("run \"$D/%s\" --data synthetic --steps 3 "
                        "--collectives direct --json",
                        file);
    const char *text =
        json_string_value(json_object_get(a->json, "weights_digest"));
    tap_ok(a->status == 0 && text, "%s trains", file);
    if (a->status != 0)
        cli_show(a);
    snprintf(digest, 64, "%s", text ? text : "none");
}

static void test_one(const char *others, const char *bytes)
{
    char options[120], alone[64], together[64];
    int n, fewer, none, some;
    snprintf(options, sizeof options, "%s --bucket-bytes 0", others);
    make_plan(options, "alone.json");
    snprintf(options, sizeof options, "%s --bucket-bytes %s", others, bytes);
    make_plan(options, "together.json");
    count_tasks("alone.json", &n, &none);
    count_tasks("together.json", &fewer, &some);
    tap_ok(none == 0 && some > 0 && fewer < n,
           "%d collectives, of them %d buckets, are left of %d", fewer, some,
           n);
    cli_answer *a = cli("check \"$D/together.json\"");
    tap_equal_int(a->status, 0, "it is sound");
    train("alone.json", alone);
    train("together.json", together);
    tap_equal_text(together, alone, "and gives the same weights");
}

static void test_refused(void)
{
    cli_answer *a =
        cli("plan " NETWORK " --bucket-bytes many -o \"$D/none.json\"");
    tap_ok(a->status == 2 && strstr(a->err, "--bucket-bytes") != NULL,
           "what is no size is refused");
    a = cli("search " NETWORK " --pareto --bucket-bytes 4M");
    tap_equal_int(a->status, 2, "what fronts do not know, too");
}

int main(void)
{
    cli_begin_scratch("cli_buckets_test");
    test_one("", "4M");
    test_one("--overlap --zero 2", "auto");
    test_refused();
    cli_end_scratch();
    return tap_done();
}
