/* Optimizer ops: w, its gradient and states in; w' and states out. All lie
 * alike; never partial: squares do not add up. With decay d and step t from 1:
 *
 *   sgd       w' = w - lr (g + d w)
 *   momentum  m' = mu m + (g + d w);  w' = w - lr m'
 *   adam      g += d w;  m' = b1 m + (1-b1) g;  v' = b2 v + (1-b2) g^2
 *             w' = w - lr (m' / (1-b1^t)) / (sqrt(v' / (1-b2^t)) + eps)
 *   adamw     as adam with d = 0, after w -= lr d w
 *   adagrad   g += d w;  s' = s + g^2;  w' = w - lr g / (sqrt(s') + eps)
 *   lamb      u = (m' / (1-b1^t)) / (sqrt(v' / (1-b2^t)) + eps) + d w
 *             w' = w - lr |w| / |u| u
 *
 * LAMB is three kinds of nodes: the direction, two sum_squares (P where the
 * tensor is cut: the norms of a shard add up like any partial value), the
 * step. */
#include "config.h"
#include "ir/op_util.h"

static void work_sgd(const ir_node *node, const ir_io *io, ir_work *out)
{
    ir_work_per_element(node, io, 4, out);
}

static void work_momentum(const ir_node *node, const ir_io *io, ir_work *out)
{
    ir_work_per_element(node, io, 6, out);
}

static void work_adam(const ir_node *node, const ir_io *io, ir_work *out)
{
    ir_work_per_element(node, io, 15, out);
}

static void work_adagrad(const ir_node *node, const ir_io *io, ir_work *out)
{
    ir_work_per_element(node, io, 8, out);
}

static void work_lamb_direction(const ir_node *node, const ir_io *io,
                                ir_work *out)
{
    ir_work_per_element(node, io, 14, out);
}

static void work_two(const ir_node *node, const ir_io *io, ir_work *out)
{
    ir_work_per_element(node, io, 2, out);
}

static fs_status infer_lamb_step(const ir_node *node, ir_io *io, fs_err *err)
{
    ir_shape scalar = {0};
    (void)node;
    FS_TRY(ir_io_need_float(io, 0, err));
    FS_TRY(ir_io_need_alike(io, 1, err));
    for (int32_t k = 2; k < 4; k++) {
        FS_TRY(ir_io_need_dtype(io, k, err));
        FS_TRY(ir_io_need_shape(io, k, &scalar, err));
    }
    ir_io_copy(io, 0, 0);
    return FS_OK;
}

static void sbp_lamb_step(const ir_node *node, const ir_io *io, fs_arena *arena,
                          ir_sig_list *out)
{
    (void)node;
    ir_sig_add_splits(arena, out, 3, 1, io->in[0].rank);
}

static fs_status infer_sum_squares(const ir_node *node, ir_io *io, fs_err *err)
{
    (void)node;
    FS_TRY(ir_io_need_float(io, 0, err));
    io->out[0] = (ir_shape){0};
    io->out_dtype[0] = io->in_dtype[0];
    return FS_OK;
}

static void sbp_sum_squares(const ir_node *node, const ir_io *io,
                            fs_arena *arena, ir_sig_list *out)
{
    (void)node;
    for (int32_t i = 0; i < io->in[0].rank; i++) {
        ir_sig *sig = ir_sig_add(arena, out);
        sig->in[0] = IR_SBP_S(i);
        sig->out[0] = IR_SBP_P;
    }
}

/* w, g, m, v, alike, and how many steps were left out. */
static fs_status infer_counted(const ir_node *node, ir_io *io, fs_err *err)
{
    const ir_shape scalar = {0};
    ir_node alike = *node;
    alike.n_in = 4;
    FS_TRY(ir_infer_alike(&alike, io, err));
    if (node->n_in < 5)
        return FS_OK;
    if (io->in_dtype[4] != IR_F32)
        return fs_fail(err, FS_INVALID, "input 4 is %s, not f32",
                       ir_dtype_name(io->in_dtype[4]));
    return ir_io_need_shape(io, 4, &scalar, err);
}

static void sbp_counted(const ir_node *node, const ir_io *io, fs_arena *arena,
                        ir_sig_list *out)
{
    (void)node;
    ir_sig_add_splits(arena, out, 15, 7, io->in[0].rank);
}

#define COUNTED(op)                                                            \
    const ir_op ir_op_##op = {.name = #op,                                     \
                              .min_in = 4,                                     \
                              .max_in = 5,                                     \
                              .n_out = 3,                                      \
                              .infer = infer_counted,                          \
                              .sbp = sbp_counted,                              \
                              .work = work_##op}
#define UPDATE(op, n)                                                          \
    const ir_op ir_op_##op = {.name = #op,                                     \
                              .min_in = (n) + 1,                               \
                              .max_in = (n) + 1,                               \
                              .n_out = (n),                                    \
                              .infer = ir_infer_alike,                         \
                              .sbp = ir_sbp_alike,                             \
                              .work = work_##op}
UPDATE(sgd, 1);
UPDATE(momentum, 2);
COUNTED(adam);
UPDATE(adagrad, 2);
COUNTED(lamb_direction);

const ir_op ir_op_lamb_step = {.name = "lamb_step",
                               .min_in = 4,
                               .max_in = 4,
                               .n_out = 1,
                               .infer = infer_lamb_step,
                               .sbp = sbp_lamb_step,
                               .work = work_two};
const ir_op ir_op_sum_squares = {.name = "sum_squares",
                                 .min_in = 1,
                                 .max_in = 1,
                                 .n_out = 1,
                                 .infer = infer_sum_squares,
                                 .sbp = sbp_sum_squares,
                                 .work = work_two};
