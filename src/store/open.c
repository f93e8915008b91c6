#include "config.h"
#include "store/db.h"

#include "base/clock.h"
#include "base/file.h"
#include "store/schema.sql.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    APPLICATION_ID = 0x666c7773, /* "flws": tells our files from others' */
    BUSY_MS = 10000
};

static const char *const migrations[STORE_SCHEMA_VERSION] = {
    store_schema_1, store_schema_2, store_schema_3, store_schema_4,
    store_schema_5, store_schema_6};

/* What SQLite said last of an error of a file, "os_unix.c:LINE: (NUMBER) ..":
 * of its shared memory nothing else keeps the number. */
static _Thread_local int logged_number;

static void note_log(void *unused, int code, const char *text)
{
    int number;
    (void)unused;
    if ((code & 0xff) == SQLITE_IOERR &&
        sscanf(text, "os_unix.c:%*d: (%d)", &number) == 1)
        logged_number = number;
}

/* Before the first connection. */
static void listen_once(void)
{
    static bool done;
    if (!done)
        sqlite3_config(SQLITE_CONFIG_LOG, note_log, NULL);
    done = true;
}

/* Of a write or a sync the connection keeps no number: the file does, or its
 * journal, or the log. */
static int number_of_files(const store_db *db)
{
    sqlite3_file *journal = NULL;
    int why = 0;
    sqlite3_file_control(db->sql, "main", SQLITE_FCNTL_JOURNAL_POINTER,
                         &journal);
    if (journal && journal->pMethods)
        journal->pMethods->xFileControl(journal, SQLITE_FCNTL_LAST_ERRNO, &why);
    if (!why)
        sqlite3_file_control(db->sql, "main", SQLITE_FCNTL_LAST_ERRNO, &why);
    return why ? why : logged_number ? logged_number : EIO;
}

fs_status store_sql_fault(const store_db *db, const char *doing, fs_err *err)
{
    int code = sqlite3_errcode(db->sql);
    int why = code == SQLITE_FULL ? ENOSPC : sqlite3_system_errno(db->sql);
    const int exact = sqlite3_extended_errcode(db->sql);
    const char *hint = "";
    if ((code & 0xff) == SQLITE_IOERR && !why && exact != SQLITE_IOERR_READ &&
        exact != SQLITE_IOERR_SHORT_READ)
        why = number_of_files(db);
    if (code == SQLITE_FULL || ((code & 0xff) == SQLITE_IOERR && why))
        return fs_write_fail(db->path, why, err);
    if (code == SQLITE_BUSY || code == SQLITE_LOCKED)
        hint = " (another program holds it; wait, or use --db OTHER)";
    else if (code == SQLITE_NOTADB || code == SQLITE_CORRUPT)
        hint = " (not a usable flowsearch database; move it away, or use "
               "--db OTHER)";
    else if (code == SQLITE_CANTOPEN || code == SQLITE_READONLY)
        hint = " (use --db OTHER, or --db none)";
    bool broken = (code & 0xff) == SQLITE_IOERR || code == SQLITE_NOMEM;
    return fs_fail(err, broken ? FS_FAULT : FS_INVALID, "%s: %s: %s%s",
                   db->path, doing, sqlite3_errmsg(db->sql), hint);
}

fs_status store_exec(store_db *db, const char *sql, const char *doing,
                     fs_err *err)
{
    if (sqlite3_exec(db->sql, sql, NULL, NULL, NULL) != SQLITE_OK)
        return store_sql_fault(db, doing, err);
    return FS_OK;
}

/* One whole number that a pragma or a count gives. */
static fs_status ask_int(store_db *db, const char *sql, fs_err *err,
                         int64_t *out)
{
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(db->sql, sql, -1, &statement, NULL) != SQLITE_OK)
        return store_sql_fault(db, "opening", err);
    int got = sqlite3_step(statement);
    if (got == SQLITE_ROW)
        *out = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return got == SQLITE_ROW ? FS_OK : store_sql_fault(db, "opening", err);
}

