/* Pattern matching on the producers of a tensor. A match turns the last node
 * of the pattern into the fused op where it stands, so that the order of nodes
 * stays topological and every tensor keeps its name. */
#include "config.h"
#include "ir/rewrite.h"

#include <math.h>
#include <string.h>

static const ir_node *producer(const ir_graph *g, int32_t tensor)
{
    return &g->nodes.at[g->tensors.at[tensor].producer];
}

/* Constants in files are rounded to f32. */
static bool nearly(double a, double b)
{
    return fabs(a - b) <= 1e-6 * fabs(b);
}

/* The value of a constant of one element. */
static bool scalar_value(const ir_graph *g, int32_t tensor, double *out)
{
    const ir_tensor *t = &g->tensors.at[tensor];
    const ir_node *node = producer(g, tensor);
    if (ir_shape_count(&t->shape) != 1)
        return false;
    if (node->op == IR_OP_fill) {
        *out = node->f[0];
        return true;
    }
    if (node->op != IR_OP_constant || !t->data || !ir_dtype_is_float(t->dtype))
        return false;
    /* Data borrowed from a file need not be aligned. */
    float single;
    if (t->dtype == IR_F64) {
        memcpy(out, t->data, sizeof *out);
    } else {
        memcpy(&single, t->data, sizeof single);
        *out = single;
    }
    return true;
}

/* ---- affine maps by constants ---- */

/* y = factor * x + offset. */
typedef struct affine {
    int32_t x;
    double factor, offset;
} affine;

/* `c` is the constant operand, number `at` of `node`. */
static bool binary_affine(const ir_node *node, int32_t at, double c,
                          affine *out)
{
    *out = (affine){node->in[1 - at], 1, 0};
    switch (node->op) {
    case IR_OP_add:
        out->offset = c;
        return true;
    case IR_OP_sub:
        out->factor = at == 1 ? 1 : -1;
        out->offset = at == 1 ? -c : c;
        return true;
    case IR_OP_mul:
        out->factor = c;
        return true;
    case IR_OP_div:
        out->factor = 1 / c;
        return at == 1 && c != 0;
    default:
        return false;
    }
}

/* Is the tensor an affine map of another one of the same shape? */
static bool match_affine(const ir_graph *g, int32_t tensor, affine *out)
{
    const ir_node *node = producer(g, tensor);
    double c = 0;
    if (node->op == IR_OP_scale) {
        *out = (affine){node->in[0], node->f[0], node->f[1]};
        return true;
    }
    if (node->n_in != 2)
        return false;
    for (int32_t at = 0; at < 2; at++)
        if (scalar_value(g, node->in[at], &c) &&
            binary_affine(node, at, c, out))
            return ir_shape_equal(&g->tensors.at[out->x].shape,
                                  &g->tensors.at[tensor].shape);
    return false;
}

static void rewrite_scale(ir_graph *g, int32_t v)
{
    affine outer, inner;
    const ir_node *node = &g->nodes.at[v];
    if (node->n_out != 1 || !match_affine(g, node->out[0], &outer))
        return;
    if (producer(g, outer.x)->op == IR_OP_scale) {
        match_affine(g, outer.x, &inner);
        outer.x = inner.x;
        outer.offset += outer.factor * inner.offset;
        outer.factor *= inner.factor;
    }
    ir_node scale = {.op = IR_OP_scale,
                     .n_in = 1,
                     .in = {outer.x},
                     .f = {outer.factor, outer.offset}};
    ir_graph_replace(g, v, &scale);
}

/* ---- gelu ---- */

/* A product: `constant` times the tensors factor[n]. Long chains (no gelu is
 * one) are given up after some steps. */
typedef struct product {
    double constant;
    int32_t n, steps;
    int32_t factor[2];
} product;

enum { PRODUCT_STEPS = 16 };

/* Multiplies `tensor` into *p, taking products apart; false when there are
 * more than two factors or too many steps. */
static bool match_product(const ir_graph *g, int32_t tensor, product *p)
{
    affine a;
    const ir_node *node = producer(g, tensor);
    if (p->steps++ == PRODUCT_STEPS)
        return false;
    if (match_affine(g, tensor, &a) && a.offset == 0) {
        p->constant *= a.factor;
        return match_product(g, a.x, p);
    }
    if (node->op == IR_OP_mul && p->n == 0)
        return match_product(g, node->in[0], p) &&
               match_product(g, node->in[1], p);
    if (p->n == 2)
        return false;
    p->factor[p->n++] = tensor;
    return true;
}

/* Is `tensor` 1 + erf(x / sqrt 2)? */
static bool match_gelu_gate(const ir_graph *g, int32_t tensor, int32_t x)
{
    affine one, root;
    if (!match_affine(g, tensor, &one) || one.factor != 1 || one.offset != 1)
        return false;
    const ir_node *erf_node = producer(g, one.x);
    return erf_node->op == IR_OP_erf &&
           match_affine(g, erf_node->in[0], &root) && root.offset == 0 &&
           root.x == x && nearly(root.factor, sqrt(0.5));
}

