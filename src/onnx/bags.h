/* Loops that are an EmbeddingBag (op_bags.c). */
#ifndef FS_ONNX_BAGS_H
#define FS_ONNX_BAGS_H

#include "onnx/context.h"

/* Imports the loop at hand as one lookup and one reduction if its body is
 * that of an EmbeddingBag; *done says whether it was. */
fs_status onnx_import_bags(onnx_ctx *c, const onnx_subgraph *body,
                           int64_t trips, bool *done);

#endif
