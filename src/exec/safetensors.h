/* Files of tensors as the package safetensors reads and writes them: 8 bytes
 * that say how long a JSON text is, the text, the values.
 * https://github.com/huggingface/safetensors, "Format". */
#ifndef FS_EXEC_SAFETENSORS_H
#define FS_EXEC_SAFETENSORS_H

#include "ir/tensor.h"

#include <jansson.h>

typedef struct exec_saved {
    const char *name;
    ir_dtype dtype;
    ir_shape shape; /* a dimension may be 0 */
    int64_t at;     /* in the file */
    int64_t bytes;
} exec_saved;

/* What such a file begins with, for tensors whose values follow in this order,
 * the first at a multiple of 64: sets `at` and `bytes` of all. */
char *exec_safetensors_head(int32_t n, exec_saved *tensors, fs_arena *arena,
                            int64_t *bytes);

typedef struct exec_safetensors {
    const char *path;
    int file; /* the owner closes it */
    int32_t n;
    exec_saved *at;
} exec_safetensors;
/* Everything that it says of itself is checked against the file's length:
 * FS_INVALID names file and tensor. */
fs_status exec_safetensors_open(const char *path, fs_arena *arena, fs_err *err,
                                exec_safetensors *out);
void exec_safetensors_close(exec_safetensors *file);
/* A list of lengths, 0 or more, and their product, whose bytes an int64_t
 * holds. false: `*bad` is the first that is none, -1: it is no list of at most
 * IR_MAX_RANK. */
bool exec_read_shape(const json_t *list, ir_shape *shape, int64_t *count,
                     int32_t *bad);
/* All of these bytes of a file; FS_INVALID: it ends before, or a fault of the
 * disk. */
fs_status exec_read_bytes(int file, const char *path, int64_t at, int64_t bytes,
                          void *out, fs_err *err);

#endif
