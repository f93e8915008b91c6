/* What handlers ask: inputs, attributes, outputs of the node at hand. */
#include "config.h"
#include "onnx/context.h"
#include "onnx/scope.h"

#include "ir/element.h"

#include <stdio.h>
#include <string.h>

/* One folded value, and all of an import: a hostile file must not be able to
 * ask for more memory than a real model has use for. */
enum { MAX_FOLDED_ELEMENTS = 64 << 20 };
static const size_t usual_folded_bytes = (size_t)2 << 30;

fs_status onnx_about(const onnx_options *options, const char *field,
                     fs_status status)
{
    if (status != FS_OK && options->about)
        *options->about = field;
    return status;
}

fs_status onnx_fail(onnx_ctx *c, const char *format, ...)
{
    char text[600];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return fs_fail(c->err, FS_INVALID, "%s", text);
}

void onnx_note(onnx_ctx *c, const char *format, ...)
{
    char text[600];
    if (!c->notes)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fs_text_add(c->notes, "%s\n", text);
}

bool onnx_has(const onnx_ctx *c, int32_t i)
{
    return i >= 0 && i < c->node->in.n && c->node->in.at[i][0] != '\0';
}

/* A node from this one on that makes the value; -1: none. */
static int32_t find_later(const onnx_ctx *c, const char *name)
{
    for (int32_t i = c->at; i < c->n_nodes; i++)
        for (int32_t k = 0; k < c->nodes[i].out.n; k++)
            if (strcmp(c->nodes[i].out.at[k], name) == 0)
                return i;
    return -1;
}

static void explain_missing(onnx_ctx *c, const char *name)
{
    const int32_t later = find_later(c, name);
    if (later < 0)
        onnx_fail(c, "input \"%.80s\" is made by no node", name);
    else
        onnx_fail(c,
                  "input \"%.80s\" is made by node %d, which does not come "
                  "before: the nodes are in no order or form a cycle",
                  name, later);
}

onnx_value *onnx_any_value_of(onnx_ctx *c, int32_t i)
{
    if (!onnx_has(c, i)) {
        onnx_fail(c, "input %d is missing", i);
        return NULL;
    }
    const char *name = c->node->in.at[i];
    int32_t id = onnx_find(c, name);
    if (id < 0) {
        explain_missing(c, name);
        return NULL;
    }
    onnx_value *value = &c->values.at[id];
    if (value->refused) {
        onnx_fail(c, "input \"%.80s\": %s", name, value->refused);
        return NULL;
    }
    return value;
}

onnx_value *onnx_value_of(onnx_ctx *c, int32_t i)
{
    onnx_value *value = onnx_any_value_of(c, i);
    if (!value || !value->sequence)
        return value;
    onnx_fail(c, "input \"%.80s\" is a sequence; a tensor is wanted",
              c->node->in.at[i]);
    return NULL;
}

ir_dtype onnx_dtype_here(onnx_ctx *c, ir_dtype dtype)
{
    if (c->options->infer || !ir_dtype_is_float(dtype) ||
        ir_dtype_computes(dtype))
        return dtype;
    if (!c->halves)
        onnx_note(c, "%s is computed in f32", ir_dtype_name(dtype));
    c->halves = true;
    return ir_dtype_widened(dtype);
}

/* Known values in the type that they have in the graph. */
static const void *values_as(onnx_ctx *c, const onnx_const *known,
                             ir_dtype dtype)
{
    int64_t n = onnx_const_count(known);
    if (dtype == known->dtype)
        return known->data;
    void *data = fs_alloc(c->arena, (size_t)n, (size_t)ir_dtype_bytes(dtype));
    for (int64_t i = 0; i < n; i++)
        ir_element_set_real(dtype, data, i, onnx_const_real(known, i));
    return data;
}

/* Copies of one known value, and bodies that run several times, would give a
 * name twice. */
static const char *free_name(onnx_ctx *c, const char *name)
{
    const char *out = name;
    for (int32_t i = 1; out && ir_graph_find(c->graph, out) >= 0; i++)
        out = fs_printf(c->arena, "%s.%d", name, c->values.n + i);
    return out;
}

static int32_t materialise(onnx_ctx *c, const onnx_value *value)
{
    const onnx_const *known = &value->known;
    const char *name = free_name(c, value->name);
    ir_dtype dtype = onnx_dtype_here(c, known->dtype);
    const void *data = values_as(c, known, dtype);
    if (!value->is_weight)
        return ir_constant(c->graph, name, dtype, known->shape, data);
    return ir_variable(c->graph, name,
                       &(ir_variable_spec){.role = IR_PARAM,
                                           .dtype = dtype,
                                           .shape = known->shape,
                                           .init = {.kind = IR_INIT_DATA},
                                           .data = data});
}

int32_t onnx_tensor_of(onnx_ctx *c, onnx_value *value)
{
    if (value->tensor < 0)
        value->tensor = materialise(c, value);
    return value->tensor;
}

