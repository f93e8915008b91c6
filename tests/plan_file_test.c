/* A plan file edited by hand: `flowsearch check FILE` finds what is wrong. */
#include "config.h"
#include "tests/run_cli.h"

/* ZeRO-3 gathers gain and bias of a norm in front of it. */
#define PLAN                                                                   \
    "plan zoo:gpt,layers=1,hidden=16,heads=2,vocab=32,seq=8 --cluster 1x4:l4 " \
    "--batch 8 --dp 4 --zero 3 -o \"$D/plan.json\""

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

/* The first of two collectives in a row of the forward pass; -1 when there
 * are none. */
static int find_pair(const json_t *tasks)
{
    for (size_t t = 0; t + 1 < json_array_size(tasks); t++) {
        int good = 1;
        for (size_t i = t; i < t + 2; i++) {
            json_t *task = json_array_get(tasks, i);
            good &= strcmp(text_of(task, "kind"), "box") == 0 &&
                    strcmp(text_of(task, "phase"), "forward") == 0 &&
                    json_integer_value(json_object_get(task, "comm")) >= 0;
        }
        if (good)
            return (int)t;
    }
    return -1;
}

static json_int_t other_of(json_int_t task, int t)
{
    return task == t ? t + 1 : task == t + 1 ? t : task;
}

/* Swaps tasks t and t + 1, and their numbers where registers name them. */
static void swap_tasks(json_t *role, int t)
{
    json_t *tasks = json_object_get(role, "tasks"), *g, *task;
    json_t *moved = json_incref(json_array_get(tasks, (size_t)t));
    size_t i, k;
    json_array_remove(tasks, (size_t)t);
    json_array_insert_new(tasks, (size_t)t + 1, moved);
    json_array_foreach(json_object_get(role, "registers"), i, g)
    {
        json_t *producer = json_object_get(g, "producer");
        json_integer_set(producer, other_of(json_integer_value(producer), t));
        json_array_foreach(json_object_get(g, "consumers"), k, task)
            json_integer_set(task, other_of(json_integer_value(task), t));
    }
}

static void save(const json_t *root)
{
    char path[600];
    snprintf(path, sizeof path, "%s/edited.json", cli_scratch);
    json_dump_file(root, path, JSON_INDENT(1));
}

/* The stage's one role as two, of ranks 0-1 and 2-3; returns the second. */
static json_t *split_role(json_t *root)
{
    json_t *plan = json_object_get(root, "plan");
    json_t *roles = json_object_get(plan, "roles");
    json_t *first = json_array_get(roles, 0), *second = json_deep_copy(first);
    json_object_set_new(first, "n_ranks", json_integer(2));
    json_object_set_new(second, "n_ranks", json_integer(2));
    json_object_set_new(second, "first_rank", json_integer(2));
    json_array_append_new(roles, second);
    return second;
}

static void test_roles(json_t *root)
{
    json_t *second = split_role(root);
    int t = find_pair(json_object_get(second, "tasks"));
    tap_ok(t >= 0, "the plan has two collectives in a row");
    save(root);
    cli_answer *a = cli("check \"$D/edited.json\"");
    tap_equal_int(a->status, 0, "two roles of one stage are sound");
    if (a->status != 0)
        cli_show(a);
    if (t >= 0)
        swap_tasks(second, t);
    save(root);
    a = cli("check \"$D/edited.json\"");
    tap_equal_int(a->status, 1, "collectives in two orders are refused");
    tap_ok(strstr(a->out, "the issues number") && strstr(a->out, "ranks 0-1") &&
               strstr(a->out, "ranks 2-3"),
           "the counterexample names the ranks");
    tap_ok(strstr(a->out, "edited by hand"), "the edit is noted");
}

static void test_scratch(json_t *root)
{
    json_t *role = json_array_get(
        json_object_get(json_object_get(root, "plan"), "roles"), 0);
    json_t *task;
    size_t i;
    json_array_foreach(json_object_get(role, "tasks"), i,
                       task) if (strcmp(text_of(task, "kind"), "box") == 0)
        json_object_set_new(task, "scratch_bytes", json_integer(0));
    save(root);
    cli_answer *a = cli("check \"$D/edited.json\"");
    tap_ok(a->status == 1 && strstr(a->out, "has 0 bytes of scratch"),
           "collectives without scratch are refused");
}

static void test_origin(const json_t *root)
{
    json_t *copy = json_deep_copy(root);
    json_object_del(json_object_get(copy, "origin"), "cluster");
    save(copy);
    cli_answer *a = cli("check \"$D/edited.json\"");
    tap_ok(a->status == 2 && strstr(a->err, "origin.cluster is missing"),
           "a plan without origin.cluster is refused, which is said");
    if (a->status != 2)
        cli_show(a);
    json_object_set_new(json_object_get(copy, "origin"), "cluster",
                        json_string(""));
    save(copy);
    a = cli("check \"$D/edited.json\"");
    tap_ok(a->status == 2 && strstr(a->err, "origin.cluster is missing"),
           "an empty origin.cluster likewise");
    json_decref(copy);
}

