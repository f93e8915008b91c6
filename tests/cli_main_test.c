/* The main job end to end, and what scripts rely on: JSON keys, statuses,
 * files, the database. */
#include "config.h"
#include "tests/cli_plans.h"

#define MODEL "\"$S/datasets/models/gpt_bytes.dyn.onnx\""
#define TEXT "\"$S/datasets/data/moby-dick.txt\""

/* Every key, comma-separated, is in the object. */
static void has_keys(const char *what, const cli_answer *a, const char *keys)
{
    char copy[512], missing[512] = "";
    snprintf(copy, sizeof copy, "%s", keys);
    for (char *key = strtok(copy, " "); key; key = strtok(NULL, " "))
        if (!json_object_get(a->json, key))
            snprintf(missing, sizeof missing, "%s", key);
    tap_ok(a->status == 0 && a->json && !missing[0], "%s: --json has %s%s%s",
           what, keys, missing[0] ? "; missing: " : "", missing);
    if (a->status || !a->json)
        cli_show(a);
}

static int is_file(const char *name, const char *first)
{
    char path[700], start[64] = "";
    snprintf(path, sizeof path, "%s/%s", cli_scratch, name);
    FILE *file = fopen(path, "rb");
    if (!file)
        return 0;
    size_t n = fread(start, 1, sizeof start - 1, file);
    fclose(file);
    return n > 0 && strstr(start, first) != NULL;
}

static void test_main_job(void)
{
    has_keys("model", cli("model " MODEL " --batch 8 --json"),
             "name ops params fwd_flop bwd_flop param_bytes inputs outputs "
             "op_types");
    has_keys("cluster", cli("cluster local --ranks 4 --json"),
             "name devices nodes levels device");
    cli_answer *a = cli("search " MODEL " --cluster local --ranks 4 --batch 8 "
                        "-o \"$D/plan.json\" --json");
    has_keys("search", a,
             "status engine iteration_s lower_bound_s gap "
             "search_s peak_bytes stages plan plan_digest sim_gap "
             "sim_floor_s");
    tap_ok(cli_number(a, "sim_floor_s") <=
               cli_number(a, "sim_iteration_s") * (1 + 1e-9),
           "search: what is said of simulations is not above this one");
    tap_ok(cli_number(a, "lower_bound_s") <=
               cli_number(a, "iteration_s") * (1 + 1e-9),
           "search: the bound is not above the plan");
    tap_ok(cli_number(a, "gap") >= 0, "search: the gap is a fraction");
    has_keys("check", cli("check \"$D/plan.json\" --json"),
             "ok findings peak_bytes live");
    has_keys("explain", cli("explain \"$D/plan.json\" --json"),
             "iteration_s tree");
    a = cli("sim \"$D/plan.json\" --trace \"$D/trace.json\" --json");
    has_keys("sim", a,
             "iteration_s samples_per_s tokens_per_s "
             "tflops_per_device mfu bubble exposed_comm_s "
             "peak_bytes events wall_s");
    tap_ok(is_file("trace.json", "{"), "sim: the trace is written");
    a = cli("run \"$D/plan.json\" --data " TEXT " --steps 6 --pictures "
            "\"$D/pictures\" --json");
    has_keys("run", a,
             "losses step_s samples_per_s peak_bytes ranks "
             "predicted_step_s weights_digest plan_digest");
    tap_ok(is_file("pictures/plan.svg", "<?xml"), "run: draws the plan");
    tap_ok(is_file("pictures/timeline-measured.svg", "<?xml"),
           "run: draws the measured timeline");
    double predicted = cli_number(a, "predicted_step_s");
    tap_ok(predicted > 0, "run: predicts its step");
}

/* What `model` counts is the model's: no states of the optimizer. */
static void test_model(void)
{
    cli_answer *a = cli("model zoo:mlp,layers=2 --json");
    const char *key;
    json_t *count;
    json_int_t sum = 0;
    json_object_foreach(json_object_get(a->json, "op_types"), key, count) sum +=
        json_integer_value(count);
    tap_equal_int(sum, (int)cli_number(a, "ops"),
                  "model: the types of ops add up to the ops");
}

/* The text of each command names the plan. */
static void test_digest(void)
{
    char line[64], missing[64] = "";
    cli_answer *a = cli("sim \"$D/plan.json\" --json");
    const char *digest =
        json_string_value(json_object_get(a->json, "plan_digest"));
    snprintf(line, sizeof line, "plan digest     %s\n", digest ? digest : "");
    static const char *const commands[] = {
        "sim \"$D/plan.json\"", "run \"$D/plan.json\" --steps 1 --data " TEXT,
        "plan " MODEL " --cluster local --ranks 4 --batch 8 --dp 4 "
        "-o \"$D/dp.json\"",
        "search " MODEL " --cluster local --ranks 4 --batch 8 "
        "-o \"$D/plan.json\""};
    for (int i = 0; i < 4; i++)
        if (!strstr(cli("%s", commands[i])->out,
                    i == 2 ? "plan digest     " : line))
            snprintf(missing, sizeof missing, "%.20s", commands[i]);
    tap_equal_text(missing, "",
                   "sim, run, plan, search tell the plan's digest");
}

