/* `sim --timing RUN`: what a table of measured durations lacks, or holds that
 * is no duration, is told by its place there. */
#include "config.h"
#include "tests/run_cli.h"

#include <sqlite3.h>
#include <string.h>

static sqlite3 *table;
static int n_rows;

static void change(const char *format, ...)
    __attribute__((format(printf, 1, 2)));
static void change(const char *format, ...)
{
    char sql[512];
    va_list args;
    va_start(args, format);
    vsnprintf(sql, sizeof sql, format, args);
    va_end(args);
    char *why = NULL;
    if (sqlite3_exec(table, sql, NULL, NULL, &why) != SQLITE_OK)
        printf("# %s: %s\n", sql, why);
    sqlite3_free(why);
}

/* A number of the first row. */
static long long number(const char *sql)
{
    sqlite3_stmt *statement;
    long long out = -1;
    if (sqlite3_prepare_v2(table, sql, -1, &statement, NULL) == SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_ROW)
        out = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return out;
}

/* Between the savepoint and its end something is wrong with the table. */
static void refused(long long run, const char *first, const char *second,
                    const char *name)
{
    const cli_answer *a = cli("sim \"$D/plan.json\" --timing %lld", run);
    const bool good =
        a->status == 2 && strstr(a->err, first) && strstr(a->err, second);
    tap_ok(good, "%s: %s", name, a->err);
    change("DELETE FROM timings; INSERT INTO timings SELECT * FROM kept");
}

static void test_missing(long long run, unsigned long long seed)
{
    char lacks[80], first[80];
    int least = n_rows;
    const int n = 2 + (int)((seed >> 33) % 3);
    for (int i = 0; i < n; i++) {
        seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
        const int task = (int)((seed >> 33) % (unsigned)n_rows);
        least = task < least ? task : least;
        change("DELETE FROM timings WHERE role=0 AND task=%d", task);
    }
    const int left = (int)number("SELECT count(*) FROM timings");
    snprintf(lacks, sizeof lacks, "lacks %d of the %d tasks", n_rows - left,
             n_rows);
    snprintf(first, sizeof first, "(role 0, task %d)", least);
    refused(run, lacks, first, "tasks without a row");
    change("DELETE FROM timings");
    refused(run, "kept no measured timing", "", "no row at all");
    change("UPDATE timings SET task=%d WHERE task=0", n_rows);
    snprintf(first, sizeof first, "task %d, and this plan no such", n_rows);
    refused(run, first, "role 0", "a row of no task");
}

static void test_no_numbers(long long run, unsigned long long seed)
{
    static const char *const columns[] = {"compute_s", "memory_s", "network_s",
                                          "latency_s", "launch_s", "total_s",
                                          "on_core"};
    static const char *const values[][2] = {
        {"'foo'", "'foo'"}, {"''", "''"},    {"NULL", "nothing"},
        {"x'3132'", "12"},  {"-1e-6", "-1"}, {"'1s'", "'1s'"}};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
        const char *column = columns[(seed >> 40) % 7];
        const int task = (int)((seed >> 20) % (unsigned)n_rows);
        char place[80], is[80];
        change("UPDATE timings SET %s=%s WHERE task=%d", column, values[i][0],
               task);
        snprintf(place, sizeof place, "(role 0, task %d) is %s", task,
                 values[i][1]);
        snprintf(is, sizeof is, ": %s of ", column);
        refused(run, place, is, values[i][0]);
    }
    for (int i = 0; i < 2; i++) { /* 1e-15 s is less than a tick */
        change("UPDATE timings SET compute_s=0, memory_s=0, network_s=0, "
               "latency_s=0, launch_s=0, total_s=%s",
               i ? "1e-15" : "0");
        refused(run, "a step takes 0 s", "run ", "no seconds at all");
    }
    change("UPDATE timings SET total_s=9e999 WHERE task=0");
    refused(run, "inf", "", "endless");
}

int main(void)
{
    const unsigned long long seed = tap_seed(3);
    char path[600];
    cli_begin_scratch("cli_replay_test");
    cli("plan zoo:mlp --cluster local --ranks 1 --batch 4 -o \"$D/plan.json\"");
    const cli_answer *a =
        cli("run \"$D/plan.json\" --data synthetic --steps 3");
    tap_equal_int(a->status, 0, "a run of one rank");
    snprintf(path, sizeof path, "%s/test.db", cli_scratch);
    if (sqlite3_open(path, &table) != SQLITE_OK)
        return 1;
    const long long run =
        number("SELECT max(id) FROM runs WHERE command='run'");
    n_rows = (int)number("SELECT count(*) FROM timings");
    change("CREATE TABLE kept AS SELECT * FROM timings");
    tap_ok(n_rows > 4, "%d tasks were measured", n_rows);
    test_missing(run, seed);
    test_no_numbers(run, seed);
    a = cli("sim \"$D/plan.json\" --timing %lld --json", run);
    tap_ok(a->status == 0 && cli_number(a, "iteration_s") > 0,
           "as it was it is taken: %s", a->err);
    sqlite3_close(table);
    cli_end_scratch();
    return tap_done();
}