/* A cluster file as `calibrate` writes it: with the host's name. */
static void write_measured(double memory_bytes)
{
    char path[600];
    snprintf(path, sizeof path, "%s/datasets/clusters/cpu.json",
             cli_env("FS_SRCDIR", "."));
    json_t *file = json_load_file(path, 0, NULL);
    json_t *node = json_object_get(file, "node");
    json_t *device = json_object_get(file, "device");
    json_object_set_new(device, "memory_bytes", json_real(memory_bytes));
    json_t *cluster =
        json_pack("{s:i, s:s, s:[{s:i, s:i, s:i, s:O, s:O, s:O}], s:O}",
                  "version", 1, "host", "somewhere", "groups", "nodes", 1,
                  "devices_per_node", 2, "cores_per_node", 2, "device", device,
                  "inner", json_object_get(node, "inner"), "memory",
                  json_object_get(node, "memory"), "outer",
                  json_object_get(file, "outer"));
    snprintf(path, sizeof path, "%s/mine.json", cli_scratch);
    json_dump_file(cluster, path, 0);
    json_decref(cluster);
    json_decref(file);
}

static void test_measured(void)
{
    write_measured(1e9);
    cli_answer *a = cli("plan zoo:mlp --cluster \"$D/mine.json\" --batch 8 "
                        "--dp 2 -o \"$D/mp.json\"");
    tap_equal_int(a->status, 0, "a plan for a measured cluster file");
    tap_equal_int(cli("check \"$D/mp.json\"")->status, 0, "it is sound");
    write_measured(300000);
    a = cli("check \"$D/mp.json\"");
    tap_ok(a->status == 2 && strstr(a->err, "mp.json: origin.cluster: ") &&
               strstr(a->err, "mine.json has the digest"),
           "when the file has other figures the plan is refused, naming both");
    cli_show(a);
}

static const char *digest_of_plan(const char *options)
{
    static char digest[4][32];
    static int n;
    cli_answer *a = cli("plan zoo:mlp --cluster 1x2:l4 --batch 8 --dp 2 "
                        "--json %s",
                        options);
    snprintf(digest[n % 4], sizeof digest[0], "%s",
             a->json ? text_of(a->json, "plan_digest") : "");
    return digest[n++ % 4];
}

/* What decides a run decides the digest, and the database keeps each plan. */
static void test_digests(void)
{
    const char *one = digest_of_plan("--lr 0.1 -o \"$D/one.json\"");
    const char *two = digest_of_plan("--lr 0.2 -o \"$D/two.json\"");
    const char *again = digest_of_plan("--lr 0.1 -o \"$D/again.json\"");
    tap_ok(one[0] && strcmp(one, two) != 0, "another rate, another digest");
    tap_equal_text(again, one, "the same plan in another file, the same");
    cli_answer *a = cli("check \"$D/two.json\" --json");
    tap_equal_text(a->json ? text_of(a->json, "plan_digest") : "", two,
                   "read back it is the same");
    a = cli("runs --json --sql \"SELECT json FROM plans WHERE json LIKE "
            "'%%1x2:l4%%'\"");
    tap_ok(strstr(a->out, "0.1") && strstr(a->out, "0.2"),
           "the database keeps both");
    char path[600];
    snprintf(path, sizeof path, "%s/one.json", cli_scratch);
    json_t *root = json_load_file(path, 0, NULL);
    json_object_set_new(json_object_get(root, "origin"), "seed",
                        json_integer(7));
    save(root);
    json_decref(root);
    a = cli("check \"$D/edited.json\"");
    tap_ok(a->status == 0 && strstr(a->out, "edited by hand"),
           "another seed is noted as an edit");
}

int main(void)
{
    char path[600];
    cli_begin_scratch("plan_file_test");
    tap_equal_int(cli(PLAN)->status, 0, "a plan is written");
    snprintf(path, sizeof path, "%s/plan.json", cli_scratch);
    json_t *root = json_load_file(path, 0, NULL);
    json_t *copy = json_deep_copy(root);
    tap_ok(root != NULL, "it is JSON");
    tap_ok(!strstr(cli("check \"$D/plan.json\"")->out, "edited"),
           "a plan as written is not noted as edited");
    test_origin(root);
    test_roles(root);
    test_scratch(copy);
    test_measured();
    test_digests();
    json_decref(root);
    json_decref(copy);
    cli_end_scratch();
    return tap_done();
}
