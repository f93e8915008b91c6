/* Inside `validate`: how far predictions are off, and what is told of it. */
#ifndef FS_CLI_VALIDATE_SCORE_H
#define FS_CLI_VALIDATE_SCORE_H

#include "cli/validate.h"
#include "report/report.h"

typedef struct validate_score {
    const char *source;
    int32_t simulated; /* of its rows: by another simulator, no run */
    double runs_mape;  /* of the others; NAN: there are none */
    int32_t rows,
        stated; /* predicted; and all of the source that tell a time */
    double mape, worst, bias; /* mean of |error|, largest |error|, mean error */
    double nearest;           /* mean |error| of the nearest other row; NAN */
    int32_t n_bytes;          /* rows whose memory is compared */
    double bytes_mape, nearest_bytes;
} validate_score;
typedef struct validate_group {
    const char *name;        /* of plans of one network on one cluster */
    const validate_row *row; /* one of them */
    int32_t rows;
    double tau;    /* Kendall's tau-b */
    double regret; /* measured time of the chosen over the best's, less 1 */
} validate_group;

/* Whether a row's plan fits into its devices, and what is predicted. */
typedef enum validate_verdict {
    VALIDATE_FITS,     /* it ran, as predicted; */
    VALIDATE_ALARM,    /* though predicted not to */
    VALIDATE_FORESEEN, /* out of memory, as predicted; */
    VALIDATE_MISSED,   /* though predicted to fit */
    VALIDATE_VERDICTS
} validate_verdict;
/* Of a row that is predicted. */
validate_verdict validate_verdict_of(const validate_case *t,
                                     const validate_prediction *p);

typedef struct validate_scores {
    int32_t n_sources, n_groups;
    validate_score *sources;
    validate_group *groups; /* the worst order first */
    double tau, regret;     /* means over groups; NAN: there are none */
    double mape;            /* over rows */
    double source_mape;     /* average over sources */
    double runs_mape;       /* likewise of what ran alone */
    double bytes_mape;      /* NAN: no row tells memory */
    double coverage; /* rows predicted of those that state a configuration */
    int32_t verdicts[VALIDATE_VERDICTS]; /* how many rows of each */
} validate_scores;
/* Of n times each: rows, tau (NAN: all are alike) and regret. */
void validate_order(const double *measured, const double *predicted, int32_t n,
                    validate_group *out);
/* Error of time: predicted / measured - 1; NAN: none. */
double validate_error(const validate_case *t, const validate_prediction *p);
double validate_bytes_error(const validate_case *t,
                            const validate_prediction *p);
validate_scores validate_score_all(const validate_case *cases,
                                   const validate_prediction *predicted,
                                   int32_t n, fs_arena *arena);

/* ---- what is told ---- */
typedef struct validate_all {
    int32_t n;
    const validate_case *cases;
    const validate_prediction *predicted;
    const validate_scores *scores;
} validate_all;
/* NULL: it was predicted. */
const char *validate_why_not(const validate_all *v, int32_t i);
/* Columns that nothing reads: a misspelt one would be taken for empty. */
void validate_tell_unknown(cli *c, const validate_table *table);
/* Into the JSON object and, for people, as tables. */
void validate_tell(cli *c, const validate_all *v);
/* -o: can it be drawn, FS_INVALID; it is drawn and told. */
fs_status validate_check_picture(cli *c);
fs_status validate_draw(cli *c, const report_scatter *scatter);
/* At most so many characters: of a name its begin, of a path its end. */
const char *validate_short(fs_arena *arena, const char *name, size_t most);
const char *validate_short_path(fs_arena *arena, const char *path, size_t most);

#endif
