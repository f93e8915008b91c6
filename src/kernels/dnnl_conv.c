/* conv and its gradients through oneDNN, in the layouts that it chooses: what
 * lies otherwise is turned (dnnl_call.h), which costs less than its algorithms
 * for row-major tensors. */
#include "config.h"

#include "kernels/dnnl_call.h"
#include "kernels/layout.h"
#include "kernels/table.h"
#include "kernels/window.h"

#include <string.h>

/* Where x, weights and y stand among a kernel's arguments: 0, 1 inputs, 2
 * output. */
typedef struct places {
    int x, weights, y;
} places;

static const kernel_arg *arg_at(const kernel_call *call, int place)
{
    return place < 2 ? &call->in[place] : &call->out[0];
}

/* Row-major, of `n` leading axes and then the spatial ones. */
static dnnl_status_t describe_one(dnnl_memory_desc_t *out, int n,
                                  dnnl_dims_t dims, const kernel_conv *p,
                                  const int64_t length[IR_MAX_SPACE])
{
    dnnl_dims_t strides;
    int64_t step = 1;
    for (int k = 0; k < p->space; k++)
        dims[n + k] = length[IR_MAX_SPACE - p->space + k];
    n += p->space;
    for (int k = n - 1; k >= 0; k--) {
        strides[k] = step;
        step *= dims[k];
    }
    return dnnl_memory_desc_init_by_strides(out, n, dims, dnnl_f32, strides);
}

/* A piece of x may begin before its first window: oneDNN has no padding below
 * 0, so it is told of the part from there on. */
static dnnl_status_t leave_out(kernel_conv *p, dnnl_memory_desc_t *x)
{
    kernel_window *w = &p->window;
    const int first = IR_MAX_SPACE - p->space;
    dnnl_memory_desc_t whole = *x;
    dnnl_dims_t dims = {p->n, p->c}, from = {0};
    for (int k = 0; k < p->space; k++) {
        const int64_t skip =
            w->before[first + k] < 0 ? -w->before[first + k] : 0;
        w->in[first + k] -= skip;
        w->before[first + k] += skip;
        dims[2 + k] = w->in[first + k];
        from[2 + k] = skip;
    }
    return dnnl_memory_desc_init_submemory(x, &whole, dims, from);
}

/* What lies blocked; a plane of one position lies so in any case. */
static dnnl_status_t describe_lying(const kernel_arg *arg,
                                    dnnl_memory_desc_t *out)
{
    static const dnnl_format_tag_t tag[] = {dnnl_nCw16c, dnnl_nChw16c,
                                            dnnl_nCdhw16c};
    dnnl_dims_t own;
    if (!kernel_may_block(arg) ||
        (arg->layout != KERNEL_BLOCKED && kernel_blocks_of(&arg->shape).s != 1))
        return dnnl_success;
    memcpy(own, out->dims, sizeof own);
    return dnnl_memory_desc_init_by_tag(out, out->ndims, own, dnnl_f32,
                                        tag[out->ndims - 3]);
}

static dnnl_status_t describe(const kernel_conv *p, dnnl_memory_desc_t *x,
                              dnnl_memory_desc_t *weights,
                              dnnl_memory_desc_t *y)
{
    const kernel_window *w = &p->window;
    const int64_t g = p->groups;
    dnnl_dims_t in = {p->n, p->c}, out = {p->n, p->m};
    dnnl_dims_t filter = {p->m, p->c}, split = {g, p->m / g, p->c / g};
    dnnl_status_t status = describe_one(x, 2, in, p, w->in);
    if (status == dnnl_success)
        status = describe_one(y, 2, out, p, w->out);
    if (status == dnnl_success)
        status = g == 1 ? describe_one(weights, 2, filter, p, w->size)
                        : describe_one(weights, 3, split, p, w->size);
    return status;
}

/* First of the taps that reach x from any place of y on axis k, and how many
 * there are; 0 of none. */
static int64_t find_taps(const kernel_window *w, int k, int64_t *n)
{
    int64_t first = -1, last = -1;
    for (int64_t t = 0; t < w->size[k]; t++) {
        int64_t range[2];
        kernel_valid(w->out[k], w->in[k], w->stride[k],
                     t * w->dilation[k] - w->before[k], range);
        if (range[0] == range[1])
            continue;
        first = first < 0 ? t : first;
        last = t;
    }
    *n = first < 0 ? 0 : last + 1 - first;
    return first;
}

