/* The deadlock that OneFlow shipped (libai #232): data x tensor x pipeline
 * parallel training hung because of stream order, collective order and credits
 * together, over two micro-batches. Built from a sound plan, as the file that
 * stands in plans/, and refused with its cycle. */
#include "config.h"
#include "tests/run_cli.h"

#define PLAN                                                                   \
    "plan zoo:mlp,in=64,hidden=256,layers=3,classes=4 --cluster 1x8:l4 "       \
    "--batch 8 --dp 2 --tp 2 --pp 2 --zero 2 --micro-batches 2 --overlap "     \
    "--no-sharing --optimizer sgd -o \"$D/sound.json\""

enum { COMPUTE, COMM, STEP, ALIGN = 256 };

/* How a rank runs the collectives among tensor parallel ranks: on the compute
 * stream, as all others, with two buffers for what it gathers; or on a stream
 * of their own, with one. */
typedef struct habit {
    int stream;
    size_t buffers;
} habit;

static const habit careful = {COMPUTE, 2}, eager = {COMM, 1};

static json_t *get(const json_t *in, const char *key)
{
    return json_object_get(in, key);
}

static const char *text_of(const json_t *in, const char *key)
{
    const char *text = json_string_value(get(in, key));
    return text ? text : "";
}

static json_int_t int_of(const json_t *in, const char *key)
{
    return json_integer_value(get(in, key));
}

static bool is(const json_t *in, const char *key, const char *text)
{
    return strcmp(text_of(in, key), text) == 0;
}

/* ---- one role ---- */

/* The first task of a phase of which `key` is `text`; -1 when there is none. */
static int find_task(const json_t *role, const char *phase, const char *key,
                     const char *text)
{
    size_t i;
    json_t *task;
    json_array_foreach(get(role, "tasks"), i,
                       task) if (is(task, "phase", phase) &&
                                 is(task, key, text)) return (int)i;
    return -1;
}

static void insert_task(json_t *role, int at, json_t *task)
{
    size_t i, k;
    json_t *g, *reader;
    json_array_insert_new(get(role, "tasks"), (size_t)at, task);
    json_array_foreach(get(role, "registers"), i, g)
    {
        json_int_t producer = int_of(g, "producer");
        json_object_set_new(g, "producer",
                            json_integer(producer + (producer >= at)));
        json_array_foreach(get(g, "consumers"), k, reader)
            json_integer_set(reader, json_integer_value(reader) +
                                         (json_integer_value(reader) >= at));
    }
}

/* A register like `model`, written by one task and read by another. */
static json_int_t add_register(json_t *role, const json_t *model,
                               const char *sbp, json_int_t bytes, int producer)
{
    json_t *g = json_deep_copy(model), *list = get(role, "registers");
    json_object_set_new(g, "sbp", json_string(sbp));
    json_object_set_new(g, "bytes", json_integer(bytes));
    json_object_set_new(g, "offset", json_pack("[i]", 0));
    json_object_set_new(g, "producer", json_integer(producer));
    json_object_set_new(g, "consumers", json_array());
    json_array_append_new(list, g);
    return (json_int_t)json_array_size(list) - 1;
}

static json_t *box(const char *phase, const char *kind, const json_t *of,
                   json_int_t in, json_int_t out)
{
    bool gathers = strcmp(kind, "all-gather") == 0;
    json_int_t bytes = int_of(of, "bytes");
    const char *piece = text_of(of, "sbp"), *whole = "(S(0),B)";
    return json_pack(
        "{s:s, s:s, s:s, s:s, s:[i], s:s, s:s, s:I, s:I, s:i, s:i, s:[I], "
        "s:[I], s:I}",
        "kind", "box", "phase", phase, "tensor", text_of(of, "tensor"), "box",
        kind, "axes", 1, "from", gathers ? piece : whole, "to",
        gathers ? whole : piece, "bytes_in", gathers ? bytes : 2 * bytes,
        "bytes_out", gathers ? 2 * bytes : bytes, "comm", gathers ? 0 : -1,
        "stream", COMPUTE, "in", in, "out", out, "scratch_bytes",
        gathers ? 3 * bytes : (json_int_t)0);
}

