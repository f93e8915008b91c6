/* The program of a `chain`: pointwise ops that run one after the other on tiles
 * of a single iteration space, so that what they hand to each other stays in
 * the first caches. To search, cost, plan and runtime it is one op. */
#ifndef FS_IR_CHAIN_H
#define FS_IR_CHAIN_H

#include "ir/op.h"

enum { IR_CHAIN_STEPS = 16, IR_CHAIN_VALUES = IR_MAX_IN + IR_CHAIN_STEPS };
/* Elements of a tile at most: values between two steps stay in the caches, and
 * a step's set-up is small beside its loop. */
enum { IR_CHAIN_TILE = 2048 };

/* A value is a number: below the node's n_in its input, n_in + k what step k
 * makes. A step is a node whose in[] are values and whose out[] stand for
 * nothing; it reads inputs of the chain, which may be stretched to the space,
 * and what steps before it make, which have its shape. Immutable; lives in the
 * graph's arena. */
struct ir_chain {
    int32_t n_steps;
    int32_t out[IR_MAX_OUT]; /* values of steps, all different */
    const ir_node *step;     /* [n_steps] */
};

/* May a node be a step? It must be pointwise with inputs and one output, keep
 * nothing between calls and have no faults to report. */
bool ir_chain_takes(const ir_graph *graph, const ir_node *node);
/* Of all that shapes, signatures and work depend on: what i[0] of the node
 * must be, so that nodes of equal attributes do the same. Not of seeds. */
int64_t ir_chain_digest(const ir_chain *chain, int32_t n_out);

/* Shapes and dtypes of one step, from those of all values before it. */
typedef struct ir_chain_types {
    ir_shape shape[IR_CHAIN_VALUES];
    ir_dtype dtype[IR_CHAIN_VALUES];
} ir_chain_types;
/* From io's inputs, in the order of steps; io may be local. */
fs_status ir_chain_infer(const ir_node *node, const ir_io *io, fs_err *err,
                         ir_chain_types *out);

/* The work of each step on a local piece, as if it ran alone; returns how many
 * tiles the piece has. work[n_steps] */
int64_t ir_chain_work(const ir_graph *graph, const ir_node *node,
                      const ir_nd_sig *sig, const ir_mesh *mesh, ir_work *work);

/* A chain's steps as nodes again: *out is `graph` with them in its place and
 * with tensors for what they hand on, behind the graph's own; for reading only,
 * until `arena` or the graph is gone. origin[]: from which node each is. */
void ir_chain_expand(const ir_graph *graph, fs_arena *arena, ir_graph *out,
                     int32_t **origin);

#endif
