/* conv2d and its gradients through oneDNN, all tensors in row-major NCHW
 * order: its blocked layouts would need re-ordering at every edge. */
#include "config.h"

#include "kernels/dnnl_call.h"
#include "kernels/table.h"
#include "kernels/window.h"

/* Where x, weights and y stand among a kernel's arguments: 0, 1 inputs, 2
 * output. */
typedef struct places {
    int x, weights, y;
} places;

static const ir_shape *shape_at(const kernel_call *call, int place)
{
    return place < 2 ? &call->in[place].shape : &call->out[0].shape;
}

static dnnl_status_t describe(const kernel_conv *p, dnnl_memory_desc_t *x,
                              dnnl_memory_desc_t *weights,
                              dnnl_memory_desc_t *y)
{
    const dnnl_dims_t in = {p->n, p->c, p->h, p->w};
    const dnnl_dims_t out = {p->n, p->m, p->oh, p->ow};
    const int64_t g = p->groups;
    const dnnl_dims_t filter = {p->m, p->c, p->r, p->s};
    const dnnl_dims_t split = {g, p->m / g, p->c / g, p->r, p->s};
    dnnl_status_t status =
        dnnl_memory_desc_init_by_tag(x, 4, in, dnnl_f32, dnnl_nchw);
    if (status == dnnl_success)
        status = dnnl_memory_desc_init_by_tag(y, 4, out, dnnl_f32, dnnl_nchw);
    if (status == dnnl_success && g == 1)
        status = dnnl_memory_desc_init_by_tag(weights, 4, filter, dnnl_f32,
                                              dnnl_oihw);
    else if (status == dnnl_success)
        status = dnnl_memory_desc_init_by_tag(weights, 5, split, dnnl_f32,
                                              dnnl_goihw);
    return status;
}

/* Padding at the bottom and right as oneDNN wants it: what the windows reach,
 * which is less than what the node says when the stride does not divide. */
static void reached_pads(const kernel_conv *p, dnnl_dims_t out)
{
    out[0] = (p->oh - 1) * p->stride[0] + (p->r - 1) * p->dilation[0] + 1 -
             p->h - p->pad[0];
    out[1] = (p->ow - 1) * p->stride[1] + (p->s - 1) * p->dilation[1] + 1 -
             p->w - p->pad[1];
}

static dnnl_status_t init_desc(const kernel_conv *p, dnnl_prop_kind_t kind,
                               const dnnl_memory_desc_t tensor[3],
                               dnnl_convolution_desc_t *out)
{
    const dnnl_memory_desc_t *x = &tensor[0], *w = &tensor[1], *y = &tensor[2];
    const dnnl_dims_t step = {p->stride[0], p->stride[1]};
    const dnnl_dims_t wide = {p->dilation[0] - 1, p->dilation[1] - 1};
    const dnnl_dims_t before = {p->pad[0], p->pad[1]};
    const dnnl_alg_kind_t how = dnnl_convolution_direct;
    dnnl_dims_t after;
    reached_pads(p, after);
    if (kind == dnnl_backward_data)
        return dnnl_dilated_convolution_backward_data_desc_init(
            out, how, x, w, y, step, wide, before, after);
    if (kind == dnnl_backward_weights)
        return dnnl_dilated_convolution_backward_weights_desc_init(
            out, how, x, w, NULL, y, step, wide, before, after);
    return dnnl_dilated_convolution_forward_desc_init(
        out, kind, how, x, w, NULL, y, step, wide, before, after);
}

static fs_status prepare(const kernel_call *shapes, dnnl_prop_kind_t kind,
                         places at, fs_err *err, void **state)
{
    if (!kernel_dnnl_takes(shapes))
        return FS_NO;
    const kernel_conv p =
        kernel_conv_read(shapes->node, shape_at(shapes, at.x),
                         shape_at(shapes, at.weights), shape_at(shapes, at.y));
    const bool backward = kind != dnnl_forward_training;
    dnnl_memory_desc_t tensor[3];
    dnnl_convolution_desc_t desc, forward;
    kernel_dnnl_op op = {.desc = &desc, .forward = backward ? &forward : NULL};
    if (describe(&p, &tensor[0], &tensor[1], &tensor[2]) != dnnl_success ||
        init_desc(&p, dnnl_forward_training, tensor, &forward) !=
            dnnl_success ||
        init_desc(&p, kind, tensor, &desc) != dnnl_success)
        return FS_NO;
    op.tensor[at.x] = tensor[0];
    op.arg[at.x] =
        kind == dnnl_backward_data ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC;
    op.tensor[at.weights] = tensor[1];
    op.arg[at.weights] = kind == dnnl_backward_weights ? DNNL_ARG_DIFF_WEIGHTS
                                                       : DNNL_ARG_WEIGHTS;
    op.tensor[at.y] = tensor[2];
    op.arg[at.y] = backward ? DNNL_ARG_DIFF_DST : DNNL_ARG_DST;
    return kernel_dnnl_create(&op, err, state);
}

static fs_status forward_prepare(const kernel_call *shapes, fs_err *err,
                                 void **state)
{
    return prepare(shapes, dnnl_forward_training,
                   (places){.x = 0, .weights = 1, .y = 2}, err, state);
}

static fs_status data_prepare(const kernel_call *shapes, fs_err *err,
                              void **state)
{
    return prepare(shapes, dnnl_backward_data,
                   (places){.y = 0, .weights = 1, .x = 2}, err, state);
}

static fs_status filter_prepare(const kernel_call *shapes, fs_err *err,
                                void **state)
{
    return prepare(shapes, dnnl_backward_weights,
                   (places){.y = 0, .x = 1, .weights = 2}, err, state);
}

const kernel kernel_dnnl_conv2d = {.variant = "dnnl",
                                   .prepare = forward_prepare,
                                   .run = kernel_dnnl_run,
                                   .release = kernel_dnnl_release};
const kernel kernel_dnnl_conv2d_data_grad = {.variant = "dnnl",
                                             .prepare = data_prepare,
                                             .run = kernel_dnnl_run,
                                             .release = kernel_dnnl_release};
const kernel kernel_dnnl_conv2d_filter_grad = {.variant = "dnnl",
                                               .prepare = filter_prepare,
                                               .run = kernel_dnnl_run,
                                               .release = kernel_dnnl_release};
