/* matmul and weight_grad by packed products. */
#include "config.h"

#include "kernels/matmul.h"
#include "kernels/product.h"
#include "kernels/table.h"

#include <stdlib.h>

typedef kernel_matmul read_call(const kernel_call *call);

typedef struct packed {
    const kernel_tiles *tiles;
    int64_t room;
} packed;

static bool is_float(const kernel_call *call)
{
    return call->in[0].dtype == IR_F32 && call->in[1].dtype == IR_F32 &&
           call->out[0].dtype == IR_F32;
}

static fs_status prepare(const kernel_call *shapes, read_call *read,
                         fs_err *err, void **state)
{
    int n;
    const kernel_tiles *all = kernel_tiles_list(&n);
    const kernel_tiles *tiles = kernel_tiles_find();
    if (!tiles && shapes->alike)
        tiles = &all[n - 1]; /* runs anywhere */
    if (!is_float(shapes) || !tiles)
        return FS_NO;
    const kernel_matmul p = read(shapes);
    packed *made = malloc(sizeof *made);
    if (!made)
        return fs_fail(err, FS_FAULT, "out of memory for a product");
    *made = (packed){.tiles = tiles};
    if (p.m > 0 && p.n > 0 && p.k > 0)
        made->room = kernel_packed_room(tiles, p.m, p.k);
    *state = made;
    return FS_OK;
}

/* Nothing to sum. */
static void fill(const kernel_matmul *p, const float *bias, float *c)
{
    for (int64_t i = 0; i < p->batch * p->m * p->n; i++)
        c[i] = bias ? bias[i % p->n] : 0;
}

static fs_status run(const packed *state, const kernel_call *call,
                     read_call *read)
{
    const kernel_matmul p = read(call);
    const int64_t b_size = p.b_shared ? 0 : p.k * p.n;
    kernel_packed one = {.m = p.m,
                         .n = p.n,
                         .k = p.k,
                         .ta = p.ta,
                         .tb = p.tb,
                         .a_step = p.ta ? p.m : p.k,
                         .b_step = p.tb ? p.k : p.n,
                         .c_step = p.n,
                         .a = call->in[0].data,
                         .b = call->in[1].data,
                         .bias = p.biased ? call->in[2].data : NULL,
                         .c = call->out[0].data,
                         .rest = call->rest,
                         .rest_ctx = call->rest_ctx};
    if (p.k == 0)
        fill(&p, one.bias, one.c);
    for (int64_t i = 0; i < p.batch && state->room > 0; i++) {
        kernel_packed_run(state->tiles, &one, call->workspace);
        one.a += p.m * p.k;
        one.b += b_size;
        one.c += p.m * p.n;
    }
    return FS_OK;
}

static int64_t workspace(const void *state)
{
    return ((const packed *)state)->room;
}

/* Packing takes as long as a small product, or as one with few rows: these are
 * oneDNN's. */
static bool is_large(const kernel_matmul *p)
{
    const int64_t few = 32;
    const kernel_tiles *tiles = kernel_tiles_find();
    return tiles && p->m >= few && p->n >= few && p->k >= few &&
           p->m * p->n > tiles->small / p->k;
}

#define PACKED(op, read)                                                       \
    static fs_status op##_prepare(const kernel_call *shapes, fs_err *err,      \
                                  void **state)                                \
    {                                                                          \
        return prepare(shapes, read, err, state);                              \
    }                                                                          \
    static fs_status op##_run(void *state, const kernel_call *call,            \
                              fs_err *err)                                     \
    {                                                                          \
        (void)err;                                                             \
        return run(state, call, read);                                         \
    }                                                                          \
    static bool op##_pays(const kernel_call *shapes)                           \
    {                                                                          \
        const kernel_matmul p = read(shapes);                                  \
        return is_large(&p);                                                   \
    }                                                                          \
    const kernel kernel_packed_##op = {.variant = "packed",                    \
                                       .pays = op##_pays,                      \
                                       .prepare = op##_prepare,                \
                                       .run = op##_run,                        \
                                       .release = free,                        \
                                       .workspace = workspace,                 \
                                       .rests = true};
PACKED(matmul, kernel_matmul_read)
PACKED(weight_grad, kernel_weight_grad_read)
