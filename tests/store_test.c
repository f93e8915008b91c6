/* The database: what is written comes back; foreign, newer, locked and corrupt
 * files are refused and left alone. */
#include "config.h"
#include "store/store.h"
#include "tests/tap.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
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

static void test_blob(store_db *db)
{
    tap_equal_text(ask(db, "SELECT x'00ff10'"), "x'00ff10'",
                   "a blob is shown in hex");
    tap_equal_text(ask(db, "SELECT x''"), "x''", "an empty one too");
    const char *text = ask(db, "SELECT substr(zeroblob(100), 1, 33)");
    tap_ok(strncmp(text, "x'0000", 6) == 0 && strlen(text) >= 60,
           "a long one is begun: %s", text);
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
    store_losses(db, id, &(store_steps){3, 0, losses, seconds, NULL}, &err);
    store_figure(db, id, "step_median_s", 0.1, "s", &err);
    store_figure(db, id, "predicted_step_s", 0.08, "s", &err);
    store_run_end(db, id, 0, "{}", NULL, &err);
    tap_equal_int(err.status, FS_OK, "writing gave no error");
    tap_equal_text(ask(db, "SELECT group_concat(step) FROM steps"), "1,2,3",
                   "three steps come back");
    tap_equal_text(ask(db, "SELECT plan_digest FROM runs"), "0000000000000abc",
                   "digests are hex text");
    tap_equal_text(ask(db, "SELECT round(error, 2) FROM "
                           "predicted_and_measured"),
                   "0.25", "the view joins prediction and measurement");
    tap_ok(strstr(ask(db, "DELETE FROM runs"), "only queries"),
           "a query that writes is refused");
    tap_ok(strstr(ask(db, "ATTACH DATABASE 'store_test.att' AS y"),
                  "only queries") &&
               access("store_test.att", F_OK) != 0,
           "ATTACH is refused and makes no file");
    tap_ok(strstr(ask(db, "PRAGMA journal_mode"), "only queries"),
           "PRAGMA is refused");
    test_blob(db);
    tap_equal_text(ask(db, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT"
                           " i + 1 FROM n WHERE i < 5) SELECT sum(i) FROM n"),
                   "15", "a recursive query is allowed");
    store_close(db);
}

static int ask_unprivileged(const char *file)
{
    fs_err err = {0};
    store_db *db = NULL;
    bool read_only = false;
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0))
        return 77;
    /* SQLite opens by the whole path, which may lead through a closed home. */
    char *whole = realpath(file, NULL);
    if (!whole || access(whole, R_OK) != 0)
        return 77;
    free(whole);
    if (store_open_reading(file, &err, &db, &read_only) != FS_OK) {
        fprintf(stderr, "# %s\n", err.text);
        return 1;
    }
    int good = read_only && !strcmp(ask(db, "SELECT count(*) FROM runs"), "1");
    store_close(db);
    return good ? 0 : 2;
}

/* In a folder that this user may not write, under a name that a URI must
 * escape. */
static void test_read_only(void)
{
    char folder[300], file[400];
    int raw_status = 0;
    fs_err err = {0};
    store_db *db = NULL;
    int64_t id;
    snprintf(folder, sizeof folder, "%s.folder", path);
    snprintf(file, sizeof file, "%s/a?b#c%%20.db", folder);
    mkdir(folder, 0755);
    store_run run = {.command = "search", .command_line = "search x"};
    if (store_open(file, &err, &db) == FS_OK)
        store_run_begin(db, &run, &err, &id);
    store_close(db);
    chmod(file, 0444);
    chmod(folder, 0555);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0)
        _exit(ask_unprivileged(file));
    waitpid(child, &raw_status, 0);
    int got = WIFEXITED(raw_status) ? WEXITSTATUS(raw_status) : -1;
    if (got == 77)
        tap_skip("no user without rights reaches the folder",
                 "a file that cannot be written is read");
    else
        tap_equal_int(got, 0, "a file that cannot be written is read");
    chmod(folder, 0755);
    unlink(file);
    rmdir(folder);
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

static void remove_files(void)
{
    static const char *const ends[] = {"", "-wal", "-shm", "-journal"};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        char name[300];
        snprintf(name, sizeof name, "%s%s", path, ends[i]);
        unlink(name);
    }
}

/* One of several that start at once: opens, writes one run. */
static int open_and_write(int gate)
{
    fs_err err = {0};
    store_db *db = NULL;
    char byte;
    int64_t id;
    if (read(gate, &byte, 1) < 0)
        return 1;
    fs_status status = store_open(path, &err, &db);
    store_run run = {.command = "search", .command_line = "search x"};
    if (status == FS_OK)
        status = store_run_begin(db, &run, &err, &id);
    if (status == FS_OK)
        status = store_run_end(db, id, 0, "{}", NULL, &err);
    store_close(db);
    if (status != FS_OK)
        fprintf(stderr, "# %s\n", err.text);
    return status != FS_OK;
}

/* How many of n processes that meet at a new file failed. */
static int meet(int n)
{
    int gate[2], failed = 0;
    if (pipe(gate) != 0)
        return n;
    fflush(NULL);
    for (int i = 0; i < n; i++)
        if (fork() == 0) {
            close(gate[1]);
            _exit(open_and_write(gate[0]));
        }
    close(gate[0]);
    close(gate[1]); /* opens the gate for all of them */
    for (int i = 0, raw; i < n; i++)
        failed += wait(&raw) < 0 || raw != 0;
    return failed;
}

