/* matmul and weight_grad through oneDNN: transposes are strides. */
#include "config.h"

#include "kernels/dnnl_call.h"
#include "kernels/matmul.h"
#include "kernels/table.h"

/* (batch, rows, columns), or its transpose lying in memory; two axes where
 * there is one product. */
static dnnl_status_t matrix(dnnl_memory_desc_t *out, int64_t batch,
                            const int64_t size[2], bool transposed, bool flat)
{
    const int64_t down = transposed ? 1 : size[1];
    const int64_t right = transposed ? size[0] : 1;
    const dnnl_dims_t dim2 = {size[0], size[1]}, step2 = {down, right};
    const dnnl_dims_t dim3 = {batch, size[0], size[1]};
    const dnnl_dims_t step3 = {size[0] * size[1], down, right};
    return dnnl_memory_desc_init_by_strides(
        out, flat ? 2 : 3, flat ? dim2 : dim3, dnnl_f32, flat ? step2 : step3);
}

/* oneDNN's first choice with AVX-512 (brgemm) is at most as fast as its general
 * product but for small ones, and takes 2.5 times as long for rows of 3072
 * (512 x 3072 x 768: 54 and 145 Gflop/s of a core; oneDNN 2.6). */
static bool is_large(const kernel_matmul *p)
{
    const int64_t small = INT64_C(1) << 18;
    return p->batch == 1 && p->m * p->n * p->k > small;
}

static fs_status prepare(const kernel_matmul *p, fs_err *err, void **state)
{
    const int64_t a[2] = {p->m, p->k}, b[2] = {p->k, p->n};
    const int64_t c[2] = {p->m, p->n}, row[2] = {1, p->n};
    const bool flat = p->batch == 1;
    kernel_dnnl_op op = {.n = 2,
                         .arg = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS},
                         .general = is_large(p),
                         .product = {p->m, p->n, p->k}};
    dnnl_memory_desc_t *tensor = op.tensor, *bias = NULL, *to;
    dnnl_matmul_desc_t desc;
    if (p->biased) {
        op.arg[op.n] = DNNL_ARG_BIAS;
        bias = &tensor[op.n++];
    }
    op.arg[op.n] = DNNL_ARG_DST;
    to = &tensor[op.n++];
    if (matrix(&tensor[0], p->batch, a, p->ta, flat) != dnnl_success ||
        matrix(&tensor[1], p->b_shared ? 1 : p->batch, b, p->tb, flat) !=
            dnnl_success ||
        (bias && matrix(bias, 1, row, false, flat) != dnnl_success) ||
        matrix(to, p->batch, c, false, flat) != dnnl_success ||
        dnnl_matmul_desc_init(&desc, &tensor[0], &tensor[1], bias, to) !=
            dnnl_success)
        return FS_NO;
    op.desc = &desc;
    return kernel_dnnl_create(&op, err, state);
}

static fs_status matmul_prepare(const kernel_call *shapes, fs_err *err,
                                void **state)
{
    if (!kernel_dnnl_takes(shapes))
        return FS_NO;
    const kernel_matmul p = kernel_matmul_read(shapes);
    return prepare(&p, err, state);
}

static fs_status weight_grad_prepare(const kernel_call *shapes, fs_err *err,
                                     void **state)
{
    if (!kernel_dnnl_takes(shapes))
        return FS_NO;
    const kernel_matmul p = kernel_weight_grad_read(shapes);
    return prepare(&p, err, state);
}

/* Rows that fill no tile of its own are summed in another order (AVX2). */
const kernel kernel_dnnl_matmul = {.variant = "dnnl",
                                   .by_place = true,
                                   .prepare = matmul_prepare,
                                   .run = kernel_dnnl_run,
                                   .release = kernel_dnnl_release,
                                   .workspace = kernel_dnnl_workspace,
                                   .packing = kernel_dnnl_packing};
const kernel kernel_dnnl_weight_grad = {.variant = "dnnl",
                                        .by_place = true,
                                        .prepare = weight_grad_prepare,
                                        .run = kernel_dnnl_run,
                                        .release = kernel_dnnl_release,
                                        .workspace = kernel_dnnl_workspace,
                                        .packing = kernel_dnnl_packing};
