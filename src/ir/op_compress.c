/* Compressed gradients: an orthonormal basis, the largest entries and back. */
#include "config.h"
#include "ir/op_util.h"

static fs_status need_matrix(const ir_io *io, fs_err *err)
{
    FS_TRY(ir_io_need_float(io, 0, err));
    return ir_io_need_rank(io, 0, 2, 2, err);
}

static fs_status infer_orthonormal(const ir_node *node, ir_io *io, fs_err *err)
{
    (void)node;
    FS_TRY(need_matrix(io, err));
    if (io->in[0].dim[0] < io->in[0].dim[1])
        return fs_fail(err, FS_INVALID,
                       "%lld columns of length %lld cannot be orthonormal",
                       (long long)io->in[0].dim[1],
                       (long long)io->in[0].dim[0]);
    ir_io_copy(io, 0, 0);
    return FS_OK;
}

/* Twice: each of R columns against the half of them before it, a product and a
 * subtraction. */
static void work_orthonormal(const ir_node *node, const ir_io *io, ir_work *out)
{
    const int64_t columns = io->in[0].dim[1];
    ir_work_per_element(node, io, ir_add_sat(ir_mul_sat(4, columns), 3), out);
}

static fs_status infer_sparsify(const ir_node *node, ir_io *io, fs_err *err)
{
    FS_TRY(need_matrix(io, err));
    FS_TRY(ir_attr_check(node, 0, 2, 1, err));
    if (node->i[2] != IR_I32 && node->i[2] != IR_I64)
        return fs_fail(err, FS_INVALID, "attribute 2 is no type of places");
    for (int32_t k = 0; k < 2; k++)
        io->out[k] = (ir_shape){1, {node->i[0]}};
    io->out_dtype[0] = io->in_dtype[0];
    io->out_dtype[1] = (ir_dtype)node->i[2];
    ir_io_copy(io, 0, 2);
    return FS_OK;
}

/* Each device picks its share of what it holds, of a partial sum too: what is
 * picked differs, but picks and rest add up to x. */
static void sbp_sparsify(const ir_node *node, const ir_io *io, fs_arena *arena,
                         ir_sig_list *out)
{
    const ir_sbp held[] = {IR_SBP_P, IR_SBP_S(0), IR_SBP_S(1)};
    (void)node, (void)io;
    for (int32_t k = 0; k < 3; k++) {
        ir_sig *sig = ir_sig_add(arena, out);
        sig->in[0] = sig->out[2] = held[k];
        sig->out[0] = sig->out[1] = IR_SBP_S(0);
    }
}

/* A comparison per entry, and the least of the picked ones: log2 of them. */
static void work_sparsify(const ir_node *node, const ir_io *io, ir_work *out)
{
    int64_t flop = 2;
    for (int64_t k = 1; k < io->out[0].dim[0]; k *= 2)
        flop++;
    ir_work_per_element(node, io, flop, out);
}

static fs_status infer_densify(const ir_node *node, ir_io *io, fs_err *err)
{
    FS_TRY(ir_io_need_float(io, 0, err));
    FS_TRY(ir_io_need_rank(io, 0, 1, 1, err));
    FS_TRY(ir_io_need_int(io, 1, err));
    FS_TRY(ir_io_need_shape(io, 1, &io->in[0], err));
    if (node->i[0] < 1 || node->i[1] < 1 || node->i[2] < node->i[1])
        return fs_fail(err, FS_INVALID, "attributes 0 to 2 are no matrix");
    io->out[0] = (ir_shape){2, {node->i[0], node->i[1]}};
    io->out_dtype[0] = io->in_dtype[0];
    return ir_shape_check(&io->out[0], "matrix", err);
}

/* Linear in the values; who holds a piece passes over places beyond it. */
static void sbp_densify(const ir_node *node, const ir_io *io, fs_arena *arena,
                        ir_sig_list *out)
{
    const ir_sbp b = IR_SBP_B, p = IR_SBP_P, s = IR_SBP_S(0);
    (void)node, (void)io;
    ir_sig_add_row(arena, out, s, s, p);
    ir_sig_add_row(arena, out, p, b, p);
    ir_sig_add_row(arena, out, b, b, IR_SBP_S(0));
    ir_sig_add_row(arena, out, b, b, IR_SBP_S(1));
}

static void work_densify(const ir_node *node, const ir_io *io, ir_work *out)
{
    ir_work_moves(node, io, io->in[0].dim[0], out);
}

const ir_op ir_op_orthonormal = {.name = "orthonormal",
                                 .min_in = 1,
                                 .max_in = 1,
                                 .n_out = 1,
                                 .infer = infer_orthonormal,
                                 .work = work_orthonormal};
const ir_op ir_op_sparsify = {.name = "sparsify",
                              .picks = true,
                              .min_in = 1,
                              .max_in = 1,
                              .n_out = 3,
                              .infer = infer_sparsify,
                              .sbp = sbp_sparsify,
                              .work = work_sparsify};
const ir_op ir_op_densify = {.name = "densify",
                             .min_in = 2,
                             .max_in = 2,
                             .n_out = 1,
                             .infer = infer_densify,
                             .sbp = sbp_densify,
                             .work = work_densify};