/* A file of somebody else's, or of a later flowsearch, is left untouched. */
static fs_status check_owner(store_db *db, fs_err *err, int64_t *version)
{
    int64_t id, tables;
    FS_TRY(ask_int(db, "PRAGMA application_id", err, &id));
    FS_TRY(ask_int(db, "PRAGMA user_version", err, version));
    FS_TRY(ask_int(db, "SELECT count(*) FROM sqlite_master", err, &tables));
    if (id != APPLICATION_ID && (id != 0 || tables > 0))
        return fs_fail(err, FS_INVALID,
                       "%s: an SQLite file, but not one of flowsearch "
                       "(use --db OTHER)",
                       db->path);
    if (*version > STORE_SCHEMA_VERSION)
        return fs_fail(err, FS_INVALID,
                       "%s: schema version %lld is newer than this program's "
                       "%d: use a newer flowsearch, or --db OTHER",
                       db->path, (long long)*version, STORE_SCHEMA_VERSION);
    if (*version < 0 || (*version == 0 && tables > 0))
        return fs_fail(err, FS_INVALID,
                       "%s: not a whole flowsearch database: its schema is "
                       "of version %lld (move it away, or use --db OTHER)",
                       db->path, (long long)*version);
    return FS_OK;
}

/* The facts of one moment: another process may be creating the schema. */
static fs_status read_owner(store_db *db, fs_err *err, int64_t *version)
{
    FS_TRY(store_exec(db, "BEGIN", "opening", err));
    fs_status status = check_owner(db, err, version);
    if (status == FS_OK && *version == STORE_SCHEMA_VERSION)
        status = store_schema_check(db, migrations, STORE_SCHEMA_VERSION, err);
    if (status == FS_OK)
        status = store_exec(db, "COMMIT", "opening", err);
    return status;
}

static fs_status create_schema(store_db *db, fs_err *err)
{
    int64_t version;
    FS_TRY(store_exec(db, "BEGIN IMMEDIATE", "creating the schema", err));
    /* Another process may have created it while this one waited. */
    FS_TRY(check_owner(db, err, &version));
    for (; version < STORE_SCHEMA_VERSION; version++)
        FS_TRY(store_exec(db, migrations[version], "creating the schema", err));
    FS_TRY(store_schema_check(db, migrations, STORE_SCHEMA_VERSION, err));
    char stamp[128];
    snprintf(stamp, sizeof stamp,
             "PRAGMA application_id=%d; PRAGMA user_version=%d; COMMIT",
             APPLICATION_ID, STORE_SCHEMA_VERSION);
    return store_exec(db, stamp, "creating the schema", err);
}

static fs_status prepare_file(store_db *db, fs_err *err)
{
    int64_t version;
    FS_TRY(read_owner(db, err, &version));
    if (version < STORE_SCHEMA_VERSION)
        FS_TRY(create_schema(db, err));
    /* Last, for only now the file is known to be ours. */
    return store_exec(db,
                      "PRAGMA journal_mode=WAL;"
                      "PRAGMA synchronous=NORMAL;"
                      "PRAGMA foreign_keys=ON",
                      "opening", err);
}

/* SQLite waits for most locks by itself, but not for that of a change of
 * journal mode, nor where waiting could be a deadlock: those are given back
 * and tried again. */
static fs_status prepare_patiently(store_db *db, fs_err *err)
{
    int64_t end_ns = fs_now_ns() + (int64_t)BUSY_MS * 1000000;
    for (unsigned wait_us = 1000;; wait_us *= wait_us < 64000 ? 2 : 1) {
        fs_err fault = {0};
        fs_status status = prepare_file(db, &fault);
        int code = status == FS_OK ? SQLITE_OK : sqlite3_errcode(db->sql);
        if (status != FS_OK)
            sqlite3_exec(db->sql, "ROLLBACK", NULL, NULL, NULL);
        if ((code != SQLITE_BUSY && code != SQLITE_LOCKED &&
             code != SQLITE_PROTOCOL) ||
            fs_now_ns() > end_ns)
            return status == FS_OK
                       ? FS_OK
                       : fs_fail(err, fault.status, "%s", fault.text);
        /* Two that failed together should not come back together. */
        usleep(wait_us + (unsigned)getpid() % 1000);
    }
}

/* A new file is made here, not by SQLite, so that we know whose it is. */
static bool make_file(const char *path)
{
    if (path[0] == ':')
        return false; /* a name that means something to SQLite */
    int file = open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0666);
    if (file >= 0)
        close(file);
    return file >= 0;
}

static fs_status no_memory(const char *path, fs_err *err)
{
    return fs_fail(err, FS_FAULT, "%s: opening: out of memory", path);
}

static fs_status new_db(const char *path, fs_err *err, store_db **out)
{
    store_db *db = calloc(1, sizeof *db);
    char *copy = strdup(path);
    if (!db || !copy) {
        free(db);
        free(copy);
        return no_memory(path, err);
    }
    db->path = copy;
    *out = db;
    return FS_OK;
}

