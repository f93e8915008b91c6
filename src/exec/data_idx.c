/* IMAGES,LABELS: files of the IDX format (http://yann.lecun.com/exdb/mnist/),
 * as they are or compressed by gzip. The first axis counts samples. */
#include "config.h"
#include "exec/samples.h"

#include "base/file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

typedef struct idx_file {
    const char *path;
    int file;
    exec_element element;
    int64_t first, samples;
    ir_shape lies; /* of a sample */
} idx_file;

bool exec_is_idx(const char *spec)
{
    return strchr(spec, ',') || strstr(spec, "idx") || strstr(spec, "ubyte");
}

/* ---- gzip ---- */

enum { PART = 1 << 16 };

typedef struct inflating {
    const char *path;
    int from, to;
    int64_t read;  /* bytes of the file, so far */
    int64_t ended; /* the last stream, at this byte; 0: none has */
    z_stream z;
    unsigned char in[PART], out[PART];
} inflating;

static fs_status broken(const inflating *f, const char *what, fs_err *err)
{
    return fs_fail(err, FS_INVALID, "%s: %s", f->path, what);
}

/* What has been read; a stream may stand behind another. */
static fs_status inflate_part(inflating *f, fs_err *err)
{
    int code = Z_OK;
    while (f->z.avail_in > 0 || (code == Z_OK && f->z.avail_out == 0)) {
        const bool begins = f->z.total_in == 0;
        f->z.next_out = f->out;
        f->z.avail_out = PART;
        code = inflate(&f->z, Z_NO_FLUSH);
        FS_TRY(exec_spool_write(f->to, (const char *)f->out,
                                PART - f->z.avail_out, err));
        if (code == Z_STREAM_END) {
            f->ended = f->read - f->z.avail_in;
            code = inflateReset(&f->z);
        }
        if (code == Z_DATA_ERROR && begins && f->ended > 0)
            return fs_fail(err, FS_INVALID,
                           "%s: its gzip stream ends at byte %lld, and what "
                           "stands behind that is none",
                           f->path, (long long)f->ended);
        if (code != Z_OK && code != Z_BUF_ERROR)
            return broken(f, "not a gzip stream, or a broken one", err);
    }
    return FS_OK;
}

static fs_status inflate_all(inflating *f, fs_err *err)
{
    ssize_t n;
    while ((n = pread(f->from, f->in, PART, f->read)) > 0) {
        f->read += n;
        f->z.next_in = f->in;
        f->z.avail_in = (unsigned)n;
        FS_TRY(inflate_part(f, err));
    }
    if (n < 0)
        return broken(f, strerror(errno), err);
    return f->ended == f->read
               ? FS_OK
               : broken(f, "cut short: the gzip stream does not end", err);
}

/* In the place of the file, one that can be read from anywhere. */
static fs_status inflate_file(idx_file *f, fs_err *err)
{
    enum { WINDOW_BITS = 15, OF_GZIP = 16 };
    int plain;
    inflating *all = fs_malloc(sizeof *all);
    memset(all, 0, sizeof *all);
    if (inflateInit2(&all->z, WINDOW_BITS + OF_GZIP) != Z_OK) {
        free(all);
        return fs_fail(err, FS_FAULT, "%s: no memory to inflate it", f->path);
    }
    fs_status status = exec_spool_open(err, &plain);
    if (status == FS_OK) {
        all->path = f->path;
        all->from = f->file;
        all->to = plain;
        status = inflate_all(all, err);
        if (status == FS_OK) {
            close(f->file);
            f->file = plain;
        } else {
            close(plain);
        }
    }
    inflateEnd(&all->z);
    free(all);
    return status;
}

static bool is_gzip(int file)
{
    unsigned char magic[2] = {0};
    return pread(file, magic, 2, 0) == 2 && magic[0] == 0x1f &&
           magic[1] == 0x8b;
}

/* ---- the header ---- */

static bool element_of(int type, exec_element *out)
{
    static const struct {
        int type;
        exec_element element;
    } types[] = {{0x08, EXEC_U8},      {0x09, EXEC_I8},
                 {0x0b, EXEC_I16_BIG}, {0x0c, EXEC_I32_BIG},
                 {0x0d, EXEC_F32_BIG}, {0x0e, EXEC_F64_BIG}};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (types[i].type == type) {
            *out = types[i].element;
            return true;
        }
    return false;
}

