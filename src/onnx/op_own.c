/* Importing nodes of the domain "flowsearch": what an export writes of ops that
 * ONNX has no form of. The op's `infer` judges the attributes. */
#include "config.h"
#include "onnx/operators.h"
#include "onnx/scope.h"
#include "onnx/writer.h"

#include "ir/element.h"

#include <string.h>

/* Of the node, else what its function has as default. */
static const onnx_attr *find_attr(const onnx_ctx *c, const char *name)
{
    const onnx_function *function = onnx_find_function(c);
    const onnx_attr *attr = onnx_attr_find(c, name);
    for (int32_t i = 0; function && !attr && i < function->defaults.n; i++)
        if (strcmp(function->defaults.at[i].name, name) == 0)
            attr = &function->defaults.at[i];
    return attr;
}

static fs_status get_reals(onnx_ctx *c, double f[IR_MAX_REAL])
{
    const onnx_attr *attr = find_attr(c, "f");
    onnx_const values;
    if (!attr)
        return FS_OK;
    if (!attr->t)
        return onnx_fail(c, "attribute f is no tensor");
    FS_TRY(onnx_tensor_load(c->model, attr->t, c->arena, c->err, &values));
    int64_t n = onnx_const_count(&values);
    if (values.dtype != IR_F64 || n > IR_MAX_REAL)
        return onnx_fail(c, "attribute f must be up to %d doubles",
                         IR_MAX_REAL);
    for (int64_t i = 0; i < n; i++)
        f[i] = ir_element_real(values.dtype, values.data, i);
    return FS_OK;
}

static fs_status get_integers(onnx_ctx *c, int64_t i[IR_MAX_ATTR])
{
    const onnx_attr *attr = find_attr(c, "i");
    if (attr && attr->ints.n > IR_MAX_ATTR)
        return onnx_fail(c, "attribute i has %d numbers, %d at most",
                         attr->ints.n, IR_MAX_ATTR);
    for (int32_t k = 0; attr && k < attr->ints.n; k++)
        i[k] = attr->ints.at[k];
    return FS_OK;
}

static fs_status get_inputs(onnx_ctx *c, ir_node *node)
{
    const ir_op *op = ir_op_table[node->op];
    int32_t n = c->node->in.n;
    /* The runtime counts steps and sums up itself; only a function has to be
     * told. */
    n -= onnx_find_function(c) != NULL && onnx_more_input(node) != NULL;
    if (n < op->min_in || n > op->max_in)
        return onnx_fail(c, "%d inputs, %d to %d are wanted", n, op->min_in,
                         op->max_in);
    node->n_in = n;
    for (int32_t k = 0; k < node->n_in; k++) {
        node->in[k] = onnx_in(c, k);
        if (node->in[k] < 0)
            return FS_INVALID;
    }
    return FS_OK;
}

/* "OP", or "OP__3" of a function. */
static ir_op_kind find_op(const char *name)
{
    char op[64];
    const char *end = strstr(name, "__");
    size_t n = end ? (size_t)(end - name) : strlen(name);
    if (n >= sizeof op)
        return IR_OP_COUNT;
    memcpy(op, name, n);
    op[n] = '\0';
    return ir_op_by_name(op);
}

bool onnx_is_own(const onnx_node *node)
{
    return strcmp(node->domain, "flowsearch") == 0 &&
           find_op(node->op) != IR_OP_COUNT;
}

fs_status onnx_import_own(onnx_ctx *c)
{
    ir_node node = {.op = find_op(c->node->op)};
    if (node.op == IR_OP_COUNT || ir_op_class_of(node.op) == IR_CLASS_SOURCE ||
        ir_op_outputs(&node) == 0)
        return onnx_fail(c, "no op of this version is called so");
    FS_TRY(get_integers(c, node.i));
    FS_TRY(get_reals(c, node.f));
    FS_TRY(get_inputs(c, &node));
    int32_t id = ir_graph_add(c->graph, &node);
    for (int32_t k = 0; id >= 0 && k < c->graph->nodes.at[id].n_out; k++)
        if (onnx_wants(c, k))
            FS_TRY(onnx_set(c, k, c->graph->nodes.at[id].out[k]));
    return c->graph->err.status;
}
