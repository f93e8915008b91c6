/* How the samples of a file become those of an input: the order of axes, and
 * the scale of values. */
#include "config.h"
#include "exec/samples.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- axes ---- */

/* Axes that are longer than 1. */
static ir_shape squeeze(const ir_shape *shape, int32_t from)
{
    ir_shape out = {0};
    for (int32_t d = from; d < shape->rank; d++)
        if (shape->dim[d] != 1)
            out.dim[out.rank++] = shape->dim[d];
    return out;
}

static bool is_channels(int64_t n)
{
    return n == 1 || n == 3 || n == 4;
}

/* In the file's own order. Of three axes the first are channels, unless only
 * the last looks like it. */
static exec_view direct_view(const ir_shape *lies)
{
    const int32_t n = lies->rank;
    if (n < 2 || n > 3) {
        const int64_t count = ir_shape_count(lies);
        return (exec_view){{1, 1, count}, {count, count, 1}, -1, -1, -1};
    }
    exec_view view = {
        .dim = {n == 3 ? lies->dim[0] : 1, lies->dim[n - 2], lies->dim[n - 1]},
        .channel = 0,
        .row = 1,
        .column = 2};
    if (n == 3 && is_channels(view.dim[2]) && !is_channels(view.dim[0])) {
        view.channel = 2;
        view.row = 0;
        view.column = 1;
    }
    view.stride[2] = 1;
    view.stride[1] = view.dim[2];
    view.stride[0] = view.dim[1] * view.dim[2];
    return view;
}

/* (H, W, C) of the file as (C, H, W) of the input, or the other way round. */
static bool turned_view(const ir_shape *lies, const ir_tensor *input,
                        exec_view *out)
{
    if (lies->rank != 3 || input->shape.rank != 4)
        return false;
    const int64_t *in = input->shape.dim + 1, *f = lies->dim;
    if (in[0] == f[2] && in[1] == f[0] && in[2] == f[1]) {
        *out =
            (exec_view){{in[0], in[1], in[2]}, {1, f[1] * f[2], f[2]}, 0, 1, 2};
        return true;
    }
    if (in[0] == f[1] && in[1] == f[2] && in[2] == f[0]) {
        *out =
            (exec_view){{in[0], in[1], in[2]}, {f[2], 1, f[1] * f[2]}, 2, 0, 1};
        return true;
    }
    return false;
}

fs_status exec_view_of(const char *path, const ir_shape *lies,
                       const ir_tensor *input, fs_err *err, exec_view *out)
{
    const ir_shape a = squeeze(lies, 0), b = squeeze(&input->shape, 1);
    char had[160], wanted[160];
    ir_shape one = {.rank = input->shape.rank - 1};
    memcpy(one.dim, input->shape.dim + 1, (size_t)one.rank * sizeof *one.dim);
    const bool is_flat = b.rank <= 1;
    if (ir_shape_equal(&a, &b) ||
        (is_flat && ir_shape_count(&a) == ir_shape_count(&b))) {
        *out = direct_view(lies);
        return FS_OK;
    }
    if (turned_view(lies, input, out))
        return FS_OK;
    return fs_fail(
        err, FS_INVALID, "%s: a sample is %s; one of input '%s' is %s", path,
        ir_shape_text(had, lies), input->name, ir_shape_text(wanted, &one));
}

/* ---- scale ---- */

typedef struct sums {
    const exec_field *field;
    int64_t elements, n_channels;
    double *sum, *squares;
} sums;

static fs_status add_up(void *ctx, const double *values, int64_t first,
                        int64_t n, fs_err *err)
{
    const sums *s = ctx;
    const exec_field *f = s->field;
    const int32_t axis = f->view.channel;
    (void)err;
    for (int64_t i = 0; i < n; i++) {
        const int64_t e = (first + i) % f->step - f->shift;
        if (e < 0 || e >= s->elements)
            continue;
        const int64_t c =
            axis < 0 ? 0 : e / f->view.stride[axis] % f->view.dim[axis];
        s->sum[c] += values[i];
        s->squares[c] += values[i] * values[i];
    }
    return FS_OK;
}

/* One whose values are all equal is only centred. */
static fs_status measure(const exec_opening *o, int64_t records, sums *s,
                         double *scale, double *add, fs_err *err)
{
    const exec_field *f = s->field;
    uint64_t digest = 0;
    const exec_scan scan = {f->path, f->file, f->element, f->first,
                            records * f->step};
    s->sum = fs_new(o->arena, double, s->n_channels);
    s->squares = fs_new(o->arena, double, s->n_channels);
    FS_TRY(exec_scan_file(&scan, add_up, s, err, &digest));
    const double n = (double)records * (double)(s->elements / s->n_channels);
    for (int64_t c = 0; c < s->n_channels; c++) {
        const double mean = s->sum[c] / n;
        const double variance = s->squares[c] / n - mean * mean;
        scale[c] = variance > 0 ? 1 / sqrt(variance) : 1;
        add[c] = -mean * scale[c];
    }
    return FS_OK;
}

/* "MEAN/STD" at `at`; what is behind it, NULL: there is no such thing, or only
 * its STD is none (*flat). */
static const char *parse_pair(const char *at, double unit, double *scale,
                              double *add, bool *flat)
{
    char *end;
    const double mean = strtod(at, &end);
    if (end == at || *end != '/')
        return NULL;
    at = end + 1;
    const double deviation = strtod(at, &end);
    if (end == at || !isfinite(mean) || !isfinite(deviation))
        return NULL;
    *flat = deviation <= 0;
    if (*flat)
        return NULL;
    *scale = unit / deviation;
    *add = -mean / deviation;
    return end;
}

static fs_status parse_pairs(const exec_opening *o, double unit, int64_t n,
                             exec_field *field, double *scale, double *add,
                             fs_err *err)
{
    const char *at = o->options->normalize;
    int64_t said = 0;
    bool flat = false;
    while (at && said < n) {
        at = parse_pair(at, unit, &scale[said], &add[said], &flat);
        said += at != NULL;
        if (!at || *at != ',')
            break;
        at++;
    }
    if (flat)
        return fs_fail(err, FS_INVALID,
                       "--normalize %s: STD, which values are divided by, "
                       "must be above 0",
                       o->options->normalize);
    if (!at || *at || (said != 1 && said != n))
        return fs_fail(err, FS_INVALID,
                       "--normalize %s: wanted is data, or MEAN/STD for all "
                       "or for each of the %lld channels of input '%s'",
                       o->options->normalize, (long long)n, field->input->name);
    field->n_channels = said;
    return FS_OK;
}

fs_status exec_normalize(const exec_opening *o, double unit, int64_t records,
                         exec_field *field, fs_err *err)
{
    const exec_view *view = &field->view;
    const char *said = o->options->normalize;
    const int64_t n = view->channel < 0 ? 1 : view->dim[view->channel];
    double *scale = fs_new(o->arena, double, n), *add;
    add = fs_new(o->arena, double, n);
    field->scale = scale;
    field->add = add;
    if (!said) {
        scale[0] = unit;
        field->n_channels = unit != 1;
        return FS_OK;
    }
    if (strcmp(said, "data") != 0)
        return parse_pairs(o, unit, n, field, scale, add, err);
    sums s = {.field = field,
              .elements = view->dim[0] * view->dim[1] * view->dim[2],
              .n_channels = n};
    field->n_channels = n;
    return measure(o, records, &s, scale, add, err);
}