static void test_many_at_once(void)
{
    enum { TRIALS = 12, PROCESSES = 8 };
    int failed = 0, lost = 0;
    for (int trial = 0; trial < TRIALS; trial++) {
        fs_err err = {0};
        store_db *db = NULL;
        remove_files();
        failed += meet(PROCESSES);
        if (store_open(path, &err, &db) == FS_OK)
            lost += PROCESSES - atoi(ask(db, "SELECT count(*) FROM runs"));
        store_close(db);
    }
    tap_equal_int(failed, 0, "8 processes may meet at a new file, 12 times");
    tap_equal_int(lost, 0, "each of them leaves its run");
}

static void test_missing(void)
{
    fs_err err = {0};
    store_db *db = NULL;
    remove_files();
    tap_equal_int(store_open_existing(path, &err, &db), FS_INVALID,
                  "a missing file can be refused");
    tap_ok(access(path, F_OK) != 0, "and is not created");
}

/* Samples of version 4 say of no kernel. */
static void test_samples_of_4(void)
{
    fs_err err = {0};
    store_db *db = NULL;
    fs_arena *arena = fs_arena_create();
    store_sample *rows;
    int32_t n = 0;
    remove_files();
    store_open(path, &err, &db);
    store_machine(db, 7, "host", "facts", &err);
    const store_sample two[] = {
        {.what = "matmul", .form = 5, .count = 1, .work = 8, .seconds = 2},
        {.what = "add", .form = 6, .count = 1, .work = 8, .seconds = 1}};
    store_samples(db, 7, two, 2, &err);
    store_close(db);
    raw("DROP VIEW points;"
        "CREATE VIEW points AS SELECT fingerprint, what, form, place, work,"
        " 1 AS mean_s, 0 AS deviation_s, count, measured FROM samples;"
        "ALTER TABLE samples RENAME TO s; CREATE TABLE samples ("
        " fingerprint TEXT, what TEXT, form TEXT, place TEXT, pass INTEGER,"
        " work REAL, seconds REAL, count INTEGER, measured TEXT,"
        " PRIMARY KEY(fingerprint, what, form, place, pass)) WITHOUT ROWID;"
        "INSERT INTO samples SELECT fingerprint, what, form, place, pass, work,"
        " seconds, count, measured FROM s; DROP TABLE s;"
        "PRAGMA user_version=4");
    err = (fs_err){0};
    tap_ok(store_open(path, &err, &db) == FS_OK, "version 4 is opened %s",
           err.text);
    const store_sample other = {.what = "matmul",
                                .variant = "packed",
                                .form = 5,
                                .count = 1,
                                .work = 8,
                                .seconds = 1};
    store_samples(db, 7, &other, 1, &err);
    store_samples_read(db, 7, arena, &err, &rows, &n);
    tap_ok(n == 3 && !rows[0].variant && !rows[1].variant &&
               rows[1].seconds == 2 && rows[2].variant &&
               strcmp(rows[2].variant, "packed") == 0,
           "its samples are kept, beside those of a kernel");
    store_close(db);
    fs_arena_destroy(arena);
    remove_files();
}

/* A file of version 1 gains what is new and keeps what it has. */
static void test_migration(void)
{
    fs_err err = {0};
    store_db *db = NULL;
    store_model_facts facts = {"m.onnx", "m", 10, 40};
    remove_files();
    store_open(path, &err, &db);
    store_run run = {.command = "plan", .command_line = "plan x"};
    int64_t id = 0;
    store_run_begin(db, &run, &err, &id);
    const double losses[] = {3, 2, 1}, seconds[] = {.1, .1, .1};
    store_losses(db, id, &(store_steps){3, 0, losses, seconds, NULL}, &err);
    store_close(db);
    raw("DROP VIEW points; DROP TABLE samples; DROP TABLE machines;"
        "DROP TABLE residuals; DROP TABLE clusters; DROP TABLE models;"
        "UPDATE steps SET step = -step; UPDATE steps SET step = -1 - step;"
        "ALTER TABLE steps DROP COLUMN skipped; PRAGMA user_version=1");
    err = (fs_err){0};
    tap_equal_int(store_open(path, &err, &db), FS_OK, "version 1 is opened");
    for (int i = 0; i < 2; i++) {
        store_cluster(db, 7, "{}", &err);
        store_model(db, 8, &facts, &err);
    }
    tap_equal_int(err.status, FS_OK, "it takes models and clusters");
    tap_equal_text(ask(db, "SELECT (SELECT count(*) FROM clusters) || ' ' ||"
                           " (SELECT params FROM models) || ' ' ||"
                           " (SELECT count(*) FROM runs)"),
                   "1 10 1", "once per digest, beside the old runs");
    tap_equal_text(ask(db, "SELECT group_concat(step || ':' || loss) FROM "
                           "(SELECT * FROM steps ORDER BY step)"),
                   "1:3.0,2:2.0,3:1.0", "whose steps are counted from 1");
    store_close(db);
    remove_files();
}

int main(void)
{
    snprintf(path, sizeof path, "store_test.%d.db", (int)getpid());
    test_missing();
    test_many_at_once();
    test_migration();
    test_samples_of_4();
    remove_files();
    test_round_trip();
    test_read_only();
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
    remove_files();
    return tap_done();
}
