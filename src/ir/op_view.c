/* output, identity, reshape: no bytes move. */
#include "config.h"
#include "ir/op_util.h"

static fs_status infer_output(const ir_node *node, ir_io *io, fs_err *err)
{
    (void)node, (void)io, (void)err;
    return FS_OK;
}

static fs_status infer_identity(const ir_node *node, ir_io *io, fs_err *err)
{
    (void)node, (void)err;
    ir_io_copy(io, 0, 0);
    return FS_OK;
}

static void grad_identity(ir_graph *graph, const ir_node *node,
                          const int32_t *dout, int32_t *din)
{
    (void)graph, (void)node;
    din[0] = dout[0];
}

static fs_status infer_reshape(const ir_node *node, ir_io *io, fs_err *err)
{
    char a[160], b[160];
    FS_TRY(ir_attr_shape(node, err, &io->out[0]));
    io->out_dtype[0] = io->in_dtype[0];
    if (ir_shape_count(&io->in[0]) == ir_shape_count(&io->out[0]))
        return FS_OK;
    return fs_fail(err, FS_INVALID, "%s cannot be seen as %s",
                   ir_shape_text(a, &io->in[0]), ir_shape_text(b, &io->out[0]));
}

/* A reshape maps runs of axes (groups) of the input to runs of the output of
 * equal product. Only the leading axis of a group can be cut so that a piece
 * of the input is a piece of the output. */
typedef struct axis_pair {
    int32_t in, out;
} axis_pair;

static int32_t skip_ones(const ir_shape *shape, int32_t axis)
{
    while (axis < shape->rank && shape->dim[axis] == 1)
        axis++;
    return axis;
}

/* Leading axes of the smallest groups; returns how many. */
static int32_t leading_axes(const ir_shape *in, const ir_shape *out,
                            axis_pair pairs[IR_MAX_RANK])
{
    int32_t n = 0, i = skip_ones(in, 0), o = skip_ones(out, 0);
    while (i < in->rank && o < out->rank) {
        pairs[n++] = (axis_pair){i, o};
        int64_t x = in->dim[i++], y = out->dim[o++];
        while (x != y) {
            if (x < y)
                x *= in->dim[i++];
            else
                y *= out->dim[o++];
        }
        i = skip_ones(in, i);
        o = skip_ones(out, o);
    }
    return n;
}

static void sbp_reshape(const ir_node *node, const ir_io *io, fs_arena *arena,
                        ir_sig_list *out)
{
    axis_pair pairs[IR_MAX_RANK];
    int32_t n = leading_axes(&io->in[0], &io->out[0], pairs);
    (void)node;
    for (int32_t k = 0; k < n; k++) {
        ir_sig *sig = ir_sig_add(arena, out);
        sig->in[0] = IR_SBP_S(pairs[k].in);
        sig->out[0] = IR_SBP_S(pairs[k].out);
    }
    ir_sig_add_linear(arena, out, 1, 1);
}

/* By how many devices an axis is cut in all. */
static int64_t cuts_of(const ir_nd_sbp *sbp, int32_t axis, const ir_mesh *mesh)
{
    int64_t cuts = 1;
    for (int32_t i = 0; i < mesh->n; i++)
        if (sbp->at[i].kind == IR_S && sbp->at[i].axis == axis)
            cuts *= mesh->dim[i];
    return cuts;
}

/* Axes of unequal length must be cut evenly, else the pieces differ. */
static bool veto_reshape(const ir_node *node, const ir_io *io,
                         const ir_mesh *mesh, const ir_nd_sig *sig)
{
    axis_pair pairs[IR_MAX_RANK];
    int32_t n = leading_axes(&io->in[0], &io->out[0], pairs);
    (void)node;
    for (int32_t k = 0; k < n; k++) {
        int64_t x = io->in[0].dim[pairs[k].in];
        int64_t y = io->out[0].dim[pairs[k].out];
        int64_t cuts = cuts_of(&sig->in[0], pairs[k].in, mesh);
        if (x != y && (x % cuts != 0 || y % cuts != 0))
            return true;
    }
    return false;
}

static void grad_reshape(ir_graph *graph, const ir_node *node,
                         const int32_t *dout, int32_t *din)
{
    din[0] = ir_reshape(graph, dout[0], ir_shape_of(graph, node->in[0]));
}

const ir_op ir_op_output = {
    .name = "output", .min_in = 1, .max_in = 1, .infer = infer_output};
const ir_op ir_op_identity = {.name = "identity",
                              .min_in = 1,
                              .max_in = 1,
                              .n_out = 1,
                              .infer = infer_identity,
                              .sbp = ir_sbp_linear,
                              .grad = grad_identity};
const ir_op ir_op_reshape = {.name = "reshape",
                             .min_in = 1,
                             .max_in = 1,
                             .n_out = 1,
                             .infer = infer_reshape,
                             .sbp = sbp_reshape,
                             .veto = veto_reshape,
                             .grad = grad_reshape};
