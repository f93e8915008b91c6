/* Arithmetic, functions, products, sums and norms, as ONNX operators; of
 * several nodes where no operator is the op. */
#include "config.h"
#include "onnx/writer.h"

#include <math.h>

/* The op's output from one input and one more. */
static bool end_pair(onnx_writer *w, const char *op, const char *a,
                     const char *b)
{
    onnx_line line = onnx_line_like(w, op);
    line.n_in = 2;
    line.n_out = 1;
    line.in[0] = a;
    line.in[1] = b;
    onnx_write_line(w, &line);
    return true;
}

/* A number of the first input's type. */
static const char *number(onnx_writer *w, double value)
{
    return onnx_put_number(w, onnx_in_tensor(w, 0)->dtype, value);
}

static const char *input(const onnx_writer *w, int32_t i)
{
    return w->name[w->node->in[i]];
}

/* ---- element by element ---- */

bool onnx_out_scale(onnx_writer *w, const char *op)
{
    (void)op;
    const double *f = w->node->f;
    const char *x = input(w, 0);
    if (f[1] == 0)
        return end_pair(w, "Mul", x, number(w, f[0]));
    if (f[0] != 1)
        x = onnx_write_pair(w, "Mul", x, number(w, f[0]));
    return end_pair(w, "Add", x, number(w, f[1]));
}

bool onnx_out_power(onnx_writer *w, const char *op)
{
    return end_pair(w, op, input(w, 0), number(w, w->node->f[0]));
}

bool onnx_out_mod(onnx_writer *w, const char *op)
{
    if (ir_dtype_is_float(onnx_in_tensor(w, 0)->dtype) && !w->node->i[0])
        return false;
    onnx_line line = onnx_line_like(w, op);
    onnx_line_int(&line, "fmod", w->node->i[0]);
    onnx_write_line(w, &line);
    return true;
}

bool onnx_out_bits(onnx_writer *w, const char *op)
{
    bool flag = onnx_in_tensor(w, 0)->dtype == IR_BOOL;
    return onnx_out_same(w, flag ? op : fs_printf(w->arena, "Bitwise%s", op));
}

bool onnx_out_cast(onnx_writer *w, const char *op)
{
    onnx_line line = onnx_line_like(w, op);
    onnx_line_int(&line, "to", onnx_dtype_number(onnx_out_tensor(w, 0)->dtype));
    onnx_write_line(w, &line);
    return true;
}

/* x gate(x) */
bool onnx_out_gate(onnx_writer *w, const char *op)
{
    const char *x = input(w, 0);
    return end_pair(w, "Mul", x, onnx_write_step(w, op, x));
}

bool onnx_out_mish(onnx_writer *w, const char *op)
{
    (void)op;
    const char *x = input(w, 0), *y = onnx_write_step(w, "Softplus", x);
    return end_pair(w, "Mul", x, onnx_write_step(w, "Tanh", y));
}

/* 0.5 x (1 + y) */
static bool end_gelu(onnx_writer *w, const char *y)
{
    y = onnx_write_pair(w, "Add", y, number(w, 1));
    y = onnx_write_pair(w, "Mul", input(w, 0), y);
    return end_pair(w, "Mul", y, number(w, 0.5));
}

bool onnx_out_gelu(onnx_writer *w, const char *op)
{
    (void)op;
    const char *y = onnx_write_pair(w, "Div", input(w, 0), number(w, sqrt(2)));
    return end_gelu(w, onnx_write_step(w, "Erf", y));
}

bool onnx_out_gelu_tanh(onnx_writer *w, const char *op)
{
    (void)op;
    const char *x = input(w, 0);
    const char *y = onnx_write_pair(w, "Pow", x, number(w, 3));
    y = onnx_write_pair(w, "Mul", y, number(w, 0.044715));
    y = onnx_write_pair(w, "Add", x, y);
    y = onnx_write_pair(w, "Mul", y, number(w, sqrt(2 / acos(-1))));
    return end_gelu(w, onnx_write_step(w, "Tanh", y));
}

/* One op is three operators: f[0] (exp(f[2] x) - 1) below, f[1] x above. */
bool onnx_out_elu(onnx_writer *w, const char *op)
{
    const double *f = w->node->f;
    bool celu = f[1] == 1 && f[2] != 1 && fabs(f[0] * f[2] - 1) < 1e-7;
    if (f[2] != 1 && !celu)
        return false;
    op = celu ? "Celu" : f[1] == 1 ? "Elu" : "Selu";
    onnx_line line = onnx_line_like(w, op);
    onnx_line_real(&line, "alpha", f[0] / f[1]);
    if (f[1] != 1)
        onnx_line_real(&line, "gamma", f[1]);
    onnx_write_line(w, &line);
    return true;
}

bool onnx_out_parameters(onnx_writer *w, const char *op)
{
    const double *f = w->node->f;
    ir_op_kind kind = w->node->op;
    onnx_line line = onnx_line_like(w, op);
    onnx_line_real(&line, kind == IR_OP_shrink ? "lambd" : "alpha", f[0]);
    if (kind == IR_OP_shrink)
        onnx_line_real(&line, "bias", f[1]);
    if (kind == IR_OP_hard_sigmoid)
        onnx_line_real(&line, "beta", f[1]);
    onnx_write_line(w, &line);
    return true;
}

