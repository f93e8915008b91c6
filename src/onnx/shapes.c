/* Parameters that folding and importing share: what a shape operator means
 * for an input of a given shape. */
#include "config.h"
#include "onnx/shapes.h"

#include "onnx/operators.h"

static int64_t clamp(int64_t x, int64_t low, int64_t high)
{
    return x < low ? low : x > high ? high : x;
}

/* Elements; dimensions of 0 are legal, overflow is not. */
static fs_status count_of(onnx_ctx *c, const ir_shape *shape, int64_t *out)
{
    size_t bytes;
    return onnx_shape_size(shape, IR_F64, "a shape", c->err, out, &bytes);
}

/* Reshape's list with 0 replaced by the input's length there. */
static fs_status read_target(onnx_ctx *c, const ir_shape *in, ir_shape *out)
{
    onnx_ints list;
    FS_TRY(onnx_get_ints(c, "shape", 1, &list));
    if (list.n < 0 || list.n > IR_MAX_RANK)
        return onnx_fail(c, "a shape of %lld dimensions", (long long)list.n);
    bool keep_zero = onnx_attr_int(c, "allowzero", 0) != 0;
    *out = ir_shape_make((int32_t)list.n, list.at);
    for (int32_t i = 0; i < out->rank; i++) {
        if (out->dim[i] != 0 || keep_zero)
            continue;
        if (i >= in->rank)
            return onnx_fail(c,
                             "dimension %d of its shape is 0, but its "
                             "input has %d dimensions",
                             i, in->rank);
        out->dim[i] = in->dim[i];
    }
    return FS_OK;
}

static fs_status fill_unknown(onnx_ctx *c, const ir_shape *in, ir_shape *out)
{
    int32_t unknown = -1;
    ir_shape rest = {0};
    for (int32_t i = 0; i < out->rank; i++) {
        if (out->dim[i] < -1 || (out->dim[i] == -1 && unknown >= 0))
            return onnx_fail(c, "its shape has several or wrong negative "
                                "dimensions");
        if (out->dim[i] == -1)
            unknown = i;
        else
            rest.dim[rest.rank++] = out->dim[i];
    }
    int64_t have, want;
    FS_TRY(count_of(c, in, &have));
    FS_TRY(count_of(c, &rest, &want));
    if (unknown >= 0 && want > 0 && have % want == 0) {
        out->dim[unknown] = have / want;
        return FS_OK;
    }
    if (unknown < 0 && have == want)
        return FS_OK;
    char from[160], to[160];
    return onnx_fail(c, "%s does not reshape to %s", ir_shape_text(from, in),
                     ir_shape_text(to, out));
}

static fs_status reshape_shape(onnx_ctx *c, const ir_shape *in, ir_shape *out)
{
    ir_shape target;
    if (c->before)
        return onnx_rebatch_view(c, in, out);
    FS_TRY(read_target(c, in, &target));
    FS_TRY(fill_unknown(c, in, &target));
    *out = target;
    return FS_OK;
}

static fs_status flatten_shape(onnx_ctx *c, const ir_shape *in, ir_shape *out)
{
    int64_t axis = onnx_attr_int(c, "axis", 1);
    if (axis < -in->rank || axis > in->rank)
        return onnx_fail(c, "axis %lld is outside a tensor of rank %d",
                         (long long)axis, in->rank);
    if (axis < 0)
        axis += in->rank;
    *out = (ir_shape){.rank = 2, .dim = {1, 1}};
    for (int32_t i = 0; i < in->rank; i++)
        out->dim[i >= axis] *= in->dim[i];
    return FS_OK;
}

static fs_status squeeze_shape(onnx_ctx *c, const ir_shape *in, ir_shape *out)
{
    uint32_t ones = 0, mask;
    for (int32_t i = 0; i < in->rank; i++)
        if (in->dim[i] == 1)
            ones |= 1u << i;
    FS_TRY(onnx_axes(c, 1, in->rank, ones, &mask));
    if (mask & ~ones)
        return onnx_fail(c, "squeezes an axis that is not of length 1");
    *out = (ir_shape){0};
    for (int32_t i = 0; i < in->rank; i++)
        if (!(mask >> i & 1))
            out->dim[out->rank++] = in->dim[i];
    return FS_OK;
}

