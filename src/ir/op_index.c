/* Elements and slices by position: gather_elements, gather_nd, what writes
 * instead of reading (scatter_elements, scatter_nd), one_hot. */
#include "config.h"
#include "ir/op_util.h"

enum { REPLACE, ADD, MUL, MIN, MAX };

static fs_status check_reduction(int64_t kind, const ir_io *io, fs_err *err)
{
    if (kind < REPLACE || kind > MAX)
        return fs_fail(err, FS_INVALID, "reduction %lld", (long long)kind);
    if (kind != REPLACE && io->in_dtype[0] != IR_BOOL &&
        !ir_dtype_is_number(io->in_dtype[0]))
        return fs_fail(err, FS_INVALID, "no arithmetic on %s",
                       ir_dtype_name(io->in_dtype[0]));
    return ir_io_need_dtype(io, 2, err);
}

/* ---- elements ---- */

/* Ids may reach beyond x beside the axis: a piece of x is shorter than the
 * whole, and what is not there is passed over. */
static fs_status check_elements(const ir_node *node, const ir_io *io,
                                const ir_shape *x, fs_err *err)
{
    const ir_shape *ids = &io->in[1];
    FS_TRY(ir_io_need_int(io, 1, err));
    if (node->i[0] < 0 || node->i[0] >= x->rank || ids->rank != x->rank)
        return fs_fail(err, FS_INVALID,
                       "axis %lld, ids of rank %d for a tensor of rank %d",
                       (long long)node->i[0], ids->rank, x->rank);
    return FS_OK;
}

static fs_status infer_gather_elements(const ir_node *node, ir_io *io,
                                       fs_err *err)
{
    FS_TRY(check_elements(node, io, &io->in[0], err));
    io->out[0] = io->in[1];
    io->out_dtype[0] = io->in_dtype[0];
    return FS_OK;
}

/* May axis i be cut in x and ids alike? Only where a position in one is the
 * same in the other. */
static bool is_shared(const ir_node *node, const ir_io *io, int32_t i)
{
    return i != node->i[0] && io->in[0].dim[i] == io->in[1].dim[i];
}

static void sbp_gather_elements(const ir_node *node, const ir_io *io,
                                fs_arena *arena, ir_sig_list *out)
{
    const ir_sbp b = IR_SBP_B, p = IR_SBP_P;
    for (int32_t i = 0; i < io->in[0].rank; i++) {
        const ir_sbp s = IR_SBP_S(i);
        ir_sig_add_row(arena, out, b, s, s);
        ir_sig_add_row(arena, out, s, b, p); /* zero where it is not held */
        if (is_shared(node, io, i))
            ir_sig_add_row(arena, out, s, s, s);
    }
    ir_sig_add_linear(arena, out, 1, 1);
}

/* A row of ids must find its row of x in the same piece: both are not cut
 * along an axis where one of them was cut alone before. */
static bool veto_elements(const ir_node *node, const ir_io *io,
                          const ir_mesh *mesh, const ir_nd_sig *sig)
{
    (void)node, (void)io;
    bool alone[IR_MAX_RANK] = {false};
    for (int32_t a = 0; a < mesh->n; a++) {
        const ir_sbp x = sig->in[0].at[a], ids = sig->in[1].at[a];
        const bool both = x.kind == IR_S && ir_sbp_equal(x, ids);
        if (both && alone[x.axis])
            return true;
        if (x.kind == IR_S && !both)
            alone[x.axis] = true;
        if (ids.kind == IR_S && !both)
            alone[ids.axis] = true;
    }
    return false;
}

static void work_by_index(const ir_node *node, const ir_io *io, ir_work *out)
{
    ir_work_moves(node, io, 0, out);
    out->read_bytes = ir_add_sat(ir_shape_bytes(&io->in[1], io->in_dtype[1]),
                                 out->written_bytes);
}

static int32_t like(ir_graph *g, int32_t x, double value)
{
    if (x < 0)
        return -1;
    return ir_cast(g, ir_fill(g, ir_shape_of(g, x), value),
                   g->tensors.at[x].dtype);
}

