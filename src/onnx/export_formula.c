/* Bodies as text (the rows of export.def whose handler is `formula`):
 * statements "NAME = TERM;", where a term is a number, a name, or an ONNX
 * operator of terms, "Mul(in0, Sub(1, in1))". Names: in0.. and out0.. are the
 * op's own, f0.. and i0.. its attributes, `step` the number of the step (1 for
 * the first), all else what a statement before has made. Besides operators
 * there are the calls of `calls` below. */
#include "config.h"
#include "ir/rate.h"
#include "onnx/writer.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NAMES = 8, MAX_TERMS = 3, NAME_ROOM = 32 };

typedef struct formula {
    onnx_writer *w;
    const char *at;     /* in the text */
    const char *result; /* what the next call makes is called so; NULL: any */
    int32_t n;
    struct {
        char name[NAME_ROOM];
        const char *value; /* its tensor in the file */
    } made[MAX_NAMES];
} formula;

static void skip_space(formula *p)
{
    while (isspace((unsigned char)*p->at))
        p->at++;
}

static bool take(formula *p, char c)
{
    skip_space(p);
    if (*p->at != c)
        return false;
    p->at++;
    return true;
}

static void take_name(formula *p, char name[NAME_ROOM])
{
    int32_t n = 0;
    skip_space(p);
    while (isalnum((unsigned char)*p->at) && n < NAME_ROOM - 1)
        name[n++] = *p->at++;
    name[n] = '\0';
    FS_ASSERT(n > 0);
}

/* K of a name that is `word` and then K; -1: it is another. */
static int32_t index_of(const char *name, const char *word)
{
    size_t n = strlen(word);
    bool is = strncmp(name, word, n) == 0 && isdigit((unsigned char)name[n]);
    return is ? (int32_t)strtol(name + n, NULL, 10) : -1;
}

/* ---- calls ---- */

typedef const char *formula_call(onnx_writer *w, const char *x);

static const char *ending(onnx_writer *w, onnx_line *line, const char *result)
{
    line->out[0] = result ? result : line->out[0];
    return onnx_write_line(w, line);
}

static const char *sum_over(onnx_writer *w, const char *x, int64_t n,
                            const int64_t *axes, bool keep)
{
    onnx_line line = onnx_line_step(w, "ReduceSum", x);
    line.in[line.n_in++] = onnx_put_ints(w, n, axes);
    onnx_line_int(&line, "keepdims", keep);
    return onnx_write_line(w, &line);
}

static const char *row_sum(onnx_writer *w, const char *x)
{
    return sum_over(w, x, 1, (int64_t[]){-1}, true);
}

static const char *row_mean(onnx_writer *w, const char *x)
{
    const ir_tensor *t = onnx_in_tensor(w, 0);
    double share = 1 / (double)t->shape.dim[t->shape.rank - 1];
    return onnx_write_pair(w, "Mul", row_sum(w, x),
                           onnx_put_number(w, t->dtype, share));
}

static const char *channel_sum(onnx_writer *w, const char *x)
{
    const ir_shape *shape = &onnx_in_tensor(w, 0)->shape;
    int64_t axes[IR_MAX_RANK], n = 0;
    for (int32_t i = 0; i < shape->rank; i++)
        if (i != 1)
            axes[n++] = i;
    return sum_over(w, x, n, axes, false);
}

static const char *channels(onnx_writer *w, const char *x)
{
    const ir_shape *shape = &onnx_in_tensor(w, 0)->shape;
    int64_t dim[IR_MAX_RANK];
    for (int32_t i = 0; i < shape->rank; i++)
        dim[i] = i == 1 ? shape->dim[1] : 1;
    return onnx_write_pair(w, "Reshape", x, onnx_put_ints(w, shape->rank, dim));
}

