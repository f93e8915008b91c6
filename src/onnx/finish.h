/* The end of an import: outputs, the loss, clean-up. */
#ifndef FS_ONNX_FINISH_H
#define FS_ONNX_FINISH_H

#include "onnx/context.h"

/* Finds the loss or appends options->loss, marks outputs, prunes, rewrites. */
fs_status onnx_finish(onnx_ctx *c);

#endif
