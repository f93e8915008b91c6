#include "config.h"
#include "ir/samples.h"

#include "ir/element.h"
#include "ir/op.h"

#include <math.h>

typedef struct degrees {
    const ir_graph *whole, *part;
    double unit;  /* log of the number of parts */
    double *of;   /* [tensor]; NAN: cannot be told */
    bool *varies; /* [tensor]: with the samples' values */
    bool *mixes;  /* [tensor]: holds a quotient of sums over samples */
} degrees;

static bool is_sum(const degrees *d, int32_t t)
{
    return d->varies[t] && fabs(d->of[t]) > 1e-6;
}

/* Two sums over the samples that cancel each other's growth: no mean of what
 * the micro-batches give. */
static bool is_quotient(const degrees *d, const ir_node *w)
{
    if (w->op == IR_OP_div)
        return is_sum(d, w->in[1]);
    return w->op == IR_OP_mul && is_sum(d, w->in[0]) && is_sum(d, w->in[1]) &&
           d->of[w->in[0]] * d->of[w->in[1]] < 0;
}

static void follow_values(degrees *d, const ir_node *w)
{
    bool varies = w->op == IR_OP_input, mixes = false;
    for (int32_t k = 0; k < w->n_in; k++) {
        varies = varies || d->varies[w->in[k]];
        mixes = mixes || d->mixes[w->in[k]];
    }
    mixes = mixes || is_quotient(d, w);
    for (int32_t k = 0; k < w->n_out; k++) {
        d->varies[w->out[k]] = varies;
        d->mixes[w->out[k]] = mixes;
    }
}

/* Of a number that is `whole` in one graph, `part` in the other. */
static double of_ratio(const degrees *d, double whole, double part)
{
    if (whole == part)
        return 0;
    double ratio = whole / part;
    return ratio > 0 ? log(ratio) / d->unit : NAN;
}

/* Of the terms that output 0 adds up, as its signatures tell: an axis that
 * differs between the graphs and whose cut makes output 0 partial. */
static double of_terms(const degrees *d, const ir_node *w, const ir_node *p)
{
    fs_arena *scratch = fs_arena_create();
    ir_sig_list list;
    double terms = 0;
    ir_signatures_1d(d->whole, w, scratch, &list);
    for (int32_t s = 0; s < list.n && terms == 0; s++)
        for (int32_t k = 0; k < w->n_in && terms == 0; k++) {
            ir_sbp in = list.at[s].in[k];
            if (in.kind != IR_S || list.at[s].out[0].kind != IR_PSUM)
                continue;
            terms = of_ratio(
                d, (double)d->whole->tensors.at[w->in[k]].shape.dim[in.axis],
                (double)d->part->tensors.at[p->in[k]].shape.dim[in.axis]);
        }
    fs_arena_destroy(scratch);
    return terms;
}

static double of_constant(const degrees *d, const ir_node *w, const ir_node *p)
{
    const ir_tensor *whole = &d->whole->tensors.at[w->out[0]];
    const ir_tensor *part = &d->part->tensors.at[p->out[0]];
    if (!whole->data || !part->data || ir_shape_count(&whole->shape) != 1 ||
        ir_shape_count(&part->shape) != 1)
        return 0;
    return of_ratio(d, ir_element_real(whole->dtype, whole->data, 0),
                    ir_element_real(part->dtype, part->data, 0));
}

static bool same_numbers(const ir_node *w, const ir_node *p)
{
    for (int32_t k = 0; k < IR_MAX_REAL; k++)
        if (w->f[k] != p->f[k])
            return false;
    return true;
}

/* All inputs (from `first` on) have one degree, which is the result. */
static double of_equals(const degrees *d, const ir_node *w, int32_t first)
{
    double degree = d->of[w->in[first]];
    for (int32_t k = first + 1; k < w->n_in; k++)
        if (fabs(d->of[w->in[k]] - degree) > 1e-6)
            return NAN;
    return degree;
}

/* 0 when all inputs have degree 0. */
static double of_inputs(const degrees *d, const ir_node *w)
{
    for (int32_t k = 0; k < w->n_in; k++)
        if (!(fabs(d->of[w->in[k]]) < 1e-6))
            return NAN;
    return 0;
}