bool onnx_out_clip(onnx_writer *w, const char *op)
{
    onnx_line line = onnx_line_like(w, op);
    for (int32_t k = 0; k < 2; k++)
        line.in[line.n_in++] = number(w, w->node->f[k]);
    onnx_write_line(w, &line);
    return true;
}

/* ---- products ---- */

/* The last two axes swapped. */
static const char *turn(onnx_writer *w, const char *x, int32_t rank)
{
    int64_t perm[IR_MAX_RANK];
    for (int32_t i = 0; i < rank; i++)
        perm[i] = i;
    perm[rank - 1] = rank - 2;
    perm[rank - 2] = rank - 1;
    onnx_line line = onnx_line_step(w, "Transpose", x);
    onnx_line_ints(&line, "perm", rank, perm);
    return onnx_write_line(w, &line);
}

bool onnx_out_matmul(onnx_writer *w, const char *op)
{
    const char *x[2];
    const int64_t *i = w->node->i;
    int32_t rank[2];
    for (int32_t k = 0; k < 2; k++) {
        x[k] = input(w, k);
        rank[k] = onnx_in_tensor(w, k)->shape.rank;
    }
    const bool biased = w->node->n_in > 2;
    if (rank[0] == 2 && rank[1] == 2 && (i[0] || i[1] || biased)) {
        onnx_line line = onnx_line_like(w, "Gemm");
        onnx_line_int(&line, "transA", i[0] != 0);
        onnx_line_int(&line, "transB", i[1] != 0);
        onnx_write_line(w, &line);
        return true;
    }
    for (int32_t k = 0; k < 2; k++)
        if (i[k])
            x[k] = turn(w, x[k], rank[k]);
    if (biased)
        return end_pair(w, "Add", onnx_write_pair(w, op, x[0], x[1]),
                        input(w, 2));
    return end_pair(w, op, x[0], x[1]);
}

/* Input i as rows: (all leading axes, the last). */
static const char *as_rows(onnx_writer *w, int32_t i)
{
    const ir_shape *shape = &onnx_in_tensor(w, i)->shape;
    int64_t last = shape->rank ? shape->dim[shape->rank - 1] : 1;
    int64_t dim[] = {ir_shape_count(shape) / last, last};
    if (shape->rank == 2)
        return input(w, i);
    return onnx_write_pair(w, "Reshape", input(w, i), onnx_put_ints(w, 2, dim));
}

bool onnx_out_weight_grad(onnx_writer *w, const char *op)
{
    const char *a = turn(w, as_rows(w, 0), 2);
    return end_pair(w, op, a, as_rows(w, 1));
}

/* ---- sums ---- */

static int32_t list_axes(int64_t mask, int64_t out[IR_MAX_RANK])
{
    int32_t n = 0;
    for (int32_t i = 0; i < IR_MAX_RANK; i++)
        if (mask >> i & 1)
            out[n++] = i;
    return n;
}

/* Without axes nothing is summed: said by an operator that does nothing, for
 * no axes at all mean every one. */
bool onnx_out_reduce_sum(onnx_writer *w, const char *op)
{
    int64_t axes[IR_MAX_RANK];
    int32_t n = list_axes(w->node->i[0], axes);
    if (n == 0)
        return onnx_out_same(w, "Identity");
    onnx_line line = onnx_line_like(w, op);
    line.in[line.n_in++] = onnx_put_ints(w, n, axes);
    onnx_line_int(&line, "keepdims", w->node->i[1]);
    onnx_write_line(w, &line);
    return true;
}

/* Axes are an attribute up to opset 17, an input since. */
bool onnx_out_reduce(onnx_writer *w, const char *op)
{
    int64_t axes[IR_MAX_RANK];
    int32_t n = list_axes(w->node->i[0], axes);
    if (n == 0)
        return onnx_out_same(w, "Identity");
    if (w->opset >= 18)
        return onnx_out_reduce_sum(w, op);
    onnx_line line = onnx_line_like(w, op);
    onnx_line_ints(&line, "axes", n, axes);
    onnx_line_int(&line, "keepdims", w->node->i[1]);
    onnx_write_line(w, &line);
    return true;
}

/* One that lets no gradient through is told from one that does. */
bool onnx_out_largest(onnx_writer *w, const char *op)
{
    return !w->node->i[2] && onnx_out_reduce(w, op);
}

bool onnx_out_sum_squares(onnx_writer *w, const char *op)
{
    onnx_line line = onnx_line_like(w, op);
    onnx_line_int(&line, "keepdims", 0);
    onnx_write_line(w, &line);
    return true;
}

bool onnx_out_arg_max(onnx_writer *w, const char *op)
{
    const int64_t *i = w->node->i;
    onnx_line line = onnx_line_like(w, i[3] ? "ArgMin" : op);
    onnx_line_int(&line, "axis", i[0]);
    onnx_line_int(&line, "keepdims", i[1]);
    onnx_line_int(&line, "select_last_index", i[2]);
    onnx_write_line(w, &line);
    return true;
}

