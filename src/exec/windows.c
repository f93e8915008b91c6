/* Streams of ids: sample k is the window of T + 1 of them at
 * (k T) mod (n - T - 1), the first T being ids, the last T targets. */
#include "config.h"
#include "exec/samples.h"

#include "base/file.h"

#include <sys/stat.h>
#include <unistd.h>

static bool is_integer(ir_dtype dtype)
{
    return dtype == IR_I32 || dtype == IR_I64;
}

/* Ids, then targets, which are one later. */
static fs_status match_inputs(const exec_opening *o, const exec_windows *w,
                              fs_err *err, exec_samples *out)
{
    const exec_inputs inputs = exec_list_inputs(o->graph, o->arena);
    for (int32_t i = 0; i < inputs.n; i++) {
        const ir_tensor *t = inputs.at[i];
        if (i >= 2 || !is_integer(t->dtype) || t->shape.rank != 2 ||
            t->batch_axis != 0)
            return fs_fail(err, FS_INVALID,
                           "%s: it feeds integer inputs (batch, T), ids and "
                           "targets; this graph has input '%s'",
                           w->path, t->name);
        if (i && t->shape.dim[1] != inputs.at[0]->shape.dim[1])
            return fs_fail(err, FS_INVALID,
                           "%s: inputs '%s' and '%s' differ in length", w->path,
                           inputs.at[0]->name, t->name);
        out->field[out->n_fields++] =
            (exec_field){.input = t, .path = w->path, .shift = i};
    }
    if (inputs.n == 0)
        return fs_fail(err, FS_INVALID, "%s: the graph has no inputs", w->path);
    return FS_OK;
}

static fs_status count_ids(const exec_windows *w, int file, fs_err *err,
                           int64_t *out)
{
    struct stat stat;
    const int64_t each = exec_element_bytes(w->element);
    const int64_t bytes = fstat(file, &stat) == 0 ? stat.st_size : 0;
    if (bytes % each != 0)
        return fs_fail(err, FS_INVALID,
                       "%s: %lld bytes are no whole number of %s of %lld bytes",
                       w->path, (long long)bytes, w->plural, (long long)each);
    *out = bytes / each;
    return FS_OK;
}

static int64_t vocabulary(const exec_opening *o, const exec_samples *s)
{
    int64_t limit = -1;
    for (int32_t i = 0; i < s->n_fields; i++) {
        const int64_t n =
            exec_count_values(o->graph, s->field[i].input, o->arena);
        limit = n >= 0 && (limit < 0 || n < limit) ? n : limit;
    }
    return limit;
}

/* k T mod (n - T - 1) is 0 for every k. */
static const char *note_on(const exec_windows *w, int64_t n, int64_t window,
                           fs_arena *arena)
{
    if (window % (n - window - 1) != 0)
        return NULL;
    return fs_printf(arena,
                     "%s: every sample is the same window of %lld %s: the "
                     "file has only %lld",
                     w->path, (long long)window + 1, w->plural, (long long)n);
}

static fs_status read_ids(const exec_opening *o, const exec_windows *w,
                          int file, fs_err *err, exec_samples *s)
{
    int64_t n = 0;
    const int64_t window = s->field[0].input->shape.dim[1];
    FS_TRY(count_ids(w, file, err, &n));
    if (n < window + 2)
        return fs_fail(err, FS_INVALID,
                       "%s: too short: %lld %s, a window of %lld needs at "
                       "least %lld",
                       w->path, (long long)n, w->plural, (long long)window,
                       (long long)window + 2);
    const exec_scan scan = {w->path, file, w->element, 0, n};
    exec_range range = {.path = w->path,
                        .what = w->what,
                        .place = w->place,
                        .outside = "vocabulary",
                        .limit = vocabulary(o, s),
                        .per_place = 1};
    FS_TRY(exec_scan_file(&scan, exec_see_range, &range, err, &s->digest));
    const int64_t places = n - window - 1;
    for (int32_t i = 0; i < s->n_fields; i++) {
        exec_field *f = &s->field[i];
        f->file = file;
        f->element = w->element;
        f->step = window;
        f->wrap = places;
        f->view = (exec_view){{1, 1, window}, {window, window, 1}, -1, -1, -1};
    }
    s->per_epoch = places > window ? places / window : 1;
    s->note = note_on(w, n, window, o->arena);
    return FS_OK;
}

fs_status exec_open_windows(const exec_opening *o, const exec_windows *w,
                            fs_err *err, exec_data *out)
{
    int file;
    exec_samples samples = {0};
    FS_TRY(exec_check_options(o, EXEC_SHUFFLES, err));
    FS_TRY(match_inputs(o, w, err, &samples));
    FS_TRY(fs_input_open(w->path, err, &file));
    const fs_status status = read_ids(o, w, file, err, &samples);
    if (status != FS_OK) {
        close(file);
        return status;
    }
    return exec_samples_open(o, &samples, err, out);
}