/* A node with the position of another: its ids and attributes. */
static ir_node placed(const ir_node *node, ir_op_kind op, int32_t x)
{
    ir_node out = {.op = op, .n_in = 2, .in = {x, node->in[1]}};
    bool elements = op == IR_OP_gather_elements || op == IR_OP_scatter_elements;
    for (int32_t i = 0; i < (elements ? 2 : 9); i++)
        out.i[i] = node->i[i];
    return out;
}

static int32_t read_at(ir_graph *g, const ir_node *node, int32_t x)
{
    bool elements = node->op == IR_OP_scatter_elements;
    ir_node out =
        placed(node, elements ? IR_OP_gather_elements : IR_OP_gather_nd, x);
    return ir_append(g, &out);
}

static int32_t write_at(ir_graph *g, const ir_node *node, int32_t x, int32_t u,
                        int64_t kind)
{
    bool elements =
        node->op == IR_OP_gather_elements || node->op == IR_OP_scatter_elements;
    ir_node out =
        placed(node, elements ? IR_OP_scatter_elements : IR_OP_scatter_nd, x);
    out.i[elements ? 2 : 9] = kind;
    out.in[out.n_in++] = u;
    return ir_append(g, &out);
}

static void grad_read(ir_graph *graph, const ir_node *node, const int32_t *dout,
                      int32_t *din)
{
    din[0] = write_at(graph, node, like(graph, node->in[0], 0), dout[0], ADD);
}

static int64_t reduction_of(const ir_node *node)
{
    return node->i[node->op == IR_OP_scatter_elements ? 2 : 9];
}

/* 1 where a is b, in a's type. */
static int32_t same(ir_graph *g, int32_t a, int32_t b)
{
    if (a < 0 || b < 0)
        return -1;
    return ir_cast(g, ir_binary(g, IR_OP_equal, a, b), g->tensors.at[a].dtype);
}

/* By min and max: all that equal the result share its gradient alike. */
static void grad_extreme(ir_graph *graph, const ir_node *node, int32_t dy,
                         int32_t *din)
{
    int32_t y = node->out[0], x = node->in[0], u = node->in[2];
    int32_t x_is = same(graph, x, y);
    int32_t u_is = same(graph, u, read_at(graph, node, y));
    int32_t share =
        ir_binary(graph, IR_OP_div, dy, write_at(graph, node, x_is, u_is, ADD));
    din[0] = ir_binary(graph, IR_OP_mul, share, x_is);
    din[2] = ir_binary(graph, IR_OP_mul, read_at(graph, node, share), u_is);
}

/* Numbers from 1 for the updates, in the order of writing: among those that
 * one place could take no two alike. */
static int32_t order_of(ir_graph *g, const ir_node *node)
{
    const ir_shape u = ir_shape_of(g, node->in[2]);
    const bool elements = node->op == IR_OP_scatter_elements;
    const int32_t n = (int32_t)node->i[0];
    const int32_t rows =
        elements ? u.rank : ir_shape_of(g, node->in[1]).rank - 1;
    ir_shape flat = u, narrow = u;
    if (!elements) { /* (B.., J), and each number for a whole slice */
        flat.rank = n + 1;
        flat.dim[n] = 1;
        for (int32_t i = n; i < rows; i++)
            flat.dim[n] *= u.dim[i];
    }
    for (int32_t i = rows; i < u.rank; i++)
        narrow.dim[i] = 1;
    ir_node count = {.op = IR_OP_cum_sum, .n_in = 1, .i = {n}};
    count.in[0] = ir_cast(g, ir_fill(g, flat, 1), IR_I64);
    return ir_broadcast_to(g, ir_reshape(g, ir_append(g, &count), narrow), u);
}

/* 1 where an update is what its place holds in the end, in u's type: the last
 * one written there. */
static int32_t lasting(ir_graph *g, const ir_node *node)
{
    int32_t x = node->in[0], order = order_of(g, node);
    int32_t none = ir_cast(g, ir_fill(g, ir_shape_of(g, x), 0), IR_I64);
    int32_t last = write_at(g, node, none, order, REPLACE);
    int32_t lasts = ir_binary(g, IR_OP_equal, read_at(g, node, last), order);
    return ir_cast(g, lasts, g->tensors.at[node->in[2]].dtype);
}

