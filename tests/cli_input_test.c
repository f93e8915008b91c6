/* Bad input: one clear error, exit 2, nothing half written. */
#include "config.h"
#include "tests/run_cli.h"

#include <sqlite3.h>

#define MODEL "\"$S/datasets/models/gpt_bytes.dyn.onnx\""
#define MLP "zoo:mlp,in=16,hidden=32,layers=2,classes=4"

static int exists(const char *name)
{
    char path[700];
    snprintf(path, sizeof path, "%s/%s", cli_scratch, name);
    return access(path, F_OK) == 0;
}

static void write_file(const char *name, const char *text, size_t n)
{
    char path[700];
    snprintf(path, sizeof path, "%s/%s", cli_scratch, name);
    FILE *file = fopen(path, "wb");
    fwrite(text, 1, n, file);
    fclose(file);
}

static int lines(const char *text)
{
    int n = 0;
    for (; *text; text++)
        n += *text == '\n';
    return n;
}

/* Status 2, one line on stderr that names `word`, and no "bad.json" made. */
static void refused(const char *fact, const char *word, const cli_answer *a)
{
    int good = a->status == 2 && lines(a->err) == 1 && strstr(a->err, word) &&
               !exists("bad.json");
    tap_ok(good, "%s", fact);
    if (!good) {
        printf("# wanted status 2 and one line with '%s'\n", word);
        cli_show(a);
    }
}

/* On a full disk, and closed: a fault that is told, once. */
static void test_full_output(void)
{
    static const struct {
        const char *words, *says;
    } cases[] = {
        {"--help >/dev/full", "No space left on device"},
        {"--version >/dev/full", "No space left on device"},
        {"search --help >&-", "Bad file descriptor"},
        {"model " MLP " --batch 8 --db none --json >/dev/full",
         "No space left on device"},
    };
    char text[4096], wanted[200];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const cli_answer *a =
            cli("%s 2>\"$D/full\"; exit $?; true --db", cases[i].words);
        cli_slurp("full", text, sizeof text);
        snprintf(wanted, sizeof wanted, "flowsearch: standard output: %s\n",
                 cases[i].says);
        tap_ok(a->status == 3, "%s is a fault", cases[i].words);
        tap_equal_text(text, wanted, "told in one line");
    }
}

static void test_usage(void)
{
    refused("an unknown command", "frobnicate", cli("frobnicate --db none"));
    refused("an unknown option", "--speed", cli("search " MLP " --speed 9"));
    refused("a number that is none", "--batch",
            cli("search " MLP " --batch many -o \"$D/bad.json\""));
    refused("a number beyond 64 bits", "--batch 99999999999999999999: 92233",
            cli("search " MLP " --batch 99999999999999999999 "
                "-o \"$D/bad.json\""));
    refused("an output without a name", "--output wants FILE",
            cli("search " MLP " --cluster 1x2:cpu --batch 8 -o ''"));
    refused("a momentum that grows", "--momentum 2: a number",
            cli("plan " MLP " --cluster 1x2:cpu --batch 8 --optimizer momentum "
                "--momentum 2 -o \"$D/bad.json\""));
    refused("a beta of 1", "--beta2 1: a number",
            cli("plan " MLP " --cluster 1x2:cpu --batch 8 --beta2 1 "
                "-o \"$D/bad.json\""));
    refused("a rate that fp32 has not", "--lr 1e+300: a number",
            cli("plan " MLP " --cluster 1x2:cpu --batch 8 --lr 1e300 "
                "-o \"$D/bad.json\""));
    refused("rows said twice", "--last 2 has no effect",
            cli("runs --last 2 --sql 'SELECT 1'"));
    cli("plan " MLP " --cluster 1x2:cpu --batch 8 -o \"$D/far.json\"");
    static const char *const takes[] = {
        "run w.onnx --data synthetic",
        "check w.onnx",
        "sim w.onnx",
        "explain w.onnx",
        "serve w.onnx",
        "compare \"$D/far.json\" w.onnx",
        "export w.onnx --to chakra -o \"$D/no\"",
        "run zoo:mlp --data synthetic"};
    for (size_t i = 0; i < sizeof takes / sizeof *takes; i++)
        refused("a network for a plan", "wants a PLAN", cli("%s", takes[i]));
    refused("a network for a plan, and what makes one", "flowsearch search",
            cli("run w.onnx --data synthetic"));
    refused("a plan for another machine", "described, not measured",
            cli("run \"$D/far.json\" --data synthetic"));
    tap_ok(cli("-h; true --db")->status == 0, "-h is --help");
    test_full_output();
    refused("no batch", "--batch",
            cli("search " MLP " --cluster 1x2:cpu -o \"$D/bad.json\""));
    refused("a batch that does not divide", "micro-batches",
            cli("plan " MLP " --cluster 1x2:cpu --batch 6 --micro-batches 4 "
                "-o \"$D/bad.json\""));
    refused("an output folder that is not there", "nowhere",
            cli("search " MLP " --cluster 1x2:cpu --batch 8 "
                "-o \"$D/nowhere/bad.json\""));
    refused("a recipe that does not fit the devices", "devices",
            cli("plan " MLP " --cluster 1x4:cpu --batch 8 --dp 3 "
                "-o \"$D/bad.json\""));
    refused("an unknown engine", "annealing",
            cli("search " MLP " --cluster 1x2:cpu --batch 8 --engine annealing "
                "-o \"$D/bad.json\""));
}

