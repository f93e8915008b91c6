/* Products of matrices on a device whose processors take tiles of the result:
 * the last wave of tiles is rarely full, tiles at the edges are done in full,
 * and each fills its pipeline first. As in Yan, Wang and Chu (PPoPP 2020) and
 * NVIDIA's guide "Matrix Multiplication Background": tile and wave
 * quantization. */
#include "config.h"
#include "cost/parts.h"

#include <math.h>

/* What libraries choose from. A smaller tile reads more for each of its
 * products: READ is what reading an element takes in the products that are done
 * meanwhile, beyond what the largest tile hides. */
static const struct {
    int32_t rows, columns;
} tiles[] = {{256, 128}, {128, 256}, {128, 128}, {256, 64},
             {64, 256},  {128, 64},  {64, 128},  {64, 64}};
enum { N_TILES = sizeof tiles / sizeof tiles[0], MOST_SPLITS = 16, READ = 30 };

static double ceil_of(double a, double b)
{
    return ceil(a / b);
}

/* Multiply-adds that a processor does, or waits for, one wave after the other;
 * with the depth in `splits` parts, whose results are added up. */
static double steps_of(const hw_device *device, const ir_product *p,
                       double ramp, int32_t t, int32_t splits)
{
    const double rows = tiles[t].rows, columns = tiles[t].columns;
    const double count = (double)p->groups * splits *
                         ceil_of((double)p->rows, rows) *
                         ceil_of((double)p->columns, columns);
    const double excess = 1 / rows + 1 / columns - 1 / 256.0 - 1 / 128.0;
    const double depth = ceil_of((double)p->depth, splits) + ramp;
    return ceil_of(count, device->units) * rows * columns * depth *
           (1 + READ * excess);
}

double cost_product_seconds(const hw_device *device, const ir_product *p,
                            double flops)
{
    /* the ramp is a time, told as a depth at the rate of 16-bit floats */
    const double most =
        fmax(fmax(device->bf16_flops, device->fp16_flops), device->fp32_flops) *
        device->matmul_efficiency;
    const double ramp = device->ramp_depth * fmin(1, flops / most);
    double least = INFINITY;
    for (int32_t t = 0; t < N_TILES; t++)
        for (int32_t splits = 1; splits <= MOST_SPLITS; splits *= 2)
            least = fmin(least, steps_of(device, p, ramp, t, splits));
    return 2 * least * device->units / flops;
}

/* What loads 16 bytes at a time begins at multiples of them. */
enum { LOAD_BYTES = 16 };

double cost_product_alignment(const hw_device *device, const ir_work *work,
                              const ir_product *p)
{
    const bool narrow = work->narrow != IR_F32;
    const int64_t each = narrow ? 2 : 4;
    return device->unaligned_efficiency > 0 && (narrow || device->uses_tf32) &&
                   p->inner * each % LOAD_BYTES
               ? device->unaligned_efficiency
               : 1;
}

double cost_product_rate(const hw_device *device, const ir_work *work)
{
    const double peak =
        work->narrow == IR_F32
            ? hw_device_flops(device)
            : hw_device_narrow_flops(device, work->narrow == IR_BF16);
    return peak * hw_device_efficiency(device, work->narrow != IR_F32);
}

double cost_product_at(const hw_device *device, const ir_work *work,
                       const ir_product *p)
{
    const double rate = cost_product_rate(device, work) *
                        cost_product_alignment(device, work, p);
    const double whole = 2.0 * (double)p->groups * (double)p->rows *
                         (double)p->columns * (double)p->depth / rate;
    return device->units ? fmax(whole, cost_product_seconds(device, p, rate))
                         : whole;
}
