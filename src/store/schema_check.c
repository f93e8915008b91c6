/* Is a file's schema the one that this program writes to? Compared with a new
 * database in memory, so that no list of tables is kept by hand. */
#include "config.h"
#include "store/db.h"

#include <stdio.h>
#include <string.h>

/* Prepares `SELECT * FROM table`, whose columns are the table's. */
static int look_at(sqlite3 *sql, const char *table, sqlite3_stmt **out)
{
    char query[128];
    snprintf(query, sizeof query, "SELECT * FROM \"%.100s\"", table);
    return sqlite3_prepare_v2(sql, query, -1, out, NULL);
}

static bool same_columns(sqlite3_stmt *a, sqlite3_stmt *b)
{
    int n = sqlite3_column_count(a);
    if (n != sqlite3_column_count(b))
        return false;
    for (int i = 0; i < n; i++)
        if (strcmp(sqlite3_column_name(a, i), sqlite3_column_name(b, i)) != 0)
            return false;
    return true;
}

static fs_status not_whole(const store_db *db, const char *table,
                           const char *why, fs_err *err)
{
    return fs_fail(err, FS_INVALID,
                   "%s: not a whole flowsearch database: table %s %s (move it "
                   "away, or use --db OTHER)",
                   db->path, table, why);
}

static fs_status no_memory(const store_db *db, fs_err *err)
{
    return fs_fail(err, FS_FAULT, "%s: opening: out of memory", db->path);
}

static fs_status check_table(store_db *db, sqlite3 *model, const char *table,
                             fs_err *err)
{
    sqlite3_stmt *got = NULL, *wanted = NULL;
    fs_status status = FS_OK;
    int code = look_at(db->sql, table, &got);
    if (look_at(model, table, &wanted) != SQLITE_OK)
        status = no_memory(db, err);
    else if (code == SQLITE_ERROR)
        status = not_whole(db, table, "is missing", err);
    else if (code != SQLITE_OK)
        status = store_sql_fault(db, "opening", err);
    else if (!same_columns(got, wanted))
        status = not_whole(db, table, "has other columns", err);
    sqlite3_finalize(got);
    sqlite3_finalize(wanted);
    return status;
}

/* NULL: no memory. */
static sqlite3 *make_model(const char *const *steps, int n)
{
    sqlite3 *model = NULL;
    int code = sqlite3_open(":memory:", &model);
    for (int i = 0; i < n && code == SQLITE_OK; i++)
        code = sqlite3_exec(model, steps[i], NULL, NULL, NULL);
    FS_ASSERT(code == SQLITE_OK || code == SQLITE_NOMEM);
    if (code == SQLITE_OK)
        return model;
    sqlite3_close(model);
    return NULL;
}

fs_status store_schema_check(store_db *db, const char *const *steps, int n,
                             fs_err *err)
{
    sqlite3_stmt *tables = NULL;
    sqlite3 *model = make_model(steps, n);
    if (!model)
        return no_memory(db, err);
    int code = sqlite3_prepare_v2(
        model, "SELECT name FROM sqlite_master WHERE type = 'table'", -1,
        &tables, NULL);
    fs_status status = FS_OK;
    while (status == FS_OK && code != SQLITE_DONE) {
        code = code == SQLITE_NOMEM ? code : sqlite3_step(tables);
        if (code == SQLITE_ROW)
            status = check_table(
                db, model, (const char *)sqlite3_column_text(tables, 0), err);
        else if (code != SQLITE_DONE)
            status = no_memory(db, err);
    }
    sqlite3_finalize(tables);
    sqlite3_close(model);
    return status;
}
