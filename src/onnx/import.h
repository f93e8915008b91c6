/* ONNX in. The only place that knows its messages: a bounded, zero-copy reader
 * over mmap. */
#ifndef FS_ONNX_IMPORT_H
#define FS_ONNX_IMPORT_H

#include "ir/build.h"
#include "ir/rewrite.h"

/* A tensor of known values; dimensions of length 0 are legal. Bytes of bools
 * are 0 or 1. Data is aligned for its dtype. */
typedef struct onnx_const {
    ir_dtype dtype;
    ir_shape shape;
    const void *data;
} onnx_const;

typedef struct onnx_options {
    int64_t batch; /* samples per micro-batch; 0: unbound batch axes are
                      bound to 1 (said in `notes`), fixed ones kept */
    int32_t n_binds;
    const char *const *binds; /* "name=size" for symbolic dimensions */
    const char *loss;         /* NULL or what onnx_loss_check takes: appended
                                 to a graph without a loss */
    const char *params;       /* NULL or an extended regex of names that are
                                 parameters though they have no initializer */
    uint64_t seed;
    bool no_rewrite; /* keep the graph as exported: no ir_rewrite */
    const ir_rewrite_options *rewrites; /* NULL: the usual */
    bool no_dropout; /* leave dropouts out: their inputs pass through */
    bool infer;      /* forward only: every output is marked, no loss is looked
                        for, nothing is a parameter for its name */
    bool answers;    /* every output is marked, no loss is looked for or added;
                        norms take running statistics, dropouts are left out.
                        Parameters are what they are in training */
    size_t max_folded_bytes; /* of all values made at import; 0: 2 GiB */
    int32_t n_given; /* values of the first inputs by position: their shapes
                        are these, and operators that want a value at import
                        see it */
    const onnx_const *given;
    const char **about; /* NULL, or takes the field of these that a fault is
                           about ("binds"), untouched when it is none */
} onnx_options;

typedef struct onnx_model onnx_model; /* owns the mapping; keep it as long as
                                         the graph */
/* Graph and mapping; *notes gets one line per thing decided for the user. */
fs_status onnx_import(const char *path, const onnx_options *options,
                      fs_err *err, onnx_model **model, ir_graph **graph,
                      fs_text *notes);
void onnx_model_close(onnx_model *model);
/* The input that value k of n `given` ones is for: initializers that stand
 * among the inputs are passed over, unless n counts them. NULL: none. */
const char *onnx_model_input(const onnx_model *model, int32_t n, int32_t k);
int32_t onnx_model_outputs(const onnx_model *model); /* how many */

/* Reads a TensorProto file (.pb): test data and gradients. Data lives in the
 * arena. */
fs_status onnx_read_tensor(const char *path, fs_arena *arena, fs_err *err,
                           onnx_const *out);

/* Can this loss be appended, and are its numbers right? */
fs_status onnx_loss_check(const char *loss, fs_err *err);

/* Operators that the importer knows; NULL after the last. */
const char *onnx_operator_at(int32_t i);
/* The operator of a graph of one node, "" when it has another number. */
fs_status onnx_lone_operator(const char *path, fs_arena *arena, fs_err *err,
                             const char **out);

/* Digest of the model file without importing it. */
fs_status onnx_digest(const char *path, fs_err *err, uint64_t *digest);

#endif
