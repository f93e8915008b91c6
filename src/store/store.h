/* One SQLite file holds everything a study needs to be reproduced. The only
 * place that knows SQLite. */
#ifndef FS_STORE_STORE_H
#define FS_STORE_STORE_H

#include "plan/timing.h"

enum { STORE_SCHEMA_VERSION = 6 };

typedef struct store_db store_db;
/* Opens or creates. A locked file (after 10 s), one of a newer schema, or one
 * that is no database is FS_INVALID, said so, left untouched. */
fs_status store_open(const char *path, fs_err *err, store_db **out);
/* Likewise, but a file that is not there is FS_INVALID and not created. */
fs_status store_open_existing(const char *path, fs_err *err, store_db **out);
/* For queries only: likewise, and a file, or a folder, that cannot be written
 * is read as it stands; *read_only then. */
fs_status store_open_reading(const char *path, fs_err *err, store_db **out,
                             bool *read_only);
void store_close(store_db *db);
/* Likewise, and takes away a file that was made when it was opened and that
 * holds no run: what could not be begun leaves nothing. */
void store_discard(store_db *db);

/* A run is a command that computes. Text fields may be NULL. Begins with the
 * command line, ends with its outcome; both in one transaction each. */
typedef struct store_run {
    const char *command; /* "search" */
    const char *command_line;
    const char *version, *host;
    const char *model, *cluster; /* specs */
    uint64_t model_digest, cluster_digest, plan_digest;
    uint64_t seed;
} store_run;
fs_status store_run_begin(store_db *db, const store_run *run, fs_err *err,
                          int64_t *id);
/* Digests that became known after the run began. */
fs_status store_run_plan(store_db *db, int64_t id, uint64_t model_digest,
                         uint64_t cluster_digest, uint64_t plan_digest,
                         fs_err *err);
/* Outcome: status 0..3, the command's JSON object as text, message or NULL. */
fs_status store_run_end(store_db *db, int64_t id, int status, const char *json,
                        const char *message, fs_err *err);

/* Figures that can be queried: (run, name, value, unit). */
fs_status store_figure(store_db *db, int64_t run, const char *name,
                       double value, const char *unit, fs_err *err);
/* skipped: left out by a loss scale; NULL: none was. */
typedef struct store_steps {
    int64_t n, first; /* from 0; kept from 1 */
    const double *losses, *step_s;
    const bool *skipped;
} store_steps;
fs_status store_losses(store_db *db, int64_t run, const store_steps *steps,
                       fs_err *err);
/* The text of a plan file, of a cluster file (all that the plan was made for,
 * measured figures too), and what a model is: each kept once per digest. */
fs_status store_plan(store_db *db, uint64_t digest, const char *json,
                     fs_err *err);
fs_status store_cluster(store_db *db, uint64_t digest, const char *json,
                        fs_err *err);
typedef struct store_model_facts {
    const char *path, *name;
    int64_t params, param_bytes;
} store_model_facts;
fs_status store_model(store_db *db, uint64_t digest,
                      const store_model_facts *facts, fs_err *err);
/* Of a step of more than so many events the micro-batches at its ends are kept,
 * as many as there is room for: a run's rows are bounded. */
enum { STORE_EVENTS = 1 << 16 };
fs_status store_trace(store_db *db, int64_t run, const plan *p,
                      const plan_trace *trace, fs_err *err);
/* Measured timing of a run, read back for `sim --timing RUN`. FS_INVALID: it
 * is of another plan; tasks have no row (how many, and the first); a row names
 * no task, or holds what is no number of 0 or more. */
fs_status store_timing(store_db *db, int64_t run, const plan *p,
                       const plan_timing *timing, fs_err *err);
fs_status store_timing_read(store_db *db, int64_t run, const ir_graph *graph,
                            const plan *p, fs_arena *arena, fs_err *err,
                            plan_timing **out);

/* Seconds of a rank and step by kind of task, predicted and measured. */
typedef struct store_residual {
    const char *kind, *what;
    double firings, predicted_s, measured_s;
} store_residual;
fs_status store_residuals(store_db *db, int64_t run, const store_residual *rows,
                          int32_t n, fs_err *err);

/* What was measured of a machine, by its fingerprint: samples are kept as they
 * come, so that measuring can be broken off and taken up again. */
typedef struct store_sample {
    const char *what, *variant; /* of several kernels the one; NULL */
    uint64_t form;
    bool in_step; /* measured within one; else alone */
    int32_t pass, count;
    double work, seconds;
} store_sample;
fs_status store_machine(store_db *db, uint64_t fingerprint, const char *host,
                        const char *facts, fs_err *err);
fs_status store_samples(store_db *db, uint64_t fingerprint,
                        const store_sample *samples, int32_t n, fs_err *err);
fs_status store_samples_read(store_db *db, uint64_t fingerprint,
                             fs_arena *arena, fs_err *err, store_sample **out,
                             int32_t *n);
/* How many passes within steps there are. */
fs_status store_samples_passes(store_db *db, uint64_t fingerprint, fs_err *err,
                               int32_t *out);
fs_status store_samples_forget(store_db *db, uint64_t fingerprint, fs_err *err);

/* Key-value cache with JSON text (the probe of this host). FS_NO: not there. */
fs_status store_cache_put(store_db *db, const char *key, const char *json,
                          fs_err *err);
fs_status store_cache_get(store_db *db, const char *key, fs_arena *arena,
                          fs_err *err, const char **json);

/* One SELECT, nothing else (no ATTACH, no PRAGMA): rows handed to `row` as
 * texts (NULL for SQL NULL; a BLOB as x'00ff', cut after 32 bytes with its
 * count: x'00ff..' (1234 bytes)). */
typedef void store_row_fn(void *ctx, int n, const char *const *columns,
                          const char *const *values);
fs_status store_query(store_db *db, const char *sql, store_row_fn *row,
                      void *ctx, fs_err *err);

#endif
