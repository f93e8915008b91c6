/* Operators of opset 1 to 6 in the form that they have since 7. */
#include "config.h"
#include "onnx/scope.h"

#include <string.h>

/* A copy of the node at hand, to be changed. */
static onnx_node *copy_node(onnx_ctx *c)
{
    onnx_node *node = fs_memdup(c->arena, c->node, sizeof *c->node);
    size_t inputs = (size_t)node->in.n * sizeof *node->in.at;
    size_t attrs = (size_t)node->attrs.n * sizeof *node->attrs.at;
    node->in.at = fs_memdup(c->arena, c->node->in.at, inputs);
    node->attrs.at = fs_memdup(c->arena, c->node->attrs.at, attrs);
    node->in.room = node->in.n;
    node->attrs.room = node->attrs.n;
    c->node = node;
    return node;
}

/* Input 1 stood for axes from `axis` on: with ones behind it, it is aligned
 * from the right. */
static fs_status align_right(onnx_ctx *c, int64_t axis)
{
    ir_shape a, b;
    int32_t at = 0;
    onnx_value value = {0};
    FS_TRY(onnx_shape(c, 0, &a));
    FS_TRY(onnx_shape(c, 1, &b));
    FS_TRY(onnx_axis(c, axis, a.rank, &at));
    if (b.rank == 0 || at + b.rank >= a.rank)
        return FS_OK;
    FS_TRY(onnx_take(c, 1, &value));
    while (at + b.rank < a.rank)
        b.dim[b.rank++] = 1;
    if (value.is_known) {
        value.tensor = -1;
        value.known.shape = b;
    } else {
        int32_t x = onnx_tensor_of(c, &value);
        value = (onnx_value){.tensor = ir_reshape(c->graph, x, b)};
    }
    if (value.tensor < 0 && !value.is_known)
        return FS_INVALID;
    const char *name = fs_printf(c->arena, "%s/aligned", c->graph->scope);
    for (int32_t i = 1; onnx_find(c, name) >= 0; i++)
        name = fs_printf(c->arena, "%s/aligned.%d", c->graph->scope, i);
    FS_TRY(onnx_define(c, name, &value));
    copy_node(c)->in.at[1] = name;
    return FS_OK;
}

static bool is_op(const onnx_ctx *c, const char *const *names)
{
    for (; *names; names++)
        if (strcmp(c->node->op, *names) == 0)
            return true;
    return false;
}

/* Cast named its target. */
static fs_status number_target(onnx_ctx *c)
{
    static const char *const names[] = {
        "UNDEFINED", "FLOAT",  "UINT8",  "INT8",   "UINT16",
        "INT16",     "INT32",  "INT64",  "STRING", "BOOL",
        "FLOAT16",   "DOUBLE", "UINT32", "UINT64"};
    const char *to = onnx_attr_text(c, "to", NULL);
    for (int32_t i = 0; to && i < (int32_t)(sizeof names / sizeof *names); i++)
        if (strcmp(to, names[i]) == 0) {
            onnx_node *node = copy_node(c);
            for (int32_t k = 0; k < node->attrs.n; k++)
                if (strcmp(node->attrs.at[k].name, "to") == 0) {
                    node->attrs.at[k].i = i;
                    node->attrs.at[k].has_i = true;
                    node->attrs.at[k].type = ONNX_ATTR_INT;
                }
            return FS_OK;
        }
    return FS_OK;
}

static fs_status rename_attr(onnx_ctx *c, const char *from, const char *to)
{
    if (!onnx_attr_find(c, from))
        return FS_OK;
    onnx_node *node = copy_node(c);
    for (int32_t k = 0; k < node->attrs.n; k++)
        if (strcmp(node->attrs.at[k].name, from) == 0)
            node->attrs.at[k].name = to;
    return FS_OK;
}

fs_status onnx_modernise(onnx_ctx *c)
{
    static const char *const binary[] = {"Add",  "Sub",     "Mul",   "Div",
                                         "Pow",  "And",     "Or",    "Xor",
                                         "Less", "Greater", "Equal", NULL};
    const onnx_attr *axis = onnx_attr_find(c, "axis");
    if (is_op(c, binary) && axis && axis->has_i &&
        onnx_attr_int(c, "broadcast", 0))
        return align_right(c, axis->i);
    if (strcmp(c->node->op, "Cast") == 0)
        return number_target(c);
    if (strcmp(c->node->op, "Pad") == 0)
        return rename_attr(c, "paddings", "pads");
    return FS_OK;
}