static void test_clusters(void)
{
    refused("a memory that no device has", "24 GiB of a device of 1x2:l4",
            cli("plan " MLP " --cluster 1x2:l4 --batch 8 --memory 200G "
                "-o \"$D/bad.json\""));
    tap_equal_int(cli("plan " MLP " --cluster 1x1:l4+1x1:a100-sxm4-80g "
                      "--batch 8 --memory 70G -o \"$D/some.json\"")
                      ->status,
                  0, "one that some devices have limits these");
    refused("a cluster of zero devices", "0",
            cli("search " MLP " --cluster 1x0:cpu --batch 8 "
                "-o \"$D/bad.json\""));
    refused("an unknown device, with the near ones", "h100-sxm5-80g",
            cli("cluster 1x8:h100-sxm-80g"));
    write_file("cluster.json", "{\"a\": 1,\n \"b\": }", 15);
    refused("malformed JSON, with line and column",
            "cluster.json:2:", cli("cluster \"$D/cluster.json\""));
    refused("a cluster file that is not there", "absent.json",
            cli("cluster \"$D/absent.json\""));
}

static void test_models(void)
{
    refused("a model that is not there", "absent.onnx",
            cli("model \"$D/absent.onnx\""));
    refused("a name that is no model", "gpt5", cli("model zoo:gpt5"));
    refused("a zoo key that is unknown", "depth", cli("model zoo:mlp,depth=3"));
    refused("sizes that overflow", "zoo",
            cli("model zoo:mlp,in=4000000000,hidden=4000000000"));
    if (system("head -c 100000 \"$S/datasets/models/gpt_bytes.dyn.onnx\" "
               ">\"$D/cut.onnx\"") != 0)
        return;
    refused("a truncated ONNX file", "cut.onnx", cli("model \"$D/cut.onnx\""));
    char noise[4096];
    unsigned long long seed = tap_seed(11);
    for (size_t i = 0; i < sizeof noise; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        noise[i] = (char)(seed >> 56);
    }
    write_file("noise.onnx", noise, sizeof noise);
    refused("noise for a model", "noise.onnx", cli("model \"$D/noise.onnx\""));
    /* ModelProto{ graph{ node{ output "y" name "n0" op_type "Frob" } } } */
    static const char frob[] = "\x08\x08\x42\x04\x0a\x00\x10\x11\x3a\x0f"
                               "\x0a\x0d\x12\x01y\x1a\x02n0\x22\x04"
                               "Frob";
    write_file("frob.onnx", frob, sizeof frob - 1);
    refused("an unknown op, named with its node", "Frob",
            cli("model \"$D/frob.onnx\""));
    refused("a loss that is unknown", "hinge",
            cli("search " MODEL " --loss hinge --cluster 1x2:cpu --batch 8 "
                "-o \"$D/bad.json\""));
}

