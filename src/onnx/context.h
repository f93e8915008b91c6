/* One import in progress, and what an operator's handler may ask of it. */
#ifndef FS_ONNX_CONTEXT_H
#define FS_ONNX_CONTEXT_H

#include "base/hash.h"
#include "onnx/file.h"

struct onnx_declared;
struct onnx_sequence;
/* A value of the ONNX graph. */
typedef struct onnx_value {
    const char *name;
    int32_t tensor; /* of the graph being built; -1: not (yet) there */
    int32_t wide;   /* the same cast up, or 0: not (yet) there */
    bool is_known;  /* `known` holds and the value is no parameter */
    bool is_given;  /* a tensor of the graph whose value `known` holds too */
    bool is_weight; /* `known` holds a float initializer: becomes a parameter
                       when an operator reads it as a tensor */
    onnx_const known;
    const char *refused;                  /* why nobody may read it, or NULL */
    const struct onnx_sequence *sequence; /* it is this, no tensor; or NULL */
} onnx_value;

/* Values in a row; never changed once made. */
typedef struct onnx_sequence {
    int32_t n;
    const onnx_value *at;
} onnx_sequence;

/* Names in sight of a node (scope.h). */
typedef struct onnx_scope {
    struct onnx_scope *parent;
    bool closed; /* sees no names of `parent`: a function's body */
    int32_t depth;
    fs_map index;                  /* value name -> values */
    const onnx_node *call;         /* what ref_attr_name refers to, or NULL */
    const onnx_function *function; /* whose body it is, or NULL */
    const char *prefix;            /* of names; NULL: the model's own */
} onnx_scope;

/* Shapes of a whole import, per node in the order of import: its first input
 * and output. */
typedef struct onnx_trace {
    FS_VEC(ir_shape) in, out;
} onnx_trace;

typedef struct onnx_ctx {
    const onnx_model *model;
    const onnx_options *options;
    ir_graph *graph;
    fs_arena *arena;   /* the graph's */
    fs_arena *scratch; /* names and values: until the outputs are marked */
    fs_err *err;
    fs_text *notes;
    onnx_scope *scope; /* the innermost */
    FS_VEC(onnx_value) values;
    struct onnx_declared *declared; /* declared.h; NULL: not compared */
    int32_t expanded;               /* nodes and turns of bodies so far */
    int64_t opset;
    int64_t old_batch, batch; /* differ when a fixed batch is changed */
    const onnx_trace *before; /* the import with the old batch, else NULL */
    onnx_trace *record;       /* to fill, or NULL */
    size_t folded_bytes;
    bool too_large; /* the last folding wanted more than there is */
    double dropped; /* largest ratio of a dropout that drops */
    int32_t n_dropped;
    const onnx_node *nodes; /* of the graph or body being imported */
    int32_t n_nodes;
    const onnx_node *node; /* being imported */
    int32_t at;            /* its number in its graph */
    int32_t step, n_steps; /* its number in the order of import */
    int32_t arg;           /* of its row in import.def */
    bool widens;           /* its inputs of a type that does not compute are */
    ir_dtype narrow;       /* cast up, outputs cast back to this one */
    bool beside;           /* outputs are values of tensors that are there */
    bool halves;           /* 16-bit floats were taken for f32 */
} onnx_ctx;

/* A list of integers from an attribute or a known input. */
typedef struct onnx_ints {
    int64_t n;
    const int64_t *at;
} onnx_ints;

/* Returns the status; if it is a fault, it is about this field. */
fs_status onnx_about(const onnx_options *options, const char *field,
                     fs_status status);
fs_status onnx_fail(onnx_ctx *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void onnx_note(onnx_ctx *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The type that a stored one has in the graph: training computes in f32 what
 * was exported in 16 bits (a note says so). */
ir_dtype onnx_dtype_here(onnx_ctx *c, ir_dtype dtype);

/* Inputs of the node at hand, by position. */
bool onnx_has(const onnx_ctx *c, int32_t i);
onnx_value *onnx_value_of(onnx_ctx *c, int32_t i);     /* NULL when absent */
onnx_value *onnx_any_value_of(onnx_ctx *c, int32_t i); /* or a sequence */
/* A value as a tensor of the graph, as onnx_in gives that of an input. */
int32_t onnx_tensor_of(onnx_ctx *c, onnx_value *value);
/* As a tensor of the graph: known values become constants, float
 * initializers parameters. -1 (and a message) when absent. */
int32_t onnx_in(onnx_ctx *c, int32_t i);
/* Its values, when they are known or those of an initializer; else NULL. */
const onnx_const *onnx_known(onnx_ctx *c, int32_t i);
/* The same, failing with "input `what` must be constant". */
fs_status onnx_need(onnx_ctx *c, int32_t i, const char *what,
                    const onnx_const **out);
fs_status onnx_shape(onnx_ctx *c, int32_t i, ir_shape *out);
ir_dtype onnx_dtype_of(onnx_ctx *c, int32_t i);
/* The same without what widening makes of it. */
ir_dtype onnx_stored_dtype(onnx_ctx *c, int32_t i);

/* Attributes. */
const onnx_attr *onnx_attr_find(const onnx_ctx *c, const char *name);
int64_t onnx_attr_int(const onnx_ctx *c, const char *name, int64_t usual);
double onnx_attr_real(const onnx_ctx *c, const char *name, double usual);
const char *onnx_attr_text(const onnx_ctx *c, const char *name,
                           const char *usual);
/* From attribute `name`, or else from input i; n == -1 without either. */
fs_status onnx_get_ints(onnx_ctx *c, const char *name, int32_t i,
                        onnx_ints *out);
/* Refuses a number below `low` or of more than 31 bits. */
fs_status onnx_at_least(onnx_ctx *c, const char *what, int64_t n, int64_t low);
/* Makes a negative axis positive and checks it. */
fs_status onnx_axis(onnx_ctx *c, int64_t axis, int32_t rank, int32_t *out);
/* Bit mask of axes from attribute or input; `usual` when absent. */
fs_status onnx_axes(onnx_ctx *c, int32_t i, int32_t rank, uint32_t usual,
                    uint32_t *out);

/* Shapes of the same node's first input and output in the import with the old
 * batch; rank -1 where it had none. */
ir_shape onnx_in_before(const onnx_ctx *c);
ir_shape onnx_out_before(const onnx_ctx *c);

/* Outputs of the node at hand. */
bool onnx_wants(const onnx_ctx *c, int32_t i);
fs_status onnx_set(onnx_ctx *c, int32_t i, int32_t tensor);
fs_status onnx_set_known(onnx_ctx *c, int32_t i, const onnx_const *known);
fs_status onnx_alias(onnx_ctx *c, int32_t i, int32_t input);
fs_status onnx_put(onnx_ctx *c, int32_t i, const onnx_value *value);
/* Reading output i later fails with this reason. */
fs_status onnx_refuse_output(onnx_ctx *c, int32_t i, const char *why);
/* Room for a folded value, within the budget. */
fs_status onnx_const_new(onnx_ctx *c, ir_dtype dtype, const ir_shape *shape,
                         void **data);
int64_t onnx_const_count(const onnx_const *value);
int64_t onnx_const_int(const onnx_const *value, int64_t i);
double onnx_const_real(const onnx_const *value, int64_t i);

#endif
