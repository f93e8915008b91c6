/* FILE.csv: rows of numbers. Columns feed the graph's inputs in order, as many
 * each as a sample has elements. The table is read and checked once and lies
 * as reals in a file of our own from then on, where rows are of one size. */
#include "config.h"
#include "exec/samples.h"

#include "base/csv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct table {
    const exec_opening *o;
    fs_csv csv;
    int32_t n;
    int32_t *column; /* [n] that feed, in the order of inputs */
    exec_inputs inputs;
    int64_t *limit; /* [inputs.n] integers are below it; -1: nobody says */
} table;

bool exec_is_csv(const char *spec)
{
    return exec_ends_with(spec, ".csv");
}

/* ---- columns ---- */

static fs_status choose_columns(table *t, fs_err *err)
{
    const char *said = t->o->options->columns;
    fs_arena *arena = t->o->arena;
    FS_VEC(int32_t) columns = {0};
    for (int32_t k = 0; !said && k < t->csv.n_columns; k++)
        fs_push(arena, &columns, k);
    for (const char *at = said; at;) {
        const size_t n = strcspn(at, ",");
        const char *name = fs_strndup(arena, at, n);
        const int32_t k = fs_csv_column(&t->csv, name);
        if (k < 0)
            return fs_fail(err, FS_INVALID, "%s:1: there is no column '%s'",
                           t->csv.path, name);
        fs_push(arena, &columns, k);
        at = at[n] ? at + n + 1 : NULL;
    }
    t->n = columns.n;
    t->column = columns.at;
    return FS_OK;
}

static int64_t sample_elements(const ir_tensor *input)
{
    return ir_shape_count(&input->shape) / input->shape.dim[0];
}

static fs_status check_inputs(table *t, fs_err *err)
{
    int64_t wanted = 0;
    fs_text names = {.arena = t->o->arena};
    t->inputs = exec_list_inputs(t->o->graph, t->o->arena);
    if (t->inputs.n == 0 || t->inputs.n > EXEC_MOST_FIELDS)
        return fs_fail(err, FS_INVALID,
                       "%s: it feeds 1 to %d inputs; this graph has %d",
                       t->csv.path, EXEC_MOST_FIELDS, t->inputs.n);
    t->limit = fs_new(t->o->arena, int64_t, t->inputs.n);
    for (int32_t i = 0; i < t->inputs.n; i++) {
        const ir_tensor *in = t->inputs.at[i];
        if (in->batch_axis != 0)
            return fs_fail(err, FS_INVALID,
                           "%s: input '%s' has not the batch as its first axis",
                           t->csv.path, in->name);
        wanted += sample_elements(in);
        fs_text_add(&names, "%s%s %lld", i ? ", " : "", in->name,
                    (long long)sample_elements(in));
        t->limit[i] = ir_dtype_is_float(in->dtype)
                          ? -1
                          : exec_count_values(t->o->graph, in, t->o->arena);
    }
    if (wanted != t->n)
        return fs_fail(err, FS_INVALID,
                       "%s: %d columns%s, but a sample of this graph takes "
                       "%lld (%s)",
                       t->csv.path, t->n,
                       t->o->options->columns ? " are named" : "",
                       (long long)wanted, names.at);
    return FS_OK;
}

/* ---- cells ---- */

static fs_status bad_cell(const table *t, int32_t row, int32_t column,
                          const char *why, fs_err *err)
{
    return fs_fail(err, FS_INVALID, "%s:%d: column %d (%s): '%.80s' %s",
                   t->csv.path, t->csv.line[row], column + 1,
                   t->csv.name[column],
                   t->csv.cell[(int64_t)row * t->csv.n_columns + column], why);
}

static fs_status read_cell(const table *t, int32_t row, int32_t column,
                           int32_t input, fs_err *err, double *out)
{
    const ir_dtype dtype = t->inputs.at[input]->dtype;
    const char *cell = t->csv.cell[(int64_t)row * t->csv.n_columns + column];
    char *end;
    const double value = strtod(cell, &end);
    const bool is_label = input == t->inputs.n - 1 && input > 0;
    while (*end == ' ' || *end == '\t')
        end++;
    if (end == cell || *end || !isfinite(value))
        return bad_cell(t, row, column, "is no number", err);
    if (!ir_dtype_is_float(dtype) && value != rint(value))
        return bad_cell(t, row, column, "is no whole number", err);
    if (t->limit[input] >= 0 &&
        !(value >= 0 && value < (double)t->limit[input]) &&
        !(is_label && value == -100))
        return bad_cell(
            t, row, column,
            fs_printf(t->o->arena, "is outside the %lld values of input '%s'",
                      (long long)t->limit[input], t->inputs.at[input]->name),
            err);
    *out = value;
    return FS_OK;
}

