/* input, variable, constant, fill: where tensors come from. */
#include "config.h"
#include "ir/op_util.h"

static fs_status infer_source(const ir_node *node, ir_io *io, fs_err *err)
{
    if (node->i[9] < 0 || node->i[9] >= IR_DTYPE_COUNT)
        return fs_fail(err, FS_INVALID, "attribute 9 is no element type");
    FS_TRY(ir_attr_shape(node, err, &io->out[0]));
    io->out_dtype[0] = (ir_dtype)node->i[9];
    return FS_OK;
}

static void sbp_source(const ir_node *node, const ir_io *io, fs_arena *arena,
                       ir_sig_list *out)
{
    (void)node;
    ir_sig_add_splits(arena, out, 0, 1, io->out[0].rank);
}

/* The sum of what devices hold is the value: at first the first holds it. */
static void sbp_variable(const ir_node *node, const ir_io *io, fs_arena *arena,
                         ir_sig_list *out)
{
    sbp_source(node, io, arena, out);
    if (node->i[11])
        ir_sig_add_linear(arena, out, 0, 1);
}

static fs_status infer_fill(const ir_node *node, ir_io *io, fs_err *err)
{
    FS_TRY(ir_attr_shape(node, err, &io->out[0]));
    io->out_dtype[0] = IR_F32;
    return FS_OK;
}

static void sbp_fill(const ir_node *node, const ir_io *io, fs_arena *arena,
                     ir_sig_list *out)
{
    sbp_source(node, io, arena, out);
    if (node->f[0] == 0) /* zeros everywhere add up to zero */
        ir_sig_add_linear(arena, out, 0, 1);
}

const ir_op ir_op_input = {
    .name = "input", .n_out = 1, .infer = infer_source, .sbp = sbp_source};
const ir_op ir_op_variable = {
    .name = "variable", .n_out = 1, .infer = infer_source, .sbp = sbp_variable};
const ir_op ir_op_constant = {
    .name = "constant", .n_out = 1, .infer = infer_source, .sbp = sbp_source};
const ir_op ir_op_fill = {.name = "fill",
                          .n_out = 1,
                          .infer = infer_fill,
                          .sbp = sbp_fill,
                          .work = ir_work_copy};
