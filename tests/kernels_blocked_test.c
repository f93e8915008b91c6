/* Kernels on blocked tensors against the reference on row-major ones: every
 * node of training steps of random small networks of convolutions. */
#include "config.h"

#include "interpret.h"
#include "ir/build.h"
#include "ir/train.h"
#include "ir/window.h"
#include "tap.h"

#include <math.h>

enum { TRIALS = 40 };

/* ---- networks ---- */

typedef struct drawing {
    ir_graph *g;
    uint64_t *seed;
} drawing;

static int64_t draw(drawing *d, int64_t low, int64_t high)
{
    return low + fs_rand_below(d->seed, high - low + 1);
}

static int32_t parameter(ir_graph *g, const char *name, ir_shape shape)
{
    return ir_parameter(g, name, IR_F32, shape,
                        (ir_init){.kind = IR_INIT_NORMAL});
}

static int32_t convolve(drawing *d, const char *name, int32_t x)
{
    int64_t attr[IR_WINDOW_ATTRS] = {0};
    const ir_shape in = ir_shape_of(d->g, x);
    const int64_t size = draw(d, 1, 3);
    int64_t dim[] = {16 * draw(d, 1, 3), in.dim[1], size, size};
    for (int k = 0; k < 2; k++) {
        attr[IR_WINDOW_STRIDE + k] = draw(d, 1, 2);
        attr[IR_WINDOW_BEFORE + k] = attr[IR_WINDOW_AFTER + k] = size / 2;
        attr[IR_WINDOW_SPREAD + k] = 1;
    }
    attr[IR_WINDOW_GROUPS] = 1;
    return ir_conv(d->g, x, parameter(d->g, name, ir_shape_make(4, dim)), attr);
}

static int32_t normalise(drawing *d, const char *name, int32_t x)
{
    ir_graph *g = d->g;
    const ir_shape in = ir_shape_of(g, x);
    const ir_shape vector = ir_shape_make(1, &in.dim[1]);
    const double count = (double)ir_shape_count(&in) / (double)in.dim[1];
    char text[2][16];
    snprintf(text[0], sizeof text[0], "%s.gain", name);
    snprintf(text[1], sizeof text[1], "%s.bias", name);
    const int32_t gain = parameter(g, text[0], vector);
    const int32_t bias = parameter(g, text[1], vector);
    const int32_t mean = ir_reduce_mean(g, x, 0xd, false);
    const int32_t square = ir_binary(g, IR_OP_centred_square, x, mean);
    ir_node node = {
        .op = IR_OP_batch_norm,
        .n_in = 5,
        .in = {x, gain, bias, mean, ir_scale(g, square, 1 / count, 0)},
        .i = {1},
        .f = {1e-5}};
    return ir_append(g, &node);
}

static int32_t pool(drawing *d, int32_t x)
{
    int64_t attr[IR_WINDOW_ATTRS] = {0};
    for (int k = 0; k < 2; k++) {
        attr[IR_WINDOW_SIZE + k] = draw(d, 1, 3);
        attr[IR_WINDOW_STRIDE + k] = draw(d, 1, 2);
        attr[IR_WINDOW_BEFORE + k] = attr[IR_WINDOW_AFTER + k] =
            attr[IR_WINDOW_SIZE + k] / 2;
        attr[IR_WINDOW_DILATION + k] = 1;
    }
    return ir_pool(d->g, IR_OP_max_pool, x, attr);
}

