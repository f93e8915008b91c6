/* What `sim` tells beside the time of a step. */
#include "tests/run_cli.h"

#include "tests/trace_valid.h"

#define PIPELINE                                                               \
    "plan zoo:gpt,layers=4,hidden=32,heads=2,vocab=64,seq=16 --cluster "       \
    "1x4:a100-sxm4-80g --batch 16 --dp 2 --pp 2 --micro-batches 4 -o "         \
    "\"$D/plan.json\""
#define SIM "sim \"$D/plan.json\" --json "

static bool made(const char *words)
{
    const cli_answer *a = cli("%s", words);
    if (a->status != 0)
        cli_show(a);
    return a->status == 0;
}

static double sum_of(const cli_answer *a, const char *list, const char *key)
{
    double sum = 0;
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(a->json, list), i, row) sum +=
        json_number_value(json_object_get(row, key));
    return sum;
}

static const char *in_scratch(const char *name)
{
    static char path[600];
    snprintf(path, sizeof path, "%s/%s", cli_scratch, name);
    return path;
}

static void test_critical(void)
{
    cli_answer *a = cli(SIM "--critical --trace \"$D/critical.json\"");
    const double all_s = cli_number(a, "iteration_s");
    tap_near(sum_of(a, "critical_path", "seconds"), all_s, 1e-9,
             "--critical: classes of the path add up to the iteration");
    tap_near(sum_of(a, "critical_tasks", "seconds"), all_s, 1e-9,
             "so do its tasks");
    tap_near(sum_of(a, "exposed", "exposed_s"), cli_number(a, "exposed_comm_s"),
             1e-9, "kinds of exposed communication add up to all of it");
    const trace_found t = trace_check(in_scratch("critical.json"));
    tap_equal_int(t.wrong, 0, "the trace with arrows is one");
    tap_ok(t.critical > 0 && t.arrows > 0 && t.arrows % 2 == 0,
           "it has %d boxes on the path, %d ends of arrows", t.critical,
           t.arrows);
    a = cli("sim \"$D/plan.json\" --critical");
    tap_ok(strstr(a->out, "critical path") && strstr(a->out, "all-reduce"),
           "people get a table");
}

static void test_counters(void)
{
    const cli_answer *a = cli(SIM "--steps 1 --trace \"$D/counters.json\"");
    const trace_found t = trace_check(in_scratch("counters.json"));
    tap_equal_int(t.wrong, 0, "the trace with counters is one");
    size_t i;
    json_t *stage;
    json_array_foreach(json_object_get(a->json, "stages"), i, stage)
    {
        const json_t *role =
            json_array_get(json_object_get(a->json, "roles"), i);
        const int rank =
            (int)json_integer_value(json_object_get(role, "first_device"));
        tap_near(
            t.peak[rank],
            (double)json_integer_value(json_object_get(stage, "peak_bytes")), 0,
            "stage %zu: counters of one step add up to its peak", i);
    }
}

static void refused(const char *options, const char *why)
{
    const cli_answer *a = cli(SIM "%s", options);
    tap_ok(a->status == 2 && strstr(a->err, why), "%s is refused: %s", options,
           why);
    if (a->status != 2 || !strstr(a->err, why))
        cli_show(a);
}

static void test_what_if(void)
{
    const double was_s = cli_number(cli(SIM), "iteration_s");
    cli_answer *a = cli(SIM "--set 'link.bandwidth*=2'");
    tap_near(cli_number(a, "unchanged_iteration_s"), was_s, 0,
             "--set: the unchanged prediction stands beside it");
    tap_ok(cli_number(a, "iteration_s") < was_s,
           "links twice as fast: the step is shorter");
    tap_equal_int(json_array_size(json_object_get(a->json, "set")), 2,
                  "what was changed is told");
    refused("--set 'device.flops*=2' --set 'device.flops*=.5'", "contradict");
    refused("--set 'turn*=.5'", "changes nothing");
    a = cli(SIM "--set 'device.flops*=2' --set 'device.memory_bandwidth*=2' "
                "--set 'link.bandwidth*=2' --set 'link.latency*=.5' --set "
                "'device.launch*=.5' --set 'memory.latency*=.5'");
    tap_near(cli_number(a, "iteration_s"), was_s / 2, 1e-3,
             "all of it twice as fast: half the time");
    refused("--set 'link.bandwith*=2'", "link.bandwidth");
    refused("--set 'link.bandwidth*=1e30'", "must be from");
    refused("--set 'link.bandwidth'", "PATH*=X");
    refused("--set cores=1", "none that share cores");
    a = cli("sim \"$D/plan.json\" --set 'device.launch*=1.0000001'");
    char from[40] = "", to[40] = "";
    const char *launch = strstr(a->out, "device.launch ");
    tap_ok(launch &&
               sscanf(launch, "device.launch %39s -> %39s", from, to) == 2 &&
               strcmp(from, to) != 0 && !strstr(a->out, " 1 times "),
           "a small change is told apart from none: %s, %s", from, to);
    a = cli("sim zoo:gpt");
    tap_ok(a->status == 2 && strstr(a->err, "zoo:gpt is a MODEL"),
           "a model is no plan: %s", a->err);
    refused("--set 'link.bandwidth*=2' --timing 1", "--timing 1 was measured");
}

