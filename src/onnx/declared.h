/* What the file says of shapes against what was inferred (declared.c). */
#ifndef FS_ONNX_DECLARED_H
#define FS_ONNX_DECLARED_H

#include "onnx/context.h"

/* Declarations of the model's values and outputs, to be found by name; the
 * symbols of its inputs take the sizes that these have. */
fs_status onnx_list_declared(onnx_ctx *c);
/* Does the value `name` have the shape that was declared, if one was? */
fs_status onnx_check_declared(onnx_ctx *c, const char *name);
/* At the end, `status` being the import's: an input that the graph reads, or
 * that may be why it failed, was given another shape than is declared. */
fs_status onnx_check_inputs(onnx_ctx *c, fs_status status);

#endif
