/* Element-wise ops where a formula alone does not say what happens: halves,
 * ties, signs, NaN; draws of dropout and random. */
#include "config.h"

#include "ir/train.h"

#include "interpret.h"
#include "ir/element.h"
#include "tap.h"

enum { N = 4096 };

/* ---- functions of one and of two ---- */

static double value_of(ir_node node, ir_dtype dtype, double x, double y)
{
    ir_graph *g = ir_graph_create("one");
    fs_err err = {0};
    interpreter in;
    node.in[0] = ir_number(g, dtype, x);
    node.in[1] = ir_number(g, dtype, y);
    node.n_in = ir_op_table[node.op]->max_in;
    int32_t id = ir_append(g, &node);
    double value = NAN;
    if (id >= 0) {
        interpret_open(&in, g, g->arena);
        if (interpret_run(&in, &err) == FS_OK)
            value = ir_element_real(g->tensors.at[id].dtype, in.data[id], 0);
    }
    printf("%s%s%s", err.status || g->err.status ? "# " : "", err.text,
           err.status ? "\n" : "");
    ir_graph_destroy(g);
    return value;
}

typedef struct fact {
    ir_node node;
    ir_dtype dtype;
    double x, y, wanted;
} fact;

static const fact facts[] = {
    {{.op = IR_OP_round}, IR_F32, 0.5, 0, 0},
    {{.op = IR_OP_round}, IR_F32, 1.5, 0, 2},
    {{.op = IR_OP_round}, IR_F32, -2.5, 0, -2},
    {{.op = IR_OP_floor}, IR_F32, -0.5, 0, -1},
    {{.op = IR_OP_ceil}, IR_F32, 0.5, 0, 1},
    {{.op = IR_OP_sign}, IR_F32, -3, 0, -1},
    {{.op = IR_OP_sign}, IR_F32, 0, 0, 0},
    {{.op = IR_OP_relu}, IR_F32, NAN, 0, NAN},
    {{.op = IR_OP_softplus}, IR_F32, 200, 0, 200},
    {{.op = IR_OP_softplus}, IR_F32, -200, 0, 0},
    {{.op = IR_OP_mish}, IR_F32, 200, 0, 200},
    {{.op = IR_OP_clip, .f = {-INFINITY, 2}}, IR_F32, 9, 0, 2},
    {{.op = IR_OP_clip, .f = {5, 2}}, IR_F32, 3, 0, 2},
    {{.op = IR_OP_hard_swish}, IR_F32, -4, 0, 0},
    {{.op = IR_OP_mod}, IR_F32, -7, 3, 2},
    {{.op = IR_OP_mod}, IR_F32, 7, -3, -2},
    {{.op = IR_OP_mod, .i = {1}}, IR_F32, -7, 3, -1},
    {{.op = IR_OP_mod}, IR_I32, -7, 3, 2},
    {{.op = IR_OP_mod}, IR_I64, 7, -3, -2},
    {{.op = IR_OP_mod, .i = {1}}, IR_I64, -7, 3, -1},
    {{.op = IR_OP_mod}, IR_I64, 7, -1, 0},
    {{.op = IR_OP_max}, IR_F32, NAN, 1, NAN},
    {{.op = IR_OP_max}, IR_F32, 1, NAN, NAN},
    {{.op = IR_OP_min}, IR_F32, NAN, 1, NAN},
    {{.op = IR_OP_min}, IR_I64, -3, 2, -3},
    {{.op = IR_OP_equal}, IR_F32, NAN, NAN, 0},
    {{.op = IR_OP_equal}, IR_I64, 1LL << 40, 1LL << 40, 1},
    {{.op = IR_OP_less_equal}, IR_I32, 2, 2, 1},
    {{.op = IR_OP_less}, IR_I32, 2, 2, 0},
    {{.op = IR_OP_bit_xor}, IR_BOOL, 1, 1, 0},
    {{.op = IR_OP_bit_xor}, IR_I32, 5, -1, -6},
    {{.op = IR_OP_bit_and}, IR_I64, 12, 10, 8},
    {{.op = IR_OP_prelu}, IR_F32, -4, 0.25, -1},
};

