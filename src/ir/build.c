#include "config.h"
#include "ir/build.h"
#include "ir/element.h"
#include "ir/op_util.h"
#include "ir/window.h"

#include <string.h>

int32_t ir_append(ir_graph *g, const ir_node *node)
{
    int32_t id = ir_graph_add(g, node);
    return id < 0 ? -1 : g->nodes.at[id].out[0];
}

ir_shape ir_shape_of(const ir_graph *g, int32_t tensor)
{
    if (tensor < 0 || tensor >= g->tensors.n)
        return (ir_shape){.rank = -1};
    return g->tensors.at[tensor].shape;
}

/* ---- sources ---- */

/* NULL when it failed. */
static ir_tensor *add_source(ir_graph *g, ir_op_kind op, const char *name,
                             ir_dtype dtype, const ir_shape *shape)
{
    ir_node node = {.op = op, .name = name};
    if (shape->rank < 0 || shape->rank > IR_MAX_RANK) {
        ir_graph_fail(g, "%s: %d dimensions; at most %d are supported", name,
                      shape->rank, IR_MAX_RANK);
        return NULL;
    }
    if (name && ir_graph_find(g, name) >= 0) {
        ir_graph_fail(g, "two tensors are named '%s'", name);
        return NULL;
    }
    ir_attr_set_shape(&node, shape);
    node.i[9] = dtype;
    node.i[10] = -1;
    int32_t id = ir_graph_add(g, &node);
    if (id < 0)
        return NULL;
    /* Also when an update makes its state: sources belong to the forward. */
    g->nodes.at[id].phase = IR_FORWARD;
    g->nodes.at[id].forward = -1;
    return &g->tensors.at[g->nodes.at[id].out[0]];
}

static int32_t id_of(const ir_graph *g, const ir_tensor *t)
{
    return (int32_t)(t - g->tensors.at);
}

int32_t ir_input(ir_graph *g, const char *name, ir_dtype dtype, ir_shape shape,
                 int32_t batch_axis)
{
    if (batch_axis < -1 || batch_axis >= shape.rank)
        return ir_graph_fail(g, "%s: batch axis %d of a tensor of rank %d",
                             name, batch_axis, shape.rank);
    ir_tensor *t = add_source(g, IR_OP_input, name, dtype, &shape);
    if (!t)
        return -1;
    t->role = IR_INPUT;
    t->batch_axis = batch_axis;
    g->nodes.at[t->producer].i[10] = batch_axis;
    return id_of(g, t);
}

int32_t ir_variable(ir_graph *g, const char *name, const ir_variable_spec *spec)
{
    ir_tensor *t =
        add_source(g, IR_OP_variable, name, spec->dtype, &spec->shape);
    if (!t)
        return -1;
    t->role = spec->role;
    t->init = spec->init;
    t->data = spec->data;
    g->nodes.at[t->producer].i[11] = spec->partial;
    return id_of(g, t);
}

int32_t ir_parameter(ir_graph *g, const char *name, ir_dtype dtype,
                     ir_shape shape, ir_init init)
{
    return ir_variable(
        g, name,
        &(ir_variable_spec){
            .role = IR_PARAM, .dtype = dtype, .shape = shape, .init = init});
}

int32_t ir_constant(ir_graph *g, const char *name, ir_dtype dtype,
                    ir_shape shape, const void *data)
{
    ir_tensor *t = add_source(g, IR_OP_constant, name, dtype, &shape);
    if (!t)
        return -1;
    t->role = IR_CONST;
    t->data = data;
    return id_of(g, t);
}

/* ---- ops ---- */

static ir_node unary(ir_op_kind op, int32_t x)
{
    return (ir_node){.op = op, .n_in = 1, .in = {x}};
}

static ir_node binary(ir_op_kind op, int32_t a, int32_t b)
{
    return (ir_node){.op = op, .n_in = 2, .in = {a, b}};
}

int32_t ir_fill(ir_graph *g, ir_shape shape, double value)
{
    ir_node node = {.op = IR_OP_fill};
    if (shape.rank < 0 || shape.rank > IR_MAX_RANK)
        return -1;
    ir_attr_set_shape(&node, &shape);
    node.f[0] = value;
    return ir_append(g, &node);
}

int32_t ir_random(ir_graph *g, ir_shape shape, ir_init init)
{
    ir_node node = {.op = IR_OP_random, .f = {init.mean, init.spread}};
    if (shape.rank < 0 || shape.rank > IR_MAX_RANK)
        return -1;
    ir_attr_set_shape(&node, &shape);
    node.i[9] = init.kind;
    node.i[10] = (int64_t)init.seed;
    return ir_append(g, &node);
}

int32_t ir_dropout(ir_graph *g, int32_t x, double ratio, uint64_t seed)
{
    ir_node node = unary(IR_OP_dropout, x);
    node.f[0] = ratio;
    node.i[0] = (int64_t)seed;
    return ir_append(g, &node);
}