static double number_in(const cli_answer *a, const char *object,
                        const char *key)
{
    return json_number_value(
        json_object_get(json_object_get(a->json, object), key));
}

static void test_goodput(void)
{
    cli_answer *a =
        cli(SIM "--mtbf 1 --checkpoint-s 2 --restart-s 30 --checkpoint-every "
                "100000");
    const double useful = number_in(a, "goodput", "goodput");
    tap_near(useful + number_in(a, "goodput", "checkpoint") +
                 number_in(a, "goodput", "rework") +
                 number_in(a, "goodput", "restart"),
             1, 1e-9, "--mtbf: what is useful and lost adds up to the time");
    tap_near(number_in(a, "goodput", "mtbf_s"), 900, 1e-12,
             "four devices fail four times as often as one");
    const double best = json_number_value(json_object_get(
        json_object_get(json_object_get(a->json, "goodput"), "best"),
        "goodput"));
    tap_ok(useful > 0 && useful < best, "the best interval leaves more");
    a = cli(SIM "--mtbf 1 --storage 1M --checkpoint-every auto");
    tap_near(number_in(a, "goodput", "checkpoint_s"),
             number_in(a, "goodput", "checkpoint_bytes_per_node") / (1 << 20),
             1e-12, "--storage: what a node keeps, at its pace");
    tap_near(number_in(a, "goodput", "restart_s"),
             number_in(a, "goodput", "checkpoint_s"), 0,
             "it is read back as fast");
    refused("--mtbf 0 --checkpoint-s 1", "more than 0 hours");
    refused("--mtbf 1e12 --checkpoint-s 1", "at most");
    refused("--mtbf 1", "--checkpoint-s S, or --storage");
    refused("--mtbf 1 --checkpoint-s 1 --storage 1G", "not both");
    refused("--mtbf 1 --storage 0", "--storage wants bytes");
    refused("--mtbf 1 --storage fast", "not 'fast'");
    refused("--mtbf 1 --checkpoint-s 1 --checkpoint-every 0", "1 or more");
    refused("--mtbf 1 --checkpoint-s 1 --checkpoint-every often", "'often'");
    refused("--restart-s 3", "--restart-s is of failures");
    refused("--mtbf 1 --checkpoint-s -1", "below 0");
}

static double number_at(const cli_answer *a, const char *list, size_t i,
                        const char *key)
{
    return json_number_value(json_object_get(
        json_array_get(json_object_get(a->json, list), i), key));
}

static void test_disturbed(void)
{
    const double quiet_s = cli_number(cli(SIM), "iteration_s");
    const double first_s = cli_number(cli(SIM "--straggler 3"), "iteration_s");
    tap_near(cli_number(cli(SIM "--straggler 0:3"), "iteration_s"), first_s, 0,
             "--straggler X is that of rank 0");
    tap_ok(cli_number(cli(SIM "--straggler 3:3"), "iteration_s") > quiet_s,
           "the last rank may be it too");
    refused("--straggler 4:2", "ranks 0 to 3");
    refused("--straggler :2", "wants X, or R:X");
    refused("--straggler 0:0.5", "more than 1");
    refused("--straggler 0:fast", "more than 1");
    refused("--straggler 0:1", "changes nothing");
    refused("--straggler 1", "changes nothing");
    refused("--jitter 0", "changes nothing");
    cli_answer *a = cli(SIM "--jitter 0.1 --seed 5");
    const double one_s = cli_number(a, "iteration_s");
    tap_near(number_in(a, "jitter", "quiet_iteration_s"), quiet_s, 0,
             "--jitter: the time without stands beside it");
    tap_ok(one_s > quiet_s && number_in(a, "jitter", "deviation_s") > 0,
           "steps are longer, and differ");
    tap_near(cli_number(cli(SIM "--jitter 0.1 --seed 5"), "iteration_s"), one_s,
             0, "the same seed: the same");
    tap_ok(cli_number(cli(SIM "--jitter 0.1 --seed 6"), "iteration_s") != one_s,
           "another seed: another");
    cli("plan zoo:mlp --cluster 1x1:a100-sxm4-80g --batch 4 -o "
        "\"$D/one.json\"");
    int idle = 0;
    for (int k = 0; k < 6; k++) {
        a = cli("sim \"$D/one.json\" --jitter 0.1 --seed %d --json", k);
        idle += cli_number(a, "bubble") != 0 ||
                number_at(a, "stages", 0, "idle_s") != 0;
    }
    tap_equal_int(idle, 0, "a device alone is never idle, in the mean neither");
    refused("--jitter 3", "at most 2");
    refused("--jitter -1", "below 0");
    refused("--jitter 0.1 --steps 2", "3 at least");
}

