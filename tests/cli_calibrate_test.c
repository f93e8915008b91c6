/* `calibrate`: what is measured stands in the database sample by sample, is not
 * measured twice, and is what plans then stand on; runs beside what was
 * predicted of them. No time is asserted: the machine may be busy. */
#include "config.h"
#include "tests/run_cli.h"

#include <sqlite3.h>

#define GPT "zoo:gpt,layers=1,hidden=32,heads=2,vocab=64,seq=16"

static int64_t ask(const char *sql)
{
    char path[600];
    sqlite3 *db;
    sqlite3_stmt *row;
    int64_t n = -1;
    snprintf(path, sizeof path, "%s/test.db", cli_scratch);
    if (sqlite3_open(path, &db) == SQLITE_OK &&
        sqlite3_prepare_v2(db, sql, -1, &row, NULL) == SQLITE_OK) {
        if (sqlite3_step(row) == SQLITE_ROW)
            n = sqlite3_column_int64(row, 0);
        sqlite3_finalize(row);
    }
    sqlite3_close(db);
    return n;
}

static double number(const cli_answer *a, const char *key, const char *inner)
{
    json_t *value = json_object_get(a->json, key);
    if (inner)
        value = json_object_get(value, inner);
    return json_is_number(value) ? json_number_value(value) : -1;
}

static void test_resumed(void)
{
    const cli_answer *a = cli("calibrate --passes 2 --json");
    tap_equal_int(a->status, 0, "two passes");
    tap_ok(number(a, "points", NULL) > 300, "measure hundreds of forms");
    tap_ok(strlen(json_string_value(json_object_get(a->json, "machine"))) == 16,
           "of a machine with a fingerprint");
    const int64_t all = ask("SELECT count(*) FROM samples");
    tap_equal_int(ask("SELECT count(DISTINCT pass) FROM samples"), 2,
                  "each pass is kept");
    tap_equal_int(ask("SELECT count(*) FROM points WHERE count < 2 OR"
                      " mean_s <= 0 OR deviation_s IS NULL"),
                  0, "points have mean, deviation and count");
    cli("calibrate --passes 2 --json");
    tap_equal_int(ask("SELECT count(*) FROM samples"), all,
                  "asked again, nothing is measured twice");
    /* as if it had been broken off in the second pass */
    ask("DELETE FROM samples WHERE pass = 1 AND what > 'm'");
    tap_ok(ask("SELECT count(*) FROM samples") < all, "broken off");
    a = cli("calibrate --passes 2 --json");
    tap_ok(a->status == 0 && ask("SELECT count(*) FROM samples") == all,
           "it goes on where it was");
    a = cli("calibrate --passes 1 --anew --json");
    tap_ok(a->status == 0 && ask("SELECT max(pass) FROM samples") == 0,
           "--anew forgets what was measured before");
    tap_ok(json_is_null(json_object_get(a->json, "spread")),
           "one pass tells no deviation");
    tap_ok(json_is_array(json_object_get(a->json, "doubtful")),
           "points in doubt are listed");
}

static void test_model(void)
{
    const cli_answer *a =
        cli("calibrate " GPT " --batch 4 --ranks 2 --passes 2 --json");
    tap_equal_int(a->status, 0, "steps of a network's usual plans");
    if (a->status)
        cli_show(a);
    tap_ok(ask("SELECT count(*) FROM samples WHERE place = 'step'") > 50,
           "are samples too");
    tap_ok(ask("SELECT count(*) FROM samples WHERE what LIKE 'process/2'") > 0,
           "so is what a process has beside its arena");
    cli("plan " GPT
        " --cluster local --ranks 2 --batch 4 --dp 2 -o \"$D/p.json\"");
    a = cli("sim \"$D/p.json\" --json");
    tap_ok(number(a, "evidence", "measured") > 0.5,
           "a plan stands on what was measured in its shapes: %.3f",
           number(a, "evidence", "measured"));
    a = cli("plan " GPT
            " --cluster 1x2:a100-sxm4-80g --batch 4 --dp 2 -o \"$D/a.json\"");
    a = cli("sim \"$D/a.json\" --json");
    tap_ok(number(a, "evidence", "formula") == 1, "one on a GPU on rates");
}

static void test_runs(void)
{
    const cli_answer *a = cli("validate \"$D/none.db\"");
    tap_equal_int(a->status, 2, "a database that is not there");
    a = cli("validate \"$D/test.db\"");
    tap_equal_int(a->status, 1, "one without runs");
    for (int k = 0; k < 2; k++)
        a = cli("run \"$D/p.json\" --data synthetic --steps 6 --json");
    tap_equal_int(a->status, 0, "a run");
    tap_ok(json_array_size(json_object_get(a->json, "residuals")) > 5 &&
               number(a, "replayed_step_s", NULL) > 0 &&
               number(a, "predicted_process_bytes", NULL) > 1e6,
           "tells where it was off, what the simulator says of what was "
           "measured, and the process's bytes");
    tap_ok(ask("SELECT count(*) FROM residuals") > 10, "they are kept");
    a = cli("validate \"$D/test.db\" --json");
    tap_equal_int(a->status, 0, "validate of one's own runs");
    tap_equal_int((int64_t)number(a, "rows", NULL), 1,
                  "two runs of a plan are one row");
    a = cli("validate \"$D/test.db\" -o \"$D/runs.svg\"");
    char picture[700];
    snprintf(picture, sizeof picture, "%s/runs.svg", cli_scratch);
    tap_ok(a->status == 0 && access(picture, R_OK) == 0,
           "a picture of them is drawn");
    a = cli("validate \"$D/test.db\" -o \"$D/test.db\"");
    tap_equal_int(a->status, 2, "not over the database, whatever its name");
    a = cli("validate \"$D/test.db\" --max-error 1e-12");
    tap_equal_int(a->status, 1, "beyond its bound the answer is no");
}

