/* Bodies of attention, its gradients and the rotation of its operands. The
 * scores stand in memory as a whole there, which the op spares. */
#include "config.h"
#include "onnx/writer.h"

/* One op at hand as text; q stands at input `q`, -1: there is no such input. */
typedef struct attending {
    onnx_writer *w;
    fs_text text;
    int32_t q, mask, lengths;
    int64_t b, heads, kv_heads, queries, keys;
} attending;

static attending attending_of(onnx_writer *w, int32_t q)
{
    const ir_node *node = w->node;
    const ir_shape *rows = &onnx_in_tensor(w, q)->shape;
    const ir_shape *v = &onnx_in_tensor(w, q + 2)->shape;
    attending a = {.w = w,
                   .text = {.arena = w->arena},
                   .q = q,
                   .mask = q + 3,
                   .lengths = node->i[4] ? node->n_in - 1 : -1,
                   .b = rows->dim[0],
                   .heads = rows->dim[1],
                   .kv_heads = v->dim[1],
                   .queries = rows->dim[2],
                   .keys = v->dim[2]};
    if (node->n_in <= a.mask || a.mask == a.lengths)
        a.mask = -1;
    return a;
}

static bool mask_hides(const attending *a)
{
    return a->mask >= 0 && onnx_in_tensor(a->w, a->mask)->dtype == IR_BOOL;
}

/* "k" and "v" with a head for each of q's. */
static void put_operands(attending *a)
{
    static const char names[] = "kv";
    const int64_t shared = a->w->node->i[1];
    for (int32_t i = 0; i < 2; i++) {
        fs_text_add(&a->text, "%c = in%d;", names[i], a->q + 1 + i);
        if (a->heads == a->kv_heads)
            continue;
        const ir_shape *x = &onnx_in_tensor(a->w, a->q + 1 + i)->shape;
        int64_t each[] = {x->dim[0], a->kv_heads, shared, x->dim[2], x->dim[3]};
        int64_t all[] = {x->dim[0], a->heads, x->dim[2], x->dim[3]};
        fs_text_add(&a->text, "%c = Reshape(Expand(Unsqueeze(%c, [2]), ",
                    names[i], names[i]);
        onnx_text_ints(&a->text, 5, each);
        fs_text_add(&a->text, "), ");
        onnx_text_ints(&a->text, 4, all);
        fs_text_add(&a->text, ");");
    }
}

/* "see": which keys causality and lengths leave; false: all, and no "see". */
static bool put_seen(attending *a)
{
    const int64_t *i = a->w->node->i;
    if (i[0])
        fs_text_add(&a->text,
                    "see = Greater(Trilu<upper=0>(Expand(1, [%lld, %lld]), "
                    "#%lld), 0);",
                    (long long)a->queries, (long long)a->keys, (long long)i[5]);
    if (a->lengths >= 0)
        fs_text_add(&a->text,
                    "held = Less(Range(#0, #%lld, #1), "
                    "Unsqueeze(Cast<to=7>(in%d), [1, 2, 3])); see = %s;",
                    (long long)a->keys, a->lengths,
                    i[0] ? "And(see, held)" : "held");
    return i[0] || a->lengths >= 0;
}

/* "s", masked; "slope" where they are capped. */
static void put_scores(attending *a)
{
    const ir_node *node = a->w->node;
    put_operands(a);
    fs_text_add(&a->text, "s = Mul(MatMul(in%d, %s), f0);", a->q,
                node->i[3] ? "k" : "Transpose<perm=[0, 1, 3, 2]>(k)");
    if (node->f[2] > 0)
        fs_text_add(&a->text, "t = Tanh(Div(s, f2)); s = Mul(t, f2);"
                              "slope = Sub(1, Mul(t, t));");
    if (mask_hides(a))
        fs_text_add(&a->text,
                    node->i[2] ? "s = Where(in%d, f1, s);"
                               : "s = Where(in%d, s, f1);",
                    a->mask);
    else if (a->mask >= 0)
        fs_text_add(&a->text, "s = Add(s, in%d);", a->mask);
}

