/* Tables of text (RFC 4180): a line of names, then rows of as many cells. */
#ifndef FS_BASE_CSV_H
#define FS_BASE_CSV_H

#include "base/arena.h"
#include "base/status.h"

typedef struct fs_csv {
    const char *path;
    int32_t n_columns, n_rows;
    const char **name;    /* [n_columns], each another, or "" */
    const char **cell;    /* [n_rows][n_columns], never NULL */
    const int32_t *line;  /* [n_rows] of the file, where the row begins */
    const int32_t *cells; /* [n_rows] that it has: where these are not n_columns
                             what is missing is empty, what is more left out */
} fs_csv;

/* FS_INVALID names the line: a quote that does not end, a NUL, a name that
 * stands twice, no line at all. Empty lines are passed over, and the mark that
 * spreadsheets put before the first (U+FEFF). Lines end as any system ends
 * them; blanks around names are left out. */
fs_status fs_csv_read(const char *path, fs_arena *arena, fs_err *err,
                      fs_csv *out);
/* -1: there is none of that name, in capitals or not. */
int32_t fs_csv_column(const fs_csv *table, const char *name);

#endif
