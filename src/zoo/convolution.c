#include "config.h"
#include "zoo/convolution.h"

#include "ir/window.h"

#include <math.h>
#include <string.h>

int32_t zoo_images(ir_graph *g, int64_t samples, int64_t channels, int64_t size)
{
    int64_t dim[] = {samples, channels, size, size};
    return ir_input(g, "x", IR_F32, ir_shape_make(4, dim), 0);
}

int64_t zoo_channels(const ir_graph *g, int32_t x)
{
    const ir_shape shape = ir_shape_of(g, x);
    return shape.rank > 1 ? shape.dim[1] : 1;
}

static void set_window(int64_t *attr, int64_t stride, int64_t pad)
{
    for (int32_t k = 0; k < 2; k++) {
        attr[IR_WINDOW_STRIDE + k] = stride > 0 ? stride : 1;
        attr[IR_WINDOW_BEFORE + k] = pad;
        attr[IR_WINDOW_AFTER + k] = pad;
    }
}

/* A vector of channels, to be added to (N, C, H, W). */
static int32_t add_channels(ir_graph *g, int32_t x, int32_t bias, int64_t n)
{
    int64_t dim[] = {n, 1, 1};
    return ir_binary(g, IR_OP_add, x,
                     ir_reshape(g, bias, ir_shape_make(3, dim)));
}

int32_t zoo_conv(ir_graph *g, int32_t x, const zoo_conv_spec *spec)
{
    int64_t attr[IR_WINDOW_ATTRS] = {0};
    const int64_t groups = spec->groups > 0 ? spec->groups : 1;
    const int64_t k = spec->kernel, in = spec->in / groups;
    int64_t dim[] = {spec->out, in, k, k};
    ir_init init = zoo_normal(sqrt(2.0 / (double)(in * k * k)));
    zoo_scope(g, spec->part);
    set_window(attr, spec->stride, spec->pad);
    attr[IR_WINDOW_SPREAD] = attr[IR_WINDOW_SPREAD + 1] = 1;
    attr[IR_WINDOW_GROUPS] = groups;
    int32_t w =
        zoo_parameter(g, spec->part, "weight", ir_shape_make(4, dim), init);
    int32_t y = ir_conv(g, x, w, attr);
    if (!spec->biased)
        return y;
    int32_t b = zoo_parameter(g, spec->part, "bias", zoo_vector(spec->out),
                              (ir_init){0});
    return add_channels(g, y, b, spec->out);
}

int32_t zoo_conv_up(ir_graph *g, int32_t x, zoo_part part, int64_t out)
{
    int64_t attr[IR_WINDOW_ATTRS] = {0};
    const ir_shape shape = ir_shape_of(g, x);
    if (shape.rank != 4)
        return -1;
    int64_t dim[] = {shape.dim[1], out, 2, 2};
    zoo_scope(g, part);
    set_window(attr, 2, 0);
    attr[IR_WINDOW_SPREAD] = attr[IR_WINDOW_SPREAD + 1] = 1;
    attr[IR_WINDOW_GROUPS] = 1;
    for (int32_t k = 0; k < 2; k++)
        attr[IR_WINDOW_LENGTH + k] = 2 * shape.dim[2 + k];
    int32_t w = zoo_parameter(g, part, "weight", ir_shape_make(4, dim),
                              zoo_uniform(4 * shape.dim[1]));
    int32_t b = zoo_parameter(g, part, "bias", zoo_vector(out), (ir_init){0});
    return add_channels(g, ir_conv_transpose(g, x, w, attr), b, out);
}

/* ---- batch norm ---- */

/* Takes a tenth of the batch's as its next value. */
static void move_statistic(ir_graph *g, int32_t running, int32_t batch)
{
    int32_t moved = ir_binary(g, IR_OP_add, ir_scale(g, running, 0.9, 0),
                              ir_scale(g, batch, 0.1, 0));
    if (moved >= 0)
        g->tensors.at[running].next = moved;
}

int32_t zoo_batch_norm(ir_graph *g, int32_t x, zoo_part part)
{
    const ir_shape in = ir_shape_of(g, x);
    if (in.rank < 2)
        return -1;
    const ir_shape shape = zoo_vector(in.dim[1]);
    const uint32_t others = ((1u << in.rank) - 1) & ~2u;
    const double count = (double)ir_shape_count(&in) / (double)in.dim[1];
    zoo_scope(g, part);
    int32_t gain = zoo_parameter(g, part, "weight", shape, zoo_constant(1));
    int32_t bias = zoo_parameter(g, part, "bias", shape, (ir_init){0});
    int32_t old_mean = zoo_buffer(g, part, "running_mean", shape, (ir_init){0});
    int32_t old_var =
        zoo_buffer(g, part, "running_var", shape, zoo_constant(1));
    ir_node node = {.op = IR_OP_batch_norm,
                    .n_in = 5,
                    .in = {x, gain, bias, old_mean, old_var},
                    .f = {1e-5}};
    if (g->infer)
        return ir_append(g, &node);
    int32_t mean = ir_reduce_mean(g, x, others, false);
    int32_t squares = ir_binary(g, IR_OP_centred_square, x, mean);
    int32_t var = ir_scale(g, squares, 1 / count, 0);
    node.in[3] = mean;
    node.in[4] = var;
    node.i[0] = 1;
    int32_t y = ir_append(g, &node);
    move_statistic(g, old_mean, mean);
    move_statistic(g, old_var, var);
    return y;
}

/* "conv1" -> "bn1" */
static zoo_part norm_part(ir_graph *g, zoo_part part)
{
    const char *conv = strstr(part.name, "conv");
    if (conv)
        part.name = fs_printf(g->arena, "%.*sbn%s", (int)(conv - part.name),
                              part.name, conv + 4);
    else
        part.name = fs_printf(g->arena, "%s/bn", part.name);
    return part;
}

int32_t zoo_conv_norm(ir_graph *g, int32_t x, const zoo_conv_spec *spec,
                      ir_op_kind activation)
{
    x = zoo_conv(g, x, spec);
    x = zoo_batch_norm(g, x, norm_part(g, spec->part));
    if (activation == IR_OP_identity)
        return x;
    ir_node node = {.op = activation, .n_in = 1, .in = {x}};
    if (activation == IR_OP_clip)
        node.f[1] = 6; /* ReLU6 */
    return ir_append(g, &node);
}

/* ---- pooling ---- */

int32_t zoo_max_pool(ir_graph *g, int32_t x, zoo_pool_spec spec)
{
    int64_t attr[IR_WINDOW_ATTRS] = {0};
    set_window(attr, spec.stride, spec.pad);
    attr[IR_WINDOW_SIZE] = attr[IR_WINDOW_SIZE + 1] = spec.size;
    attr[IR_WINDOW_DILATION] = attr[IR_WINDOW_DILATION + 1] = 1;
    return ir_pool(g, IR_OP_max_pool, x, attr);
}

int32_t zoo_mean_pool(ir_graph *g, int32_t x)
{
    return ir_reduce_mean(g, x, 1u << 2 | 1u << 3, false);
}

int32_t zoo_flatten(ir_graph *g, int32_t x)
{
    const ir_shape shape = ir_shape_of(g, x);
    if (shape.rank < 1)
        return -1;
    return ir_reshape(
        g, x, zoo_matrix(shape.dim[0], ir_shape_count(&shape) / shape.dim[0]));
}
