/* The database: what is written comes back; foreign, newer, locked and corrupt
 * files are refused and left alone. */
#include "config.h"
#include "store/store.h"
#include "tests/tap.h"

#include <sqlite3.h>
#include <unistd.h>

static char path[256];

static void count_row(void *ctx, int n, const char *const *columns,
                      const char *const *values)
{
    (void)columns;
    snprintf(ctx, 64, "%s", n > 0 && values[0] ? values[0] : "NULL");
}

static const char *ask(store_db *db, const char *sql)
{
    static char answer[64];
    fs_err err = {0};
    answer[0] = '\0';
    if (store_query(db, sql, count_row, answer, &err) != FS_OK)
        snprintf(answer, sizeof answer, "%.60s", err.text);
    return answer;
}

static void raw(const char *sql)
{
    sqlite3 *handle;
    sqlite3_open(path, &handle);
    sqlite3_exec(handle, sql, NULL, NULL, NULL);
    sqlite3_close(handle);
}

static void test_round_trip(void)
{
    fs_err err = {0};
    store_db *db = NULL;
    tap_equal_int(store_open(path, &err, &db), FS_OK, "a new file is made");
    store_run run = {.command = "search",
                     .command_line = "search x",
                     .plan_digest = 0xabc,
                     .seed = 7};
    int64_t id = 0;
    tap_equal_int(store_run_begin(db, &run, &err, &id), FS_OK, "a run begins");
    double losses[3] = {3, 2, 1}, seconds[3] = {.1, .1, .1};
    store_losses(db, id, losses, seconds, 3, &err);
    store_figure(db, id, "step_median_s", 0.1, "s", &err);
    store_figure(db, id, "predicted_step_s", 0.08, "s", &err);
    store_run_end(db, id, 0, "{}", NULL, &err);
    tap_equal_int(err.status, FS_OK, "writing gave no error");
    tap_equal_text(ask(db, "SELECT count(*) FROM steps"), "3",
                   "three steps come back");
    tap_equal_text(ask(db, "SELECT plan_digest FROM runs"), "0000000000000abc",
                   "digests are hex text");
    tap_equal_text(ask(db, "SELECT round(error, 2) FROM "
                           "predicted_and_measured"),
                   "0.25", "the view joins prediction and measurement");
    tap_ok(strstr(ask(db, "DELETE FROM runs"), "only queries"),
           "a query that writes is refused");
    store_close(db);
}

static void expect_refusal(const char *fact, const char *word)
{
    fs_err err = {0};
    store_db *db = NULL;
    fs_status status = store_open(path, &err, &db);
    tap_ok(status == FS_INVALID && strstr(err.text, word) && !db, "%s", fact);
    if (status == FS_OK)
        store_close(db);
    else
        printf("# %s\n", err.text);
}

int main(void)
{
    snprintf(path, sizeof path, "store_test.%d.db", (int)getpid());
    test_round_trip();
    raw("PRAGMA user_version=99");
    expect_refusal("a newer schema is refused", "newer");
    unlink(path);
    raw("CREATE TABLE theirs(x)");
    expect_refusal("another program's file is refused", "not one of");
    unlink(path);
    FILE *file = fopen(path, "wb");
    for (int i = 0; i < 4096; i++)
        fputc(i * 7 % 251, file);
    fclose(file);
    expect_refusal("a file that is no database is refused", "not a database");
    unlink(path);
    char side[300];
    snprintf(side, sizeof side, "%s-wal", path);
    unlink(side);
    snprintf(side, sizeof side, "%s-shm", path);
    unlink(side);
    return tap_done();
}