static void rewrite_gelu(ir_graph *g, int32_t v)
{
    const ir_node *node = &g->nodes.at[v];
    product p = {.constant = 1};
    if ((node->op != IR_OP_mul && node->op != IR_OP_scale &&
         node->op != IR_OP_div) ||
        !match_product(g, node->out[0], &p) || p.n != 2 ||
        !nearly(p.constant, 0.5))
        return;
    for (int32_t k = 0; k < 2; k++) {
        ir_node gelu = {.op = IR_OP_gelu, .n_in = 1, .in = {p.factor[k]}};
        if (match_gelu_gate(g, p.factor[1 - k], p.factor[k]) &&
            ir_graph_replace(g, v, &gelu))
            return;
    }
}

/* ---- layer norm ---- */

/* Is `tensor` the mean of *of along the last axis, kept with length 1? */
static bool match_mean(const ir_graph *g, int32_t tensor, int32_t *of)
{
    affine a;
    if (!match_affine(g, tensor, &a) || a.offset != 0)
        return false;
    const ir_node *sum = producer(g, a.x);
    if (sum->op != IR_OP_reduce_sum || !sum->i[1])
        return false;
    *of = sum->in[0];
    const ir_shape *shape = &g->tensors.at[*of].shape;
    int32_t last = shape->rank - 1;
    return sum->i[0] == (int64_t)1 << last &&
           nearly(a.factor, 1.0 / (double)shape->dim[last]);
}

/* Is `tensor` x - mean(x)? */
static bool match_centred(const ir_graph *g, int32_t tensor, int32_t *x)
{
    int32_t of;
    const ir_node *node = producer(g, tensor);
    if (node->op != IR_OP_sub || !match_mean(g, node->in[1], &of) ||
        of != node->in[0])
        return false;
    *x = of;
    return true;
}

static bool match_square(const ir_graph *g, int32_t tensor, int32_t *of)
{
    const ir_node *node = producer(g, tensor);
    *of = node->in[0];
    if (node->op == IR_OP_power)
        return node->f[0] == 2;
    return node->op == IR_OP_mul && node->in[0] == node->in[1];
}

static bool match_sqrt(const ir_graph *g, int32_t tensor, int32_t *of)
{
    const ir_node *node = producer(g, tensor);
    *of = node->in[0];
    return node->op == IR_OP_sqrt ||
           (node->op == IR_OP_power && node->f[0] == 0.5);
}

/* Is `tensor` sqrt(mean((x - mean x)^2) + eps)? */
static bool match_deviation(const ir_graph *g, int32_t tensor, int32_t x,
                            double *epsilon)
{
    int32_t radicand, squares, centred, of;
    affine a;
    if (!match_sqrt(g, tensor, &radicand) || !match_affine(g, radicand, &a) ||
        a.factor != 1 || a.offset <= 0)
        return false;
    *epsilon = a.offset;
    return match_mean(g, a.x, &squares) && match_square(g, squares, &centred) &&
           match_centred(g, centred, &of) && of == x;
}

/* Is operand `tensor` a vector to stretch over rows (gain, bias)? */
static bool is_vector(const ir_graph *g, int32_t tensor)
{
    return g->tensors.at[tensor].shape.rank == 1;
}

/* Takes op(rest, vector) apart, in either order. */
static bool match_with_vector(const ir_graph *g, int32_t tensor, ir_op_kind op,
                              int32_t *rest, int32_t *vector)
{
    const ir_node *node = producer(g, tensor);
    if (node->op != op)
        return false;
    int32_t at = is_vector(g, node->in[0]) ? 0 : 1;
    *vector = node->in[at];
    *rest = node->in[1 - at];
    return is_vector(g, *vector);
}

static void rewrite_layer_norm(ir_graph *g, int32_t v)
{
    int32_t scaled, normal, gain, bias, x;
    double epsilon;
    const ir_node *node = &g->nodes.at[v];
    if (node->op != IR_OP_add ||
        !match_with_vector(g, node->out[0], IR_OP_add, &scaled, &bias) ||
        !match_with_vector(g, scaled, IR_OP_mul, &normal, &gain))
        return;
    const ir_node *quotient = producer(g, normal);
    if (quotient->op != IR_OP_div || !match_centred(g, quotient->in[0], &x) ||
        !match_deviation(g, quotient->in[1], x, &epsilon))
        return;
    ir_node norm = {.op = IR_OP_layer_norm,
                    .n_in = 3,
                    .in = {x, gain, bias},
                    .f = {epsilon}};
    ir_graph_replace(g, v, &norm);
}

/* Is `tensor` 1 / sqrt(mean(x^2) + eps)? */
static bool match_inverse_rms(const ir_graph *g, int32_t tensor, int32_t x,
                              double *epsilon)
{
    int32_t radicand, squares, of;
    affine a;
    if (match_affine(g, tensor, &a) && a.factor == 1 && a.offset == 0)
        tensor = a.x;
    const ir_node *inverse = producer(g, tensor);
    if (inverse->op != IR_OP_power)
        return false;
    radicand = inverse->in[0];
    if (inverse->f[0] != -0.5 &&
        (inverse->f[0] != -1 || !match_sqrt(g, radicand, &radicand)))
        return false;
    if (!match_affine(g, radicand, &a) || a.factor != 1 || a.offset <= 0)
        return false;
    *epsilon = a.offset;
    return match_mean(g, a.x, &squares) && match_square(g, squares, &of) &&
           of == x;
}

