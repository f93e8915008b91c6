/* Random small instances of every op: what the tests that loop over the op
 * table draw from. An op without a generator fails them by name. */
#ifndef FS_TESTS_OP_CASES_H
#define FS_TESTS_OP_CASES_H

#include "ir/op.h"

/* Elements of an input that the op takes for constants: no gradient goes to
 * them, though the value hangs on them. */
typedef struct op_case_still {
    int32_t input; /* its tensor */
    bool any;      /* there are some: */
    bool all;      /* the whole of it, or else .. */
    int32_t axis;  /* .. those at `row` of this axis */
    int64_t row;
} op_case_still;

typedef struct op_case {
    ir_graph *graph;
    ir_op_kind op;
    ir_dtype real;   /* F32 or F64: the type of real inputs */
    bool other_type; /* may use integers where the op takes them */
    bool wide;       /* last axes of up to 70, for vector loops and tails */
    bool long_axes;  /* no axes of 1 but where the op wants them */
    uint64_t *seed;
    op_case_still still; /* set by op_case_build */
} op_case;

/* Appends inputs and, last, one node of c->op with random shapes and
 * attributes. Returns the node, or -1: no generator, or graph->err. */
int32_t op_case_build(op_case *c);
bool op_case_exists(ir_op_kind op);
/* How many times the usual trials the op is worth (some have many attributes
 * that act on each other); 0: it has no generator. */
int32_t op_case_times(ir_op_kind op);

/* The node as a device sees it that holds these pieces: attributes that state a
 * shape that is cut. */
ir_node op_case_local(const ir_node *node, const ir_io *io);

/* Values of an input made by op_case_build, as its op wants them. */
void op_case_fill(const ir_tensor *input, void *data, uint64_t *seed);

#endif
