#include "config.h"
#include "store/db.h"

#include "base/hash.h"

#include <stdio.h>
#include <string.h>

fs_status store_cache_get(store_db *db, const char *key, fs_arena *arena,
                          fs_err *err, const char **json)
{
    sqlite3_stmt *statement;
    FS_TRY(store_prepare(db, "SELECT json FROM cache WHERE key=?", err,
                         &statement));
    store_bind(statement, "t", key);
    int got = sqlite3_step(statement);
    fs_status status = FS_NO;
    if (got == SQLITE_ROW) {
        *json =
            fs_strdup(arena, (const char *)sqlite3_column_text(statement, 0));
        status = FS_OK;
    } else if (got != SQLITE_DONE) {
        status = store_sql_fault(db, "reading", err);
    }
    sqlite3_finalize(statement);
    return status;
}

static plan_demand demand_of_row(sqlite3_stmt *row)
{
    return (plan_demand){
        .compute_s = sqlite3_column_double(row, 2),
        .memory_s = sqlite3_column_double(row, 3),
        .network_s = sqlite3_column_double(row, 4),
        .latency_s = sqlite3_column_double(row, 5),
        .launch_s = sqlite3_column_double(row, 6),
        .total_s = sqlite3_column_double(row, 7),
        .on_core = sqlite3_column_int(row, 8) != 0,
    };
}

/* Fills what the rows say; returns how many tasks got their figure. */
static int64_t read_demands(sqlite3_stmt *rows, const plan *p,
                            plan_timing *timing)
{
    int64_t n = 0;
    while (sqlite3_step(rows) == SQLITE_ROW) {
        int32_t r = sqlite3_column_int(rows, 0);
        int32_t t = sqlite3_column_int(rows, 1);
        if (r < 0 || r >= p->n_roles || t < 0 || t >= p->roles[r].n_tasks)
            continue;
        timing->demand[r][t] = demand_of_row(rows);
        n++;
    }
    return n;
}

static fs_status check_run(store_db *db, int64_t run, const plan *p,
                           fs_err *err)
{
    sqlite3_stmt *statement;
    FS_TRY(store_prepare(db, "SELECT plan_digest FROM runs WHERE id=?", err,
                         &statement));
    store_bind(statement, "i", run);
    char wanted[17];
    fs_hex(p->digest, wanted);
    fs_status status = FS_OK;
    if (sqlite3_step(statement) != SQLITE_ROW) {
        status = fs_fail(err, FS_INVALID,
                         "%s: no run %lld (see `flowsearch "
                         "runs`)",
                         db->path, (long long)run);
    } else {
        const char *got = (const char *)sqlite3_column_text(statement, 0);
        if (!got || strcmp(got, wanted) != 0)
            status = fs_fail(err, FS_INVALID,
                             "run %lld ran plan %s, not this plan %s",
                             (long long)run, got ? got : "(none)", wanted);
    }
    sqlite3_finalize(statement);
    return status;
}

fs_status store_timing_read(store_db *db, int64_t run, const plan *p,
                            fs_arena *arena, fs_err *err, plan_timing **out)
{
    FS_TRY(check_run(db, run, p, err));
    int64_t wanted = 0;
    for (int32_t r = 0; r < p->n_roles; r++)
        wanted += p->roles[r].n_tasks;
    sqlite3_stmt *statement;
    FS_TRY(store_prepare(db,
                         "SELECT role, task, compute_s, memory_s, network_s,"
                         " latency_s, launch_s, total_s, on_core FROM timings"
                         " WHERE run=?",
                         err, &statement));
    store_bind(statement, "i", run);
    plan_timing *timing =
        plan_timing_new(p, fs_printf(arena, "run %lld", (long long)run), arena);
    int64_t got = read_demands(statement, p, timing);
    sqlite3_finalize(statement);
    if (got != wanted)
        return fs_fail(err, FS_INVALID,
                       "run %lld kept no measured timing of this plan "
                       "(%lld of %lld tasks)",
                       (long long)run, (long long)got, (long long)wanted);
    *out = timing;
    return FS_OK;
}

enum { MAX_COLUMNS = 256, BLOB_SHOWN = 32, BLOB_ROOM = 2 * BLOB_SHOWN + 40 };

static const char *blob_text(sqlite3_stmt *statement, int i, char *out)
{
    const unsigned char *bytes = sqlite3_column_blob(statement, i);
    int n = sqlite3_column_bytes(statement, i);
    char *at = out + sprintf(out, "x'");
    for (int k = 0; k < n && k < BLOB_SHOWN; k++)
        at += sprintf(at, "%02x", bytes[k]);
    if (n > BLOB_SHOWN)
        sprintf(at, "..' (%d bytes)", n);
    else
        strcpy(at, "'");
    return out;
}

static void hand_on_row(sqlite3_stmt *statement, store_row_fn *row, void *ctx)
{
    const char *columns[MAX_COLUMNS], *values[MAX_COLUMNS];
    char blobs[MAX_COLUMNS][BLOB_ROOM];
    int n = sqlite3_column_count(statement);
    n = n < MAX_COLUMNS ? n : MAX_COLUMNS;
    for (int i = 0; i < n; i++) {
        columns[i] = sqlite3_column_name(statement, i);
        values[i] = sqlite3_column_type(statement, i) == SQLITE_BLOB
                        ? blob_text(statement, i, blobs[i])
                        : (const char *)sqlite3_column_text(statement, i);
    }
    row(ctx, n, columns, values);
}

/* A statement that only reads may still make a file (ATTACH) or change how the
 * connection works (PRAGMA), so what a query may do is listed. */
static int allow_select(void *ctx, int action, const char *a, const char *b,
                        const char *c, const char *d)
{
    (void)ctx, (void)a, (void)b, (void)c, (void)d;
    return action == SQLITE_SELECT || action == SQLITE_READ ||
                   action == SQLITE_FUNCTION || action == SQLITE_RECURSIVE
               ? SQLITE_OK
               : SQLITE_DENY;
}

static fs_status query_fault(store_db *db, fs_err *err)
{
    if (sqlite3_errcode(db->sql) == SQLITE_AUTH)
        return fs_fail(err, FS_INVALID, "only queries that read are allowed");
    return store_sql_fault(db, "in the query", err);
}

static fs_status run_query(store_db *db, const char *sql, store_row_fn *row,
                           void *ctx, fs_err *err)
{
    sqlite3_stmt *statement = NULL;
    const char *rest = NULL;
    if (sqlite3_prepare_v2(db->sql, sql, -1, &statement, &rest) != SQLITE_OK)
        return query_fault(db, err);
    fs_status status = FS_OK;
    if (!statement)
        return fs_fail(err, FS_INVALID, "the query is empty");
    if (!sqlite3_stmt_readonly(statement))
        status = fs_fail(err, FS_INVALID, "only queries that read are allowed");
    else if (rest[strspn(rest, " \t\r\n;")])
        status = fs_fail(err, FS_INVALID, "only one query at a time");
    int got = SQLITE_DONE;
    while (status == FS_OK && (got = sqlite3_step(statement)) == SQLITE_ROW)
        hand_on_row(statement, row, ctx);
    if (status == FS_OK && got != SQLITE_DONE)
        status = query_fault(db, err);
    sqlite3_finalize(statement);
    return status;
}

fs_status store_query(store_db *db, const char *sql, store_row_fn *row,
                      void *ctx, fs_err *err)
{
    sqlite3_set_authorizer(db->sql, allow_select, NULL);
    fs_status status = run_query(db, sql, row, ctx, err);
    sqlite3_set_authorizer(db->sql, NULL, NULL);
    return status;
}
