/* What machines were measured to take. */
#include "config.h"
#include "store/db.h"

#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

fs_status store_machine(store_db *db, uint64_t fingerprint, const char *host,
                        const char *facts, fs_err *err)
{
    return store_write(db, "INSERT OR IGNORE INTO machines VALUES(?,?,?)", err,
                       "xtt", fingerprint, host, facts);
}

typedef struct sample_rows {
    uint64_t fingerprint;
    const store_sample *at;
    int32_t n;
} sample_rows;

static fs_status write_samples(store_db *db, sqlite3_stmt *statement,
                               const void *what, int64_t run, fs_err *err)
{
    const sample_rows *rows = what;
    char now[32];
    (void)run;
    store_now(now);
    for (int32_t i = 0; i < rows->n; i++) {
        const store_sample *s = &rows->at[i];
        store_bind(statement, "xtxttirrit", rows->fingerprint, s->what, s->form,
                   s->variant ? s->variant : "", s->in_step ? "step" : "alone",
                   (int64_t)s->pass, s->work, s->seconds, (int64_t)s->count,
                   now);
        FS_TRY(store_step(db, statement, err));
    }
    return FS_OK;
}

fs_status store_samples(store_db *db, uint64_t fingerprint,
                        const store_sample *samples, int32_t n, fs_err *err)
{
    const sample_rows rows = {fingerprint, samples, n};
    return store_in_transaction(
        db, "INSERT OR REPLACE INTO samples VALUES(?,?,?,?,?,?,?,?,?,?)",
        write_samples, &rows, 0, err);
}

static store_sample sample_of_row(sqlite3_stmt *row, fs_arena *arena)
{
    const char *form = (const char *)sqlite3_column_text(row, 1);
    const char *variant = (const char *)sqlite3_column_text(row, 7);
    return (store_sample){
        .what = fs_strdup(arena, (const char *)sqlite3_column_text(row, 0)),
        .form = strtoull(form ? form : "0", NULL, 16),
        .pass = sqlite3_column_int(row, 2),
        .work = sqlite3_column_double(row, 3),
        .seconds = sqlite3_column_double(row, 4),
        .count = sqlite3_column_int(row, 5),
        .in_step =
            strcmp((const char *)sqlite3_column_text(row, 6), "step") == 0,
        .variant = variant && variant[0] ? fs_strdup(arena, variant) : NULL,
    };
}

fs_status store_samples_read(store_db *db, uint64_t fingerprint,
                             fs_arena *arena, fs_err *err, store_sample **out,
                             int32_t *n)
{
    FS_VEC(store_sample) rows = {0};
    sqlite3_stmt *statement;
    FS_TRY(store_prepare(db,
                         "SELECT what, form, pass, work, seconds, count, place,"
                         " variant"
                         " FROM samples WHERE fingerprint=?"
                         " ORDER BY what, form, variant, place, pass",
                         err, &statement));
    store_bind(statement, "x", fingerprint);
    int got;
    while ((got = sqlite3_step(statement)) == SQLITE_ROW)
        fs_push(arena, &rows, sample_of_row(statement, arena));
    fs_status status =
        got == SQLITE_DONE ? FS_OK : store_sql_fault(db, "reading", err);
    sqlite3_finalize(statement);
    *out = rows.at;
    *n = rows.n;
    return status;
}

fs_status store_samples_passes(store_db *db, uint64_t fingerprint, fs_err *err,
                               int32_t *out)
{
    sqlite3_stmt *statement;
    FS_TRY(store_prepare(db,
                         "SELECT coalesce(max(pass) + 1, 0) FROM samples"
                         " WHERE fingerprint=? AND place='step'",
                         err, &statement));
    store_bind(statement, "x", fingerprint);
    const bool got = sqlite3_step(statement) == SQLITE_ROW;
    if (got)
        *out = sqlite3_column_int(statement, 0);
    sqlite3_finalize(statement);
    return got ? FS_OK : store_sql_fault(db, "reading", err);
}

fs_status store_samples_forget(store_db *db, uint64_t fingerprint, fs_err *err)
{
    return store_write(db, "DELETE FROM samples WHERE fingerprint=?", err, "x",
                       fingerprint);
}
