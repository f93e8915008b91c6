/* The files of a model: the mapping of model.onnx and of the side files that
 * its tensors name, and tensors decoded from them. */
#ifndef FS_ONNX_FILE_H
#define FS_ONNX_FILE_H

#include "onnx/import.h"
#include "onnx/message.h"

typedef struct onnx_mapping {
    const char *location; /* as the tensor names it; NULL for the model */
    const void *data;
    size_t bytes;
} onnx_mapping;

struct onnx_model {
    fs_arena *arena;
    const char *path;
    FS_VEC(onnx_mapping) files; /* files.at[0] is the model itself */
    onnx_proto proto;
    const onnx_const *init; /* decoded initializers, in order */
    uint64_t digest;        /* over the bytes of all files, in order */
};

/* Maps one file, unread. */
fs_status onnx_file_open(const char *path, fs_err *err, onnx_model **out);
/* Maps and reads the model, maps every side file, decodes the initializers. */
fs_status onnx_model_open(const char *path, fs_err *err, onnx_model **out);

/* Elements of a shape that may hold zeros, and the bytes they take; `what`
 * names the thing when the product overflows. */
fs_status onnx_shape_size(const ir_shape *shape, ir_dtype dtype,
                          const char *what, fs_err *err, int64_t *count,
                          size_t *bytes);
fs_status onnx_dtype_parse(int64_t dtype, const char *what, fs_err *err,
                           ir_dtype *out);

/* Decodes; the data stays in the mapping when it is aligned there, else it is
 * copied to the arena. */
fs_status onnx_tensor_load(const onnx_model *model, const onnx_tensor *tensor,
                           fs_arena *arena, fs_err *err, onnx_const *out);

#endif
