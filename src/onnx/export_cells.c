/* Bodies of recurrent layers and their gradients: a Scan over time, whose body
 * is a step of the cell. What needs no step before it, the gradients of R and
 * of the biases, stands behind the Scan. Cells as in ir/recurrent.h; below, T
 * stands for steps, B samples, G gates, H units. */
#include "config.h"
#include "ir/recurrent.h"
#include "onnx/writer.h"

#include <string.h>

typedef struct cells {
    const ir_node *node;
    fs_text text;
    ir_cell_sizes size;
    int64_t t, b, h;
    int32_t r, first, extra, lengths; /* inputs; lengths: -1 */
    bool variant, reverse;
} cells;

/* `r`: where R stands, first and extra behind it; y is a (T,B,H). */
static cells cells_of(onnx_writer *w, const ir_tensor *y, int32_t r,
                      int32_t lengths)
{
    const ir_node *node = w->node;
    return (cells){.node = node,
                   .text = {.arena = w->arena},
                   .size = ir_cell_of(node->i[IR_CELL_KIND]),
                   .t = y->shape.dim[0],
                   .b = y->shape.dim[1],
                   .h = y->shape.dim[2],
                   .r = r,
                   .first = r + 1,
                   .extra = r + 2,
                   .lengths = node->n_in > lengths ? lengths : -1,
                   .variant = node->i[IR_CELL_VARIANT] != 0,
                   .reverse = node->i[IR_CELL_REVERSE] != 0};
}

/* ---- activations ---- */

/* Of v, and the slope as a function of the value v. */
static const struct {
    const char *value, *slope;
} activations[IR_ACTIVATION_COUNT] = {
    [IR_ACTIVATION_SIGMOID] = {"Sigmoid(v)", "Mul(v, Sub(1, v))"},
    [IR_ACTIVATION_TANH] = {"Tanh(v)", "Sub(1, Mul(v, v))"},
    [IR_ACTIVATION_RELU] = {"Relu(v)", "Where(Greater(v, 0), 1, 0)"},
    [IR_ACTIVATION_AFFINE] = {"Add(Mul(alpha, v), beta)", "alpha"},
    [IR_ACTIVATION_LEAKY_RELU] = {"Where(Less(v, 0), Mul(alpha, v), v)",
                                  "Where(Less(v, 0), alpha, 1)"},
    [IR_ACTIVATION_SCALED_TANH] =
        {"Mul(alpha, Tanh(Mul(beta, v)))",
         "Mul(beta, Sub(alpha, Div(Mul(v, v), alpha)))"},
    [IR_ACTIVATION_HARD_SIGMOID] =
        {"Min(Max(Add(Mul(alpha, v), beta), 0), 1)",
         "Where(And(Greater(v, 0), Less(v, 1)), alpha, 0)"},
    [IR_ACTIVATION_ELU] = {"Where(Less(v, 0), Mul(alpha, Sub(Exp(v), 1)), v)",
                           "Where(Less(v, 0), Add(v, alpha), 1)"},
    [IR_ACTIVATION_SOFTSIGN] = {"Div(v, Add(1, Abs(v)))",
                                "Mul(Sub(1, Abs(v)), Sub(1, Abs(v)))"},
    [IR_ACTIVATION_SOFTPLUS] = {"Softplus(v)", "Sub(1, Exp(Neg(v)))"},
};

/* The output activation of an LSTM sees its state, which is not a gate. */
static bool clips(const cells *c, int32_t k)
{
    return k < 2 && c->node->f[IR_CELL_CLIP] > 0;
}

/* The numbers of activation k that a term names. */
static void put_numbers(cells *c, int32_t k, const char *in)
{
    if (strstr(in, "alpha"))
        fs_text_add(&c->text, "alpha = f%d;", 2 * k);
    if (strstr(in, "beta"))
        fs_text_add(&c->text, "beta = f%d;", 2 * k + 1);
}