int32_t onnx_in(onnx_ctx *c, int32_t i)
{
    onnx_value *value = onnx_value_of(c, i);
    if (!value)
        return -1;
    onnx_tensor_of(c, value);
    if (!c->widens || value->tensor < 0)
        return value->tensor;
    ir_dtype dtype = c->graph->tensors.at[value->tensor].dtype;
    if (ir_dtype_computes(dtype))
        return value->tensor;
    if (value->wide == 0)
        value->wide = ir_cast(c->graph, value->tensor, ir_dtype_widened(dtype));
    return value->wide;
}

const onnx_const *onnx_known(onnx_ctx *c, int32_t i)
{
    onnx_value *value = onnx_value_of(c, i);
    bool holds =
        value && (value->is_known || value->is_weight || value->is_given);
    return holds ? &value->known : NULL;
}

fs_status onnx_need(onnx_ctx *c, int32_t i, const char *what,
                    const onnx_const **out)
{
    *out = onnx_known(c, i);
    if (*out || c->err->status != FS_OK)
        return c->err->status;
    return onnx_fail(c,
                     "%s (input \"%.80s\") depends on the data; it must be "
                     "known at import",
                     what, c->node->in.at[i]);
}

fs_status onnx_shape(onnx_ctx *c, int32_t i, ir_shape *out)
{
    onnx_value *value = onnx_value_of(c, i);
    if (!value)
        return FS_INVALID;
    *out = value->tensor >= 0 ? ir_shape_of(c->graph, value->tensor)
                              : value->known.shape;
    return FS_OK;
}

ir_dtype onnx_stored_dtype(onnx_ctx *c, int32_t i)
{
    onnx_value *value = onnx_value_of(c, i);
    if (!value)
        return IR_F32;
    return value->tensor >= 0 ? c->graph->tensors.at[value->tensor].dtype
                              : onnx_dtype_here(c, value->known.dtype);
}

ir_dtype onnx_dtype_of(onnx_ctx *c, int32_t i)
{
    ir_dtype dtype = onnx_stored_dtype(c, i);
    return c->widens ? ir_dtype_widened(dtype) : dtype;
}

const onnx_attr *onnx_attr_find(const onnx_ctx *c, const char *name)
{
    for (int32_t i = 0; i < c->node->attrs.n; i++)
        if (strcmp(c->node->attrs.at[i].name, name) == 0)
            return &c->node->attrs.at[i];
    return NULL;
}

int64_t onnx_attr_int(const onnx_ctx *c, const char *name, int64_t usual)
{
    const onnx_attr *attr = onnx_attr_find(c, name);
    return attr && attr->has_i ? attr->i : usual;
}

double onnx_attr_real(const onnx_ctx *c, const char *name, double usual)
{
    const onnx_attr *attr = onnx_attr_find(c, name);
    return attr && attr->has_f ? attr->f : usual;
}

const char *onnx_attr_text(const onnx_ctx *c, const char *name,
                           const char *usual)
{
    const onnx_attr *attr = onnx_attr_find(c, name);
    return attr && attr->s ? attr->s : usual;
}

fs_status onnx_get_ints(onnx_ctx *c, const char *name, int32_t i,
                        onnx_ints *out)
{
    const onnx_attr *attr = name ? onnx_attr_find(c, name) : NULL;
    *out = (onnx_ints){-1, NULL};
    if (attr) {
        *out = (onnx_ints){attr->ints.n, attr->ints.at};
        return FS_OK;
    }
    if (!onnx_has(c, i))
        return FS_OK;
    const onnx_const *known;
    FS_TRY(onnx_need(c, i, name ? name : "the list", &known));
    if (known->shape.rank > 1 || ir_dtype_is_float(known->dtype))
        return onnx_fail(c, "input %d is no list of integers", i);
    int64_t n = onnx_const_count(known);
    int64_t *at = fs_new(c->arena, int64_t, n);
    for (int64_t k = 0; k < n; k++)
        at[k] = onnx_const_int(known, k);
    *out = (onnx_ints){n, at};
    return FS_OK;
}

fs_status onnx_at_least(onnx_ctx *c, const char *what, int64_t n, int64_t low)
{
    if (n >= low && n <= INT32_MAX)
        return FS_OK;
    return onnx_fail(c, "%s is %lld; %lld .. %d is wanted", what, (long long)n,
                     (long long)low, INT32_MAX);
}

fs_status onnx_axis(onnx_ctx *c, int64_t axis, int32_t rank, int32_t *out)
{
    if (axis < -rank || axis >= rank)
        return onnx_fail(c, "axis %lld is outside a tensor of rank %d",
                         (long long)axis, rank);
    *out = (int32_t)(axis < 0 ? axis + rank : axis);
    return FS_OK;
}

