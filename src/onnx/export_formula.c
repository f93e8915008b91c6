/* Bodies as text (the rows of export.def whose handler is `formula`, and what
 * other handlers compose): statements "NAME = TERM;", where a term is a number,
 * integers in a row "[2, -1]", one integer "#2", a name, or an ONNX operator of
 * terms, "Mul(in0, Sub(1, in1))". Names: in0.. and out0.. are the op's own,
 * f0.. and i0.. its attributes, `step` the number of the step (1 for the
 * first), all else what a statement before has made last. Numbers have the type
 * of out0. An operator has attributes as "Cast<to=7>(x)", integers, integers in
 * a row or words; several outputs as "y, places = MaxPool<..>(x)"; and a body
 * as "Scan<..>(h, x) {h0, x0 -> h1: h1 = Add(h0, x0);}", what it takes, what it
 * gives and its statements, which may name what stands outside. Besides
 * operators there are the calls of `calls` below. */
#include "config.h"
#include "ir/rate.h"
#include "onnx/writer.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TERMS = IR_MAX_IN, MAX_LIST = 160, NAME_ROOM = 32 };

typedef struct formula_name {
    char text[NAME_ROOM];
    const char *value; /* its tensor in the file */
} formula_name;

/* What a statement makes; [n] are called so, NULL: any name. */
typedef struct formula_results {
    int32_t n;
    const char *name[IR_MAX_OUT];
} formula_results;