/* to = activation k of what the term says. */
static void put_value(cells *c, const char *to, int32_t k, const char *what)
{
    const char *value = activations[c->node->i[IR_CELL_F + k]].value;
    put_numbers(c, k, value);
    fs_text_add(&c->text, "v = %s;", what);
    if (clips(c, k))
        fs_text_add(&c->text, "v = Min(Max(v, Neg(f6)), f6);");
    fs_text_add(&c->text, "%s = %s;", to, value);
}

/* d *= slope of activation k where it gave `value`. What was cut off has the
 * value of an end: all are monotone. */
static void put_slope(cells *c, const char *d, int32_t k, const char *value)
{
    const int64_t kind = c->node->i[IR_CELL_F + k];
    put_numbers(c, k, activations[kind].slope);
    if (clips(c, k))
        put_numbers(c, k, activations[kind].value);
    fs_text_add(&c->text, "v = %s; %s = Mul(%s, %s);", value, d, d,
                activations[kind].slope);
    if (!clips(c, k))
        return;
    fs_text_add(&c->text, "v = Neg(f6); low = %s; v = f6; high = %s;",
                activations[kind].value, activations[kind].value);
    fs_text_add(&c->text,
                "%s = Where(And(Greater(%s, low), Less(%s, high)), %s, 0);", d,
                value, value, d);
}

/* ---- what a Scan stands on ---- */

/* State k of `from`, (B,S,H), as (B,H). */
static void put_state(cells *c, const char *to, int32_t from, int32_t k)
{
    fs_text_add(&c->text, "%s = Gather<axis=1>(in%d, #%d);", to, from, k);
}

/* Rows of extra, (H): "e0" .. */
static void put_extra(cells *c)
{
    for (int32_t k = 0; k < c->size.extra; k++)
        fs_text_add(&c->text, "e%d = Gather<axis=0>(in%d, #%d);", k, c->extra,
                    k);
}

/* "ts" (T) and "long" (B,1): a sample has step t when t < long. */
static void put_lengths(cells *c)
{
    if (c->lengths < 0)
        return;
    fs_text_add(&c->text,
                "ts = Range(#0, #%lld, #1);"
                "long = Unsqueeze(Cast<to=7>(in%d), [1]);",
                (long long)c->t, c->lengths);
}

/* "OUTPUTS = Scan<..>(STATES, INPUTS[, ts]) {STATES0, .." up to the colon;
 * `backwards` in time, what it gives of each step too. */
typedef struct scan_head {
    const char *outputs, *states, *inputs, *formals, *gives;
    int32_t n_inputs, n_given;
    bool backwards;
} scan_head;

static void put_directions(cells *c, const char *name, int32_t n, bool back)
{
    fs_text_add(&c->text, ", %s=[", name);
    for (int32_t k = 0; k < n; k++)
        fs_text_add(&c->text, "%s%d", k ? ", " : "", back);
    fs_text_add(&c->text, "]");
}

static void put_scan(cells *c, const scan_head *head)
{
    const bool times = c->lengths >= 0;
    const int32_t n = head->n_inputs + times;
    fs_text_add(&c->text, "%s = Scan<num_scan_inputs=%d", head->outputs, n);
    put_directions(c, "scan_input_directions", n, head->backwards);
    put_directions(c, "scan_output_directions", head->n_given, head->backwards);
    fs_text_add(&c->text, ">(%s, %s%s) {%s%s -> %s:", head->states,
                head->inputs, times ? ", ts" : "", head->formals,
                times ? ", time" : "", head->gives);
    if (times)
        fs_text_add(&c->text, "on = Less(time, long);");
}

/* to = made in samples that have this step, else what stays. */
static void put_kept(cells *c, const char *to, const char *made,
                     const char *stays)
{
    if (c->lengths >= 0)
        fs_text_add(&c->text, "%s = Where(on, %s, %s);", to, made, stays);
    else
        fs_text_add(&c->text, "%s = Identity(%s);", to, made);
}

