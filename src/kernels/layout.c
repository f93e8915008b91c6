#include "config.h"

#include "kernels/layout.h"

#include "ir/chain.h"
#include "kernels/loops.h"

bool kernel_may_block(const kernel_arg *arg)
{
    return arg->dtype == IR_F32 && arg->shape.rank >= 3 &&
           arg->shape.rank <= 5 && arg->shape.dim[1] > 0 &&
           arg->shape.dim[1] % KERNEL_BLOCK == 0;
}

kernel_blocks kernel_blocks_of(const ir_shape *shape)
{
    return (kernel_blocks){shape->dim[0], shape->dim[1] / KERNEL_BLOCK,
                           kernel_span(shape, 2, shape->rank)};
}

bool kernel_has_blocked(const kernel_call *call)
{
    bool blocked = false;
    for (int32_t i = 0; i < call->n_in; i++)
        blocked |= call->in[i].layout == KERNEL_BLOCKED;
    for (int32_t i = 0; i < call->n_out; i++)
        blocked |= call->out[i].layout == KERNEL_BLOCKED;
    return blocked;
}

static const kernel *const blocked_table[IR_OP_COUNT] = {
    [IR_OP_centred_square] = &kernel_blocked_centred_square,
    [IR_OP_batch_norm] = &kernel_blocked_batch_norm,
    [IR_OP_batch_norm_grad] = &kernel_blocked_batch_norm_grad,
    [IR_OP_batch_norm_param_grad] = &kernel_blocked_batch_norm_param_grad,
    [IR_OP_reduce_sum] = &kernel_blocked_reduce_sum,
    [IR_OP_max_pool] = &kernel_blocked_max_pool,
    [IR_OP_max_pool_grad] = &kernel_blocked_max_pool_grad,
};

const kernel *kernel_for_blocked(const kernel_call *call)
{
    const ir_op_kind op = call->node->op;
    if (ir_op_class_of(op) == IR_CLASS_CONV)
        return NULL;
    return blocked_table[op] ? blocked_table[op] : kernel_reference(op);
}

/* ---- who takes what ---- */

/* Does what it makes of an element hang on where that lies? */
static bool looks_at_places(ir_op_kind op)
{
    return op == IR_OP_dropout || op == IR_OP_random || op == IR_OP_rotary ||
           op == IR_OP_fill;
}

/* A function of elements at the same place of tensors of one shape: it does
 * not see how they lie. */
static bool is_elementwise(const kernel_call *c)
{
    const ir_node *node = c->node;
    if (ir_op_class_of(node->op) != IR_CLASS_POINTWISE ||
        looks_at_places(node->op))
        return false;
    for (int32_t k = 0; node->op == IR_OP_chain && k < node->chain->n_steps;
         k++)
        if (looks_at_places(node->chain->step[k].op))
            return false;
    for (int32_t i = 0; i < c->n_in; i++)
        if (!ir_shape_equal(&c->in[i].shape, &c->out[0].shape))
            return false;
    return true;
}

/* Sums that leave the channels, or the samples and the channels. */
static bool sums_planes(const kernel_call *c)
{
    const int32_t rank = c->in[0].shape.rank;
    const int64_t all = (INT64_C(1) << rank) - 1, axes = c->node->i[0];
    return axes == (all & ~INT64_C(2)) || axes == (all & ~INT64_C(3));
}

void kernel_layout_uses(const kernel_call *shapes, kernel_layout_use *out)
{
    *out = (kernel_layout_use){.gains = false};
    switch (shapes->node->op) {
    case IR_OP_conv:
    case IR_OP_conv_data_grad:
    case IR_OP_conv_filter_grad:
        kernel_dnnl_conv_uses(shapes, out);
        return;
    case IR_OP_batch_norm_grad:
        if (shapes->n_in == 7)
            out->in[3] = KERNEL_TOGETHER;
        out->in[0] = out->out[0] = KERNEL_TOGETHER;
        return;
    case IR_OP_batch_norm:
    case IR_OP_max_pool:
        out->in[0] = out->out[0] = KERNEL_TOGETHER;
        return;
    case IR_OP_batch_norm_param_grad:
        out->in[0] = out->in[1] = KERNEL_TOGETHER;
        return;
    case IR_OP_max_pool_grad:
        out->in[0] = out->in[1] = out->in[2] = KERNEL_TOGETHER;
        out->out[0] = KERNEL_TOGETHER;
        return;
    case IR_OP_centred_square:
        out->in[0] = KERNEL_EITHER;
        return;
    case IR_OP_reduce_sum:
        out->in[0] = sums_planes(shapes) ? KERNEL_EITHER : KERNEL_FIXED;
        return;
    default:
        break;
    }
    if (!is_elementwise(shapes))
        return;
    for (int32_t i = 0; i < shapes->n_in; i++)
        out->in[i] = KERNEL_TOGETHER;
    for (int32_t i = 0; i < shapes->n_out; i++)
        out->out[i] = KERNEL_TOGETHER;
}

void kernel_lay_blocked(kernel_call *shapes)
{
    kernel_layout_use use;
    bool may = true;
    kernel_layout_uses(shapes, &use);
    for (int32_t i = 0; i < shapes->n_in; i++)
        may &= use.in[i] != KERNEL_TOGETHER || kernel_may_block(&shapes->in[i]);
    for (int32_t i = 0; i < shapes->n_out; i++)
        may &=
            use.out[i] != KERNEL_TOGETHER || kernel_may_block(&shapes->out[i]);
    for (int32_t i = 0; may && i < shapes->n_in; i++)
        if (use.in[i] != KERNEL_FIXED && kernel_may_block(&shapes->in[i]))
            shapes->in[i].layout = KERNEL_BLOCKED;
    for (int32_t i = 0; may && i < shapes->n_out; i++)
        if (use.out[i] != KERNEL_FIXED && kernel_may_block(&shapes->out[i]))
            shapes->out[i].layout = KERNEL_BLOCKED;
}