static bool same(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

static void test_facts(void)
{
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
        const fact *f = &facts[i];
        double got = value_of(f->node, f->dtype, f->x, f->y);
        tap_ok(same(got, f->wanted), "%s of %g and %g in %s is %g",
               ir_op_table[f->node.op]->name, f->x, f->y,
               ir_dtype_name(f->dtype), f->wanted);
        if (!same(got, f->wanted))
            printf("# got %g\n", got);
    }
}

/* Slopes of op(a, b) with respect to both. */
static void slopes(ir_op_kind op, double a, double b, double out[2])
{
    ir_graph *g = ir_graph_create("tie");
    fs_err err = {0};
    interpreter in;
    int32_t wrt[2], grad[2] = {-1, -1};
    for (int k = 0; k < 2; k++)
        wrt[k] = ir_input(g, k ? "b" : "a", IR_F64, (ir_shape){0}, -1);
    int32_t loss = ir_binary(g, op, wrt[0], wrt[1]);
    ir_derivative of = {loss, 1, 2, wrt};
    out[0] = out[1] = NAN;
    if (ir_backward(g, &of, &err, grad) == FS_OK) {
        interpret_open(&in, g, g->arena);
        *(double *)in.data[wrt[0]] = a;
        *(double *)in.data[wrt[1]] = b;
        if (interpret_run(&in, &err) == FS_OK)
            for (int k = 0; k < 2; k++)
                out[k] = *(double *)in.data[grad[k]];
    }
    ir_graph_destroy(g);
}

static void test_slopes(void)
{
    double d[2];
    slopes(IR_OP_max, 2, 2, d);
    tap_ok(d[0] == 0.5 && d[1] == 0.5, "equal operands of max share");
    slopes(IR_OP_min, 2, 2, d);
    tap_ok(d[0] == 0.5 && d[1] == 0.5, "equal operands of min share");
    slopes(IR_OP_max, INFINITY, INFINITY, d);
    tap_ok(d[0] == 0.5 && d[1] == 0.5, "infinite ones too");
    slopes(IR_OP_min, 1, 2, d);
    tap_ok(d[0] == 1 && d[1] == 0, "the smaller has min's gradient");
    slopes(IR_OP_pow, 0, 2, d);
    tap_ok(d[0] == 0 && d[1] == 0, "a power of 0 has no slope, and no NaN");
    slopes(IR_OP_pow, 0, 0, d);
    tap_ok(d[0] == 0 && d[1] == 0, "0 to the power of 0 neither");
    slopes(IR_OP_prelu, 0, 3, d);
    tap_ok(d[0] == 3 && d[1] == 0, "prelu at 0 has its lower slope");
}

/* ---- draws ---- */

typedef struct draws {
    double ratio;
    int64_t seed, step;
    int32_t micro_batch;
    ir_shape shape;
} draws;

/* y of ones, and the gradient of its sum. */
static void run_dropout(const draws *d, double *y, double *dx)
{
    ir_graph *g = ir_graph_create("drop");
    fs_err err = {0};
    interpreter in;
    int32_t x = ir_input(g, "x", IR_F64, d->shape, -1), grad = -1;
    int32_t out = ir_dropout(g, x, d->ratio, (uint64_t)d->seed);
    int32_t loss = ir_reduce_sum(g, out, (1u << d->shape.rank) - 1, false);
    ir_derivative of = {loss, 1, 1, &x};
    int64_t n = ir_shape_count(&d->shape);
    if (ir_backward(g, &of, &err, &grad) == FS_OK) {
        interpret_open(&in, g, g->arena);
        in.step = d->step;
        in.micro_batch = d->micro_batch;
        for (int64_t i = 0; i < n; i++)
            ((double *)in.data[x])[i] = 1;
        if (interpret_run(&in, &err) == FS_OK) {
            memcpy(y, in.data[out], (size_t)n * sizeof *y);
            memcpy(dx, in.data[grad], (size_t)n * sizeof *dx);
        }
    }
    tap_ok(err.status == FS_OK, "dropout %g runs %s", d->ratio, err.text);
    ir_graph_destroy(g);
}

