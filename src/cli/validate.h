/* Inside `validate`: a table of measured runs, what each row means to us, what
 * is predicted of it, and how far off that is. */
#ifndef FS_CLI_VALIDATE_H
#define FS_CLI_VALIDATE_H

#include "base/csv.h"
#include "cli/cli.h"
#include "cost/framework.h"
#include "search/recipe/recipe.h"

/* A row as it stands. Numbers: 0 where the cell is empty; measured ones NAN. */
typedef struct validate_row {
    const char *id, *source, *task, *model, *arch, *gpu, *inter_link, *schedule,
        *recompute, *precision, *framework, *status, *vpp, *seq_len, *mem_kind;
    int64_t layers, hidden, ffn, heads, kv_heads, vocab, global_batch,
        micro_batch, grad_accum, gpus, gpu_mem_gb, gpus_per_node, tp, pp, dp,
        cp, ep, seq_par, zero_stage;
    double iter_time_s, tokens_per_s, samples_per_s, peak_mem_gb;
    const char *fault; /* what is no number, NULL */
} validate_row;

typedef struct validate_table {
    int32_t n;
    validate_row *rows;
} validate_table;
/* FS_INVALID: no table, or one without the columns that a row cannot be told
 * without. */
fs_status validate_read(const char *path, fs_arena *arena, fs_err *err,
                        validate_table *out);

/* What a row asks: `skip` says why it cannot be asked. */
typedef struct validate_case {
    const validate_row *row;
    const char *skip;
    const char *model;       /* zoo:.. */
    const char *cluster;     /* 2x8:NAME */
    double outer_bps;        /* of a node, where the row tells; 0 */
    double outer_efficiency; /* of that wire; 0: as usual */
    int32_t nics;
    bool tf32; /* products of floats run in tf32 */
    search_recipe recipe;
    const struct validate_source *source; /* NULL: nothing special */
    const cost_framework *framework; /* NULL: as our runtime would run it */
    const char *precision, *recompute, *optimizer;
    int64_t batch;
    double measured_s; /* NAN: no time is told */
    double measured_bytes;
    bool of_process;     /* these are the whole process's */
    bool out_of_memory;  /* is what was measured */
    const char *assumed; /* what the row does not tell and was taken; "" */
} validate_case;
/* What is known of a source's cluster beyond its rows: constants that were
 * fitted to it, few, and listed. */
typedef struct validate_source {
    const char *match;       /* part of the source's name */
    double outer_efficiency; /* of the wire between nodes; 0: as usual */
    double jitter;           /* cost_framework's; NAN: as the framework's */
    /* What its software reaches of a device's products; NULL: what is usual */
    const char *device;
    double matmul_efficiency;
    double attention_efficiency; /* the framework's there; 0: as usual */
    int32_t n_constants;
    const char *fitted_on;
} validate_source;

/* All of the data folder. */
typedef struct validate_frameworks {
    int32_t n, n_sources;
    cost_framework *at;
    validate_source *sources; /* of validation/sources.json */
} validate_frameworks;
fs_status validate_open_frameworks(const char *data_dir, fs_arena *arena,
                                   fs_err *err, validate_frameworks *out);
void validate_understand(const validate_row *row, const char *data_dir,
                         const validate_frameworks *frameworks, fs_arena *arena,
                         validate_case *out);

/* Where a step's time goes, on the devices that have most to do. */
typedef enum validate_part {
    VALIDATE_PRODUCTS, /* of matrices, convolutions */
    VALIDATE_ATTENTION,
    VALIDATE_REST, /* of forward and backward passes */
    VALIDATE_UPDATES,
    VALIDATE_COLLECTIVES, /* per micro-batch */
    VALIDATE_PER_STEP,    /* collectives per step */
    VALIDATE_MOVES,       /* between stages */
    VALIDATE_PARTS
} validate_part;

typedef struct validate_prediction {
    const char *failed; /* there is none: why; NULL */
    int32_t anchor; /* the row of fewest devices that it was told from; -1 */
    bool is_anchor; /* others were told from it: what it says is no error */
    double iteration_s, formula_s;
    double part_s[VALIDATE_PARTS];
    int64_t bytes;         /* of the fullest device: allocated, */
    int64_t process_bytes; /* and taken by the process */
    int64_t limit;         /* what it has */
    double wall_s;         /* it took */
} validate_prediction;
/* By a plan that is made, lowered and simulated; in the hand's own `c`. */
void validate_predict(cli *c, const validate_case *t, fs_arena *arena,
                      validate_prediction *out);

/* Convolutional networks and BERT on data parallel ranks are told from what was
 * measured of as many samples per device on the fewest devices (of several such
 * rows the first): what is predicted to come on top. How fast a framework's
 * kernels are is then measured, not predicted, as with every simulator that
 * profiles a device first. */
void validate_anchor(const validate_case *cases, int32_t n,
                     validate_prediction *predicted);

/* ---- scores ---- */
typedef struct validate_score {
    const char *source;
    int32_t rows,
        stated; /* predicted; and all of the source that tell a time */
    double mape, worst, bias; /* mean of |error|, largest |error|, mean error */
    double nearest;           /* mean |error| of the nearest other row; NAN */
    int32_t n_bytes;          /* rows whose memory is compared */
    double bytes_mape;
} validate_score;
typedef struct validate_group {
    const char *name; /* of plans of one network on one cluster */
    int32_t rows;
    double tau;    /* Kendall's tau-b */
    double regret; /* measured time of the chosen over the best's, less 1 */
} validate_group;
typedef struct validate_scores {
    int32_t n_sources, n_groups;
    validate_score *sources;
    validate_group *groups;
    double mape;        /* over rows */
    double source_mape; /* average over sources */
    double bytes_mape;  /* NAN: no row tells memory */
    double coverage;    /* rows predicted of those that state a configuration */
    int32_t verdicts, right; /* of out-of-memory rows */
} validate_scores;
/* Of n times each: rows, tau (NAN: all are alike) and regret. */
void validate_order(const double *measured, const double *predicted, int32_t n,
                    validate_group *out);
/* The runs of the databases that are the operands, each plan's beside what was
 * predicted of it. */
fs_status validate_runs(cli *c);
/* Error of time: predicted / measured - 1; NAN: none. */
double validate_error(const validate_case *t, const validate_prediction *p);
double validate_bytes_error(const validate_case *t,
                            const validate_prediction *p);
validate_scores validate_score_all(const validate_case *cases,
                                   const validate_prediction *predicted,
                                   int32_t n, fs_arena *arena);

#endif
