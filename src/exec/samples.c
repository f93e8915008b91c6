/* Samples in files: decode, augment, scale, into the piece that is asked for.
 * Reading is reader.c's. */
#include "config.h"
#include "exec/samples.h"

#include "base/hash.h"
#include "exec/piece.h"
#include "exec/reader.h"
#include "ir/element.h"

#include <string.h>
#include <unistd.h>

struct feed;

/* One piece of one input, asked for again and again. */
typedef struct feed_piece {
    const struct feed *feed;
    const exec_field *field;
    ir_shape local;              /* as it is asked for */
    int64_t offset[IR_MAX_RANK]; /* likewise */
    ir_shape sample, part;       /* a whole one's shape, what of it is local */
    int64_t corner[IR_MAX_RANK]; /* of the part */
    int64_t low, elements;       /* what of a sample is read */
    bool is_plain;               /* elements of a row lie side by side */
    int32_t stream;
} feed_piece;

typedef struct feed {
    fs_arena *arena;
    exec_samples samples;
    exec_reader *reader;
    bool shuffles, augments;
    uint64_t shuffle_seed;
    exec_augment augment;
    FS_VEC(feed_piece *) pieces;
} feed;

/* ---- where ---- */

/* The sample of the unshuffled order that is the k-th. */
static int64_t order_of(const feed *f, int64_t k)
{
    const int64_t n = f->samples.per_epoch, epoch = k / n;
    if (!f->shuffles)
        return k;
    return epoch * n + exec_shuffle(f->shuffle_seed, epoch, n, k % n);
}

static int64_t locate(const void *ctx, int64_t sample, int64_t row)
{
    const feed_piece *p = ctx;
    const exec_field *field = p->field;
    const int64_t q = order_of(p->feed, sample + p->offset[0] + row);
    const int64_t element =
        field->shift + q % field->wrap * field->step % field->wrap + p->low;
    return field->first + element * exec_element_bytes(field->element);
}

/* ---- pieces ---- */

static bool is_row_major(const exec_view *view)
{
    return view->stride[2] == 1 && view->stride[1] == view->dim[2] &&
           view->stride[0] == view->dim[1] * view->dim[2];
}

/* Of a sample, what lies between the first and the last element of the part;
 * all where elements change their places. */
static void place_span(feed_piece *p)
{
    const exec_view *view = &p->field->view;
    const bool warps = p->feed->augments && p->field->is_image;
    int64_t first = 0, last = 0;
    for (int32_t d = 0; d < p->sample.rank; d++) {
        first = first * p->sample.dim[d] + p->corner[d];
        last = last * p->sample.dim[d] + p->corner[d] + p->part.dim[d] - 1;
    }
    const bool moves = warps || !is_row_major(view);
    p->low = moves ? 0 : first;
    p->elements = moves ? ir_shape_count(&p->sample) : last + 1 - first;
    p->is_plain = !warps && view->stride[2] == 1;
}

/* Without the batch axis. */
static void cut_batch(const ir_shape *with, ir_shape *without)
{
    without->rank = with->rank > 1 ? with->rank - 1 : 1;
    without->dim[0] = 1;
    for (int32_t d = 1; d < with->rank; d++)
        without->dim[d - 1] = with->dim[d];
}

static feed_piece *make_piece(feed *f, const exec_field *field,
                              const ir_shape *local, const int64_t *offset)
{
    feed_piece *p = fs_new(f->arena, feed_piece, 1);
    p->feed = f;
    p->field = field;
    p->local = *local;
    memcpy(p->offset, offset, (size_t)local->rank * sizeof *offset);
    cut_batch(&field->input->shape, &p->sample);
    cut_batch(local, &p->part);
    for (int32_t d = 1; d < local->rank; d++)
        p->corner[d - 1] = offset[d];
    place_span(p);
    const exec_stream stream = {.path = field->path,
                                .file = field->file,
                                .rows = local->dim[0],
                                .row_bytes = p->elements *
                                             exec_element_bytes(field->element),
                                .stride = field->input->shape.dim[0],
                                .locate = locate,
                                .ctx = p};
    p->stream = exec_reader_add(f->reader, &stream);
    fs_push(f->arena, &f->pieces, p);
    return p;
}

static feed_piece *find_piece(const feed *f, const char *name,
                              const ir_shape *local, const int64_t *offset)
{
    for (int32_t i = 0; i < f->pieces.n; i++) {
        feed_piece *p = f->pieces.at[i];
        if (strcmp(p->field->input->name, name) == 0 &&
            ir_shape_equal(&p->local, local) &&
            memcmp(p->offset, offset, (size_t)local->rank * sizeof *offset) ==
                0)
            return p;
    }
    return NULL;
}