static fs_status build(drawing *d, fs_err *err)
{
    ir_graph *g = d->g;
    static const int64_t channels[] = {3, 16, 32};
    int64_t dim[] = {draw(d, 1, 3), channels[draw(d, 0, 2)], draw(d, 1, 9),
                     draw(d, 1, 9)};
    int32_t x = ir_input(g, "x", IR_F32, ir_shape_make(4, dim), 0);
    x = ir_unary(g, IR_OP_relu, normalise(d, "n1", convolve(d, "w1", x)));
    x = pool(d, x);
    const int32_t around = x;
    x = normalise(d, "n2", convolve(d, "w2", x));
    const ir_shape a = ir_shape_of(g, around), b = ir_shape_of(g, x);
    if (ir_shape_equal(&a, &b))
        x = ir_binary(g, IR_OP_add, x, around);
    x = ir_unary(g, IR_OP_relu, x);
    g->loss = ir_reduce_mean(g, ir_reduce_sum(g, x, 0xc, false), 3, false);
    const ir_train_options options = ir_train_defaults();
    if (g->err.status != FS_OK) {
        *err = g->err;
        return err->status;
    }
    return ir_train(g, &options, err);
}

/* ---- layouts, one element at a time ---- */

/* Element (n, c, s) of a piece that lies blocked. */
static int64_t blocked_at(const ir_shape *shape, int64_t at)
{
    int64_t s = 1;
    for (int32_t i = 2; i < shape->rank; i++)
        s *= shape->dim[i];
    const int64_t c = at / s % shape->dim[1], n = at / s / shape->dim[1];
    return ((n * (shape->dim[1] / 16) + c / 16) * s + at % s) * 16 + c % 16;
}

static float *turned(const kernel_arg *arg, bool back, fs_arena *arena)
{
    const int64_t n = ir_shape_count(&arg->shape);
    const float *from = arg->data;
    float *to = fs_new(arena, float, n + 1);
    for (int64_t i = 0; i < n; i++) {
        const int64_t k = blocked_at(&arg->shape, i);
        to[back ? i : k] = from[back ? k : i];
    }
    return to;
}

/* By the largest element: gradients are small. */
static double difference(const kernel_arg *had, const float *want)
{
    double worst = 0, largest = 1e-12;
    const float *got = had->data;
    for (int64_t i = 0; i < ir_shape_count(&had->shape); i++)
        largest = fmax(largest, fabs((double)want[i]));
    for (int64_t i = 0; i < ir_shape_count(&had->shape); i++) {
        const double d = fabs((double)got[i] - (double)want[i]) / largest;
        worst = fmax(worst, isnan(d) ? INFINITY : d);
    }
    return worst;
}

/* ---- one node ---- */

typedef struct seen {
    int calls[IR_OP_COUNT];
    double worst[IR_OP_COUNT];
} tally;

/* As among convolutions; of what takes either, some stays row-major. */
static bool block_some(kernel_call *call, const kernel_layout_use *use,
                       drawing *d)
{
    bool any = false;
    kernel_lay_blocked(call);
    for (int32_t k = 0; k < call->n_in; k++) {
        kernel_arg *arg = &call->in[k];
        if (use->in[k] == KERNEL_EITHER && draw(d, 0, 2) == 0)
            arg->layout = KERNEL_ROW_MAJOR;
        if (arg->layout == KERNEL_BLOCKED)
            arg->data = turned(arg, false, d->g->arena);
        any |= arg->layout == KERNEL_BLOCKED;
    }
    for (int32_t k = 0; k < call->n_out; k++) {
        if (use->out[k] == KERNEL_EITHER && draw(d, 0, 2) == 0)
            call->out[k].layout = KERNEL_ROW_MAJOR;
        any |= call->out[k].layout == KERNEL_BLOCKED;
    }
    return any;
}

