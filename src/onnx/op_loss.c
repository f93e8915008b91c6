/* Importing losses of labels. */
#include "config.h"
#include "onnx/operators.h"

#include "ir/losses.h"

#include <string.h>

/* Axis 1 of (N, C, d1, ..) at the end, or back: our classes stand last. */
static int32_t move_classes(ir_graph *g, int32_t x, int32_t rank, bool last)
{
    int32_t perm[IR_MAX_RANK] = {0};
    if (rank <= 2)
        return x;
    for (int32_t i = 1; i < rank; i++)
        if (last)
            perm[i] = i + 1 < rank ? i + 1 : 1;
        else
            perm[i] = i == 1 ? rank - 1 : i - 1;
    return ir_transpose(g, x, perm);
}

/* What the labels count: an initializer here is data, no parameter to train. */
static int32_t class_weights(onnx_ctx *c, ir_dtype dtype)
{
    const onnx_value *value = onnx_value_of(c, 2);
    if (!value)
        return -1;
    if (value->tensor >= 0 || !(value->is_known || value->is_weight))
        return ir_cast(c->graph, onnx_in(c, 2), dtype);
    const onnx_const *known = &value->known;
    int32_t weights =
        ir_constant(c->graph, NULL, known->dtype, known->shape, known->data);
    return ir_cast(c->graph, weights, dtype);
}

static fs_status get_loss(onnx_ctx *c, ir_label_loss *out)
{
    static const char *const names[] = {"mean", "sum", "none"};
    const char *reduction = onnx_attr_text(c, "reduction", "mean");
    const onnx_attr *ignored = onnx_attr_find(c, "ignore_index");
    ir_shape in, labels;
    int32_t k = 0;
    FS_TRY(onnx_shape(c, 0, &in));
    FS_TRY(onnx_shape(c, 1, &labels));
    if (in.rank < 2 || labels.rank != in.rank - 1)
        return onnx_fail(c, "logits of rank %d and labels of rank %d", in.rank,
                         labels.rank);
    while (k < 3 && strcmp(names[k], reduction) != 0)
        k++;
    if (k == 3)
        return onnx_fail(c,
                         "reduction \"%.80s\" is unknown; there are mean, sum "
                         "and none",
                         reduction);
    *out = (ir_label_loss){.labels = onnx_in(c, 1),
                           .weights = -1,
                           .ignores = ignored && ignored->has_i,
                           .ignored = onnx_attr_int(c, "ignore_index", 0),
                           .reduction = (ir_rows_to)k};
    if (onnx_has(c, 2))
        out->weights = class_weights(c, onnx_dtype_of(c, 0));
    return FS_OK;
}

fs_status onnx_import_cross_entropy(onnx_ctx *c)
{
    ir_graph *g = c->graph;
    ir_label_loss loss;
    ir_shape in;
    FS_TRY(get_loss(c, &loss));
    FS_TRY(onnx_shape(c, 0, &in));
    const bool plain =
        !loss.ignores && loss.weights < 0 && loss.reduction == IR_ROWS_MEAN;
    const int32_t x = move_classes(g, onnx_in(c, 0), in.rank, true);
    FS_TRY(onnx_set(c, 0,
                    plain ? ir_cross_entropy(g, x, loss.labels)
                          : ir_cross_entropy_parts(g, x, &loss)));
    if (!onnx_wants(c, 1))
        return FS_OK;
    const int32_t log_prob = ir_unary(g, IR_OP_log_softmax, x);
    return onnx_set(c, 1, move_classes(g, log_prob, in.rank, false));
}

fs_status onnx_import_nll(onnx_ctx *c)
{
    ir_label_loss loss;
    ir_shape in;
    FS_TRY(get_loss(c, &loss));
    FS_TRY(onnx_shape(c, 0, &in));
    const int32_t x = move_classes(c->graph, onnx_in(c, 0), in.rank, true);
    return onnx_set(c, 0, ir_nll(c->graph, x, &loss));
}