/* By the protobuf library, where Python has it; report_chakra_test reads the
 * files by itself. */
static void read_by_library(long long nodes)
{
    char command[1400], text[512] = "";
    snprintf(command, sizeof command,
             "python3 \"%s/tests/chakra_read.py\" \"%s/et\" >\"%s/read\"",
             cli_env("FS_SRCDIR", "."), cli_scratch, cli_scratch);
    const int raw = system(command);
    if (WIFEXITED(raw) && WEXITSTATUS(raw) == 77) {
        tap_skip("Python has no protobuf here", "the library reads the traces");
        return;
    }
    cli_slurp("read", text, sizeof text);
    json_t *read = json_loads(text, 0, NULL);
    tap_equal_int(json_integer_value(json_object_get(read, "nodes")), nodes,
                  "the library reads the traces, all their nodes");
    json_decref(read);
}

static void test_chakra(void)
{
    const cli_answer *a =
        cli("export \"$D/plan.json\" --to chakra -o \"$D/et\" --json");
    const long long nodes =
        json_integer_value(json_object_get(a->json, "nodes"));
    tap_ok(a->status == 0 && nodes > 0 && cli_number(a, "files") == 4,
           "export --to chakra: %lld nodes in a file per rank", nodes);
    read_by_library(nodes);
    static const char *const rows[][2] = {
        {"export zoo:mlp --to chakra -o \"$D/no\"", "wants a PLAN"},
        {"export \"$D/plan.json\" --to chakra -o \"$D/plan.json\"",
         "is no folder"},
        {"export \"$D/plan.json\" --to chakra -o \"$D/none/no\"",
         "No such file"},
        {"export \"$D/plan.json\" --to chakra --no-weights -o \"$D/no\"",
         "traces have none"},
        {"export \"$D/plan.json\" --to chakra", "-o DIR"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        a = cli("%s", rows[i][0]);
        tap_ok(a->status == 2 && strstr(a->err, rows[i][1]), "%s: %s",
               rows[i][0], a->err);
    }
}

/* Seconds of stages are whole nanoseconds, in the mean over some steps and
 * ranks: what is less is a residue of rounding. */
static bool has_residue(const cli_answer *a)
{
    static const char *const keys[] = {"busy_s", "comm_s", "exposed_comm_s",
                                       "idle_s"};
    size_t i;
    json_t *stage;
    json_array_foreach(json_object_get(a->json, "stages"), i,
                       stage) for (int k = 0; k < 4; k++)
    {
        const double s = json_number_value(json_object_get(stage, keys[k]));
        if (s < 0 || (s > 0 && s < 1e-12))
            return true;
    }
    return cli_number(a, "bubble") < 0;
}

/* Is the shell's condition true? */
static bool is(const char *condition)
{
    return system(condition) == 0;
}

/* A folder has the traces of one plan, or is as it was. */
static void test_chakra_again(unsigned long long seed)
{
    static const int ranks[] = {1, 2, 4, 8};
    for (int i = 0; i < 4; i++)
        cli("plan zoo:mlp --cluster 1x%d:h100-sxm5-80g --batch 16 --dp %d -o "
            "\"$D/r%d.json\"",
            ranks[i], ranks[i], ranks[i]);
    int before = 0;
    for (int i = 0; i < 8; i++) {
        seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
        const int n = ranks[(seed >> 33) % 4];
        char all[160];
        snprintf(all, sizeof all, "test $(ls \"$D/again\" | wc -l) = %d",
                 n + 1);
        const cli_answer *a = cli("export \"$D/r%d.json\" --to chakra -o "
                                  "\"$D/again%s\" --json",
                                  n, i % 2 ? "/" : "");
        tap_ok(a->status == 0 && is(all) &&
                   cli_number(a, "removed") == (before > n ? before - n : 0),
               "%d ranks after %d: a file for each, and the groups", n, before);
        before = n;
    }
    static const char *const rows[][3] = {
        {"echo a >\"$D/again/plan.9.et\"", "plan.9.et is no trace",
         "rm \"$D/again/plan.9.et\""},
        {"mkdir \"$D/again/plan.12.et\"", "plan.12.et is no trace",
         "rmdir \"$D/again/plan.12.et\""},
        {"mv \"$D/again/plan.0.et\" \"$D/t\"; ln -s ../t "
         "\"$D/again/plan.0.et\"",
         "plan.0.et is no trace",
         "rm \"$D/again/plan.0.et\"; mv \"$D/t\" \"$D/again/plan.0.et\""},
        {"ulimit -f 1", "/again/plan.0.et: cannot be written", ":"}};
    tap_ok(is("cp -r \"$D/again\" \"$D/was\""), "as it is before failures");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        /* in a shell of its own: what is wrong, then the command */
        char command[1200], err[600] = "";
        snprintf(command, sizeof command,
                 "(%s; '%s/flowsearch' export \"$D/r2.json\" --to chakra -o "
                 "\"$D/again\" --db none 2>\"$D/err\"); test $? -ge 2",
                 rows[i][0], cli_env("FS_BUILDDIR", "."));
        const bool failed = is(command);
        cli_slurp("err", err, sizeof err);
        tap_ok(failed && strstr(err, rows[i][1]) && is(rows[i][2]) &&
                   is("diff -r \"$D/again\" \"$D/was\""),
               "nothing has changed after: %s", err);
    }
    tap_ok(
        is("rm \"$D/again/\"*.et") &&
            cli("export \"$D/r2.json\" --to chakra -o \"$D/again\"")->status ==
                2,
        "groups beside no trace may be anybody's");
}

