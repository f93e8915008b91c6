/* The training domain: optimizers as forward operators, composed, and Gradient
 * by the graph's own reverse mode. */
#include "config.h"
#include "onnx/operators.h"
#include "onnx/scope.h"

#include "ir/train.h"

#include <string.h>

/* Inputs R, T, then n of each kind: X, G and what the optimizer keeps. */
typedef struct step {
    onnx_ctx *c;
    ir_graph *g;
    int32_t n, n_kinds;
    int32_t rate, count; /* R; T as R's type */
} step;

static fs_status open_step(onnx_ctx *c, int32_t n_kinds, step *out)
{
    int32_t n = c->node->in.n - 2;
    if (n < n_kinds || n % n_kinds != 0)
        return onnx_fail(c, "%d inputs are no R, T and %d of each tensor",
                         c->node->in.n, n_kinds);
    *out = (step){c, c->graph, n / n_kinds, n_kinds, onnx_in(c, 0), -1};
    if (out->rate < 0)
        return FS_INVALID;
    out->count =
        ir_cast(c->graph, onnx_in(c, 1), c->graph->tensors.at[out->rate].dtype);
    return out->count >= 0 ? FS_OK : FS_INVALID;
}

static int32_t input(const step *s, int32_t kind, int32_t i)
{
    return onnx_in(s->c, 2 + kind * s->n + i);
}

static double real(const step *s, const char *name, double usual)
{
    return onnx_attr_real(s->c, name, usual);
}

static int32_t plus(const step *s, int32_t a, int32_t b)
{
    return ir_binary(s->g, IR_OP_add, a, b);
}

static int32_t times(const step *s, int32_t a, int32_t b)
{
    return ir_binary(s->g, IR_OP_mul, a, b);
}

static int32_t minus(const step *s, int32_t a, int32_t b)
{
    return ir_binary(s->g, IR_OP_sub, a, b);
}

static int32_t over(const step *s, int32_t a, int32_t b)
{
    return ir_binary(s->g, IR_OP_div, a, b);
}

static int32_t scaled(const step *s, int32_t x, double factor)
{
    return factor == 1 ? x : ir_scale(s->g, x, factor, 0);
}

/* norm_coefficient X + G. */
static int32_t regularised(const step *s, int32_t i)
{
    double decay = real(s, "norm_coefficient", 0);
    int32_t gradient = input(s, 1, i);
    return decay == 0 ? gradient
                      : plus(s, scaled(s, input(s, 0, i), decay), gradient);
}

/* T > 0 ? a : b, both of T's shape. */
static int32_t if_counted(const step *s, int32_t a, int32_t b)
{
    int32_t zero = scaled(s, s->count, 0);
    return ir_where(s->g, ir_binary(s->g, IR_OP_less, zero, s->count), a, b);
}

static fs_status set(const step *s, int32_t kind, int32_t i, int32_t tensor)
{
    return onnx_set(s->c, kind * s->n + i, tensor);
}

fs_status onnx_import_adagrad(onnx_ctx *c)
{
    step s;
    FS_TRY(open_step(c, 3, &s));
    int32_t slower = ir_scale(s.g, s.count, real(&s, "decay_factor", 0), 1);
    int32_t rate = over(&s, s.rate, slower);
    for (int32_t i = 0; i < s.n; i++) {
        int32_t g = regularised(&s, i);
        int32_t h = plus(&s, input(&s, 2, i), times(&s, g, g));
        int32_t root = ir_scale(s.g, ir_unary(s.g, IR_OP_sqrt, h), 1,
                                real(&s, "epsilon", 1e-6));
        int32_t move = over(&s, times(&s, rate, g), root);
        FS_TRY(set(&s, 0, i, minus(&s, input(&s, 0, i), move)));
        FS_TRY(set(&s, 1, i, h));
    }
    return FS_OK;
}

/* 1 - factor^T. */
static int32_t correction(const step *s, double factor)
{
    int32_t base = ir_scale(s->g, s->count, 0, factor);
    return ir_scale(s->g, ir_binary(s->g, IR_OP_pow, base, s->count), -1, 1);
}

