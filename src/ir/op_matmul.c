/* matmul, weight_grad. */
#include "config.h"
#include "ir/op_util.h"

/* Which axes of a, b hold rows, columns and the contracted length. */
typedef struct mm_axes {
    int32_t rank;               /* of a and of the result */
    int32_t a_m, a_k, b_k, b_n; /* axes */
    bool batched;               /* b has a's batch axes */
} mm_axes;

static mm_axes axes_of(const ir_node *node, const ir_io *io)
{
    int32_t ra = io->in[0].rank, rb = io->in[1].rank;
    int32_t ta = node->i[0] != 0, tb = node->i[1] != 0;
    return (mm_axes){.rank = ra,
                     .a_m = ra - 2 + ta,
                     .a_k = ra - 1 - ta,
                     .b_k = rb - 2 + tb,
                     .b_n = rb - 1 - tb,
                     .batched = rb > 2};
}

static fs_status check_batch(const ir_io *io, const mm_axes *x, fs_err *err)
{
    char a[160], b[160];
    bool same = !x->batched || io->in[1].rank == x->rank;
    for (int32_t i = 0; same && x->batched && i < x->rank - 2; i++)
        same = io->in[0].dim[i] == io->in[1].dim[i];
    if (same)
        return FS_OK;
    return fs_fail(err, FS_INVALID,
                   "batch axes of %s and %s are not equal (and input 1 is no "
                   "matrix)",
                   ir_shape_text(a, &io->in[0]), ir_shape_text(b, &io->in[1]));
}

static fs_status check_bias(const ir_io *io, const mm_axes *x, fs_err *err)
{
    const ir_shape columns = ir_shape_make(1, &io->in[1].dim[x->b_n]);
    FS_TRY(ir_io_need_dtype(io, 2, err));
    return ir_io_need_shape(io, 2, &columns, err);
}

static fs_status infer_matmul(const ir_node *node, ir_io *io, fs_err *err)
{
    if (!ir_dtype_is_number(io->in_dtype[0]))
        return fs_fail(err, FS_INVALID, "input 0 is %s; numbers are wanted",
                       ir_dtype_name(io->in_dtype[0]));
    FS_TRY(ir_io_need_dtype(io, 1, err));
    FS_TRY(ir_io_need_rank(io, 0, 2, IR_MAX_RANK, err));
    FS_TRY(ir_io_need_rank(io, 1, 2, IR_MAX_RANK, err));
    mm_axes x = axes_of(node, io);
    FS_TRY(check_batch(io, &x, err));
    if (io->in[0].dim[x.a_k] != io->in[1].dim[x.b_k])
        return fs_fail(
            err, FS_INVALID, "contracted lengths %lld and %lld differ",
            (long long)io->in[0].dim[x.a_k], (long long)io->in[1].dim[x.b_k]);
    ir_io_copy(io, 0, 0);
    io->out[0].dim[x.rank - 2] = io->in[0].dim[x.a_m];
    io->out[0].dim[x.rank - 1] = io->in[1].dim[x.b_n];
    return node->n_in > 2 ? check_bias(io, &x, err) : FS_OK;
}

typedef struct mm_sbp {
    ir_sbp a, b, bias, y;
} mm_sbp;

static void add_row(const ir_node *node, fs_arena *arena, ir_sig_list *out,
                    mm_sbp row)
{
    ir_sig_add_row(arena, out, row.a, row.b, row.y);
    if (node->n_in > 2)
        out->at[out->n - 1].in[2] = row.bias;
}

/* The bias is whole where every piece of the result has all columns, cut with
 * them, a partial sum where the product is one. */
static void sbp_matmul(const ir_node *node, const ir_io *io, fs_arena *arena,
                       ir_sig_list *out)
{
    const mm_axes x = axes_of(node, io);
    const ir_sbp b = IR_SBP_B, p = IR_SBP_P;
    mm_sbp rows = {IR_SBP_S(x.a_m), b, b, IR_SBP_S(x.rank - 2)};
    mm_sbp columns = {b, IR_SBP_S(x.b_n), IR_SBP_S(0), IR_SBP_S(x.rank - 1)};
    mm_sbp sums = {IR_SBP_S(x.a_k), IR_SBP_S(x.b_k), p, p};
    for (int32_t i = 0; i < x.rank - 2; i++) {
        const ir_sbp s = IR_SBP_S(i);
        add_row(node, arena, out, (mm_sbp){s, x.batched ? s : b, b, s});
    }
    add_row(node, arena, out, rows);
    add_row(node, arena, out, columns);
    add_row(node, arena, out, sums);
    add_row(node, arena, out, (mm_sbp){p, b, p, p});
    add_row(node, arena, out, (mm_sbp){b, p, p, p});
}

static int64_t inner_of(const ir_io *io)
{
    int64_t inner = 0;
    const ir_shape *matrices[] = {&io->in[0], &io->in[1], &io->out[0]};
    for (int32_t k = 0; k < 3; k++)
        inner =
            ir_common_divisor(inner, matrices[k]->dim[matrices[k]->rank - 1]);
    return inner;
}

static void work_matmul(const ir_node *node, const ir_io *io, ir_work *out)
{
    mm_axes x = axes_of(node, io);
    const int64_t n = ir_shape_count(&io->out[0]);
    ir_work_products(node, io, ir_mul_sat(io->in[0].dim[x.a_k], n),
                     node->n_in > 2 ? n : 0, out);
    const int64_t columns = io->out[0].dim[x.rank - 1];
    const int64_t rows = x.batched ? io->out[0].dim[x.rank - 2]
                         : columns ? n / columns
                                   : 0;
    out->product =
        (ir_product){x.batched && rows && columns ? n / rows / columns : 1,
                     rows, columns, io->in[0].dim[x.a_k], inner_of(io)};
}

