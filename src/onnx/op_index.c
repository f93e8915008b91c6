/* Importing operators that read and write by position. */
#include "config.h"
#include "onnx/operators.h"

#include "ir/element.h"

#include <string.h>

static ir_node node_of(onnx_ctx *c, ir_op_kind op, int32_t n_in)
{
    ir_node node = {.op = op, .n_in = n_in};
    for (int32_t i = 0; i < n_in; i++)
        node.in[i] = onnx_in(c, i);
    return node;
}

static fs_status set_node(onnx_ctx *c, const ir_node *node)
{
    return onnx_set(c, 0, ir_append(c->graph, node));
}

/* "none", "add", "mul", "min", "max" by number. */
static fs_status get_reduction(onnx_ctx *c, int64_t *out)
{
    static const char *const names[] = {"none", "add", "mul", "min", "max"};
    const char *name = onnx_attr_text(c, "reduction", "none");
    for (*out = 0; *out < 5; ++*out)
        if (strcmp(name, names[*out]) == 0)
            return FS_OK;
    return onnx_fail(c, "reduction \"%.80s\" is not supported", name);
}

/* The axis, and that ids stay within x beside it. */
static fs_status get_elements(onnx_ctx *c, ir_node *node)
{
    ir_shape x, ids;
    int32_t axis;
    FS_TRY(onnx_shape(c, 0, &x));
    FS_TRY(onnx_shape(c, 1, &ids));
    FS_TRY(onnx_axis(c, onnx_attr_int(c, "axis", 0), x.rank, &axis));
    if (ids.rank != x.rank)
        return onnx_fail(c, "indices of rank %d for a tensor of rank %d",
                         ids.rank, x.rank);
    for (int32_t i = 0; i < x.rank; i++)
        if (i != axis && ids.dim[i] > x.dim[i])
            return onnx_fail(c, "%lld indices along axis %d of length %lld",
                             (long long)ids.dim[i], i, (long long)x.dim[i]);
    node->i[0] = axis;
    node->i[1] = x.dim[axis];
    return FS_OK;
}

fs_status onnx_import_gather_elements(onnx_ctx *c)
{
    ir_node node = node_of(c, IR_OP_gather_elements, 2);
    FS_TRY(get_elements(c, &node));
    return set_node(c, &node);
}

fs_status onnx_import_scatter_elements(onnx_ctx *c)
{
    ir_node node = node_of(c, IR_OP_scatter_elements, 3);
    FS_TRY(get_elements(c, &node));
    FS_TRY(get_reduction(c, &node.i[2]));
    return set_node(c, &node);
}

/* Lengths of the axes that a position is in. */
static fs_status get_positions(onnx_ctx *c, int64_t batch, ir_node *node)
{
    ir_shape x, ids;
    FS_TRY(onnx_shape(c, 0, &x));
    FS_TRY(onnx_shape(c, 1, &ids));
    int64_t k = ids.rank ? ids.dim[ids.rank - 1] : 0;
    if (batch < 0 || batch >= x.rank || k < 1 || k > x.rank - batch)
        return onnx_fail(c,
                         "positions of %lld axes after %lld of a tensor of "
                         "rank %d",
                         (long long)k, (long long)batch, x.rank);
    node->i[0] = batch;
    memcpy(node->i + 1, x.dim + batch, (size_t)k * sizeof *x.dim);
    return FS_OK;
}

fs_status onnx_import_gather_nd(onnx_ctx *c)
{
    ir_node node = node_of(c, IR_OP_gather_nd, 2);
    FS_TRY(get_positions(c, onnx_attr_int(c, "batch_dims", 0), &node));
    return set_node(c, &node);
}

fs_status onnx_import_scatter_nd(onnx_ctx *c)
{
    ir_node node = node_of(c, IR_OP_scatter_nd, 3);
    FS_TRY(get_positions(c, 0, &node));
    FS_TRY(get_reduction(c, &node.i[9]));
    return set_node(c, &node);
}

static fs_status one_number(onnx_ctx *c, int32_t i, const char *what,
                            const onnx_const **out)
{
    FS_TRY(onnx_need(c, i, what, out));
    return onnx_const_count(*out) == 1
               ? FS_OK
               : onnx_fail(c, "%s must be one number", what);
}

