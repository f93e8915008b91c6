/* Importing reductions along axes, softmax and norms made of them. */
#include "config.h"
#include "onnx/operators.h"

#include "ir/losses.h"

/* Which axes go, and whether they stay with length 1. */
typedef struct reduction {
    uint32_t axes;
    bool keep;
} reduction;

static int32_t reduce_by(ir_graph *g, ir_op_kind op, int32_t x, reduction r)
{
    return r.axes ? ir_reduce(g, op, x, r.axes, r.keep) : x;
}

/* Reductions that keep integers what they are. */
static int32_t reduce_number(ir_graph *g, int32_t kind, int32_t x, reduction r)
{
    switch (kind) {
    case ONNX_SUM:
        return reduce_by(g, IR_OP_reduce_sum, x, r);
    case ONNX_PROD:
        return reduce_by(g, IR_OP_reduce_prod, x, r);
    case ONNX_REDUCE_MIN:
        return reduce_by(g, IR_OP_reduce_min, x, r);
    default:
        return reduce_by(g, IR_OP_reduce_max, x, r);
    }
}

static int32_t reduce_real(ir_graph *g, int32_t kind, int32_t x, reduction r)
{
    switch (kind) {
    case ONNX_MEAN:
        return r.axes ? ir_reduce_mean(g, x, r.axes, r.keep) : x;
    case ONNX_L1:
        return reduce_by(g, IR_OP_reduce_sum, ir_unary(g, IR_OP_abs, x), r);
    case ONNX_LOG_SUM:
        return ir_unary(g, IR_OP_log, reduce_by(g, IR_OP_reduce_sum, x, r));
    case ONNX_LOG_SUM_EXP:
        return r.axes ? ir_log_sum_exp(g, x, r.axes, r.keep) : x;
    default:
        x = reduce_by(g, IR_OP_reduce_sum, ir_power(g, x, 2), r);
        return kind == ONNX_L2 ? ir_unary(g, IR_OP_sqrt, x) : x;
    }
}

static bool keeps_integers(int32_t kind)
{
    return kind == ONNX_SUM || kind == ONNX_PROD || kind == ONNX_REDUCE_MIN ||
           kind == ONNX_REDUCE_MAX;
}

/* Without axes all are reduced, or, when the model says so, none; what is done
 * to the elements is done all the same. */
fs_status onnx_import_reduce(onnx_ctx *c)
{
    ir_graph *g = c->graph;
    ir_shape in;
    reduction r = {.keep = onnx_attr_int(c, "keepdims", 1) != 0};
    FS_TRY(onnx_shape(c, 0, &in));
    bool noop = onnx_attr_int(c, "noop_with_empty_axes", 0) != 0;
    FS_TRY(onnx_axes(c, 1, in.rank, noop ? 0 : (1u << in.rank) - 1, &r.axes));
    if (r.axes == 0 && (keeps_integers(c->arg) || c->arg == ONNX_MEAN))
        return onnx_alias(c, 0, 0);
    const ir_dtype dtype = onnx_dtype_of(c, 0);
    int32_t x = onnx_in(c, 0);
    if (ir_dtype_is_float(dtype) && !keeps_integers(c->arg))
        return onnx_set(c, 0, reduce_real(g, c->arg, x, r));
    /* Booleans count as 0 and 1; roots and logarithms of integers are cut. */
    ir_dtype as = dtype == IR_BOOL ? IR_I32 : dtype;
    if (!keeps_integers(c->arg))
        as = IR_F64;
    x = ir_cast(g, x, as);
    x = as == IR_F64 && dtype != IR_F64 ? reduce_real(g, c->arg, x, r)
                                        : reduce_number(g, c->arg, x, r);
    return onnx_set(c, 0, ir_cast(g, x, dtype));
}

static int32_t row_op(ir_graph *g, ir_op_kind op, int32_t x)
{
    return op == IR_OP_arg_max ? ir_hardmax(g, x) : ir_unary(g, op, x);
}

/* Softmax and its kin. Before opset 13 the axes from `axis` on are one; since
 * then `axis` is one axis, which is brought to the end and back. */
