/* `calibrate`: what is measured stands in the database sample by sample, is not
 * measured twice, and is what plans then stand on; runs beside what was
 * predicted of them. No time is asserted: the machine may be busy. */
#include "config.h"
#include "tests/run_cli.h"

#include <sqlite3.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

#define OTHER "0123456789abcdef" /* a machine */
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
               number(a, "comm_s", NULL) > 0 &&
               number(a, "exposed_comm_s", NULL) > 0 &&
               number(a, "exposed_comm_s", NULL) <= number(a, "comm_s", NULL) &&
               number(a, "predicted_process_bytes", NULL) > 1e6,
           "tells where it was off, what the simulator says of what was "
           "measured, what communication is not hidden, the process's bytes");
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

/* FILE as it would be had another processor been measured. */
static void of_another(const char *from, const char *to)
{
    char command[2048];
    snprintf(command, sizeof command,
             "sed 's/\"machine\": *\"[0-9a-f]*\"/\"machine\": \"" OTHER "\"/; "
             "s/\\(\"facts\": *\".*\\), \\([0-9]*\\) cores/\\1, 9\\2 cores/' "
             "'%s/%s' > '%s/%s'",
             cli_scratch, from, cli_scratch, to);
    tap_ok(system(command) == 0, "%s of another machine", from);
}

static int count_of(const char *text, const char *part)
{
    int n = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at++)
        n++;
    return n;
}

/* Every command that predicts by such figures says so, once, and what differs;
 * none calls them this host's. */
static void test_other_machine(void)
{
    static const char *const commands[] = {
        "sim \"$D/q.json\"",
        "check \"$D/q.json\"",
        "explain \"$D/q.json\"",
        "compare \"$D/q.json\" \"$D/q.json\"",
        "show \"$D/q.json\" -o \"$D/q.dot\"",
        "show \"$D/q.json\" --timeline -o \"$D/q.svg\"",
        "show \"$D/there.json\" -o \"$D/c.dot\"",
        "run \"$D/q.json\" --data synthetic --steps 2 --dry-run",
        "cluster \"$D/there.json\"",
        "plan " GPT " --cluster \"$D/there.json\" --batch 4 --dp 2 "
        "-o \"$D/t.json\"",
        "search " GPT " --cluster \"$D/there.json\" --batch 4 --time-limit 2 "
        "-o \"$D/t.json\"",
        "sweep zoo:gpt,layers=4,hidden=32,heads=2,vocab=64,seq=16 --cluster "
        "\"$D/there.json\" --batch 4",
        "sim \"$D/t.json\""};
    cli("calibrate --passes 1 --ranks 2 -o \"$D/here.json\"");
    of_another("p.json", "q.json");
    of_another("here.json", "there.json");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        const cli_answer *a = cli("%s", commands[i]);
        const bool good = a->status == 0 &&
                          count_of(a->err, "on another machine, " OTHER) == 1 &&
                          strstr(a->err, " cores (here ") &&
                          !strstr(a->err, "Linux") &&
                          !strstr(a->out, "on this host") &&
                          !strstr(a->out, "on this machine");
        tap_ok(good, "%s: says whose figures these are", commands[i]);
        if (!good)
            cli_show(a);
    }
    const cli_answer *a = cli("sim \"$D/q.json\" --json");
    const json_t *other = json_object_get(a->json, "other_machine");
    const char *differs = json_string_value(json_object_get(other, "differs"));
    tap_ok(strcmp(json_string_value(json_object_get(a->json, "figures_of")),
                  OTHER) == 0 &&
               differs && strstr(differs, "cores (here"),
           "so does the object: %s", differs ? differs : "?");
    tap_ok(system("sed 's/\"host\": *\"[^\"]*\"/\"host\": \"renamed\"/' "
                  "\"$D/p.json\" >\"$D/n.json\"; "
                  "sed 's/\"host\": *\"[^\"]*\"/\"host\": \"renamed\"/' "
                  "\"$D/q.json\" >\"$D/m.json\"") == 0,
           "another name of the host");
    a = cli("run \"$D/n.json\" --data synthetic --steps 2 --dry-run");
    tap_equal_int(a->status, 0, "a plan of this machine runs: %s", a->err);
    a = cli("run \"$D/m.json\" --data synthetic --steps 2 --dry-run");
    tap_ok(a->status == 2 && strstr(a->err, "made for host renamed"),
           "one of another machine does not: %s", a->err);
    a = cli("sim \"$D/p.json\" --json");
    tap_ok(json_object_get(a->json, "figures_of") &&
               !json_object_get(a->json, "other_machine") && !a->err[0],
           "of this machine there is nothing to say");
    a = cli("cluster \"$D/here.json\"");
    tap_ok(strstr(a->out, "measured on this machine") && !a->err[0],
           "but that it is");
}

/* Runs predicted by another machine's figures, runs there, and runs of before
 * machines were told are no repetitions of those here. */
