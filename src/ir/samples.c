#include "config.h"
#include "ir/samples.h"

#include "ir/element.h"
#include "ir/op.h"

#include <math.h>

typedef struct degrees {
    const ir_graph *whole, *part;
    double unit;     /* log of the number of parts */
    double *of;      /* [tensor]; NAN: cannot be told */
    bool *varies;    /* [tensor]: with the samples' values */
    bool *summed;    /* [tensor]: made of sums over samples alone */
    bool *statistic; /* [node]: of the samples that it is given */
    bool *mixes;     /* [tensor]: holds what is not linear in such sums */
} degrees;

/* Of a number that is `whole` in one graph, `part` in the other. */
static double of_ratio(const degrees *d, double whole, double part)
{
    if (whole == part)
        return 0;
    double ratio = whole / part;
    return ratio > 0 ? log(ratio) / d->unit : NAN;
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

static bool is_zero(double degree)
{
    return fabs(degree) < 1e-6;
}

/* Of the number that output 0 is proportional to; all others must be equal. */
static double of_factor(const degrees *d, const ir_node *w, const ir_node *p)
{
    const ir_op *op = ir_op_table[w->op];
    const int32_t at = op->factor ? op->factor(w) : -1;
    for (int32_t k = 0; k < IR_MAX_REAL; k++)
        if (k != at && w->f[k] != p->f[k])
            return NAN;
    return at < 0 ? 0 : of_ratio(d, w->f[at], p->f[at]);
}

static double of_axis(const degrees *d, const ir_node *w, const ir_node *p,
                      int32_t k, int32_t axis)
{
    return of_ratio(d, (double)d->whole->tensors.at[w->in[k]].shape.dim[axis],
                    (double)d->part->tensors.at[p->in[k]].shape.dim[axis]);
}

/* Of the terms that output 0 adds up: an axis that differs between the graphs
 * and whose cut makes output 0 partial. NAN: one that differs and cannot be
 * cut, so that samples are mixed in a way that nobody says. */
static double of_terms(const degrees *d, const ir_node *w, const ir_node *p,
                       const ir_sig_list *list)
{
    const ir_op_class op_class = ir_op_class_of(w->op);
    const bool moves = op_class == IR_CLASS_VIEW || op_class == IR_CLASS_COPY ||
                       op_class == IR_CLASS_GATHER;
    double terms = 0;
    for (int32_t k = 0; k < w->n_in; k++)
        for (int32_t i = 0; i < d->whole->tensors.at[w->in[k]].shape.rank;
             i++) {
            const double length = of_axis(d, w, p, k, i);
            bool cut = length == 0 || moves;
            for (int32_t s = 0; s < list->n && length != 0; s++) {
                const ir_sig *sig = &list->at[s];
                if (sig->in[k].kind != IR_S || sig->in[k].axis != i)
                    continue;
                cut = true;
                if (sig->out[0].kind == IR_PSUM && terms == 0)
                    terms = length;
            }
            if (!cut)
                return NAN;
        }
    return terms;
}

/* Inputs that a signature takes as partial sums together, the others whole:
 * output 0 is linear in them. A mask; 0: the signature says no such thing. */
static uint32_t linear_inputs(const ir_node *w, const ir_sig *sig)
{
    uint32_t mask = 0;
    for (int32_t k = 0; k < w->n_in; k++) {
        if (sig->in[k].kind == IR_PSUM)
            mask |= 1u << k;
        else if (sig->in[k].kind != IR_B)
            return 0;
    }
    return sig->out[0].kind == IR_PSUM ? mask : 0;
}

/* The degree that all of these inputs have. */
static double of_group(const degrees *d, const ir_node *w, uint32_t mask)
{
    const int32_t first = __builtin_ctz(mask);
    const double degree = d->of[w->in[first]];
    for (int32_t k = first + 1; k < w->n_in; k++)
        if (mask >> k & 1 && !is_zero(d->of[w->in[k]] - degree))
            return NAN;
    return degree;
}

/* Linear inputs count once each time that they are multiplied with others;
 * what is a power of an input counts by it; all else wants degree 0. */
static double of_inputs(const degrees *d, const ir_node *w,
                        const ir_sig_list *list)
{
    const ir_op *op = ir_op_table[w->op];
    uint32_t seen = 0;
    double degree = 0;
    for (int32_t s = 0; s < list->n; s++) {
        const uint32_t mask = linear_inputs(w, &list->at[s]);
        if (mask & ~seen)
            degree += of_group(d, w, mask);
        seen |= mask;
    }
    for (int32_t k = 0; k < w->n_in; k++) {
        if (seen >> k & 1)
            continue;
        if (op->power)
            degree += op->power(w, k) * d->of[w->in[k]];
        else if (!is_zero(d->of[w->in[k]]))
            return NAN;
    }
    return degree;
}

/* Where all that varies is a sum over samples, is the op linear in it? If not
 * (a quotient or a root of means) it is no mean of what micro-batches give. */
static bool mixes_sums(const degrees *d, const ir_node *w,
                       const ir_sig_list *list)
{
    uint32_t linear = 0;
    bool any = false;
    for (int32_t s = 0; s < list->n; s++)
        linear |= linear_inputs(w, &list->at[s]);
    for (int32_t k = 0; k < w->n_in; k++) {
        if (d->varies[w->in[k]] && !d->summed[w->in[k]])
            return false;
        any = any || (d->summed[w->in[k]] && !(linear >> k & 1));
    }
    return any;
}

/* Does it join a sum over samples to what else varies (a row, another sum), but
 * as terms of one sum? Each micro-batch has sums of its own. */
static bool takes_statistics(const degrees *d, const ir_node *w,
                             const ir_sig_list *list)
{
    int32_t sums = 0, varying = 0;
    for (int32_t k = 0; k < w->n_in; k++) {
        sums += d->summed[w->in[k]];
        varying += d->varies[w->in[k]];
    }
    if (sums == 0 || varying < 2)
        return false;
    for (int32_t s = 0; s < list->n && sums == varying; s++) {
        const uint32_t mask = linear_inputs(w, &list->at[s]);
        int32_t joined = 0;
        for (int32_t k = 0; k < w->n_in; k++)
            joined += mask >> k & 1 && d->varies[w->in[k]];
        if (joined == varying)
            return false;
    }
    return true;
}

static void follow_values(degrees *d, const ir_node *w, double terms,
                          const ir_sig_list *list)
{
    bool varies = w->op == IR_OP_input, summed = true;
    bool mixes = mixes_sums(d, w, list);
    for (int32_t k = 0; k < w->n_in; k++) {
        const int32_t t = w->in[k];
        varies = varies || d->varies[t];
        summed = summed && (!d->varies[t] || d->summed[t]);
        mixes = mixes || d->mixes[t];
    }
    for (int32_t k = 0; k < w->n_out; k++) {
        d->varies[w->out[k]] = varies;
        d->summed[w->out[k]] =
            varies && w->n_in > 0 && (summed || !is_zero(terms));
        d->mixes[w->out[k]] = mixes;
    }
    d->statistic[w - d->whole->nodes.at] =
        !mixes && takes_statistics(d, w, list);
}

/* The signatures are the op's own, of integers too, which no device sums up
 * but which count as well. */
static void follow_node(degrees *d, const ir_node *w, const ir_node *p)
{
    const ir_op *op = ir_op_table[w->op];
    fs_arena *scratch = fs_arena_create();
    ir_sig_list list = {0};
    ir_io io;
    ir_node_io(d->whole, w, &io);
    if (op->sbp)
        op->sbp(w, &io, scratch, &list);
    const double terms = of_terms(d, w, p, &list);
    const double degree = w->op == IR_OP_constant ? of_constant(d, w, p)
                                                  : of_factor(d, w, p) + terms +
                                                        of_inputs(d, w, &list);
    for (int32_t k = 0; k < w->n_out; k++)
        d->of[w->out[k]] = degree;
    follow_values(d, w, terms, &list);
    fs_arena_destroy(scratch);
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
        follow_node(d, w, p);
    }
    return FS_OK;
}

