/* Values joined and taken apart, whether they are known or tensors: what
 * loops, scans and sequences do to theirs. */
#ifndef FS_ONNX_JOIN_H
#define FS_ONNX_JOIN_H

#include "onnx/context.h"

typedef FS_VEC(onnx_value) onnx_value_list;

/* Joined along `axis`; at least one. */
fs_status onnx_join(onnx_ctx *c, onnx_value_list *list, int32_t axis,
                    onnx_value *out);
/* Joined along a new axis `axis`. */
fs_status onnx_stack(onnx_ctx *c, const onnx_value_list *list, int32_t axis,
                     onnx_value *out);
/* Elements start .. start + length - 1 of `axis`. */
fs_status onnx_part(onnx_ctx *c, onnx_value *value, int32_t axis,
                    const int64_t start_length[2], onnx_value *out);
/* Element `at` of `axis`, without that axis. */
fs_status onnx_pick(onnx_ctx *c, onnx_value *value, int32_t axis, int64_t at,
                    onnx_value *out);
/* Tensors joined with as few copies as an op's number of inputs allows. */
int32_t onnx_concat(onnx_ctx *c, int32_t *tensors, int32_t n, int32_t axis);

#endif
