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

/* ---- a measured timing ---- */

typedef struct reading {
    const ir_graph *graph;
    const plan *p;
    int64_t run;
    plan_timing *timing;
    bool **found; /* [roles][tasks] */
    fs_arena *arena;
    fs_err *err;
} reading;

/* "matmul h of stage 0 (role 0, task 12)" */
static const char *task_text(const reading *in, int32_t role, int32_t task)
{
    const plan_role *r = &in->p->roles[role];
    return fs_printf(
        in->arena, "%s of %s (role %d, task %d)",
        plan_task_name(in->graph, &r->tasks[task], in->arena),
        fs_printf(in->arena, "stage %d", plan_task_stage(r, &r->tasks[task])),
        role, task);
}

/* Of one column of a row: SQLite keeps what it was given, and would read a text
 * as 0. */
static fs_status read_column(const reading *in, sqlite3_stmt *row, int i,
                             double *out)
{
    const int kind = sqlite3_column_type(row, i);
    *out = sqlite3_column_double(row, i);
    if ((kind == SQLITE_FLOAT || kind == SQLITE_INTEGER) && *out >= 0)
        return FS_OK;
    const unsigned char *text = sqlite3_column_text(row, i);
    return fs_fail(
        in->err, FS_INVALID,
        "run %lld: %s of %s is %s%.40s%s in the table of timings, "
        "must be a number of 0 or more",
        (long long)in->run, sqlite3_column_name(row, i),
        task_text(in, sqlite3_column_int(row, 0), sqlite3_column_int(row, 1)),
        kind == SQLITE_TEXT ? "'" : "", text ? (const char *)text : "nothing",
        kind == SQLITE_TEXT ? "'" : "");
}

static fs_status read_demand(const reading *in, sqlite3_stmt *row,
                             plan_demand *out)
{
    enum { FIRST = 2, COLUMNS = 7 };
    double of[COLUMNS];
    for (int i = 0; i < COLUMNS; i++)
        FS_TRY(read_column(in, row, FIRST + i, &of[i]));
    *out = (plan_demand){.compute_s = of[0],
                         .memory_s = of[1],
                         .network_s = of[2],
                         .latency_s = of[3],
                         .launch_s = of[4],
                         .total_s = of[5],
                         .on_core = of[6] != 0};
    return FS_OK;
}

/* One row. */
static fs_status take_row(reading *in, sqlite3_stmt *row)
{
    const bool numbers = sqlite3_column_type(row, 0) == SQLITE_INTEGER &&
                         sqlite3_column_type(row, 1) == SQLITE_INTEGER;
    const int64_t r = sqlite3_column_int64(row, 0);
    const int64_t t = sqlite3_column_int64(row, 1);
    if (!numbers || r < 0 || r >= in->p->n_roles || t < 0 ||
        t >= in->p->roles[r].n_tasks) {
        const unsigned char *role = sqlite3_column_text(row, 0);
        const unsigned char *task = sqlite3_column_text(row, 1);
        return fs_fail(
            in->err, FS_INVALID,
            "run %lld: the table of timings has a row of role %.40s, "
            "task %.40s, and this plan no such task",
            (long long)in->run, role ? (const char *)role : "none",
            task ? (const char *)task : "none");
    }
    in->found[r][t] = true;
    return read_demand(in, row, &in->timing->demand[r][t]);
}

/* How many are missing, and the first of them. */
static fs_status check_all_there(const reading *in)
{
    int64_t missing = 0, all = 0;
    int32_t role = 0, task = 0;
    for (int32_t r = 0; r < in->p->n_roles; r++)
        for (int32_t t = 0; t < in->p->roles[r].n_tasks; t++) {
            all++;
            if (in->found[r][t] || missing++ > 0)
                continue;
            role = r;
            task = t;
        }
    if (missing == 0)
        return FS_OK;
    if (missing == all)
        return fs_fail(in->err, FS_INVALID,
                       "run %lld kept no measured timing of this plan",
                       (long long)in->run);
    return fs_fail(in->err, FS_INVALID,
                   "run %lld: the table of timings lacks %lld of the %lld "
                   "tasks of this plan, %s%s",
                   (long long)in->run, (long long)missing, (long long)all,
                   missing > 1 ? "the first " : "", task_text(in, role, task));
}

static fs_status read_rows(store_db *db, reading *in)
{
    sqlite3_stmt *rows;
    FS_TRY(store_prepare(db,
                         "SELECT role, task, compute_s, memory_s, network_s,"
                         " latency_s, launch_s, total_s, on_core FROM timings"
                         " WHERE run=?",
                         in->err, &rows));
    store_bind(rows, "i", in->run);
    fs_status status = FS_OK;
    int got = SQLITE_DONE;
    while (status == FS_OK && (got = sqlite3_step(rows)) == SQLITE_ROW)
        status = take_row(in, rows);
    if (status == FS_OK && got != SQLITE_DONE)
        status = store_sql_fault(db, "reading", in->err);
    sqlite3_finalize(rows);
    return status;
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

fs_status store_timing_read(store_db *db, int64_t run, const ir_graph *graph,
                            const plan *p, fs_arena *arena, fs_err *err,
                            plan_timing **out)
{
    reading in = {
        .graph = graph, .p = p, .run = run, .arena = arena, .err = err};
    FS_TRY(check_run(db, run, p, err));
    in.timing =
        plan_timing_new(p, fs_printf(arena, "run %lld", (long long)run), arena);
    in.found = fs_new(arena, bool *, p->n_roles);
    for (int32_t r = 0; r < p->n_roles; r++)
        in.found[r] = fs_new(arena, bool, p->roles[r].n_tasks);
    FS_TRY(read_rows(db, &in));
    FS_TRY(check_all_there(&in));
    *out = in.timing;
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
