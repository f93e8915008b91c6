/* Inside data: samples that lie in files, all of one size, and how they become
 * pieces of inputs: read, decoded, augmented, scaled. */
#ifndef FS_EXEC_SAMPLES_H
#define FS_EXEC_SAMPLES_H

#include "exec/data_kinds.h"

/* EXEC_ELEMENT(id, bytes): how an element lies in a file. */
#define EXEC_ELEMENTS                                                          \
    EXEC_ELEMENT(U8, 1)                                                        \
    EXEC_ELEMENT(I8, 1)                                                        \
    EXEC_ELEMENT(U16, 2) /* low byte first, as the next */                     \
    EXEC_ELEMENT(I32, 4)                                                       \
    EXEC_ELEMENT(I16_BIG, 2) /* high byte first, as the next three */          \
    EXEC_ELEMENT(I32_BIG, 4)                                                   \
    EXEC_ELEMENT(F32_BIG, 4)                                                   \
    EXEC_ELEMENT(F64_BIG, 8)                                                   \
    EXEC_ELEMENT(F64, 8) /* this machine's, of files of our own */
typedef enum exec_element {
#define EXEC_ELEMENT(id, bytes) EXEC_##id,
    EXEC_ELEMENTS
#undef EXEC_ELEMENT
} exec_element;
int64_t exec_element_bytes(exec_element element);
/* n of them as reals, which hold every value exactly. */
void exec_decode(exec_element element, const char *from, int64_t n,
                 double *out);

/* The elements of a sample in the order of the input, as three axes (the first
 * ones may be 1): where each lies among the sample's elements in the file. */
typedef struct exec_view {
    int64_t dim[3], stride[3];
    int32_t channel, row, column; /* axes; -1: it has none */
} exec_view;

/* What feeds one input. Sample q is view.dim elements from element
 * shift + q step mod wrap of the file on. */
typedef struct exec_field {
    const ir_tensor *input;
    const char *path;
    int file;
    exec_element element;
    int64_t first; /* byte of element 0 */
    int64_t step, wrap, shift;
    exec_view view;
    bool is_image;      /* augmentation applies */
    int64_t n_channels; /* of scale and add: element * scale + add; 0: as it
                           is */
    const double *scale, *add;
} exec_field;

enum { EXEC_MOST_FIELDS = 8 };

typedef struct exec_samples {
    int32_t n_fields;
    exec_field field[EXEC_MOST_FIELDS];
    int64_t per_epoch;
    uint64_t digest; /* of what the files hold */
    const char *note;
} exec_samples;

/* Takes the files over, also when it fails. */
fs_status exec_samples_open(const exec_opening *o, const exec_samples *samples,
                            fs_err *err, exec_data *out);
/* Closes the files, each once, of what is not opened after all. */
void exec_samples_drop(const exec_samples *samples);

/* The elements of one sample of a file whose samples have the shape `lies`,
 * for the input. FS_INVALID names both. */
fs_status exec_view_of(const char *path, const ir_shape *lies,
                       const ir_tensor *input, fs_err *err, exec_view *out);

/* ---- one pass over a file, before the run ---- */
/* `n` whole elements, of which the first has the number `first`. */
typedef fs_status exec_scan_fn(void *ctx, const double *values, int64_t first,
                               int64_t n, fs_err *err);
/* From byte `first` on so many elements; *digest becomes that of their bytes
 * too. */
typedef struct exec_scan {
    const char *path;
    int file;
    exec_element element;
    int64_t first, n;
} exec_scan;
fs_status exec_scan_file(const exec_scan *scan, exec_scan_fn *see, void *ctx,
                         fs_err *err, uint64_t *digest);
/* FS_INVALID when a value is not in [0, limit): "PATH: WHAT 300 at PLACE 12 is
 * outside ..". limit -1: anything goes. */
typedef struct exec_range {
    const char *path, *what, *place, *outside;
    int64_t limit, per_place;
    bool or_none; /* -100 passes: a label that counts nothing */
} exec_range;
exec_scan_fn exec_see_range;

/* A file of ids, of which sample k is a window: what "FILE.txt" and
 * "FILE.bin:u16" have in common. `what`: a byte, a token; `place`: what counts
 * them. */
typedef struct exec_windows {
    const char *path, *what, *place, *plural;
    exec_element element;
} exec_windows;
fs_status exec_open_windows(const exec_opening *o, const exec_windows *w,
                            fs_err *err, exec_data *out);

/* --normalize: scale and add of a field of so many channels, beside `unit`,
 * which turns elements into values (1 / 255 of pixels). */
fs_status exec_normalize(const exec_opening *o, double unit, int64_t records,
                         exec_field *field, fs_err *err);

/* ---- order and augmentation ---- */
/* A permutation of [0, n), of (seed, epoch), without a table. */
int64_t exec_shuffle(uint64_t seed, int64_t epoch, int64_t n, int64_t i);

typedef struct exec_augment {
    bool flip;
    int64_t pad;
    uint64_t seed;
} exec_augment;
fs_status exec_augment_parse(const char *text, fs_err *err, exec_augment *out);
/* Of one sample: the pixel (row, column) is that of the file at (row + down,
 * column + right), mirrored or not. */
typedef struct exec_warp {
    bool flip;
    int64_t down, right;
} exec_warp;
exec_warp exec_augment_draw(const exec_augment *augment, int64_t sample);

/* ---- files of our own ---- */
/* A new file in TMPDIR, else /tmp, that goes with its last descriptor. */
fs_status exec_spool_open(fs_err *err, int *file);
fs_status exec_spool_write(int file, const void *data, size_t bytes,
                           fs_err *err);

#endif