static fs_status read_magic(idx_file *f, fs_err *err, int32_t *rank)
{
    unsigned char magic[4] = {0};
    const ssize_t n = pread(f->file, magic, sizeof magic, 0);
    if (n != sizeof magic || magic[0] || magic[1] ||
        !element_of(magic[2], &f->element) || magic[3] < 1 ||
        magic[3] > IR_MAX_RANK)
        return fs_fail(err, FS_INVALID,
                       "%s: not an IDX file: it begins with %02x %02x %02x "
                       "%02x, not with 00 00, a type and a number of axes",
                       f->path, magic[0], magic[1], magic[2], magic[3]);
    *rank = magic[3];
    return FS_OK;
}

static fs_status read_axes(idx_file *f, int32_t rank, fs_err *err)
{
    unsigned char bytes[4 * IR_MAX_RANK] = {0};
    double axes[IR_MAX_RANK];
    struct stat stat;
    int64_t count = exec_element_bytes(f->element);
    f->first = 4 + 4 * rank;
    if (pread(f->file, bytes, 4 * (size_t)rank, 4) != 4 * rank)
        return fs_fail(err, FS_INVALID, "%s: byte %d: cut short", f->path, 4);
    exec_decode(EXEC_I32_BIG, (const char *)bytes, rank, axes);
    f->samples = (int64_t)axes[0];
    f->lies.rank = rank - 1;
    for (int32_t d = 0; d < rank; d++) {
        if (axes[d] < 1 ||
            __builtin_mul_overflow(count, (int64_t)axes[d], &count))
            return fs_fail(err, FS_INVALID, "%s: axis %d is %.0f long", f->path,
                           d, axes[d]);
        if (d > 0)
            f->lies.dim[d - 1] = (int64_t)axes[d];
    }
    const int64_t bytes_there = fstat(f->file, &stat) == 0 ? stat.st_size : 0;
    const int64_t bytes_said = f->first + count;
    if (bytes_there == bytes_said)
        return FS_OK;
    return fs_fail(
        err, FS_INVALID,
        "%s: %s: by its header it has %lld samples, %lld bytes, and "
        "%lld are there",
        f->path,
        bytes_there < bytes_said ? "cut short" : "more than its header says",
        (long long)f->samples, (long long)bytes_said, (long long)bytes_there);
}

static fs_status open_file(const char *path, fs_err *err, idx_file *out)
{
    idx_file f = {.path = path};
    int32_t rank = 0;
    FS_TRY(fs_input_open(path, err, &f.file));
    fs_status status = is_gzip(f.file) ? inflate_file(&f, err) : FS_OK;
    if (status == FS_OK)
        status = read_magic(&f, err, &rank);
    if (status == FS_OK)
        status = read_axes(&f, rank, err);
    if (status == FS_OK)
        *out = f;
    else
        close(f.file);
    return status;
}

/* ---- inputs ---- */

static bool is_real(exec_element element)
{
    return element == EXEC_F32_BIG || element == EXEC_F64_BIG;
}

/* Samples, then labels: by order, unless only the first input is of integers
 * or truths. */
static fs_status list_inputs(const exec_opening *o, int32_t files, fs_err *err,
                             const ir_tensor *out[2])
{
    const exec_inputs inputs = exec_list_inputs(o->graph, o->arena);
    if (inputs.n != files)
        return fs_fail(err, FS_INVALID,
                       "%s: %d file%s, but this graph has %d input%s%s%s%s",
                       o->spec, files, files == 1 ? "" : "s", inputs.n,
                       inputs.n == 1 ? "" : "s", inputs.n ? ": '" : "",
                       inputs.n ? inputs.at[inputs.n - 1]->name : "",
                       inputs.n ? "' is the last" : "");
    const bool turned = files == 2 && !ir_dtype_is_float(inputs.at[0]->dtype) &&
                        ir_dtype_is_float(inputs.at[1]->dtype);
    for (int32_t i = 0; i < files; i++) {
        const ir_tensor *t = inputs.at[turned ? files - 1 - i : i];
        if (t->batch_axis != 0)
            return fs_fail(err, FS_INVALID,
                           "%s: input '%s' has not the batch as its first axis",
                           o->spec, t->name);
        out[i] = t;
    }
    return FS_OK;
}

