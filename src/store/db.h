/* Inside store/: the handle and the one wrapper of each SQLite call. */
#ifndef FS_STORE_DB_H
#define FS_STORE_DB_H

#include "store/store.h"

#include <sqlite3.h>

struct store_db {
    sqlite3 *sql;
    char *path;
    bool made; /* the file was made when it was opened */
};

/* Status and message of the last SQLite error. */
fs_status store_sql_fault(const store_db *db, const char *doing, fs_err *err);
fs_status store_exec(store_db *db, const char *sql, const char *doing,
                     fs_err *err);
/* FS_INVALID names a table of the schema that the first n steps make that the
 * file has not, or has with other columns. Tables and views besides are the
 * user's own. */
fs_status store_schema_check(store_db *db, const char *const *steps, int n,
                             fs_err *err);

/* Prepares; binds follow `types`: i int64_t, r double, t text (NULL is SQL
 * NULL), x uint64_t digest as 16 hex digits (0 is NULL). */
fs_status store_prepare(store_db *db, const char *sql, fs_err *err,
                        sqlite3_stmt **out);
void store_bind(sqlite3_stmt *statement, const char *types, ...);
/* Steps a statement that returns no rows, and resets it. */
fs_status store_step(store_db *db, sqlite3_stmt *statement, fs_err *err);
/* Many rows in one transaction: all of them or none. run: or another number
 * that they all have. */
typedef fs_status store_rows(store_db *db, sqlite3_stmt *statement,
                             const void *what, int64_t run, fs_err *err);
fs_status store_in_transaction(store_db *db, const char *sql, store_rows *rows,
                               const void *what, int64_t run, fs_err *err);
void store_now(char out[32]); /* UTC, ISO 8601 */
/* Prepare, bind, step, finalize. */
fs_status store_write(store_db *db, const char *sql, fs_err *err,
                      const char *types, ...);

#endif