/* NULL: nothing feeds this input. */
static feed_piece *piece_of(feed *f, const char *name, const ir_shape *local,
                            const int64_t *offset)
{
    feed_piece *p = find_piece(f, name, local, offset);
    for (int32_t i = 0; !p && i < f->samples.n_fields; i++)
        if (strcmp(f->samples.field[i].input->name, name) == 0)
            p = make_piece(f, &f->samples.field[i], local, offset);
    return p;
}

/* ---- decoding ---- */

enum { CHUNK = 128 };

typedef struct decoding {
    const feed_piece *piece;
    const char *bytes; /* from element piece->low of the sample on */
    exec_warp warp;
    ir_dtype dtype;
    void *out;
    int64_t out_at; /* of the sample's first element there */
} decoding;

static double warped_element(const decoding *d, const int64_t at[3])
{
    const exec_field *field = d->piece->field;
    const exec_view *view = &field->view;
    int64_t x[3] = {at[0], at[1], at[2]};
    double value = 0; /* beyond an image */
    if (d->piece->feed->augments && field->is_image) {
        const int64_t height = view->dim[view->row];
        const int64_t width = view->dim[view->column];
        int64_t row = x[view->row] + d->warp.down;
        int64_t column = x[view->column];
        column = (d->warp.flip ? width - 1 - column : column) + d->warp.right;
        if (row < 0 || row >= height || column < 0 || column >= width)
            return value;
        x[view->row] = row;
        x[view->column] = column;
    }
    const int64_t element = x[0] * view->stride[0] + x[1] * view->stride[1] +
                            x[2] * view->stride[2] - d->piece->low;
    exec_decode(field->element,
                d->bytes + element * exec_element_bytes(field->element), 1,
                &value);
    return value;
}

static void read_values(const decoding *d, const int64_t at[3], int64_t n,
                        double *values)
{
    const exec_field *field = d->piece->field;
    const exec_view *view = &field->view;
    if (d->piece->is_plain) {
        const int64_t element = at[0] * view->stride[0] +
                                at[1] * view->stride[1] + at[2] - d->piece->low;
        exec_decode(field->element,
                    d->bytes + element * exec_element_bytes(field->element), n,
                    values);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        const int64_t x[3] = {at[0], at[1], at[2] + i};
        values[i] = warped_element(d, x);
    }
}

static void scale_values(const exec_field *field, const int64_t at[3],
                         int64_t n, double *values)
{
    const int32_t axis = field->view.channel;
    const bool each = field->n_channels > 1 && axis == 2;
    int64_t c = field->n_channels > 1 ? at[axis] : 0;
    for (int64_t i = 0; field->n_channels && i < n; i++) {
        values[i] = values[i] * field->scale[c] + field->add[c];
        c += each;
    }
}