typedef struct formula {
    onnx_writer *w;
    const char *at;         /* in the text */
    formula_results wanted; /* of the next call; n = 0: one of any name */
    formula_results given;  /* of the last call that several were wanted of */
    FS_VEC(formula_name) made;
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
    while ((isalnum((unsigned char)*p->at) || *p->at == '_') &&
           n < NAME_ROOM - 1)
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

static const char *ending(formula *p, onnx_line *line,
                          const formula_results *wanted)
{
    for (int32_t i = 0; i < wanted->n; i++) {
        const char *name = wanted->name[i];
        if (i >= line->n_out)
            line->out[line->n_out++] = onnx_new_name(p->w, line->op);
        line->out[i] = name ? name : line->out[i];
        p->given.name[i] = line->out[i];
    }
    p->given.n = wanted->n;
    return onnx_write_line(p->w, line);
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

static int64_t take_int(formula *p)
{
    char *end;
    skip_space(p);
    int64_t value = strtoll(p->at, &end, 10);
    FS_ASSERT(end > p->at);
    p->at = end;
    return value;
}

/* After the "[". */
static int64_t take_list(formula *p, int64_t list[MAX_LIST])
{
    int64_t n = 0;
    while (!take(p, ']')) {
        FS_ASSERT(n < MAX_LIST);
        list[n++] = take_int(p);
        take(p, ',');
    }
    return n;
}

/* Axes of a reduction are an attribute up to some opset, an input since. */
static bool axes_are_input(const formula *p, const onnx_line *line)
{
    return strcmp(line->op, "ReduceSum") == 0 ||
           (strncmp(line->op, "Reduce", 6) == 0 && p->w->opset >= 18);
}

static void take_attribute(formula *p, onnx_line *line, const char **axes)
{
    char name[NAME_ROOM], word[NAME_ROOM];
    int64_t list[MAX_LIST];
    take_name(p, name);
    bool equals = take(p, '=');
    FS_ASSERT(equals);
    skip_space(p);
    if (take(p, '[')) {
        int64_t n = take_list(p, list);
        if (strcmp(name, "axes") == 0 && axes_are_input(p, line))
            *axes = onnx_put_ints(p->w, n, list);
        else
            onnx_line_ints(line, name, n, list);
    } else if (isalpha((unsigned char)*p->at)) {
        take_name(p, word);
        onnx_line_text(line, name, word);
    } else {
        onnx_line_int(line, name, take_int(p));
    }
}

/* "<..>" after an operator's name; *axes: a list that is its last input. */
static void take_attributes(formula *p, onnx_line *line, const char **axes)
{
    if (!take(p, '<'))
        return;
    do
        take_attribute(p, line, axes);
    while (take(p, ','));
    bool closed = take(p, '>');
    FS_ASSERT(closed);
}

static int32_t take_terms(formula *p, const char *terms[MAX_TERMS])
{
    int32_t n = 0;
    do {
        FS_ASSERT(n < MAX_TERMS);
        terms[n++] = term(p);
    } while (take(p, ','));
    bool closed = take(p, ')');
    FS_ASSERT(closed);
    return n;
}

static void bind(formula *p, const char *name, const char *value)
{
    formula_name made = {.value = value};
    memcpy(made.text, name, strlen(name) + 1);
    fs_push(p->w->arena, &p->made, made);
}

/* What a body takes: names of its own, ValueInfoProto. */
static void take_formals(formula *p, fs_wire_out *graph)
{
    char name[NAME_ROOM];
    do {
        fs_wire_out info = {.arena = p->w->arena};
        take_name(p, name);
        bind(p, name, onnx_new_name(p->w, name));
        fs_wire_put_text(&info, 1, p->made.at[p->made.n - 1].value);
        fs_wire_put_message(graph, 11, &info);
    } while (take(p, ','));
}

static const char *value_of(formula *p, const char *name);
static void statements(formula *p, char end);

/* After the "{": GraphProto of node, name, input, output. */
static void take_body(formula *p, onnx_line *line)
{
    char gives[IR_MAX_OUT][NAME_ROOM];
    onnx_writer *w = p->w;
    fs_wire_out graph = {.arena = w->arena}, outside = w->nodes;
    const int32_t n_made = p->made.n;
    const uint32_t field = w->node_field;
    int32_t n = 0;
    take_formals(p, &graph);
    bool arrow = take(p, '-') && take(p, '>');
    FS_ASSERT(arrow);
    do
        take_name(p, gives[n++]);
    while (take(p, ','));
    bool colon = take(p, ':');
    FS_ASSERT(colon);
    w->nodes = (fs_wire_out){.arena = w->arena};
    w->node_field = 1;
    statements(p, '}');
    fs_wire_put_raw(&graph, w->nodes.at, w->nodes.n);
    fs_wire_put_text(&graph, 2, onnx_new_name(w, "body"));
    for (int32_t i = 0; i < n; i++) {
        fs_wire_out info = {.arena = w->arena};
        fs_wire_put_text(&info, 1, value_of(p, gives[i]));
        fs_wire_put_message(&graph, 12, &info);
    }
    w->nodes = outside;
    w->node_field = field;
    p->made.n = n_made;
    onnx_line_graph(line, "body", &graph);
}

static formula_call *call_of(const char *name)
{
    for (size_t k = 0; k < sizeof calls / sizeof *calls; k++)
        if (strcmp(calls[k].name, name) == 0)
            return calls[k].call;
    return NULL;
}

static const char *call(formula *p, const char *name)
{
    const formula_results wanted = p->wanted;
    const char *terms[MAX_TERMS], *axes = NULL;
    formula_call *own = call_of(name);
    p->wanted.n = 0;
    onnx_line line = onnx_line_step(p->w, fs_strdup(p->w->arena, name), "");
    if (!own)
        take_attributes(p, &line, &axes);
    bool open = take(p, '(');
    FS_ASSERT(open);
    line.n_in = take_terms(p, terms);
    memcpy(line.in, terms, (size_t)line.n_in * sizeof *terms);
    if (axes)
        line.in[line.n_in++] = axes;
    if (own) {
        const char *made = own(p->w, terms[0]);
        line = onnx_line_step(p->w, "Identity", made);
        return wanted.n ? ending(p, &line, &wanted) : made;
    }
    if (take(p, '{'))
        take_body(p, &line);
    return ending(p, &line, &wanted);
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
    for (k = p->made.n - 1; k >= 0; k--)
        if (strcmp(p->made.at[k].text, name) == 0)
            return p->made.at[k].value;
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

/* Does a number begin here? A "-" may also be that of "->". */
static bool at_number(const formula *p)
{
    return isdigit((unsigned char)*p->at) ||
           (*p->at == '-' && (isalnum((unsigned char)p->at[1])));
}

static const char *term(formula *p)
{
    char name[NAME_ROOM];
    int64_t list[MAX_LIST];
    skip_space(p);
    if (at_number(p)) {
        char *end;
        double value = strtod(p->at, &end);
        p->at = end;
        return number(p, value);
    }
    if (take(p, '[')) {
        int64_t n = take_list(p, list);
        return onnx_put_ints(p->w, n, list);
    }
    if (take(p, '#')) {
        list[0] = take_int(p);
        return onnx_put_ints(p->w, -1, list);
    }
    take_name(p, name);
    skip_space(p);
    return *p->at == '(' || *p->at == '<' ? call(p, name) : value_of(p, name);
}

/* One that is no call: nothing has been called so. */
static void name_value(formula *p, const char *value,
                       const formula_results *wanted)
{
    FS_ASSERT(wanted->n == 1);
    p->given = (formula_results){1, {value}};
    if (!wanted->name[0])
        return;
    onnx_line line = onnx_line_step(p->w, "Identity", value);
    ending(p, &line, wanted);
}

static void statement(formula *p)
{
    char names[IR_MAX_OUT][NAME_ROOM];
    formula_results wanted = {0};
    do {
        take_name(p, names[wanted.n]);
        int32_t out = index_of(names[wanted.n], "out");
        wanted.name[wanted.n++] =
            out >= 0 ? p->w->name[p->w->node->out[out]] : NULL;
    } while (take(p, ','));
    bool equals = take(p, '=');
    FS_ASSERT(equals);
    p->wanted = wanted;
    const char *value = term(p);
    if (p->wanted.n)
        name_value(p, value, &wanted);
    p->wanted.n = 0;
    for (int32_t i = 0; i < wanted.n; i++)
        bind(p, names[i], p->given.name[i]);
}

static void statements(formula *p, char end)
{
    do
        statement(p);
    while (take(p, ';') && (skip_space(p), *p->at != end));
    FS_ASSERT(*p->at == end);
    p->at += end != '\0';
}

bool onnx_out_formula(onnx_writer *w, const char *text)
{
    formula p = {.w = w, .at = text};
    statements(&p, '\0');
    return true;
}

static const char *cast(onnx_writer *w, const char *x, ir_dtype dtype,
                        const char *to)
{
    onnx_line line = onnx_line_step(w, "Cast", x);
    line.out[0] = to ? to : line.out[0];
    onnx_line_int(&line, "to", onnx_dtype_number(dtype));
    return onnx_write_line(w, &line);
}

/* Formulas are of one type: states of another one (ir/narrow_states.h) are cast
 * to it and, when their next values were made, back. */
bool onnx_out_update(onnx_writer *w, const char *text)
{
    const ir_node *node = w->node;
    const int32_t n = ir_op_table[node->op]->states;
    const ir_dtype own = onnx_out_tensor(w, 0)->dtype;
    const char *before[IR_MAX_OUT], *after[IR_MAX_OUT];
    for (int32_t k = 0; k < n; k++) {
        const char **in = &w->name[node->in[k + 2]];
        const char **out = &w->name[node->out[k + 1]];
        before[k] = *in;
        after[k] = *out;
        if (onnx_in_tensor(w, k + 2)->dtype != own)
            *in = cast(w, *in, own, NULL);
        if (onnx_out_tensor(w, k + 1)->dtype != own)
            *out = onnx_new_name(w, "wide");
    }
    onnx_out_formula(w, text);
    for (int32_t k = 0; k < n; k++) {
        w->name[node->in[k + 2]] = before[k];
        const char *made = w->name[node->out[k + 1]];
        w->name[node->out[k + 1]] = after[k];
        if (made != after[k])
            cast(w, made, onnx_out_tensor(w, k + 1)->dtype, after[k]);
    }
    return true;
}

void onnx_text_ints(fs_text *text, int32_t n, const int64_t *values)
{
    fs_text_add(text, "[");
    for (int32_t i = 0; i < n; i++)
        fs_text_add(text, "%s%lld", i ? ", " : "", (long long)values[i]);
    fs_text_add(text, "]");
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
    static const char *const affine[] = {"y", "Mul(y, in1)",
                                         "Add(Mul(y, in1), in2)"};
    (void)op;
    if (!w->node->i[0])
        return false;
    return onnx_out_formula(
        w, fs_printf(w->arena,
                     "out2 = Div(1, Sqrt(Add(RowMean(Mul(in0, in0)), f0)));"
                     "out1 = Mul(out2, 0); y = Mul(in0, out2); out0 = %s",
                     affine[w->node->n_in - 1]));
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
