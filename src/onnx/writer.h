/* One export in progress: the nodes written so far and the values that the
 * file carries; what a row of export.def may ask. */
#ifndef FS_ONNX_WRITER_H
#define FS_ONNX_WRITER_H

#include "onnx/export.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/wire_out.h"

/* A value that the file carries. */
typedef struct onnx_blob {
    const char *name;
    ir_dtype dtype;
    ir_shape shape;
    const void
        *data; /* host order, which is the file's: little endian; NULL: */
    const ir_tensor *drawn; /* the first values of this variable */
    size_t bytes;
    int64_t offset; /* in the side file */
} onnx_blob;

/* How a value of the op at hand lies, under a plan (export_layout.c). */
typedef struct onnx_layout {
    const char *name;
    ir_shape shape;
    ir_dtype dtype;
    const void *data; /* of a constant that the op has made, or NULL */
    ir_nd_sbp sbp;
} onnx_layout;

typedef struct onnx_writer {
    const ir_graph *graph;
    const ir_graph *planned; /* what a placement speaks of, chains whole */
    const int32_t *origin;   /* [nodes of graph] node of `planned` */
    const onnx_export_options *options;
    fs_arena *arena; /* of the export */
    fs_wire_out nodes;
    int32_t n_nodes;
    FS_VEC(onnx_blob) blobs;
    const char **name; /* [tensors] what they are called in the file */
    bool *read;        /* [tensors] by a node, or wanted */
    const char **sum;  /* [tensors] over micro-batches: input of those before */
    fs_map taken;      /* names made for the file */
    const ir_node *node; /* being written */
    int32_t opset;
    bool own[IR_OP_COUNT]; /* written in our own domain, without a function */
    bool any_own;
    bool in_body;          /* `nodes` are of a function's body */
    uint32_t node_field;   /* of what `nodes` are of: graph 1, function 7 */
    const char *step;      /* the input that tells the step; NULL: none */
    fs_wire_out functions; /* fields of the model */
    fs_map bodies;         /* what a body is made of -> its number */
    int32_t n_functions;
    FS_VEC(onnx_layout) layouts; /* of the op at hand */
    const ir_node *laid_out;     /* whose they are */
    int32_t n_partial, n_halo, n_between;
} onnx_writer;

/* In `taken`: what is called so, if anything yet. */
enum { ONNX_NAME_TAKEN = 1, ONNX_NAME_MADE /* by a node */ };

/* A node of the file. */
typedef struct onnx_line {
    const char *op;
    int32_t n_in, n_out;
    const char *in[IR_MAX_IN], *out[IR_MAX_OUT];
    fs_wire_out attrs; /* fields of a NodeProto */
    uint32_t field;    /* of an attribute; 0: a NodeProto's */
    int32_t n_list;    /* the attribute that is a list of integers */
    const int64_t *list;
} onnx_line;

/* With the inputs and outputs of the op at hand. */
onnx_line onnx_line_like(onnx_writer *w, const char *op);
/* A step on the way to it: one input, one output of a new name. */
onnx_line onnx_line_step(onnx_writer *w, const char *op, const char *in);
void onnx_line_int(onnx_line *line, const char *name, int64_t value);
void onnx_line_ints(onnx_line *line, const char *name, int64_t n,
                    const int64_t *values);
void onnx_line_real(onnx_line *line, const char *name, double value);
void onnx_line_text(onnx_line *line, const char *name, const char *value);
void onnx_line_graph(onnx_line *line, const char *name,
                     const fs_wire_out *graph);
/* A tensor of reals or integers, to the last bit. */
void onnx_line_tensor(onnx_line *line, const char *name,
                      const onnx_blob *value);
/* Appends the node; returns its first output. */
const char *onnx_write_line(onnx_writer *w, const onnx_line *line);
/* Steps of one and of two inputs. */
const char *onnx_write_step(onnx_writer *w, const char *op, const char *x);
const char *onnx_write_pair(onnx_writer *w, const char *op, const char *a,
                            const char *b);

/* Integers x of a type as the operators that place by them want them, i64. */
const char *onnx_write_places(onnx_writer *w, const char *x, ir_dtype dtype);

/* Constants of the file: integers in a row (n = -1: one as a scalar), a number
 * of a type. */
const char *onnx_put_ints(onnx_writer *w, int64_t n, const int64_t *values);
const char *onnx_put_number(onnx_writer *w, ir_dtype dtype, double value);

const ir_tensor *onnx_in_tensor(const onnx_writer *w, int32_t i);
const ir_tensor *onnx_out_tensor(const onnx_writer *w, int32_t i);
bool onnx_out_read(const onnx_writer *w, int32_t i);
int64_t onnx_dtype_number(ir_dtype dtype);
/* "NAME.suffix" that nothing is called yet. */
const char *onnx_new_name(onnx_writer *w, const char *suffix);

/* Handlers of rows of export.def: write the op at hand; false, and nothing
 * written, when they have no form for its attributes. */
typedef bool onnx_out_handler(onnx_writer *w, const char *argument);
#define ONNX_OUT(op, handler, ...) onnx_out_handler onnx_out_##handler;
#define ONNX_BODY ONNX_OUT
#include "onnx/export.def"
#undef ONNX_OUT
#undef ONNX_BODY

/* Writes the op at hand as ONNX operators; false, and nothing written, when
 * they have no form for these attributes. */
bool onnx_write_standard(onnx_writer *w);
/* The function that is the op at hand, made when it is the first of its
 * attributes and shapes; NULL: there is none. */
const char *onnx_function_name(onnx_writer *w);
/* Does the op's body ask for the number of the step? Such a function has one
 * more input, ONNX_STEP (i64 scalar, 1 for the first step). */
#define ONNX_STEP "step"
#define ONNX_TAKEN "taken"
#define ONNX_RATE "rate"
bool onnx_counts_steps(const ir_node *node);
/* The input that the op's function has and the op has not; NULL: none. */
const char *onnx_more_input(const ir_node *node);
/* Is an update's learning rate the same in every step? */
bool onnx_rate_stays(const ir_node *node);
/* The op's own attributes, as fields `field` of a node or a function. */
void onnx_put_attributes(onnx_writer *w, fs_wire_out *out, uint32_t field);
/* "[2, 3]", as a formula reads it. */
void onnx_text_ints(fs_text *text, int32_t n, const int64_t *values);
/* The opset that the op at hand needs. */
int32_t onnx_opset_of(const ir_node *node, const ir_graph *graph);

/* The first op of the table that is this operator of n inputs; IR_OP_COUNT. */
ir_op_kind onnx_op_written_as(const char *op, int32_t n_in);

/* Called for each op (a chain's step), constant and node. */
void onnx_lay_op(onnx_writer *w);
void onnx_lay_constant(onnx_writer *w, const onnx_blob *blob);
void onnx_lay_line(onnx_writer *w, const onnx_line *line);
/* Of input i, then outputs, of a node of the op at hand; NULL: not known. */
const onnx_layout *onnx_layout_of(const onnx_writer *w, const onnx_line *line,
                                  int32_t i);
/* The annotations of one node (its fields of a NodeProto), of the model. */
void onnx_put_node_plan(onnx_writer *w, const onnx_line *line,
                        fs_wire_out *out);
void onnx_put_model_plan(onnx_writer *w, fs_wire_out *out);
void onnx_put_note(fs_wire_out *out, uint32_t field, const char *key,
                   const char *value);

#endif