static const struct {
    const char *name;
    formula_call *call;
} calls[] = {
    {"RowSum", row_sum},         /* over the last axis, which stays */
    {"RowMean", row_mean},       /* likewise, of one shaped like in0 */
    {"ChannelSum", channel_sum}, /* of one shaped like in0: (C) */
    {"Channels", channels},      /* (C) stretched along in0 */
};

/* ---- terms ---- */

static const char *term(formula *p);

static const char *call(formula *p, const char *name)
{
    const char *result = p->result;
    const char *terms[MAX_TERMS];
    int32_t n = 0;
    p->result = NULL;
    do {
        FS_ASSERT(n < MAX_TERMS);
        terms[n++] = term(p);
    } while (take(p, ','));
    bool closed = take(p, ')');
    FS_ASSERT(closed);
    for (size_t k = 0; k < sizeof calls / sizeof *calls; k++)
        if (strcmp(calls[k].name, name) == 0) {
            const char *made = calls[k].call(p->w, terms[0]);
            onnx_line line = onnx_line_step(p->w, "Identity", made);
            return result ? ending(p->w, &line, result) : made;
        }
    onnx_line line =
        onnx_line_step(p->w, fs_printf(p->w->arena, "%s", name), terms[0]);
    for (int32_t k = 1; k < n; k++)
        line.in[line.n_in++] = terms[k];
    return ending(p->w, &line, result);
}

static const char *number(const formula *p, double value)
{
    return onnx_put_number(p->w, onnx_out_tensor(p->w, 0)->dtype, value);
}

static const char *step(const formula *p)
{
    onnx_line line = onnx_line_step(p->w, "Cast", ONNX_STEP);
    onnx_line_int(&line, "to",
                  onnx_dtype_number(onnx_out_tensor(p->w, 0)->dtype));
    return onnx_write_line(p->w, &line);
}

bool onnx_rate_stays(const ir_node *node)
{
    return node->i[1] == IR_RATE_CONSTANT && node->i[2] == 0;
}

/* ir_rate_factor, of steps counted from 1. */
#define WARMING(then)                                                          \
    "Mul(f0, Where(LessOrEqual(step, i2), Div(step, Max(i2, 1)), " then "))"
#define UNTIL_END(then) WARMING("Where(Greater(step, i3), 0, " then ")")
#define GONE "Div(Sub(Sub(step, 1), i2), Max(Sub(i3, i2), 1))"

static const char *rate(formula *p)
{
    static const char *const terms[] = {
        [IR_RATE_CONSTANT] = WARMING("1"),
        [IR_RATE_LINEAR] = UNTIL_END("Sub(1, " GONE ")"),
        [IR_RATE_COSINE] = UNTIL_END("Mul(0.5, Add(1, Cos(Mul(" GONE
                                     ", 3.14159265358979324))))"),
    };
    const ir_node *node = p->w->node;
    formula own = {.w = p->w};
    own.at = onnx_rate_stays(node) ? "f0" : terms[node->i[1]];
    return term(&own);
}

static const char *value_of(formula *p, const char *name)
{
    const ir_node *node = p->w->node;
    int32_t k;
    for (k = p->n - 1; k >= 0; k--)
        if (strcmp(p->made[k].name, name) == 0)
            return p->made[k].value;
    if ((k = index_of(name, "in")) >= 0)
        return p->w->name[node->in[k]];
    if ((k = index_of(name, "f")) >= 0)
        return number(p, node->f[k]);
    if ((k = index_of(name, "i")) >= 0)
        return number(p, (double)node->i[k]);
    if (strcmp(name, ONNX_STEP) == 0)
        return step(p);
    if (strcmp(name, ONNX_TAKEN) == 0)
        return node->n_in < 5 ? step(p)
                              : onnx_write_pair(p->w, "Sub", step(p),
                                                p->w->name[node->in[4]]);
    FS_ASSERT(strcmp(name, ONNX_RATE) == 0);
    return rate(p);
}

