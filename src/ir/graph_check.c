#include "config.h"
#include "ir/op.h"

#include <string.h>

static fs_status check_sizes(const ir_node *node, fs_err *err)
{
    if ((unsigned)node->op >= IR_OP_COUNT)
        return fs_fail(err, FS_INVALID, "%s: no such op", node->name);
    const ir_op *op = ir_op_table[node->op];
    if (node->n_in < op->min_in || node->n_in > op->max_in ||
        node->n_out != ir_op_outputs(node))
        return fs_fail(err, FS_INVALID,
                       "%s (%s): %d inputs and %d outputs; %d to %d and %d are "
                       "wanted",
                       node->name, op->name, node->n_in, node->n_out,
                       op->min_in, op->max_in, ir_op_outputs(node));
    return FS_OK;
}

/* Inputs exist and are made by nodes before; outputs are this node's own. */
static fs_status check_edges(const ir_graph *graph, int32_t v, fs_err *err)
{
    const ir_node *node = &graph->nodes.at[v];
    for (int32_t i = 0; i < node->n_in; i++) {
        int32_t t = node->in[i];
        if (t < 0 || t >= graph->tensors.n)
            return fs_fail(err, FS_INVALID, "%s: input %d is no tensor",
                           node->name, i);
        if (graph->tensors.at[t].producer >= v)
            return fs_fail(err, FS_INVALID,
                           "%s reads %s, which only a later node makes",
                           node->name, graph->tensors.at[t].name);
    }
    for (int32_t i = 0; i < node->n_out; i++) {
        int32_t t = node->out[i];
        if (t < 0 || t >= graph->tensors.n ||
            graph->tensors.at[t].producer != v ||
            graph->tensors.at[t].slot != i)
            return fs_fail(err, FS_INVALID,
                           "%s: output %d is no tensor of its own", node->name,
                           i);
    }
    return FS_OK;
}

static fs_status check_shapes(const ir_graph *graph, const ir_node *node,
                              fs_err *err)
{
    ir_io stands, io;
    fs_err why = {0};
    ir_node_io(graph, node, &stands);
    io = stands;
    if (ir_op_table[node->op]->infer(node, &io, &why) != FS_OK)
        return fs_fail(err, FS_INVALID, "%s (%s): %s", node->name,
                       ir_op_table[node->op]->name, why.text);
    for (int32_t i = 0; i < node->n_out; i++) {
        char a[160], b[160];
        if (ir_shape_equal(&io.out[i], &stands.out[i]) &&
            io.out_dtype[i] == stands.out_dtype[i])
            continue;
        return fs_fail(
            err, FS_INVALID, "%s: output %d is %s %s, inferred is %s %s",
            node->name, i, ir_dtype_name(stands.out_dtype[i]),
            ir_shape_text(a, &stands.out[i]), ir_dtype_name(io.out_dtype[i]),
            ir_shape_text(b, &io.out[i]));
    }
    return FS_OK;
}

static bool alike(const ir_tensor *a, const ir_tensor *b)
{
    return a->dtype == b->dtype && ir_shape_equal(&a->shape, &b->shape);
}

static fs_status check_tensor(const ir_graph *graph, int32_t t, fs_err *err)
{
    const ir_tensor *tensor = &graph->tensors.at[t];
    int32_t v = tensor->producer;
    if (v < 0 || v >= graph->nodes.n || tensor->slot < 0 ||
        tensor->slot >= graph->nodes.at[v].n_out ||
        graph->nodes.at[v].out[tensor->slot] != t)
        return fs_fail(err, FS_INVALID, "%s: no node makes it", tensor->name);
    if (ir_graph_find(graph, tensor->name) != t)
        return fs_fail(err, FS_INVALID, "two tensors are named '%s'",
                       tensor->name);
    if (tensor->next < -1 || tensor->next >= graph->tensors.n)
        return fs_fail(err, FS_INVALID, "%s: its next value is no tensor",
                       tensor->name);
    if (tensor->next >= 0 && !alike(tensor, &graph->tensors.at[tensor->next]))
        return fs_fail(err, FS_INVALID, "%s: its next value has another shape",
                       tensor->name);
    if (tensor->again_of < -1 || tensor->again_of >= graph->tensors.n ||
        (tensor->again_of >= 0 &&
         !alike(tensor, &graph->tensors.at[tensor->again_of])))
        return fs_fail(err, FS_INVALID, "%s: is no copy of what it copies",
                       tensor->name);
    return ir_shape_check(&tensor->shape, tensor->name, err);
}

fs_status ir_graph_check(const ir_graph *graph, fs_err *err)
{
    if (graph->err.status != FS_OK)
        return fs_fail(err, graph->err.status, "%s", graph->err.text);
    for (int32_t t = 0; t < graph->tensors.n; t++)
        FS_TRY(check_tensor(graph, t, err));
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        const ir_node *node = &graph->nodes.at[v];
        FS_TRY(check_sizes(node, err));
        FS_TRY(check_edges(graph, v, err));
        FS_TRY(check_shapes(graph, node, err));
        if (fs_map_get(&graph->node_names, node->name) != v)
            return fs_fail(err, FS_INVALID, "two nodes are named '%s'",
                           node->name);
        if (node->forward < -1 || node->forward >= graph->nodes.n)
            return fs_fail(err, FS_INVALID, "%s: no such forward node",
                           node->name);
    }
    if (graph->loss < -1 || graph->loss >= graph->tensors.n)
        return fs_fail(err, FS_INVALID, "the loss is no tensor");
    return FS_OK;
}