/* The nodes that a tensor hangs on. */
static bool *nodes_behind(const ir_graph *g, int32_t tensor, fs_arena *arena)
{
    bool *behind = fs_new(arena, bool, g->nodes.n);
    behind[g->tensors.at[tensor].producer] = true;
    for (int32_t v = g->nodes.n - 1; v >= 0; v--)
        for (int32_t k = 0; behind[v] && k < g->nodes.at[v].n_in; k++)
            behind[g->tensors.at[g->nodes.at[v].in[k]].producer] = true;
    return behind;
}

/* Does a parameter decide the value? */
static bool depends_on_params(const ir_graph *g, int32_t tensor)
{
    fs_arena *scratch = fs_arena_create();
    const bool *behind = nodes_behind(g, tensor, scratch);
    bool found = false;
    for (int32_t v = 0; v < g->nodes.n && !found; v++) {
        const ir_node *node = &g->nodes.at[v];
        found = behind[v] && node->n_out > 0 &&
                g->tensors.at[node->out[0]].role == IR_PARAM;
    }
    fs_arena_destroy(scratch);
    return found;
}

static bool is_one(double degree)
{
    return fabs(degree - 1) < 1e-6;
}

static bool is_scalar(const ir_graph *g, int32_t tensor)
{
    return ir_shape_count(&g->tensors.at[tensor].shape) == 1;
}