static const char *term(formula *p)
{
    char name[NAME_ROOM];
    skip_space(p);
    if (isdigit((unsigned char)*p->at) || *p->at == '-') {
        char *end;
        double value = strtod(p->at, &end);
        p->at = end;
        return number(p, value);
    }
    take_name(p, name);
    return take(p, '(') ? call(p, name) : value_of(p, name);
}

static void statement(formula *p)
{
    char name[NAME_ROOM];
    take_name(p, name);
    bool equals = take(p, '=');
    FS_ASSERT(equals && p->n < MAX_NAMES);
    int32_t out = index_of(name, "out");
    p->result = out >= 0 ? p->w->name[p->w->node->out[out]] : NULL;
    const char *value = term(p);
    if (p->result) { /* not a call: nothing has been called so */
        onnx_line line = onnx_line_step(p->w, "Identity", value);
        value = ending(p->w, &line, p->result);
    }
    memcpy(p->made[p->n].name, name, sizeof name);
    p->made[p->n++].value = value;
}

bool onnx_out_formula(onnx_writer *w, const char *text)
{
    formula p = {.w = w, .at = text};
    do
        statement(&p);
    while (take(&p, ';') && (skip_space(&p), *p.at));
    FS_ASSERT(*p.at == '\0');
    return true;
}

/* dx = gain rstd dy, and where mean and var depend on x what their ways add. */
bool onnx_out_batch_norm_grad(onnx_writer *w, const char *op)
{
    (void)op;
    if (w->node->n_in < 7)
        return onnx_out_formula(w, "slope = Div(in1, Sqrt(Add(in2, f0)));"
                                   "out0 = Mul(in0, Channels(slope))");
    return onnx_out_formula(w,
                            "rstd = Div(1, Sqrt(Add(in2, f0)));"
                            "turn = Mul(Mul(in5, f1), rstd);"
                            "h = Mul(Sub(in3, Channels(in4)), Channels(turn));"
                            "d = Sub(Sub(in0, Channels(Mul(in6, f1))), h);"
                            "out0 = Mul(d, Channels(Mul(in1, rstd)))");
}

/* RMS norm; its mean, which nothing uses, is 0. */
bool onnx_out_rms_norm(onnx_writer *w, const char *op)
{
    (void)op;
    if (!w->node->i[0] || w->node->n_in > 2)
        return false;
    return onnx_out_formula(
        w, w->node->n_in > 1
               ? "out2 = Div(1, Sqrt(Add(RowMean(Mul(in0, in0)), f0)));"
                 "out1 = Mul(out2, 0); out0 = Mul(Mul(in0, out2), in1)"
               : "out2 = Div(1, Sqrt(Add(RowMean(Mul(in0, in0)), f0)));"
                 "out1 = Mul(out2, 0); out0 = Mul(in0, out2)");
}

/* Of logits, or of probabilities, whose logarithm is -100 at least. */
bool onnx_out_bce(onnx_writer *w, const char *op)
{
    (void)op;
    if (!w->node->i[0])
        return onnx_out_formula(
            w, "above = Sub(Max(in0, 0), Mul(in0, in1));"
               "out0 = Add(above, Log(Add(1, Exp(Neg(Abs(in0))))))");
    return onnx_out_formula(w, "yes = Mul(in1, Max(Log(in0), -100));"
                               "no = Max(Log(Sub(1, in0)), -100);"
                               "out0 = Neg(Add(yes, Mul(Sub(1, in1), no)))");
}

bool onnx_out_bce_grad(onnx_writer *w, const char *op)
{
    (void)op;
    if (!w->node->i[0])
        return onnx_out_formula(w, "out0 = Mul(in0, Sub(Sigmoid(in1), in2))");
    return onnx_out_formula(
        w, "spread = Max(Mul(in1, Sub(1, in1)), 0.000000000001);"
           "out0 = Mul(in0, Div(Sub(in1, in2), spread))");
}