/* Where planes are as small as the window, some taps never see but padding:
 * oneDNN is told of the others alone. */
static dnnl_status_t cut_window(kernel_conv *p, dnnl_memory_desc_t *weights,
                                bool *cut)
{
    kernel_window *w = &p->window;
    const int first = IR_MAX_SPACE - p->space, lead = weights->ndims - p->space;
    const dnnl_memory_desc_t whole = *weights;
    dnnl_dims_t dims, from = {0};
    memcpy(dims, whole.dims, sizeof dims);
    *cut = false;
    for (int k = 0; k < p->space; k++) {
        int64_t n, at = find_taps(w, first + k, &n);
        if (n == 0 || n == w->size[first + k])
            continue;
        *cut = true;
        w->before[first + k] -= at * w->dilation[first + k];
        w->size[first + k] = dims[lead + k] = n;
        from[lead + k] = at;
    }
    return *cut ? dnnl_memory_desc_init_submemory(weights, &whole, dims, from)
                : dnnl_success;
}

/* Padding at the end as oneDNN wants it: what the windows reach, which is less
 * than what the node says when the stride does not divide. */
static int64_t reached_pad(const kernel_window *w, int k)
{
    return (w->out[k] - 1) * w->stride[k] + (w->size[k] - 1) * w->dilation[k] +
           1 - w->in[k] - w->before[k];
}

static dnnl_status_t init_desc(const kernel_conv *p, dnnl_prop_kind_t kind,
                               const dnnl_memory_desc_t tensor[3],
                               dnnl_convolution_desc_t *out)
{
    const dnnl_memory_desc_t *x = &tensor[0], *w = &tensor[1], *y = &tensor[2];
    const dnnl_alg_kind_t how = dnnl_convolution_direct;
    const int first = IR_MAX_SPACE - p->space;
    dnnl_dims_t step, wide, before, after;
    for (int k = 0; k < p->space; k++) {
        step[k] = p->window.stride[first + k];
        wide[k] = p->window.dilation[first + k] - 1;
        before[k] = p->window.before[first + k];
        after[k] = reached_pad(&p->window, first + k);
    }
    if (kind == dnnl_backward_data)
        return dnnl_dilated_convolution_backward_data_desc_init(
            out, how, x, w, y, step, wide, before, after);
    if (kind == dnnl_backward_weights)
        return dnnl_dilated_convolution_backward_weights_desc_init(
            out, how, x, w, NULL, y, step, wide, before, after);
    return dnnl_dilated_convolution_forward_desc_init(
        out, kind, how, x, w, NULL, y, step, wide, before, after);
}

/* As products of one sample: y's positions are rows, what each window holds is
 * spread out. */
static void describe_product(const kernel_conv *p, dnnl_prop_kind_t kind,
                             int64_t product[3])
{
    const int64_t positions = kernel_volume(p->window.out);
    const int64_t channels = p->m / p->groups;
    const int64_t spread = p->c / p->groups * kernel_volume(p->window.size);
    product[0] = kind == dnnl_backward_weights ? spread : positions;
    product[1] = kind == dnnl_backward_data ? spread : channels;
    product[2] = kind == dnnl_forward_training ? spread
                 : kind == dnnl_backward_data  ? channels
                                               : positions;
}

/* The same dimensions, in whatever layout. */
static dnnl_status_t leave_open(const dnnl_memory_desc_t tensor[3],
                                dnnl_memory_desc_t out[3])
{
    dnnl_status_t status = dnnl_success;
    for (int k = 0; k < 3 && status == dnnl_success; k++)
        status = dnnl_memory_desc_init_by_tag(&out[k], tensor[k].ndims,
                                              tensor[k].dims, dnnl_f32,
                                              dnnl_format_tag_any);
    return status;
}