static void replace_int(json_t *list, json_int_t old, json_int_t value)
{
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item) if (json_integer_value(item) == old)
        json_integer_set(item, value);
}

/* What the forward pass leaves for the gradient of blocks.1's weight is
 * gathered as soon as the forward pass ends, and cut again where it is read,
 * behind the first gradient that data parallel ranks reduce. */
static void gather_early(json_t *role)
{
    int reader = find_task(role, "backward", "node",
                           "/blocks.1/fc/add.grad/weight_grad");
    int reduce = find_task(role, "backward", "box", "reduce-scatter");
    int gather = find_task(role, "backward", "kind", "receive");
    json_t *tasks = get(role, "tasks"), *registers = get(role, "registers");
    json_t *in = get(json_array_get(tasks, (size_t)reader), "in");
    json_int_t piece = json_integer_value(json_array_get(in, 1));
    json_t *of = json_array_get(registers, (size_t)piece);
    json_int_t bytes = int_of(of, "bytes");
    tap_ok(gather >= 0 && gather < reduce && reduce < reader &&
               is(of, "sbp", "(S(0),S(1))") &&
               is(of, "tensor", "/blocks.0/fc/relu"),
           "the plan is laid out as wanted");
    json_int_t whole = add_register(role, of, "(S(0),B)", 2 * bytes, -2);
    json_int_t again = add_register(role, of, text_of(of, "sbp"), bytes, -2);
    insert_task(role, reduce + 1, box("backward", "slice", of, whole, again));
    insert_task(role, gather, box("forward", "all-gather", of, piece, whole));
    int slice = reduce + 2;
    reader += 2;
    replace_int(in, piece, again);
    replace_int(get(of, "consumers"), reader, gather);
    json_t *g = json_array_get(registers, (size_t)whole);
    json_object_set_new(g, "producer", json_integer(gather));
    json_array_append_new(get(g, "consumers"), json_integer(slice));
    g = json_array_get(registers, (size_t)again);
    json_object_set_new(g, "producer", json_integer(slice));
    json_array_append_new(get(g, "consumers"), json_integer(reader));
}

/* ---- streams, buffers, bytes ---- */

static void follow(json_t *role, habit h)
{
    size_t i;
    json_t *task, *registers = get(role, "registers");
    json_array_foreach(get(role, "tasks"), i, task)
    {
        json_int_t stream = int_of(task, "stream");
        bool line = is(task, "kind", "box") && int_of(task, "comm") >= 0;
        if (line)
            stream = int_of(task, "comm") == 0 ? h.stream : COMPUTE;
        else
            stream -= (stream > STEP) + (stream > COMM && h.stream == COMPUTE);
        json_object_set_new(task, "stream", json_integer(stream));
        if (line && is(task, "phase", "forward") &&
            is(task, "box", "all-gather"))
            json_object_set_new(
                json_array_get(registers,
                               (size_t)json_integer_value(
                                   json_array_get(get(task, "out"), 0))),
                "offset",
                h.buffers == 2 ? json_pack("[i, i]", 0, 0)
                               : json_pack("[i]", 0));
    }
    json_array_remove(get(role, "streams"), STEP);
    if (h.stream == COMPUTE)
        json_array_remove(get(role, "streams"), COMM);
}

/* One buffer behind the other, then each stream's scratch. */
static void lay_out(json_t *role)
{
    size_t i, k;
    json_t *g, *offset, *stream, *task, *kinds = get(role, "bytes");
    json_int_t end = 0, scratch = 0;
    json_array_foreach(get(role, "registers"), i, g)
        json_array_foreach(get(g, "offset"), k, offset)
    {
        json_integer_set(offset, end);
        end += int_of(g, "bytes");
    }
    json_array_foreach(get(role, "streams"), i, stream)
    {
        json_int_t most = 0;
        json_array_foreach(get(role, "tasks"), k,
                           task) if (int_of(task, "stream") == (json_int_t)i &&
                                     int_of(task, "scratch_bytes") > most)
            most = int_of(task, "scratch_bytes");
        json_object_set_new(stream, "scratch_offset",
                            json_integer(end + scratch));
        scratch += (most + ALIGN - 1) / ALIGN * ALIGN;
    }
    end += scratch;
    json_object_set_new(role, "arena_bytes", json_integer(end));
    json_object_set_new(role, "bound_bytes", json_integer(end));
    json_object_set_new(kinds, "scratch", json_integer(scratch));
    json_object_set_new(kinds, "activation",
                        json_integer(end - scratch - int_of(kinds, "param") -
                                     int_of(kinds, "gradient")));
}

