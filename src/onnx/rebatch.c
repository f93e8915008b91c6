/* A graph exported with a fixed batch b carries it in constants: targets of
 * Reshape, of Expand, ends of Slice. The graph is imported twice: with b, which
 * records the shapes that every node had, then with the new batch; where a
 * constant no longer fits, those shapes say which axis it meant. */
#include "config.h"
#include "onnx/shapes.h"

static fs_status refuse(onnx_ctx *c, const char *why)
{
    return onnx_fail(c,
                     "%s, so the batch of %lld that was fixed at export "
                     "cannot be changed to %lld; export with dynamic_axes "
                     "(or dynamic_shapes) for axis 0 of every input",
                     why, (long long)c->old_batch, (long long)c->batch);
}

/* A block of neighbouring axes of two shapes with equal products: the
 * smallest groups that a row-major reshape keeps apart. */
typedef struct group {
    int32_t in0, in1, out0, out1; /* axes [in0, in1), [out0, out1) */
} group;

static group next_group(const ir_shape *in, const ir_shape *out, group last)
{
    group g = {last.in1, last.in1, last.out1, last.out1};
    int64_t left = 1, right = 1;
    do {
        if ((left <= right && g.in1 < in->rank) || g.out1 == out->rank)
            left *= in->dim[g.in1++];
        else
            right *= out->dim[g.out1++];
    } while (left != right && (g.in1 < in->rank || g.out1 < out->rank));
    /* Lengths of 1 that follow belong to neither side's next group alone. */
    while (g.in1 < in->rank && in->dim[g.in1] == 1)
        g.in1++;
    while (g.out1 < out->rank && out->dim[g.out1] == 1)
        g.out1++;
    return g;
}

/* Which axis of [low, high) of `shape` may grow: the only one longer than 1,
 * or, when the batch leads its group, the leading one if it is a multiple. */
static int32_t growing_axis(const onnx_ctx *c, const ir_shape *shape,
                            int32_t low, int32_t high, bool leads)
{
    int32_t only = -1, n = 0, first = -1;
    for (int32_t i = low; i < high; i++) {
        if (shape->dim[i] == 1 && c->old_batch != 1)
            continue;
        if (first < 0)
            first = i;
        only = i;
        n++;
    }
    if (n == 1)
        return only;
    return leads && first >= 0 && shape->dim[first] % c->old_batch == 0 ? first
                                                                        : -1;
}

/* The one axis whose length changed, by batch / old_batch; -1: none, -2: the
 * change is of another kind. */
static int32_t changed_axis(const onnx_ctx *c, const ir_shape *before,
                            const ir_shape *now)
{
    int32_t axis = -1;
    if (before->rank != now->rank)
        return -2;
    for (int32_t i = 0; i < now->rank; i++) {
        if (before->dim[i] == now->dim[i])
            continue;
        if (axis >= 0 || before->dim[i] % c->old_batch != 0 ||
            before->dim[i] / c->old_batch * c->batch != now->dim[i])
            return -2;
        axis = i;
    }
    return axis;
}

static fs_status grow(onnx_ctx *c, const ir_shape *in_before, int32_t axis,
                      ir_shape *out)
{
    group g = {0};
    do
        g = next_group(in_before, out, g);
    while (axis >= g.in1);
    bool leads = true;
    for (int32_t i = g.in0; i < axis; i++)
        leads = leads && in_before->dim[i] == 1;
    int32_t target = growing_axis(c, out, g.out0, g.out1, leads);
    /* A batch of 1 leaves no trace in products: it is either in front, where
     * it joins what follows, or nobody can say. */
    if (c->old_batch == 1 && g.out0 == g.out1 && leads && g.out0 < out->rank)
        target = g.out0;
    if (target < 0 || out->dim[target] % c->old_batch != 0 ||
        (c->old_batch == 1 && !leads))
        return refuse(c, "its constant shape does not say which axis holds "
                         "the samples");
    if (__builtin_mul_overflow(out->dim[target] / c->old_batch, c->batch,
                               &out->dim[target]))
        return onnx_fail(c, "the batch overflows a dimension");
    return FS_OK;
}

fs_status onnx_rebatch_view(onnx_ctx *c, const ir_shape *in, ir_shape *out)
{
    ir_shape in_before = onnx_in_before(c), result = onnx_out_before(c);
    int32_t axis = changed_axis(c, &in_before, in);
    if (axis == -2 || result.rank < 0)
        return refuse(c, "its input changed in more than the batch");
    if (axis >= 0)
        FS_TRY(grow(c, &in_before, axis, &result));
    *out = result;
    return FS_OK;
}

fs_status onnx_rebatch_cut(onnx_ctx *c, const ir_shape *in, onnx_cut *cut)
{
    ir_shape before = onnx_in_before(c), out = onnx_out_before(c);
    for (int32_t i = 0; i < in->rank; i++) {
        if (before.rank != in->rank || before.dim[i] == in->dim[i])
            continue;
        if (out.dim[i] != before.dim[i])
            return refuse(c, "it cuts the samples");
        cut->start[i] = 0;
        cut->length[i] = in->dim[i];
        cut->step[i] = 1;
    }
    return FS_OK;
}

/* An entry of the target that is the old batch and leads: unambiguous when no
 * other entry equals it. */
fs_status onnx_rebatch_expand(onnx_ctx *c, const ir_shape *in, ir_shape *wanted)
{
    int32_t n = 0;
    for (int32_t i = 0; i < wanted->rank; i++)
        n += wanted->dim[i] == c->old_batch;
    if (n == 0 || wanted->dim[0] != c->old_batch)
        return FS_OK;
    bool carried = in->rank == wanted->rank && in->dim[0] == c->batch;
    if (n > 1 && !carried)
        return refuse(c, "its constant shape holds the batch more than once");
    wanted->dim[0] = c->batch;
    return FS_OK;
}