static fs_status prepare(const kernel_call *shapes, dnnl_prop_kind_t kind,
                         places at, fs_err *err, void **state)
{
    if (!kernel_dnnl_takes(shapes))
        return FS_NO;
    kernel_conv p =
        kernel_conv_read(shapes->node, arg_at(shapes, at.x),
                         arg_at(shapes, at.weights), arg_at(shapes, at.y));
    const bool backward = kind != dnnl_forward_training;
    bool cut;
    dnnl_memory_desc_t tensor[3], open[3];
    dnnl_convolution_desc_t desc, forward;
    kernel_dnnl_op op = {
        .desc = &desc, .forward = backward ? &forward : NULL, .n = 3};
    if (describe(&p, &tensor[0], &tensor[1], &tensor[2]) != dnnl_success ||
        describe_lying(arg_at(shapes, at.x), &tensor[0]) != dnnl_success ||
        describe_lying(arg_at(shapes, at.y), &tensor[2]) != dnnl_success ||
        cut_window(&p, &tensor[1], &cut) != dnnl_success ||
        (kind != dnnl_backward_data &&
         leave_out(&p, &tensor[0]) != dnnl_success) ||
        leave_open(tensor, open) != dnnl_success ||
        init_desc(&p, dnnl_forward_training, open, &forward) != dnnl_success ||
        init_desc(&p, kind, open, &desc) != dnnl_success)
        return FS_NO;
    describe_product(&p, kind, op.product);
    op.tensor[at.x] = tensor[0];
    op.arg[at.x] =
        kind == dnnl_backward_data ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC;
    op.tensor[at.weights] = tensor[1];
    op.arg[at.weights] = kind == dnnl_backward_weights ? DNNL_ARG_DIFF_WEIGHTS
                                                       : DNNL_ARG_WEIGHTS;
    op.tensor[at.y] = tensor[2];
    op.clears = cut && kind == dnnl_backward_weights;
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

static bool is_blocked(const dnnl_memory_desc_t *m)
{
    const dnnl_blocking_desc_t *b = &m->format_desc.blocking;
    return m->format_kind == dnnl_blocked && b->inner_nblks == 1 &&
           b->inner_idxs[0] == 1 && b->inner_blks[0] == KERNEL_BLOCK;
}

void kernel_dnnl_conv_uses(const kernel_call *shapes, kernel_layout_use *out)
{
    const ir_op_kind op = shapes->node->op;
    fs_err err = {0};
    void *made = NULL;
    const fs_status status =
        op == IR_OP_conv             ? forward_prepare(shapes, &err, &made)
        : op == IR_OP_conv_data_grad ? data_prepare(shapes, &err, &made)
                                     : filter_prepare(shapes, &err, &made);
    if (status != FS_OK)
        return;
    const kernel_dnnl *k = made;
    for (int i = 0; i < k->n; i++) {
        const dnnl_memory_desc_t *inner = NULL;
        const bool filter =
            k->arg[i] == DNNL_ARG_WEIGHTS || k->arg[i] == DNNL_ARG_DIFF_WEIGHTS;
        if (filter || !k->turn[i].inner ||
            dnnl_memory_get_memory_desc(k->turn[i].inner, &inner) !=
                dnnl_success ||
            !is_blocked(inner))
            continue;
        out->gains = true;
        *(i < 2 ? &out->in[i] : &out->out[0]) = KERNEL_EITHER;
    }
    kernel_dnnl_release(made);
}

const kernel kernel_dnnl_conv = {.variant = "dnnl",
                                 .prepare = forward_prepare,
                                 .run = kernel_dnnl_run,
                                 .release = kernel_dnnl_release,
                                 .workspace = kernel_dnnl_workspace,
                                 .packing = kernel_dnnl_packing};
const kernel kernel_dnnl_conv_data_grad = {.variant = "dnnl",
                                           .prepare = data_prepare,
                                           .run = kernel_dnnl_run,
                                           .release = kernel_dnnl_release,
                                           .workspace = kernel_dnnl_workspace,
                                           .packing = kernel_dnnl_packing};
const kernel kernel_dnnl_conv_filter_grad = {.variant = "dnnl",
                                             .prepare = filter_prepare,
                                             .run = kernel_dnnl_run,
                                             .release = kernel_dnnl_release,
                                             .workspace = kernel_dnnl_workspace,
                                             .packing = kernel_dnnl_packing};