static int count(const double *y, double value)
{
    int n = 0;
    for (int i = 0; i < N; i++)
        n += y[i] == value;
    return n;
}

static int differ(const double *a, const double *b)
{
    int n = 0;
    for (int i = 0; i < N; i++)
        n += a[i] != b[i];
    return n;
}

static void test_dropout(void)
{
    static double y[N], dx[N], other[N], unused[N];
    const draws usual = {0.25, 7, 3, 1, {2, {8, N / 8}}};
    run_dropout(&usual, y, dx);
    int dropped = count(y, 0);
    tap_ok(abs(dropped - N / 4) < 4 * 28, "%d of %d are dropped for 0.25",
           dropped, N);
    tap_equal_int(dropped + count(y, 1 / 0.75), N, "the others are scaled");
    tap_equal_int(differ(y, dx), 0, "the gradient has the same mask");
    draws changed[4] = {usual, usual, usual, usual};
    static const char *const what[] = {"seed", "step", "micro-batch"};
    changed[0].seed++;
    changed[1].step++;
    changed[2].micro_batch++;
    for (int k = 0; k < 3; k++) {
        run_dropout(&changed[k], other, unused);
        int n = differ(y, other), wanted = N * 3 / 8;
        tap_ok(abs(n - wanted) < 200, "another %s, another mask", what[k]);
    }
    run_dropout(&(draws){0, 7, 3, 1, {1, {N}}}, y, dx);
    tap_equal_int(count(y, 1), N, "a ratio of 0 keeps all");
    run_dropout(&(draws){1, 7, 3, 1, {1, {N}}}, y, dx);
    tap_equal_int(count(y, 0), N, "a ratio of 1 keeps none");
}

static double moment(const float *x, double about, int power)
{
    double sum = 0;
    for (int i = 0; i < N; i++)
        sum += pow((double)x[i] - about, power);
    return sum / N;
}

static void test_random(void)
{
    ir_graph *g = ir_graph_create("random");
    fs_err err = {0};
    interpreter in;
    const ir_shape shape = {2, {64, N / 64}};
    const ir_init unit = {IR_INIT_UNIFORM, 0.5, 0.5, 7};
    const ir_init bell = {IR_INIT_NORMAL, 3, 2, 8};
    int32_t u = ir_random(g, shape, unit), b = ir_random(g, shape, bell);
    int32_t x = ir_fill(g, shape, 1), y = ir_dropout(g, x, 0.25, 7);
    int32_t mask =
        ir_binary(g, IR_OP_less_equal, ir_number(g, IR_F32, 0.25), u);
    interpret_open(&in, g, g->arena);
    tap_ok(interpret_run(&in, &err) == FS_OK, "random runs %s", err.text);
    tap_ok(fabs(moment(in.data[u], 0, 1) - 0.5) < 0.02 &&
               fabs(moment(in.data[u], 0.5, 2) - 1.0 / 12) < 0.005,
           "uniform: mean and variance");
    tap_ok(fabs(moment(in.data[b], 0, 1) - 3) < 0.15 &&
               fabs(moment(in.data[b], 3, 2) - 4) < 0.4,
           "normal: mean and variance");
    int wrong = 0;
    for (int i = 0; i < N; i++)
        wrong += (((float *)in.data[y])[i] != 0) !=
                 (((uint8_t *)in.data[mask])[i] != 0);
    tap_equal_int(wrong, 0, "draws of one seed give dropout's own mask");
    ir_graph_destroy(g);
    g = ir_graph_create("wrong");
    ir_dropout(g, ir_fill(g, shape, 1), NAN, 7);
    tap_ok(g->err.status == FS_INVALID, "a ratio that is no number: %s",
           g->err.text);
    ir_graph_destroy(g);
}

int main(void)
{
    test_facts();
    test_slopes();
    test_dropout();
    test_random();
    return tap_done();
}