static fs_status unsqueeze_shape(onnx_ctx *c, const ir_shape *in, ir_shape *out)
{
    onnx_ints axes;
    uint32_t mask;
    FS_TRY(onnx_get_ints(c, "axes", 1, &axes));
    if (axes.n < 1 || in->rank + axes.n > IR_MAX_RANK)
        return onnx_fail(c, "unsqueezes %lld axes of a tensor of rank %d",
                         (long long)axes.n, in->rank);
    int32_t rank = in->rank + (int32_t)axes.n, from = 0;
    FS_TRY(onnx_axes(c, 1, rank, 0, &mask));
    *out = (ir_shape){.rank = rank};
    for (int32_t i = 0; i < rank; i++)
        out->dim[i] = mask >> i & 1 ? 1 : in->dim[from++];
    return FS_OK;
}

fs_status onnx_view_shape(onnx_ctx *c, const ir_shape *in, ir_shape *out)
{
    switch (c->arg) {
    case ONNX_RESHAPE:
        return reshape_shape(c, in, out);
    case ONNX_FLATTEN:
        return flatten_shape(c, in, out);
    case ONNX_SQUEEZE:
        return squeeze_shape(c, in, out);
    default:
        return unsqueeze_shape(c, in, out);
    }
}

fs_status onnx_expand_shape(onnx_ctx *c, const ir_shape *in, ir_shape *out)
{
    onnx_ints list;
    FS_TRY(onnx_get_ints(c, NULL, 1, &list));
    if (list.n < 0 || list.n > IR_MAX_RANK)
        return onnx_fail(c, "a shape of %lld dimensions", (long long)list.n);
    ir_shape wanted = ir_shape_make((int32_t)list.n, list.at);
    if (c->before)
        FS_TRY(onnx_rebatch_expand(c, in, &wanted));
    *out = wanted.rank >= in->rank ? wanted : *in;
    const ir_shape *low = wanted.rank >= in->rank ? in : &wanted;
    for (int32_t i = 0; i < low->rank; i++) {
        int64_t *dim = &out->dim[i + out->rank - low->rank];
        if (*dim == 1)
            *dim = low->dim[i];
        else if (low->dim[i] != 1 && low->dim[i] != *dim)
            return onnx_fail(c, "length %lld does not expand to %lld",
                             (long long)low->dim[i], (long long)*dim);
    }
    return FS_OK;
}

fs_status onnx_perm(onnx_ctx *c, int32_t rank, int32_t perm[IR_MAX_RANK])
{
    onnx_ints list;
    uint32_t seen = 0;
    FS_TRY(onnx_get_ints(c, "perm", -1, &list));
    if (list.n >= 0 && list.n != rank)
        return onnx_fail(c, "perm has %lld entries for a tensor of rank %d",
                         (long long)list.n, rank);
    for (int32_t i = 0; i < rank; i++) {
        int64_t from = list.n >= 0 ? list.at[i] : rank - 1 - i;
        /* Unlike an axis, an entry does not count from the end. */
        if (from < 0 || from >= rank)
            return onnx_fail(c, "perm has the entry %lld, not one of 0 .. %d",
                             (long long)from, rank - 1);
        perm[i] = (int32_t)from;
        seen |= 1u << perm[i];
    }
    if (seen != (1u << rank) - 1)
        return onnx_fail(c, "perm is no permutation");
    return FS_OK;
}

