/* Bodies of what reads or adds at places that are computed: the place of a
 * window's largest, weighted sums of places, samples of planes. */
#include "config.h"
#include "ir/window.h"
#include "onnx/writer.h"

#include <stdio.h>

/* ---- products ---- */

/* The product of all others is the product over the element; where there are
 * zeros, of what is not zero. */
bool onnx_out_reduce_prod_grad(onnx_writer *w, const char *op)
{
    (void)op;
    int64_t axes[IR_MAX_RANK];
    int32_t n = 0;
    fs_text text = {.arena = w->arena};
    for (int32_t i = 0; i < IR_MAX_RANK; i++)
        if (w->node->i[0] >> i & 1)
            axes[n++] = i;
    if (n == 0)
        return onnx_out_formula(w, "out0 = in0");
    fs_text_add(&text, "zero = Where(Equal(in1, 0), 1, 0);"
                       "x = Add(in1, zero); zeros = ReduceSum<axes=");
    onnx_text_ints(&text, n, axes);
    fs_text_add(&text, ">(zero); all = ReduceProd<axes=");
    onnx_text_ints(&text, n, axes);
    fs_text_add(&text, ">(x); out0 = Where(Equal(zeros, zero), "
                       "Div(Mul(in0, all), x), 0)");
    return onnx_out_formula(w, text.at);
}

/* ---- windows ---- */

/* MaxPool counts through the whole tensor, the op within the plane. */
bool onnx_out_max_pool_index(onnx_writer *w, const char *op)
{
    (void)op;
    const int64_t *i = w->node->i;
    const ir_shape *x = &onnx_in_tensor(w, 0)->shape;
    const int32_t n = x->rank - 2;
    int64_t pads[2 * IR_MAX_SPACE], dilation[IR_MAX_SPACE], plane = 1;
    fs_text text = {.arena = w->arena};
    for (int32_t k = 0; k < n; k++) {
        const int64_t said = i[IR_WINDOW_DILATION + k];
        pads[k] = i[IR_WINDOW_BEFORE + k];
        pads[n + k] = i[IR_WINDOW_AFTER + k];
        dilation[k] = said ? said : 1;
        plane *= x->dim[2 + k];
    }
    fs_text_add(&text, "y, at = MaxPool<pads=");
    onnx_text_ints(&text, 2 * n, pads);
    fs_text_add(&text, ", strides=");
    onnx_text_ints(&text, n, i + IR_WINDOW_STRIDE);
    fs_text_add(&text, ", dilations=");
    onnx_text_ints(&text, n, dilation);
    fs_text_add(&text, ", kernel_shape=");
    onnx_text_ints(&text, n, i + IR_WINDOW_SIZE);
    fs_text_add(&text,
                ", ceil_mode=%d, storage_order=%d>(in0); out0 = Mod(at, "
                "[%lld])",
                (i[IR_WINDOW_MODE] & IR_WINDOW_CEIL) != 0,
                (i[IR_WINDOW_MODE] & IR_WINDOW_BY_COLUMN) != 0,
                (long long)plane);
    return onnx_out_formula(w, text.at);
}

/* ---- elements at places apart ---- */

/* By steps of more than 1, or backwards: zeros after each element, then all
 * turned round, then what lies around it. */