/* A row that sees nothing is 0 / 0 here too. */
bool onnx_out_attention(onnx_writer *w, const char *op)
{
    (void)op;
    attending a = attending_of(w, 0);
    if (a.heads != a.kv_heads * w->node->i[1])
        return false;
    put_scores(&a);
    if (put_seen(&a))
        fs_text_add(&a.text, "top = ReduceMax<axes=[-1]>(Where(see, s, -inf));"
                             "e = Where(see, Exp(Sub(s, top)), 0);");
    else
        fs_text_add(&a.text, "top = ReduceMax<axes=[-1]>(s);"
                             "e = Exp(Sub(s, top));");
    fs_text_add(&a.text,
                "sum = RowSum(e); out0 = MatMul(Div(e, sum), v);"
                "out1 = Cast<to=%lld>(Concat<axis=-1>(top, Div(1, sum)))",
                (long long)onnx_dtype_number(onnx_out_tensor(w, 1)->dtype));
    return onnx_out_formula(w, a.text.at);
}

/* "p", the probabilities, and "ds", what the sums of scores and mask get. */
static void put_back(attending *a)
{
    put_scores(a);
    fs_text_add(&a->text,
                "rows = Cast<to=%lld>(in2);"
                "p = Mul(Exp(Sub(s, Slice(rows, [0], [1], [3]))),"
                "        Slice(rows, [1], [2], [3]));",
                (long long)onnx_dtype_number(onnx_in_tensor(a->w, 0)->dtype));
    if (put_seen(a))
        fs_text_add(&a->text, "p = Where(see, p, 0);");
    fs_text_add(&a->text, "dp = MatMul(in0, Transpose<perm=[0, 1, 3, 2]>(v));"
                          "ds = Mul(p, Sub(dp, RowSum(Mul(in0, in1))));");
}

/* Output i of all heads of q, summed over those that share one of k and v. */
static void end_shared(attending *a, int32_t i, const char *what)
{
    const int64_t shared = a->w->node->i[1];
    const ir_shape *y = &onnx_out_tensor(a->w, i)->shape;
    int64_t dim[] = {y->dim[0], a->kv_heads, shared, y->dim[2], y->dim[3]};
    if (shared == 1) {
        fs_text_add(&a->text, "out%d = %s;", i, what);
        return;
    }
    fs_text_add(&a->text,
                "out%d = ReduceSum<axes=[2], keepdims=0>(Reshape(%s, ", i,
                what);
    onnx_text_ints(&a->text, 5, dim);
    fs_text_add(&a->text, "));");
}

#define ACROSS(x) "Transpose<perm=[0, 1, 3, 2]>(" x ")"

bool onnx_out_attention_grad(onnx_writer *w, const char *op)
{
    (void)op;
    const ir_node *node = w->node;
    attending a = attending_of(w, 3);
    if (a.heads != a.kv_heads * node->i[1])
        return false;
    put_back(&a);
    if (mask_hides(&a))
        fs_text_add(&a.text,
                    node->i[2] ? "ds = Where(in%d, 0, ds);"
                               : "ds = Where(in%d, ds, 0);",
                    a.mask);
    if (node->f[2] > 0)
        fs_text_add(&a.text, "ds = Mul(ds, slope);");
    fs_text_add(&a.text, "ds = Mul(ds, f0); out0 = MatMul(ds, %s);",
                node->i[3] ? ACROSS("k") : "k");
    end_shared(&a, 1,
               node->i[3] ? "MatMul(" ACROSS("in3") ", ds)"
                          : "MatMul(" ACROSS("ds") ", in3)");
    end_shared(&a, 2, "MatMul(" ACROSS("p") ", in0)");
    return onnx_out_formula(w, a.text.at);
}

