/* The builder: what a user, the zoo, the importer and the gradients write
 * networks with. All return a tensor id (-1 after an error: see graph.h). */
#ifndef FS_IR_BUILD_H
#define FS_IR_BUILD_H

#include "ir/op.h"

/* Any op: ir_graph_add, but returns the first output. What all below use. */
int32_t ir_append(ir_graph *g, const ir_node *node);

/* Sources. `shape` is logical; batch_axis -1 when the input has none. */
int32_t ir_input(ir_graph *g, const char *name, ir_dtype dtype, ir_shape shape,
                 int32_t batch_axis);
typedef struct ir_variable_spec {
    ir_role role;
    ir_dtype dtype;
    ir_shape shape;
    ir_init init;
    const void *data; /* IR_INIT_DATA: what it starts from */
    bool partial;     /* it may lie as a partial sum */
} ir_variable_spec;
int32_t ir_variable(ir_graph *g, const char *name,
                    const ir_variable_spec *spec);
/* A variable to train. */
int32_t ir_parameter(ir_graph *g, const char *name, ir_dtype dtype,
                     ir_shape shape, ir_init init);
int32_t ir_constant(ir_graph *g, const char *name, ir_dtype dtype,
                    ir_shape shape, const void *data);
int32_t ir_fill(ir_graph *g, ir_shape shape, double value); /* f32 */
/* Drawn anew every micro-batch: mean and spread as in ir_init; f32. */
int32_t ir_random(ir_graph *g, ir_shape shape, ir_init init);
int32_t ir_dropout(ir_graph *g, int32_t x, double ratio, uint64_t seed);
/* A constant scalar. */
int32_t ir_number(ir_graph *g, ir_dtype dtype, double value);

int32_t ir_matmul(ir_graph *g, int32_t a, int32_t b, bool ta, bool tb);
int32_t ir_weight_grad(ir_graph *g, int32_t a, int32_t b);
/* add sub mul div relu ... by kind. */
int32_t ir_binary(ir_graph *g, ir_op_kind kind, int32_t a, int32_t b);
int32_t ir_unary(ir_graph *g, ir_op_kind kind, int32_t x);
int32_t ir_scale(ir_graph *g, int32_t x, double factor, double offset);
int32_t ir_power(ir_graph *g, int32_t x, double exponent);
int32_t ir_where(ir_graph *g, int32_t c, int32_t a, int32_t b);
int32_t ir_cast(ir_graph *g, int32_t x, ir_dtype dtype);
int32_t ir_widened(ir_graph *g, int32_t x); /* in the type it is computed in */
int32_t ir_reshape(ir_graph *g, int32_t x, ir_shape shape);
int32_t ir_transpose(ir_graph *g, int32_t x, const int32_t *perm);
int32_t ir_slice(ir_graph *g, int32_t x, int32_t axis, int64_t start,
                 int64_t length);
/* By steps: start, length, step (may be negative). */
int32_t ir_slice_by(ir_graph *g, int32_t x, int32_t axis, const int64_t by[3]);
int32_t ir_pad(ir_graph *g, int32_t x, int32_t axis, int64_t before,
               int64_t after);
int32_t ir_concat(ir_graph *g, const int32_t *x, int32_t n, int32_t axis);
int32_t ir_broadcast_to(ir_graph *g, int32_t x, ir_shape shape);
/* reduce_sum, _max, _min, _prod by kind over a bit mask of axes. */
int32_t ir_reduce(ir_graph *g, ir_op_kind kind, int32_t x, uint32_t axes,
                  bool keep);
int32_t ir_reduce_sum(ir_graph *g, int32_t x, uint32_t axes, bool keep);
int32_t ir_reduce_mean(ir_graph *g, int32_t x, uint32_t axes, bool keep);
/* Sums x down to `shape` (the reverse of broadcasting); x itself if equal. */
int32_t ir_unbroadcast(ir_graph *g, int32_t x, ir_shape shape);
int32_t ir_gather(ir_graph *g, int32_t table, int32_t ids);
int32_t ir_softmax(ir_graph *g, int32_t x);
/* Outputs: y; mean and rstd are the node's outputs 1 and 2. */
int32_t ir_layer_norm(ir_graph *g, int32_t x, int32_t gain, int32_t bias,
                      double epsilon);
/* Mean over all labels. */
int32_t ir_cross_entropy(ir_graph *g, int32_t logits, int32_t labels);
/* Mean of (a - b)^2 over all elements. */
int32_t ir_mse(ir_graph *g, int32_t a, int32_t b);
/* Attributes as in ir/window.h: without the lengths; with the lengths of the
 * result; IR_OP_max_pool, .._index or IR_OP_avg_pool. */
int32_t ir_conv(ir_graph *g, int32_t x, int32_t w, const int64_t *attr);
int32_t ir_conv_transpose(ir_graph *g, int32_t x, int32_t w,
                          const int64_t *attr);
int32_t ir_pool(ir_graph *g, ir_op_kind kind, int32_t x, const int64_t *attr);

/* Shape of a tensor; rank -1 when id is -1. */
ir_shape ir_shape_of(const ir_graph *g, int32_t tensor);
/* Marks a tensor as wanted by the user: appends an `output` node. */
void ir_mark_output(ir_graph *g, int32_t tensor);

#endif
