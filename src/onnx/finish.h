/* The end of an import: outputs, the loss, clean-up. */
#ifndef FS_ONNX_FINISH_H
#define FS_ONNX_FINISH_H

#include "onnx/context.h"

/* Frequencies of position embeddings become buffers; says which. */
void onnx_find_buffers(onnx_ctx *c);
/* Those that an export names in the metadata. */
void onnx_restore_buffers(onnx_ctx *c);

/* Finds the loss or appends options->loss, marks outputs, prunes, rewrites. */
fs_status onnx_finish(onnx_ctx *c);

#endif