fs_status onnx_axes(onnx_ctx *c, int32_t i, int32_t rank, uint32_t usual,
                    uint32_t *out)
{
    onnx_ints list;
    FS_TRY(onnx_get_ints(c, "axes", i, &list));
    uint32_t mask = 0;
    for (int64_t k = 0; k < list.n; k++) {
        int32_t axis = 0;
        FS_TRY(onnx_axis(c, list.at[k], rank, &axis));
        if (mask >> axis & 1)
            return onnx_fail(c, "axis %d is given twice", axis);
        mask |= 1u << axis;
    }
    *out = list.n <= 0 ? usual : mask;
    return FS_OK;
}

static ir_shape shape_at(const ir_shape *list, int32_t n, int32_t at)
{
    return at < n ? list[at] : (ir_shape){.rank = -1};
}

ir_shape onnx_in_before(const onnx_ctx *c)
{
    return shape_at(c->before->in.at, c->before->in.n, c->step);
}

ir_shape onnx_out_before(const onnx_ctx *c)
{
    return shape_at(c->before->out.at, c->before->out.n, c->step);
}

bool onnx_wants(const onnx_ctx *c, int32_t i)
{
    return i < c->node->out.n && c->node->out.at[i][0] != '\0';
}

static fs_status put_beside(onnx_ctx *c, int32_t i, const onnx_value *value)
{
    int32_t id = onnx_find(c, c->node->out.at[i]);
    if (id < 0 || c->values.at[id].tensor < 0 || c->values.at[id].is_known ||
        c->values.at[id].is_weight)
        return FS_OK;
    ir_shape shape = ir_shape_of(c->graph, c->values.at[id].tensor);
    if (ir_shape_equal(&shape, &value->known.shape)) {
        c->values.at[id].is_given = true;
        c->values.at[id].known = value->known;
    }
    return FS_OK;
}

fs_status onnx_put(onnx_ctx *c, int32_t i, const onnx_value *value)
{
    if (!onnx_wants(c, i))
        return FS_OK;
    if (c->beside)
        return put_beside(c, i, value);
    return onnx_define(c, c->node->out.at[i], value);
}

static fs_status add_value(onnx_ctx *c, int32_t i, onnx_value value)
{
    return onnx_put(c, i, &value);
}

fs_status onnx_set(onnx_ctx *c, int32_t i, int32_t tensor)
{
    if (tensor < 0)
        return c->err->status ? c->err->status : FS_INVALID;
    if (c->widens &&
        c->graph->tensors.at[tensor].dtype == ir_dtype_widened(c->narrow))
        tensor = ir_cast(c->graph, tensor, c->narrow);
    return add_value(c, i, (onnx_value){.tensor = tensor});
}

fs_status onnx_set_known(onnx_ctx *c, int32_t i, const onnx_const *known)
{
    /* An empty value need not have been allocated: its other dimensions are
     * held here to what counting and strides can multiply. */
    int64_t count;
    size_t bytes;
    FS_TRY(onnx_shape_size(&known->shape, known->dtype, "a known value", c->err,
                           &count, &bytes));
    onnx_value value = {.tensor = -1, .is_known = true, .known = *known};
    return add_value(c, i, value);
}

fs_status onnx_alias(onnx_ctx *c, int32_t i, int32_t input)
{
    onnx_value value = {0};
    FS_TRY(onnx_take(c, input, &value));
    return onnx_put(c, i, &value);
}

fs_status onnx_refuse_output(onnx_ctx *c, int32_t i, const char *why)
{
    return add_value(c, i, (onnx_value){.tensor = -1, .refused = why});
}

fs_status onnx_const_new(onnx_ctx *c, ir_dtype dtype, const ir_shape *shape,
                         void **data)
{
    int64_t count;
    size_t bytes;
    FS_TRY(onnx_shape_size(shape, dtype, "a folded constant", c->err, &count,
                           &bytes));
    const size_t most = c->options->max_folded_bytes
                            ? c->options->max_folded_bytes
                            : usual_folded_bytes;
    c->too_large =
        count > MAX_FOLDED_ELEMENTS || bytes > most - c->folded_bytes;
    if (c->too_large)
        return onnx_fail(c,
                         "folding constants needs more memory than %zu MiB "
                         "in all or %d elements at once",
                         most >> 20, MAX_FOLDED_ELEMENTS);
    c->folded_bytes += bytes;
    *data = fs_alloc(c->arena, bytes, 1);
    return FS_OK;
}

int64_t onnx_const_count(const onnx_const *value)
{
    int64_t n = 1;
    for (int32_t i = 0; i < value->shape.rank; i++)
        n *= value->shape.dim[i];
    return n;
}

double onnx_const_real(const onnx_const *value, int64_t i)
{
    return ir_element_real(value->dtype, value->data, i);
}

int64_t onnx_const_int(const onnx_const *value, int64_t i)
{
    return ir_element_int(value->dtype, value->data, i);
}