/* to = rows (B,H) put together as (B,n,H), 0 in samples without this step. */
static void put_rows(cells *c, const char *to, const char *const *rows,
                     int32_t n)
{
    fs_text_add(&c->text, "rows = Concat<axis=1>(");
    for (int32_t k = 0; k < n; k++)
        fs_text_add(&c->text, "%sUnsqueeze(%s, [1])", k ? ", " : "", rows[k]);
    if (c->lengths >= 0)
        fs_text_add(&c->text, "); %s = Where(Unsqueeze(on, [2]), rows, 0);",
                    to);
    else
        fs_text_add(&c->text, "); %s = Identity(rows);", to);
}

/* Row k of x (B,.,H). */
static void put_row(cells *c, const char *to, const char *x, int32_t k)
{
    fs_text_add(&c->text, "%s = Gather<axis=1>(%s, #%d);", to, x, k);
}

/* to = n gates of R from `first` on as (H, n H): what h is multiplied with. */
static void put_across(cells *c, const char *to, int32_t first, int32_t n)
{
    fs_text_add(&c->text,
                "%s = Reshape(Transpose<perm=[2, 0, 1]>(Slice(in%d, [%d], "
                "[%d], [0])), [%lld, %lld]);",
                to, c->r, first, first + n, (long long)c->h,
                (long long)(n * c->h));
}

/* to = the same as (n H, H): what gradients are multiplied with. */
static void put_down(cells *c, const char *to, int32_t first, int32_t n)
{
    fs_text_add(&c->text,
                "%s = Reshape(Slice(in%d, [%d], [%d], [0]), [%lld, %lld]);", to,
                c->r, first, first + n, (long long)(n * c->h), (long long)c->h);
}

/* ---- forward ---- */

/* "a": what n gates of x get with h's product on it. */
static void put_gates(cells *c, int32_t n)
{
    fs_text_add(&c->text,
                "a = Add(Slice(x, [0], [%d], [1]), "
                "Reshape(MatMul(h0, early), [%lld, %d, %lld]));",
                n, (long long)c->b, n, (long long)c->h);
}

static void put_rnn(cells *c)
{
    static const char *const kept[] = {"y"};
    put_gates(c, 1);
    put_row(c, "a", "a", 0);
    put_value(c, "y", 0, "Add(a, e0)");
    put_rows(c, "kept", kept, 1);
}

/* Gates i o f g: c = f c + i g, h = o act(c). */
static void put_lstm(cells *c)
{
    static const char *const names[] = {"gi", "go", "gf", "gg"};
    static const char *const kept[] = {"i", "o", "f", "g", "c"};
    put_gates(c, 4);
    for (int32_t k = 0; k < 4; k++)
        put_row(c, names[k], "a", k);
    put_value(c, "i", 0, "Add(gi, Mul(e0, c0))");
    if (c->variant)
        fs_text_add(&c->text, "f = Sub(1, i);");
    else
        put_value(c, "f", 0, "Add(gf, Mul(e2, c0))");
    put_value(c, "g", 1, "gg");
    fs_text_add(&c->text, "c = Add(Mul(f, c0), Mul(i, g));");
    put_value(c, "o", 0, "Add(go, Mul(e1, c))");
    put_value(c, "y", 2, "c");
    fs_text_add(&c->text, "y = Mul(o, y);");
    put_rows(c, "kept", kept, 5);
    put_kept(c, "c1", "c", "c0");
}

