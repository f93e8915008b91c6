/* What the rules of rewriting recognise producers by. */
#include "config.h"
#include "ir/rewrite_match.h"

#include <math.h>
#include <string.h>

const ir_node *ir_producer(const ir_graph *g, int32_t tensor)
{
    return &g->nodes.at[g->tensors.at[tensor].producer];
}

bool ir_nearly(double a, double b)
{
    return fabs(a - b) <= 1e-6 * fabs(b);
}

bool ir_match_scalar(const ir_graph *g, int32_t tensor, double *out)
{
    const ir_tensor *t = &g->tensors.at[tensor];
    const ir_node *node = ir_producer(g, tensor);
    if (ir_shape_count(&t->shape) != 1)
        return false;
    if (node->op == IR_OP_fill) {
        *out = node->f[0];
        return true;
    }
    if (node->op != IR_OP_constant || !t->data ||
        (t->dtype != IR_F32 && t->dtype != IR_F64))
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

/* `c` is the constant operand, number `at` of `node`. */
static bool binary_affine(const ir_node *node, int32_t at, double c,
                          ir_affine *out)
{
    *out = (ir_affine){node->in[1 - at], 1, 0};
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

bool ir_match_affine(const ir_graph *g, int32_t tensor, ir_affine *out)
{
    const ir_node *node = ir_producer(g, tensor);
    double c = 0;
    if (node->op == IR_OP_scale) {
        *out = (ir_affine){node->in[0], node->f[0], node->f[1]};
        return true;
    }
    if (node->n_in != 2)
        return false;
    for (int32_t at = 0; at < 2; at++)
        if (ir_match_scalar(g, node->in[at], &c) &&
            binary_affine(node, at, c, out))
            return ir_shape_equal(&g->tensors.at[out->x].shape,
                                  &g->tensors.at[tensor].shape);
    return false;
}

/* ---- polynomials ---- */

/* Long chains (none is a polynomial that counts) are given up. */
enum { POLYNOMIAL_STEPS = 24 };

typedef struct polynomial {
    double c[IR_DEGREE + 1];
} polynomial;

static bool multiply(const polynomial *a, const polynomial *b, polynomial *out)
{
    polynomial y = {0};
    for (int32_t i = 0; i <= IR_DEGREE; i++)
        for (int32_t k = 0; k <= IR_DEGREE; k++) {
            if (i + k <= IR_DEGREE)
                y.c[i + k] += a->c[i] * b->c[k];
            else if (a->c[i] != 0 && b->c[k] != 0)
                return false;
        }
    *out = y;
    return true;
}

static void combine(const polynomial *a, const polynomial *b, double sign,
                    polynomial *out)
{
    for (int32_t i = 0; i <= IR_DEGREE; i++)
        out->c[i] = a->c[i] + sign * b->c[i];
}

static bool polynomial_of(const ir_graph *g, int32_t tensor, int32_t x,
                          int32_t *steps, polynomial *out);

static bool power_of(const ir_graph *g, const ir_node *node, int32_t x,
                     int32_t *steps, polynomial *out)
{
    polynomial base;
    const double exponent = node->f[0];
    if ((exponent != 2 && exponent != 3) ||
        !polynomial_of(g, node->in[0], x, steps, &base))
        return false;
    *out = base;
    for (int32_t n = 1; n < (int32_t)exponent; n++)
        if (!multiply(out, &base, out))
            return false;
    return true;
}

static bool polynomial_of(const ir_graph *g, int32_t tensor, int32_t x,
                          int32_t *steps, polynomial *out)
{
    const ir_node *node = ir_producer(g, tensor);
    polynomial a, b;
    ir_affine map;
    *out = (polynomial){{0, 1}};
    if (tensor == x)
        return true;
    if (++*steps > POLYNOMIAL_STEPS)
        return false;
    if (ir_match_affine(g, tensor, &map)) {
        if (!polynomial_of(g, map.x, x, steps, out))
            return false;
        for (int32_t i = 0; i <= IR_DEGREE; i++)
            out->c[i] *= map.factor;
        out->c[0] += map.offset;
        return true;
    }
    if (node->op == IR_OP_power)
        return power_of(g, node, x, steps, out);
    if ((node->op != IR_OP_add && node->op != IR_OP_sub &&
         node->op != IR_OP_mul) ||
        !polynomial_of(g, node->in[0], x, steps, &a) ||
        !polynomial_of(g, node->in[1], x, steps, &b))
        return false;
    if (node->op == IR_OP_mul)
        return multiply(&a, &b, out);
    combine(&a, &b, node->op == IR_OP_add ? 1 : -1, out);
    return true;
}

bool ir_match_polynomial(const ir_graph *g, int32_t tensor, int32_t x,
                         double out[IR_DEGREE + 1])
{
    polynomial found;
    int32_t steps = 0;
    if (!polynomial_of(g, tensor, x, &steps, &found))
        return false;
    memcpy(out, found.c, sizeof found.c);
    return true;
}
