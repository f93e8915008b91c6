/* The schema, a text per version. A newer version adds a step to `migrations`
 * in open.c; nothing here is ever edited afterwards. */
#ifndef FS_STORE_SCHEMA_H
#define FS_STORE_SCHEMA_H

static const char store_schema_1[] =
    "CREATE TABLE runs ("
    " id INTEGER PRIMARY KEY,"
    " started TEXT NOT NULL," /* UTC, ISO 8601 */
    " ended TEXT,"            /* NULL while it runs, or when it was killed */
    " status INTEGER,"        /* the command's exit status */
    " command TEXT NOT NULL, command_line TEXT NOT NULL,"
    " version TEXT, host TEXT, model TEXT, cluster TEXT,"
    " model_digest TEXT, cluster_digest TEXT, plan_digest TEXT,"
    " seed INTEGER, message TEXT, json TEXT);"
    "CREATE INDEX runs_by_plan ON runs(plan_digest);"
    "CREATE TABLE figures ("
    " run INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,"
    " name TEXT NOT NULL, value REAL, unit TEXT,"
    " PRIMARY KEY(run, name)) WITHOUT ROWID;"
    "CREATE TABLE steps ("
    " run INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,"
    " step INTEGER NOT NULL, loss REAL, seconds REAL,"
    " PRIMARY KEY(run, step)) WITHOUT ROWID;"
    "CREATE TABLE plans ("
    " digest TEXT PRIMARY KEY, json TEXT NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE events ("
    " run INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,"
    " rank INTEGER, stream INTEGER, task INTEGER, micro_batch INTEGER,"
    " step INTEGER, ready_ns INTEGER, start_ns INTEGER, end_ns INTEGER);"
    "CREATE INDEX events_by_run ON events(run);"
    "CREATE TABLE timings ("
    " run INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,"
    " role INTEGER, task INTEGER, compute_s REAL, memory_s REAL,"
    " network_s REAL, latency_s REAL, launch_s REAL, total_s REAL,"
    " on_core INTEGER, PRIMARY KEY(run, role, task)) WITHOUT ROWID;"
    "CREATE TABLE cache ("
    " key TEXT PRIMARY KEY, json TEXT NOT NULL, written TEXT NOT NULL)"
    " WITHOUT ROWID;"
    /* What people ask for first: a run beside what was predicted for it. */
    "CREATE VIEW predicted_and_measured AS"
    " SELECT r.id AS run, r.started, r.plan_digest, r.model,"
    "  p.value AS predicted_step_s, m.value AS measured_step_s,"
    "  m.value / p.value - 1 AS error"
    " FROM runs r"
    " JOIN figures p ON p.run = r.id AND p.name = 'predicted_step_s'"
    " JOIN figures m ON m.run = r.id AND m.name = 'step_median_s';";

/* What runs are of. */
static const char store_schema_2[] =
    "CREATE TABLE models ("
    " digest TEXT PRIMARY KEY, path TEXT, name TEXT,"
    " params INTEGER, param_bytes INTEGER) WITHOUT ROWID;"
    "CREATE TABLE clusters ("
    " digest TEXT PRIMARY KEY, json TEXT NOT NULL) WITHOUT ROWID;";

/* Steps that a loss scale left out. */
static const char store_schema_3[] =
    "ALTER TABLE steps ADD COLUMN skipped INTEGER;";

/* Where a run's time went otherwise than predicted; what a machine was measured
 * to take, by its fingerprint. */
static const char store_schema_4[] =
    "CREATE TABLE residuals ("
    " run INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,"
    " kind TEXT NOT NULL, what TEXT NOT NULL, firings REAL,"
    " predicted_s REAL, measured_s REAL,"
    " PRIMARY KEY(run, kind, what)) WITHOUT ROWID;"
    "CREATE TABLE machines ("
    " fingerprint TEXT PRIMARY KEY, host TEXT, facts TEXT NOT NULL)"
    " WITHOUT ROWID;"
    "CREATE TABLE samples ("
    " fingerprint TEXT NOT NULL REFERENCES machines(fingerprint)"
    "  ON DELETE CASCADE,"
    " what TEXT NOT NULL,"  /* the op */
    " form TEXT NOT NULL,"  /* digest of its local shapes */
    " place TEXT NOT NULL," /* measured alone, or within a step */
    " pass INTEGER NOT NULL, work REAL NOT NULL," /* flop, or bytes */
    " seconds REAL NOT NULL, count INTEGER NOT NULL, measured TEXT NOT NULL,"
    " PRIMARY KEY(fingerprint, what, form, place, pass)) WITHOUT ROWID;"
    "CREATE VIEW points AS"
    " SELECT fingerprint, what, form, place, work, avg(seconds) AS mean_s,"
    "  sqrt(max(0, avg(seconds * seconds) - avg(seconds) * avg(seconds)))"
    "   AS deviation_s,"
    "  sum(count) AS count, max(measured) AS measured"
    " FROM samples GROUP BY fingerprint, what, form, place;";

/* Of ops with several kernels, which one it was. */
static const char store_schema_5[] =
    "DROP VIEW points;"
    "ALTER TABLE samples RENAME TO samples_4;"
    "CREATE TABLE samples ("
    " fingerprint TEXT NOT NULL REFERENCES machines(fingerprint)"
    "  ON DELETE CASCADE,"
    " what TEXT NOT NULL, form TEXT NOT NULL,"
    " variant TEXT NOT NULL," /* '': there is one, or nobody says */
    " place TEXT NOT NULL, pass INTEGER NOT NULL, work REAL NOT NULL,"
    " seconds REAL NOT NULL, count INTEGER NOT NULL, measured TEXT NOT NULL,"
    " PRIMARY KEY(fingerprint, what, form, variant, place, pass))"
    " WITHOUT ROWID;"
    "INSERT INTO samples SELECT fingerprint, what, form, '', place, pass, work,"
    "  seconds, count, measured FROM samples_4;"
    "DROP TABLE samples_4;"
    "CREATE VIEW points AS"
    " SELECT fingerprint, what, form, variant, place, work,"
    "  avg(seconds) AS mean_s,"
    "  sqrt(max(0, avg(seconds * seconds) - avg(seconds) * avg(seconds)))"
    "   AS deviation_s,"
    "  sum(count) AS count, max(measured) AS measured"
    " FROM samples GROUP BY fingerprint, what, form, variant, place;";

/* Steps are counted from 1, as everywhere else. (A number that is taken may not
 * be written, not even for a moment.) */
static const char store_schema_6[] =
    "UPDATE steps SET step = -1 - step;"
    "UPDATE steps SET step = -step;"
    "UPDATE events SET step = step + 1;";

#endif