fs_status onnx_import_softmax(onnx_ctx *c)
{
    ir_graph *g = c->graph;
    const ir_op_kind op = (ir_op_kind)c->arg;
    ir_shape in;
    int32_t axis, perm[IR_MAX_RANK];
    FS_TRY(onnx_shape(c, 0, &in));
    FS_TRY(onnx_axis(c, onnx_attr_int(c, "axis", c->opset < 13 ? 1 : -1),
                     in.rank, &axis));
    int32_t x = onnx_in(c, 0);
    if (axis == in.rank - 1)
        return onnx_set(c, 0, row_op(g, op, x));
    if (c->opset < 13) {
        ir_shape flat = {.rank = 2, .dim = {1, 1}};
        for (int32_t i = 0; i < in.rank; i++)
            flat.dim[i >= axis] *= in.dim[i];
        x = row_op(g, op, ir_reshape(g, x, flat));
        return onnx_set(c, 0, ir_reshape(g, x, in));
    }
    for (int32_t i = 0; i < in.rank; i++)
        perm[i] = i == axis ? in.rank - 1 : i == in.rank - 1 ? axis : i;
    x = row_op(g, op, ir_transpose(g, x, perm));
    return onnx_set(c, 0, ir_transpose(g, x, perm));
}

/* Places are i64, whatever the elements were cast to. */
static fs_status set_places(onnx_ctx *c, int32_t i, int32_t tensor)
{
    const bool widens = c->widens;
    c->widens = false;
    const fs_status status = onnx_set(c, i, tensor);
    c->widens = widens;
    return status;
}

fs_status onnx_import_arg_max(onnx_ctx *c)
{
    ir_shape in;
    int32_t axis;
    FS_TRY(onnx_shape(c, 0, &in));
    FS_TRY(onnx_axis(c, onnx_attr_int(c, "axis", 0), in.rank, &axis));
    ir_node node = {.op = IR_OP_arg_max, .n_in = 1, .in = {onnx_in(c, 0)}};
    node.i[0] = axis;
    node.i[1] = onnx_attr_int(c, "keepdims", 1) != 0;
    node.i[2] = onnx_attr_int(c, "select_last_index", 0) != 0;
    node.i[3] = c->arg;
    return set_places(c, 0, ir_append(c->graph, &node));
}

static fs_status one_integer(onnx_ctx *c, const char *attr, int32_t i,
                             int64_t *out)
{
    const char *what = attr ? attr : "the axis";
    onnx_ints list;
    const onnx_attr *given = attr ? onnx_attr_find(c, attr) : NULL;
    if (given && given->has_i) {
        *out = given->i;
        return FS_OK;
    }
    FS_TRY(onnx_get_ints(c, NULL, i, &list));
    if (list.n != 1)
        return onnx_fail(c, "%s must be one number", what);
    *out = list.at[0];
    return FS_OK;
}

fs_status onnx_import_top_k(onnx_ctx *c)
{
    ir_shape in;
    int32_t axis;
    int64_t k = 0;
    FS_TRY(onnx_shape(c, 0, &in));
    FS_TRY(onnx_axis(c, onnx_attr_int(c, "axis", -1), in.rank, &axis));
    FS_TRY(one_integer(c, "k", 1, &k));
    ir_node node = {.op = IR_OP_top_k, .n_in = 1, .in = {onnx_in(c, 0)}};
    node.i[0] = axis;
    node.i[1] = k;
    node.i[2] = onnx_attr_int(c, "largest", 1) != 0;
    const int32_t id = ir_graph_add(c->graph, &node);
    if (id < 0)
        return FS_INVALID;
    const ir_node *made = &c->graph->nodes.at[id];
    const int32_t values = made->out[0], places = made->out[1];
    FS_TRY(set_places(c, 1, places));
    return onnx_set(c, 0, values);
}

fs_status onnx_import_cum_sum(onnx_ctx *c)
{
    ir_shape in;
    int32_t axis;
    int64_t given = 0;
    FS_TRY(onnx_shape(c, 0, &in));
    FS_TRY(one_integer(c, NULL, 1, &given));
    FS_TRY(onnx_axis(c, given, in.rank, &axis));
    ir_node node = {.op = IR_OP_cum_sum, .n_in = 1, .in = {onnx_in(c, 0)}};
    node.i[0] = axis;
    node.i[1] = onnx_attr_int(c, "exclusive", 0) != 0;
    node.i[2] = onnx_attr_int(c, "reverse", 0) != 0;
    return onnx_set(c, 0, ir_append(c->graph, &node));
}