/* A row says what it is of; the cluster's text gives the cluster again. */
static void test_kept(void)
{
    cli("plan zoo:mlp,layers=1 --cluster 1x2:a100-sxm4-80g --batch 8 --dp 2 "
        "-o \"$D/kept.json\"");
    cli("show \"$D/kept.json\" -o \"$D/kept.dot\"");
    cli_answer *a = cli(
        "runs --sql \"SELECT c.json AS json, m.path AS path FROM runs r JOIN"
        " clusters c ON c.digest=r.cluster_digest JOIN models m ON"
        " m.digest=r.model_digest WHERE r.command='show' AND r.plan_digest"
        " IS NOT NULL AND r.model=m.path ORDER BY r.id DESC LIMIT 1\" --json");
    json_t *row = json_array_get(json_object_get(a->json, "runs"), 0);
    const char *path = json_string_value(json_object_get(row, "path"));
    const char *text = json_string_value(json_object_get(row, "json"));
    tap_equal_text(path ? path : "none", "zoo:mlp,layers=1",
                   "show: its row names model, cluster and plan");
    char file[700];
    snprintf(file, sizeof file, "%s/again.json", cli_scratch);
    FILE *out = fopen(file, "w");
    fputs(text ? text : "", out);
    fclose(out);
    a = cli("cluster \"$D/again.json\" --json");
    tap_ok(a->status == 0 && cli_number(a, "devices") == 2,
           "a stored cluster is a cluster file");
    a = cli("runs --sql \"SELECT count(DISTINCT cluster_digest) AS n FROM runs"
            " WHERE cluster LIKE '%%a100%%' OR cluster LIKE '%%again%%'\" "
            "--json");
    row = json_array_get(json_object_get(a->json, "runs"), 0);
    const char *n = json_string_value(json_object_get(row, "n"));
    tap_ok(json_integer_value(json_object_get(row, "n")) == 1 ||
               (n && strcmp(n, "1") == 0),
           "and has the digest of the one that was planned for");
}

/* The planned peak is the arena that ranks allocate, byte for byte. */
static void test_peak(void)
{
    cli_answer *a = cli("sim \"$D/plan.json\" --json");
    const json_int_t planned = cli_largest_peak(a);
    a = cli("run \"$D/plan.json\" --data " TEXT " --steps 1 --json");
    tap_equal_int(cli_largest_peak(a), planned,
                  "the planned peak equals the allocated arena");
}

static void test_weights_repeat(void)
{
    char first[32] = "";
    cli_answer *a =
        cli("run \"$D/plan.json\" --data " TEXT " --steps 3 --json");
    const json_t *digest = json_object_get(a->json, "weights_digest");
    if (digest)
        snprintf(first, sizeof first, "%s", json_string_value(digest));
    a = cli("run \"$D/plan.json\" --data " TEXT " --steps 3 --json");
    digest = json_object_get(a->json, "weights_digest");
    tap_equal_text(digest ? json_string_value(digest) : "none", first,
                   "the same plan gives the same bits");
}

static void test_replay(void)
{
    cli_answer *a = cli("runs --sql \"SELECT max(id) AS id FROM runs WHERE "
                        "command='run'\" --json");
    json_t *row = json_array_get(json_object_get(a->json, "runs"), 0);
    long long id = json_integer_value(json_object_get(row, "id"));
    tap_ok(id > 0, "runs: the run is in the database");
    a = cli("sim \"$D/plan.json\" --timing %lld --json", id);
    tap_ok(a->status == 0 && cli_number(a, "iteration_s") > 0,
           "sim: replays the measured timing of a run");
    if (a->status)
        cli_show(a);
}

/* The time that `wanted` of `text` is followed by, as it is written; a static
 * text, valid for three more calls, "" when there is none. */
static const char *time_after(const char *text, const char *wanted)
{
    static char found[4][32];
    static int turn;
    char *into = found[turn++ % 4];
    const char *at = strstr(text, wanted);
    into[0] = '\0';
    if (at)
        sscanf(at + strlen(wanted), " %31[0-9.a-z ]", into);
    return into;
}

static void test_titles(void)
{
    static char picture[1 << 20];
    const char *said =
        time_after(cli("sim \"$D/plan.json\"")->out, "one iteration  ");
    cli("show \"$D/plan.json\" --timeline -o \"$D/t.dot\"");
    cli_slurp("t.dot", picture, sizeof picture);
    const char *shown = time_after(picture, "one iteration takes");
    tap_ok(said[0], "sim tells the time of an iteration");
    tap_equal_text(shown, said, "the timeline's title gives the same");
    tap_ok(time_after(picture, "the picture spans")[0],
           "and says what the picture spans");
    cli_slurp("pictures/timeline-predicted.svg", picture, sizeof picture);
    tap_equal_text(time_after(picture, "one step takes"), said,
                   "so does the predicted timeline of a run");
}