/* Gates z r n: h = (1 - z) n + z h. */
static void put_gru(cells *c)
{
    static const char *const kept[] = {"z", "r", "n", "q"};
    put_gates(c, 2);
    put_row(c, "az", "a", 0);
    put_row(c, "ar", "a", 1);
    put_row(c, "an", "x", 2);
    put_value(c, "z", 0, "az");
    put_value(c, "r", 0, "ar");
    if (c->variant) {
        fs_text_add(&c->text, "q = Add(MatMul(h0, late), e0);");
        put_value(c, "n", 1, "Add(an, Mul(r, q))");
    } else {
        fs_text_add(&c->text, "q = Mul(r, h0);");
        put_value(c, "n", 1, "Add(Add(an, MatMul(q, late)), e0)");
    }
    fs_text_add(&c->text, "y = Add(Mul(Sub(1, z), n), Mul(z, h0));");
    put_rows(c, "kept", kept, 4);
}

/* What stands before the Scan. */
static void open_forward(cells *c)
{
    const bool gru = c->node->i[IR_CELL_KIND] == IR_CELL_GRU;
    put_lengths(c);
    put_extra(c);
    put_state(c, "hs", c->first, 0);
    if (c->size.states > 1)
        put_state(c, "cs", c->first, 1);
    put_across(c, "early", 0, gru ? 2 : c->size.gates);
    if (gru)
        put_across(c, "late", 2, 1);
}

bool onnx_out_recurrent(onnx_writer *w, const char *op)
{
    (void)op;
    cells c = cells_of(w, onnx_out_tensor(w, 0), 1, 4);
    const bool lstm = c.size.states > 1;
    scan_head head = {.outputs = lstm ? "hs, cs, out0, out2" : "hs, out0, out2",
                      .states = lstm ? "hs, cs" : "hs",
                      .inputs = "in0",
                      .formals = lstm ? "h0, c0, x" : "h0, x",
                      .gives = lstm ? "h1, c1, y1, kept" : "h1, y1, kept",
                      .n_inputs = 1,
                      .n_given = 2,
                      .backwards = c.reverse};
    open_forward(&c);
    put_scan(&c, &head);
    (lstm                                     ? put_lstm
     : c.node->i[IR_CELL_KIND] == IR_CELL_GRU ? put_gru
                                              : put_rnn)(&c);
    put_kept(&c, "h1", "y", "h0");
    put_kept(&c, "y1", "y", "0");
    fs_text_add(&c.text, "};out1 = %s",
                lstm ? "Concat<axis=1>(Unsqueeze(hs, [1]), Unsqueeze(cs, [1]))"
                     : "Unsqueeze(hs, [1])");
    return onnx_out_formula(w, c.text.at);
}

/* ---- backward ---- */

enum { BACK_DY, BACK_DLAST, BACK_R, BACK_Y = 5, BACK_SAVED, BACK_LENGTHS };

/* to = state k before each step, (T,B,H), from those after all steps. */
static void put_before(cells *c, const char *to, const char *after, int32_t k)
{
    fs_text_add(&c->text,
                "one = Transpose<perm=[1, 0, 2]>(Slice(in%d, [%d], [%d], "
                "[1])); %s = one;",
                c->first, k, k + 1, to);
    if (c->t > 1 && c->reverse)
        fs_text_add(&c->text,
                    "%s = Concat<axis=0>(Slice(%s, [1], [%lld], [0]), one);",
                    to, after, (long long)c->t);
    else if (c->t > 1)
        fs_text_add(&c->text,
                    "%s = Concat<axis=0>(one, Slice(%s, [0], [%lld], [0]));",
                    to, after, (long long)c->t - 1);
    if (c->reverse && c->lengths >= 0)
        fs_text_add(&c->text,
                    "last = Equal(Add(Unsqueeze(ts, [1]), [1]), "
                    "Transpose<perm=[1, 0]>(long));"
                    "%s = Where(Unsqueeze(last, [2]), one, %s);",
                    to, to);
}

static void put_rnn_back(cells *c)
{
    static const char *const rows[] = {"da"};
    put_row(c, "y", "a", 0);
    fs_text_add(&c->text, "da = Identity(dy1);");
    put_slope(c, "da", 0, "y");
    fs_text_add(&c->text, "dh = MatMul(da, all);");
    put_rows(c, "d", rows, 1);
}

