/* A margin softmax in the place of a graph's logits: the last product becomes
 * cosines of features and class weights, both of length 1, and the label's is
 * made harder (ArcFace, CosFace; arXiv 1801.07698, eq. 4). In parts, so that a
 * large number of classes may be cut. */
#include "config.h"
#include "onnx/finish.h"

#include "ir/losses.h"
#include "ir/rewrite_match.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double *field_of(onnx_margin *m, const char *name, size_t n)
{
    static const char *const names[] = {"m1", "m2", "m3"};
    for (int i = 0; i < 3; i++)
        if (n == 2 && strncmp(name, names[i], n) == 0)
            return &m->margins[i];
    return n == 5 && strncmp(name, "scale", n) == 0 ? &m->scale : NULL;
}

static fs_status parse_item(const char *item, fs_err *err, onnx_margin *out)
{
    char *end = NULL;
    const char *equals = strchr(item, '=');
    double *field =
        equals ? field_of(out, item, (size_t)(equals - item)) : NULL;
    const double value = field ? strtod(equals + 1, &end) : 0;
    if (!field || end == equals + 1 || (*end && *end != ',') ||
        !isfinite(value))
        return fs_fail(err, FS_INVALID,
                       "margin: '%.40s' is none of m1=, m2=, m3= and "
                       "scale= with a number",
                       item);
    *field = value;
    return FS_OK;
}

bool onnx_is_margin(const char *loss)
{
    return strncmp(loss, "margin", 6) == 0 && (!loss[6] || loss[6] == ',');
}

fs_status onnx_margin_parse(const char *loss, fs_err *err, onnx_margin *out)
{
    *out = (onnx_margin){.margins = {1, 0.5, 0}, .scale = 64};
    for (const char *at = strchr(loss, ','); at; at = strchr(at + 1, ','))
        FS_TRY(parse_item(at + 1, err, out));
    if (out->scale > 0)
        return FS_OK;
    return fs_fail(err, FS_INVALID, "margin: scale=%g is not above 0",
                   out->scale);
}

/* The product that makes the logits, if there is one; `bias` is what it or a
 * sum after it adds, -1: nothing. */
static const ir_node *find_product(const ir_graph *g, int32_t output,
                                   int32_t *bias)
{
    const ir_node *node = ir_producer(g, output);
    *bias = -1;
    for (int32_t k = 0; node->op == IR_OP_add && k < 2; k++)
        if (ir_producer(g, node->in[k])->op == IR_OP_matmul &&
            g->tensors.at[node->in[1 - k]].shape.rank <= 1) {
            *bias = node->in[1 - k];
            return ir_producer(g, node->in[k]);
        }
    if (node->op == IR_OP_matmul && node->n_in > 2)
        *bias = node->in[2];
    return node->op == IR_OP_matmul ? node : NULL;
}

/* Operand k of a product, its vectors along the contracted axis of length 1. */
static int32_t of_length_one(ir_graph *g, const ir_node *product, int32_t k)
{
    const int32_t x = product->in[k], rank = ir_shape_of(g, x).rank;
    const bool last = (k == 0) != (product->i[k] != 0);
    return ir_normalise(g, x, rank < 0 ? 0 : last ? rank - 1 : rank - 2);
}

fs_status onnx_append_margin(onnx_ctx *c, int32_t output, int32_t labels)
{
    ir_graph *g = c->graph;
    onnx_margin m;
    int32_t bias;
    FS_TRY(onnx_margin_parse(c->options->loss, c->err, &m));
    const ir_node *at = find_product(g, output, &bias);
    if (!at)
        return onnx_fail(c, "a margin wants logits that a product of "
                            "features and class weights makes (with a bias at "
                            "most)");
    if (bias >= 0) /* it has no place among cosines */
        onnx_note(c, "--loss margin leaves the bias \"%.80s\" out",
                  g->tensors.at[bias].name);
    const ir_node product = *at;
    const int32_t cosines = ir_matmul(g, of_length_one(g, &product, 0),
                                      of_length_one(g, &product, 1),
                                      product.i[0] != 0, product.i[1] != 0);
    const ir_label_loss loss = {.labels = labels, .weights = -1};
    g->loss = ir_cross_entropy_parts(
        g, ir_margin_logits(g, cosines, labels, m.margins, m.scale), &loss);
    return FS_OK;
}
