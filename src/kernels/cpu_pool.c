/* Pooling: largest, index of the largest, mean or sum, and the gradients. */
#include "config.h"

#include "kernels/window.h"

#include "kernels/layout.h"
#include "kernels/loops.h"
#include "kernels/math.h"

/* Samples and channels are `planes`. */
typedef struct pool {
    int64_t planes, in, out; /* elements per plane */
    kernel_window window;
    int64_t first[3], end[3]; /* of x as far as windows reach, in its piece */
    int64_t mode;
} pool;

static pool pool_read(const ir_node *node, const kernel_arg *x,
                      const kernel_arg *y)
{
    const int32_t n = x->shape.rank - 2;
    pool p = {.planes = x->shape.dim[0] * x->shape.dim[1],
              .window = kernel_window_read(node, x, y),
              .mode = node->i[IR_WINDOW_MODE]};
    const bool mean =
        node->op == IR_OP_avg_pool || node->op == IR_OP_avg_pool_grad;
    for (int32_t k = 0; k < 3; k++)
        p.end[k] = p.window.in[k];
    for (int32_t k = 0; k < n; k++) {
        const int32_t at = IR_MAX_SPACE - n + k;
        p.window.size[at] = node->i[IR_WINDOW_SIZE + k];
        if (!mean)
            p.window.dilation[at] = node->i[IR_WINDOW_DILATION + k];
        if (node->op != IR_OP_avg_pool_grad)
            continue; /* x's piece holds all that its windows reach */
        p.first[at] = -x->offset[2 + k];
        p.end[at] = node->i[IR_WINDOW_LENGTH + k] - x->offset[2 + k];
    }
    p.in = kernel_volume(p.window.in);
    p.out = kernel_volume(p.window.out);
    return p;
}

/* The elements of a window that lie on its plane, which starts at `plane`:
 * low, low + dilation, .. below high on each axis; `count` is what a mean is
 * divided by. */
typedef struct window {
    int64_t plane, low[3], high[3], count;
} window;

/* Elements that a mean counts along one axis; what hangs over the padding
 * after x is not there. */
static int64_t counted(const pool *p, int32_t k, int64_t start)
{
    const kernel_window *w = &p->window;
    const int64_t end = start + w->size[k];
    const bool padding = p->mode & IR_WINDOW_COUNT_PAD;
    const int64_t limit = p->end[k] + (padding ? w->after[k] : 0);
    const int64_t first = padding || start > p->first[k] ? start : p->first[k];
    return (end < limit ? end : limit) - first;
}

static window window_at(const pool *p, int64_t at)
{
    const kernel_window *w = &p->window;
    const int64_t o = at % p->out;
    const int64_t place[3] = {o / (w->out[1] * w->out[2]),
                              o / w->out[2] % w->out[1], o % w->out[2]};
    window v = {.plane = at / p->out * p->in, .count = 1};
    for (int32_t k = 0; k < 3; k++) {
        const int64_t step = w->dilation[k];
        const int64_t start = place[k] * w->stride[k] - w->before[k];
        const int64_t end = start + (w->size[k] - 1) * step + 1;
        v.low[k] = start < 0 ? start + (step - 1 - start) / step * step : start;
        v.high[k] = end < w->in[k] ? end : w->in[k];
        v.count *= counted(p, k, start);
    }
    v.count = p->mode & IR_WINDOW_SUM ? 1 : v.count;
    return v;
}

/* A walk over the rows of a window: the offset of (i, j, 0). */
#define EACH_ROW(p, v, row)                                                    \
    for (int64_t i = (v).low[0]; i < (v).high[0]; i += (p).window.dilation[0]) \
        for (int64_t j = (v).low[1], row;                                      \
             j < (v).high[1] &&                                                \
             (row = (v).plane + (i * (p).window.in[1] + j) * (p).window.in[2], \
             true);                                                            \
             j += (p).window.dilation[1])

/* Place `at` of a plane, counted with the first axis fastest. */
static int64_t by_column(const kernel_window *w, int64_t at)
{
    const int64_t k = at % w->in[2], j = at / w->in[2] % w->in[1];
    const int64_t i = at / (w->in[1] * w->in[2]);
    return (k * w->in[1] + j) * w->in[0] + i;
}

/* Element `at` of x's piece as one of dx's, or -1 when it lies outside. */
static int64_t place_in(const pool *x, const pool *dx, int64_t at)
{
    const kernel_window *w = &x->window, *v = &dx->window;
    int64_t place[3] = {at % x->in / (w->in[1] * w->in[2]),
                        at / w->in[2] % w->in[1], at % w->in[2]};
    for (int32_t k = 0; k < 3; k++) {
        place[k] += w->before[k] - v->before[k];
        if (place[k] < 0 || place[k] >= v->in[k])
            return -1;
    }
    return at / x->in * dx->in + (place[0] * v->in[1] + place[1]) * v->in[2] +
           place[2];
}

