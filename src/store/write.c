#include "config.h"
#include "store/db.h"

#include "base/hash.h"

#include <stdarg.h>
#include <string.h>
#include <time.h>

fs_status store_prepare(store_db *db, const char *sql, fs_err *err,
                        sqlite3_stmt **out)
{
    if (sqlite3_prepare_v2(db->sql, sql, -1, out, NULL) != SQLITE_OK)
        return store_sql_fault(db, "preparing a statement", err);
    return FS_OK;
}

static void bind_text(sqlite3_stmt *statement, int at, const char *text)
{
    if (text)
        sqlite3_bind_text(statement, at, text, -1, SQLITE_TRANSIENT);
    else
        sqlite3_bind_null(statement, at);
}

static void bind_list(sqlite3_stmt *statement, const char *types, va_list args)
{
    for (int at = 1; *types; types++, at++) {
        char hex[17];
        uint64_t digest;
        switch (*types) {
        case 'i':
            sqlite3_bind_int64(statement, at, va_arg(args, int64_t));
            break;
        case 'r':
            sqlite3_bind_double(statement, at, va_arg(args, double));
            break;
        case 't':
            bind_text(statement, at, va_arg(args, const char *));
            break;
        case 'x':
            digest = va_arg(args, uint64_t);
            fs_hex(digest, hex);
            bind_text(statement, at, digest ? hex : NULL);
            break;
        default:
            FS_ASSERT(!"a bind type");
        }
    }
}

void store_bind(sqlite3_stmt *statement, const char *types, ...)
{
    va_list args;
    va_start(args, types);
    bind_list(statement, types, args);
    va_end(args);
}

fs_status store_step(store_db *db, sqlite3_stmt *statement, fs_err *err)
{
    int got = sqlite3_step(statement);
    fs_status status = got == SQLITE_DONE || got == SQLITE_ROW
                           ? FS_OK
                           : store_sql_fault(db, "writing", err);
    sqlite3_reset(statement);
    return status;
}

fs_status store_write(store_db *db, const char *sql, fs_err *err,
                      const char *types, ...)
{
    sqlite3_stmt *statement;
    FS_TRY(store_prepare(db, sql, err, &statement));
    va_list args;
    va_start(args, types);
    bind_list(statement, types, args);
    va_end(args);
    fs_status status = store_step(db, statement, err);
    sqlite3_finalize(statement);
    return status;
}

void store_now(char out[32])
{
    time_t now = time(NULL);
    struct tm parts;
    gmtime_r(&now, &parts);
    strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &parts);
}

fs_status store_run_begin(store_db *db, const store_run *run, fs_err *err,
                          int64_t *id)
{
    char now[32];
    store_now(now);
    FS_TRY(store_write(
        db,
        "INSERT INTO runs(started, command, command_line, version, host,"
        " model, cluster, model_digest, cluster_digest, plan_digest, seed)"
        " VALUES(?,?,?,?,?,?,?,?,?,?,?)",
        err, "tttttttxxxi", now, run->command, run->command_line, run->version,
        run->host, run->model, run->cluster, run->model_digest,
        run->cluster_digest, run->plan_digest, (int64_t)run->seed));
    *id = sqlite3_last_insert_rowid(db->sql);
    return FS_OK;
}

fs_status store_run_end(store_db *db, int64_t id, int status, const char *json,
                        const char *message, fs_err *err)
{
    char now[32];
    store_now(now);
    return store_write(db,
                       "UPDATE runs SET ended=?, status=?, json=?, message=?"
                       " WHERE id=?",
                       err, "titti", now, (int64_t)status, json, message, id);
}

fs_status store_run_plan(store_db *db, int64_t id, uint64_t model_digest,
                         uint64_t cluster_digest, uint64_t plan_digest,
                         fs_err *err)
{
    return store_write(db,
                       "UPDATE runs SET model_digest=?, cluster_digest=?,"
                       " plan_digest=? WHERE id=?",
                       err, "xxxi", model_digest, cluster_digest, plan_digest,
                       id);
}

fs_status store_figure(store_db *db, int64_t run, const char *name,
                       double value, const char *unit, fs_err *err)
{
    return store_write(db, "INSERT OR REPLACE INTO figures VALUES(?,?,?,?)",
                       err, "itrt", run, name, value, unit);
}

fs_status store_plan(store_db *db, uint64_t digest, const char *json,
                     fs_err *err)
{
    return store_write(db, "INSERT OR IGNORE INTO plans VALUES(?,?)", err, "xt",
                       digest, json);
}

fs_status store_cluster(store_db *db, uint64_t digest, const char *json,
                        fs_err *err)
{
    return store_write(db, "INSERT OR IGNORE INTO clusters VALUES(?,?)", err,
                       "xt", digest, json);
}

fs_status store_model(store_db *db, uint64_t digest,
                      const store_model_facts *facts, fs_err *err)
{
    return store_write(db, "INSERT OR IGNORE INTO models VALUES(?,?,?,?,?)",
                       err, "xttii", digest, facts->path, facts->name,
                       facts->params, facts->param_bytes);
}