/* The element d places before along `axis`; 1 where there is none. */
static int32_t shifted(ir_graph *g, int32_t x, int32_t axis, int64_t d)
{
    ir_shape shape = ir_shape_of(g, x);
    if (shape.rank < 0)
        return -1;
    const int64_t length = shape.dim[axis];
    shape.dim[axis] = d;
    int32_t parts[2] = {
        ir_cast(g, ir_fill(g, shape, 1), g->tensors.at[x].dtype), -1};
    if (d >= length)
        return parts[0];
    parts[1] = ir_slice(g, x, axis, 0, length - d);
    return ir_concat(g, parts, 2, axis);
}

static int32_t turned(ir_graph *g, int32_t x, int32_t axis)
{
    const int64_t length = x < 0 ? 1 : ir_shape_of(g, x).dim[axis];
    return ir_slice_by(g, x, axis, (int64_t[]){length - 1, length, -1});
}

/* Running products by doubling: after the turn of d each element is the
 * product of the last 2 d up to it. */
fs_status onnx_import_cum_prod(onnx_ctx *c)
{
    ir_graph *g = c->graph;
    ir_shape in;
    int32_t axis;
    int64_t given = 0;
    const bool back = onnx_attr_int(c, "reverse", 0) != 0;
    FS_TRY(onnx_shape(c, 0, &in));
    FS_TRY(one_integer(c, NULL, 1, &given));
    FS_TRY(onnx_axis(c, given, in.rank, &axis));
    int32_t x = onnx_in(c, 0);
    x = back ? turned(g, x, axis) : x;
    if (onnx_attr_int(c, "exclusive", 0) != 0)
        x = shifted(g, x, axis, 1);
    for (int64_t d = 1; d < in.dim[axis] && x >= 0; d *= 2)
        x = ir_binary(g, IR_OP_mul, x, shifted(g, x, axis, d));
    return onnx_set(c, 0, back ? turned(g, x, axis) : x);
}

/* x divided by its norm along one axis; zeros stay what they are. */
fs_status onnx_import_lp_norm(onnx_ctx *c)
{
    ir_graph *g = c->graph;
    ir_shape in;
    int32_t axis;
    const int64_t p = onnx_attr_int(c, "p", 2);
    FS_TRY(onnx_shape(c, 0, &in));
    FS_TRY(onnx_axis(c, onnx_attr_int(c, "axis", -1), in.rank, &axis));
    if (p != 1 && p != 2)
        return onnx_fail(c, "a norm of order %lld; there are 1 and 2",
                         (long long)p);
    const int32_t x = onnx_in(c, 0);
    const reduction r = {1u << axis, true};
    const int32_t norm = reduce_real(g, p == 1 ? ONNX_L1 : ONNX_L2, x, r);
    if (norm < 0)
        return FS_INVALID;
    const ir_dtype dtype = g->tensors.at[norm].dtype;
    const int32_t none =
        ir_binary(g, IR_OP_equal, norm, ir_number(g, dtype, 0));
    const int32_t divisor =
        ir_binary(g, IR_OP_add, norm, ir_cast(g, none, dtype));
    return onnx_set(c, 0, ir_binary(g, IR_OP_div, x, divisor));
}

/* (x - mean) / (deviation + 1e-9) over axes. */
fs_status onnx_import_mean_variance(onnx_ctx *c)
{
    ir_graph *g = c->graph;
    ir_shape in;
    uint32_t axes;
    FS_TRY(onnx_shape(c, 0, &in));
    FS_TRY(onnx_axes(c, -1, in.rank, 13, &axes)); /* 0, 2, 3 */
    if (axes >> in.rank)
        return onnx_fail(c, "axes 0, 2 and 3 of a tensor of rank %d", in.rank);
    const int32_t x = onnx_in(c, 0);
    const int32_t mean = ir_reduce_mean(g, x, axes, true);
    const int32_t off = ir_binary(g, IR_OP_sub, x, mean);
    const int32_t square = ir_reduce_mean(g, ir_power(g, off, 2), axes, true);
    const int32_t deviation = ir_unary(g, IR_OP_sqrt, square);
    return onnx_set(
        c, 0, ir_binary(g, IR_OP_div, off, ir_scale(g, deviation, 1, 1e-9)));
}