/* By mul: an update is multiplied with the others of its place. Zeros are left
 * out of the product and counted apart, so that what divides it is none: where
 * another is zero, so is the gradient. */
static int32_t grad_factor(ir_graph *graph, const ir_node *node, int32_t dy)
{
    const int32_t x = node->in[0], u = node->in[2];
    int32_t zero = same(graph, u, like(graph, u, 0));
    int32_t others = ir_binary(graph, IR_OP_add, u, zero);
    int32_t zeros = write_at(graph, node, like(graph, x, 0), zero, ADD);
    int32_t product = write_at(graph, node, x, others, MUL);
    product = ir_binary(graph, IR_OP_mul, dy, product);
    int32_t share =
        ir_binary(graph, IR_OP_div, read_at(graph, node, product), others);
    int32_t alone =
        ir_binary(graph, IR_OP_equal, read_at(graph, node, zeros), zero);
    return ir_where(graph, alone, share, like(graph, u, 0));
}

/* Of replaced elements u gets nothing for what is written over. */
static void grad_write(ir_graph *graph, const ir_node *node,
                       const int32_t *dout, int32_t *din)
{
    int32_t dy = dout[0], x = node->in[0], u = node->in[2];
    switch (reduction_of(node)) {
    case REPLACE:
        din[0] = write_at(graph, node, dy, like(graph, u, 0), REPLACE);
        din[2] = ir_binary(graph, IR_OP_mul, read_at(graph, node, dy),
                           lasting(graph, node));
        return;
    case ADD:
        din[0] = dy;
        din[2] = read_at(graph, node, dy);
        return;
    case MUL:
        din[0] = ir_binary(graph, IR_OP_mul, dy,
                           write_at(graph, node, like(graph, x, 1), u, MUL));
        din[2] = grad_factor(graph, node, dy);
        return;
    default:
        grad_extreme(graph, node, dy, din);
    }
}

static fs_status infer_scatter_elements(const ir_node *node, ir_io *io,
                                        fs_err *err)
{
    FS_TRY(check_elements(node, io, &io->in[0], err));
    FS_TRY(check_reduction(node->i[2], io, err));
    FS_TRY(ir_io_need_shape(io, 2, &io->in[1], err));
    ir_io_copy(io, 0, 0);
    return FS_OK;
}

static ir_sig *add_write(fs_arena *arena, ir_sig_list *out, ir_sbp x,
                         ir_sbp ids, ir_sbp y)
{
    ir_sig *sig = ir_sig_add(arena, out);
    sig->in[0] = x;
    sig->in[1] = sig->in[2] = ids;
    sig->out[0] = y;
    return sig;
}

/* Where the updates are shared out (cut along axis i of ids): what each device
 * makes of the whole, or of its part, joins to the result. */
static void add_shares(int64_t kind, int32_t i, fs_arena *arena,
                       ir_sig_list *out)
{
    const ir_sbp p = IR_SBP_P, s = IR_SBP_S(i), b = IR_SBP_B;
    const ir_sbp pmin = IR_SBP_PMIN, pmax = IR_SBP_PMAX;
    if (kind == ADD)
        add_write(arena, out, p, s, p);
    if (kind == MIN)
        add_write(arena, out, b, s, pmin);
    if (kind == MAX)
        add_write(arena, out, b, s, pmax);
}

/* x and u both partial, or one of them alone. */
static void add_partials(int64_t kind, fs_arena *arena, ir_sig_list *out)
{
    const ir_sbp b = IR_SBP_B, p = IR_SBP_P;
    const ir_sbp most = kind == MIN ? IR_SBP_PMIN : IR_SBP_PMAX;
    ir_sig *sig = add_write(arena, out, kind == MUL ? p : b, b, b);
    if (kind == MUL) {
        sig->out[0] = p;
        return;
    }
    sig->in[0] = sig->in[2] = sig->out[0] = kind <= ADD ? p : most;
}

