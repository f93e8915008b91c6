/* A database that is not whole is refused before anything is done; one that
 * fails when the answer is there takes no answer away. */
#include "config.h"
#include "tests/run_cli.h"

#include <sqlite3.h>
#include <sys/stat.h>

#define MLP "zoo:mlp,in=16,hidden=32,layers=2,classes=4"
#define PLAN                                                                   \
    "plan " MLP " --cluster 1x2:cpu --batch 4 --dp 2 -o \"$D/new.json\" "

static char path[600], new_plan[600];

static void remove_all(void)
{
    static const char *const ends[] = {"", "-wal", "-shm"};
    char name[620];
    for (size_t i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "%s%s", path, ends[i]);
        unlink(name);
    }
    unlink(new_plan);
}

static int change(const char *sql)
{
    sqlite3 *handle;
    int code = sqlite3_open(path, &handle);
    if (code == SQLITE_OK)
        code = sqlite3_exec(handle, sql, NULL, NULL, NULL);
    sqlite3_close(handle);
    return code == SQLITE_OK;
}

/* A new database $D/db.db, changed. */
static int make(const char *sql)
{
    remove_all();
    return cli("model " MLP " --db \"$D/db.db\"")->status == 0 && change(sql);
}

static int lines(const char *text)
{
    int n = 0;
    for (; *text; text++)
        n += *text == '\n';
    return n;
}

static void refused(const char *sql, const char *word)
{
    tap_ok(make(sql), "a database after %s", sql);
    const cli_answer *a = cli(PLAN "--db \"$D/db.db\"");
    int good = a->status == 2 && lines(a->err) == 1 && strstr(a->err, word) &&
               strstr(a->err, "db.db") && access(new_plan, F_OK) != 0;
    tap_ok(good, "is refused with status 2, one line and no plan");
    if (!good)
        cli_show(a);
}

static void test_schema(void)
{
    static const char *const tables[] = {"runs",   "figures", "steps", "plans",
                                         "events", "timings", "cache"};
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        char sql[64], word[64];
        snprintf(sql, sizeof sql, "DROP TABLE %s", tables[i]);
        snprintf(word, sizeof word, "table %s is missing", tables[i]);
        refused(sql, word);
    }
    refused("ALTER TABLE cache RENAME COLUMN json TO text",
            "table cache has other columns");
    refused("ALTER TABLE figures ADD COLUMN why TEXT",
            "table figures has other columns");
    refused("PRAGMA user_version=0", "version 0");
    refused("PRAGMA user_version=-1", "version -1");
    tap_ok(make("CREATE TABLE notes(text); CREATE VIEW mine AS SELECT id FROM "
                "runs; CREATE INDEX by_host ON runs(host)") &&
               cli(PLAN "--db \"$D/db.db\"")->status == 0,
           "tables, views and indices of the user's own do no harm");
}

static void fails_late(const char *words, const char *table)
{
    char sql[160];
    snprintf(sql, sizeof sql,
             "CREATE TRIGGER t BEFORE %s BEGIN SELECT RAISE(ABORT, 'boo'); END",
             table);
    tap_ok(make(sql), "a database that fails %s", table);
    const cli_answer *a = cli("%s --json --db \"$D/db.db\"", words);
    const char *fault =
        json_string_value(json_object_get(a->json, "fault_text"));
    int good = a->status == 3 && lines(a->err) == 1 && strstr(a->err, "boo") &&
               strstr(a->err, "db.db") && fault && strstr(fault, "boo");
    tap_ok(good, "is a fault, told in one line and in the object");
    if (!good)
        cli_show(a);
}