static double blocked_error(kernel_call call, drawing *d, tally *seen)
{
    fs_arena *arena = d->g->arena;
    const float *want[IR_MAX_OUT];
    const kernel *chosen;
    void *state = NULL;
    fs_err err = {0};
    kernel_layout_use use;
    kernel_layout_uses(&call, &use);
    if (!block_some(&call, &use, d))
        return 0;
    for (int32_t k = 0; k < call.n_out; k++) {
        want[k] = call.out[k].data;
        call.out[k].data =
            fs_alloc(arena, (size_t)ir_shape_count(&call.out[k].shape) + 1, 8);
    }
    if (kernel_choose(&call, "auto", &err, &chosen, &state) != FS_OK)
        return INFINITY;
    call.workspace = interpret_workspace(chosen, state);
    fs_status status = chosen->run(state, &call, &err);
    free(call.workspace);
    if (chosen->release)
        chosen->release(state);
    double worst = status == FS_OK ? 0 : INFINITY;
    for (int32_t k = 0; k < call.n_out && worst < INFINITY; k++) {
        if (call.out[k].layout == KERNEL_BLOCKED)
            call.out[k].data = turned(&call.out[k], true, arena);
        if (call.out[k].dtype == IR_F32)
            worst = fmax(worst, difference(&call.out[k], want[k]));
    }
    seen->calls[call.node->op]++;
    return worst;
}

static fs_status trial(uint64_t *seed, tally *seen, fs_err *err)
{
    drawing d = {ir_graph_create("blocked"), seed};
    interpreter in;
    fs_status status = build(&d, err);
    if (status == FS_OK) {
        interpret_open(&in, d.g, d.g->arena);
        for (int32_t i = 0; i < d.g->tensors.n; i++) {
            const ir_tensor *t = &d.g->tensors.at[i];
            float *data = in.data[i];
            for (int64_t k = 0;
                 t->role != IR_ACTIVATION && !t->data && t->role != IR_STATE &&
                 t->dtype == IR_F32 && k < ir_shape_count(&t->shape);
                 k++)
                data[k] = (float)(fs_rand_below(seed, 2001) - 1000) * 1e-3f;
        }
        status = interpret_run(&in, err);
    }
    for (int32_t i = 0; status == FS_OK && i < d.g->nodes.n; i++) {
        const ir_node *node = &d.g->nodes.at[i];
        const ir_op_class class = ir_op_class_of(node->op);
        if (class == IR_CLASS_SOURCE || class == IR_CLASS_VIEW ||
            class == IR_CLASS_UPDATE || node->op == IR_OP_accumulate)
            continue;
        double *worst = &seen->worst[node->op];
        *worst =
            fmax(*worst, blocked_error(interpret_call(&in, node), &d, seen));
    }
    ir_graph_destroy(d.g);
    return status;
}

int main(void)
{
    static const ir_op_kind own[] = {
        IR_OP_centred_square,        IR_OP_batch_norm, IR_OP_batch_norm_grad,
        IR_OP_batch_norm_param_grad, IR_OP_reduce_sum, IR_OP_max_pool,
        IR_OP_max_pool_grad,         IR_OP_relu,       IR_OP_relu_grad};
    static const ir_op_kind conv[] = {IR_OP_conv, IR_OP_conv_data_grad,
                                      IR_OP_conv_filter_grad};
    uint64_t seed = tap_seed(20261128);
    tally seen = {.calls = {0}};
    fs_err err = {0};
    bool built = true;
    kernel_set_threads(1);
    for (int k = 0; k < TRIALS; k++)
        built = trial(&seed, &seen, &err) == FS_OK && built;
    tap_ok(built, "%d networks run%s%s", TRIALS, built ? "" : ": ", err.text);
    for (int op = 0; op < IR_OP_COUNT; op++)
        if (seen.calls[op])
            tap_ok(seen.worst[op] < 1e-3,
                   "%s: blocked in %d calls, off by %.1e at most",
                   ir_op_table[op]->name, seen.calls[op], seen.worst[op]);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        tap_ok(seen.calls[own[i]] > 0, "%s takes blocks",
               ir_op_table[own[i]]->name);
    /* Which layouts oneDNN would have hangs on the processor. */
    for (size_t i = 0; i < sizeof conv / sizeof *conv; i++)
        printf("# %s: blocked in %d calls\n", ir_op_table[conv[i]]->name,
               seen.calls[conv[i]]);
    return tap_done();
}
