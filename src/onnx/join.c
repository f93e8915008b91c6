#include "config.h"
#include "onnx/join.h"

#include <string.h>

int32_t onnx_concat(onnx_ctx *c, int32_t *tensors, int32_t n, int32_t axis)
{
    while (n > 1) {
        int32_t joined = 0;
        for (int32_t i = 0; i < n; i += IR_MAX_IN) {
            int32_t part = n - i < IR_MAX_IN ? n - i : IR_MAX_IN;
            tensors[joined++] =
                part == 1 ? tensors[i]
                          : ir_concat(c->graph, tensors + i, part, axis);
        }
        n = joined;
    }
    return tensors[0];
}

static ir_shape shape_of(onnx_ctx *c, const onnx_value *value)
{
    return value->tensor >= 0 ? ir_shape_of(c->graph, value->tensor)
                              : value->known.shape;
}

/* Bytes before, along and after an axis of a known value. */
static size_t bytes_from(const onnx_const *value, int32_t axis)
{
    size_t bytes = (size_t)ir_dtype_bytes(value->dtype);
    for (int32_t i = axis; i < value->shape.rank; i++)
        bytes *= (size_t)value->shape.dim[i];
    return bytes;
}

static size_t count_before(const ir_shape *shape, int32_t axis)
{
    size_t n = 1;
    for (int32_t i = 0; i < axis; i++)
        n *= (size_t)shape->dim[i];
    return n;
}

static fs_status join_known(onnx_ctx *c, const onnx_value_list *list,
                            int32_t axis, onnx_value *out)
{
    onnx_const joined = list->at[0].known;
    void *data;
    for (int32_t i = 1; i < list->n; i++) {
        const onnx_const *part = &list->at[i].known;
        ir_shape rest = part->shape;
        if (rest.rank != joined.shape.rank || part->dtype != joined.dtype)
            return onnx_fail(c, "values of different rank or type are joined");
        rest.dim[axis] = joined.shape.dim[axis];
        if (!ir_shape_equal(&rest, &joined.shape) ||
            __builtin_add_overflow(joined.shape.dim[axis],
                                   part->shape.dim[axis],
                                   &joined.shape.dim[axis]))
            return onnx_fail(c, "values that are joined do not fit");
    }
    FS_TRY(onnx_const_new(c, joined.dtype, &joined.shape, &data));
    size_t rows = count_before(&joined.shape, axis);
    char *to = data;
    for (size_t r = 0; r < rows && bytes_from(&joined, 0); r++)
        for (int32_t i = 0; i < list->n; i++) {
            size_t bytes = bytes_from(&list->at[i].known, axis);
            memcpy(to, (const char *)list->at[i].known.data + r * bytes, bytes);
            to += bytes;
        }
    joined.data = data;
    *out = (onnx_value){.tensor = -1, .is_known = true, .known = joined};
    return FS_OK;
}

fs_status onnx_join(onnx_ctx *c, onnx_value_list *list, int32_t axis,
                    onnx_value *out)
{
    bool known = true;
    int32_t *tensors = fs_new(c->arena, int32_t, list->n), n = 0;
    for (int32_t i = 0; i < list->n; i++) {
        if (list->at[i].sequence)
            return onnx_fail(c, "sequences of sequences are not supported");
        known = known && list->at[i].is_known;
    }
    if (known)
        return join_known(c, list, axis, out);
    for (int32_t i = 0; i < list->n; i++) {
        ir_shape shape = shape_of(c, &list->at[i]);
        if (axis < shape.rank && shape.dim[axis] == 0)
            continue; /* adds nothing */
        tensors[n++] = onnx_tensor_of(c, &list->at[i]);
    }
    *out = (onnx_value){.tensor = onnx_concat(c, tensors, n, axis)};
    return out->tensor >= 0 ? FS_OK : FS_INVALID;
}

/* The same value in another shape of as many elements. */
static fs_status reshaped(onnx_ctx *c, const onnx_value *value,
                          const ir_shape *shape, onnx_value *out)
{
    *out = *value;
    if (value->is_known) {
        out->tensor = -1;
        out->known.shape = *shape;
        return FS_OK;
    }
    *out = (onnx_value){.tensor = onnx_tensor_of(c, out)};
    out->tensor = ir_reshape(c->graph, out->tensor, *shape);
    return out->tensor >= 0 ? FS_OK : FS_INVALID;
}

fs_status onnx_stack(onnx_ctx *c, const onnx_value_list *list, int32_t axis,
                     onnx_value *out)
{
    onnx_value_list longer = {0};
    for (int32_t i = 0; i < list->n; i++) {
        onnx_value value = {0};
        if (list->at[i].sequence)
            return onnx_fail(c, "sequences cannot be stacked");
        ir_shape shape = shape_of(c, &list->at[i]);
        if (shape.rank == IR_MAX_RANK || axis > shape.rank)
            return onnx_fail(c, "a result of more than %d dimensions",
                             IR_MAX_RANK);
        memmove(shape.dim + axis + 1, shape.dim + axis,
                (size_t)(shape.rank - axis) * sizeof *shape.dim);
        shape.dim[axis] = 1;
        shape.rank++;
        FS_TRY(reshaped(c, &list->at[i], &shape, &value));
        fs_push(c->arena, &longer, value);
    }
    return onnx_join(c, &longer, axis, out);
}

static fs_status part_known(onnx_ctx *c, const onnx_value *value, int32_t axis,
                            const int64_t start_length[2], onnx_value *out)
{
    const onnx_const *from = &value->known;
    onnx_const part = *from;
    void *data;
    part.shape.dim[axis] = start_length[1];
    FS_TRY(onnx_const_new(c, part.dtype, &part.shape, &data));
    size_t rows = count_before(&from->shape, axis);
    size_t row = bytes_from(from, axis), bytes = bytes_from(&part, axis);
    size_t start = bytes_from(from, axis + 1) * (size_t)start_length[0];
    for (size_t r = 0; r < rows && bytes; r++)
        memcpy((char *)data + r * bytes,
               (const char *)from->data + r * row + start, bytes);
    part.data = data;
    *out = (onnx_value){.tensor = -1, .is_known = true, .known = part};
    return FS_OK;
}

fs_status onnx_part(onnx_ctx *c, onnx_value *value, int32_t axis,
                    const int64_t start_length[2], onnx_value *out)
{
    if (value->is_known)
        return part_known(c, value, axis, start_length, out);
    int32_t x = onnx_tensor_of(c, value);
    *out = (onnx_value){.tensor = ir_slice(c->graph, x, axis, start_length[0],
                                           start_length[1])};
    return out->tensor >= 0 ? FS_OK : FS_INVALID;
}

fs_status onnx_pick(onnx_ctx *c, onnx_value *value, int32_t axis, int64_t at,
                    onnx_value *out)
{
    onnx_value part = {0};
    if (value->sequence)
        return onnx_fail(c, "a sequence where a tensor is wanted");
    ir_shape shape = shape_of(c, value);
    if (axis >= shape.rank || at < 0 || at >= shape.dim[axis])
        return onnx_fail(c, "element %lld of axis %d is not there",
                         (long long)at, axis);
    FS_TRY(onnx_part(c, value, axis, (int64_t[]){at, 1}, &part));
    memmove(shape.dim + axis, shape.dim + axis + 1,
            (size_t)(shape.rank - axis - 1) * sizeof *shape.dim);
    shape.rank--;
    return reshaped(c, &part, &shape, out);
}