bool onnx_out_pad_apart(onnx_writer *w, const char *op)
{
    (void)op;
    const int64_t *i = w->node->i;
    const ir_shape *x = &onnx_in_tensor(w, 0)->shape;
    const ir_shape *y = &onnx_out_tensor(w, 0)->shape;
    const int64_t n = x->dim[i[0]], step = i[3] < 0 ? -i[3] : i[3];
    const int64_t apart = n > 1 ? step : 1, last = (n - 1) * apart;
    int64_t rows = 1;
    fs_text text = {.arena = w->arena};
    for (int32_t k = 0; k < i[0]; k++)
        rows *= x->dim[k];
    fs_text_add(&text,
                "x = Reshape(in0, [%lld, %lld, 1, -1]);"
                "x = Pad(x, [0, 0, 0, 0, 0, 0, %lld, 0]);"
                "x = Reshape(x, [%lld, %lld, -1]);",
                (long long)rows, (long long)n, (long long)apart - 1,
                (long long)rows, (long long)(last + apart));
    if (i[3] < 0)
        fs_text_add(&text, "x = Slice(x, [%lld], [%lld], [1], [-1]);",
                    (long long)last, (long long)INT64_MIN + 1);
    else
        fs_text_add(&text, "x = Slice(x, [0], [%lld], [1]);",
                    (long long)last + 1);
    fs_text_add(&text, "out0 = Reshape(Pad(x, [0, %lld, 0, 0, %lld, 0]), ",
                (long long)i[1], (long long)i[2]);
    onnx_text_ints(&text, y->rank, y->dim);
    fs_text_add(&text, ")");
    return onnx_out_formula(w, text.at);
}

/* The operator has no batch axes: the sample's number becomes a position. */
bool onnx_out_scatter_batches(onnx_writer *w, const char *op)
{
    (void)op;
    static const char *const reduction[] = {"none", "add", "mul", "min", "max"};
    const int64_t n = w->node->i[0];
    ir_shape one = onnx_in_tensor(w, 1)->shape;
    fs_text text = {.arena = w->arena}, all = text;
    one.dim[one.rank - 1] = 1;
    for (int32_t k = 0; k < n; k++) {
        int64_t line[IR_MAX_RANK];
        for (int32_t j = 0; j < one.rank; j++)
            line[j] = j == k ? one.dim[k] : 1;
        fs_text_add(&text, "s%d = Expand(Reshape(Range(#0, #%lld, #1), ", k,
                    (long long)one.dim[k]);
        onnx_text_ints(&text, one.rank, line);
        fs_text_add(&text, "), ");
        onnx_text_ints(&text, one.rank, one.dim);
        fs_text_add(&text, ");");
        fs_text_add(&all, "s%d, ", k);
    }
    fs_text_add(&text,
                "at = Concat<axis=-1>(%sCast<to=7>(in1));"
                "out0 = ScatterND<reduction=%s>(in0, at, in2)",
                all.at, reduction[w->node->i[9]]);
    return onnx_out_formula(w, text.at);
}

/* ---- weighted sums of places on one axis ---- */

static void put_ones(fs_text *text, int32_t n)
{
    for (int32_t k = 0; k < n; k++)
        fs_text_add(text, ", 1");
}

bool onnx_out_resample(onnx_writer *w, const char *op)
{
    (void)op;
    const ir_shape *places = &onnx_in_tensor(w, 1)->shape;
    const int32_t axis = (int32_t)w->node->i[0];
    fs_text text = {.arena = w->arena};
    fs_text_add(&text, "by = Reshape(in2, [%lld, %lld",
                (long long)places->dim[0], (long long)places->dim[1]);
    put_ones(&text, onnx_in_tensor(w, 0)->shape.rank - 1 - axis);
    fs_text_add(&text,
                "]); x = Mul(Gather<axis=%d>(in0, in1), by);"
                "out0 = ReduceSum<axes=[%d], keepdims=0>(x)",
                axis, axis + 1);
    return onnx_out_formula(w, text.at);
}

