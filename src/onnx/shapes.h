/* What a shape operator means for an input of a given shape: parameters that
 * folding and importing share. */
#ifndef FS_ONNX_SHAPES_H
#define FS_ONNX_SHAPES_H

#include "onnx/context.h"

/* What a Slice takes of each axis. */
typedef struct onnx_cut {
    int64_t start[IR_MAX_RANK], length[IR_MAX_RANK], step[IR_MAX_RANK];
} onnx_cut;
fs_status onnx_slice_cut(onnx_ctx *c, const ir_shape *in, onnx_cut *out);
/* The new shape of Reshape, Flatten, Squeeze, Unsqueeze (by row argument). */
fs_status onnx_view_shape(onnx_ctx *c, const ir_shape *in, ir_shape *out);
fs_status onnx_expand_shape(onnx_ctx *c, const ir_shape *in, ir_shape *out);
fs_status onnx_perm(onnx_ctx *c, int32_t rank, int32_t perm[IR_MAX_RANK]);
fs_status onnx_split_sizes(onnx_ctx *c, const ir_shape *in, int32_t *axis,
                           onnx_ints *out);

/* Changing a fixed batch (rebatch.c): what a constant target means now. */
fs_status onnx_rebatch_view(onnx_ctx *c, const ir_shape *in, ir_shape *out);
fs_status onnx_rebatch_cut(onnx_ctx *c, const ir_shape *in, onnx_cut *cut);
fs_status onnx_rebatch_expand(onnx_ctx *c, const ir_shape *in,
                              ir_shape *wanted);

#endif
