/* Optimizers over five steps against PyTorch's formulas written out in
 * double; faults of indexed ops. */
#include "config.h"

#include "kernels/kernel.h"

#include "base/hash.h"
#include "tap.h"

enum { N = 37, STEPS = 5 };

typedef struct parameter {
    double w[N], m[N], v[N];
} parameter;

/* One step of one element, torch.optim's order of operations. */
static void step_exact(ir_op_kind op, const double *f, bool decoupled,
                       parameter *p, int i, double g, int t)
{
    if (op == IR_OP_adam && decoupled)
        p->w[i] -= f[0] * f[1] * p->w[i];
    else
        g += f[1] * p->w[i];
    if (op == IR_OP_sgd) {
        p->w[i] -= f[0] * g;
        return;
    }
    if (op == IR_OP_momentum) {
        p->m[i] = f[2] * p->m[i] + g;
        p->w[i] -= f[0] * p->m[i];
        return;
    }
    if (op == IR_OP_adagrad) {
        p->m[i] += g * g;
        p->w[i] -= f[0] * g / (sqrt(p->m[i]) + f[2]);
        return;
    }
    p->m[i] = f[2] * p->m[i] + (1 - f[2]) * g;
    p->v[i] = f[3] * p->v[i] + (1 - f[3]) * g * g;
    const double mean = p->m[i] / (1 - pow(f[2], t));
    p->w[i] -= f[0] * mean / (sqrt(p->v[i] / (1 - pow(f[3], t))) + f[4]);
}

static kernel_arg vector(void *data, ir_dtype dtype)
{
    return (kernel_arg){.data = data, .dtype = dtype, .shape = {1, {N}}};
}

static double read(const void *data, ir_dtype dtype, int i)
{
    return dtype == IR_F64 ? ((const double *)data)[i]
                           : (double)((const float *)data)[i];
}

static void write(void *data, ir_dtype dtype, int i, double value)
{
    if (dtype == IR_F64)
        ((double *)data)[i] = value;
    else
        ((float *)data)[i] = (float)value;
}

/* Updates inputs 0, 2, 3: in place, or through `next` and copied back. */
static void run_step(kernel_call *call, double next[3][N], bool in_place)
{
    fs_err err = {0};
    for (int32_t k = 0; k < call->n_out; k++)
        call->out[k].data =
            in_place ? call->in[k > 0 ? k + 1 : 0].data : next[k];
    kernel_reference(call->node->op)->run(NULL, call, &err);
    for (int32_t k = 0; k < call->n_out && !in_place; k++)
        memcpy(call->in[k > 0 ? k + 1 : 0].data, next[k], sizeof next[k]);
}

static void check(ir_op_kind op, ir_node node, ir_dtype dtype, const char *name)
{
    double w[N], g[N], m[N] = {0}, v[N] = {0}, next[3][N], worst = 0;
    parameter p = {{0}, {0}, {0}};
    uint64_t seed = 5;
    node.op = op;
    kernel_call call = {
        .node = &node,
        .f = node.f,
        .n_in = op == IR_OP_sgd    ? 2
                : op == IR_OP_adam ? 4
                                   : 3,
        .in = {vector(w, dtype), vector(g, dtype), vector(m, dtype),
               vector(v, dtype)},
        .out = {vector(w, dtype), vector(m, dtype), vector(v, dtype)}};
    call.n_out = call.n_in - 1;
    for (int i = 0; i < N; i++) {
        p.w[i] = fs_rand_unit(&seed) - 0.5;
        write(w, dtype, i, p.w[i]);
    }
    for (call.step = 0; call.step < STEPS; call.step++) {
        for (int i = 0; i < N; i++) {
            const double gradient = fs_rand_unit(&seed) - 0.5;
            write(g, dtype, i, gradient);
            step_exact(op, node.f, node.i[0] != 0, &p, i, gradient,
                       (int)call.step + 1);
        }
        run_step(&call, next, call.step % 2 == 0);
    }
    for (int i = 0; i < N; i++)
        worst = fmax(worst, fabs(read(w, dtype, i) - p.w[i]));
    tap_ok(worst < (dtype == IR_F64 ? 1e-13 : 2e-6),
           "%s, %s: five steps, in place or not, are the formulas'", name,
           ir_dtype_name(dtype));
    printf("# worst difference %g\n", worst);
}

