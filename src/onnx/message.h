/* ONNX messages as read: only what the importer needs, names copied, payloads
 * left in the mapped file. The depth of the message types is fixed: a subgraph
 * stays unread bytes until an operator runs it, so that hostile nesting costs
 * nothing. */
#ifndef FS_ONNX_MESSAGE_H
#define FS_ONNX_MESSAGE_H

#include "base/wire.h"
#include "ir/tensor.h"

/* TensorProto.DataType; others are refused with their number or name. */
typedef enum onnx_dtype {
    ONNX_FLOAT = 1,
    ONNX_INT32 = 6,
    ONNX_INT64 = 7,
    ONNX_BOOL = 9,
    ONNX_DOUBLE = 11
} onnx_dtype;

typedef struct onnx_tensor {
    const char *name;
    int64_t dtype;  /* as in the file */
    ir_shape shape; /* zero-sized dimensions are legal here */
    fs_wire raw;    /* raw_data; at == NULL when absent */
    fs_wire body;   /* the whole message: typed fields are decoded from it */
    bool external;
    const char *location, *offset, *length; /* of external data, or NULL */
} onnx_tensor;

/* A graph within a node, and what was read of it when it was wanted. */
typedef struct onnx_subgraph {
    fs_wire body;
    struct onnx_proto *read; /* NULL: not yet */
    const struct onnx_const *init;
} onnx_subgraph;

/* AttributeProto.AttributeType, as far as operators here take it. */
typedef enum onnx_attr_type {
    ONNX_ATTR_NONE,
    ONNX_ATTR_REAL,
    ONNX_ATTR_INT,
    ONNX_ATTR_TEXT,
    ONNX_ATTR_TENSOR,
    ONNX_ATTR_GRAPH,
    ONNX_ATTR_REALS,
    ONNX_ATTR_INTS,
    ONNX_ATTR_TEXTS
} onnx_attr_type;

typedef struct onnx_attr {
    const char *name;
    int64_t type; /* as said, else as what is there; ONNX_ATTR_NONE: neither */
    const char *ref; /* in a function: the attribute of its call, or NULL */
    double f;
    int64_t i;
    const char *s; /* NULL when absent or not printable */
    const onnx_tensor *t;
    FS_VEC(int64_t) ints;
    FS_VEC(double) floats;
    FS_VEC(const char *) strings;
    onnx_subgraph *graph;
    bool has_f, has_i;
    bool typed; /* the type stands in the file */
} onnx_attr;

typedef struct onnx_node {
    const char *name, *op, *domain, *overload;
    FS_VEC(const char *) in, out; /* "" is an absent optional */
    FS_VEC(onnx_attr) attrs;
} onnx_node;

typedef struct onnx_dim {
    int64_t value;      /* -1 when symbolic or unknown */
    const char *symbol; /* NULL when unnamed */
    bool said;          /* the value stands in the file, -1 too */
} onnx_dim;

typedef struct onnx_value_info {
    const char *name;
    int64_t dtype;
    int32_t rank;   /* -1 when no shape is given */
    bool composite; /* a sequence, an optional, a map: no tensor */
    onnx_dim dim[IR_MAX_RANK];
} onnx_value_info;

typedef struct onnx_opset {
    const char *domain;
    int64_t version;
} onnx_opset;

/* A local function: a list of nodes with formal names. */
typedef struct onnx_function {
    const char *name, *domain, *overload;
    FS_VEC(const char *) in, out;
    FS_VEC(onnx_attr) defaults;
    FS_VEC(onnx_node) nodes;
    FS_VEC(onnx_opset) opsets;
} onnx_function;

typedef struct onnx_note_pair {
    const char *key, *value;
} onnx_note_pair;

typedef struct onnx_proto {
    int64_t ir_version;
    FS_VEC(onnx_opset) opsets;
    FS_VEC(onnx_function) functions;
    const char *graph_name;
    FS_VEC(onnx_node) nodes;
    FS_VEC(onnx_tensor) initializers;
    FS_VEC(onnx_value_info) inputs, outputs, values;
    FS_VEC(onnx_note_pair) notes; /* metadata of the model */
    bool sparse, training;
} onnx_proto;

/* Strings and arrays live in the arena, payloads in the file. */
fs_status onnx_read_model(fs_wire in, fs_arena *arena, fs_err *err,
                          onnx_proto *out);
/* The messages of one graph; what it nests stays unread. */
fs_status onnx_read_graph(fs_wire in, fs_arena *arena, fs_err *err,
                          onnx_proto *out);
fs_status onnx_read_tensor_message(fs_wire in, fs_arena *arena, fs_err *err,
                                   onnx_tensor *out);

#endif
