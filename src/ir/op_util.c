#include "config.h"
#include "ir/op_util.h"

fs_status ir_io_need_float(const ir_io *io, int32_t in, fs_err *err)
{
    if (ir_dtype_is_float(io->in_dtype[in]))
        return FS_OK;
    return fs_fail(err, FS_INVALID, "input %d is %s; a float type is wanted",
                   in, ir_dtype_name(io->in_dtype[in]));
}

fs_status ir_io_need_int(const ir_io *io, int32_t in, fs_err *err)
{
    if (io->in_dtype[in] == IR_I32 || io->in_dtype[in] == IR_I64)
        return FS_OK;
    return fs_fail(err, FS_INVALID, "input %d is %s; an integer type is wanted",
                   in, ir_dtype_name(io->in_dtype[in]));
}

fs_status ir_io_need_dtype(const ir_io *io, int32_t in, fs_err *err)
{
    if (io->in_dtype[in] == io->in_dtype[0])
        return FS_OK;
    return fs_fail(err, FS_INVALID, "input %d is %s, input 0 is %s", in,
                   ir_dtype_name(io->in_dtype[in]),
                   ir_dtype_name(io->in_dtype[0]));
}

fs_status ir_io_need_wide(const ir_io *io, int32_t in, fs_err *err)
{
    const ir_dtype wanted = ir_dtype_widened(io->in_dtype[0]);
    if (io->in_dtype[in] == wanted)
        return FS_OK;
    return fs_fail(err, FS_INVALID, "input %d is %s; %s is wanted", in,
                   ir_dtype_name(io->in_dtype[in]), ir_dtype_name(wanted));
}

fs_status ir_io_need_alike(const ir_io *io, int32_t in, fs_err *err)
{
    char a[160], b[160];
    FS_TRY(ir_io_need_dtype(io, in, err));
    if (ir_shape_equal(&io->in[in], &io->in[0]))
        return FS_OK;
    return fs_fail(err, FS_INVALID, "input %d is %s, input 0 is %s", in,
                   ir_shape_text(a, &io->in[in]), ir_shape_text(b, &io->in[0]));
}

fs_status ir_io_need_rank(const ir_io *io, int32_t in, int32_t low,
                          int32_t high, fs_err *err)
{
    char text[160];
    if (io->in[in].rank >= low && io->in[in].rank <= high)
        return FS_OK;
    return fs_fail(err, FS_INVALID,
                   "input %d is %s; a rank from %d to %d is wanted", in,
                   ir_shape_text(text, &io->in[in]), low, high);
}

fs_status ir_io_need_shape(const ir_io *io, int32_t in, const ir_shape *wanted,
                           fs_err *err)
{
    char a[160], b[160];
    if (ir_shape_equal(wanted, &io->in[in]))
        return FS_OK;
    return fs_fail(err, FS_INVALID, "input %d is %s, not %s", in,
                   ir_shape_text(a, &io->in[in]), ir_shape_text(b, wanted));
}

fs_status ir_attr_check(const ir_node *node, int32_t first, int32_t n,
                        int64_t low, fs_err *err)
{
    for (int32_t i = first; i < first + n; i++)
        if (node->i[i] < low || node->i[i] > INT32_MAX)
            return fs_fail(err, FS_INVALID,
                           "attribute %d is %lld; it must lie in %lld .. %d", i,
                           (long long)node->i[i], (long long)low, INT32_MAX);
    return FS_OK;
}

void ir_io_copy(ir_io *io, int32_t in, int32_t out)
{
    io->out[out] = io->in[in];
    io->out_dtype[out] = io->in_dtype[in];
}

fs_status ir_infer_alike(const ir_node *node, ir_io *io, fs_err *err)
{
    FS_TRY(ir_io_need_float(io, 0, err));
    for (int32_t i = 1; i < node->n_in; i++)
        FS_TRY(ir_io_need_alike(io, i, err));
    for (int32_t i = 0; i < ir_op_outputs(node); i++)
        ir_io_copy(io, 0, i);
    return FS_OK;
}

void ir_attr_set_shape(ir_node *node, const ir_shape *shape)
{
    node->i[0] = shape->rank;
    for (int32_t i = 0; i < shape->rank; i++)
        node->i[i + 1] = shape->dim[i];
}

fs_status ir_attr_shape(const ir_node *node, fs_err *err, ir_shape *out)
{
    if (node->i[0] < 0 || node->i[0] > IR_MAX_RANK)
        return fs_fail(err, FS_INVALID,
                       "%lld dimensions; at most %d are supported",
                       (long long)node->i[0], IR_MAX_RANK);
    ir_shape shape = ir_shape_make((int32_t)node->i[0], node->i + 1);
    FS_TRY(ir_shape_check(&shape, "shape", err));
    *out = shape;
    return FS_OK;
}

