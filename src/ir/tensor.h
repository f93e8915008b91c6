/* Shapes, dtypes and tensors of the model as data. */
#ifndef FS_IR_TENSOR_H
#define FS_IR_TENSOR_H

#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>

enum { IR_MAX_RANK = 8 };

typedef enum ir_dtype {
#define IR_DTYPE(id, ...) IR_##id,
#include "ir/dtypes.def"
#undef IR_DTYPE
} ir_dtype;
#define IR_DTYPE(...) +1
enum {
    IR_DTYPE_COUNT = 0
#include "ir/dtypes.def"
};
#undef IR_DTYPE
int64_t ir_dtype_bytes(ir_dtype dtype);
const char *ir_dtype_name(ir_dtype dtype);
/* Of any width. */
bool ir_dtype_is_float(ir_dtype dtype);
bool ir_dtype_is_int(ir_dtype dtype);
/* Do kernels compute in it? Others are stored, moved and cast. */
bool ir_dtype_computes(ir_dtype dtype);
/* Is there arithmetic on it? Either kernels compute in it, or it is a 16-bit
 * float, which they widen. */
bool ir_dtype_is_number(ir_dtype dtype);
/* What arithmetic on values of it is done in: itself when it computes, else a
 * type that holds all its values (of u64: the low 63 bits). */
ir_dtype ir_dtype_widened(ir_dtype dtype);

/* Row-major; rank 0 is a scalar of one element. */
typedef struct ir_shape {
    int32_t rank;
    int64_t dim[IR_MAX_RANK];
} ir_shape;

ir_shape ir_shape_make(int32_t rank, const int64_t *dim);
bool ir_shape_equal(const ir_shape *a, const ir_shape *b);
/* Product of the dimensions. Shapes in a graph were checked not to overflow
 * int64 bytes when they were added. */
int64_t ir_shape_count(const ir_shape *shape);
/* "8x128x128", "scalar"; writes at most 160 bytes, returns out. */
char *ir_shape_text(char out[160], const ir_shape *shape);
/* Fails when a dimension is < 1 or count * 8 overflows int64. `what` names
 * the thing for the message. */
fs_status ir_shape_check(const ir_shape *shape, const char *what, fs_err *err);
/* NumPy broadcasting; fails when the two do not fit. */
fs_status ir_shape_broadcast(const ir_shape *a, const ir_shape *b, fs_err *err,
                             ir_shape *out);

/* How a variable gets its first value. Element e of the logical tensor is a
 * function of (seed, e) only, so that every shard draws the same numbers. */
typedef enum ir_init_kind {
    IR_INIT_ZERO,
    IR_INIT_CONSTANT, /* mean */
    IR_INIT_NORMAL,   /* mean, spread = standard deviation */
    IR_INIT_UNIFORM,  /* mean - spread .. mean + spread */
    IR_INIT_DATA      /* copied from tensor.data */
} ir_init_kind;

typedef struct ir_init {
    ir_init_kind kind;
    double mean, spread;
    uint64_t seed; /* mixed with the tensor's name and the run's seed */
} ir_init;

/* What the tensor is to the training step. */
typedef enum ir_role {
    IR_ACTIVATION, /* made by an op */
    IR_INPUT,      /* fed by data, every micro-batch */
    IR_PARAM,      /* variable that is trained */
    IR_STATE,      /* variable of the optimizer */
    IR_BUFFER,     /* variable that is not trained */
    IR_CONST       /* known at import */
} ir_role;

typedef struct ir_tensor {
    const char *name; /* unique in its graph */
    ir_dtype dtype;
    ir_role role;
    ir_shape shape;     /* logical (whole) shape */
    int32_t producer;   /* node that makes it: always one (source ops too) */
    int32_t slot;       /* which of its outputs */
    const void *data;   /* row-major, host order; consts and IR_INIT_DATA.
                           Borrowed: lives as long as the graph's arena or the
                           mapped model file */
    ir_init init;       /* variables */
    int32_t next;       /* variables: the tensor whose value it takes after the
                           update (loop-carried edge), or -1 */
    int32_t again_of;   /* copies: the tensor of the forward pass that is made
                           again (recompute.h), or -1 */
    int32_t batch_axis; /* inputs, and outputs of a step of inference: the axis
                           along which they hold samples, or -1 */
} ir_tensor;

#endif