static void sbp_scatter_elements(const ir_node *node, const ir_io *io,
                                 fs_arena *arena, ir_sig_list *out)
{
    for (int32_t i = 0; i < io->in[0].rank; i++) {
        const ir_sbp s = IR_SBP_S(i);
        add_write(arena, out, s, IR_SBP_B, s); /* each writes what it holds */
        if (is_shared(node, io, i))
            add_write(arena, out, s, s, s);
        add_shares(node->i[2], i, arena, out);
    }
    add_partials(node->i[2], arena, out);
}

static void work_scatter(const ir_node *node, const ir_io *io, ir_work *out)
{
    ir_work_moves(node, io, ir_shape_count(&io->in[2]), out);
}

/* ---- slices ---- */

/* Axes of x: n batch axes, then k that ids give positions in. */
typedef struct nd {
    int32_t n, k;
} nd;

static fs_status read_nd(const ir_node *node, const ir_io *io, fs_err *err,
                         nd *out)
{
    const ir_shape *x = &io->in[0], *ids = &io->in[1];
    FS_TRY(ir_io_need_int(io, 1, err));
    FS_TRY(ir_io_need_rank(io, 1, 1, IR_MAX_RANK, err));
    int64_t n = node->i[0], k = ids->dim[ids->rank - 1];
    if (n < 0 || n >= ids->rank || k > x->rank - n)
        return fs_fail(err, FS_INVALID,
                       "positions of %lld axes after %lld of a tensor of rank "
                       "%d",
                       (long long)k, (long long)n, x->rank);
    for (int32_t i = 0; i < n; i++)
        if (x->dim[i] != ids->dim[i])
            return fs_fail(err, FS_INVALID,
                           "batch axis %d: %lld positions for %lld", i,
                           (long long)ids->dim[i], (long long)x->dim[i]);
    *out = (nd){(int32_t)n, (int32_t)k};
    return FS_OK;
}

/* Positions, then what lies below one. */
static fs_status slices_of(const ir_io *io, nd axes, fs_err *err, ir_shape *out)
{
    const ir_shape *x = &io->in[0];
    *out = io->in[1];
    out->rank--;
    if (out->rank + x->rank - axes.n - axes.k > IR_MAX_RANK)
        return fs_fail(err, FS_INVALID, "more than %d dimensions", IR_MAX_RANK);
    for (int32_t i = axes.n + axes.k; i < x->rank; i++)
        out->dim[out->rank++] = x->dim[i];
    return FS_OK;
}

static fs_status infer_gather_nd(const ir_node *node, ir_io *io, fs_err *err)
{
    nd axes = {0};
    FS_TRY(read_nd(node, io, err, &axes));
    FS_TRY(slices_of(io, axes, err, &io->out[0]));
    io->out_dtype[0] = io->in_dtype[0];
    return FS_OK;
}

static void sbp_gather_nd(const ir_node *node, const ir_io *io, fs_arena *arena,
                          ir_sig_list *out)
{
    const ir_sbp b = IR_SBP_B, p = IR_SBP_P;
    int32_t rows = io->in[1].rank - 1;
    nd axes = {(int32_t)node->i[0], (int32_t)io->in[1].dim[rows]};
    for (int32_t i = 0; i < rows; i++)
        ir_sig_add_row(arena, out, i < axes.n ? IR_SBP_S(i) : b, IR_SBP_S(i),
                       IR_SBP_S(i));
    for (int32_t i = axes.n; i < axes.n + axes.k; i++)
        ir_sig_add_row(arena, out, IR_SBP_S(i), b, p);
    for (int32_t i = axes.n + axes.k; i < io->in[0].rank; i++)
        ir_sig_add_row(arena, out, IR_SBP_S(i), b,
                       IR_SBP_S(rows + i - axes.n - axes.k));
    ir_sig_add_linear(arena, out, 1, 1);
}

static fs_status infer_scatter_nd(const ir_node *node, ir_io *io, fs_err *err)
{
    nd axes = {0};
    ir_shape slices = {0};
    FS_TRY(read_nd(node, io, err, &axes));
    FS_TRY(check_reduction(node->i[9], io, err));
    FS_TRY(slices_of(io, axes, err, &slices));
    FS_TRY(ir_io_need_shape(io, 2, &slices, err));
    ir_io_copy(io, 0, 0);
    return FS_OK;
}

