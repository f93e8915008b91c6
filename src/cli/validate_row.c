/* Reading a table of measured runs: its columns, what each may tell. */
#include "config.h"
#include "cli/validate_row.h"

#include "base/csv.h"
#include "hw/devices.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef enum cell_kind { TEXT, COUNT, FIGURE, RATE } cell_kind;
typedef enum cell_need { FREE, HEADER, CELL } cell_need;

typedef struct column {
    const char *name;
    cell_kind kind;
    cell_need need;
    double least, most;
    const char *unit;
    size_t at;
} column;

static const column columns[] = {
#define VALIDATE_COLUMN(name, kind, need, least, most, unit)                   \
    {#name, kind, need, least, most, unit, offsetof(validate_row, name)},
#include "cli/validate_columns.def"
#undef VALIDATE_COLUMN
};
enum { N_COLUMNS = sizeof columns / sizeof columns[0] };

/* ---- cells ---- */

/* Digits, a point, an exponent: what strtod takes beyond that (0x10, inf) is no
 * number of a table. */
static bool read_number(const char *cell, double *out)
{
    char *end;
    if (!cell[0] || cell[strspn(cell, "+-0123456789.eE")])
        return false;
    *out = strtod(cell, &end);
    return !*end && isfinite(*out);
}

bool validate_read_count(const char *text, int64_t least, int64_t most,
                         int64_t *out)
{
    double value;
    if (!read_number(text, &value) || value != floor(value) ||
        !(value >= (double)least && value <= (double)most))
        return false;
    *out = (int64_t)value;
    return true;
}

/* "1.50" -> 0.01, "16e3" -> 1000 */
static double digit_of(const char *cell)
{
    const size_t mantissa = strcspn(cell, "eE");
    const char *point = memchr(cell, '.', mantissa);
    const double after = point ? (double)(cell + mantissa - point - 1) : 0;
    return pow(10, (cell[mantissa] ? atof(cell + mantissa + 1) : 0) - after);
}

/* "yes", "FALSE" as 1 and 0; any other as it is. */
static const char *truth_of(const char *cell)
{
    static const char *const words[][2] = {
        {"yes", "1"},   {"true", "1"}, {"on", "1"},   {"y", "1"}, {"no", "0"},
        {"false", "0"}, {"off", "0"},  {"none", "0"}, {"n", "0"}};
    for (size_t k = 0; k < sizeof words / sizeof words[0]; k++)
        if (strcasecmp(cell, words[k][0]) == 0)
            return words[k][1];
    return cell;
}

static void read_cell(const column *col, const char *cell, fs_arena *arena,
                      validate_row *out)
{
    char *at = (char *)out + col->at;
    const bool whole = col->kind == COUNT;
    const validate_figure none = {NAN, 0};
    double value = 0;
    if (col->kind == TEXT)
        *(const char **)at = cell;
    if (col->kind == FIGURE || col->kind == RATE)
        *(validate_figure *)at = none;
    if (whole && col->least <= 0)
        *(int64_t *)at = -1;
    if (!cell[0] && col->need == CELL && !out->fault)
        out->fault =
            fs_printf(arena, "%s is not told (line %d)", col->name, out->line);
    if (!cell[0] || col->kind == TEXT || out->fault)
        return;
    if (whole && col->least == 0 && col->most == 1)
        cell = truth_of(cell);
    if (!read_number(cell, &value) || (whole && value != floor(value)))
        out->fault = fs_printf(arena, "%s is '%.40s', which is no %snumber",
                               col->name, cell, whole ? "whole " : "");
    else if (!(value >= col->least && value <= col->most) &&
             !(col->kind == RATE && value == 0))
        out->fault =
            fs_printf(arena, "%s is '%.40s', must be from %.10g to %.10g (%s)",
                      col->name, cell, col->least, col->most, col->unit);
    else if (whole)
        *(int64_t *)at = (int64_t)value;
    else
        *(validate_figure *)at = (validate_figure){value, digit_of(cell)};
}

static const char *trim(const char *cell, fs_arena *arena)
{
    size_t n = strlen(cell);
    if (!n || (!isspace((unsigned char)cell[0]) &&
               !isspace((unsigned char)cell[n - 1])))
        return cell;
    while (isspace((unsigned char)*cell))
        cell++;
    n = strlen(cell);
    while (n > 0 && isspace((unsigned char)cell[n - 1]))
        n--;
    return fs_strndup(arena, cell, n);
}

/* ---- columns ---- */

static bool is_known(const char *name)
{
    for (int32_t k = 0; k < N_COLUMNS; k++)
        if (strcasecmp(columns[k].name, name) == 0)
            return true;
    return false;
}

/* A few edits make any short name of any other. */
static bool resembles(const char *name, const char *known)
{
    return strcasestr(name, known) || strcasestr(known, name) ||
           (strlen(name) > 3 && strlen(known) > 3 && hw_is_near(name, known));
}

/* What `name` may be a slip for, of the columns that the table is without. */
static const char *near_column(const bool absent[N_COLUMNS], const char *name)
{
    for (int32_t k = 0; k < N_COLUMNS && strlen(name) > 1; k++)
        if (absent[k] && resembles(name, columns[k].name))
            return columns[k].name;
    return NULL;
}

static void find_unknown(const fs_csv *csv, fs_arena *arena,
                         validate_table *out)
{
    FS_VEC(validate_unknown) found = {0};
    bool absent[N_COLUMNS];
    for (int32_t k = 0; k < N_COLUMNS; k++)
        absent[k] = fs_csv_column(csv, columns[k].name) < 0;
    for (int32_t k = 0; k < csv->n_columns; k++)
        if (!is_known(csv->name[k]))
            fs_push(arena, &found,
                    (validate_unknown){csv->name[k],
                                       near_column(absent, csv->name[k]),
                                       k + 1});
    out->n_unknown = found.n;
    out->unknown = found.at;
}

static fs_status fail_missing(const fs_csv *csv, const validate_table *table,
                              const char *name, fs_err *err)
{
    for (int32_t k = 0; k < table->n_unknown; k++)
        if (table->unknown[k].near && strcmp(table->unknown[k].near, name) == 0)
            return fs_fail(
                err, FS_INVALID,
                "%s:1: no column '%s': is column %d, '%.80s', meant?",
                csv->path, name, table->unknown[k].column,
                table->unknown[k].name);
    return fs_fail(err, FS_INVALID,
                   "%s:1: no column '%s': a table of measured runs has the "
                   "header of datasets/validation/published_runs.csv",
                   csv->path, name);
}

static fs_status find_columns(const fs_csv *csv, const validate_table *table,
                              fs_err *err, int32_t at[N_COLUMNS])
{
    /* fs_csv_read makes a tab printable */
    const bool one = csv->n_columns == 1;
    const char *other = one && strchr(csv->name[0], ';')   ? "semicolons"
                        : one && strchr(csv->name[0], '?') ? "tabs"
                                                           : NULL;
    if (other)
        return fs_fail(err, FS_INVALID,
                       "%s:1: cells are parted by %s: commas are "
                       "wanted (as a spreadsheet saves CSV where the decimal "
                       "mark is a point)",
                       csv->path, other);
    for (int32_t k = 0; k < N_COLUMNS; k++) {
        at[k] = fs_csv_column(csv, columns[k].name);
        if (at[k] < 0 && columns[k].need != FREE)
            return fail_missing(csv, table, columns[k].name, err);
    }
    return FS_OK;
}

/* ---- rows ---- */

static int64_t or_one(int64_t told)
{
    return told > 0 ? told : 1;
}

/* What a device has at once tells the batch where it is left out. */
static void fill_batch(fs_arena *arena, validate_row *row)
{
    /* each is 1e9 at most */
    const int64_t rank = row->micro_batch * or_one(row->grad_accum);
    const int64_t rest =
        or_one(row->tp) * or_one(row->pp) * or_one(row->cp); /* 1e18 */
    const int64_t dp = row->dp              ? row->dp
                       : row->tp || row->pp ? or_one(row->gpus / rest)
                                            : 1;
    int64_t batch;
    if (row->fault || row->global_batch || !row->micro_batch)
        return;
    if (__builtin_mul_overflow(rank, dp, &batch) || batch > 1000000000) {
        row->fault = fs_printf(arena,
                               "global_batch is not told, and %lld samples on "
                               "each of %lld ranks are no batch",
                               (long long)rank, (long long)dp);
        return;
    }
    row->global_batch = batch;
    row->one_batch = !row->grad_accum;
}

static void read_row(const fs_csv *csv, int32_t i, const int32_t at[N_COLUMNS],
                     fs_arena *arena, validate_row *out)
{
    out->line = csv->line[i];
    out->cut = csv->cells[i] != csv->n_columns;
    if (out->cut)
        out->fault =
            fs_printf(arena, "%s:%d: %d cells, but there are %d columns",
                      csv->path, out->line, csv->cells[i], csv->n_columns);
    for (int32_t k = 0; k < N_COLUMNS; k++) {
        const char *cell =
            at[k] < 0 ? "" : csv->cell[i * csv->n_columns + at[k]];
        read_cell(&columns[k], trim(cell, arena), arena, out);
    }
    validate_read_options(arena, out);
    fill_batch(arena, out);
}

fs_status validate_read(const char *path, fs_arena *arena, fs_err *err,
                        validate_table *out)
{
    fs_csv csv;
    int32_t at[N_COLUMNS];
    FS_TRY(fs_csv_read(path, arena, err, &csv));
    find_unknown(&csv, arena, out);
    FS_TRY(find_columns(&csv, out, err, at));
    if (!csv.n_rows)
        return fs_fail(err, FS_INVALID, "%s has no rows", path);
    out->n = csv.n_rows;
    out->rows = fs_new(arena, validate_row, csv.n_rows);
    for (int32_t i = 0; i < csv.n_rows; i++)
        read_row(&csv, i, at, arena, &out->rows[i]);
    return FS_OK;
}