/* The transpose of the last two axes. */
static int32_t swap_last(ir_graph *graph, int32_t x)
{
    ir_shape shape = ir_shape_of(graph, x);
    int32_t perm[IR_MAX_RANK];
    if (x < 0)
        return -1;
    for (int32_t i = 0; i < shape.rank; i++)
        perm[i] = i;
    perm[shape.rank - 1] = shape.rank - 2;
    perm[shape.rank - 2] = shape.rank - 1;
    return ir_transpose(graph, x, perm);
}

/* b is a matrix that all rows of a share. */
static void grad_shared(ir_graph *graph, const ir_node *node, int32_t dy,
                        int32_t *din)
{
    int32_t a = node->in[0], b = node->in[1];
    bool ta = node->i[0] != 0, tb = node->i[1] != 0;
    int32_t da = ir_matmul(graph, dy, b, false, !tb);
    din[0] = ta ? swap_last(graph, da) : da;
    if (ta)
        a = swap_last(graph, a);
    din[1] = tb ? ir_weight_grad(graph, dy, a) : ir_weight_grad(graph, a, dy);
}

/* y = A B with A = a or a^T, B = b or b^T: dA = dy B^T, dB = A^T dy; a bias
 * takes dy summed over all rows. */
static void grad_matmul(ir_graph *graph, const ir_node *node,
                        const int32_t *dout, int32_t *din)
{
    int32_t a = node->in[0], b = node->in[1], dy = dout[0];
    bool ta = node->i[0] != 0, tb = node->i[1] != 0;
    if (node->n_in > 2)
        din[2] = ir_unbroadcast(graph, dy, ir_shape_of(graph, node->in[2]));
    if (ir_shape_of(graph, b).rank == 2) {
        grad_shared(graph, node, dy, din);
        return;
    }
    din[0] = ta ? ir_matmul(graph, b, dy, tb, true)
                : ir_matmul(graph, dy, b, false, !tb);
    din[1] = tb ? ir_matmul(graph, dy, a, true, ta)
                : ir_matmul(graph, a, dy, !ta, false);
}

static fs_status infer_weight_grad(const ir_node *node, ir_io *io, fs_err *err)
{
    char a[160], b[160];
    (void)node;
    FS_TRY(ir_io_need_float(io, 0, err));
    FS_TRY(ir_io_need_dtype(io, 1, err));
    FS_TRY(ir_io_need_rank(io, 0, 2, IR_MAX_RANK, err));
    int32_t last = io->in[0].rank - 1;
    bool same = io->in[1].rank == last + 1;
    for (int32_t i = 0; same && i < last; i++)
        same = io->in[0].dim[i] == io->in[1].dim[i];
    if (!same)
        return fs_fail(err, FS_INVALID, "leading axes of %s and %s differ",
                       ir_shape_text(a, &io->in[0]),
                       ir_shape_text(b, &io->in[1]));
    int64_t dims[2] = {io->in[0].dim[last], io->in[1].dim[last]};
    io->out[0] = ir_shape_make(2, dims);
    io->out_dtype[0] = io->in_dtype[0];
    return FS_OK;
}

static void sbp_weight_grad(const ir_node *node, const ir_io *io,
                            fs_arena *arena, ir_sig_list *out)
{
    int32_t last = io->in[0].rank - 1;
    const ir_sbp b = IR_SBP_B, p = IR_SBP_P;
    (void)node;
    for (int32_t i = 0; i < last; i++)
        ir_sig_add_row(arena, out, IR_SBP_S(i), IR_SBP_S(i), p);
    ir_sig_add_row(arena, out, IR_SBP_S(last), b, IR_SBP_S(0));
    ir_sig_add_row(arena, out, b, IR_SBP_S(last), IR_SBP_S(1));
    ir_sig_add_linear(arena, out, 1, 1);
    ir_sig_add_linear(arena, out, 2, 1);
}

static void work_weight_grad(const ir_node *node, const ir_io *io, ir_work *out)
{
    int64_t columns = io->in[1].dim[io->in[1].rank - 1];
    int64_t macs = ir_mul_sat(columns, ir_shape_count(&io->in[0]));
    const int64_t rows = io->in[0].dim[io->in[0].rank - 1];
    ir_work_products(node, io, macs, 0, out);
    out->product = (ir_product){1, rows, columns,
                                rows ? ir_shape_count(&io->in[0]) / rows : 0,
                                inner_of(io)};
}

/* y = sum a^T b: da = b y^T, db = a y. */
static void grad_weight_grad(ir_graph *graph, const ir_node *node,
                             const int32_t *dout, int32_t *din)
{
    din[0] = ir_matmul(graph, node->in[1], dout[0], false, true);
    din[1] = ir_matmul(graph, node->in[0], dout[0], false, false);
}

const ir_op ir_op_matmul = {.name = "matmul",
                            .min_in = 2,
                            .max_in = 3,
                            .n_out = 1,
                            .infer = infer_matmul,
                            .sbp = sbp_matmul,
                            .work = work_matmul,
                            .grad = grad_matmul};
const ir_op ir_op_weight_grad = {.name = "weight_grad",
                                 .min_in = 2,
                                 .max_in = 2,
                                 .n_out = 1,
                                 .infer = infer_weight_grad,
                                 .sbp = sbp_weight_grad,
                                 .work = work_weight_grad,
                                 .grad = grad_weight_grad};
