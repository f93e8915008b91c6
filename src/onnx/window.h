/* Windows from the attributes of the node at hand. */
#ifndef FS_ONNX_WINDOW_H
#define FS_ONNX_WINDOW_H

#include "ir/window.h"
#include "onnx/context.h"

/* `n` numbers of attribute `name`, which without it stay what they are; they
 * must lie within low .. INT32_MAX. */
fs_status onnx_window_numbers(onnx_ctx *c, const char *name, int64_t n,
                              int64_t low, int64_t *out);
/* Size, stride, dilation and padding as the attributes have them, on an input
 * of this shape. `usual`: the size when there is no kernel_shape, or NULL:
 * there must be one. */
fs_status onnx_window_get(onnx_ctx *c, const ir_shape *in, const int64_t *usual,
                          ir_window *out);
/* Padding by auto_pad, where that says SAME. */
fs_status onnx_window_pad(onnx_ctx *c, const ir_shape *in, ir_window *w);
/* Stride and padding as attributes of an op; the others 0. */
void onnx_window_write(const ir_window *w, int64_t attr[IR_WINDOW_ATTRS]);

#endif