/* A PLAN is known by what is in it, not by its name. */
static void test_plan(void)
{
    char from[700], to[700];
    snprintf(from, sizeof from, "%s/p.json", cli_scratch);
    snprintf(to, sizeof to, "%s/p.plan", cli_scratch);
    tap_ok(rename(from, to) == 0, "a plan of another name");
    const cli_answer *a = cli("calibrate \"$D/p.plan\" --passes 1");
    tap_ok(a->status == 0, "is calibrated for: %s", a->err);
    tap_ok(rename(to, from) == 0, "and has its own name again");
    a = cli("calibrate \"$D/runs.svg\" --passes 1");
    tap_equal_int(a->status, 2, "a picture is refused");
}

/* Runs of the one plan as those of three, at times made up: 1.0 and 1.2 s, 2.0
 * and 2.2 s, 2.1 and 2.3 s, predicted 3, 1 and 4 s. The last two overlap; of
 * the two pairs that do not the first is predicted the wrong way round. */
static void test_sure_order(void)
{
    static const double times[3][2] = {{1.0, 1.2}, {2.0, 2.2}, {2.1, 2.3}};
    static const double predicted[3] = {3, 1, 4};
    for (int k = 0; k < 6; k++) {
        char sql[800];
        snprintf(
            sql, sizeof sql,
            "INSERT INTO runs (started, command_line, command, status, model, "
            "plan_digest, json) SELECT started, command_line, command, status, "
            "'sure', 'digest %d', json_set(json, '$.step_s.median', %g, "
            "'$.predicted_step_s', %g) FROM runs WHERE command = 'run' "
            "AND status = 0 LIMIT 1",
            k / 2, times[k / 2][k % 2], predicted[k / 2]);
        ask(sql);
    }
    const cli_answer *a = cli("validate \"$D/test.db\" --json");
    const json_t *sure =
        json_object_get(json_object_get(a->json, "per_source"), "sure");
    tap_equal_int(json_integer_value(json_object_get(sure, "rows")), 3,
                  "three plans of a network");
    tap_equal_int(json_integer_value(json_object_get(sure, "sure_pairs")), 2,
                  "two pairs whose runs do not overlap");
    tap_ok(json_number_value(json_object_get(sure, "sure_tau")) == 0,
           "one of them in the predicted order, one not");
}

/* The plan as it would be had another processor been measured. */
static void test_other_machine(void)
{
    char command[2048];
    snprintf(command, sizeof command,
             "sed 's/\"machine\": *\"[0-9a-f]*\"/"
             "\"machine\": \"0123456789abcdef\"/' '%s/p.json' > '%s/q.json'",
             cli_scratch, cli_scratch);
    tap_ok(system(command) == 0, "a plan of another machine");
    const cli_answer *a =
        cli("run \"$D/q.json\" --data synthetic --steps 2 --dry-run");
    tap_ok(a->status == 0 && strstr(a->err, "another machine"),
           "runs, with a word about its predictions");
    if (!strstr(a->err, "another machine"))
        cli_show(a);
}

static void test_refused(void)
{
    static const struct {
        const char *words, *says;
    } cases[] = {
        {"calibrate 1x8:a100-sxm4-80g", "this machine"},
        {"calibrate " GPT, "--batch"},
        {"calibrate nosuch.onnx --batch 2", "nosuch.onnx: No such file"},
        {"calibrate " GPT " " GPT " --batch 4", "one MODEL at a time"},
        {"calibrate \"$D/p.json\" --db none", "database"},
        {"calibrate \"$D/a.json\"", "described"},
        {"calibrate \"$D/missing.json\"", "missing.json"},
        {"calibrate --passes 0", "--passes"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const cli_answer *a = cli("%s", cases[i].words);
        const bool good = a->status == 2 && strstr(a->err, cases[i].says);
        tap_ok(good, "%s is refused", cases[i].words);
        if (!good)
            cli_show(a);
    }
}

/* Four passes that took the same to the last digit, the mean of which is a bit
 * away from it: that is no deviation, and clusters that say so are read again.
 */
static void test_alike(void)
{
    ask("INSERT OR REPLACE INTO samples SELECT s.fingerprint, s.what, s.form,"
        " s.place, p.value, s.work, s.seconds, s.count, s.measured"
        " FROM samples s, json_each('[1, 2, 3]') p"
        " WHERE s.pass = 0 AND s.place = 'alone'");
    ask("UPDATE samples SET seconds = 1.87e-6 WHERE place = 'alone'");
    cli("calibrate --passes 4 -o \"$D/alike.json\"");
    const cli_answer *a = cli("cluster \"$D/alike.json\"");
    tap_ok(a->status == 0, "passes that took the same are no bad figures: %s",
           a->err);
}

int main(void)
{
    cli_begin_scratch("cli_calibrate_test");
    test_resumed();
    test_model();
    test_runs();
    test_plan();
    test_sure_order();
    test_other_machine();
    test_refused();
    test_alike();
    cli_end_scratch();
    return tap_done();
}