static fs_status read_row(const table *t, int32_t row, fs_err *err,
                          double *values)
{
    int32_t k = 0;
    if (t->csv.cells[row] != t->csv.n_columns)
        return fs_fail(err, FS_INVALID, "%s:%d: %d cells, there are %d columns",
                       t->csv.path, t->csv.line[row], t->csv.cells[row],
                       t->csv.n_columns);
    for (int32_t i = 0; i < t->inputs.n; i++)
        for (int64_t e = sample_elements(t->inputs.at[i]); e > 0; e--, k++)
            FS_TRY(read_cell(t, row, t->column[k], i, err, &values[k]));
    return FS_OK;
}

/* ---- fields ---- */

static fs_status fill_fields(const table *t, int file, fs_err *err,
                             exec_samples *s)
{
    int64_t shift = 0;
    for (int32_t i = 0; i < t->inputs.n; i++) {
        const ir_tensor *in = t->inputs.at[i];
        const int64_t n = sample_elements(in);
        const bool labels = i > 0 && i == t->inputs.n - 1;
        exec_field *f = &s->field[i];
        *f = (exec_field){.input = in,
                          .path = t->csv.path,
                          .file = file,
                          .element = EXEC_F64,
                          .step = t->n,
                          .wrap = (int64_t)t->csv.n_rows * t->n,
                          .shift = shift,
                          .view = {{1, 1, n}, {n, n, 1}, 2, -1, -1}};
        s->n_fields = i + 1;
        shift += n;
        if (ir_dtype_is_float(in->dtype) && !labels)
            FS_TRY(exec_normalize(t->o, 1.0, t->csv.n_rows, f, err));
    }
    const exec_scan scan = {t->csv.path, file, EXEC_F64, 0,
                            (int64_t)t->csv.n_rows * t->n};
    s->per_epoch = t->csv.n_rows;
    return exec_scan_file(&scan, NULL, NULL, err, &s->digest);
}

static fs_status spool_rows(const table *t, int file, fs_err *err)
{
    double *values = fs_new(t->o->arena, double, t->n);
    for (int32_t row = 0; row < t->csv.n_rows; row++) {
        FS_TRY(read_row(t, row, err, values));
        FS_TRY(
            exec_spool_write(file, values, (size_t)t->n * sizeof *values, err));
    }
    return FS_OK;
}

static fs_status read_table(table *t, fs_arena *cells, fs_err *err)
{
    FS_TRY(fs_csv_read(t->o->spec, cells, err, &t->csv));
    if (t->csv.n_rows == 0)
        return fs_fail(err, FS_INVALID, "%s: it has no rows", t->csv.path);
    FS_TRY(choose_columns(t, err));
    return check_inputs(t, err);
}

static fs_status open_table(table *t, fs_arena *cells, fs_err *err,
                            exec_samples *out)
{
    int file;
    FS_TRY(read_table(t, cells, err));
    FS_TRY(exec_spool_open(err, &file));
    fs_status status = spool_rows(t, file, err);
    if (status == FS_OK)
        status = fill_fields(t, file, err, out);
    if (status != FS_OK)
        close(file);
    return status;
}

fs_status exec_open_csv(const exec_opening *o, fs_err *err, exec_data *out)
{
    table t = {.o = o};
    exec_samples samples = {0};
    FS_TRY(exec_check_options(
        o, EXEC_SHUFFLES | EXEC_NORMALIZES | EXEC_HAS_COLUMNS, err));
    fs_arena *cells = fs_arena_create();
    const fs_status status = open_table(&t, cells, err, &samples);
    fs_arena_destroy(cells);
    FS_TRY(status);
    return exec_samples_open(o, &samples, err, out);
}