ir_sig *ir_sig_add(fs_arena *arena, ir_sig_list *out)
{
    fs_push(arena, out, (ir_sig){0});
    return &out->at[out->n - 1];
}

static void set_masks(ir_sig *sig, uint32_t in_mask, uint32_t out_mask,
                      ir_sbp sbp)
{
    for (int32_t i = 0; i < IR_MAX_IN; i++)
        if (in_mask >> i & 1)
            sig->in[i] = sbp;
    for (int32_t i = 0; i < IR_MAX_OUT; i++)
        if (out_mask >> i & 1)
            sig->out[i] = sbp;
}

void ir_sig_add_split(fs_arena *arena, ir_sig_list *out, uint32_t in_mask,
                      uint32_t out_mask, int32_t axis)
{
    set_masks(ir_sig_add(arena, out), in_mask, out_mask, IR_SBP_S(axis));
}

void ir_sig_add_splits(fs_arena *arena, ir_sig_list *out, uint32_t in_mask,
                       uint32_t out_mask, int32_t n)
{
    for (int32_t axis = 0; axis < n; axis++)
        ir_sig_add_split(arena, out, in_mask, out_mask, axis);
}

void ir_sig_add_row(fs_arena *arena, ir_sig_list *out, ir_sbp a, ir_sbp b,
                    ir_sbp y)
{
    ir_sig *sig = ir_sig_add(arena, out);
    sig->in[0] = a;
    sig->in[1] = b;
    sig->out[0] = y;
}

void ir_sig_add_linear(fs_arena *arena, ir_sig_list *out, uint32_t in_mask,
                       uint32_t out_mask)
{
    set_masks(ir_sig_add(arena, out), in_mask, out_mask, IR_SBP_P);
}

void ir_sig_add_broadcast(const ir_io *io, int32_t n_in, fs_arena *arena,
                          ir_sig_list *out)
{
    int32_t rank = io->out[0].rank;
    for (int32_t axis = 0; axis < rank; axis++) {
        if (io->out[0].dim[axis] == 1)
            continue;
        ir_sig *sig = ir_sig_add(arena, out);
        sig->out[0] = IR_SBP_S(axis);
        for (int32_t i = 0; i < n_in; i++) {
            int32_t own = axis - (rank - io->in[i].rank);
            if (own >= 0 && io->in[i].dim[own] != 1)
                sig->in[i] = IR_SBP_S(own);
        }
    }
}

void ir_sbp_alike(const ir_node *node, const ir_io *io, fs_arena *arena,
                  ir_sig_list *out)
{
    uint32_t ins = (1u << node->n_in) - 1;
    uint32_t outs = (1u << ir_op_outputs(node)) - 1;
    ir_sig_add_splits(arena, out, ins, outs, io->in[0].rank);
}

void ir_sbp_linear(const ir_node *node, const ir_io *io, fs_arena *arena,
                   ir_sig_list *out)
{
    ir_sbp_alike(node, io, arena, out);
    ir_sig_add_linear(arena, out, 1, 1);
}

int64_t ir_mul_sat(int64_t a, int64_t b)
{
    int64_t result;
    return __builtin_mul_overflow(a, b, &result) ? INT64_MAX : result;
}

int64_t ir_common_divisor(int64_t a, int64_t b)
{
    while (a) {
        const int64_t rest = b % a;
        b = a;
        a = rest;
    }
    return b;
}

int64_t ir_add_sat(int64_t a, int64_t b)
{
    int64_t result;
    return __builtin_add_overflow(a, b, &result) ? INT64_MAX : result;
}

int64_t ir_shape_bytes(const ir_shape *shape, ir_dtype dtype)
{
    return ir_shape_count(shape) * ir_dtype_bytes(dtype);
}

void ir_work_moves(const ir_node *node, const ir_io *io, int64_t flop,
                   ir_work *out)
{
    *out = (ir_work){.flop = flop};
    for (int32_t i = 0; i < node->n_in; i++)
        out->read_bytes = ir_add_sat(
            out->read_bytes, ir_shape_bytes(&io->in[i], io->in_dtype[i]));
    for (int32_t i = 0; i < ir_op_outputs(node); i++)
        out->written_bytes = ir_add_sat(
            out->written_bytes, ir_shape_bytes(&io->out[i], io->out_dtype[i]));
}

void ir_work_per_element(const ir_node *node, const ir_io *io, int64_t flop,
                         ir_work *out)
{
    ir_work_moves(node, io, ir_mul_sat(flop, ir_shape_count(&io->in[0])), out);
}

void ir_work_products(const ir_node *node, const ir_io *io, int64_t macs,
                      int64_t rest, ir_work *out)
{
    ir_work_moves(node, io, ir_add_sat(ir_mul_sat(2, macs), rest), out);
    out->macs = macs;
}

void ir_work_copy(const ir_node *node, const ir_io *io, ir_work *out)
{
    ir_work_moves(node, io, 0, out);
}