/* The plan in which rank i of stage 0 has the i-th habit. */
static json_t *with_habits(const json_t *sound, const habit habits[4])
{
    json_t *root = json_deep_copy(sound);
    json_t *roles = get(get(root, "plan"), "roles");
    json_t *whole = json_incref(json_array_get(roles, 0));
    json_array_remove(roles, 0);
    for (int rank = 0; rank < 4; rank++) {
        json_t *role = json_deep_copy(whole);
        json_object_set_new(role, "first_rank", json_integer(rank));
        json_object_set_new(role, "n_ranks", json_integer(1));
        follow(role, habits[rank]);
        lay_out(role);
        json_array_insert_new(roles, (size_t)rank, role);
    }
    json_decref(whole);
    return root;
}

static int check(json_t *root, const char *name)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", cli_scratch, name);
    json_dump_file(root, path, JSON_INDENT(1));
    json_decref(root);
    cli_answer *a = cli("check \"$D/%s\"", name);
    if (a->status != 0)
        cli_show(a);
    return a->status;
}

/* ---- the file that others look at ---- */

/* The digest of what it holds: nobody edited it since. */
static void sign(const char *name)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", cli_scratch, name);
    json_t *root = json_load_file(path, 0, NULL);
    const cli_answer *a = cli("check \"$D/%s\" --json", name);
    json_object_set(root, "plan_digest",
                    json_object_get(a->json, "plan_digest"));
    json_dump_file(root, path, JSON_INDENT(1));
    json_decref(root);
}

static void test_file(void)
{
    char command[1400];
    const char *source = cli_env("FS_SRCDIR", ".");
    const char *golden = cli_env("FS_GOLDEN", "");
    snprintf(command, sizeof command, "%s '%s/mixed.json' '%s/plans/%s'",
             strcmp(golden, "rewrite") == 0 ? "cp" : "cmp -s", cli_scratch,
             source, "deadlock_3d.json");
    tap_ok(system(command) == 0,
           "plans/deadlock_3d.json is that plan (FS_GOLDEN=rewrite)");
    cli_answer *a = cli("check \"$S/plans/deadlock_3d.json\"");
    tap_ok(a->status == 1 && !strstr(a->out, "edited by hand"),
           "as it was made: its digest is that of its plan");
    tap_ok(a->status == 1 && cli_is_golden("deadlock.txt", a->out),
           "its check is that of tests/golden/deadlock.txt");
}

int main(void)
{
    char path[600];
    cli_begin_scratch("plan_deadlock_test");
    tap_equal_int(cli(PLAN)->status, 0, "a 3-D plan is written");
    snprintf(path, sizeof path, "%s/sound.json", cli_scratch);
    json_t *root = json_load_file(path, 0, NULL);
    json_object_del(root, "plan_digest"); /* of another content */
    gather_early(json_array_get(get(get(root, "plan"), "roles"), 0));
    tap_equal_int(
        check(with_habits(root, (habit[]){careful, careful, careful, careful}),
              "careful.json"),
        0, "if all ranks run their collectives in one order, it runs");
    tap_equal_int(
        check(with_habits(root, (habit[]){eager, eager, eager, eager}),
              "eager.json"),
        0, "and if all overlap tensor parallel ones, with one buffer, too");
    tap_equal_int(
        check(with_habits(root, (habit[]){careful, eager, eager, careful}),
              "mixed.json"),
        1, "if some do the one and some the other, it is refused");
    json_decref(root);
    sign("mixed.json");
    test_file();
    cli_end_scratch();
    return tap_done();
}