/* One axis of Slice: numpy's rules. */
static fs_status cut_axis(onnx_ctx *c, const int64_t at[3], int64_t length,
                          onnx_cut *cut, int32_t axis)
{
    int64_t start = at[0], end = at[1], step = at[2];
    if (step == 0)
        return onnx_fail(c, "a step of 0");
    if (start < 0)
        start = start < -length ? -1 : start + length;
    if (end < 0)
        end = end < -length ? -1 : end + length;
    if (step > 0) {
        start = clamp(start, 0, length);
        end = clamp(end, start, length);
        cut->length[axis] = (end - start) / step + ((end - start) % step > 0);
    } else {
        start = clamp(start, -1, length - 1);
        end = clamp(end, -1, start);
        step = step < -INT64_MAX ? -INT64_MAX : step;
        cut->length[axis] = (start - end) / -step + ((start - end) % -step > 0);
    }
    cut->start[axis] = cut->length[axis] ? start : 0;
    cut->step[axis] = cut->length[axis] > 1 ? step : 1;
    return FS_OK;
}

static fs_status get_slice_lists(onnx_ctx *c, onnx_ints list[4])
{
    FS_TRY(onnx_get_ints(c, "starts", 1, &list[0]));
    FS_TRY(onnx_get_ints(c, "ends", 2, &list[1]));
    FS_TRY(onnx_get_ints(c, "axes", 3, &list[2]));
    FS_TRY(onnx_get_ints(c, NULL, 4, &list[3]));
    int64_t n = list[0].n;
    if (n < 0 || list[1].n != n || (list[2].n >= 0 && list[2].n != n) ||
        (list[3].n >= 0 && list[3].n != n))
        return onnx_fail(c, "starts, ends, axes and steps differ in length");
    return FS_OK;
}

fs_status onnx_slice_cut(onnx_ctx *c, const ir_shape *in, onnx_cut *out)
{
    onnx_ints list[4];
    FS_TRY(get_slice_lists(c, list));
    for (int32_t i = 0; i < in->rank; i++) {
        out->start[i] = 0;
        out->length[i] = in->dim[i];
        out->step[i] = 1;
    }
    for (int64_t k = 0; k < list[0].n; k++) {
        int32_t axis;
        int64_t at[3] = {list[0].at[k], list[1].at[k],
                         list[3].n >= 0 ? list[3].at[k] : 1};
        FS_TRY(
            onnx_axis(c, list[2].n >= 0 ? list[2].at[k] : k, in->rank, &axis));
        FS_TRY(cut_axis(c, at, in->dim[axis], out, axis));
    }
    return c->before ? onnx_rebatch_cut(c, in, out) : FS_OK;
}

/* Without sizes: equal parts, the last one shorter (opset 18). */
static fs_status equal_sizes(onnx_ctx *c, int64_t length, onnx_ints *out)
{
    int64_t n = c->node->out.n;
    if (n < 1 || n > length)
        return onnx_fail(c, "splits length %lld into %lld parts",
                         (long long)length, (long long)n);
    int64_t *at = fs_new(c->arena, int64_t, n), part = (length + n - 1) / n;
    for (int64_t i = 0; i < n; i++) {
        at[i] = clamp(length - i * part, 0, part);
        if (at[i] == 0)
            return onnx_fail(c, "a part of length 0");
    }
    *out = (onnx_ints){n, at};
    return FS_OK;
}

fs_status onnx_split_sizes(onnx_ctx *c, const ir_shape *in, int32_t *axis,
                           onnx_ints *out)
{
    FS_TRY(onnx_axis(c, onnx_attr_int(c, "axis", 0), in->rank, axis));
    FS_TRY(onnx_get_ints(c, "split", 1, out));
    int64_t parts = onnx_attr_int(c, "num_outputs", c->node->out.n);
    if (parts != c->node->out.n)
        return onnx_fail(c, "num_outputs is %lld for %d outputs",
                         (long long)parts, c->node->out.n);
    if (out->n < 0)
        return equal_sizes(c, in->dim[*axis], out);
    int64_t sum = 0;
    for (int64_t i = 0; i < out->n; i++)
        if (out->at[i] < 0 || __builtin_add_overflow(sum, out->at[i], &sum))
            return onnx_fail(c, "a part of negative length");
    if (sum != in->dim[*axis] || out->n != c->node->out.n)
        return onnx_fail(c, "parts of %lld in all for a length of %lld",
                         (long long)sum, (long long)in->dim[*axis]);
    return FS_OK;
}