/* With the axis in front, each gradient is added to the places it came from. */
bool onnx_out_resample_grad(onnx_writer *w, const char *op)
{
    (void)op;
    const ir_shape *dx = &onnx_out_tensor(w, 0)->shape;
    const ir_shape *places = &onnx_in_tensor(w, 1)->shape;
    const int32_t axis = (int32_t)w->node->i[0];
    int64_t there[IR_MAX_RANK] = {axis}, back[IR_MAX_RANK];
    int64_t dim[IR_MAX_RANK] = {dx->dim[axis]};
    fs_text text = {.arena = w->arena};
    for (int32_t k = 0, n = 1; k < dx->rank; k++) {
        back[k] = k < axis ? k + 1 : k == axis ? 0 : k;
        if (k == axis)
            continue;
        dim[n] = dx->dim[k];
        there[n++] = k;
    }
    fs_text_add(&text, "by = Reshape(in2, [%lld, %lld",
                (long long)places->dim[0], (long long)places->dim[1]);
    put_ones(&text, dx->rank - 1);
    fs_text_add(&text, "]); dy = Transpose<perm=");
    onnx_text_ints(&text, dx->rank, there);
    fs_text_add(&text, ">(in0); none = Expand(0, ");
    onnx_text_ints(&text, dx->rank, dim);
    fs_text_add(&text, "); at = Unsqueeze(Cast<to=7>(in1), [-1]);"
                       "dx = ScatterND<reduction=add>(none, at, "
                       "Mul(Unsqueeze(dy, [1]), by)); out0 = Transpose<perm=");
    onnx_text_ints(&text, dx->rank, back);
    fs_text_add(&text, ">(dx)");
    return onnx_out_formula(w, text.at);
}

/* ---- samples of planes ---- */

enum { NEAREST, LINEAR, CUBIC };
enum { ZEROS, BORDER, REFLECTION };

/* Planes (N,C,L..) read at P places per sample, each of M neighbours. */
typedef struct sampling {
    const int64_t *i;
    int64_t n, channels, plane, places;
    int32_t axes, taps, neighbours; /* taps: neighbours on one axis */
    const int64_t *length;
    fs_text text;
} sampling;

static sampling sampling_of(onnx_writer *w, const ir_tensor *x, int32_t grid)
{
    const ir_shape *at = &onnx_in_tensor(w, grid)->shape;
    sampling s = {.i = w->node->i,
                  .n = x->shape.dim[0],
                  .channels = x->shape.dim[1],
                  .plane = 1,
                  .places = 1,
                  .axes = x->shape.rank - 2,
                  .neighbours = 1,
                  .length = x->shape.dim + 2,
                  .text = {.arena = w->arena}};
    s.taps = 1 << s.i[0];
    for (int32_t k = 0; k < s.axes; k++) {
        s.plane *= s.length[k];
        s.places *= at->dim[1 + k];
        s.neighbours *= s.taps;
    }
    fs_text_add(&s.text, "grid = Reshape(in%d, [%lld, %lld, %d]);", grid,
                (long long)s.n, (long long)s.places, s.axes);
    return s;
}

/* "at", the elements around "x" of an endless axis (N,P,M'), and their "wt"
 * and "sl", the weight's slope by x. */
static void put_taps(sampling *s)
{
    static const char *const texts[] = {
        [NEAREST] = "at = Cast<to=7>(Round(x)); sl = Mul(x, 0);"
                    "wt = Add(sl, 1);",
        [LINEAR] = "low = Floor(x); d = Sub(x, low);"
                   "at = Add(Cast<to=7>(low), [0, 1]);"
                   "wt = Concat<axis=-1>(Sub(1, d), d);"
                   "one = Add(Mul(d, 0), 1);"
                   "sl = Concat<axis=-1>(Neg(one), one);",
        /* Cubic convolution (Keys 1981), a = -3/4, of distances 1 + d, d,
         * 1 - d and 2 - d. */
        [CUBIC] =
            "low = Floor(x); d = Sub(x, low); e = Sub(1, d);"
            "at = Add(Cast<to=7>(low), [-1, 0, 1, 2]);"
            "near = Concat<axis=-1>(d, e); far = Add(near, 1);"
            "nw = Add(Mul(Mul(Sub(Mul(near, 1.25), 2.25), near), near), 1);"
            "ns = Mul(Sub(Mul(near, 3.75), 4.5), near);"
            "fw = Mul(Add(Mul(Add(Mul(far, -0.75), 3.75), far), -6), far);"
            "fw = Add(fw, 3);"
            "fs = Add(Mul(Add(Mul(far, -2.25), 7.5), far), -6);"
            "wt = Concat<axis=-1>(Slice(fw, [0], [1], [2]), nw,"
            "                     Slice(fw, [1], [2], [2]));"
            "sl = Concat<axis=-1>(Slice(fs, [0], [1], [2]),"
            "    Slice(ns, [0], [1], [2]), Neg(Slice(ns, [1], [2], [2])),"
            "    Neg(Slice(fs, [1], [2], [2])));",
    };
    fs_text_add(&s->text, "%s", texts[s->i[0]]);
}

