/* Random ops along axes and moves, for exec_equal_test. */
#include "config.h"

#include "equal_ops.h"

/* ---- reductions and what goes along an axis ---- */

static int32_t add_reduce(weaving *w, int32_t x)
{
    static const ir_op_kind ops[] = {IR_OP_reduce_sum, IR_OP_reduce_max,
                                     IR_OP_reduce_min, IR_OP_reduce_prod};
    const ir_shape s = shape_of(w, x);
    const uint32_t axes = 1u << below(w, s.rank);
    const ir_op_kind op = ops[below(w, 4)];
    if (s.rank > 2 && below(w, 2) && !(axes & 1))
        return ir_reduce_mean(w->g, x, axes, false);
    int32_t y = ir_reduce(w->g, op, ir_scale(w->g, x, 0.5, 0), axes, true);
    return ir_binary(w->g, IR_OP_sub, x, ir_unary(w->g, IR_OP_tanh, y));
}

static int32_t add_running(weaving *w, int32_t x)
{
    const int64_t axis = below(w, shape_of(w, x).rank);
    return ir_scale(
        w->g,
        ir_append(w->g, &(ir_node){.op = IR_OP_cum_sum,
                                   .n_in = 1,
                                   .in = {x},
                                   .i = {axis, below(w, 2), below(w, 2)}}),
        0.5, 0);
}

static int32_t add_top(weaving *w, int32_t x)
{
    const int32_t axis = inner_axis(w, x);
    const int64_t k = 1 + below(w, shape_of(w, x).dim[axis]);
    return ir_append(w->g, &(ir_node){.op = IR_OP_top_k,
                                      .n_in = 1,
                                      .in = {x},
                                      .i = {axis, k, below(w, 2)}});
}

static int32_t add_triangle(weaving *w, int32_t x)
{
    return ir_append(w->g, &(ir_node){.op = IR_OP_trilu,
                                      .n_in = 1,
                                      .in = {x},
                                      .i = {below(w, 2), below(w, 3) - 1}});
}

/* ---- moves ---- */

static int32_t add_transpose(weaving *w, int32_t x)
{
    const int32_t n = shape_of(w, x).rank;
    int32_t perm[IR_MAX_RANK];
    for (int32_t i = 0; i < n; i++)
        perm[i] = i;
    for (int32_t i = n - 1; i > 0; i--) {
        const int32_t j = (int32_t)below(w, i + 1), was = perm[i];
        perm[i] = perm[j];
        perm[j] = was;
    }
    return ir_transpose(w->g, x, perm);
}

static int32_t add_reshape(weaving *w, int32_t x)
{
    const ir_shape s = shape_of(w, x);
    ir_shape to = {0};
    const int32_t merge = (int32_t)below(w, s.rank);
    for (int32_t a = 0; a < s.rank; a++) {
        if (s.rank > 2 && a == merge && a > 0)
            to.dim[to.rank - 1] *= s.dim[a];
        else
            to.dim[to.rank++] = s.dim[a];
    }
    const int32_t last = to.rank - 1;
    if (to.rank < 4 && to.dim[last] % 2 == 0 && to.dim[last] > 2) {
        to.dim[last] /= 2;
        to.dim[to.rank++] = 2;
    }
    return ir_reshape(w->g, x, to);
}

static int32_t add_slice(weaving *w, int32_t x)
{
    const int32_t axis = inner_axis(w, x);
    const int64_t n = shape_of(w, x).dim[axis];
    const int64_t start = below(w, n);
    if (n > 2 && below(w, 3) == 0)
        return ir_slice_by(w->g, x, axis, (int64_t[]){n - 1, (n + 1) / 2, -2});
    return ir_slice(w->g, x, axis, start, 1 + below(w, n - start));
}

static int32_t add_concat(weaving *w, int32_t x)
{
    const int32_t axis = inner_axis(w, x);
    const int32_t parts[] = {x, ir_scale(w->g, x, -0.3, 0.2),
                             equal_add_unary(w, x)};
    return ir_concat(w->g, parts, 2 + (int32_t)below(w, 2), axis);
}

static int32_t add_pad(weaving *w, int32_t x)
{
    return ir_pad(w->g, x, inner_axis(w, x), below(w, 3), below(w, 3));
}

static int32_t add_rows(weaving *w, int32_t x)
{
    const ir_shape s = shape_of(w, x);
    const int32_t axis = inner_axis(w, x);
    const int64_t n = 1 + below(w, 5);
    int64_t *ids = fs_new(w->g->arena, int64_t, n);
    for (int64_t i = 0; i < n; i++)
        ids[i] = below(w, s.dim[axis]);
    int32_t index = ir_constant(w->g, fs_printf(w->g->arena, "c%d", w->op),
                                IR_I64, vector(n), ids);
    return ir_append(w->g, &(ir_node){.op = IR_OP_gather,
                                      .n_in = 2,
                                      .in = {x, index},
                                      .i = {s.dim[axis], 0, axis}});
}

equal_add_fn *const equal_ops_move[] = {
    add_reduce,    add_reduce,  add_top,   add_running, add_triangle,
    add_reshape,   add_reshape, add_slice, add_concat,  add_transpose,
    add_transpose, add_pad,     add_rows,  NULL};
