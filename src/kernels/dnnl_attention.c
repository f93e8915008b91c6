/* attention and its gradients with oneDNN's product: blocks are small enough
 * for one core, and large enough that it runs at its full rate. */
#include "config.h"

#include "kernels/attention.h"
#include "kernels/dnnl_call.h"
#include "kernels/table.h"

#include <stdlib.h>

static bool multiply(const kernel_product *p, const void *a, const void *b,
                     void *c)
{
    return dnnl_sgemm(p->ta ? 'T' : 'N', p->tb ? 'T' : 'N', p->m, p->n, p->k,
                      (float)p->alpha, a, p->a_step, b, p->b_step,
                      (float)p->beta, c, p->c_step) == dnnl_success;
}

/* FS_NO but for floats that are there: oneDNN leaves a product whose sums have
 * no terms as it is. */
static fs_status prepare(const kernel_call *shapes, fs_err *err, void **state)
{
    for (int32_t k = 0; k < shapes->n_in; k++)
        if (ir_shape_count(&shapes->in[k].shape) == 0)
            return FS_NO;
    if (!kernel_dnnl_takes(shapes))
        return FS_NO;
    int *threads = malloc(sizeof *threads);
    if (!threads)
        return fs_fail(err, FS_FAULT, "out of memory for attention");
    *threads = kernel_dnnl_threads();
    *state = threads;
    return FS_OK;
}

typedef bool attention_body(const kernel_call *call, kernel_multiply *multiply);

static fs_status run(const int *threads, const kernel_call *call,
                     attention_body *body, fs_err *err)
{
    kernel_dnnl_take_threads(*threads);
    if (body(call, multiply))
        return FS_OK;
    return fs_fail(err, FS_FAULT, "oneDNN makes no product");
}

#define ATTENTION(op)                                                          \
    static fs_status op##_run(void *state, const kernel_call *call,            \
                              fs_err *err)                                     \
    {                                                                          \
        return run(state, call, kernel_##op##_by, err);                        \
    }                                                                          \
    const kernel kernel_dnnl_##op = {.variant = "dnnl",                        \
                                     .prepare = prepare,                       \
                                     .run = op##_run,                          \
                                     .release = free,                          \
                                     .rests = true};
ATTENTION(attention)
ATTENTION(attention_grad)
ATTENTION(attention_bias_grad)
