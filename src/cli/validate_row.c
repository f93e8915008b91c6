/* Reading a table of measured runs. */
#include "config.h"
#include "cli/validate.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef enum cell_kind { CELL_TEXT, CELL_COUNT, CELL_REAL } cell_kind;

typedef struct column {
    const char *name;
    cell_kind kind;
    bool needed;
    size_t at;
} column;

#define COLUMN(kind, needed, name)                                             \
    {                                                                          \
#name, kind, needed, offsetof(validate_row, name)                      \
    }
static const column columns[] = {
    COLUMN(CELL_TEXT, true, id),
    COLUMN(CELL_TEXT, false, source),
    COLUMN(CELL_TEXT, false, source_ref),
    COLUMN(CELL_TEXT, false, evidence),
    COLUMN(CELL_TEXT, false, task),
    COLUMN(CELL_TEXT, false, model),
    COLUMN(CELL_TEXT, true, arch),
    COLUMN(CELL_TEXT, true, gpu),
    COLUMN(CELL_TEXT, false, inter_link),
    COLUMN(CELL_TEXT, false, schedule),
    COLUMN(CELL_TEXT, false, recompute),
    COLUMN(CELL_TEXT, false, precision),
    COLUMN(CELL_TEXT, false, framework),
    COLUMN(CELL_TEXT, false, status),
    COLUMN(CELL_TEXT, false, vpp),
    COLUMN(CELL_TEXT, false, seq_len),
    COLUMN(CELL_TEXT, false, mem_kind),
    COLUMN(CELL_COUNT, false, layers),
    COLUMN(CELL_COUNT, false, hidden),
    COLUMN(CELL_COUNT, false, ffn),
    COLUMN(CELL_COUNT, false, heads),
    COLUMN(CELL_COUNT, false, kv_heads),
    COLUMN(CELL_COUNT, false, vocab),
    COLUMN(CELL_COUNT, true, global_batch),
    COLUMN(CELL_COUNT, false, micro_batch),
    COLUMN(CELL_COUNT, false, grad_accum),
    COLUMN(CELL_COUNT, true, gpus),
    COLUMN(CELL_COUNT, false, gpu_mem_gb),
    COLUMN(CELL_COUNT, false, gpus_per_node),
    COLUMN(CELL_COUNT, false, tp),
    COLUMN(CELL_COUNT, false, pp),
    COLUMN(CELL_COUNT, false, dp),
    COLUMN(CELL_COUNT, false, cp),
    COLUMN(CELL_COUNT, false, ep),
    COLUMN(CELL_COUNT, false, seq_par),
    COLUMN(CELL_COUNT, false, zero_stage),
    COLUMN(CELL_REAL, false, iter_time_s),
    COLUMN(CELL_REAL, false, tokens_per_s),
    COLUMN(CELL_REAL, false, samples_per_s),
    COLUMN(CELL_REAL, false, peak_mem_gb),
};
enum { N_COLUMNS = sizeof columns / sizeof columns[0] };
#undef COLUMN

/* 1e9, 16, 16.0 */
static bool read_count(const char *cell, int64_t *out)
{
    char *end;
    errno = 0;
    const double value = strtod(cell, &end);
    *out = 0;
    if (!cell[0])
        return true;
    if (errno || *end || !(value >= 0 && value < 1e15) || value != floor(value))
        return false;
    *out = (int64_t)value;
    return true;
}

/* More than 0, or empty. */
static bool read_real(const char *cell, double *out)
{
    char *end;
    *out = NAN;
    if (!cell[0])
        return true;
    const double value = strtod(cell, &end);
    if (*end || !isfinite(value) || value < 0)
        return false;
    *out = value > 0 ? value : NAN;
    return true;
}

static void read_cell(const column *col, const char *cell, fs_arena *arena,
                      validate_row *out)
{
    char *at = (char *)out + col->at;
    bool good = true;
    if (col->kind == CELL_TEXT)
        *(const char **)at = cell;
    else if (col->kind == CELL_COUNT)
        good = read_count(cell, (int64_t *)at);
    else
        good = read_real(cell, (double *)at);
    if (!good && !out->fault)
        out->fault = fs_printf(
            arena, "%s is '%.40s', which is no %s", col->name, cell,
            col->kind == CELL_COUNT ? "whole number" : "number above 0");
}

static fs_status find_columns(const fs_csv *csv, fs_err *err,
                              int32_t at[N_COLUMNS])
{
    if (csv->n_columns == 1 && strchr(csv->name[0], ';'))
        return fs_fail(err, FS_INVALID,
                       "%s:1: cells are parted by semicolons: commas are "
                       "wanted (as a spreadsheet saves CSV where the decimal "
                       "mark is a point)",
                       csv->path);
    for (int32_t k = 0; k < N_COLUMNS; k++) {
        at[k] = fs_csv_column(csv, columns[k].name);
        if (at[k] < 0 && columns[k].needed)
            return fs_fail(err, FS_INVALID,
                           "%s:1: no column '%s': a table of measured runs has "
                           "the header of datasets/validation/published_runs"
                           ".csv",
                           csv->path, columns[k].name);
    }
    return FS_OK;
}

/* What a device has at once tells the batch where it is left out. */
static void fill_batch(validate_row *row)
{
    const int64_t most = INT64_C(1) << 40;
    if (row->global_batch || !row->micro_batch || row->dp > most)
        return;
    row->global_batch = row->micro_batch *
                        (row->grad_accum > 0 ? row->grad_accum : 1) *
                        (row->dp > 0 ? row->dp : 1);
}

fs_status validate_read(const char *path, fs_arena *arena, fs_err *err,
                        validate_table *out)
{
    fs_csv csv;
    int32_t at[N_COLUMNS];
    FS_TRY(fs_csv_read(path, arena, err, &csv));
    FS_TRY(find_columns(&csv, err, at));
    if (!csv.n_rows)
        return fs_fail(err, FS_INVALID, "%s has no rows", path);
    out->n = csv.n_rows;
    out->rows = fs_new(arena, validate_row, csv.n_rows);
    for (int32_t i = 0; i < csv.n_rows; i++) {
        validate_row *row = &out->rows[i];
        row->line = csv.line[i];
        if (csv.cells[i] != csv.n_columns)
            row->fault =
                fs_printf(arena, "%s:%d: %d cells, but there are %d columns",
                          path, row->line, csv.cells[i], csv.n_columns);
        for (int32_t k = 0; k < N_COLUMNS; k++)
            read_cell(&columns[k],
                      at[k] < 0 ? "" : csv.cell[i * csv.n_columns + at[k]],
                      arena, row);
        fill_batch(row);
    }
    return FS_OK;
}
