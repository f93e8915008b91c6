/* Sequences: lists of values that exist only during the import. Positions and
 * lengths must be known then. */
#include "config.h"
#include "onnx/join.h"
#include "onnx/operators.h"
#include "onnx/scope.h"

#include "ir/element.h"

#include <string.h>

static fs_status get_sequence(onnx_ctx *c, int32_t i, const onnx_sequence **out)
{
    onnx_value *value = onnx_any_value_of(c, i);
    if (!value)
        return FS_INVALID;
    if (!value->sequence)
        return onnx_fail(c, "input %d is a tensor; a sequence is wanted", i);
    *out = value->sequence;
    return FS_OK;
}

static fs_status put_sequence(onnx_ctx *c, int32_t n, const onnx_value *at)
{
    onnx_sequence *list = fs_new(c->arena, onnx_sequence, 1);
    *list = (onnx_sequence){n, at};
    onnx_value value = {.tensor = -1, .sequence = list};
    return onnx_put(c, 0, &value);
}

/* A position among n, from input i; `usual` without that input. */
static fs_status get_position(onnx_ctx *c, int32_t i, int32_t n, int64_t usual,
                              int64_t *out)
{
    const onnx_const *value;
    *out = usual;
    if (!onnx_has(c, i))
        return FS_OK;
    FS_TRY(onnx_need(c, i, "the position", &value));
    if (onnx_const_count(value) != 1)
        return onnx_fail(c, "its position must be one number");
    *out = onnx_const_int(value, 0);
    if (*out < -n || *out > n)
        return onnx_fail(c, "position %lld of a sequence of %d",
                         (long long)*out, n);
    *out += *out < 0 ? n : 0;
    return FS_OK;
}

fs_status onnx_import_sequence_empty(onnx_ctx *c)
{
    return put_sequence(c, 0, NULL);
}

fs_status onnx_import_sequence_construct(onnx_ctx *c)
{
    onnx_value *at = fs_new(c->arena, onnx_value, c->node->in.n);
    for (int32_t i = 0; i < c->node->in.n; i++)
        FS_TRY(onnx_take(c, i, &at[i]));
    return put_sequence(c, c->node->in.n, at);
}

fs_status onnx_import_sequence_insert(onnx_ctx *c)
{
    const onnx_sequence *from = NULL;
    onnx_value added = {0};
    int64_t position;
    FS_TRY(get_sequence(c, 0, &from));
    FS_TRY(onnx_spend(c));
    c->expanded += from->n / 64; /* a copy of the list */
    FS_TRY(get_position(c, 2, from->n, from->n, &position));
    FS_TRY(onnx_take(c, 1, &added));
    onnx_value *at = fs_new(c->arena, onnx_value, from->n + 1);
    for (int32_t i = 0; i <= from->n; i++)
        at[i] = i == position ? added : from->at[i - (i > position)];
    return put_sequence(c, from->n + 1, at);
}

fs_status onnx_import_sequence_erase(onnx_ctx *c)
{
    const onnx_sequence *from = NULL;
    int64_t position;
    FS_TRY(get_sequence(c, 0, &from));
    FS_TRY(onnx_spend(c));
    c->expanded += from->n / 64;
    FS_TRY(get_position(c, 1, from->n, from->n - 1, &position));
    if (position >= from->n)
        return onnx_fail(c, "there is no element %lld", (long long)position);
    onnx_value *at = fs_new(c->arena, onnx_value, from->n);
    for (int32_t i = 0; i < from->n - 1; i++)
        at[i] = from->at[i + (i >= position)];
    return put_sequence(c, from->n - 1, at);
}

fs_status onnx_import_sequence_at(onnx_ctx *c)
{
    const onnx_sequence *from = NULL;
    int64_t position;
    FS_TRY(get_sequence(c, 0, &from));
    FS_TRY(get_position(c, 1, from->n, 0, &position));
    if (position >= from->n)
        return onnx_fail(c, "there is no element %lld", (long long)position);
    return onnx_put(c, 0, &from->at[position]);
}

fs_status onnx_import_sequence_length(onnx_ctx *c)
{
    const onnx_sequence *from = NULL;
    FS_TRY(get_sequence(c, 0, &from));
    int64_t n = from->n;
    onnx_const known = {IR_I64, {0}, fs_memdup(c->arena, &n, sizeof n)};
    return onnx_set_known(c, 0, &known);
}