fs_status onnx_import_adam(onnx_ctx *c)
{
    step s;
    FS_TRY(open_step(c, 4, &s));
    double alpha = real(&s, "alpha", 0.9), beta = real(&s, "beta", 0.999);
    double after = 1 - real(&s, "norm_coefficient_post", 0);
    int32_t root = ir_unary(s.g, IR_OP_sqrt, correction(&s, beta));
    int32_t rate = if_counted(
        &s, over(&s, times(&s, s.rate, root), correction(&s, alpha)), s.rate);
    for (int32_t i = 0; i < s.n; i++) {
        int32_t g = regularised(&s, i);
        int32_t v = plus(&s, scaled(&s, input(&s, 2, i), alpha),
                         scaled(&s, g, 1 - alpha));
        int32_t h = plus(&s, scaled(&s, input(&s, 3, i), beta),
                         scaled(&s, times(&s, g, g), 1 - beta));
        int32_t size = ir_scale(s.g, ir_unary(s.g, IR_OP_sqrt, h), 1,
                                real(&s, "epsilon", 1e-6));
        int32_t move = over(&s, times(&s, rate, v), size);
        int32_t x = minus(&s, input(&s, 0, i), move);
        FS_TRY(set(&s, 0, i, scaled(&s, x, after)));
        FS_TRY(set(&s, 1, i, v));
        FS_TRY(set(&s, 2, i, h));
    }
    return FS_OK;
}

fs_status onnx_import_momentum(onnx_ctx *c)
{
    step s;
    FS_TRY(open_step(c, 3, &s));
    double alpha = real(&s, "alpha", 0), beta = real(&s, "beta", 1);
    bool nesterov =
        strcmp(onnx_attr_text(c, "mode", "standard"), "nesterov") == 0;
    for (int32_t i = 0; i < s.n; i++) {
        int32_t g = regularised(&s, i), share = g;
        if (beta != 1) /* the first gradient counts in full */
            share = times(&s, g,
                          if_counted(&s, ir_scale(s.g, s.count, 0, beta),
                                     ir_scale(s.g, s.count, 0, 1)));
        int32_t v = plus(&s, scaled(&s, input(&s, 2, i), alpha), share);
        int32_t way = nesterov ? plus(&s, g, scaled(&s, v, alpha)) : v;
        FS_TRY(
            set(&s, 0, i, minus(&s, input(&s, 0, i), times(&s, s.rate, way))));
        FS_TRY(set(&s, 1, i, v));
    }
    return FS_OK;
}

/* ---- Gradient ---- */

/* The tensor that attribute names say; the node's inputs must be these. */
static fs_status named_tensor(onnx_ctx *c, const char *name, int32_t *out)
{
    int32_t id = name ? onnx_find(c, name) : -1;
    if (id < 0 || c->values.at[id].refused || c->values.at[id].sequence)
        return onnx_fail(c, "\"%.80s\" is made by no earlier node",
                         name ? name : "");
    *out = onnx_tensor_of(c, &c->values.at[id]);
    return *out >= 0 ? FS_OK : FS_INVALID;
}

static fs_status get_xs(onnx_ctx *c, int32_t *n, int32_t **out)
{
    const onnx_attr *xs = onnx_attr_find(c, "xs");
    *n = xs ? xs->strings.n : 0;
    if (*n < 1 || *n > c->node->in.n || c->node->out.n > *n)
        return onnx_fail(c, "%d inputs and %d outputs for %d names",
                         c->node->in.n, c->node->out.n, *n);
    *out = fs_new(c->arena, int32_t, *n);
    for (int32_t i = 0; i < *n; i++) {
        const char *name = xs->strings.at[i];
        FS_TRY(named_tensor(c, name, &(*out)[i]));
        if (!name || strcmp(name, c->node->in.at[i]) != 0)
            return onnx_fail(c, "its inputs are not those that xs names, "
                                "which is not supported");
    }
    return FS_OK;
}

/* In the graph it is a computation like any other, not a training step's
 * backward pass. */
static void make_forward(ir_graph *g, int32_t first)
{
    for (int32_t i = first; i < g->nodes.n; i++) {
        g->nodes.at[i].phase = IR_FORWARD;
        g->nodes.at[i].forward = -1;
    }
}

fs_status onnx_import_gradient(onnx_ctx *c)
{
    ir_graph *g = c->graph;
    int32_t n, *xs = NULL, y = -1, first = g->nodes.n;
    FS_TRY(get_xs(c, &n, &xs));
    FS_TRY(named_tensor(c, onnx_attr_text(c, "y", ""), &y));
    int32_t *dxs = fs_new(c->arena, int32_t, n);
    ir_derivative of = {.loss = y, .seed = 1, .n = n, .wrt = xs};
    FS_TRY(ir_backward(g, &of, c->err, dxs));
    make_forward(g, first);
    for (int32_t i = 0; i < n; i++) {
        int32_t dx = dxs[i];
        if (dx < 0) { /* y does not depend on it */
            dx = ir_cast(g, ir_fill(g, ir_shape_of(g, xs[i]), 0),
                         g->tensors.at[xs[i]].dtype);
        }
        FS_TRY(onnx_set(c, i, dx));
    }
    return FS_OK;
}