/* Whatever the plan and the options: sums are what they are of. */
static void test_random(unsigned long long seed)
{
    static const char *const recipes[] = {
        "--dp 4",
        "--dp 2 --tp 2 --seq-parallel",
        "--pp 4 --schedule gpipe",
        "--dp 2 --pp 2 --schedule zb-h1",
        "--tp 2 --pp 2 --overlap",
        "--dp 4 --zero 3 --overlap",
        "--dp 2 --pp 2 --interleave 2 --schedule interleaved"};
    static const char *const options[] = {
        "", "--straggler 1:1.5", "--jitter 0.2 --steps 5",
        "--set 'link.bandwidth*=.1'", "--steps 1"};
    int plans = 0, path = 0, exposed = 0, traces = 0, exports = 0;
    int residues = 0;
    for (int i = 0; i < 12; i++) {
        seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
        const char *recipe = recipes[(seed >> 33) % 7];
        const char *option = options[(seed >> 40) % 5];
        cli_answer *a =
            cli("plan zoo:gpt,layers=4,hidden=32,heads=4,vocab=64,seq=16 "
                "--cluster 1x4:h100-sxm5-80g --batch 16 --micro-batches 4 %s "
                "-o \"$D/any.json\"",
                recipe);
        if (a->status != 0) {
            cli_show(a);
            continue;
        }
        plans++;
        a = cli("sim \"$D/any.json\" --critical --trace \"$D/any.trace\" "
                "--json %s",
                option);
        const double jittered = number_in(a, "jitter", "mean_s");
        const double all_s = cli_number(a, "iteration_s");
        const double off_s = sum_of(a, "critical_path", "seconds") - all_s;
        path += !(jittered > 0 || fabs(off_s) < 1e-9 * all_s);
        path += !(fabs(sum_of(a, "critical_path", "share") - 1) < 1e-9);
        exposed += !(jittered > 0 ||
                     fabs(sum_of(a, "exposed", "exposed_s") -
                          cli_number(a, "exposed_comm_s")) < 1e-9 * all_s);
        const trace_found t = trace_check(in_scratch("any.trace"));
        traces += t.wrong > 0 || t.counters == 0 || t.critical == 0;
        residues += has_residue(a);
        a = cli("export \"$D/any.json\" --to chakra -o \"$D/any\" --json");
        exports += a->status != 0 || cli_number(a, "files") != 4;
    }
    tap_equal_int(plans, 12, "plans by seven recipes");
    tap_equal_int(path, 0, "their critical paths add up");
    tap_equal_int(exposed, 0, "and what communication is exposed");
    tap_equal_int(traces, 0, "their traces are some");
    tap_equal_int(residues, 0, "what is left of nothing is 0");
    tap_equal_int(exports, 0, "they have execution traces");
}

int main(void)
{
    const unsigned long long seed = tap_seed(9);
    cli_begin_scratch("cli_sim_test");
    tap_ok(made(PIPELINE), "a pipeline of two stages");
    test_critical();
    test_counters();
    test_what_if();
    test_goodput();
    test_disturbed();
    test_chakra();
    test_chakra_again(seed);
    test_random(seed);
    cli_end_scratch();
    return tap_done();
}