static void test_machines_of_runs(void)
{
    cli("run \"$D/q.json\" --data synthetic --steps 3");
    ask("INSERT INTO runs (started, command_line, command, status, model,"
        " plan_digest, host, json) SELECT started, command_line, command,"
        " status, model, plan_digest, 'there', json_set(json, '$.machine', "
        "'" OTHER "') FROM runs WHERE command = 'run' AND status = 0"
        " AND json_extract(json, '$.figures_of') = '" OTHER "' LIMIT 1");
    ask("INSERT INTO runs (started, command_line, command, status, model,"
        " plan_digest, host, json) SELECT started, command_line, command,"
        " status, model, plan_digest, host, json_remove(json, '$.machine',"
        " '$.figures_of') FROM runs WHERE command = 'run' AND status = 0 LIMIT "
        "1");
    const cli_answer *a = cli("validate \"$D/test.db\" --json");
    const json_t *list = json_object_get(a->json, "machines");
    int here = 0, there = 0, mixed = 0, silent = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *at = json_array_get(list, i);
        const bool in = json_is_true(json_object_get(at, "in_intervals"));
        const bool own = json_is_true(json_object_get(at, "here"));
        const char *why = json_string_value(json_object_get(at, "left_out"));
        here += own && in;
        there += !own && in;
        mixed += own && !in && why && strstr(why, "another machine");
        silent += !own && !in && why && strstr(why, "do not say");
    }
    tap_ok(here == 1 && there == 1 && mixed == 1 && silent == 1 &&
               json_array_size(list) == 4,
           "runs by machine and figures: %d here, %d there, %d mixed, %d that "
           "do not say",
           here, there, mixed, silent);
    tap_equal_int((int64_t)number(a, "rows", NULL), 4, "each group on its own");
    tap_equal_int((int64_t)number(a, "predicted", NULL), 3,
                  "the mixed one counts in no mean");
    tap_equal_int((int64_t)json_array_size(json_object_get(a->json, "skipped")),
                  1, "and is skipped, with its reason");
    tap_equal_int(
        (int64_t)json_object_size(json_object_get(a->json, "per_source")), 4,
        "networks are marked by where they ran");
    a = cli("validate \"$D/test.db\"");
    tap_ok(strstr(a->out, "left out: ") && strstr(a->out, OTHER) &&
               strstr(a->out, "counted in neither"),
           "people are told");
    a = cli("sim \"$D/p.json\"");
    tap_ok(strstr(a->out, "1 plan of the 8") && strstr(a->out, "on this host"),
           "an interval takes those here");
    a = cli("sim \"$D/q.json\"");
    tap_ok(strstr(a->out, " of the 8 that it takes ha") &&
               !strstr(a->out, "on this host"),
           "one of the other machine's figures those there: %s",
           strstr(a->out, "uncertain"));
    ask("DELETE FROM runs WHERE command = 'run' AND (host = 'there' OR"
        " json_extract(json, '$.machine') IS NULL OR"
        " json_extract(json, '$.figures_of') = '" OTHER "')");
}

/* A database that was filled elsewhere. */
static void test_local(void)
{
    ask("PRAGMA foreign_keys = OFF");
    ask("INSERT INTO machines SELECT '" OTHER "', 'there', replace(facts,"
        " ' cores', '7 cores') FROM machines WHERE fingerprint != '" OTHER "'"
        " LIMIT 1 ON CONFLICT DO UPDATE SET facts = excluded.facts");
    ask("UPDATE samples SET fingerprint = '" OTHER "'");
    ask("DELETE FROM cache");
    const cli_answer *a = cli("cluster local --json");
    const json_t *list = json_object_get(a->json, "machines_not_used");
    tap_ok(a->status == 0 && json_array_size(list) == 1 &&
               strstr(a->err, OTHER) && strstr(a->err, "is not used") &&
               strstr(a->err, "7 cores (here "),
           "local takes no other machine's figures, and says why: %s", a->err);
    const char *now = strstr(a->err, "this machine is measured now");
    tap_ok(now && strstr(now, "2 passes, about half a minute each, kept in ") &&
               !strstr(now + 1, "this machine is"),
           "and that it measures, and how long");
    tap_ok(ask("SELECT count(*) FROM samples WHERE fingerprint != '" OTHER
               "'") > 300,
           "but measures this one");
    a = cli("cluster local --json");
    tap_ok(!a->err[0] && !json_object_get(a->json, "machines_not_used"),
           "once");
    ask("UPDATE cache SET json = json_set(json, '$.machine', '" OTHER "')");
    a = cli("cluster local --json");
    const char *of = json_string_value(json_object_get(a->json, "figures_of"));
    tap_ok(a->status == 0 && of && strcmp(of, OTHER) != 0,
           "nor figures that lie under this one's name");
    ask("UPDATE cache SET json = json_set(json, '$.host', 'twin')");
    cli("plan " GPT " --cluster local --ranks 2 --batch 4 --dp 2 "
        "-o \"$D/twin.json\"");
    a = cli("run \"$D/twin.json\" --data synthetic --dry-run");
    tap_ok(a->status == 0, "a host like the one measured is this one: %s",
           a->err);
    ask("DELETE FROM samples WHERE fingerprint = '" OTHER "'");
}

