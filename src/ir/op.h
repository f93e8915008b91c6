/* An op: one row of ops.def, one constant of this type. */
#ifndef FS_IR_OP_H
#define FS_IR_OP_H

#include "ir/graph.h"

typedef enum ir_op_class {
    IR_CLASS_SOURCE,
    IR_CLASS_MATMUL,
    IR_CLASS_CONV,
    IR_CLASS_ATTENTION,
    IR_CLASS_POINTWISE,
    IR_CLASS_REDUCE,
    IR_CLASS_GATHER,
    IR_CLASS_COPY,
    IR_CLASS_VIEW,
    IR_CLASS_UPDATE
} ir_op_class;

/* A product as `groups` products of matrices, rows x depth by depth x columns;
 * of a convolution the one that it comes to; of attention that of its scores.
 */
typedef struct ir_product {
    int64_t groups, rows, columns, depth; /* 0: there is none */
    int64_t inner; /* divides the innermost axis of each matrix: so many
                      elements begin together; 0: nobody asks, as of
                      convolutions */
} ir_product;

/* Exact amounts of one execution on a local shard: work, not time. */
typedef struct ir_work {
    int64_t flop;
    int64_t macs; /* multiply-adds of products and convolutions: two flop each,
                     the rest of them element-wise; what papers count */
    int64_t read_bytes, written_bytes;
    int64_t scratch_bytes; /* the reference kernel's need, and float copies of
                              16-bit operands where it computes with them */
    ir_dtype narrow;       /* of 16-bit floats among its operands; IR_F32:
                              there are none */
    ir_product product;
} ir_work;

/* A signature on ONE mesh axis: what each input must be, what comes out. */
typedef struct ir_sig {
    ir_sbp in[IR_MAX_IN], out[IR_MAX_OUT];
} ir_sig;
typedef FS_VEC(ir_sig) ir_sig_list;

/* A signature on a mesh of N axes. */
typedef struct ir_nd_sig {
    ir_nd_sbp in[IR_MAX_IN], out[IR_MAX_OUT];
} ir_nd_sig;
typedef FS_VEC(ir_nd_sig) ir_nd_sig_list;

/* Logical or local shapes and dtypes of a node's inputs and outputs. */
typedef struct ir_io {
    ir_shape in[IR_MAX_IN], out[IR_MAX_OUT];
    ir_dtype in_dtype[IR_MAX_IN], out_dtype[IR_MAX_OUT];
} ir_io;

enum { IR_OUT_OF_NODE = -1 }; /* n_out: as many as the node says */

typedef struct ir_op {
    const char *name;
    int32_t min_in, max_in, n_out;
    bool moves; /* 16-bit floats need no float copies: elements of any type by
                   their size, without arithmetic; casts; chains and updates,
                   which widen a tile at a time */
    bool draws; /* i[seed_attr] seeds its draws: a name, which changes
                   neither shapes, signatures nor work */
    int32_t seed_attr;
    bool picks;     /* outputs hang on how the inputs lie (each device picks of
                       what it holds): pieces do not give the whole */
    bool commutes;  /* inputs 0 and 1 may be swapped */
    int32_t states; /* inputs from 2 on that are states of an optimizer, whose
                       next values are outputs from 1 on */
    /* Input k holds ids that must be below the result; 0: it holds none, or
     * nobody says. NULL: none does. */
    int64_t (*ids_below)(const ir_node *node, const ir_io *io, int32_t k);
    /* How output 0 grows where no signature tells (samples.c): which f[] it is
     * proportional to (-1: none), the power of input k that it is. NULL: none,
     * no power of any. */
    int32_t (*factor)(const ir_node *node);
    double (*power)(const ir_node *node, int32_t k);
    /* From io->in (shapes, dtypes) and the attributes: io->out. */
    fs_status (*infer)(const ir_node *node, ir_io *io, fs_err *err);
    /* Appends the legal one-axis signatures but all-B, which the caller adds
     * (NULL: only all-B). io holds the logical shapes. Lengths need not be
     * checked against the mesh: the caller filters. */
    void (*sbp)(const ir_node *node, const ir_io *io, fs_arena *arena,
                ir_sig_list *out);
    /* Refuses a signature on N axes for what no single axis can see (also
     * with later axes still B: what it refuses stays refused). NULL: none. */
    bool (*veto)(const ir_node *node, const ir_io *io, const ir_mesh *mesh,
                 const ir_nd_sig *sig);
    /* For local shapes; NULL: no work. */
    void (*work)(const ir_node *node, const ir_io *io, ir_work *out);
    /* Appends backward nodes through the builder: from dout[] (tensor ids,
     * -1 where no gradient flows) to din[] (leave -1 where there is none).
     * NULL: not differentiable. */
    void (*grad)(ir_graph *graph, const ir_node *node, const int32_t *dout,
                 int32_t *din);
} ir_op;