/* Summed over the axes along which the mask is stretched. */
bool onnx_out_attention_bias_grad(onnx_writer *w, const char *op)
{
    (void)op;
    attending a = attending_of(w, 3);
    const ir_shape *mask = &onnx_out_tensor(w, 0)->shape;
    const int64_t whole[] = {a.b, a.heads, a.queries, a.keys};
    int64_t axes[4];
    int32_t n = 0;
    if (a.heads != a.kv_heads * w->node->i[1])
        return false;
    put_back(&a);
    for (int32_t k = 0; k < 4; k++) {
        const int32_t own = k - (4 - mask->rank);
        if (whole[k] > 1 && (own < 0 || mask->dim[own] == 1))
            axes[n++] = k;
    }
    if (n) {
        fs_text_add(&a.text, "ds = ReduceSum<axes=");
        onnx_text_ints(&a.text, n, axes);
        fs_text_add(&a.text, ">(ds);");
    }
    fs_text_add(&a.text, "out0 = Reshape(ds, ");
    onnx_text_ints(&a.text, mask->rank, mask->dim);
    fs_text_add(&a.text, ")");
    return onnx_out_formula(w, a.text.at);
}

/* "NAMEa" and "NAMEb": the first and second of every pair in a row of n. */
static void put_pairs(fs_text *text, const char *name, const char *from,
                      int64_t n, bool interleaved)
{
    const long long half = (long long)n / 2;
    if (interleaved)
        fs_text_add(text,
                    "%sa = Slice(%s, [0], [%lld], [-1], [2]);"
                    "%sb = Slice(%s, [1], [%lld], [-1], [2]);",
                    name, from, 2 * half, name, from, 2 * half);
    else
        fs_text_add(text,
                    "%sa = Slice(%s, [0], [%lld], [-1]);"
                    "%sb = Slice(%s, [%lld], [%lld], [-1]);",
                    name, from, half, name, from, half, 2 * half);
}

/* a cos - b sin and b cos + a sin, each with the angle of what it becomes; of
 * the transposed map with that of what it comes from, the other way round. */
static void put_turn(fs_text *text, bool transposed)
{
    if (transposed)
        fs_text_add(text, "ya = Add(Mul(xa, ca), Mul(xb, sb));"
                          "yb = Sub(Mul(xb, cb), Mul(xa, sa));");
    else
        fs_text_add(text, "ya = Sub(Mul(xa, ca), Mul(xb, sa));"
                          "yb = Add(Mul(xb, cb), Mul(xa, sb));");
}

bool onnx_out_rotary(onnx_writer *w, const char *op)
{
    (void)op;
    const int64_t *i = w->node->i, n = i[1];
    const ir_shape *x = &onnx_in_tensor(w, 0)->shape;
    const ir_shape *table = &onnx_in_tensor(w, 1)->shape;
    const int64_t width = x->dim[x->rank - 1];
    fs_text text = {.arena = w->arena};
    put_pairs(&text, "x", "in0", n, i[0]);
    if (table->dim[table->rank - 1] == n) {
        put_pairs(&text, "c", "in1", n, i[0]);
        put_pairs(&text, "s", "in2", n, i[0]);
    } else {
        fs_text_add(&text, "ca = in1; cb = in1; sa = in2; sb = in2;");
    }
    put_turn(&text, i[2]);
    if (i[0]) {
        ir_shape turned = *x;
        turned.dim[x->rank - 1] = n;
        fs_text_add(&text, "y = Reshape(Concat<axis=-1>(Unsqueeze(ya, [-1]), "
                           "Unsqueeze(yb, [-1])), ");
        onnx_text_ints(&text, turned.rank, turned.dim);
        fs_text_add(&text, ");");
    } else {
        fs_text_add(&text, "y = Concat<axis=-1>(ya, yb);");
    }
    if (n < width)
        fs_text_add(&text,
                    "out0 = Concat<axis=-1>(y, Slice(in0, [%lld], [%lld], "
                    "[-1]))",
                    (long long)n, (long long)width);
    else
        fs_text_add(&text, "out0 = y");
    return onnx_out_formula(w, text.at);
}
