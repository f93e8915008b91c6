/* How far predictions are off: inside `validate`. */
#ifndef FS_CLI_VALIDATE_SCORE_H
#define FS_CLI_VALIDATE_SCORE_H

#include "cli/validate.h"

typedef struct validate_score {
    const char *source;
    bool simulated; /* rows that were: they count for nothing beyond this */
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
