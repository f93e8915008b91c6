/* The end of an import: outputs, the loss, clean-up. */
#ifndef FS_ONNX_FINISH_H
#define FS_ONNX_FINISH_H

#include "onnx/context.h"

/* Frequencies of position embeddings become buffers; says which. */
void onnx_find_buffers(onnx_ctx *c);
/* Those that an export names in the metadata. */
void onnx_restore_buffers(onnx_ctx *c);
/* Drops an exported optimizer's states, which only dead updates read. */
void onnx_drop_states(onnx_ctx *c);

/* --loss margin[,m1=1][,m2=0.5][,m3=0][,scale=64] */
typedef struct onnx_margin {
    double margins[3], scale;
} onnx_margin;
bool onnx_is_margin(const char *loss);
fs_status onnx_margin_parse(const char *loss, fs_err *err, onnx_margin *out);
/* Of the product that makes `output`; FS_INVALID when none does. */
fs_status onnx_append_margin(onnx_ctx *c, int32_t output, int32_t labels);

/* Finds the loss or appends options->loss, marks outputs. */
fs_status onnx_mark_ends(onnx_ctx *c);
/* Prunes, rewrites, checks: of the file only the graph is looked at. */
fs_status onnx_clean_up(onnx_ctx *c);

#endif