#include "kernels/real_f32.h"
#include "kernels/cpu_pool.inc"

#include "kernels/real_f64.h"
#include "kernels/cpu_pool.inc"

KERNEL_REAL(max_pool);
KERNEL_REAL(max_pool_grad);
KERNEL_REAL(avg_pool);
KERNEL_REAL(avg_pool_grad);

static fs_status max_pool_index_run(void *state, const kernel_call *call,
                                    fs_err *err)
{
    (void)state, (void)err;
    if (call->in[0].dtype == IR_F64)
        max_pool_index_f64(call);
    else
        max_pool_index_f32(call);
    return FS_OK;
}

static fs_status max_pool_index_prepare(const kernel_call *shapes, fs_err *err,
                                        void **state)
{
    (void)err;
    *state = NULL;
    return shapes->in[0].dtype == IR_F32 || shapes->in[0].dtype == IR_F64
               ? FS_OK
               : FS_NO;
}
KERNEL_REFERENCE(max_pool_index, max_pool_index_prepare);

/* ---- blocked: a plane's elements are a block's channels ---- */

enum { LANES = KERNEL_BLOCK };

static pool blocked_pool(const ir_node *node, const kernel_arg *x,
                         const kernel_arg *y)
{
    pool p = pool_read(node, x, y);
    p.planes /= LANES;
    return p;
}

FS_CLONES static void largest_lanes(const pool *p, const window *v,
                                    const float *restrict x, float *restrict y)
{
    float best[LANES];
    for (int k = 0; k < LANES; k++)
        best[k] = -INFINITY;
    EACH_ROW(*p, *v, row)
    for (int64_t at = v->low[2]; at < v->high[2]; at += p->window.dilation[2]) {
        const float *from = x + (row + at) * LANES;
        for (int k = 0; k < LANES; k++)
            best[k] =
                from[k] > best[k] || from[k] != from[k] ? from[k] : best[k];
    }
    memcpy(y, best, sizeof best);
}

static fs_status max_pool_blocks(void *state, const kernel_call *call,
                                 fs_err *err)
{
    (void)state, (void)err;
    const pool p = blocked_pool(call->node, &call->in[0], &call->out[0]);
    for (int64_t at = 0; at < p.planes * p.out; at++) {
        const window v = window_at(&p, at);
        largest_lanes(&p, &v, call->in[0].data,
                      (float *)call->out[0].data + at * LANES);
    }
    return FS_OK;
}

/* Do pieces of x and dx hold the same elements? */
static bool same_planes(const pool *x, const pool *dx)
{
    const kernel_window *w = &x->window, *v = &dx->window;
    return memcmp(w->in, v->in, sizeof w->in) == 0 &&
           memcmp(w->before, v->before, sizeof w->before) == 0;
}

/* `left` of each lane goes to the first element that equals y. */
FS_CLONES static void give_lanes(const pool *p, const pool *d, const window *v,
                                 const kernel_call *call, int64_t out)
{
    const float *x = call->in[1].data;
    const bool same = same_planes(p, d);
    const float *dy = (const float *)call->in[0].data + out * LANES;
    const float *y = (const float *)call->in[2].data + out * LANES;
    float left[LANES], largest[LANES];
    memcpy(left, dy, sizeof left);
    memcpy(largest, y, sizeof largest);
    EACH_ROW(*p, *v, row)
    for (int64_t at = v->low[2]; at < v->high[2]; at += p->window.dilation[2]) {
        const float *restrict from = x + (row + at) * LANES;
        const int64_t to = same ? row + at : place_in(p, d, row + at);
        float unused[LANES] = {0};
        float *dx = to < 0 ? unused : (float *)call->out[0].data + to * LANES;
        for (int k = 0; k < LANES; k++) {
            const bool here = from[k] == largest[k];
            dx[k] += here ? left[k] : 0;
            left[k] = here ? 0 : left[k];
        }
    }
}

static fs_status max_pool_grad_blocks(void *state, const kernel_call *call,
                                      fs_err *err)
{
    (void)state, (void)err;
    const pool p = blocked_pool(call->node, &call->in[1], &call->in[0]);
    const pool d = blocked_pool(call->node, &call->out[0], &call->in[0]);
    memset(call->out[0].data, 0,
           (size_t)(d.planes * d.in * LANES) * sizeof(float));
    for (int64_t at = 0; at < p.planes * p.out; at++) {
        const window v = window_at(&p, at);
        give_lanes(&p, &d, &v, call, at);
    }
    return FS_OK;
}

const kernel kernel_blocked_max_pool = {.variant = "blocked",
                                        .run = max_pool_blocks};
const kernel kernel_blocked_max_pool_grad = {.variant = "blocked",
                                             .run = max_pool_grad_blocks};