static void check_optimizers(ir_dtype dtype)
{
    check(IR_OP_sgd, (ir_node){.f = {0.1, 0.01}}, dtype, "sgd");
    check(IR_OP_momentum, (ir_node){.f = {0.05, 1e-2, 0.9}}, dtype, "momentum");
    check(IR_OP_adam, (ir_node){.f = {1e-2, 0.1, 0.9, 0.999, 1e-8}}, dtype,
          "adam");
    check(IR_OP_adagrad, (ir_node){.f = {0.05, 1e-2, 1e-10}}, dtype, "adagrad");
    check(IR_OP_adam, (ir_node){.i = {1}, .f = {1e-2, 0.1, 0.9, 0.999, 1e-8}},
          dtype, "adamw");
}

/* Rows 4 .. 7 of a table of eight, on the second of two devices. */
static void check_gather_fault(void)
{
    float table[4] = {4, 5, 6, 7}, out[3] = {-1, -1, -1};
    int32_t ids[3] = {5, 1, 7};
    const ir_node node = {.op = IR_OP_gather, .name = "embed", .i = {8}};
    const kernel_call call = {
        .node = &node,
        .n_in = 2,
        .n_out = 1,
        .in = {{table, IR_F32, {2, {4, 1}}, {4}}, {ids, IR_I32, {1, {3}}, {0}}},
        .out = {{out, IR_F32, {2, {3, 1}}, {0}}}};
    fs_err err = {0};
    const kernel *gather = kernel_reference(IR_OP_gather);
    tap_ok(gather->run(NULL, &call, &err) == FS_OK && out[0] == 5 &&
               out[1] == 0 && out[2] == 7,
           "gather: rows of other pieces are zero");
    ids[2] = -3;
    tap_ok(gather->run(NULL, &call, &err) == FS_FAULT &&
               strstr(err.text, "-3") && strstr(err.text, "[2]"),
           "gather: a negative id is a fault with value and position");
    printf("# %s\n", err.text);
    err = (fs_err){0};
    ids[2] = 8;
    tap_ok(gather->run(NULL, &call, &err) == FS_FAULT &&
               strstr(err.text, "[0,8)"),
           "gather: so is one beyond the whole table, when i[0] tells it");
}

static void check_label_fault(void)
{
    float x[8] = {0}, p[8], loss;
    int64_t labels[2] = {1, 4};
    const ir_node node = {.op = IR_OP_cross_entropy, .name = "loss"};
    const double f[1] = {0.5};
    const kernel_call call = {
        .node = &node,
        .f = f,
        .n_in = 2,
        .n_out = 2,
        .in = {{x, IR_F32, {2, {2, 4}}, {6}}, {labels, IR_I64, {1, {2}}, {6}}},
        .out = {{&loss, IR_F32, {0}, {0}}, {p, IR_F32, {2, {2, 4}}, {6}}}};
    fs_err err = {0};
    const kernel *entropy = kernel_reference(IR_OP_cross_entropy);
    tap_ok(entropy->run(NULL, &call, &err) == FS_FAULT &&
               strstr(err.text, "label 4") && strstr(err.text, "[7]"),
           "cross_entropy: a label that is no class is a fault");
    printf("# %s\n", err.text);
    err = (fs_err){0};
    labels[1] = 3;
    entropy->run(NULL, &call, &err);
    tap_near((double)loss, log(4), 1e-6, "cross_entropy: log V when all equal");
}

/* A causal mask's row: -inf must give exactly 0 and no NaN. */
static void check_mask(void)
{
    float x[20], y[20], total = 0;
    const ir_node node = {.op = IR_OP_softmax};
    for (int i = 0; i < 20; i++)
        x[i] = i < 3 ? (float)i : -INFINITY;
    const kernel_call call = {.node = &node,
                              .n_in = 1,
                              .n_out = 1,
                              .in = {{x, IR_F32, {1, {20}}, {0}}},
                              .out = {{y, IR_F32, {1, {20}}, {0}}}};
    fs_err err = {0};
    kernel_reference(IR_OP_softmax)->run(NULL, &call, &err);
    for (int i = 3; i < 20; i++)
        total += y[i];
    tap_ok(total == 0 && fabsf(y[0] + y[1] + y[2] - 1) < 1e-6f,
           "softmax: minus infinity has probability 0");
}

int main(void)
{
    check_optimizers(IR_F32);
    check_optimizers(IR_F64);
    check_gather_fault();
    check_label_fault();
    check_mask();
    return tap_done();
}