/* What is no power of its inputs wants them of degree 0. */
static double of_any(const degrees *d, const ir_node *w, const ir_node *p)
{
    return same_numbers(w, p) ? of_inputs(d, w) + of_terms(d, w, p) : NAN;
}

/* Is an axis that differs between the graphs multiplied or summed up? */
static bool goes_along_samples(const degrees *d, const ir_node *w,
                               const ir_node *p)
{
    const ir_shape *whole = &d->whole->tensors.at[w->in[0]].shape;
    const ir_shape *part = &d->part->tensors.at[p->in[0]].shape;
    int64_t axes = w->op == IR_OP_cum_sum ? (int64_t)1 << w->i[0] : w->i[0];
    for (int32_t i = 0; i < whole->rank; i++)
        if (axes >> i & 1 && whole->dim[i] != part->dim[i])
            return true;
    return false;
}

/* A bias must grow as the product does. */
static double of_product(const degrees *d, const ir_node *w, const ir_node *p)
{
    double degree = d->of[w->in[0]] + d->of[w->in[1]] + of_terms(d, w, p);
    if (w->n_in > 2 && fabs(d->of[w->in[2]] - degree) > 1e-6)
        return NAN;
    return degree;
}

static double of_node(const degrees *d, const ir_node *w, const ir_node *p)
{
    switch (w->op) {
    case IR_OP_constant:
        return of_constant(d, w, p);
    case IR_OP_reduce_sum:
        return d->of[w->in[0]] + of_terms(d, w, p);
    case IR_OP_reduce_prod:
    case IR_OP_cum_sum:
        return goes_along_samples(d, w, p) ? NAN : of_any(d, w, p);
    case IR_OP_matmul:
        return of_product(d, w, p);
    case IR_OP_mul:
        return d->of[w->in[0]] + d->of[w->in[1]];
    case IR_OP_div:
        return d->of[w->in[0]] - d->of[w->in[1]];
    case IR_OP_power:
        return same_numbers(w, p) ? w->f[0] * d->of[w->in[0]] : NAN;
    case IR_OP_sqrt:
        return d->of[w->in[0]] / 2;
    case IR_OP_scale:
        return w->f[1] == 0 && p->f[1] == 0
                   ? d->of[w->in[0]] + of_ratio(d, w->f[0], p->f[0])
                   : of_any(d, w, p);
    case IR_OP_cross_entropy: /* f[0] times a sum over rows */
        return of_inputs(d, w) + of_ratio(d, w->f[0], p->f[0]) +
               of_terms(d, w, p);
    case IR_OP_add:
    case IR_OP_sub:
    case IR_OP_concat:
        return of_equals(d, w, 0);
    case IR_OP_where:
        return of_equals(d, w, 1);
    default:
        break;
    }
    ir_op_class op_class = ir_op_class_of(w->op);
    if (w->n_in == 1 && (op_class == IR_CLASS_VIEW ||
                         op_class == IR_CLASS_COPY || w->op == IR_OP_cast))
        return d->of[w->in[0]];
    return of_any(d, w, p);
}

static fs_status follow(degrees *d, fs_err *err)
{
    for (int32_t v = 0; v < d->whole->nodes.n; v++) {
        const ir_node *w = &d->whole->nodes.at[v];
        const ir_node *p = &d->part->nodes.at[v];
        if (w->op != p->op || w->n_in != p->n_in || w->n_out != p->n_out)
            return fs_fail(err, FS_NO,
                           "%s: with another batch its graph is another one "
                           "(node %s): it cannot be told whether its loss is a "
                           "mean over samples or a sum; use 1 micro-batch",
                           d->whole->name, w->name);
        double degree = of_node(d, w, p);
        for (int32_t k = 0; k < w->n_out; k++)
            d->of[w->out[k]] = degree;
        follow_values(d, w);
    }
    return FS_OK;
}

