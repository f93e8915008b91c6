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

static int64_t reach(const ir_window *w, int32_t k)
{
    return (w->size[k] - 1) * w->dilation[k] + 1;
}

static int64_t at_least(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Of numbers of any sign; b > 0. */
static int64_t divide_up(int64_t a, int64_t b)
{
    return a / b + (a % b > 0);
}

static bool halo_cut(int32_t k, int64_t before, int64_t after, ir_sbp *out)
{
    before = at_least(before, 0);
    after = at_least(after, 0);
    if (before > IR_MAX_HALO || after > IR_MAX_HALO)
        return false;
    *out = IR_SBP_S(2 + k);
    out->before = (uint8_t)before;
    out->after = (uint8_t)after;
    return true;
}

/* How far pieces of x may start behind stride times those of y, and before:
 * x is longer, or shorter, than stride times y by as much in all. */
static void slack(const ir_window *w, int32_t k, const ir_shape shape[2],
                  int64_t out[2])
{
    int64_t over = shape[0].dim[2 + k] - w->stride[k] * shape[1].dim[2 + k];
    out[0] = at_least(over, 0);
    out[1] = at_least(-over, 0);
}

/* Window o reaches x from o stride - before on. */
bool ir_window_x_cut(const ir_window *w, int32_t k, const ir_shape shape[2],
                     ir_sbp *out)
{
    int64_t off[2];
    slack(w, k, shape, off);
    return halo_cut(k, w->before[k] + off[0],
                    reach(w, k) - w->stride[k] - w->before[k] + off[1], out);
}

/* Element i of x is reached by windows from (i + before - reach + 1) / stride,
 * rounded up, to (i + before) / stride, rounded down. */
bool ir_window_y_cut(const ir_window *w, int32_t k, const ir_shape shape[2],
                     ir_sbp *y, ir_sbp *x)
{
    const int64_t stride = w->stride[k], before = w->before[k];
    int64_t off[2];
    slack(w, k, shape, off);
    int64_t early = at_least(reach(w, k) - 1 - before + off[1], 0) / stride;
    int64_t late = divide_up(before + off[0], stride);
    if (!halo_cut(k, early, late, y))
        return false;
    return !x ||
           halo_cut(k, early * stride + before + off[0],
                    late * stride + reach(w, k) - stride - before + off[1], x);
}

typedef struct span {
    int64_t low, high;
} span;

static bool within(span need, span have)
{
    return need.low >= need.high ||
           (have.low <= need.low && need.high <= have.high);
}

static span clip(span s, int64_t length)
{
    return (span){at_least(s.low, 0), s.high < length ? s.high : length};
}

/* Of x, what windows [y.low, y.high) reach. */
static span reached(const ir_window *w, int32_t k, span y, int64_t length)
{
    if (y.low >= y.high)
        return (span){0, 0};
    return clip(
        (span){y.low * w->stride[k] - w->before[k],
               (y.high - 1) * w->stride[k] - w->before[k] + reach(w, k)},
        length);
}

/* The windows that reach into x [x.low, x.high). */
static span reaching(const ir_window *w, int32_t k, span x, int64_t length)
{
    return clip(
        (span){divide_up(x.low + w->before[k] - reach(w, k) + 1, w->stride[k]),
               (x.high - 1 + w->before[k]) / w->stride[k] + 1},
        length);
}

static span piece_at(const ir_shape *shape, const ir_nd_sbp *sbp,
                     const ir_mesh *mesh, const int32_t *coords, int32_t axis)
{
    ir_shape local;
    int64_t offset[IR_MAX_RANK];
    ir_local_piece(shape, sbp, mesh, coords, &local, offset);
    return (span){offset[axis], offset[axis] + local.dim[axis]};
}

static bool x_holds_at(const ir_window_pieces *p, const int32_t *coords,
                       int32_t k)
{
    span y = piece_at(&p->y, p->y_sbp, p->mesh, coords, 2 + k);
    span x = piece_at(&p->x, p->x_sbp, p->mesh, coords, 2 + k);
    return within(reached(p->window, k, y, p->x.dim[2 + k]), x);
}

static bool y_holds_at(const ir_window_pieces *p, const ir_nd_sbp *dx_sbp,
                       const int32_t *coords, int32_t k)
{
    span dx = piece_at(&p->x, dx_sbp, p->mesh, coords, 2 + k);
    span y = piece_at(&p->y, p->y_sbp, p->mesh, coords, 2 + k);
    span need = reaching(p->window, k, dx, p->y.dim[2 + k]);
    if (!within(need, y))
        return false;
    if (!p->x_sbp)
        return true;
    span x = piece_at(&p->x, p->x_sbp, p->mesh, coords, 2 + k);
    return within(reached(p->window, k, need, p->x.dim[2 + k]), x);
}

/* The mesh without the axes that do not cut `axis`: other devices hold what
 * these do along it. */
static ir_mesh cutting(const ir_mesh *mesh, const ir_nd_sbp *sbp, int32_t axis)
{
    ir_mesh part = *mesh;
    for (int32_t a = 0; a < mesh->n; a++)
        if (!ir_sbp_same_cut(sbp->at[a], IR_SBP_S(axis)))
            part.dim[a] = 1;
    return part;
}

/* `dx` NULL: asks of x. */
static bool all_hold(const ir_window_pieces *p, const ir_nd_sbp *dx)
{
    for (int32_t k = 0; k < p->window->n; k++) {
        const ir_mesh part = cutting(p->mesh, p->y_sbp, 2 + k);
        const int32_t n = ir_mesh_size(&part);
        for (int32_t r = 0; n > 1 && r < n; r++) {
            int32_t coords[IR_MAX_MESH];
            ir_mesh_coords(&part, r, coords);
            if (!(dx ? y_holds_at(p, dx, coords, k) : x_holds_at(p, coords, k)))
                return false;
        }
    }
    return true;
}

bool ir_window_x_holds(const ir_window_pieces *pieces)
{
    return all_hold(pieces, NULL);
}

bool ir_window_y_holds(const ir_window_pieces *pieces, const ir_nd_sbp *dx)
{
    return all_hold(pieces, dx);
}

int64_t ir_window_cuts(const ir_mesh *mesh, const ir_nd_sbp *sbp, int32_t axis)
{
    int64_t cuts = 1;
    for (int32_t a = 0; a < mesh->n; a++)
        if (sbp->at[a].kind == IR_S && sbp->at[a].axis == axis)
            cuts *= mesh->dim[a];
    return cuts;
}
