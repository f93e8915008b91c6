/* Products in tiles and waves: closed forms, and what holds of all shapes. */
#include "config.h"
#include "cost/parts.h"
#include "tap.h"

#include <math.h>

static const hw_device device = {.name = "d",
                                 .memory_bytes = 1e9,
                                 .memory_bps = 1e12,
                                 .bf16_flops = 1e14,
                                 .matmul_efficiency = 1,
                                 .memory_efficiency = 1,
                                 .units = 10,
                                 .ramp_depth = 64};

static double at(int64_t groups, int64_t rows, int64_t columns, int64_t depth)
{
    const ir_product p = {groups, rows, columns, depth, 0};
    return cost_product_seconds(&device, &p, 1e14);
}

static double least(int64_t groups, int64_t rows, int64_t columns,
                    int64_t depth)
{
    return 2.0 * (double)groups * (double)rows * (double)columns *
           (double)depth / 1e14;
}

static void test_closed(void)
{
    /* ten tiles of 256 x 128 are one wave; each is as if 64 deeper */
    const double wave = 2.0 * 256 * 128 * (4096 + 64) * 10 / 1e14;
    tap_near(at(1, 2560, 128, 4096), wave, 1e-12, "a full wave");
    tap_near(at(10, 256, 128, 4096), wave, 1e-12, "the same in ten groups");
    tap_near(at(1, 5120, 128, 4096), 2 * wave, 1e-12, "two waves");
    tap_ok(at(1, 5120 + 1, 128, 4096) > 2 * wave,
           "a row more begins another wave");
    tap_near(at(1, 2560, 128, 4096) / at(1, 2500, 128, 4096), 1, 1e-12,
             "what is missing of the last tiles is done all the same");
}

static void test_splits(void)
{
    /* one tile alone: its depth is split over the processors, in halves */
    const double alone = 2.0 * 256 * 128 * (65536 + 64) * 10 / 1e14;
    tap_ok(at(1, 256, 128, 65536) < alone / 7,
           "a deep product of one tile is split");
    tap_ok(at(1, 256, 128, 64) > alone / 65536 * 64 / 10,
           "a shallow one takes its ramp");
}

static int64_t draw(uint64_t *state, int64_t most)
{
    *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return 1 + (int64_t)((*state >> 33) % (uint64_t)most);
}

static void test_drawn(uint64_t seed)
{
    int32_t below = 0, falls = 0, deeper = 0, infinite = 0;
    uint64_t state = seed;
    enum { CASES = 2000 };
    for (int32_t i = 0; i < CASES; i++) {
        const int64_t g = draw(&state, 8), m = draw(&state, 5000),
                      n = draw(&state, 5000), k = draw(&state, 9000);
        const double s = at(g, m, n, k);
        below += s < least(g, m, n, k);
        falls += at(g, m + draw(&state, 500), n, k) < s ||
                 at(g, m, n + draw(&state, 500), k) < s ||
                 at(g + 1, m, n, k) < s;
        deeper += at(g, m, n, k + draw(&state, 500)) < s;
        infinite += !isfinite(s) || !(s > 0);
    }
    tap_equal_int(infinite, 0, "seed %llu: %d shapes take a time",
                  (unsigned long long)seed, CASES);
    tap_equal_int(below, 0, "none less than its operations take");
    tap_equal_int(falls, 0, "more rows, columns, groups never take less");
    tap_equal_int(deeper, 0, "nor does more depth");
}

/* What begins at 16 bytes, of 2-byte or of 4-byte elements. */
static void test_aligned(void)
{
    static const struct {
        const char *what;
        int64_t inner;
        ir_dtype narrow;
        bool tf32;
        double share;
    } cases[] = {
        {"16-bit floats in rows of 50,304", 50304, IR_BF16, false, 1},
        {"in rows of 50,257", 1, IR_BF16, false, .5},
        {"in rows of 12,564: at 8 bytes", 4, IR_F16, false, .5},
        {"floats as tf32 in rows of 12,564", 4, IR_F32, true, 1},
        {"in rows of 30,522", 2, IR_F32, true, .5},
        {"floats off tensor cores, any rows", 1, IR_F32, false, 1},
        {"a convolution", 0, IR_BF16, false, 1},
    };
    hw_device d = device;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const ir_work work = {.narrow = cases[i].narrow};
        const ir_product p = {1, 4096, 4096, 4096, cases[i].inner};
        d.uses_tf32 = cases[i].tf32;
        d.unaligned_efficiency = .5;
        tap_near(cost_product_alignment(&d, &work, &p), cases[i].share, 0, "%s",
                 cases[i].what);
        d.unaligned_efficiency = 0;
        tap_near(cost_product_alignment(&d, &work, &p), 1, 0,
                 "nobody says what that costs");
    }
}

int main(void)
{
    test_closed();
    test_aligned();
    test_splits();
    test_drawn(61);
    return tap_done();
}
