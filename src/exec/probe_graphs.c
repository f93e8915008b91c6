#include "config.h"
#include "exec/probe.h"

#include <math.h>

static ir_shape shape_of(int32_t rank, int64_t a, int64_t b, int64_t c,
                         int64_t d)
{
    int64_t dim[4] = {a, b, c, d};
    return ir_shape_make(rank, dim);
}

static int32_t weight(ir_graph *g, const char *name, ir_shape shape)
{
    ir_init init = {IR_INIT_NORMAL, 0.0, 0.02, 1};
    return ir_parameter(g, name, IR_F32, shape, init);
}

static int32_t linear(ir_graph *g, const char *name, int32_t x, int64_t from,
                      int64_t to)
{
    int32_t w = weight(g, name, shape_of(2, from, to, 0, 0));
    int32_t b = weight(g, fs_printf(g->arena, "%s.bias", name),
                       shape_of(1, to, 0, 0, 0));
    return ir_binary(g, IR_OP_add, ir_matmul(g, x, w, false, false), b);
}

static int32_t norm(ir_graph *g, const char *name, int32_t x, int64_t width)
{
    ir_shape one = shape_of(1, width, 0, 0, 0);
    int32_t gain = weight(g, fs_printf(g->arena, "%s.gain", name), one);
    int32_t bias = weight(g, fs_printf(g->arena, "%s.bias", name), one);
    return ir_layer_norm(g, x, gain, bias, 1e-5);
}

/* (B, T, 3 C) -> part `k` as (B, heads, T, C / heads). */
static int32_t head_part(ir_graph *g, const probe_block *s, int32_t qkv,
                         int64_t k)
{
    int32_t x = ir_slice(g, qkv, 2, k * s->width, s->width);
    const int32_t perm[4] = {0, 2, 1, 3};
    x = ir_reshape(
        g, x,
        shape_of(4, s->samples, s->length, s->heads, s->width / s->heads));
    return ir_transpose(g, x, perm);
}

/* softmax(scale q k^T, causal) v as exporters write it. */
static int32_t attend(ir_graph *g, const probe_block *s, const int32_t qkv[3])
{
    int64_t t = s->length;
    int32_t scores = ir_matmul(g, qkv[0], qkv[1], false, true);
    scores =
        ir_scale(g, scores, 1.0 / sqrt((double)(s->width / s->heads)), 0.0);
    uint8_t *mask = fs_alloc(g->arena, (size_t)t, (size_t)t);
    for (int64_t i = 0; i < t; i++)
        for (int64_t j = 0; j <= i; j++)
            mask[i * t + j] = 1;
    int32_t allowed =
        ir_constant(g, "mask", IR_BOOL, shape_of(2, t, t, 0, 0), mask);
    int32_t low = ir_fill(g, shape_of(0, 0, 0, 0, 0), -1e9);
    int32_t y = ir_softmax(g, ir_where(g, allowed, scores, low));
    return ir_matmul(g, y, qkv[2], false, false);
}

/* The same as one op. */
static int32_t attend_fused(ir_graph *g, const probe_block *s,
                            const int32_t qkv[3])
{
    const ir_node node = {.op = IR_OP_attention,
                          .n_in = 3,
                          .in = {qkv[0], qkv[1], qkv[2]},
                          .i = {1, 1},
                          .f = {1.0 / sqrt((double)(s->width / s->heads))}};
    return ir_append(g, &node);
}

/* Either form: a plan has one or the other, as its rewrites are. */
static int32_t attention(ir_graph *g, const probe_block *s, int32_t x)
{
    const int32_t perm[4] = {0, 2, 1, 3};
    const ir_shape rows = shape_of(3, s->samples, s->length, s->width, 0);
    int32_t qkv = linear(g, "qkv", x, s->width, 3 * s->width), part[3];
    for (int32_t k = 0; k < 3; k++)
        part[k] = head_part(g, s, qkv, k);
    int32_t y =
        ir_binary(g, IR_OP_add, attend(g, s, part), attend_fused(g, s, part));
    y = ir_reshape(g, ir_transpose(g, y, perm), rows);
    return linear(g, "proj", y, s->width, s->width);
}