static fs_status open_with(const char *path, int flags, fs_err *err,
                           store_db **out)
{
    store_db *db;
    FS_TRY(new_db(path, err, &db));
    db->made = (flags & SQLITE_OPEN_CREATE) && make_file(path);
    listen_once();
    int got = sqlite3_open_v2(path, &db->sql, flags, NULL);
    fs_status status =
        got == SQLITE_OK ? FS_OK : store_sql_fault(db, "opening", err);
    if (status == FS_OK) {
        sqlite3_busy_timeout(db->sql, BUSY_MS);
        status = prepare_patiently(db, err);
    }
    if (status != FS_OK) {
        store_discard(db);
        return status;
    }
    *out = db;
    return FS_OK;
}

fs_status store_open(const char *path, fs_err *err, store_db **out)
{
    return open_with(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, err,
                     out);
}

fs_status store_open_existing(const char *path, fs_err *err, store_db **out)
{
    if (access(path, F_OK) != 0)
        return fs_fail(err, FS_INVALID, "%s: %s", path, strerror(errno));
    return open_with(path, SQLITE_OPEN_READWRITE, err, out);
}

/* SQLite in WAL mode writes beside the file even to read it. */
static bool can_write(const char *path)
{
    const char *slash = strrchr(path, '/');
    char folder[FS_PATH_MAX];
    size_t n = slash ? (size_t)(slash - path) + 1 : 0;
    if (n >= sizeof folder || access(path, W_OK) != 0)
        return false;
    snprintf(folder, sizeof folder, "%.*s.", (int)n, path);
    return access(folder, W_OK) == 0;
}

/* file:PATH?mode=ro, what means something in a URI as %xx. Between file: and an
 * absolute path stands an empty host. */
static char *uri_of(const char *path, const char *mode)
{
    char *uri = malloc(3 * strlen(path) + strlen(mode) + 16);
    if (!uri)
        return NULL;
    char *at = uri + sprintf(uri, path[0] == '/' ? "file://" : "file:");
    for (const char *from = path; *from; from++)
        if (strchr("?#%", *from))
            at += sprintf(at, "%%%02X", (unsigned char)*from);
        else
            *at++ = *from;
    sprintf(at, "?%s", mode);
    return uri;
}

static fs_status open_reading(const char *path, const char *mode, fs_err *err,
                              store_db **out)
{
    int64_t version = 0;
    store_db *db;
    FS_TRY(new_db(path, err, &db));
    char *uri = uri_of(path, mode);
    if (!uri) {
        store_close(db);
        return no_memory(path, err);
    }
    listen_once();
    int got = sqlite3_open_v2(uri, &db->sql,
                              SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL);
    free(uri);
    fs_status status = got == SQLITE_OK ? read_owner(db, err, &version)
                                        : store_sql_fault(db, "opening", err);
    if (status == FS_OK && version < STORE_SCHEMA_VERSION)
        status = fs_fail(err, FS_INVALID,
                         "%s: schema version %lld is older than this "
                         "program's %d and the file cannot be written",
                         path, (long long)version, STORE_SCHEMA_VERSION);
    if (status == FS_OK)
        *out = db;
    else
        store_close(db);
    return status;
}

fs_status store_open_reading(const char *path, fs_err *err, store_db **out,
                             bool *read_only)
{
    fs_err first = {0};
    *read_only = false;
    if (access(path, F_OK) != 0 || can_write(path))
        return store_open_existing(path, err, out);
    *read_only = true;
    /* What others have just written is seen where its log can be read. */
    if (open_reading(path, "mode=ro", &first, out) == FS_OK)
        return FS_OK;
    return open_reading(path, "mode=ro&immutable=1", err, out);
}

void store_close(store_db *db)
{
    if (!db)
        return;
    sqlite3_close(db->sql);
    free(db->path);
    free(db);
}

/* Another process may have found the new file good, and begun a run. */
static bool holds_runs(store_db *db)
{
    int64_t runs = 0;
    fs_err ignored = {0};
    return ask_int(db, "SELECT count(*) FROM runs", &ignored, &runs) == FS_OK &&
           runs > 0;
}

void store_discard(store_db *db)
{
    static const char *const endings[] = {"", "-wal", "-shm", "-journal"};
    char path[FS_PATH_MAX];
    bool ours = db && db->made && !holds_runs(db);
    if (ours)
        snprintf(path, sizeof path, "%s", db->path);
    size_t length = ours ? strlen(path) : 0;
    store_close(db);
    for (int i = 0; ours && i < 4 && length + 10 < sizeof path; i++) {
        strcpy(path + length, endings[i]);
        unlink(path);
    }
}
