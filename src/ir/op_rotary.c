/* rotary: pairs of columns turned by angles of their own (Su et al. 2021, arXiv
 * 2104.09864). Linear in x, so that the gradient is the transposed map: the
 * rotation by the negative angle. */
#include "config.h"
#include "ir/op_util.h"

/* Columns of x that are turned. */
static int64_t turned(const ir_node *node)
{
    return node->i[1];
}

/* A table of angles stretches to x but for its last axis, which holds one
 * number per column that is turned, or one per pair. */
static bool fits(const ir_shape *table, const ir_shape *x, int64_t columns)
{
    const int32_t shift = x->rank - table->rank, last = table->rank - 1;
    if (table->rank < 1 || shift < 0)
        return false;
    for (int32_t k = 0; k < last; k++)
        if (table->dim[k] != 1 && table->dim[k] != x->dim[k + shift])
            return false;
    return table->dim[last] == columns || 2 * table->dim[last] == columns;
}

static fs_status infer_rotary(const ir_node *node, ir_io *io, fs_err *err)
{
    char x[160], table[160];
    FS_TRY(ir_io_need_float(io, 0, err));
    FS_TRY(ir_io_need_rank(io, 0, 1, IR_MAX_RANK, err));
    FS_TRY(ir_attr_check(node, 1, 1, 2, err));
    FS_TRY(ir_io_need_dtype(io, 1, err));
    FS_TRY(ir_io_need_dtype(io, 2, err));
    FS_TRY(ir_io_need_shape(io, 2, &io->in[1], err));
    const int64_t columns = turned(node);
    if (columns % 2 != 0 || columns > io->in[0].dim[io->in[0].rank - 1] ||
        !fits(&io->in[1], &io->in[0], columns))
        return fs_fail(err, FS_INVALID,
                       "angles of shape %s do not turn %lld columns of %s",
                       ir_shape_text(table, &io->in[1]), (long long)columns,
                       ir_shape_text(x, &io->in[0]));
    ir_io_copy(io, 0, 0);
    return FS_OK;
}

/* Pairs lie in the last axis; linear in x, and where every column is turned in
 * the two tables together. */
static void sbp_rotary(const ir_node *node, const ir_io *io, fs_arena *arena,
                       ir_sig_list *out)
{
    const ir_shape *x = &io->in[0], *table = &io->in[1];
    for (int32_t axis = 0; axis + 1 < x->rank; axis++) {
        const int32_t own = axis - (x->rank - table->rank);
        ir_sig *sig = ir_sig_add(arena, out);
        sig->in[0] = sig->out[0] = IR_SBP_S(axis);
        if (own >= 0 && table->dim[own] > 1)
            sig->in[1] = sig->in[2] = IR_SBP_S(own);
    }
    ir_sig_add_linear(arena, out, 1, 1);
    if (turned(node) == x->dim[x->rank - 1])
        ir_sig_add_linear(arena, out, 6, 1);
}

static void work_rotary(const ir_node *node, const ir_io *io, ir_work *out)
{
    ir_work_per_element(node, io, 3, out);
}

/* Sums the products of x's shape down to a table's. */
static int32_t table_grad(ir_graph *g, const ir_node *node, int32_t product)
{
    const ir_shape table = ir_shape_of(g, node->in[1]);
    ir_shape shape = ir_shape_of(g, product);
    const int32_t last = shape.rank - 1;
    const int64_t columns = turned(node), half = columns / 2;
    if (columns < shape.dim[last])
        product = ir_slice(g, product, last, 0, columns);
    if (table.dim[table.rank - 1] == columns)
        return ir_unbroadcast(g, product, table);
    shape.dim[last] = half;
    if (node->i[0]) {
        ir_shape pairs = shape;
        pairs.dim[pairs.rank++] = 2;
        product = ir_reduce_sum(g, ir_reshape(g, product, pairs),
                                1u << shape.rank, false);
    } else {
        product = ir_binary(g, IR_OP_add, ir_slice(g, product, last, 0, half),
                            ir_slice(g, product, last, half, half));
    }
    return ir_unbroadcast(g, product, table);
}

/* With turn(x) what the sines are multiplied by: dcos = dy x, dsin = dy
 * turn(x); the transposed map has its sums the other way round. */
static void grad_rotary(ir_graph *g, const ir_node *node, const int32_t *dout,
                        int32_t *din)
{
    const int32_t like = node->in[1];
    ir_node back = *node, turn = *node;
    const int32_t by = node->i[2] ? dout[0] : node->in[0];
    const int32_t to = node->i[2] ? node->in[0] : dout[0];
    back.in[0] = dout[0];
    back.i[2] = !node->i[2];
    back.name = turn.name = NULL;
    din[0] = ir_append(g, &back);
    turn.i[2] = 0;
    turn.in[0] = by;
    turn.in[1] = ir_scale(g, like, 0, 0);
    turn.in[2] = ir_scale(g, like, 0, 1);
    din[1] = table_grad(g, node, ir_binary(g, IR_OP_mul, dout[0], node->in[0]));
    din[2] =
        table_grad(g, node, ir_binary(g, IR_OP_mul, to, ir_append(g, &turn)));
}

const ir_op ir_op_rotary = {.name = "rotary",
                            .min_in = 3,
                            .max_in = 3,
                            .n_out = 1,
                            .infer = infer_rotary,
                            .sbp = sbp_rotary,
                            .work = work_rotary,
                            .grad = grad_rotary};