/* Does a parameter decide the value? */
static bool depends_on_params(const ir_graph *g, int32_t tensor)
{
    fs_arena *scratch = fs_arena_create();
    bool *wanted = fs_new(scratch, bool, g->tensors.n), found = false;
    wanted[tensor] = true;
    for (int32_t v = g->nodes.n - 1; v >= 0; v--) {
        const ir_node *node = &g->nodes.at[v];
        bool any = false;
        for (int32_t k = 0; k < node->n_out; k++)
            any = any || wanted[node->out[k]];
        for (int32_t k = 0; any && k < node->n_in; k++)
            wanted[node->in[k]] = true;
        found = found || (any && node->n_out > 0 &&
                          g->tensors.at[node->out[0]].role == IR_PARAM);
    }
    fs_arena_destroy(scratch);
    return found;
}

bool ir_loss_quotient(const ir_graph *graph, ir_quotient *out)
{
    int32_t at = graph->loss;
    double factor = 1;
    for (;;) {
        const ir_node *node = &graph->nodes.at[graph->tensors.at[at].producer];
        if (node->op == IR_OP_div) {
            *out = (ir_quotient){node->in[0], node->in[1], factor};
            break;
        }
        if (node->op != IR_OP_identity &&
            (node->op != IR_OP_scale || node->f[1] != 0))
            return false;
        if (node->op == IR_OP_scale)
            factor *= node->f[0];
        at = node->in[0];
    }
    return ir_shape_count(&graph->tensors.at[out->top].shape) == 1 &&
           ir_shape_count(&graph->tensors.at[out->bottom].shape) == 1 &&
           !depends_on_params(graph, out->bottom);
}

static bool is_one(double degree)
{
    return fabs(degree - 1) < 1e-6;
}

/* Of a loss that holds a quotient of sums: can it be put off to the step's
 * end? */
static fs_status take_quotient(const degrees *d, fs_err *err, ir_reduction *out)
{
    ir_quotient q;
    if (ir_loss_quotient(d->whole, &q) && !d->mixes[q.top] &&
        !d->mixes[q.bottom] && is_one(d->of[q.top]) &&
        is_one(d->of[q.bottom])) {
        *out = IR_LOSS_QUOTIENT;
        return FS_OK;
    }
    return fs_fail(err, FS_NO,
                   "%s: its loss holds a mean over what counts (labels that "
                   "are not ignored, weights) beside other terms: only the "
                   "whole batch knows its divisor; use 1 micro-batch",
                   d->whole->name);
}

fs_status ir_loss_reduction(const ir_graph *whole, const ir_graph *part,
                            int32_t times, fs_err *err, ir_reduction *out)
{
    *out = IR_LOSS_MEAN;
    if (times < 2 || whole->loss < 0)
        return FS_OK;
    if (whole->nodes.n != part->nodes.n)
        return fs_fail(err, FS_NO,
                       "%s: with another batch its graph has another number of "
                       "nodes: use 1 micro-batch",
                       whole->name);
    fs_arena *scratch = fs_arena_create();
    degrees d = {whole,
                 part,
                 log(times),
                 fs_new(scratch, double, whole->tensors.n),
                 fs_new(scratch, bool, whole->tensors.n),
                 fs_new(scratch, bool, whole->tensors.n)};
    fs_status status = follow(&d, err);
    double degree = d.of[whole->loss];
    const bool mixes = d.mixes[whole->loss] && !isnan(degree);
    if (status == FS_OK && mixes)
        status = take_quotient(&d, err, out);
    fs_arena_destroy(scratch);
    if (status != FS_OK || mixes || fabs(degree) < 1e-6)
        return status;
    *out = IR_LOSS_SUM;
    if (is_one(degree))
        return FS_OK;
    if (isnan(degree))
        return fs_fail(err, FS_NO,
                       "%s: its loss is neither a mean over samples nor a sum "
                       "over them (a mixture, or a function of one): the "
                       "losses of micro-batches do not make it up; use 1 "
                       "micro-batch",
                       whole->name);
    return fs_fail(err, FS_NO,
                   "%s: its loss grows as the number of samples to the power "
                   "of %.3g: the losses of micro-batches do not make it up; "
                   "use 1 micro-batch",
                   whole->name, degree);
}
