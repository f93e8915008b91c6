/* What an operator takes, against what a node gives it. */
#ifndef FS_ONNX_SIGNATURE_H
#define FS_ONNX_SIGNATURE_H

#include "onnx/context.h"

/* Refuses inputs, outputs and attributes of the node at hand that its operator
 * has no meaning for in its opset, attributes of another type or without one
 * (but in files of the first version), and required ones that are missing:
 * a handler that looks for its own names only would run without them. */
fs_status onnx_check_signature(onnx_ctx *c);

/* Has the operator a row in signatures.def? */
bool onnx_has_signature(const char *op);

#endif