static void store_values(ir_dtype dtype, const double *values, int64_t n,
                         void *out, int64_t at)
{
    if (dtype == IR_F32)
        for (int64_t i = 0; i < n; i++)
            ((float *)out)[at + i] = (float)values[i];
    else if (dtype == IR_I64)
        for (int64_t i = 0; i < n; i++)
            ((int64_t *)out)[at + i] = (int64_t)values[i];
    else
        for (int64_t i = 0; i < n; i++)
            ir_element_set_real(dtype, out, at + i, values[i]);
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void decode_row(void *ctx, int64_t local, int64_t whole, int64_t length)
{
    const decoding *d = ctx;
    const exec_field *field = d->piece->field;
    const int64_t *dim = field->view.dim;
    double values[CHUNK];
    for (int64_t done = 0, n; done < length; done += n) {
        const int64_t flat = whole + done;
        const int64_t at[3] = {flat / dim[2] / dim[1], flat / dim[2] % dim[1],
                               flat % dim[2]};
        n = least(least(length - done, dim[2] - at[2]), CHUNK);
        read_values(d, at, n, values);
        scale_values(field, at, n, values);
        store_values(d->dtype, values, n, d->out, d->out_at + local + done);
    }
}

static fs_status fill_feed(void *ctx, const char *name, int64_t sample,
                           ir_dtype dtype, const ir_shape *local,
                           const int64_t *offset, int32_t batch_axis, void *out,
                           fs_err *err)
{
    feed *f = ctx;
    const char *bytes;
    feed_piece *p = piece_of(f, name, local, offset);
    (void)batch_axis;
    if (!p)
        return fs_fail(err, FS_FAULT, "no data for input '%s'", name);
    FS_TRY(exec_reader_take(f->reader, p->stream, sample, err, &bytes));
    decoding d = {.piece = p, .dtype = dtype, .out = out};
    const int64_t each = ir_shape_count(&p->part);
    for (int64_t row = 0; row < local->dim[0]; row++) {
        const int64_t q = order_of(f, sample + offset[0] + row);
        d.bytes =
            bytes + row * p->elements * exec_element_bytes(p->field->element);
        d.out_at = row * each;
        if (f->augments)
            d.warp = exec_augment_draw(&f->augment, q);
        exec_piece_rows(&p->sample, &p->part, p->corner, decode_row, &d);
    }
    exec_reader_give(f->reader, p->stream);
    return FS_OK;
}

static int64_t expect_piece(void *ctx, const char *name, const ir_shape *local,
                            const int64_t *offset)
{
    feed *f = ctx;
    const feed_piece *p = piece_of(f, name, local, offset);
    return p ? exec_reader_bytes(f->reader, p->stream) : 0;
}

static bool is_ready(void *ctx, const char *name, int64_t sample)
{
    const feed *f = ctx;
    for (int32_t i = 0; i < f->pieces.n; i++) {
        const feed_piece *p = f->pieces.at[i];
        if (strcmp(p->field->input->name, name) == 0 &&
            !exec_reader_ready(f->reader, p->stream, sample))
            return false;
    }
    return f->pieces.n > 0;
}

/* ---- opening and closing ---- */

void exec_samples_drop(const exec_samples *samples)
{
    for (int32_t i = 0; i < samples->n_fields; i++) {
        bool again = false;
        for (int32_t k = 0; k < i; k++)
            again |= samples->field[k].file == samples->field[i].file;
        if (!again)
            close(samples->field[i].file);
    }
}

static void close_feed(void *ctx)
{
    feed *f = ctx;
    exec_reader_destroy(f->reader);
    exec_samples_drop(&f->samples);
    fs_arena_destroy(f->arena);
}

static uint64_t digest_of(const exec_samples *samples,
                          const exec_data_options *said)
{
    const uint64_t flags[] = {said->shuffle, said->shuffle_seed, said->seed,
                              said->augment != NULL};
    uint64_t digest = samples->digest;
    if (said->shuffle)
        digest = fs_hash(digest, flags, 2 * sizeof *flags);
    if (said->augment)
        digest = fs_hash_text(fs_hash(digest, flags + 2, 2 * sizeof *flags),
                              said->augment);
    if (said->normalize)
        digest = fs_hash_text(fs_mix(digest), said->normalize);
    for (int32_t i = 0; i < samples->n_fields; i++) {
        const exec_field *f = &samples->field[i];
        const int64_t lies[] = {f->step, f->wrap, f->shift, f->element};
        digest = fs_hash(digest, lies, sizeof lies);
    }
    return digest;
}

static fs_status check_fields(const exec_opening *o,
                              const exec_samples *samples, fs_err *err)
{
    bool images = false;
    for (int32_t i = 0; i < samples->n_fields; i++) {
        const exec_field *f = &samples->field[i];
        int64_t most;
        images |= f->is_image;
        if (__builtin_mul_overflow(f->step, f->wrap, &most))
            return fs_fail(err, FS_INVALID, "%s: too large", f->path);
    }
    if (o->options->augment && !images)
        return fs_fail(err, FS_INVALID,
                       "%s: --augment is for images of two or three axes",
                       o->spec);
    return FS_OK;
}

/* Moved by as much as an image measures nothing of it is left. */
static fs_status check_crop(const exec_samples *samples,
                            const exec_augment *augment, fs_err *err)
{
    for (int32_t i = 0; i < samples->n_fields; i++) {
        const exec_field *f = &samples->field[i];
        if (!f->is_image)
            continue;
        const int64_t height = f->view.dim[f->view.row];
        const int64_t width = f->view.dim[f->view.column];
        if (augment->pad >= height || augment->pad >= width)
            return fs_fail(err, FS_INVALID,
                           "--augment crop=%lld: %s has images of %lld x %lld: "
                           "PAD must be less than either",
                           (long long)augment->pad, f->path, (long long)height,
                           (long long)width);
    }
    return FS_OK;
}

fs_status exec_samples_open(const exec_opening *o, const exec_samples *samples,
                            fs_err *err, exec_data *out)
{
    const exec_data_options *said = o->options;
    exec_augment augment = {.seed = said->seed};
    fs_status status = check_fields(o, samples, err);
    if (status == FS_OK && said->augment)
        status = exec_augment_parse(said->augment, err, &augment);
    if (status == FS_OK)
        status = check_crop(samples, &augment, err);
    if (status != FS_OK) {
        exec_samples_drop(samples);
        return status;
    }
    fs_arena *arena = fs_arena_create();
    feed *f = fs_new(arena, feed, 1);
    f->arena = arena;
    f->samples = *samples;
    f->reader = exec_reader_create(said);
    f->shuffles = said->shuffle;
    f->shuffle_seed = said->shuffle_seed;
    f->augments = said->augment != NULL;
    f->augment = augment;
    *out = (exec_data){.ctx = f,
                       .fill = fill_feed,
                       .expect = expect_piece,
                       .ready = is_ready,
                       .close = close_feed,
                       .digest = digest_of(samples, said),
                       .note = samples->note,
                       .counts = exec_reader_counts(f->reader)};
    return FS_OK;
}
