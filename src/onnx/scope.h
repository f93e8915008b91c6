/* Names of values, in scopes: the model's own graph, the bodies of control
 * flow within it, which see the names around them, and of local functions,
 * which do not. */
#ifndef FS_ONNX_SCOPE_H
#define FS_ONNX_SCOPE_H

#include "onnx/context.h"

/* -1 when no scope in sight has the name. */
int32_t onnx_find(const onnx_ctx *c, const char *name);
/* Adds a value to the innermost scope; fails when it has the name. */
fs_status onnx_define(onnx_ctx *c, const char *name, const onnx_value *value);
/* The value of input i as it is, for another scope: a weight becomes one
 * parameter first, whoever reads it. Sequences too. */
fs_status onnx_take(onnx_ctx *c, int32_t i, onnx_value *out);

/* Counts work that a small file asks for: nodes of bodies, turns of loops. */
fs_status onnx_spend(onnx_ctx *c);

/* Runs until onnx_leave in a new scope; `label` goes into names. */
fs_status onnx_enter(onnx_ctx *c, const char *label);
void onnx_leave(onnx_ctx *c);

/* Attribute `name` as a graph, read now if it was not before. */
fs_status onnx_subgraph_of(onnx_ctx *c, const char *name,
                           const onnx_subgraph **out);
/* Its initializers, in the innermost scope. */
fs_status onnx_define_initializers(onnx_ctx *c, const onnx_subgraph *body);
/* Imports its nodes in the innermost scope. */
fs_status onnx_import_body(onnx_ctx *c, const onnx_subgraph *body);
/* The value of output i of a body that was imported. */
fs_status onnx_body_output(onnx_ctx *c, const onnx_subgraph *body, int32_t i,
                           onnx_value *out);

/* Nodes in order (import.c). */
fs_status onnx_import_nodes(onnx_ctx *c, const onnx_node *nodes, int32_t n);

/* The local function that the node at hand calls, or NULL; and its body in
 * the call's place. */
const onnx_function *onnx_find_function(const onnx_ctx *c);
fs_status onnx_call_function(onnx_ctx *c, const onnx_function *function);
/* A node of a function with the call's attributes in place of references. */
const onnx_node *onnx_resolve(onnx_ctx *c, const onnx_node *node);

/* The node at hand, of an opset before 7, in the form it has since then
 * (old_forms.c). */
fs_status onnx_modernise(onnx_ctx *c);

#endif