static void test_pictures(void)
{
    has_keys("show a model", cli("show " MODEL " -o \"$D/m.svg\" --json"),
             "file nodes edges");
    has_keys("show a cluster",
             cli("show 2x8:h100-sxm5-80g -o \"$D/c.dot\" "
                 "--json"),
             "file nodes edges");
    has_keys("show a plan",
             cli("show \"$D/plan.json\" -o \"$D/p.png\" "
                 "--json"),
             "file nodes edges");
    tap_ok(is_file("p.png", "PNG"), "show: a .png is a PNG");
    cli("plan zoo:mlp --cluster 1x4:h100-sxm5-80g --batch 8 --pp 4 -o "
        "\"$D/pp4.json\"");
    cli("show \"$D/pp4.json\" -o \"$D/a.dot\"");
    cli("show \"$D/pp4.json\" -o \"$D/b.dot\"");
    tap_ok(system("cmp \"$D/a.dot\" \"$D/b.dot\"") == 0,
           "show: the same plan gives the same bytes");
    cli_answer *a = cli("show " MODEL " -o \"$D/m.bmp\"");
    tap_ok(a->status == 2 && !is_file("m.bmp", ""),
           "show: an unknown ending is refused");
}

static void test_conformance(void)
{
    cli_answer *a = cli("conformance \"$S/datasets/train_cases\" --json");
    has_keys("conformance", a, "cases passed failed refused details");
    tap_ok(cli_number(a, "failed") == 0 && cli_number(a, "passed") >= 7,
           "the networks give PyTorch's losses, gradients and curves");
    cli_show(a);
}

static void test_answers_of_no(void)
{
    cli_answer *a = cli("search " MODEL " --cluster local --ranks 2 --batch 8 "
                        "--memory 100K -o \"$D/tiny.json\" --json");
    tap_equal_int(a->status, 1, "search: too little memory is a no");
    tap_ok(strstr(a->err, "needs"), "search: and says what it needs");
    cli_show(a);
    tap_ok(!is_file("tiny.json", ""), "search: no plan is written then");
}

static void test_usage_golden(void)
{
    static const char *const commands[] = {
        "",      "model", "cluster",   "search",      "plan",
        "sweep", "check", "explain",   "compare",     "sim",
        "run",   "show",  "calibrate", "conformance", "runs"};
    static char all[1 << 16];
    size_t n = 0;
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        cli_answer *a = cli("%s --help --db none", commands[i]);
        n += (size_t)snprintf(all + n, sizeof all - n, "%s\n", a->out);
    }
    tap_ok(cli_is_golden("usage.txt", all),
           "usage is that of tests/golden/usage.txt (FS_GOLDEN=rewrite)");
}

/* With nothing to install, to configure or to compile. */
static void test_quickstart(void)
{
    cli("--version >/dev/null; cd \"$D\" && mkdir -p quick/build quick/bin && "
        "cp \"$S/quickstart\" quick && touch quick/configure "
        "quick/build/config.status && chmod +x quick/configure && "
        "echo 'echo install ok installed' >quick/bin/dpkg-query && "
        "echo : >quick/bin/make && chmod +x quick/bin/* && "
        "PATH=\"$PWD/quick/bin:$PATH\" quick/quickstart build >quick/said "
        "2>&1; true --db");
    static char said[4096], readme[8192];
    char path[1024];
    cli_slurp("quick/said", said, sizeof said);
    const char *last = strstr(said, "the program is build/flowsearch\n");
    tap_ok(last && !strchr(strchr(last, '\n') + 1, '\n'),
           "quickstart build: its last line says where the program is");
    if (!last)
        printf("# %s\n", said);
    snprintf(path, sizeof path, "%s/README.md", cli_env("FS_SRCDIR", "."));
    FILE *file = fopen(path, "r");
    if (file) {
        readme[fread(readme, 1, sizeof readme - 1, file)] = '\0';
        fclose(file);
    }
    const char *build = strstr(readme, "\n    ./quickstart build ");
    const char *call = build ? strstr(build, "\n    build/flowsearch ") : NULL;
    tap_ok(call && call < strstr(build, "\n\n"),
           "and README's first commands call it there");
}

int main(void)
{
    cli_begin_scratch("main");
    cli("calibrate"); /* once: `local` is then known */
    test_usage_golden();
    test_quickstart();
    test_main_job();
    test_model();
    test_digest();
    test_kept();
    test_peak();
    test_weights_repeat();
    test_replay();
    test_pictures();
    test_titles();
    test_conformance();
    test_answers_of_no();
    cli_end_scratch();
    return tap_done();
}
