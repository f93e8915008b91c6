/* max_pool2d, avg_pool2d and their gradients. */
#include "config.h"

#include "kernels/loops.h"
#include "kernels/math.h"

/* (N, C) are `planes`. count_pad: padding counts in an average's divisor. */
typedef struct pool {
    int64_t planes, h, w, oh, ow;
    int64_t stride[2], pad[4], size[2];
    bool count_pad;
} pool;

static pool pool_read(const ir_node *node, const ir_shape *x, const ir_shape *y)
{
    pool p = {.planes = x->dim[0] * x->dim[1],
              .h = x->dim[2],
              .w = x->dim[3],
              .oh = y->dim[2],
              .ow = y->dim[3],
              .count_pad = node->i[8] != 0};
    memcpy(p.stride, node->i, sizeof p.stride);
    memcpy(p.pad, node->i + 2, sizeof p.pad);
    memcpy(p.size, node->i + 6, sizeof p.size);
    return p;
}

/* The part of a window that lies on its plane, which starts at `plane`. */
typedef struct window {
    int64_t plane, low[2], high[2], count;
} window;

static window window_at(const pool *p, int64_t at)
{
    const int64_t place[2] = {at / p->ow % p->oh, at % p->ow};
    const int64_t limit[2] = {p->h, p->w};
    window v = {.plane = at / (p->oh * p->ow) * p->h * p->w};
    for (int i = 0; i < 2; i++) {
        const int64_t low = place[i] * p->stride[i] - p->pad[i];
        const int64_t high = low + p->size[i];
        v.low[i] = low > 0 ? low : 0;
        v.high[i] = high < limit[i] ? high : limit[i];
    }
    const int64_t on_plane = (v.high[0] - v.low[0]) * (v.high[1] - v.low[1]);
    v.count = p->count_pad || on_plane < 1 ? p->size[0] * p->size[1] : on_plane;
    return v;
}

#include "kernels/real_f32.h"
#include "kernels/cpu_pool.inc"

#include "kernels/real_f64.h"
#include "kernels/cpu_pool.inc"

KERNEL_REAL(max_pool2d);
KERNEL_REAL(max_pool2d_grad);
KERNEL_REAL(avg_pool2d);
KERNEL_REAL(avg_pool2d_grad);