/* From "dc" the gradients of i, f and g, and of the state before. */
static void put_lstm_gates(cells *c)
{
    fs_text_add(&c->text, "di = Mul(dc, %s); dg = Mul(dc, i);",
                c->variant ? "Sub(g, cb)" : "g");
    fs_text_add(&c->text, "df = Mul(dc, %s);", c->variant ? "0" : "cb");
    put_slope(c, "di", 0, "i");
    if (!c->variant)
        put_slope(c, "df", 0, "f");
    put_slope(c, "dg", 1, "g");
    fs_text_add(&c->text, "dc = Add(Mul(dc, f), Add(Mul(di, e0), "
                          "Mul(df, e2)));");
}

static void put_lstm_back(cells *c)
{
    static const char *const saved[] = {"i", "o", "f", "g", "c"};
    static const char *const rows[] = {"di", "do", "df", "dg"};
    for (int32_t k = 0; k < 5; k++)
        put_row(c, saved[k], "a", k);
    put_value(c, "hc", 2, "c");
    fs_text_add(&c->text, "do = Mul(dy1, hc); dhc = Mul(dy1, o);");
    put_slope(c, "do", 0, "o");
    put_slope(c, "dhc", 2, "hc");
    fs_text_add(&c->text, "dc = Add(Add(dc0, dhc), Mul(do, e1));");
    put_lstm_gates(c);
    fs_text_add(&c->text, "dh = MatMul(Concat<axis=1>(di, do, df, dg), all);");
    put_rows(c, "d", rows, 4);
    put_kept(c, "dc1", "dc", "dc0");
}

static void put_gru_back(cells *c)
{
    static const char *const saved[] = {"z", "r", "n", "q"};
    static const char *const rows[] = {"dz", "dr", "dn"};
    for (int32_t k = 0; k < 4; k++)
        put_row(c, saved[k], "a", k);
    fs_text_add(&c->text, "dz = Mul(dy1, Sub(hb, n));"
                          "dn = Mul(dy1, Sub(1, z)); dh = Mul(dy1, z);");
    put_slope(c, "dz", 0, "z");
    put_slope(c, "dn", 1, "n");
    if (c->variant)
        fs_text_add(&c->text, "dr = Mul(dn, q);"
                              "dh = Add(dh, MatMul(Mul(dn, r), late));");
    else
        fs_text_add(&c->text, "dq = MatMul(dn, late); dr = Mul(dq, hb);"
                              "dh = Add(dh, Mul(dq, r));");
    put_slope(c, "dr", 0, "r");
    fs_text_add(&c->text, "dh = Add(dh, MatMul(Concat<axis=1>(dz, dr), all));");
    put_rows(c, "d", rows, 3);
}

/* to (n,H,H) = what n gates from `first` on get of R, from rows (T,B,n,H) and
 * (T,B,H). */
static void put_weights(cells *c, const char *to, int32_t n, const char *rows,
                        const char *by)
{
    const long long all = (long long)(c->t * c->b), h = (long long)c->h;
    fs_text_add(&c->text,
                "%s = Reshape(MatMul(Transpose<perm=[1, 0]>(Reshape(%s, "
                "[%lld, %lld])), Reshape(%s, [%lld, %lld])), [%d, %lld, "
                "%lld]);",
                to, rows, all, n * h, by, all, h, n, h, h);
}

/* Row k of (T,B,.,H). */
static void put_steps(cells *c, const char *to, const char *x, int32_t k)
{
    fs_text_add(&c->text, "%s = Gather<axis=2>(%s, #%d);", to, x, k);
}

#define SUMMED(x) "ReduceSum<axes=[0, 1], keepdims=0>(" x ")"

