/* dropout, random: values drawn by position, so that every piece of a tensor
 * draws its own part and a gradient draws its mask again. */
#include "config.h"
#include "ir/op_util.h"

#include <math.h>

static fs_status infer_dropout(const ir_node *node, ir_io *io, fs_err *err)
{
    if (!(node->f[0] >= 0 && node->f[0] <= 1))
        return fs_fail(err, FS_INVALID, "a ratio of %g is not within 0 .. 1",
                       node->f[0]);
    return ir_infer_alike(node, io, err);
}

static void work_dropout(const ir_node *node, const ir_io *io, ir_work *out)
{
    ir_work_per_element(node, io, 2, out);
}

/* The mask is the same whoever draws it: dy goes through the op itself. */
static void grad_dropout(ir_graph *graph, const ir_node *node,
                         const int32_t *dout, int32_t *din)
{
    din[0] = ir_dropout(graph, dout[0], node->f[0], (uint64_t)node->i[0]);
}

static fs_status infer_random(const ir_node *node, ir_io *io, fs_err *err)
{
    if (node->i[9] != IR_INIT_NORMAL && node->i[9] != IR_INIT_UNIFORM)
        return fs_fail(err, FS_INVALID, "attribute 9 is no distribution");
    if (!isfinite(node->f[0]) || !isfinite(node->f[1]))
        return fs_fail(err, FS_INVALID, "mean and spread must be finite");
    FS_TRY(ir_attr_shape(node, err, &io->out[0]));
    io->out_dtype[0] = IR_F32;
    return FS_OK;
}

static void sbp_random(const ir_node *node, const ir_io *io, fs_arena *arena,
                       ir_sig_list *out)
{
    (void)node;
    ir_sig_add_splits(arena, out, 0, 1, io->out[0].rank);
}

static void work_random(const ir_node *node, const ir_io *io, ir_work *out)
{
    ir_work_moves(node, io, ir_mul_sat(4, ir_shape_count(&io->out[0])), out);
}

const ir_op ir_op_dropout = {.name = "dropout",
                             .draws = true,
                             .min_in = 1,
                             .max_in = 1,
                             .n_out = 1,
                             .infer = infer_dropout,
                             .sbp = ir_sbp_linear,
                             .work = work_dropout,
                             .grad = grad_dropout};
const ir_op ir_op_random = {.name = "random",
                            .draws = true,
                            .seed_attr = 10,
                            .n_out = 1,
                            .infer = infer_random,
                            .sbp = sbp_random,
                            .work = work_random};