/* Values that depend on the data: off + (on - off) times zeros and ones. */
static fs_status spread_hot(onnx_ctx *c, ir_node *node)
{
    ir_graph *g = c->graph;
    int32_t values = onnx_in(c, 2);
    ir_shape shape = ir_shape_of(g, values), scalar = {0};
    if (shape.rank != 1 || shape.dim[0] != 2)
        return onnx_fail(c, "values must be two numbers");
    node->i[2] = g->tensors.at[values].dtype;
    node->f[1] = 1;
    int32_t off = ir_reshape(g, ir_slice(g, values, 0, 0, 1), scalar);
    int32_t on = ir_reshape(g, ir_slice(g, values, 0, 1, 1), scalar);
    int32_t y = ir_binary(g, IR_OP_mul, ir_append(g, node),
                          ir_binary(g, IR_OP_sub, on, off));
    return onnx_set(c, 0, ir_binary(g, IR_OP_add, y, off));
}

/* Whatever type the indices have, the op wants whole numbers. */
fs_status onnx_import_one_hot(onnx_ctx *c)
{
    ir_shape ids;
    int32_t axis;
    const onnx_const *depth;
    FS_TRY(onnx_shape(c, 0, &ids));
    FS_TRY(one_number(c, 1, "the depth", &depth));
    FS_TRY(onnx_axis(c, onnx_attr_int(c, "axis", -1), ids.rank + 1, &axis));
    int32_t x = onnx_in(c, 0);
    ir_dtype dtype = onnx_dtype_of(c, 0);
    if (dtype != IR_I32 && dtype != IR_I64)
        x = ir_cast(c->graph, x, IR_I64);
    ir_node node = {.op = IR_OP_one_hot, .n_in = 1, .in = {x}};
    node.i[0] = axis;
    node.i[1] = ir_dtype_is_float(depth->dtype)
                    ? (int64_t)onnx_const_real(depth, 0)
                    : onnx_const_int(depth, 0);
    FS_TRY(onnx_at_least(c, "the depth", node.i[1], 1));
    const onnx_const *values = onnx_known(c, 2);
    if (!values)
        return spread_hot(c, &node);
    if (onnx_const_count(values) != 2)
        return onnx_fail(c, "values must be two numbers");
    node.i[2] = onnx_dtype_of(c, 2);
    node.f[0] = onnx_const_real(values, 0);
    node.f[1] = onnx_const_real(values, 1);
    return set_node(c, &node);
}

fs_status onnx_import_trilu(onnx_ctx *c)
{
    const onnx_const *k = NULL;
    if (onnx_has(c, 1))
        FS_TRY(one_number(c, 1, "the diagonal", &k));
    ir_node node = node_of(c, IR_OP_trilu, 1);
    node.i[0] = onnx_attr_int(c, "upper", 1) != 0;
    node.i[1] = k ? onnx_const_int(k, 0) : 0;
    return set_node(c, &node);
}

/* Axis `axis` n times in a row: a new axis before it, stretched. */
static int32_t repeat(ir_graph *g, int32_t x, int32_t axis, int64_t n)
{
    ir_shape in = ir_shape_of(g, x), longer = in;
    if (in.rank < 0 || n == 1)
        return x;
    if (in.rank == IR_MAX_RANK)
        return ir_graph_fail(g, "a tensor of %d dimensions cannot be tiled",
                             IR_MAX_RANK);
    memmove(longer.dim + axis + 1, longer.dim + axis,
            (size_t)(in.rank - axis) * sizeof *in.dim);
    longer.rank++;
    longer.dim[axis] = 1;
    x = ir_reshape(g, x, longer);
    longer.dim[axis] = n;
    x = ir_broadcast_to(g, x, longer);
    if (__builtin_mul_overflow(in.dim[axis], n, &in.dim[axis]))
        return ir_graph_fail(g, "axis %d becomes too long", axis);
    return ir_reshape(g, x, in);
}