/* dR and dextra of all steps. */
static void end_gru(cells *c)
{
    put_steps(c, "dn", "out0", 2);
    put_steps(c, "r", "in6", 1);
    put_steps(c, "q", "in6", 3);
    if (c->variant)
        fs_text_add(&c->text, "dn = Mul(dn, r);");
    put_weights(c, "w2", 1, "dn", c->variant ? "hb" : "q");
    put_weights(c, "w1", 2, "Slice(out0, [0], [2], [2])", "hb");
    fs_text_add(&c->text, "out1 = Concat<axis=0>(w1, w2);"
                          "out3 = Unsqueeze(" SUMMED("dn") ", [0]);");
}

static void end_lstm(cells *c)
{
    static const char *const by[] = {"cb", "c", "cb"};
    put_weights(c, "out1", 4, "out0", "hb");
    put_steps(c, "c", "in6", 4);
    for (int32_t k = 0; k < 3; k++)
        fs_text_add(&c->text,
                    "x%d = " SUMMED("Mul(Gather<axis=2>(out0, #%d), %s)") ";",
                    k, k, by[k]);
    fs_text_add(&c->text, "out3 = Concat<axis=0>(Unsqueeze(x0, [0]), "
                          "Unsqueeze(x1, [0]), Unsqueeze(x2, [0]));");
}

static void end_rnn(cells *c)
{
    put_weights(c, "out1", 1, "out0", "hb");
    fs_text_add(&c->text, "out3 = " SUMMED("out0") ";");
}

static void open_back(cells *c)
{
    const int64_t kind = c->node->i[IR_CELL_KIND];
    put_lengths(c);
    put_extra(c);
    put_state(c, "hs", BACK_DLAST, 0);
    put_down(c, "all", 0, kind == IR_CELL_GRU ? 2 : c->size.gates);
    if (kind == IR_CELL_GRU)
        put_down(c, "late", 2, 1);
    put_before(c, "hb", "in5", 0);
    if (kind != IR_CELL_LSTM)
        return;
    put_state(c, "cs", BACK_DLAST, 1);
    put_steps(c, "c", "in6", 4);
    put_before(c, "cb", "c", 1);
}

/* By cell: what is written within the Scan and behind it. */
static const struct {
    void (*step)(cells *c), (*end)(cells *c);
    scan_head head;
} backs[] = {
    [IR_CELL_RNN] = {put_rnn_back,
                     end_rnn,
                     {"hs, out0", "hs", "in0, in6", "dh0, dy, a", "dh1, d", 2,
                      1, false}},
    [IR_CELL_GRU] = {put_gru_back,
                     end_gru,
                     {"hs, out0", "hs", "in0, in6, hb", "dh0, dy, a, hb",
                      "dh1, d", 3, 1, false}},
    [IR_CELL_LSTM] = {put_lstm_back,
                      end_lstm,
                      {"hs, cs, out0", "hs, cs", "in0, in6, cb",
                       "dh0, dc0, dy, a, cb", "dh1, dc1, d", 3, 1, false}},
};

bool onnx_out_recurrent_grad(onnx_writer *w, const char *op)
{
    (void)op;
    const int64_t kind = w->node->i[IR_CELL_KIND];
    cells c = cells_of(w, onnx_in_tensor(w, BACK_DY), BACK_R, BACK_LENGTHS);
    scan_head head = backs[kind].head;
    head.backwards = !c.reverse;
    open_back(&c);
    put_scan(&c, &head);
    fs_text_add(&c.text, "dy1 = Add(dh0, dy);");
    backs[kind].step(&c);
    put_kept(&c, "dh1", "dh", "dh0");
    fs_text_add(&c.text, "};out2 = %s;",
                kind == IR_CELL_LSTM
                    ? "Concat<axis=1>(Unsqueeze(hs, [1]), Unsqueeze(cs, [1]))"
                    : "Unsqueeze(hs, [1])");
    backs[kind].end(&c);
    return onnx_out_formula(w, c.text.at);
}