fs_status onnx_import_concat_from_sequence(onnx_ctx *c)
{
    const onnx_sequence *from = NULL;
    onnx_value out = {0};
    ir_shape shape;
    int32_t axis;
    FS_TRY(get_sequence(c, 0, &from));
    bool adds = onnx_attr_int(c, "new_axis", 0) != 0;
    if (from->n == 0 || from->at[0].sequence)
        return onnx_fail(c, "there are no tensors to join");
    onnx_value_list list = {0};
    for (int32_t i = 0; i < from->n; i++)
        fs_push(c->arena, &list, from->at[i]);
    shape = list.at[0].tensor >= 0 ? ir_shape_of(c->graph, list.at[0].tensor)
                                   : list.at[0].known.shape;
    FS_TRY(onnx_axis(c, onnx_attr_int(c, "axis", 0), shape.rank + adds, &axis));
    FS_TRY(adds ? onnx_stack(c, &list, axis, &out)
                : onnx_join(c, &list, axis, &out));
    return onnx_put(c, 0, &out);
}

/* Lengths of the parts: one number is that of all but the last. */
static fs_status part_lengths(onnx_ctx *c, int64_t length, onnx_ints *out)
{
    const onnx_const *split = NULL;
    int64_t each = 1;
    if (onnx_has(c, 1))
        FS_TRY(onnx_need(c, 1, "the lengths of the parts", &split));
    if (split && split->shape.rank == 1) {
        FS_TRY(onnx_get_ints(c, NULL, 1, out));
        int64_t sum = 0;
        for (int64_t i = 0; i < out->n; i++)
            if (out->at[i] < 0 || __builtin_add_overflow(sum, out->at[i], &sum))
                return onnx_fail(c, "a part of negative length");
        return sum == length
                   ? FS_OK
                   : onnx_fail(c, "parts of %lld in all for a length of %lld",
                               (long long)sum, (long long)length);
    }
    if (split)
        each = onnx_const_int(split, 0);
    if (each < 1)
        return onnx_fail(c, "parts of length %lld", (long long)each);
    int64_t n = (length + each - 1) / each;
    if (n > 1 << 16)
        return onnx_fail(c, "%lld parts are too many", (long long)n);
    int64_t *at = fs_new(c->arena, int64_t, n);
    for (int64_t i = 0; i < n; i++)
        at[i] = length - i * each < each ? length - i * each : each;
    *out = (onnx_ints){n, at};
    return FS_OK;
}

fs_status onnx_import_split_to_sequence(onnx_ctx *c)
{
    ir_shape shape;
    int32_t axis;
    onnx_ints lengths;
    onnx_value whole = {0};
    FS_TRY(onnx_shape(c, 0, &shape));
    FS_TRY(onnx_axis(c, onnx_attr_int(c, "axis", 0), shape.rank, &axis));
    FS_TRY(part_lengths(c, shape.dim[axis], &lengths));
    FS_TRY(onnx_take(c, 0, &whole));
    bool keeps = onnx_has(c, 1) || onnx_attr_int(c, "keepdims", 1) != 0;
    onnx_value *at = fs_new(c->arena, onnx_value, lengths.n);
    for (int64_t i = 0, start = 0; i < lengths.n; start += lengths.at[i++]) {
        FS_TRY(onnx_spend(c));
        if (keeps)
            FS_TRY(onnx_part(c, &whole, axis, (int64_t[]){start, lengths.at[i]},
                             &at[i]));
        else
            FS_TRY(onnx_pick(c, &whole, axis, start, &at[i]));
    }
    return put_sequence(c, (int32_t)lengths.n, at);
}

/* What an optional holds is known at import: here it is a tensor or a sequence
 * of its own, or the input is left out. */
fs_status onnx_import_optional_has(onnx_ctx *c)
{
    const ir_shape scalar = {0};
    void *flag;
    if (onnx_has(c, 0) && !onnx_any_value_of(c, 0))
        return FS_INVALID;
    FS_TRY(onnx_const_new(c, IR_BOOL, &scalar, &flag));
    ir_element_set_int(IR_BOOL, flag, 0, onnx_has(c, 0));
    return onnx_set_known(c, 0, &(onnx_const){IR_BOOL, scalar, flag});
}

fs_status onnx_import_optional_get(onnx_ctx *c)
{
    return onnx_alias(c, 0, 0);
}