/* Opset 1 gives one axis and its number of tiles as scalars. */
static fs_status get_repeats(onnx_ctx *c, int32_t rank,
                             int64_t out[IR_MAX_RANK])
{
    const onnx_const *list, *axis;
    for (int32_t i = 0; i < rank; i++)
        out[i] = 1;
    FS_TRY(onnx_need(c, 1, "the repeats", &list));
    if (c->opset < 6) {
        int32_t at;
        FS_TRY(one_number(c, 1, "the number of tiles", &list));
        FS_TRY(one_number(c, 2, "the axis", &axis));
        FS_TRY(onnx_axis(c, (int64_t)onnx_const_real(axis, 0), rank, &at));
        out[at] = (int64_t)onnx_const_real(list, 0);
        return FS_OK;
    }
    if (list->shape.rank != 1 || list->shape.dim[0] != rank)
        return onnx_fail(c, "its repeats are no list of %d numbers", rank);
    for (int32_t i = 0; i < rank; i++)
        out[i] = onnx_const_int(list, i);
    return FS_OK;
}

fs_status onnx_import_tile(onnx_ctx *c)
{
    ir_shape shape;
    int64_t repeats[IR_MAX_RANK];
    FS_TRY(onnx_shape(c, 0, &shape));
    FS_TRY(get_repeats(c, shape.rank, repeats));
    for (int32_t i = 0; i < shape.rank; i++)
        if (repeats[i] < 0 || repeats[i] > INT32_MAX)
            return onnx_fail(c, "axis %d is repeated %lld times", i,
                             (long long)repeats[i]);
    for (int32_t i = 0; i < shape.rank; i++) {
        if (repeats[i] > 0)
            continue;
        onnx_const empty = {onnx_dtype_of(c, 0), shape,
                            fs_alloc(c->arena, 1, 8)};
        for (int32_t k = 0; k < shape.rank; k++)
            if (__builtin_mul_overflow(shape.dim[k], repeats[k],
                                       &empty.shape.dim[k]))
                return onnx_fail(c, "axis %d becomes too long", k);
        return onnx_set_known(c, 0, &empty);
    }
    int32_t x = onnx_in(c, 0);
    for (int32_t i = 0; i < shape.rank; i++)
        x = repeat(c->graph, x, i, repeats[i]);
    return onnx_set(c, 0, x);
}

/* Places where a known condition holds. */
static fs_status kept_places(onnx_ctx *c, int64_t length, onnx_const *out)
{
    const onnx_const *keep;
    FS_TRY(onnx_need(c, 1, "the condition", &keep));
    int64_t n = onnx_const_count(keep), found = 0;
    n = n < length ? n : length;
    int64_t *at = fs_new(c->arena, int64_t, n);
    for (int64_t i = 0; i < n; i++)
        if (onnx_const_int(keep, i))
            at[found++] = i;
    *out = (onnx_const){IR_I64, ir_shape_make(1, &found), at};
    return FS_OK;
}

fs_status onnx_import_compress(onnx_ctx *c)
{
    ir_graph *g = c->graph;
    ir_shape shape;
    onnx_const places;
    int32_t axis = 0;
    FS_TRY(onnx_shape(c, 0, &shape));
    const onnx_attr *attr = onnx_attr_find(c, "axis");
    if (attr)
        FS_TRY(onnx_axis(c, attr->i, shape.rank, &axis));
    else
        shape = (ir_shape){.rank = 1, .dim = {ir_shape_count(&shape)}};
    FS_TRY(kept_places(c, shape.dim[axis], &places));
    if (places.shape.dim[0] == 0) {
        shape.dim[axis] = 0;
        onnx_const empty = {onnx_dtype_of(c, 0), shape,
                            fs_alloc(c->arena, 1, 8)};
        return onnx_set_known(c, 0, &empty);
    }
    int32_t x = ir_reshape(g, onnx_in(c, 0), shape);
    int32_t ids = ir_constant(g, fs_printf(c->arena, "%s/kept", g->scope),
                              IR_I64, places.shape, places.data);
    ir_node node = {.op = IR_OP_gather, .n_in = 2, .in = {x, ids}};
    node.i[0] = shape.dim[axis];
    node.i[2] = axis;
    return set_node(c, &node);
}

/* ---- positions along an axis that hang on the sample ---- */