/* What a meeting takes of ranks that outnumber the cores is measured pass by
 * pass, as all else; figures of links that deviate are told, whatever else
 * deviates more. */
static void test_links(void)
{
    static const char turns[] =
        "SELECT count(*) FROM samples WHERE what LIKE 'turn/%'";
    const cli_answer *a = cli("calibrate --passes 3 --json");
    tap_equal_int(ask(turns), 3, "a meeting is measured in each pass");
    const int64_t at = ask("SELECT CAST(sum(seconds) * 1e12 AS INTEGER) FROM "
                           "samples WHERE what LIKE 'turn/%'");
    tap_ok(number(a, "turn_spread", NULL) >= 0, "with its deviation");
    a = cli("calibrate --passes 3 --json");
    tap_ok(ask(turns) == 3 &&
               ask("SELECT CAST(sum(seconds) * 1e12 AS INTEGER) FROM samples "
                   "WHERE what LIKE 'turn/%'") == at,
           "once");
    ask("UPDATE samples SET seconds = seconds * (1 + 9 * (pass % 2)) WHERE"
        " what LIKE 'turn/%' OR what LIKE 'ping/%' OR place = 'alone'"
        " AND what LIKE 'm%'");
    ask("UPDATE samples SET seconds = seconds * 10 WHERE pass = 2 AND"
        " (what LIKE 'turn/%' OR what LIKE 'ping/%' OR place = 'alone'"
        " AND what LIKE 'm%')");
    a = cli("calibrate --passes 3 --json");
    int links = 0;
    const json_t *list = json_object_get(a->json, "doubtful");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *what =
            json_string_value(json_object_get(json_array_get(list, i), "what"));
        links += strcmp(what, "ping") == 0 || strcmp(what, "turn") == 0;
    }
    tap_ok(links >= 2 && json_array_size(list) > 20,
           "links are among the points in doubt: %d of %zu", links,
           json_array_size(list));
    a = cli("calibrate --passes 3");
    tap_ok(count_of(a->out, "\nping ") + count_of(a->out, "\nturn ") == links,
           "and people see them");
    cli("calibrate --passes 2 --anew --json");
}

/* A second one of the database is refused; the name is that of calibrate.c. */
static void test_two_at_once(void)
{
    char path[600];
    struct stat file;
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    snprintf(path, sizeof path, "%s/test.db", cli_scratch);
    stat(path, &file);
    const int n = snprintf(name.sun_path + 1, sizeof name.sun_path - 1,
                           "flowsearch-calibrate-%llx-%llx",
                           (unsigned long long)file.st_dev,
                           (unsigned long long)file.st_ino);
    const int held = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    tap_ok(bind(held, (struct sockaddr *)&name,
                (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
                            (size_t)n)) == 0,
           "nobody measures");
    const cli_answer *a = cli("calibrate --passes 1");
    tap_ok(a->status == 2 && strstr(a->err, "another calibrate"),
           "two at once are refused: %s", a->err);
    close(held);
    a = cli("calibrate --passes 1");
    tap_equal_int(a->status, 0, "one behind the other is not");
}

/* Names that there are not, in a file of figures. */
static void test_names(void)
{
    static const struct {
        const char *edit, *says;
    } cases[] = {
        {"0,/\"what\": \"accumulate\"/s//\"what\": \"fooop\"/", "\"fooop\""},
        {"0,/\"what\": \"all-gather\"/s//\"what\": \"foo\"/", "\"foo\""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char command[2048];
        snprintf(command, sizeof command,
                 "sed '%s' '%s/here.json' > '%s/wrong.json'", cases[i].edit,
                 cli_scratch, cli_scratch);
        tap_ok(system(command) == 0, "a file with %s", cases[i].says);
        const cli_answer *a = cli("plan " GPT " --cluster \"$D/wrong.json\" "
                                  "--batch 4 --dp 2 -o \"$D/t.json\"");
        tap_ok(a->status == 2 && strstr(a->err, "wrong.json: groups[0]") &&
                   strstr(a->err, cases[i].says),
               "is refused: %s", a->err);
    }
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
        {"calibrate --batch 4", "--batch has no effect"},
        {"calibrate \"$D/p.json\" --loss mse", "--loss has no effect"},
        {"calibrate --db none", "kept nowhere"},
        {"calibrate --db none --anew -o \"$D/x.json\"", "--anew has no effect"},
        {"calibrate --ranks 2", "--ranks has no effect"},
        {"calibrate --ranks 0", "--ranks must be"},
        {"calibrate " GPT " --batch 4 --ranks 5000", "--ranks must be"},
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
        " s.variant, s.place, p.value, s.work, s.seconds, s.count, s.measured"
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
    test_other_machine();
    test_machines_of_runs();
    test_sure_order();
    test_refused();
    test_names();
    test_two_at_once();
    test_links();
    test_alike();
    test_local();
    cli_end_scratch();
    return tap_done();
}