/* ---- terms ---- */

/* A term that is a mean or a sum as it stands. */
static bool is_plain(const degrees *d, ir_loss_term *term)
{
    const double degree = d->of[term->top];
    if (d->mixes[term->top] || !(is_zero(degree) || is_one(degree)))
        return false;
    term->reduction = is_one(degree) ? IR_LOSS_SUM : IR_LOSS_MEAN;
    return true;
}

/* Can the division be put off to the step's end? */
static bool is_quotient(const degrees *d, ir_loss_term *term)
{
    const ir_graph *g = d->whole;
    const ir_node *node = &g->nodes.at[g->tensors.at[term->top].producer];
    if (node->op != IR_OP_div)
        return false;
    const int32_t top = node->in[0], bottom = node->in[1];
    if (!is_scalar(g, top) || !is_scalar(g, bottom) || d->mixes[top] ||
        d->mixes[bottom] || !is_one(d->of[top]) || !is_one(d->of[bottom]) ||
        depends_on_params(g, bottom))
        return false;
    *term = (ir_loss_term){IR_LOSS_QUOTIENT, top, bottom, term->factor};
    return true;
}

/* The number that a tensor always is, in both graphs; NAN: it is none. */
static double number_of(const degrees *d, int32_t tensor)
{
    const ir_tensor *whole = &d->whole->tensors.at[tensor];
    const ir_tensor *part = &d->part->tensors.at[tensor];
    if (whole->role != IR_CONST || !whole->data || !part->data ||
        !is_scalar(d->whole, tensor))
        return NAN;
    const double number = ir_element_real(whole->dtype, whole->data, 0);
    return number == ir_element_real(part->dtype, part->data, 0) ? number : NAN;
}

/* Hands the factor of what a linear node makes on to what it reads. False: it
 * is no such node. */
static bool hand_on(const degrees *d, const ir_node *node, double *factor)
{
    const double all = factor[node->out[0]];
    const int32_t a = node->in[0], b = node->in[1];
    const bool two = node->n_in == 2 && is_scalar(d->whole, b);
    if (node->n_in < 1 || !is_scalar(d->whole, a) || (node->n_in > 1 && !two))
        return false;
    const double left = two ? number_of(d, a) : NAN;
    const double right = two ? number_of(d, b) : NAN;
    if (node->op == IR_OP_add || node->op == IR_OP_sub) {
        factor[a] += all;
        factor[b] += node->op == IR_OP_add ? all : -all;
    } else if (node->op == IR_OP_mul && !isnan(right)) {
        factor[a] += all * right;
    } else if (node->op == IR_OP_mul && !isnan(left)) {
        factor[b] += all * left;
    } else if (node->op == IR_OP_div && !isnan(right) && right != 0) {
        factor[a] += all / right;
    } else if (node->op == IR_OP_scale && node->f[1] == 0 &&
               is_zero(of_factor(
                   d, node, &d->part->nodes.at[node - d->whole->nodes.at]))) {
        factor[a] += all * node->f[0];
    } else if (node->op == IR_OP_identity || node->op == IR_OP_reshape) {
        factor[a] += all;
    } else {
        return false;
    }
    return true;
}

