/* Importing operators that move, cut and join data. */
#include "config.h"
#include "onnx/join.h"
#include "onnx/operators.h"
#include "onnx/shapes.h"

#include <string.h>

fs_status onnx_import_view(onnx_ctx *c)
{
    ir_shape in, out;
    FS_TRY(onnx_shape(c, 0, &in));
    FS_TRY(onnx_view_shape(c, &in, &out));
    if (ir_shape_equal(&in, &out))
        return onnx_alias(c, 0, 0);
    return onnx_set(c, 0, ir_reshape(c->graph, onnx_in(c, 0), out));
}

fs_status onnx_import_transpose(onnx_ctx *c)
{
    ir_shape in;
    int32_t perm[IR_MAX_RANK];
    FS_TRY(onnx_shape(c, 0, &in));
    FS_TRY(onnx_perm(c, in.rank, perm));
    return onnx_set(c, 0, ir_transpose(c->graph, onnx_in(c, 0), perm));
}

fs_status onnx_import_expand(onnx_ctx *c)
{
    ir_shape in, out, same = {0};
    FS_TRY(onnx_shape(c, 0, &in));
    FS_TRY(onnx_expand_shape(c, &in, &out));
    if (ir_shape_equal(&in, &out))
        return onnx_alias(c, 0, 0);
    same.rank = out.rank;
    for (int32_t i = 0; i < out.rank; i++)
        same.dim[i] =
            i < out.rank - in.rank ? 1 : in.dim[i - (out.rank - in.rank)];
    int32_t x = onnx_in(c, 0);
    if (in.rank != out.rank)
        x = ir_reshape(c->graph, x, same);
    return onnx_set(c, 0, ir_broadcast_to(c->graph, x, out));
}

/* What has no elements is known, and no tensor. */
static fs_status set_empty(onnx_ctx *c, int32_t i, const ir_shape *like,
                           int32_t axis)
{
    onnx_const empty = {onnx_dtype_of(c, 0), *like, fs_alloc(c->arena, 1, 8)};
    empty.shape.dim[axis] = 0;
    return onnx_set_known(c, i, &empty);
}

fs_status onnx_import_slice(onnx_ctx *c)
{
    ir_shape in;
    onnx_cut cut;
    FS_TRY(onnx_shape(c, 0, &in));
    FS_TRY(onnx_slice_cut(c, &in, &cut));
    for (int32_t i = 0; i < in.rank; i++)
        if (cut.length[i] == 0)
            return set_empty(c, 0, &in, i);
    int32_t x = onnx_in(c, 0), whole = x;
    for (int32_t i = 0; i < in.rank; i++)
        if (cut.length[i] != in.dim[i] || cut.step[i] != 1)
            x = ir_slice_by(
                c->graph, x, i,
                (int64_t[]){cut.start[i], cut.length[i], cut.step[i]});
    return x == whole ? onnx_alias(c, 0, 0) : onnx_set(c, 0, x);
}

fs_status onnx_import_split(onnx_ctx *c)
{
    ir_shape in;
    int32_t axis;
    onnx_ints sizes;
    FS_TRY(onnx_shape(c, 0, &in));
    FS_TRY(onnx_split_sizes(c, &in, &axis, &sizes));
    int32_t x = in.dim[axis] ? onnx_in(c, 0) : -1;
    int64_t start = 0;
    for (int32_t i = 0; i < (int32_t)sizes.n; i++) {
        if (onnx_wants(c, i) && sizes.at[i] == 0)
            FS_TRY(set_empty(c, i, &in, axis));
        else if (onnx_wants(c, i))
            FS_TRY(onnx_set(c, i,
                            ir_slice(c->graph, x, axis, start, sizes.at[i])));
        start += sizes.at[i];
    }
    return FS_OK;
}

/* Inputs of length 0 add nothing. */
fs_status onnx_import_concat(onnx_ctx *c)
{
    int32_t n = 0, axis;
    int32_t *part = fs_new(c->arena, int32_t, c->node->in.n);
    ir_shape shape;
    FS_TRY(onnx_shape(c, 0, &shape));
    int64_t usual = c->opset < 4; /* the axis was optional then */
    FS_TRY(onnx_axis(c, onnx_attr_int(c, "axis", usual), shape.rank, &axis));
    for (int32_t i = 0; i < c->node->in.n; i++) {
        FS_TRY(onnx_shape(c, i, &shape));
        if (axis >= shape.rank || shape.dim[axis] != 0)
            part[n++] = onnx_in(c, i);
    }
    if (n == 0)
        return onnx_fail(c, "its result is empty");
    return onnx_set(c, 0, onnx_concat(c, part, n, axis));
}

/* x[.., id, ..]: a slice without its axis. */
static fs_status gather_one(onnx_ctx *c, const ir_shape *in, int32_t axis,
                            int64_t id)
{
    ir_shape out = {0};
    for (int32_t i = 0; i < in->rank; i++)
        if (i != axis)
            out.dim[out.rank++] = in->dim[i];
    int32_t x = ir_slice(c->graph, onnx_in(c, 0), axis, id, 1);
    return onnx_set(c, 0, ir_reshape(c->graph, x, out));
}

/* Negative indices count from the end; *changed when there were any. */
static fs_status normalise_ids(onnx_ctx *c, onnx_const *ids, int64_t length,
                               bool *changed)
{
    int64_t n = onnx_const_count(ids);
    int64_t *at = fs_new(c->arena, int64_t, n);
    *changed = false;
    for (int64_t i = 0; i < n; i++) {
        int64_t id = onnx_const_int(ids, i);
        if (id < -length || id >= length)
            return onnx_fail(c, "index %lld is outside %lld", (long long)id,
                             (long long)length);
        at[i] = id < 0 ? id + length : id;
        *changed = *changed || id < 0;
    }
    *ids = (onnx_const){IR_I64, ids->shape, at};
    return FS_OK;
}

static int32_t gather_axis(ir_graph *g, int32_t x, int32_t ids, int32_t axis)
{
    ir_shape shape = ir_shape_of(g, x);
    ir_node node = {.op = IR_OP_gather, .n_in = 2, .in = {x, ids}};
    if (x < 0)
        return -1;
    node.i[0] = shape.dim[axis];
    node.i[1] = 1; /* negative ids count from the end */
    node.i[2] = axis;
    return ir_append(g, &node);
}

fs_status onnx_import_gather(onnx_ctx *c)
{
    ir_shape in;
    int32_t axis, ids;
    FS_TRY(onnx_shape(c, 0, &in));
    FS_TRY(onnx_axis(c, onnx_attr_int(c, "axis", 0), in.rank, &axis));
    onnx_value *value = onnx_value_of(c, 1);
    if (!value)
        return FS_INVALID;
    if (!value->is_known) {
        ids = onnx_in(c, 1);
        return onnx_set(c, 0, gather_axis(c->graph, onnx_in(c, 0), ids, axis));
    }
    if (c->before && onnx_in_before(c).dim[axis] != in.dim[axis])
        return onnx_fail(c, "picks single samples of the batch");
    onnx_const known = value->known;
    bool changed;
    FS_TRY(normalise_ids(c, &known, in.dim[axis], &changed));
    if (known.shape.rank == 0)
        return gather_one(c, &in, axis, onnx_const_int(&known, 0));
    ids = changed ? ir_constant(c->graph, value->name, known.dtype, known.shape,
                                known.data)
                  : onnx_in(c, 1);
    return onnx_set(c, 0, gather_axis(c->graph, onnx_in(c, 0), ids, axis));
}
