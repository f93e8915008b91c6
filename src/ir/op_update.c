/* Optimizer ops: w, its gradient and states in; w and states out. */
#include "config.h"
#include "ir/op_util.h"

/* Outputs: w', then the states. */
static fs_status infer_update(const ir_node *node, ir_io *io, fs_err *err)
{
    FS_TRY(ir_io_need_float(io, 0, err));
    for (int32_t i = 1; i < node->n_in; i++)
        FS_TRY(ir_io_need_alike(io, i, err));
    for (int32_t i = 0; i < node->n_in - 1; i++)
        ir_io_copy(io, 0, i);
    return FS_OK;
}

/* All tensors lie alike; never partial: squares do not add up. */
static void sbp_update(const ir_node *node, const ir_io *io, fs_arena *arena,
                       ir_sig_list *out)
{
    uint32_t ins = (1u << node->n_in) - 1, outs = (1u << (node->n_in - 1)) - 1;
    ir_sig_add_splits(arena, out, ins, outs, 0, io->in[0].rank);
}

static void work_per_element(const ir_node *node, const ir_io *io, int64_t flop,
                             ir_work *out)
{
    ir_work_moves(node, io, ir_mul_sat(flop, ir_shape_count(&io->in[0])), out);
}

static void work_sgd(const ir_node *node, const ir_io *io, ir_work *out)
{
    work_per_element(node, io, 4, out);
}

static void work_momentum(const ir_node *node, const ir_io *io, ir_work *out)
{
    work_per_element(node, io, 6, out);
}

static void work_adam(const ir_node *node, const ir_io *io, ir_work *out)
{
    work_per_element(node, io, 15, out);
}

#define UPDATE(op, n)                                                          \
    const ir_op ir_op_##op = {.name = #op,                                     \
                              .min_in = (n) + 1,                               \
                              .max_in = (n) + 1,                               \
                              .n_out = (n),                                    \
                              .infer = infer_update,                           \
                              .sbp = sbp_update,                               \
                              .work = work_##op}
UPDATE(sgd, 1);
UPDATE(momentum, 2);
UPDATE(adam, 3);