static void test_plans(void)
{
    cli_answer *a = cli("plan " MLP " --cluster local --ranks 2 --batch 8 "
                        "--dp 2 -o \"$D/plan.json\"");
    tap_equal_int(a->status, 0, "a small plan is made");
    if (a->status)
        cli_show(a);
    if (system("head -c 500 \"$D/plan.json\" >\"$D/cut.json\"; "
               "sed 's/zoo:mlp,in=16/zoo:mlp,in=24/' \"$D/plan.json\" "
               ">\"$D/other.json\"") != 0)
        return;
    refused("a truncated plan", "cut.json", cli("check \"$D/cut.json\""));
    refused("a plan for another model", "model",
            cli("check \"$D/other.json\""));
    refused("a plan that is a cluster", "plan",
            cli("check \"$S/datasets/clusters/cpu.json\""));
    refused("run without data", "--data", cli("run \"$D/plan.json\""));
    refused("data that is not there", "absent.txt",
            cli("run \"$D/plan.json\" --data \"$D/absent.txt\""));
    a = cli("plan " MODEL " --cluster local --ranks 1 --batch 8 "
            "-o \"$D/gpt.json\"");
    tap_equal_int(a->status, 0, "a plan for the GPT is made");
    write_file("short.txt", "too short", 9);
    refused("a data file that is too short", "short.txt",
            cli("run \"$D/gpt.json\" --data \"$D/short.txt\""));
    a = cli("plan " MLP " --cluster 1x2:a100-sxm4-80g --batch 8 "
            "-o \"$D/gpu.json\"");
    tap_equal_int(a->status, 0, "a plan for GPUs is made without any");
    refused("a plan for GPUs is not run on CPU ranks", "a100",
            cli("run \"$D/gpu.json\" --data synthetic"));
}

static void raw_sql(const char *name, const char *sql)
{
    char path[700];
    sqlite3 *handle;
    snprintf(path, sizeof path, "%s/%s", cli_scratch, name);
    sqlite3_open(path, &handle);
    sqlite3_exec(handle, sql, NULL, NULL, NULL);
    sqlite3_close(handle);
}

static void test_databases(void)
{
    cli("cluster 1x2:cpu --db \"$D/newer.db\"");
    raw_sql("newer.db", "PRAGMA user_version=99");
    refused("a newer database", "newer",
            cli("cluster 1x2:cpu --db \"$D/newer.db\""));
    static const char text[] = "this is text, not a database, and long enough "
                               "that SQLite reads a header of a hundred bytes "
                               "from it before it decides";
    write_file("noise.db", text, sizeof text - 1);
    refused("a corrupt database", "noise.db",
            cli("cluster 1x2:cpu --db \"$D/noise.db\""));
    char path[700];
    sqlite3 *handle;
    cli("cluster 1x2:cpu --db \"$D/locked.db\"");
    snprintf(path, sizeof path, "%s/locked.db", cli_scratch);
    sqlite3_open(path, &handle);
    sqlite3_exec(handle, "BEGIN EXCLUSIVE", NULL, NULL, NULL);
    refused("a locked database", "locked",
            cli("cluster 1x2:cpu --db \"$D/locked.db\""));
    sqlite3_close(handle);
}

int main(void)
{
    cli_begin_scratch("input");
    cli("calibrate"); /* once: `local` is then known */
    test_usage();
    test_clusters();
    test_models();
    test_plans();
    test_databases();
    cli_end_scratch();
    return tap_done();
}
