/* Inside `validate`: a table of measured runs as it stands. */
#ifndef FS_CLI_VALIDATE_ROW_H
#define FS_CLI_VALIDATE_ROW_H

#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* What a cell tells: "1.50" is 1.5, and its last digit counts 0.01. */
typedef struct validate_figure {
    double at;    /* NAN: the cell is empty */
    double digit; /* it may be off by as much: rounded or cut there */
} validate_figure;
typedef const char *validate_TEXT; /* without blanks around it; "": empty */
typedef int64_t validate_COUNT;    /* 0: empty; -1 where 0 may be told */
typedef validate_figure validate_FIGURE;
typedef validate_figure validate_RATE; /* at may be 0 */

typedef struct validate_row {
#define VALIDATE_COLUMN(name, kind, ...) validate_##kind name;
#include "cli/validate_columns.def"
#undef VALIDATE_COLUMN
    int32_t line; /* of the file */
    /* Of options and notes (validate_options.c) */
    const char *untold, *taken; /* what is missing of the plan, and how its
                                   words were taken; NULL */
    int32_t n_stages;           /* told each; 0 */
    const int64_t *stage_layers, *stage_again; /* of these the first so many are
                                                  computed again */
    bool cut;          /* more or fewer cells than columns */
    bool one_batch;    /* no grad_accum: its batch is of one micro-batch each */
    const char *fault; /* what is no row of these columns; NULL */
} validate_row;

/* A column that nothing is known of. */
typedef struct validate_unknown {
    const char *name; /* "": it has none */
    const char *near; /* what may be meant; NULL */
    int32_t column;   /* from 1 */
} validate_unknown;

typedef struct validate_table {
    int32_t n, n_unknown;
    validate_row *rows;
    const validate_unknown *unknown;
} validate_table;
/* FS_INVALID: no table, or one without the columns that a row cannot be told
 * without. */
fs_status validate_read(const char *path, fs_arena *arena, fs_err *err,
                        validate_table *out);
/* Empty cells from what options and notes tell of a plan. */
void validate_read_options(fs_arena *arena, validate_row *row);
/* "1e9", "16", "16.0": a whole number from least to most, as in a cell. */
bool validate_read_count(const char *text, int64_t least, int64_t most,
                         int64_t *out);

#endif