static void sbp_scatter_nd(const ir_node *node, const ir_io *io,
                           fs_arena *arena, ir_sig_list *out)
{
    int32_t rows = io->in[1].rank - 1;
    nd axes = {(int32_t)node->i[0], (int32_t)io->in[1].dim[rows]};
    int32_t below = axes.n + axes.k;
    for (int32_t i = 0; i < io->in[0].rank; i++) {
        const ir_sbp s = IR_SBP_S(i), b = IR_SBP_B;
        ir_sig *sig = add_write(arena, out, s, i < axes.n ? s : b, s);
        if (i >= below)
            sig->in[2] = IR_SBP_S(rows + i - below);
    }
    for (int32_t i = axes.n; i < rows; i++)
        add_shares(node->i[9], i, arena, out);
    add_partials(node->i[9], arena, out);
}

/* ---- one_hot ---- */

static fs_status infer_one_hot(const ir_node *node, ir_io *io, fs_err *err)
{
    const ir_shape *ids = &io->in[0];
    FS_TRY(ir_io_need_int(io, 0, err));
    FS_TRY(ir_io_need_rank(io, 0, 0, IR_MAX_RANK - 1, err));
    FS_TRY(ir_attr_check(node, 1, 1, 1, err));
    if (node->i[0] < 0 || node->i[0] > ids->rank || node->i[2] < 0 ||
        node->i[2] >= IR_DTYPE_COUNT)
        return fs_fail(err, FS_INVALID,
                       "axis %lld, element type %lld for ids of rank %d",
                       (long long)node->i[0], (long long)node->i[2], ids->rank);
    ir_shape shape = {.rank = ids->rank + 1};
    for (int32_t i = 0; i < shape.rank; i++)
        shape.dim[i] = i < node->i[0]    ? ids->dim[i]
                       : i == node->i[0] ? node->i[1]
                                         : ids->dim[i - 1];
    io->out[0] = shape;
    io->out_dtype[0] = (ir_dtype)node->i[2];
    return FS_OK;
}

static void sbp_one_hot(const ir_node *node, const ir_io *io, fs_arena *arena,
                        ir_sig_list *out)
{
    for (int32_t i = 0; i < io->in[0].rank; i++) {
        ir_sig *sig = ir_sig_add(arena, out);
        sig->in[0] = IR_SBP_S(i);
        sig->out[0] = IR_SBP_S(i < node->i[0] ? i : i + 1);
    }
    ir_sig_add(arena, out)->out[0] = IR_SBP_S(node->i[0]);
}

const ir_op ir_op_gather_elements = {.name = "gather_elements",
                                     .moves = true,
                                     .min_in = 2,
                                     .max_in = 2,
                                     .n_out = 1,
                                     .infer = infer_gather_elements,
                                     .sbp = sbp_gather_elements,
                                     .veto = veto_elements,
                                     .work = work_by_index,
                                     .grad = grad_read};
const ir_op ir_op_scatter_elements = {.name = "scatter_elements",
                                      .min_in = 3,
                                      .max_in = 3,
                                      .n_out = 1,
                                      .infer = infer_scatter_elements,
                                      .sbp = sbp_scatter_elements,
                                      .veto = veto_elements,
                                      .work = work_scatter,
                                      .grad = grad_write};
const ir_op ir_op_gather_nd = {.name = "gather_nd",
                               .moves = true,
                               .min_in = 2,
                               .max_in = 2,
                               .n_out = 1,
                               .infer = infer_gather_nd,
                               .sbp = sbp_gather_nd,
                               .work = work_by_index,
                               .grad = grad_read};
const ir_op ir_op_scatter_nd = {.name = "scatter_nd",
                                .min_in = 3,
                                .max_in = 3,
                                .n_out = 1,
                                .infer = infer_scatter_nd,
                                .sbp = sbp_scatter_nd,
                                .work = work_scatter,
                                .grad = grad_write};
const ir_op ir_op_one_hot = {.name = "one_hot",
                             .moves = true,
                             .min_in = 1,
                             .max_in = 1,
                             .n_out = 1,
                             .infer = infer_one_hot,
                             .sbp = sbp_one_hot,
                             .work = ir_work_copy};