int32_t ir_number(ir_graph *g, ir_dtype dtype, double value)
{
    void *data = fs_alloc(g->arena, 1, (size_t)ir_dtype_bytes(dtype));
    ir_element_set_real(dtype, data, 0, value);
    return ir_constant(g, NULL, dtype, (ir_shape){0}, data);
}

int32_t ir_matmul(ir_graph *g, int32_t a, int32_t b, bool ta, bool tb)
{
    ir_node node = binary(IR_OP_matmul, a, b);
    node.i[0] = ta;
    node.i[1] = tb;
    return ir_append(g, &node);
}

int32_t ir_weight_grad(ir_graph *g, int32_t a, int32_t b)
{
    ir_node node = binary(IR_OP_weight_grad, a, b);
    return ir_append(g, &node);
}

int32_t ir_binary(ir_graph *g, ir_op_kind kind, int32_t a, int32_t b)
{
    ir_node node = binary(kind, a, b);
    return ir_append(g, &node);
}

int32_t ir_unary(ir_graph *g, ir_op_kind kind, int32_t x)
{
    ir_node node = unary(kind, x);
    return ir_append(g, &node);
}

int32_t ir_scale(ir_graph *g, int32_t x, double factor, double offset)
{
    ir_node node = unary(IR_OP_scale, x);
    node.f[0] = factor;
    node.f[1] = offset;
    return ir_append(g, &node);
}

int32_t ir_power(ir_graph *g, int32_t x, double exponent)
{
    ir_node node = unary(IR_OP_power, x);
    node.f[0] = exponent;
    return ir_append(g, &node);
}

int32_t ir_where(ir_graph *g, int32_t c, int32_t a, int32_t b)
{
    ir_node node = {.op = IR_OP_where, .n_in = 3, .in = {c, a, b}};
    return ir_append(g, &node);
}

int32_t ir_cast(ir_graph *g, int32_t x, ir_dtype dtype)
{
    ir_node node = unary(IR_OP_cast, x);
    if (x >= 0 && x < g->tensors.n && g->tensors.at[x].dtype == dtype)
        return x;
    node.i[0] = dtype;
    return ir_append(g, &node);
}

int32_t ir_widened(ir_graph *g, int32_t x)
{
    return x < 0 ? x : ir_cast(g, x, ir_dtype_widened(g->tensors.at[x].dtype));
}

/* x as `shape` by op `kind`, whose attributes are that shape; x itself when it
 * has it already. */
static int32_t to_shape(ir_graph *g, ir_op_kind kind, int32_t x,
                        const ir_shape *shape)
{
    ir_shape from = ir_shape_of(g, x);
    if (from.rank < 0 || shape->rank < 0)
        return -1;
    if (ir_shape_equal(&from, shape))
        return x;
    ir_node node = unary(kind, x);
    if (shape->rank > IR_MAX_RANK)
        return ir_graph_fail(g, "%d dimensions; at most %d are supported",
                             shape->rank, IR_MAX_RANK);
    ir_attr_set_shape(&node, shape);
    return ir_append(g, &node);
}

int32_t ir_reshape(ir_graph *g, int32_t x, ir_shape shape)
{
    return to_shape(g, IR_OP_reshape, x, &shape);
}

int32_t ir_broadcast_to(ir_graph *g, int32_t x, ir_shape shape)
{
    return to_shape(g, IR_OP_broadcast_to, x, &shape);
}

int32_t ir_transpose(ir_graph *g, int32_t x, const int32_t *perm)
{
    ir_node node = unary(IR_OP_transpose, x);
    node.i[0] = ir_shape_of(g, x).rank;
    for (int32_t i = 0; i < node.i[0]; i++)
        node.i[i + 1] = perm[i];
    return ir_append(g, &node);
}

int32_t ir_slice(ir_graph *g, int32_t x, int32_t axis, int64_t start,
                 int64_t length)
{
    ir_node node = unary(IR_OP_slice, x);
    node.i[0] = axis;
    node.i[1] = start;
    node.i[2] = length;
    return ir_append(g, &node);
}

int32_t ir_slice_by(ir_graph *g, int32_t x, int32_t axis, const int64_t by[3])
{
    ir_node node = unary(IR_OP_slice, x);
    node.i[0] = axis;
    memcpy(node.i + 1, by, 3 * sizeof *by);
    return ir_append(g, &node);
}

int32_t ir_pad(ir_graph *g, int32_t x, int32_t axis, int64_t before,
               int64_t after)
{
    ir_node node = unary(IR_OP_pad, x);
    node.i[0] = axis;
    node.i[1] = before;
    node.i[2] = after;
    return ir_append(g, &node);
}

int32_t ir_concat(ir_graph *g, const int32_t *x, int32_t n, int32_t axis)
{
    ir_node node = {.op = IR_OP_concat, .n_in = n};
    if (n < 1 || n > IR_MAX_IN)
        return ir_graph_fail(g, "concat: %d inputs; 1 to %d are supported", n,
                             IR_MAX_IN);
    memcpy(node.in, x, (size_t)n * sizeof *x);
    node.i[0] = axis;
    return ir_append(g, &node);
}

