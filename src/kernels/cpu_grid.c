/* grid_sample and its gradients: per place the neighbours and their weights
 * once, then every channel. */
#include "config.h"

#include "kernels/loops.h"
#include "kernels/math.h"

enum { MAX_AXES = 3, MAX_TAPS = 4, MAX_NEIGHBOURS = 64 };
enum { NEAREST, LINEAR, CUBIC };
enum { ZEROS, BORDER, REFLECTION };

/* The planes (L..) of x or its gradient; `places` of the grid per sample. */
typedef struct grid {
    int64_t n, channels, plane, places, length[MAX_AXES];
    int32_t axes;
    int64_t mode, padding;
    bool align;
} grid;

static grid grid_of(const kernel_call *call, const kernel_arg *x,
                    const kernel_arg *places)
{
    const int32_t rank = x->shape.rank;
    grid g = {.n = x->shape.dim[0],
              .channels = x->shape.dim[1],
              .plane = kernel_span(&x->shape, 2, rank),
              .places = kernel_span(&places->shape, 1, rank - 1),
              .axes = rank - 2,
              .mode = call->node->i[0],
              .padding = call->node->i[1],
              .align = call->node->i[2] != 0};
    for (int32_t k = 0; k < g.axes; k++)
        g.length[k] = x->shape.dim[2 + k];
    return g;
}

/* The elements around a place on one axis: where (-1: a zero), weight, and the
 * weight's slope by the grid's number. */
typedef struct taps {
    int32_t n;
    int64_t at[MAX_TAPS];
    double weight[MAX_TAPS], slope[MAX_TAPS];
} taps;

/* Element `at` of an endless axis. Mirrors stand in the outer elements when
 * corners are aligned, else at their outer edges. */
static int64_t element_at(const grid *g, int64_t length, int64_t at)
{
    if (at >= 0 && at < length)
        return at;
    if (g->padding == ZEROS)
        return -1;
    if (g->padding == BORDER)
        return at < 0 ? 0 : length - 1;
    if (g->align && length == 1)
        return 0;
    const int64_t period = g->align ? 2 * length - 2 : 2 * length;
    const int64_t rest = (at % period + period) % period;
    return rest < length ? rest : period - rest - !g->align;
}

/* Cubic convolution (Keys 1981) with a = -3/4, and its slope. */
static void cubic(double distance, double *weight, double *slope)
{
    const double a = -0.75, t = fabs(distance), sign = distance < 0 ? -1 : 1;
    if (t <= 1) {
        *weight = ((a + 2) * t - (a + 3)) * t * t + 1;
        *slope = sign * (3 * (a + 2) * t - 2 * (a + 3)) * t;
    } else {
        *weight = ((a * t - 5 * a) * t + 8 * a) * t - 4 * a;
        *slope = sign * ((3 * a * t - 10 * a) * t + 8 * a);
    }
}

static taps taps_at(const grid *g, int64_t length, double number)
{
    const double far = 1e9; /* and what is no number */
    const double unit =
        g->align ? (double)(length - 1) / 2 : (double)length / 2;
    double x = (number + 1) * unit - (g->align ? 0 : 0.5);
    taps t = {.n = 1 << g->mode};
    x = x > -far ? x : -far;
    x = x < far ? x : far;
    if (g->mode == NEAREST) {
        t.at[0] = element_at(g, length, (int64_t)rint(x));
        t.weight[0] = 1;
        return t;
    }
    const int64_t first = (int64_t)floor(x) - (t.n / 2 - 1);
    for (int32_t k = 0; k < t.n; k++) {
        const double distance = x - (double)(first + k);
        t.at[k] = element_at(g, length, first + k);
        if (g->mode == LINEAR) {
            t.weight[k] = 1 - fabs(distance);
            t.slope[k] = k == 0 ? -1 : 1;
        } else {
            cubic(distance, &t.weight[k], &t.slope[k]);
        }
        t.slope[k] *= unit;
    }
    return t;
}

/* The product of the axes' taps: offsets in a plane, weights, and slopes by
 * each of the grid's numbers (the last axis has the first). */
typedef struct neighbours {
    int32_t n;
    int64_t at[MAX_NEIGHBOURS];
    double weight[MAX_NEIGHBOURS], slope[MAX_AXES][MAX_NEIGHBOURS];
} neighbours;

static void add_neighbour(const grid *g, const taps *axis, int32_t which,
                          neighbours *out)
{
    int64_t at = 0;
    double weight = 1, slope[MAX_AXES] = {1, 1, 1};
    for (int32_t k = g->axes - 1, step = 1; k >= 0; k--) {
        const int32_t tap = which / step % axis[k].n;
        step *= axis[k].n;
        if (axis[k].at[tap] < 0)
            return;
        weight *= axis[k].weight[tap];
        for (int32_t j = 0; j < g->axes; j++)
            slope[j] *=
                j == g->axes - 1 - k ? axis[k].slope[tap] : axis[k].weight[tap];
    }
    for (int32_t k = 0; k < g->axes; k++) {
        const int32_t rest = g->axes - 1 - k;
        int32_t step = 1;
        for (int32_t j = 0; j < rest; j++)
            step *= axis[g->axes - 1 - j].n;
        at = at * g->length[k] + axis[k].at[which / step % axis[k].n];
    }
    out->at[out->n] = at;
    out->weight[out->n] = weight;
    for (int32_t j = 0; j < g->axes; j++)
        out->slope[j][out->n] = slope[j];
    out->n++;
}

static void find_neighbours(const grid *g, const double number[MAX_AXES],
                            neighbours *out)
{
    taps axis[MAX_AXES];
    int32_t n = 1;
    out->n = 0;
    for (int32_t k = 0; k < g->axes; k++) {
        axis[k] = taps_at(g, g->length[k], number[g->axes - 1 - k]);
        n *= axis[k].n;
    }
    for (int32_t which = 0; which < n; which++)
        add_neighbour(g, axis, which, out);
}

#include "kernels/real_f32.h"
#include "kernels/cpu_grid.inc"

#include "kernels/real_f64.h"
#include "kernels/cpu_grid.inc"

KERNEL_REAL(grid_sample);
KERNEL_REAL(grid_sample_data_grad);
KERNEL_REAL(grid_sample_grid_grad);