static fs_status refuse(const degrees *d, const ir_loss_term *term, fs_err *err)
{
    const double degree = d->of[term->top];
    const char *name = d->whole->tensors.at[term->top].name;
    const char *why = "is neither a mean over samples nor a sum over them (a "
                      "function of one)";
    if (d->mixes[term->top])
        why = "is a function of sums over the samples that only the whole "
              "batch knows (a root or a quotient of means, or a mean over what "
              "counts that is not just added)";
    else if (!isnan(degree))
        why = fs_printf(d->part->arena,
                        "grows as the number of samples to the power of %.3g",
                        degree);
    return fs_fail(err, FS_NO,
                   "%s: its loss%s%s %s: the losses of micro-batches do not "
                   "make it up; use 1 micro-batch",
                   d->whole->name,
                   term->top == d->whole->loss ? "" : " has a term, ",
                   term->top == d->whole->loss ? "" : name, why);
}

/* From the loss backwards: each scalar's factor is known when its turn comes.
 */
static fs_status find_terms(const degrees *d, double *factor, fs_err *err,
                            ir_loss_terms *out)
{
    const ir_graph *g = d->whole;
    factor[g->loss] = 1;
    for (int32_t v = g->tensors.at[g->loss].producer; v >= 0; v--) {
        const ir_node *node = &g->nodes.at[v];
        if (node->n_out < 1 || factor[node->out[0]] == 0)
            continue;
        ir_loss_term term = {IR_LOSS_MEAN, node->out[0], -1,
                             factor[node->out[0]]};
        if (is_plain(d, &term) || is_quotient(d, &term))
            fs_push(d->part->arena, out, term);
        else if (!hand_on(d, node, factor))
            return refuse(d, &term, err);
    }
    return FS_OK;
}

static void list_statistics(const degrees *d, fs_arena *scratch,
                            ir_loss_form *out)
{
    const bool *behind = nodes_behind(d->whole, d->whole->loss, scratch);
    for (int32_t v = 0; v < d->whole->nodes.n; v++)
        if (behind[v] && d->statistic[v])
            fs_push(d->part->arena, &out->statistics, v);
}

fs_status ir_loss_find_form(const ir_graph *whole, const ir_graph *part,
                            int32_t times, fs_err *err, ir_loss_form *out)
{
    const int32_t n = whole->tensors.n;
    ir_loss_form form = {0};
    *out = form;
    if (times < 2 || whole->loss < 0)
        return FS_OK;
    if (whole->nodes.n != part->nodes.n)
        return fs_fail(err, FS_NO,
                       "%s: with another batch its graph has another number of "
                       "nodes: use 1 micro-batch",
                       whole->name);
    fs_arena *scratch = fs_arena_create();
    degrees d = {.whole = whole,
                 .part = part,
                 .unit = log(times),
                 .of = fs_new(scratch, double, n),
                 .varies = fs_new(scratch, bool, n),
                 .summed = fs_new(scratch, bool, n),
                 .statistic = fs_new(scratch, bool, whole->nodes.n),
                 .mixes = fs_new(scratch, bool, n)};
    fs_status status = follow(&d, err);
    if (status == FS_OK)
        status = find_terms(&d, fs_new(scratch, double, n), err, &form.terms);
    if (status == FS_OK) {
        list_statistics(&d, scratch, &form);
        *out = form;
    }
    fs_arena_destroy(scratch);
    return status;
}