int32_t ir_reduce(ir_graph *g, ir_op_kind kind, int32_t x, uint32_t axes,
                  bool keep)
{
    ir_node node = unary(kind, x);
    node.i[0] = axes;
    node.i[1] = keep;
    return ir_append(g, &node);
}

int32_t ir_reduce_sum(ir_graph *g, int32_t x, uint32_t axes, bool keep)
{
    return ir_reduce(g, IR_OP_reduce_sum, x, axes, keep);
}

int32_t ir_reduce_mean(ir_graph *g, int32_t x, uint32_t axes, bool keep)
{
    ir_shape shape = ir_shape_of(g, x);
    int64_t n = 1;
    for (int32_t i = 0; i < shape.rank; i++)
        if (axes >> i & 1)
            n *= shape.dim[i];
    return ir_scale(g, ir_reduce_sum(g, x, axes, keep), 1.0 / (double)n, 0);
}

int32_t ir_unbroadcast(ir_graph *g, int32_t x, ir_shape shape)
{
    ir_shape from = ir_shape_of(g, x);
    int32_t extra = from.rank - shape.rank;
    uint32_t axes = 0;
    if (from.rank < 0 || extra < 0)
        return -1;
    for (int32_t i = 0; i < from.rank; i++)
        if (i < extra || (shape.dim[i - extra] == 1 && from.dim[i] != 1))
            axes |= 1u << i;
    if (axes)
        x = ir_reduce_sum(g, x, axes, false);
    return ir_reshape(g, x, shape); /* puts axes of length 1 back */
}

int32_t ir_gather(ir_graph *g, int32_t table, int32_t ids)
{
    ir_shape rows = ir_shape_of(g, table);
    ir_node node = {.op = IR_OP_gather, .n_in = 2, .in = {table, ids}};
    node.i[0] = rows.rank > 0 ? rows.dim[0] : 0;
    return ir_append(g, &node);
}

int32_t ir_softmax(ir_graph *g, int32_t x)
{
    return ir_unary(g, IR_OP_softmax, x);
}

int32_t ir_layer_norm(ir_graph *g, int32_t x, int32_t gain, int32_t bias,
                      double epsilon)
{
    ir_node node = {.op = IR_OP_layer_norm, .n_in = 3, .in = {x, gain, bias}};
    node.f[0] = epsilon;
    return ir_append(g, &node);
}

int32_t ir_cross_entropy(ir_graph *g, int32_t logits, int32_t labels)
{
    ir_node node = binary(IR_OP_cross_entropy, logits, labels);
    ir_shape rows = ir_shape_of(g, labels);
    if (rows.rank < 0)
        return -1;
    node.f[0] = 1.0 / (double)ir_shape_count(&rows);
    return ir_append(g, &node);
}

int32_t ir_mse(ir_graph *g, int32_t a, int32_t b)
{
    int32_t square = ir_power(g, ir_binary(g, IR_OP_sub, a, b), 2);
    int32_t rank = ir_shape_of(g, square).rank;
    if (rank < 0)
        return -1;
    return ir_reduce_mean(g, square, (1u << rank) - 1, false);
}

int32_t ir_conv(ir_graph *g, int32_t x, int32_t w, const int64_t *attr)
{
    ir_node node = binary(IR_OP_conv, x, w);
    memcpy(node.i, attr, IR_WINDOW_LENGTH * sizeof *attr);
    return ir_append(g, &node);
}

int32_t ir_conv_transpose(ir_graph *g, int32_t x, int32_t w,
                          const int64_t *attr)
{
    ir_node node = binary(IR_OP_conv_data_grad, x, w);
    memcpy(node.i, attr, IR_WINDOW_ATTRS * sizeof *attr);
    return ir_append(g, &node);
}

int32_t ir_pool(ir_graph *g, ir_op_kind kind, int32_t x, const int64_t *attr)
{
    ir_node node = unary(kind, x);
    int32_t n = kind == IR_OP_avg_pool ? IR_WINDOW_LENGTH : IR_WINDOW_ATTRS;
    memcpy(node.i, attr, (size_t)n * sizeof *attr);
    return ir_append(g, &node);
}

void ir_mark_output(ir_graph *g, int32_t tensor)
{
    for (int32_t i = 0; i < g->outputs.n; i++)
        if (g->outputs.at[i] == tensor)
            return;
    ir_node node = unary(IR_OP_output, tensor);
    if (g->err.status == FS_OK && tensor >= 0 && tensor < g->tensors.n)
        node.name =
            fs_printf(g->arena, "output.%s", g->tensors.at[tensor].name);
    if (ir_graph_add(g, &node) >= 0)
        fs_push(g->arena, &g->outputs, tensor);
}