/* The table: ir_op_table[IR_OP_matmul]. */
extern const ir_op *const ir_op_table[IR_OP_COUNT];
ir_op_class ir_op_class_of(ir_op_kind kind);
/* Does its time follow its flop, not its bytes? */
bool ir_op_is_dense(ir_op_kind kind);
/* How many outputs the node's op makes of it. */
int32_t ir_op_outputs(const ir_node *node);
/* The whole attributes of a node but for the seed of its draws, which is 0. */
void ir_structural_attrs(const ir_node *node, int64_t out[IR_MAX_ATTR]);
/* Hashes of a node but for what it reads and makes (op, phase, numbers of
 * these, structural attributes), and of a tensor's shape and type: for tables
 * within a run, in no file. */
uint64_t ir_node_look(const ir_node *node);
uint64_t ir_tensor_look(const ir_tensor *tensor, uint64_t seed);
const char *ir_op_class_name(ir_op_class op_class);
/* IR_OP_COUNT when unknown. */
ir_op_kind ir_op_by_name(const char *name);

/* Logical shapes of a node of a graph. */
void ir_node_io(const ir_graph *graph, const ir_node *node, ir_io *io);
/* Local shapes under a signature, largest piece. */
void ir_node_local_io(const ir_graph *graph, const ir_node *node,
                      const ir_nd_sig *sig, const ir_mesh *mesh, ir_io *io);
/* Bytes of a float copy of a tensor of 16-bit floats, in multiples of 64; 0 for
 * any other type. */
int64_t ir_widened_bytes(const ir_shape *shape, ir_dtype dtype);
/* Work on the largest local piece; all of it but scratch, which is harder to
 * say. */
void ir_node_flow(const ir_graph *graph, const ir_node *node,
                  const ir_nd_sig *sig, const ir_mesh *mesh, ir_work *out);
void ir_node_work(const ir_graph *graph, const ir_node *node,
                  const ir_nd_sig *sig, const ir_mesh *mesh, ir_work *out);
/* What a kernel's time hangs on, as a hash: op, structural attributes, shapes
 * and types of the largest local pieces. The same in all programs: it stands in
 * files. Never 0. */
uint64_t ir_node_form(const ir_graph *graph, const ir_node *node,
                      const ir_nd_sig *sig, const ir_mesh *mesh);
/* Scratch of a node of local shapes that has 16-bit floats and does not move
 * them: its own, and of float copies. */
int64_t ir_widened_scratch(const ir_node *node, const ir_io *local);

/* All one-axis signatures, all-B first, no duplicates. */
void ir_signatures_1d(const ir_graph *graph, const ir_node *node,
                      fs_arena *arena, ir_sig_list *out);
/* The same of shapes and types, as of a piece. */
void ir_signatures_local(const ir_node *node, const ir_io *io, fs_arena *arena,
                         ir_sig_list *out);
/* The product over the mesh's axes, filtered: every tensor fits its SBP
 * (ir_nd_sbp_fits). Axes of length 1 only get all-B. Order is stable: axis 0
 * varies slowest. A mesh of 0 axes has exactly one (empty) signature. */
void ir_signatures(const ir_graph *graph, const ir_node *node,
                   const ir_mesh *mesh, fs_arena *arena, ir_nd_sig_list *out);
/* Whether shapes allow a product of one-axis signatures. */
bool ir_signature_fits(const ir_node *node, const ir_io *io,
                       const ir_mesh *mesh, const ir_nd_sig *sig);
/* Is this signature one of them? (plan_check asks.) */
bool ir_signature_legal(const ir_graph *graph, const ir_node *node,
                        const ir_mesh *mesh, const ir_nd_sig *sig);
/* "S(0) B -> S(0)": inputs, outputs; each as ir_nd_sbp_text. */
const char *ir_signature_text(const ir_node *node, const ir_nd_sig *sig,
                              int32_t n_axes, fs_arena *arena);

#endif
