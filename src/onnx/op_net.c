/* Importing normalisation, reduction and loss. */
#include "config.h"
#include "onnx/operators.h"

#include <string.h>

/* Before opset 13 the axes from `axis` on are one; since then `axis` is one
 * axis, which is brought to the end and back. */
fs_status onnx_import_softmax(onnx_ctx *c)
{
    ir_graph *g = c->graph;
    ir_shape in;
    int32_t axis, perm[IR_MAX_RANK];
    FS_TRY(onnx_shape(c, 0, &in));
    FS_TRY(onnx_axis(c, onnx_attr_int(c, "axis", c->opset < 13 ? 1 : -1),
                     in.rank, &axis));
    int32_t x = onnx_in(c, 0);
    if (axis == in.rank - 1)
        return onnx_set(c, 0, ir_softmax(g, x));
    if (c->opset < 13) {
        ir_shape flat = {.rank = 2, .dim = {1, 1}};
        for (int32_t i = 0; i < in.rank; i++)
            flat.dim[i >= axis] *= in.dim[i];
        return onnx_set(
            c, 0, ir_reshape(g, ir_softmax(g, ir_reshape(g, x, flat)), in));
    }
    for (int32_t i = 0; i < in.rank; i++)
        perm[i] = i == axis ? in.rank - 1 : i == in.rank - 1 ? axis : i;
    return onnx_set(
        c, 0, ir_transpose(g, ir_softmax(g, ir_transpose(g, x, perm)), perm));
}

fs_status onnx_import_reduce(onnx_ctx *c)
{
    ir_shape in;
    uint32_t mask;
    FS_TRY(onnx_shape(c, 0, &in));
    bool noop = onnx_attr_int(c, "noop_with_empty_axes", 0) != 0;
    FS_TRY(onnx_axes(c, 1, in.rank, noop ? 0 : (1u << in.rank) - 1, &mask));
    bool keep = onnx_attr_int(c, "keepdims", 1) != 0;
    if (mask == 0)
        return onnx_alias(c, 0, 0);
    int32_t x = onnx_in(c, 0);
    return onnx_set(c, 0,
                    c->arg == ONNX_MEAN
                        ? ir_reduce_mean(c->graph, x, mask, keep)
                        : ir_reduce_sum(c->graph, x, mask, keep));
}

/* (N, C, d1, ..) becomes (N, d1, .., C): our classes stand last. */
static int32_t classes_last(ir_graph *g, int32_t x, int32_t rank)
{
    int32_t perm[IR_MAX_RANK] = {0};
    if (rank == 2)
        return x;
    for (int32_t i = 1; i < rank; i++)
        perm[i] = i + 1 < rank ? i + 1 : 1;
    return ir_transpose(g, x, perm);
}

fs_status onnx_import_cross_entropy(onnx_ctx *c)
{
    ir_shape in, labels;
    FS_TRY(onnx_shape(c, 0, &in));
    FS_TRY(onnx_shape(c, 1, &labels));
    const char *reduction = onnx_attr_text(c, "reduction", "mean");
    bool sum = strcmp(reduction, "sum") == 0;
    int64_t ignored = onnx_attr_int(c, "ignore_index", -100);
    if (onnx_has(c, 2))
        return onnx_fail(c, "class weights are not supported");
    if (!sum && strcmp(reduction, "mean") != 0)
        return onnx_fail(c,
                         "reduction \"%.80s\" is not supported; mean and sum "
                         "are",
                         reduction);
    if (in.rank < 2 || labels.rank != in.rank - 1)
        return onnx_fail(c, "logits of rank %d and labels of rank %d", in.rank,
                         labels.rank);
    if (ignored != -100)
        onnx_note(c,
                  "%s ignores label %lld; here such a label is a fault at "
                  "run time",
                  c->node->name, (long long)ignored);
    FS_TRY(onnx_refuse_output(c, 1, "the log probabilities are not kept"));
    int32_t x = onnx_in(c, 0), y = onnx_in(c, 1);
    int32_t loss =
        ir_cross_entropy(c->graph, classes_last(c->graph, x, in.rank), y);
    if (sum)
        loss = ir_scale(c->graph, loss, (double)ir_shape_count(&labels), 0);
    return onnx_set(c, 0, loss);
}
