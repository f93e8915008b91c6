/* The inputs of a model: which dimension holds the samples, what the symbolic
 * ones are bound to, which inputs are parameters. */
#ifndef FS_ONNX_INPUTS_H
#define FS_ONNX_INPUTS_H

#include "onnx/context.h"

typedef struct onnx_batch {
    bool symbolic;    /* some input leaves axis 0 open */
    int64_t exported; /* else axis 0 of the first input; 0: no inputs */
    bool common;      /* all inputs have it */
} onnx_batch;

bool onnx_is_initializer(const onnx_proto *proto, const char *name);
/* Is this input, which has no initializer, a parameter? Float, and called like
 * one or matched by options->params. */
fs_status onnx_is_parameter(const onnx_value_info *info,
                            const onnx_options *options, fs_err *err,
                            bool *out);

/* Looks at all inputs before anything is built. */
fs_status onnx_find_batch(const onnx_model *model, const onnx_options *options,
                          fs_err *err, onnx_batch *out);
/* Decides setup->batch where options leave it open, and checks that the
 * options agree with each other and with the graph. */
fs_status onnx_bind_batch(onnx_ctx *setup, const onnx_batch *batch);
/* Appends initializers (as values) and inputs and parameters (as tensors). */
fs_status onnx_add_inputs(onnx_ctx *c, const onnx_batch *batch);

#endif
