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
 * step.
 *
 * States may be held in another float type than w, that of their next values
 * (narrow_states.h): where it has fewer digits, w' is made of what was
 * computed, and the state is that rounded. */
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

/* Of w's shape; computed with like w. */
static fs_status need_state(const ir_io *io, int32_t in, fs_err *err)
{
    char a[160], b[160];
    const ir_dtype w = io->in_dtype[0], s = io->in_dtype[in];
    if (!ir_dtype_is_float(s) || ir_dtype_widened(s) != ir_dtype_widened(w))
        return fs_fail(err, FS_INVALID, "input %d is %s, input 0 is %s", in,
                       ir_dtype_name(s), ir_dtype_name(w));
    if (ir_shape_equal(&io->in[in], &io->in[0]))
        return FS_OK;
    return fs_fail(err, FS_INVALID, "input %d is %s, input 0 is %s", in,
                   ir_shape_text(a, &io->in[in]), ir_shape_text(b, &io->in[0]));
}

/* w, g, alike, states, and how many steps were left out. */
static fs_status infer_update(const ir_node *node, ir_io *io, fs_err *err)
{
    const int32_t n = 2 + ir_op_table[node->op]->states;
    const ir_shape scalar = {0};
    FS_TRY(ir_io_need_float(io, 0, err));
    FS_TRY(ir_io_need_alike(io, 1, err));
    ir_io_copy(io, 0, 0);
    for (int32_t k = 2; k < n; k++) {
        FS_TRY(need_state(io, k, err));
        ir_io_copy(io, k, k - 1);
    }
    if (node->n_in == n)
        return FS_OK;
    if (io->in_dtype[n] != IR_F32)
        return fs_fail(err, FS_INVALID, "input %d is %s, not f32", n,
                       ir_dtype_name(io->in_dtype[n]));
    return ir_io_need_shape(io, n, &scalar, err);
}

static void sbp_counted(const ir_node *node, const ir_io *io, fs_arena *arena,
                        ir_sig_list *out)
{
    (void)node;
    ir_sig_add_splits(arena, out, 15, 7, io->in[0].rank);
}

#define UPDATE(op, n_states, left_out, signatures)                             \
    const ir_op ir_op_##op = {.name = #op,                                     \
                              .min_in = (n_states) + 2,                        \
                              .max_in = (n_states) + 2 + (left_out),           \
                              .n_out = (n_states) + 1,                         \
                              .moves = true,                                   \
                              .states = n_states,                              \
                              .infer = infer_update,                           \
                              .sbp = signatures,                               \
                              .work = work_##op}
UPDATE(sgd, 0, 0, ir_sbp_alike);
UPDATE(momentum, 1, 0, ir_sbp_alike);
UPDATE(adam, 2, 1, sbp_counted);
UPDATE(adagrad, 1, 0, ir_sbp_alike);
UPDATE(lamb_direction, 2, 1, sbp_counted);

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