/* 0, 1, .. n - 1 along `axis` of a tensor of `rank` axes, the others 1. */
static int32_t places(onnx_ctx *c, int64_t n, int32_t axis, int32_t rank)
{
    ir_shape shape = {.rank = rank};
    void *at;
    for (int32_t i = 0; i < rank; i++)
        shape.dim[i] = i == axis ? n : 1;
    if (onnx_const_new(c, IR_I64, &shape, &at) != FS_OK)
        return -1;
    for (int64_t i = 0; i < n; i++)
        ((int64_t *)at)[i] = i;
    return ir_constant(c->graph,
                       fs_printf(c->arena, "%s/places", c->graph->scope),
                       IR_I64, shape, at);
}

/* Input i, a number for each of the n samples, along `axis` of `rank`. */
static fs_status per_sample(onnx_ctx *c, int32_t i, const ir_shape *in,
                            int32_t axis, int32_t *out)
{
    ir_shape shape, wide = {.rank = in->rank};
    FS_TRY(onnx_shape(c, i, &shape));
    if (shape.rank != 1 || shape.dim[0] != in->dim[axis])
        return onnx_fail(c, "input %d is no list of %lld numbers", i,
                         (long long)in->dim[axis]);
    for (int32_t k = 0; k < in->rank; k++)
        wide.dim[k] = k == axis ? in->dim[axis] : 1;
    *out = ir_cast(c->graph, ir_reshape(c->graph, onnx_in(c, i), wide), IR_I64);
    return FS_OK;
}

/* Of each sample the first `length` elements in the other order: element t
 * comes from length - 1 - t, or stays. */
fs_status onnx_import_reverse_sequence(onnx_ctx *c)
{
    ir_graph *g = c->graph;
    ir_shape in;
    int32_t length = -1;
    FS_TRY(onnx_shape(c, 0, &in));
    const int64_t batch = onnx_attr_int(c, "batch_axis", 1);
    const int64_t time = onnx_attr_int(c, "time_axis", 0);
    if (in.rank < 2 || batch + time != 1 || batch * time != 0)
        return onnx_fail(c, "batch axis %lld and time axis %lld of rank %d",
                         (long long)batch, (long long)time, in.rank);
    FS_TRY(per_sample(c, 1, &in, (int32_t)batch, &length));
    const int32_t t = places(c, in.dim[time], (int32_t)time, in.rank);
    const int32_t end =
        ir_binary(g, IR_OP_sub, length, ir_number(g, IR_I64, 1));
    int32_t from = ir_where(g, ir_binary(g, IR_OP_less, t, length),
                            ir_binary(g, IR_OP_sub, end, t), t);
    ir_node node = {.op = IR_OP_gather_elements, .n_in = 2};
    node.in[0] = onnx_in(c, 0);
    node.in[1] = ir_broadcast_to(g, from, in);
    node.i[0] = time;
    node.i[1] = in.dim[time];
    return set_node(c, &node);
}

/* Writes a stretch along one axis, from a position that each sample has. */
fs_status onnx_import_tensor_scatter(onnx_ctx *c)
{
    ir_graph *g = c->graph;
    ir_shape in, update;
    int32_t axis, at = -1;
    FS_TRY(onnx_shape(c, 0, &in));
    FS_TRY(onnx_shape(c, 1, &update));
    FS_TRY(onnx_axis(c, onnx_attr_int(c, "axis", -2), in.rank, &axis));
    if (axis == 0 || update.rank != in.rank)
        return onnx_fail(c, "axis %d of tensors of rank %d and %d", axis,
                         in.rank, update.rank);
    int32_t t = places(c, update.dim[axis], axis, in.rank);
    if (onnx_has(c, 2)) {
        FS_TRY(per_sample(c, 2, &in, 0, &at));
        t = ir_binary(g, IR_OP_add, at, t);
    }
    const char *mode = onnx_attr_text(c, "mode", "linear");
    if (strcmp(mode, "circular") == 0)
        t = ir_binary(g, IR_OP_mod, t, ir_number(g, IR_I64, in.dim[axis]));
    else if (strcmp(mode, "linear") != 0)
        return onnx_fail(c, "mode \"%.80s\" is unknown", mode);
    ir_node node = {.op = IR_OP_scatter_elements, .n_in = 3};
    node.in[0] = onnx_in(c, 0);
    node.in[1] = ir_broadcast_to(g, t, update);
    node.in[2] = onnx_in(c, 1);
    node.i[0] = axis;
    node.i[1] = in.dim[axis];
    return set_node(c, &node);
}