/* "at" within an axis of length n. Mirrors stand in the outer elements when
 * corners are aligned, else at their outer edges. */
static void put_within(sampling *s, int64_t n)
{
    const bool align = s->i[2] != 0;
    const long long period = align ? 2 * n - 2 : 2 * n, last = n - 1;
    if (s->i[1] == REFLECTION && period > 0) {
        fs_text_add(&s->text,
                    "at = Mod(at, [%lld]);"
                    "at = Where(Less(at, [%lld]), at, Sub([%lld], at));",
                    period, (long long)n, period - !align);
        return;
    }
    if (s->i[1] == ZEROS)
        fs_text_add(&s->text,
                    "in = And(GreaterOrEqual(at, [0]), "
                    "LessOrEqual(at, [%lld]));"
                    "wt = Where(in, wt, 0); sl = Where(in, sl, 0);",
                    last);
    fs_text_add(&s->text, "at = Min(Max(at, [0]), [%lld]);", last);
}

/* Number `j` of the grid, of the plane's axis k: "at", "wt" and "sl", with the
 * slope by the number itself; numbers far off, and what is none, are cut. */
static void put_axis(sampling *s, int32_t k)
{
    const int64_t n = s->length[k];
    const int32_t j = s->axes - 1 - k;
    const double unit = s->i[2] ? (double)(n - 1) / 2 : (double)n / 2;
    fs_text_add(&s->text,
                "x = Mul(Add(Slice(grid, [%d], [%d], [2]), 1), %.17g);"
                "x = Max(Min(Sub(x, %s), 1000000000), -1000000000);",
                j, j + 1, unit, s->i[2] ? "0" : "0.5");
    put_taps(s);
    put_within(s, n);
    fs_text_add(&s->text, "sl = Mul(sl, %.17g);", unit);
}

/* "a" times the axis's "b", every neighbour with every: (N,P,M). */
static void put_product(sampling *s, const char *to, const char *b, int32_t m)
{
    fs_text_add(&s->text,
                "%s = Reshape(Mul(Unsqueeze(%s, [3]), Unsqueeze(%s, [2])), "
                "[-1, %lld, %d]);",
                to, to, b, (long long)s->places, m);
}

/* The neighbours of all places: "all", where they stand in the plane, "weight",
 * and "by0".. their slopes by the grid's numbers, each (N,P,M). */
static void put_neighbours(sampling *s, bool slopes)
{
    int32_t m = 1;
    fs_text_add(&s->text,
                "all = Expand([0], [%lld, %lld, 1]);"
                "weight = Expand(1, [%lld, %lld, 1]);",
                (long long)s->n, (long long)s->places, (long long)s->n,
                (long long)s->places);
    for (int32_t j = 0; slopes && j < s->axes; j++)
        fs_text_add(&s->text, "by%d = weight;", j);
    for (int32_t k = 0; k < s->axes; k++) {
        m *= s->taps;
        put_axis(s, k);
        fs_text_add(&s->text,
                    "all = Reshape(Add(Mul(Unsqueeze(all, [3]), [%lld]), "
                    "Unsqueeze(at, [2])), [-1, %lld, %d]);",
                    (long long)s->length[k], (long long)s->places, m);
        put_product(s, "weight", "wt", m);
        for (int32_t j = 0; slopes && j < s->axes; j++) {
            char name[16];
            snprintf(name, sizeof name, "by%d", j);
            put_product(s, name, j == s->axes - 1 - k ? "sl" : "wt", m);
        }
    }
}

