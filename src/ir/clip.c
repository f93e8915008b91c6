/* Squares are summed parameter by parameter, in the order of the parameters:
 * where a gradient is cut, its sum of squares is partial (P), and so is the
 * sum so far, which goes from stage to stage of a pipeline as it is. It becomes
 * whole once, before the root is taken. */
#include "config.h"
#include "ir/clip.h"

#include "ir/train.h"

static int32_t binary(ir_graph *graph, ir_op_kind kind, int32_t a, int32_t b,
                      const char *name)
{
    ir_node node = {.op = kind, .n_in = 2, .in = {a, b}, .name = name};
    return ir_append(graph, &node);
}

int32_t ir_squares_of_all(ir_graph *graph, int32_t n,
                          const ir_update_pair *pairs)
{
    if (graph->err.status != FS_OK || n == 0)
        return -1;
    ir_dtype dtype = graph->tensors.at[pairs[0].grad].dtype;
    int32_t sum = -1;
    for (int32_t k = 0; k < n && graph->err.status == FS_OK; k++) {
        ir_enter_update(graph, pairs[k].param);
        int32_t one =
            ir_cast(graph, ir_sum_squares(graph, pairs[k].grad), dtype);
        sum = k ? ir_binary(graph, IR_OP_add, sum, one) : one;
    }
    return sum;
}

static int32_t clip_factor(ir_graph *graph, double most, int32_t squares)
{
    ir_node root = {
        .op = IR_OP_sqrt, .n_in = 1, .in = {squares}, .name = "grad_norm"};
    int32_t norm = ir_append(graph, &root);
    if (norm < 0)
        return -1;
    ir_dtype dtype = graph->tensors.at[norm].dtype;
    int32_t ratio = binary(graph, IR_OP_div, ir_number(graph, dtype, most),
                           ir_scale(graph, norm, 1, 1e-6), "grad_norm/ratio");
    return binary(graph, IR_OP_min, ratio, ir_number(graph, dtype, 1),
                  "grad_norm/factor");
}

void ir_clip_gradients(ir_graph *graph, double most, int32_t squares, int32_t n,
                       ir_update_pair *pairs)
{
    int32_t factor = clip_factor(graph, most, squares);
    for (int32_t k = 0; k < n && graph->err.status == FS_OK; k++) {
        const ir_tensor *grad = &graph->tensors.at[pairs[k].grad];
        const char *name = fs_printf(graph->arena, "%s.clipped", grad->name);
        ir_dtype dtype = grad->dtype;
        ir_enter_update(graph, pairs[k].param);
        pairs[k].grad = binary(graph, IR_OP_mul, pairs[k].grad,
                               ir_cast(graph, factor, dtype), name);
    }
}