fs_status store_cache_put(store_db *db, const char *key, const char *json,
                          fs_err *err)
{
    char now[32];
    store_now(now);
    return store_write(db, "INSERT OR REPLACE INTO cache VALUES(?,?,?)", err,
                       "ttt", key, json, now);
}

fs_status store_in_transaction(store_db *db, const char *sql, store_rows *rows,
                               const void *what, int64_t run, fs_err *err)
{
    FS_TRY(store_exec(db, "BEGIN IMMEDIATE", "writing", err));
    sqlite3_stmt *statement = NULL;
    fs_status status = store_prepare(db, sql, err, &statement);
    if (status == FS_OK)
        status = rows(db, statement, what, run, err);
    sqlite3_finalize(statement);
    if (status == FS_OK)
        status = store_exec(db, "COMMIT", "writing", err);
    if (status != FS_OK)
        sqlite3_exec(db->sql, "ROLLBACK", NULL, NULL, NULL);
    return status;
}

static fs_status write_steps(store_db *db, sqlite3_stmt *statement,
                             const void *what, int64_t run, fs_err *err)
{
    const store_steps *rows = what;
    for (int64_t i = 0; i < rows->n; i++) {
        store_bind(statement, "iirri", run, rows->first + i + 1,
                   rows->losses[i], rows->step_s[i],
                   (int64_t)(rows->skipped && rows->skipped[i]));
        FS_TRY(store_step(db, statement, err));
    }
    return FS_OK;
}

fs_status store_losses(store_db *db, int64_t run, const store_steps *steps,
                       fs_err *err)
{
    return store_in_transaction(db, "INSERT INTO steps VALUES(?,?,?,?,?)",
                                write_steps, steps, run, err);
}

typedef struct trace_rows {
    const plan *plan;
    const plan_trace *trace;
    int32_t ends;
} trace_rows;

static fs_status write_events(store_db *db, sqlite3_stmt *statement,
                              const void *what, int64_t run, fs_err *err)
{
    const trace_rows *rows = what;
    for (int32_t i = 0; i < rows->trace->events.n; i++) {
        const plan_event *e = &rows->trace->events.at[i];
        if (!plan_trace_shows(rows->plan, rows->ends, e->micro_batch))
            continue;
        store_bind(statement, "iiiiiiiii", run, (int64_t)e->rank,
                   (int64_t)e->stream, (int64_t)e->task,
                   (int64_t)e->micro_batch, e->step + 1, e->ready_ns,
                   e->start_ns, e->end_ns);
        FS_TRY(store_step(db, statement, err));
    }
    return FS_OK;
}

fs_status store_trace(store_db *db, int64_t run, const plan *p,
                      const plan_trace *trace, fs_err *err)
{
    const trace_rows rows = {p, trace, plan_trace_ends(p, STORE_EVENTS)};
    return store_in_transaction(db,
                                "INSERT INTO events VALUES(?,?,?,?,?,?,?,?,?)",
                                write_events, &rows, run, err);
}

typedef struct timing_rows {
    const plan *plan;
    const plan_timing *timing;
} timing_rows;

static fs_status write_timing(store_db *db, sqlite3_stmt *statement,
                              const void *what, int64_t run, fs_err *err)
{
    const timing_rows *rows = what;
    for (int32_t r = 0; r < rows->plan->n_roles; r++) {
        for (int32_t t = 0; t < rows->plan->roles[r].n_tasks; t++) {
            const plan_demand *d = &rows->timing->demand[r][t];
            store_bind(statement, "iiirrrrrri", run, (int64_t)r, (int64_t)t,
                       d->compute_s, d->memory_s, d->network_s, d->latency_s,
                       d->launch_s, d->total_s, (int64_t)d->on_core);
            FS_TRY(store_step(db, statement, err));
        }
    }
    return FS_OK;
}

fs_status store_timing(store_db *db, int64_t run, const plan *p,
                       const plan_timing *timing, fs_err *err)
{
    timing_rows rows = {p, timing};
    return store_in_transaction(
        db, "INSERT INTO timings VALUES(?,?,?,?,?,?,?,?,?,?)", write_timing,
        &rows, run, err);
}

typedef struct residual_rows {
    const store_residual *at;
    int32_t n;
} residual_rows;

static fs_status write_residuals(store_db *db, sqlite3_stmt *statement,
                                 const void *what, int64_t run, fs_err *err)
{
    const residual_rows *rows = what;
    for (int32_t i = 0; i < rows->n; i++) {
        const store_residual *r = &rows->at[i];
        store_bind(statement, "ittrrr", run, r->kind, r->what, r->firings,
                   r->predicted_s, r->measured_s);
        FS_TRY(store_step(db, statement, err));
    }
    return FS_OK;
}

fs_status store_residuals(store_db *db, int64_t run, const store_residual *rows,
                          int32_t n, fs_err *err)
{
    const residual_rows all = {rows, n};
    return store_in_transaction(db, "INSERT INTO residuals VALUES(?,?,?,?,?,?)",
                                write_residuals, &all, run, err);
}
