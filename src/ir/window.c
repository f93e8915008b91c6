#include "config.h"
#include "ir/window.h"

#include "ir/op_util.h"

#include <string.h>

ir_window ir_window_read(const ir_node *node, int32_t n)
{
    ir_window window = {.n = n};
    for (int32_t k = 0; k < n; k++) {
        window.stride[k] = node->i[IR_WINDOW_STRIDE + k];
        window.before[k] = node->i[IR_WINDOW_BEFORE + k];
        window.after[k] = node->i[IR_WINDOW_AFTER + k];
        window.size[k] = window.dilation[k] = 1;
    }
    return window;
}

fs_status ir_window_check(const ir_node *node, const ir_io *io, int32_t in,
                          fs_err *err)
{
    FS_TRY(ir_io_need_float(io, in, err));
    FS_TRY(ir_io_need_rank(io, in, 3, 2 + IR_MAX_SPACE, err));
    int32_t n = io->in[in].rank - 2;
    FS_TRY(ir_attr_check(node, IR_WINDOW_STRIDE, n, 1, err));
    FS_TRY(ir_attr_check(node, IR_WINDOW_BEFORE, n, 0, err));
    FS_TRY(ir_attr_check(node, IR_WINDOW_AFTER, n, 0, err));
    return ir_attr_check(node, IR_WINDOW_SIZE, n, 1, err);
}

/* A window that hangs over the edge starts on x or its padding before it. */
static int64_t count_windows(const ir_window *w, int32_t k, int64_t x,
                             int64_t room)
{
    int64_t stride = w->stride[k], n = room / stride + 1;
    if (w->ceil && room % stride != 0 && n * stride < x + w->before[k])
        n++;
    return n;
}

fs_status ir_window_slide(const ir_window *w, const ir_shape *x, fs_err *err,
                          ir_shape *y)
{
    for (int32_t k = 0; k < w->n; k++) {
        int64_t length = x->dim[2 + k], padded = w->before[k] + w->after[k];
        int64_t reach;
        if (__builtin_mul_overflow(w->dilation[k], w->size[k] - 1, &reach) ||
            __builtin_add_overflow(padded, length, &padded) || reach >= padded)
            return fs_fail(err, FS_INVALID,
                           "a window of %lld, dilated by %lld, does not fit "
                           "into %lld padded elements",
                           (long long)w->size[k], (long long)w->dilation[k],
                           (long long)padded);
        y->dim[2 + k] = count_windows(w, k, length, padded - reach - 1);
    }
    return FS_OK;
}

bool ir_window_tiles(const ir_window *w, int32_t k, const ir_shape *x,
                     const ir_shape *y)
{
    int64_t reach = (w->size[k] - 1) * w->dilation[k] + 1;
    return w->before[k] == 0 && w->after[k] == 0 && reach <= w->stride[k] &&
           x->dim[2 + k] == y->dim[2 + k] * w->stride[k];
}

int64_t ir_window_cuts(const ir_mesh *mesh, const ir_nd_sbp *sbp, int32_t axis)
{
    int64_t cuts = 1;
    for (int32_t a = 0; a < mesh->n; a++)
        if (sbp->at[a].kind == IR_S && sbp->at[a].axis == axis)
            cuts *= mesh->dim[a];
    return cuts;
}

/* With a stride of 1, x and y are equally long and may be cut anywhere. */
bool ir_window_cuts_between(const ir_node *node, const ir_shape *y,
                            const ir_mesh *mesh, const ir_nd_sbp *sbp)
{
    for (int32_t axis = 2; axis < y->rank; axis++)
        if (node->i[IR_WINDOW_STRIDE + axis - 2] != 1 &&
            y->dim[axis] % ir_window_cuts(mesh, sbp, axis) != 0)
            return false;
    return true;
}