/* "ids" (N,C,P M): "all" for each channel. */
static void put_ids(sampling *s)
{
    const long long wide = (long long)s->places * s->neighbours;
    fs_text_add(&s->text,
                "ids = Expand(Reshape(all, [%lld, 1, %lld]), "
                "[%lld, %lld, %lld]);",
                (long long)s->n, wide, (long long)s->n, (long long)s->channels,
                wide);
}

/* "near" (N,C,P,M): what stands in the planes of input `x` there. */
static void put_near(sampling *s, int32_t x)
{
    put_ids(s);
    fs_text_add(&s->text,
                "near = GatherElements<axis=2>(Reshape(in%d, "
                "[%lld, %lld, %lld]), ids);"
                "near = Reshape(near, [%lld, %lld, %lld, %d]);",
                x, (long long)s->n, (long long)s->channels, (long long)s->plane,
                (long long)s->n, (long long)s->channels, (long long)s->places,
                s->neighbours);
}

static bool end_sampling(onnx_writer *w, sampling *s, const char *what)
{
    const ir_shape *y = &onnx_out_tensor(w, 0)->shape;
    fs_text_add(&s->text, "out0 = Reshape(%s, ", what);
    onnx_text_ints(&s->text, y->rank, y->dim);
    fs_text_add(&s->text, ")");
    return onnx_out_formula(w, s->text.at);
}

bool onnx_out_sample(onnx_writer *w, const char *op)
{
    (void)op;
    sampling s = sampling_of(w, onnx_in_tensor(w, 0), 1);
    put_neighbours(&s, false);
    put_near(&s, 0);
    return end_sampling(w, &s,
                        "ReduceSum<axes=[3]>(Mul(near, "
                        "Unsqueeze(weight, [1])))");
}

/* "dy" (N,C,P,1) */
static void put_dy(sampling *s)
{
    fs_text_add(&s->text, "dy = Reshape(in0, [%lld, %lld, %lld, 1]);",
                (long long)s->n, (long long)s->channels, (long long)s->places);
}

bool onnx_out_sample_data_grad(onnx_writer *w, const char *op)
{
    (void)op;
    sampling s = sampling_of(w, onnx_out_tensor(w, 0), 1);
    put_neighbours(&s, false);
    put_ids(&s);
    put_dy(&s);
    fs_text_add(&s.text,
                "parts = Reshape(Mul(dy, Unsqueeze(weight, [1])), "
                "[%lld, %lld, %lld]);"
                "dx = ScatterElements<axis=2, reduction=add>(Expand(0, "
                "[%lld, %lld, %lld]), ids, parts);",
                (long long)s.n, (long long)s.channels,
                (long long)s.places * s.neighbours, (long long)s.n,
                (long long)s.channels, (long long)s.plane);
    return end_sampling(w, &s, "dx");
}

bool onnx_out_sample_grid_grad(onnx_writer *w, const char *op)
{
    (void)op;
    sampling s = sampling_of(w, onnx_in_tensor(w, 1), 2);
    put_neighbours(&s, true);
    put_near(&s, 1);
    put_dy(&s);
    fs_text_add(&s.text,
                "step = ReduceSum<axes=[1], keepdims=0>(Mul(near, dy));"
                "all = Concat<axis=2>(");
    for (int32_t j = 0; j < s.axes; j++)
        fs_text_add(&s.text, "%sReduceSum<axes=[2]>(Mul(step, by%d))",
                    j ? ", " : "", j);
    fs_text_add(&s.text, ");");
    return end_sampling(w, &s, "all");
}