bool onnx_out_top_k(onnx_writer *w, const char *op)
{
    const int64_t *i = w->node->i;
    onnx_line line = onnx_line_like(w, op);
    line.in[line.n_in++] = onnx_put_ints(w, 1, &i[1]);
    onnx_line_int(&line, "axis", i[0]);
    onnx_line_int(&line, "largest", i[2]);
    onnx_write_line(w, &line);
    return true;
}

bool onnx_out_cum_sum(onnx_writer *w, const char *op)
{
    const int64_t *i = w->node->i;
    onnx_line line = onnx_line_like(w, op);
    line.in[line.n_in++] = onnx_put_ints(w, -1, &i[0]);
    onnx_line_int(&line, "exclusive", i[1]);
    onnx_line_int(&line, "reverse", i[2]);
    onnx_write_line(w, &line);
    return true;
}

bool onnx_out_rows(onnx_writer *w, const char *op)
{
    onnx_line line = onnx_line_like(w, op);
    onnx_line_int(&line, "axis", -1);
    onnx_write_line(w, &line);
    return true;
}

/* ---- norms, losses ---- */

/* x / sqrt(mean(x^2) + epsilon), times the gain. */
static bool write_rms_norm(onnx_writer *w)
{
    int64_t last = -1;
    const char *x = input(w, 0);
    if (onnx_out_read(w, 1) || onnx_out_read(w, 2) || w->node->n_in > 2)
        return false;
    onnx_line mean =
        onnx_line_step(w, "ReduceMean", onnx_write_pair(w, "Mul", x, x));
    if (w->opset >= 18)
        mean.in[mean.n_in++] = onnx_put_ints(w, 1, &last);
    else
        onnx_line_ints(&mean, "axes", 1, &last);
    const char *y = onnx_write_line(w, &mean);
    y = onnx_write_pair(w, "Add", y, number(w, w->node->f[0]));
    y = onnx_write_step(w, "Sqrt", y);
    if (w->node->n_in < 2)
        return end_pair(w, "Div", x, y);
    return end_pair(w, "Mul", onnx_write_pair(w, "Div", x, y), input(w, 1));
}

/* The operator wants a gain. */
static const char *gain_of_ones(onnx_writer *w)
{
    const ir_tensor *x = onnx_in_tensor(w, 0);
    return onnx_write_pair(
        w, "Expand", number(w, 1),
        onnx_put_ints(w, 1, &x->shape.dim[x->shape.rank - 1]));
}

bool onnx_out_layer_norm(onnx_writer *w, const char *op)
{
    if (w->node->i[0])
        return write_rms_norm(w);
    if (w->node->n_in < 2 && onnx_in_tensor(w, 0)->shape.rank < 1)
        return false;
    onnx_line line = onnx_line_like(w, op);
    if (line.n_in < 2)
        line.in[line.n_in++] = gain_of_ones(w);
    for (int32_t k = 2; k > 0 && !onnx_out_read(w, k); k--)
        line.n_out = k;
    onnx_line_int(&line, "axis", -1);
    onnx_line_real(&line, "epsilon", w->node->f[0]);
    onnx_write_line(w, &line);
    return true;
}

/* By moments of its own input it is part of a layer that trains: as an operator
 * of its own it would lose the way of its gradient. */
bool onnx_out_batch_norm(onnx_writer *w, const char *op)
{
    if (w->node->i[0])
        return false;
    onnx_line line = onnx_line_like(w, op);
    onnx_line_real(&line, "epsilon", w->node->f[0]);
    onnx_write_line(w, &line);
    return true;
}

/* Rows (N, V) and labels (N); the probabilities apart. */
bool onnx_out_cross_entropy(onnx_writer *w, const char *op)
{
    int64_t count = ir_shape_count(&onnx_in_tensor(w, 1)->shape);
    bool mean = fabs(w->node->f[0] * (double)count - 1) < 1e-9;
    bool scaled = !mean && w->node->f[0] != 1;
    onnx_line line = onnx_line_like(w, op);
    line.n_out = 1;
    if (scaled)
        line.out[0] = onnx_new_name(w, "sum");
    line.in[0] = as_rows(w, 0);
    if (onnx_in_tensor(w, 1)->shape.rank != 1)
        line.in[1] = onnx_write_pair(w, "Reshape", line.in[1],
                                     onnx_put_ints(w, 1, &count));
    onnx_line_text(&line, "reduction", mean ? "mean" : "sum");
    onnx_write_line(w, &line);
    if (scaled)
        end_pair(w, "Mul", line.out[0], number(w, w->node->f[0]));
    if (!onnx_out_read(w, 1))
        return true;
    onnx_line prob = onnx_line_like(w, "Softmax");
    prob.n_in = prob.n_out = 1;
    prob.out[0] = w->name[w->node->out[1]];
    onnx_line_int(&prob, "axis", -1);
    onnx_write_line(w, &prob);
    return true;
}