/* x / sqrt(mean(x^2) + eps) * gain */
static void rewrite_rms_norm(ir_graph *g, int32_t v)
{
    int32_t normal, gain;
    const ir_node *node = &g->nodes.at[v];
    if (node->op != IR_OP_mul ||
        !match_with_vector(g, node->out[0], IR_OP_mul, &normal, &gain))
        return;
    const ir_node *factors = producer(g, normal);
    for (int32_t k = 0; factors->op == IR_OP_mul && k < 2; k++) {
        int32_t x = factors->in[k];
        ir_node norm = {
            .op = IR_OP_layer_norm, .n_in = 2, .in = {x, gain}, .i = {1}};
        if (match_inverse_rms(g, factors->in[1 - k], x, &norm.f[0]) &&
            ir_graph_replace(g, v, &norm))
            return;
    }
}

/* ---- transposes ---- */

static bool swaps_last_two(const ir_node *node)
{
    int64_t rank = node->i[0];
    if (node->op != IR_OP_transpose || rank < 2)
        return false;
    for (int64_t i = 0; i < rank - 2; i++)
        if (node->i[i + 1] != i)
            return false;
    return node->i[rank] == rank - 2; /* i[1 + last] */
}

static void rewrite_transpose(ir_graph *g, int32_t v)
{
    ir_node matmul = g->nodes.at[v];
    bool found = false;
    if (matmul.op != IR_OP_matmul)
        return;
    for (int32_t k = 0; k < 2; k++) {
        const ir_node *from = producer(g, matmul.in[k]);
        if (!swaps_last_two(from))
            continue;
        matmul.in[k] = from->in[0];
        matmul.i[k] = !matmul.i[k];
        found = true;
    }
    if (found)
        ir_graph_replace(g, v, &matmul);
}

/* ---- sums of pads ---- */

/* The pads under a tree of adds, by where they start. */
typedef struct pad_list {
    int32_t n;
    const ir_node *pad[IR_MAX_IN];
} pad_list;

static bool insert_pad(pad_list *list, const ir_node *pad)
{
    int32_t k = list->n;
    if (k == IR_MAX_IN || (k && pad->i[0] != list->pad[0]->i[0]))
        return false;
    for (; k > 0 && list->pad[k - 1]->i[1] > pad->i[1]; k--)
        list->pad[k] = list->pad[k - 1];
    list->pad[k] = pad;
    list->n++;
    return true;
}

/* False when anything but pads is added, or too many are. */
static bool collect_pads(const ir_graph *g, int32_t tensor, pad_list *list,
                         int32_t depth)
{
    const ir_node *node = producer(g, tensor);
    if (node->op == IR_OP_pad && (node->i[3] == 0 || node->i[3] == 1))
        return insert_pad(list, node);
    return node->op == IR_OP_add && depth < IR_MAX_IN &&
           collect_pads(g, node->in[0], list, depth + 1) &&
           collect_pads(g, node->in[1], list, depth + 1);
}

static void rewrite_pads(ir_graph *g, int32_t v)
{
    pad_list list = {0};
    const ir_node *node = &g->nodes.at[v];
    if (node->op != IR_OP_add || !collect_pads(g, node->out[0], &list, 0))
        return;
    int64_t axis = list.pad[0]->i[0], end = 0;
    ir_node concat = {.op = IR_OP_concat, .n_in = list.n, .i = {axis}};
    for (int32_t k = 0; k < list.n; k++) {
        if (list.pad[k]->i[1] != end)
            return;
        concat.in[k] = list.pad[k]->in[0];
        end += g->tensors.at[concat.in[k]].shape.dim[axis];
    }
    ir_graph_replace(g, v, &concat); /* unless there is a gap at the end */
}

typedef void rewrite_fn(ir_graph *g, int32_t v);

static void for_each_node(ir_graph *g, rewrite_fn *rewrite)
{
    for (int32_t v = 0; v < g->nodes.n && g->err.status == FS_OK; v++)
        rewrite(g, v);
}

ir_rewrite_options ir_rewrite_all(void)
{
    return (ir_rewrite_options){true, true, true, true, true, true};
}

void ir_rewrite(ir_graph *graph, const ir_rewrite_options *options)
{
    if (options->layer_norm)
        for_each_node(graph, rewrite_layer_norm);
    if (options->rms_norm)
        for_each_node(graph, rewrite_rms_norm);
    if (options->gelu)
        for_each_node(graph, rewrite_gelu);
    if (options->transpose)
        for_each_node(graph, rewrite_transpose);
    if (options->scale)
        for_each_node(graph, rewrite_scale);
    if (options->pads)
        for_each_node(graph, rewrite_pads);
    ir_graph_prune(graph);
}