static ir_graph *train(ir_graph *g, ir_optimizer optimizer, int64_t batch,
                       fs_err *err)
{
    ir_train_options options = ir_train_defaults();
    options.optimizer = optimizer;
    g->batch = batch;
    if (ir_train(g, &options, err) == FS_OK)
        return g;
    ir_graph_destroy(g);
    return NULL;
}

ir_graph *exec_probe_block(const probe_block *s, fs_err *err)
{
    ir_graph *g = ir_graph_create("probe");
    ir_shape tokens = shape_of(2, s->samples, s->length, 0, 0);
    int32_t ids = ir_input(g, "ids", IR_I64, tokens, 0);
    int32_t targets = ir_input(g, "targets", IR_I64, tokens, 0);
    int32_t table = weight(g, "table", shape_of(2, s->words, s->width, 0, 0));
    /* One slice alone: its gradient is a pad, those of q, k, v are joined. */
    int32_t places =
        weight(g, "places", shape_of(2, 2 * s->length, s->width, 0, 0));
    places = ir_slice(g, places, 0, 0, s->length);
    int32_t x = ir_binary(g, IR_OP_add, ir_gather(g, table, ids), places);
    x = ir_binary(g, IR_OP_add, x,
                  attention(g, s, norm(g, "norm1", x, s->width)));
    int32_t up =
        linear(g, "up", norm(g, "norm2", x, s->width), s->width, 4 * s->width);
    int32_t half = ir_scale(g, ir_unary(g, IR_OP_gelu, up), 1.0, 0.0);
    up = ir_binary(g, IR_OP_mul, half, ir_unary(g, IR_OP_sigmoid, up));
    x = ir_binary(g, IR_OP_add, x,
                  linear(g, "down", up, 4 * s->width, s->width));
    int32_t head = weight(g, "head", shape_of(2, s->width, s->words, 0, 0));
    g->loss = ir_cross_entropy(g, ir_matmul(g, x, head, false, false), targets);
    return train(g, s->optimizer, s->samples, err);
}

static int32_t convolve(ir_graph *g, const char *name, int32_t x, int64_t from,
                        int64_t to)
{
    const int64_t attr[] = {1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0, 1};
    int32_t w = weight(g, name, shape_of(4, to, from, 3, 3));
    return ir_unary(g, IR_OP_relu, ir_conv(g, x, w, attr));
}

ir_graph *exec_probe_image(int64_t samples, int64_t channels, int64_t size,
                           fs_err *err)
{
    ir_graph *g = ir_graph_create("probe");
    const int64_t window[16] = {2, 2, [9] = 2, 2, [13] = 1, 1};
    int32_t x =
        ir_input(g, "image", IR_F32, shape_of(4, samples, 4, size, size), 0);
    int32_t labels =
        ir_input(g, "label", IR_I64, shape_of(1, samples, 0, 0, 0), 0);
    x = convolve(g, "conv1", x, 4, channels);
    x = ir_pool(g, IR_OP_max_pool, x, window);
    x = convolve(g, "conv2", x, channels, channels);
    x = ir_pool(g, IR_OP_avg_pool, x, window);
    int64_t flat = channels * size / 4 * size / 4;
    x = ir_reshape(g, x, shape_of(2, samples, flat, 0, 0));
    g->loss = ir_cross_entropy(g, linear(g, "classes", x, flat, 10), labels);
    return train(g, IR_MOMENTUM, samples, err);
}

ir_graph *exec_probe_matmul(int64_t m, int64_t k, int64_t n)
{
    ir_graph *g = ir_graph_create("probe");
    int32_t a = ir_input(g, "a", IR_F32, shape_of(2, m, k, 0, 0), -1);
    int32_t b = ir_input(g, "b", IR_F32, shape_of(2, k, n, 0, 0), -1);
    ir_mark_output(g, ir_matmul(g, a, b, false, false));
    return g;
}
