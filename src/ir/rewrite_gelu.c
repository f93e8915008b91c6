/* GELU as exporters write it out: with erf, or its approximation by tanh. */
#include "config.h"
#include "ir/rewrite_match.h"

#include <math.h>

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
    ir_affine a;
    const ir_node *node = ir_producer(g, tensor);
    if (p->steps++ == PRODUCT_STEPS)
        return false;
    if (ir_match_affine(g, tensor, &a) && a.offset == 0) {
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

/* Is `tensor` 1 + erf(x / sqrt 2), or 1 + tanh(sqrt(2 / pi) (x + 0.044715
 * x^3))? Sets the op that it is the gate of. */
static bool match_gate(const ir_graph *g, int32_t tensor, int32_t x,
                       ir_op_kind *out)
{
    static const double pi = 3.14159265358979323846;
    ir_affine one;
    double c[IR_DEGREE + 1];
    if (!ir_match_affine(g, tensor, &one) || one.factor != 1 || one.offset != 1)
        return false;
    const ir_node *inner = ir_producer(g, one.x);
    const bool erf_form = inner->op == IR_OP_erf;
    if ((!erf_form && inner->op != IR_OP_tanh) ||
        !ir_match_polynomial(g, inner->in[0], x, c) || c[0] != 0 || c[2] != 0)
        return false;
    *out = erf_form ? IR_OP_gelu : IR_OP_gelu_tanh;
    if (erf_form)
        return ir_nearly(c[1], sqrt(0.5)) && c[3] == 0;
    return ir_nearly(c[1], sqrt(2 / pi)) && ir_nearly(c[3], 0.044715 * c[1]);
}

void ir_rewrite_gelu(ir_graph *g, int32_t v)
{
    const ir_node *node = &g->nodes.at[v];
    product p = {.constant = 1};
    if ((node->op != IR_OP_mul && node->op != IR_OP_scale &&
         node->op != IR_OP_div) ||
        !match_product(g, node->out[0], &p) || p.n != 2 ||
        !ir_nearly(p.constant, 0.5))
        return;
    for (int32_t k = 0; k < 2; k++) {
        ir_node gelu = {.n_in = 1, .in = {p.factor[k]}};
        if (match_gate(g, p.factor[1 - k], p.factor[k], &gelu.op) &&
            ir_graph_replace(g, v, &gelu))
            return;
    }
}