static void test_late(void)
{
    static const char *const of_run[] = {
        "INSERT ON steps", "INSERT ON events", "INSERT ON timings",
        "INSERT ON figures", "UPDATE OF ended ON runs"};
    static const char *const of_plan[] = {
        "INSERT ON plans", "INSERT ON figures", "UPDATE OF ended ON runs"};
    for (size_t i = 0; i < sizeof of_run / sizeof of_run[0]; i++) {
        fails_late("run \"$D/p.json\" --data synthetic --steps 2 "
                   "--trace \"$D/t.json\"",
                   of_run[i]);
        char losses[1 << 10];
        cli_slurp("out", losses, sizeof losses);
        tap_ok(strstr(losses, "\"losses\": [\n  "), "the losses are told");
        tap_ok(system("rm \"$D/t.json\"") == 0, "the trace is there");
    }
    for (size_t i = 0; i < sizeof of_plan / sizeof of_plan[0]; i++) {
        fails_late(PLAN, of_plan[i]);
        tap_ok(cli("check \"$D/new.json\"")->status == 0,
               "the plan is there, and sound");
    }
}

/* A page that is broken: its table opens, but takes no row. */
static void test_broken_page(void)
{
    sqlite3 *handle;
    sqlite3_stmt *row;
    tap_ok(make("PRAGMA journal_mode=DELETE"), "a database in one file");
    sqlite3_open(path, &handle);
    sqlite3_prepare_v2(handle,
                       "SELECT rootpage, (SELECT page_size FROM "
                       "pragma_page_size) FROM sqlite_master WHERE name = "
                       "'plans'",
                       -1, &row, NULL);
    sqlite3_step(row);
    long at =
        (sqlite3_column_int(row, 0) - 1) * (long)sqlite3_column_int(row, 1);
    sqlite3_finalize(row);
    sqlite3_close(handle);
    FILE *file = fopen(path, "r+b");
    fseek(file, at, SEEK_SET);
    for (int i = 0; i < 64; i++)
        fputc(0x55, file);
    fclose(file);
    const cli_answer *a = cli(PLAN "--json --db \"$D/db.db\"");
    tap_ok(a->status == 3 && lines(a->err) == 1 && strstr(a->err, "malformed"),
           "a broken page met at the end is a fault");
    tap_ok(json_object_get(a->json, "plan_digest") &&
               cli("check \"$D/new.json\"")->status == 0,
           "the plan is told and written");
}

static long long one_number(const char *sql)
{
    const cli_answer *a =
        cli("runs --sql \"%s\" --db \"$D/db.db\" --json", sql);
    const json_t *row = json_array_get(json_object_get(a->json, "runs"), 0);
    return (long long)json_number_value(json_object_get(row, "n"));
}

/* Rows of a run do not grow with its micro-batches. */
static void test_many(void)
{
    remove_all();
    const cli_answer *a =
        cli("plan " MLP " --cluster local --ranks 1 --batch 8192 "
            "--micro-batches 8192 --db \"$D/db.db\" -o \"$D/many.json\"");
    tap_ok(a->status == 0, "a plan of 8,192 micro-batches");
    a = cli("run \"$D/many.json\" --data synthetic --steps 1 "
            "--db \"$D/db.db\"");
    tap_ok(a->status == 0, "it runs");
    const long long rows = one_number("SELECT count(*) AS n FROM events");
    tap_ok(rows > 50000 && rows < 66000,
           "of its firings %lld are kept, 65,536 at most", rows);
    tap_equal_int(one_number("SELECT max(micro_batch) AS n FROM events"), 8191,
                  "to the end of the step");
    a = cli("run \"$D/many.json\" --data synthetic --steps 1 --db none "
            "--trace \"$D/many.trace\"");
    struct stat trace;
    char file[620];
    snprintf(file, sizeof file, "%s/many.trace", cli_scratch);
    tap_ok(a->status == 0 && stat(file, &trace) == 0 &&
               trace.st_size > 20 * 65536,
           "a trace that was asked for has all");
}

int main(void)
{
    cli_begin_scratch("cli_database");
    snprintf(path, sizeof path, "%s/db.db", cli_scratch);
    snprintf(new_plan, sizeof new_plan, "%s/new.json", cli_scratch);
    const cli_answer *a = cli("plan " MLP " --cluster local --ranks 2 --dp 2 "
                              "--batch 8 -o \"$D/p.json\"");
    tap_ok(a->status == 0, "a plan for two ranks");
    test_schema();
    test_late();
    test_broken_page();
    test_many();
    cli_end_scratch();
    return tap_done();
}