static fs_status check_values(const exec_opening *o, const idx_file *f,
                              const ir_tensor *input, bool labels, fs_err *err,
                              uint64_t *digest)
{
    const bool integers = !ir_dtype_is_float(input->dtype);
    if (integers && is_real(f->element))
        return fs_fail(err, FS_INVALID,
                       "%s: its values are reals; input '%s' is %s", f->path,
                       input->name, ir_dtype_name(input->dtype));
    const int64_t each = ir_shape_count(&f->lies);
    const exec_scan scan = {f->path, f->file, f->element, f->first,
                            f->samples * each};
    exec_range range = {
        .path = f->path,
        .what = labels ? "label" : "value",
        .place = "sample",
        .outside = labels ? "classes" : "values",
        .limit = integers ? exec_count_values(o->graph, input, o->arena) : -1,
        .per_place = each,
        .or_none = labels};
    return exec_scan_file(&scan, exec_see_range, &range, err, digest);
}

static fs_status take_file(const exec_opening *o, const idx_file *f,
                           const ir_tensor *input, bool labels, fs_err *err,
                           exec_samples *s)
{
    const bool floats = ir_dtype_is_float(input->dtype);
    exec_field *field = &s->field[labels];
    *field = (exec_field){.input = input,
                          .path = f->path,
                          .file = f->file,
                          .element = f->element,
                          .first = f->first,
                          .step = ir_shape_count(&f->lies)};
    field->wrap = f->samples * field->step;
    FS_TRY(exec_view_of(f->path, &f->lies, input, err, &field->view));
    field->is_image = field->view.row >= 0;
    FS_TRY(check_values(o, f, input, labels, err, &s->digest));
    if (labels || !floats)
        return FS_OK;
    return exec_normalize(o, f->element == EXEC_U8 ? 1.0 / 255 : 1.0,
                          f->samples, field, err);
}

static fs_status take_files(const exec_opening *o, const idx_file *f, int32_t n,
                            fs_err *err, exec_samples *s)
{
    const ir_tensor *inputs[2];
    FS_TRY(list_inputs(o, n, err, inputs));
    if (n == 2 && f[0].samples != f[1].samples)
        return fs_fail(err, FS_INVALID, "%s has %lld samples, %s has %lld",
                       f[0].path, (long long)f[0].samples, f[1].path,
                       (long long)f[1].samples);
    for (int32_t i = 0; i < n; i++)
        FS_TRY(take_file(o, &f[i], inputs[i], i > 0, err, s));
    s->per_epoch = f[0].samples;
    return FS_OK;
}

/* "im,", ",lab" */
static bool lacks_name(const char *spec)
{
    return spec[0] == ',' || strstr(spec, ",,") || exec_ends_with(spec, ",");
}

fs_status exec_open_idx(const exec_opening *o, fs_err *err, exec_data *out)
{
    const char *comma = strchr(o->spec, ',');
    const size_t first = comma ? (size_t)(comma - o->spec) : strlen(o->spec);
    idx_file f[2];
    exec_samples samples = {.n_fields = comma ? 2 : 1};
    if (lacks_name(o->spec))
        return fs_fail(err, FS_INVALID,
                       "--data '%s': a name is missing (IMAGES,LABELS)",
                       o->spec);
    FS_TRY(exec_check_options(
        o, EXEC_SHUFFLES | EXEC_AUGMENTS | EXEC_NORMALIZES, err));
    FS_TRY(open_file(fs_strndup(o->arena, o->spec, first), err, &f[0]));
    fs_status status =
        comma ? open_file(fs_strdup(o->arena, comma + 1), err, &f[1]) : FS_OK;
    if (status != FS_OK) {
        close(f[0].file);
        return status;
    }
    status = take_files(o, f, samples.n_fields, err, &samples);
    if (status == FS_OK)
        return exec_samples_open(o, &samples, err, out);
    for (int32_t i = 0; i < samples.n_fields; i++)
        close(f[i].file);
    return status;
}
