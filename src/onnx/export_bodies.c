/* Bodies of the ops that ONNX has no operator of: functions of standard
 * operators, so that other tools run what our importer reads back as one op. */
#include "config.h"
#include "onnx/writer.h"

#include "onnx/message.h"

#include <math.h>
#include <string.h>

static const struct {
    onnx_out_handler *write;
    const char *op;
} bodies[IR_OP_COUNT] = {
#define ONNX_OUT(...)
#define ONNX_BODY(op, handler, argument)                                       \
    [IR_OP_##op] = {onnx_out_##handler, argument},
#include "onnx/export.def"
#undef ONNX_OUT
#undef ONNX_BODY
};

/* ---- what bodies are made of ---- */

static const char *in(const onnx_writer *w, int32_t i)
{
    return w->name[w->node->in[i]];
}

static const char *number(onnx_writer *w, double value)
{
    return onnx_put_number(w, onnx_out_tensor(w, 0)->dtype, value);
}

static const char *whole(onnx_writer *w, int32_t i, int64_t value)
{
    return onnx_put_number(w, onnx_in_tensor(w, i)->dtype, (double)value);
}

/* The op's output k from a, and b when there is one. */
static bool end(onnx_writer *w, int32_t k, const char *op, const char *a,
                const char *b)
{
    onnx_line line = onnx_line_step(w, op, a);
    if (b)
        line.in[line.n_in++] = b;
    line.out[0] = w->name[w->node->out[k]];
    onnx_write_line(w, &line);
    return true;
}

static const char *choose(onnx_writer *w, const char *c, const char *a,
                          const char *b)
{
    onnx_line line = onnx_line_step(w, "Where", c);
    line.in[line.n_in++] = a;
    line.in[line.n_in++] = b;
    return onnx_write_line(w, &line);
}

static const char *sum_last(onnx_writer *w, const char *x, bool keep)
{
    int64_t last = -1;
    onnx_line line = onnx_line_step(w, "ReduceSum", x);
    line.in[line.n_in++] = onnx_put_ints(w, 1, &last);
    onnx_line_int(&line, "keepdims", keep);
    return onnx_write_line(w, &line);
}

static const char *with_axis(onnx_writer *w, const char *op, const char *x)
{
    int64_t last = -1;
    return onnx_write_pair(w, op, x, onnx_put_ints(w, 1, &last));
}

/* ---- sums ---- */

bool onnx_out_sum_exp(onnx_writer *w, const char *op)
{
    int64_t axes[IR_MAX_RANK], n = 0;
    for (int32_t i = 0; i < IR_MAX_RANK; i++)
        if (w->node->i[0] >> i & 1)
            axes[n++] = i;
    const char *e = onnx_write_pair(w, "Sub", in(w, 0), in(w, 1));
    e = onnx_write_step(w, "Exp", e);
    return n ? end(w, 0, op, e, onnx_put_ints(w, n, axes))
             : end(w, 0, "Identity", e, NULL);
}

/* ---- labels ---- */

/* Labels that do not count take class 0 and are put out again later. */
static const char *ignored(onnx_writer *w, int32_t labels, const char **safe)
{
    const int64_t *i = w->node->i;
    *safe = in(w, labels);
    if (!i[1])
        return NULL;
    const char *out =
        onnx_write_pair(w, "Equal", in(w, labels), whole(w, labels, i[2]));
    *safe = choose(w, out, whole(w, labels, 0), in(w, labels));
    return out;
}

/* y, and 0 where a label does not count. */
static bool end_counted(onnx_writer *w, const char *out, const char *y)
{
    if (!out)
        return end(w, 0, "Identity", y, NULL);
    onnx_line line = onnx_line_step(w, "Where", out);
    line.in[line.n_in++] = number(w, 0);
    line.in[line.n_in++] = y;
    line.out[0] = w->name[w->node->out[0]];
    onnx_write_line(w, &line);
    return true;
}

/* x[label] of every row of x, input 0, with a last axis of length 1. The axis
 * is counted from the front: not every tool counts from the end here. */
static const char *at_labels(onnx_writer *w, const char *labels)
{
    onnx_line line = onnx_line_step(w, "GatherElements", in(w, 0));
    line.in[line.n_in++] = with_axis(w, "Unsqueeze", labels);
    onnx_line_int(&line, "axis", onnx_in_tensor(w, 0)->shape.rank - 1);
    return onnx_write_line(w, &line);
}

bool onnx_out_pick(onnx_writer *w, const char *op)
{
    const char *safe, *out = ignored(w, 1, &safe);
    const char *y = at_labels(w, safe);
    return end_counted(w, out, with_axis(w, op, y));
}

bool onnx_out_label_weight(onnx_writer *w, const char *op)
{
    const char *safe, *out = ignored(w, 0, &safe), *y;
    if (w->node->n_in > 1) {
        y = onnx_write_pair(w, op, in(w, 1), safe);
    } else {
        y = onnx_write_pair(w, "Mul", safe, whole(w, 0, 0));
        onnx_line line = onnx_line_step(w, "Cast", y);
        onnx_line_int(&line, "to",
                      onnx_dtype_number(onnx_out_tensor(w, 0)->dtype));
        y = onnx_write_pair(w, "Add", onnx_write_line(w, &line), number(w, 1));
    }
    return end_counted(w, out, y);
}

bool onnx_out_cross_entropy_rows(onnx_writer *w, const char *op)
{
    const char *safe, *out = ignored(w, 2, &safe);
    const char *y = at_labels(w, safe);
    y = onnx_write_pair(w, op, in(w, 1), y);
    return end_counted(w, out, with_axis(w, "Squeeze", y));
}

/* One at the label, of rows of n classes. */
static const char *one_hot(onnx_writer *w, const char *labels, int64_t n)
{
    ir_dtype dtype = onnx_out_tensor(w, 0)->dtype;
    const char *values[] = {onnx_put_number(w, dtype, 0),
                            onnx_put_number(w, dtype, 1)};
    onnx_line pair =
        onnx_line_step(w, "Concat", with_axis(w, "Unsqueeze", values[0]));
    pair.in[pair.n_in++] = with_axis(w, "Unsqueeze", values[1]);
    onnx_line_int(&pair, "axis", 0);
    onnx_line line = onnx_line_step(w, "OneHot", labels);
    line.in[line.n_in++] = onnx_put_ints(w, -1, &n);
    line.in[line.n_in++] = onnx_write_line(w, &pair);
    onnx_line_int(&line, "axis", -1);
    return onnx_write_line(w, &line);
}

/* dloss f[0] (prob - onehot) */
bool onnx_out_cross_entropy_grad(onnx_writer *w, const char *op)
{
    const ir_shape *rows = &onnx_in_tensor(w, 1)->shape;
    const char *hot = one_hot(w, in(w, 2), rows->dim[rows->rank - 1]);
    const char *d = onnx_write_pair(w, "Sub", in(w, 1), hot);
    const char *by =
        onnx_write_pair(w, "Mul", in(w, 0), number(w, w->node->f[0]));
    return end(w, 0, op, d, by);
}

/* dy (exp(x - z) - onehot), and 0 where a label does not count */
bool onnx_out_cross_entropy_rows_grad(onnx_writer *w, const char *op)
{
    const ir_shape *x = &onnx_in_tensor(w, 1)->shape;
    const char *safe, *out = ignored(w, 3, &safe), *dy = in(w, 0);
    const char *hot = one_hot(w, safe, x->dim[x->rank - 1]);
    const char *p = onnx_write_pair(w, "Sub", in(w, 1), in(w, 2));
    p = onnx_write_pair(w, "Sub", onnx_write_step(w, "Exp", p), hot);
    if (out)
        dy = choose(w, out, number(w, 0), dy);
    return end(w, 0, op, with_axis(w, "Unsqueeze", dy), p);
}

/* dy at the label, 0 elsewhere. */
bool onnx_out_pick_grad(onnx_writer *w, const char *op)
{
    const ir_shape *dx = &onnx_out_tensor(w, 0)->shape;
    const char *safe, *out = ignored(w, 1, &safe), *dy = in(w, 0);
    const char *hot = one_hot(w, safe, dx->dim[dx->rank - 1]);
    if (out)
        dy = choose(w, out, number(w, 0), dy);
    return end(w, 0, op, with_axis(w, "Unsqueeze", dy), hot);
}

/* Is this the column of the label, in rows of cosines of n classes? */
static const char *at_label(onnx_writer *w, int32_t labels, int64_t n)
{
    const char *safe, *out = ignored(w, labels, &safe);
    const char *hot = one_hot(w, safe, n);
    if (out)
        hot = choose(w, with_axis(w, "Unsqueeze", out), number(w, 0), hot);
    return onnx_write_pair(w, "Greater", hot, number(w, 0));
}

/* f[0] acos(x) + f[1] */
static const char *widened_angle(onnx_writer *w, const char *x)
{
    const double *f = w->node->f;
    const char *a = onnx_write_pair(w, "Max", x, number(w, -1));
    a = onnx_write_step(w, "Acos", onnx_write_pair(w, "Min", a, number(w, 1)));
    a = onnx_write_pair(w, "Mul", a, number(w, f[0]));
    return onnx_write_pair(w, "Add", a, number(w, f[1]));
}

static bool keeps_angle(const ir_node *node)
{
    return node->f[0] == 1 && node->f[1] == 0;
}

/* f[3] x, at the label f[3] (cos(f[0] acos(x) + f[1]) - f[2]) */
bool onnx_out_margin(onnx_writer *w, const char *op)
{
    const ir_shape *x = &onnx_in_tensor(w, 0)->shape;
    const char *hot = at_label(w, 1, x->dim[x->rank - 1]), *y = in(w, 0);
    if (!keeps_angle(w->node))
        y = onnx_write_step(w, "Cos", widened_angle(w, y));
    y = onnx_write_pair(w, "Sub", y, number(w, w->node->f[2]));
    y = choose(w, hot, y, in(w, 0));
    return end(w, 0, op, y, number(w, w->node->f[3]));
}

/* f[3] dy, at the label times f[0] sin(f[0] acos(x) + f[1]) / sin(acos(x)), the
 * divisor kept from zero. */
bool onnx_out_margin_grad(onnx_writer *w, const char *op)
{
    const ir_shape *shape = &onnx_in_tensor(w, 1)->shape;
    const char *hot = at_label(w, 2, shape->dim[shape->rank - 1]);
    const char *x = in(w, 1), *slope = number(w, 1);
    if (!keeps_angle(w->node)) {
        const char *s = onnx_write_pair(w, "Mul", x, x);
        s = onnx_write_pair(w, "Sub", number(w, 1), s);
        s = onnx_write_pair(w, "Max", s, number(w, 1e-8));
        s = onnx_write_step(w, "Sqrt", s);
        slope = onnx_write_step(w, "Sin", widened_angle(w, x));
        slope = onnx_write_pair(w, "Mul", slope, number(w, w->node->f[0]));
        slope = onnx_write_pair(w, "Div", slope, s);
    }
    slope = choose(w, hot, slope, number(w, 1));
    slope = onnx_write_pair(w, "Mul", slope, number(w, w->node->f[3]));
    return end(w, 0, op, in(w, 0), slope);
}

bool onnx_out_top_k_grad(onnx_writer *w, const char *op)
{
    const ir_shape *dx = &onnx_out_tensor(w, 0)->shape;
    onnx_line line =
        onnx_line_step(w, op,
                       onnx_write_pair(w, "Expand", number(w, 0),
                                       onnx_put_ints(w, dx->rank, dx->dim)));
    line.in[line.n_in++] = in(w, 1);
    line.in[line.n_in++] = in(w, 0);
    onnx_line_int(&line, "axis", w->node->i[0]);
    onnx_line_text(&line, "reduction", "add");
    line.out[0] = w->name[w->node->out[0]];
    onnx_write_line(w, &line);
    return true;
}

/* ---- draws ---- */

/* Dropped by a draw of the tool's own. */
bool onnx_out_dropout(onnx_writer *w, const char *op)
{
    onnx_line line = onnx_line_like(w, op);
    line.in[line.n_in++] = onnx_put_number(w, IR_F32, w->node->f[0]);
    line.in[line.n_in++] = onnx_put_number(w, IR_BOOL, 1);
    onnx_write_line(w, &line);
    return true;
}

/* ---- norms ---- */

static const char *normalised(onnx_writer *w)
{
    const char *h = onnx_write_pair(w, "Sub", in(w, 1), in(w, 2));
    return onnx_write_pair(w, "Mul", h, in(w, 3));
}

/* rstd (g - mean(g) - h mean(g h)), g = dy gain */
bool onnx_out_layer_norm_grad(onnx_writer *w, const char *op)
{
    const ir_shape *x = &onnx_in_tensor(w, 1)->shape;
    const char *g = in(w, 0), *h = normalised(w);
    double share = 1 / (double)x->dim[x->rank - 1];
    if (w->node->n_in > 4)
        g = onnx_write_pair(w, op, g, in(w, 4));
    const char *m = sum_last(w, onnx_write_pair(w, "Mul", g, h), true);
    m = onnx_write_pair(w, "Mul", m, number(w, share));
    const char *y =
        onnx_write_pair(w, "Sub", g, onnx_write_pair(w, "Mul", h, m));
    if (!w->node->i[0]) {
        m = onnx_write_pair(w, "Mul", sum_last(w, g, true), number(w, share));
        y = onnx_write_pair(w, "Sub", y, m);
    }
    return end(w, 0, op, y, in(w, 3));
}

bool onnx_out_layer_norm_param_grad(onnx_writer *w, const char *op)
{
    int64_t axes[IR_MAX_RANK], n = onnx_in_tensor(w, 1)->shape.rank - 1;
    const char *x[2] = {onnx_write_pair(w, "Mul", in(w, 0), normalised(w)),
                        in(w, 0)};
    for (int64_t i = 0; i < n; i++)
        axes[i] = i;
    for (int32_t k = 0; k < 2; k++) {
        onnx_line line = onnx_line_step(w, n ? op : "Identity", x[k]);
        if (n)
            line.in[line.n_in++] = onnx_put_ints(w, n, axes);
        if (n)
            onnx_line_int(&line, "keepdims", 0);
        line.out[0] = w->name[w->node->out[k]];
        onnx_write_line(w, &line);
    }
    return true;
}

static const char *transposed(onnx_writer *w, const char *x, int32_t n,
                              const int64_t *perm)
{
    onnx_line line = onnx_line_step(w, "Transpose", x);
    onnx_line_ints(&line, "perm", n, perm);
    return onnx_write_line(w, &line);
}

/* dy, input 0, with the axes of the ids in front; 0 where the id is that of the
 * row without a gradient. */
static const char *rows_in_front(onnx_writer *w)
{
    const ir_shape *dy = &onnx_in_tensor(w, 0)->shape;
    const int64_t *i = w->node->i, row = i[3] - 1;
    const int64_t rows = onnx_out_tensor(w, 0)->shape.dim[i[2]];
    int64_t perm[IR_MAX_RANK], n_ids = onnx_in_tensor(w, 1)->shape.rank, n = 0;
    int64_t dim[IR_MAX_RANK];
    for (int64_t k = 0; k < n_ids; k++)
        perm[n++] = i[2] + k;
    for (int64_t k = 0; k < dy->rank; k++)
        if (k < i[2] || k >= i[2] + n_ids)
            perm[n++] = k;
    const char *x = i[2] ? transposed(w, in(w, 0), dy->rank, perm) : in(w, 0);
    if (row < 0)
        return x;
    for (int64_t k = 0; k < dy->rank; k++)
        dim[k] = k < n_ids ? dy->dim[perm[k]] : 1;
    const char *out = onnx_write_pair(w, "Equal", in(w, 1), whole(w, 1, row));
    if (i[1])
        out = onnx_write_pair(
            w, "Or", out,
            onnx_write_pair(w, "Equal", in(w, 1), whole(w, 1, row - rows)));
    out = onnx_write_pair(w, "Reshape", out, onnx_put_ints(w, dy->rank, dim));
    return choose(w, out, number(w, 0), x);
}

/* Rows of a table: zeros, and the gradients added where ids say. */
bool onnx_out_gather_grad(onnx_writer *w, const char *op)
{
    const ir_shape *y = &onnx_out_tensor(w, 0)->shape;
    const int64_t axis = w->node->i[2];
    int64_t dim[IR_MAX_RANK] = {y->dim[axis]}, back[IR_MAX_RANK], n = 1;
    const char *dy = rows_in_front(w);
    for (int64_t k = 0; k < y->rank; k++) {
        back[k] = k < axis ? k + 1 : k == axis ? 0 : k;
        if (k != axis)
            dim[n++] = y->dim[k];
    }
    onnx_line line =
        onnx_line_step(w, op,
                       onnx_write_pair(w, "Expand", number(w, 0),
                                       onnx_put_ints(w, y->rank, dim)));
    line.in[line.n_in++] =
        with_axis(w, "Unsqueeze",
                  onnx_write_places(w, in(w, 1), onnx_in_tensor(w, 1)->dtype));
    line.in[line.n_in++] = dy;
    onnx_line_text(&line, "reduction", "add");
    onnx_line turn = onnx_line_step(w, "Transpose", onnx_write_line(w, &line));
    onnx_line_ints(&turn, "perm", y->rank, back);
    turn.out[0] = w->name[w->node->out[0]];
    onnx_write_line(w, &turn);
    return true;
}

/* By the moments that it is given. */
bool onnx_out_moments(onnx_writer *w, const char *op)
{
    onnx_line line = onnx_line_like(w, op);
    onnx_line_real(&line, "epsilon", w->node->f[0]);
    onnx_write_line(w, &line);
    return true;
}

bool onnx_out_centred_square(onnx_writer *w, const char *op)
{
    const ir_shape *x = &onnx_in_tensor(w, 0)->shape;
    int64_t axes[IR_MAX_RANK], dim[IR_MAX_RANK], n = 0;
    for (int32_t i = 0; i < x->rank; i++) {
        dim[i] = i == 1 ? x->dim[1] : 1;
        if (i != 1)
            axes[n++] = i;
    }
    const char *m =
        onnx_write_pair(w, "Reshape", in(w, 1), onnx_put_ints(w, x->rank, dim));
    m = onnx_write_pair(w, "Sub", in(w, 0), m);
    onnx_line line = onnx_line_step(w, op, onnx_write_pair(w, "Mul", m, m));
    line.in[line.n_in++] = onnx_put_ints(w, n, axes);
    onnx_line_int(&line, "keepdims", 0);
    line.out[0] = w->name[w->node->out[0]];
    onnx_write_line(w, &line);
    return true;
}

/* ---- functions ---- */

/* What a body is made of besides the tensors themselves. */
static const char *key_of(onnx_writer *w)
{
    const ir_node *node = w->node;
    fs_text key = {.arena = w->arena};
    char text[160];
    fs_text_add(&key, "%d", (int)node->op);
    for (int32_t i = 0; i < node->n_in + node->n_out; i++) {
        const ir_tensor *t = i < node->n_in
                                 ? onnx_in_tensor(w, i)
                                 : onnx_out_tensor(w, i - node->n_in);
        fs_text_add(&key, " %d:%s", (int)t->dtype,
                    ir_shape_text(text, &t->shape));
    }
    for (int32_t i = 0; i < IR_MAX_ATTR; i++)
        fs_text_add(&key, " %lld", (long long)node->i[i]);
    for (int32_t i = 0; i < IR_MAX_REAL; i++)
        fs_text_add(&key, " %a", node->f[i]);
    return key.at;
}

/* Formal names take the place of the tensors'. */
static bool write_body(onnx_writer *w, fs_wire_out *body)
{
    const ir_node *node = w->node;
    const char *in_names[IR_MAX_IN], *out_names[IR_MAX_OUT];
    fs_wire_out nodes = w->nodes;
    int32_t n_nodes = w->n_nodes;
    for (int32_t i = 0; i < node->n_in; i++)
        in_names[i] = w->name[node->in[i]];
    for (int32_t i = 0; i < node->n_out; i++)
        out_names[i] = w->name[node->out[i]];
    for (int32_t i = node->n_in - 1; i >= 0; i--)
        w->name[node->in[i]] = fs_printf(w->arena, "in%d", i);
    for (int32_t i = 0; i < node->n_out; i++)
        w->name[node->out[i]] = fs_printf(w->arena, "out%d", i);
    w->nodes = (fs_wire_out){.arena = w->arena};
    w->in_body = true;
    w->node_field = 7;
    bool written = bodies[node->op].write(w, bodies[node->op].op);
    w->in_body = false;
    w->node_field = 1;
    *body = w->nodes;
    w->nodes = nodes;
    w->n_nodes = n_nodes;
    for (int32_t i = 0; i < node->n_in; i++)
        w->name[node->in[i]] = in_names[i];
    for (int32_t i = 0; i < node->n_out; i++)
        w->name[node->out[i]] = out_names[i];
    return written;
}

/* FunctionProto: name, input, output, attribute, node, opset, domain. */
static void put_function(onnx_writer *w, const char *name,
                         const fs_wire_out *body)
{
    fs_wire_out function = {.arena = w->arena}, opset = function;
    fs_wire_put_text(&function, 1, name);
    for (int32_t i = 0; i < w->node->n_in; i++)
        fs_wire_put_text(&function, 4, fs_printf(w->arena, "in%d", i));
    if (onnx_more_input(w->node))
        fs_wire_put_text(&function, 4, onnx_more_input(w->node));
    for (int32_t i = 0; i < w->node->n_out; i++)
        fs_wire_put_text(&function, 5, fs_printf(w->arena, "out%d", i));
    onnx_put_attributes(w, &function, 11);
    fs_wire_put_raw(&function, body->at, body->n);
    fs_wire_put_text(&opset, 1, "");
    fs_wire_put_int(&opset, 2, w->opset);
    fs_wire_put_message(&function, 9, &opset);
    fs_wire_put_text(&function, 10, "flowsearch");
    fs_wire_put_message(&w->functions, 25, &function);
}

bool onnx_counts_steps(const ir_node *node)
{
    const char *text = bodies[node->op].op;
    if (!text)
        return false;
    if (strstr(text, ONNX_RATE) && !onnx_rate_stays(node))
        return true;
    return strstr(text, ONNX_TAKEN) != NULL;
}

static const char SUM[] = "sum";

const char *onnx_more_input(const ir_node *node)
{
    if (onnx_counts_steps(node))
        return ONNX_STEP;
    return node->op == IR_OP_accumulate ? SUM : NULL;
}

/* To what the micro-batches before gave. */
bool onnx_out_running_sum(onnx_writer *w, const char *op)
{
    onnx_line line = onnx_line_like(w, op);
    line.in[line.n_in++] = SUM;
    onnx_write_line(w, &line);
    return true;
}

const char *onnx_function_name(onnx_writer *w)
{
    const char *op = ir_op_table[w->node->op]->name, *key, *name;
    fs_wire_out body;
    if (!bodies[w->node->op].write)
        return NULL;
    key = key_of(w);
    int32_t k = fs_map_get(&w->bodies, key);
    if (k >= 0)
        return fs_printf(w->arena, "%s__%d", op, k);
    if (!write_body(w, &body))
        return NULL;
    k = w->n_functions++;
    *fs_map_at(&w->bodies, key) = k;
    name = fs_printf(w->arena, "%s__%d", op, k);
    put_function(w, name, &body);
    return name;
}
