/* Intervals of predictions by regime: quantiles, which regime a run is of, the
 * file. */
#include "config.h"

#include "cost/residuals.h"

#include "tests/tap.h"

enum { N = 20 };

/* 0.9 to 1.1 under one framework, twice that under another, of few runs. */
static void make(fs_arena *arena, cost_residuals *out)
{
    cost_measured runs[N + 3];
    for (int32_t i = 0; i < N + 3; i++)
        runs[i] = (cost_measured){"transformer",
                                  "16-bit",
                                  "a",
                                  "one node",
                                  i < N ? "f" : "g",
                                  (i < N ? 1 : 2) * (0.9 + 0.2 * (i % N) / 19)};
    cost_residuals_make(runs, N + 3, arena, out);
}

static const cost_residual *find(const cost_residuals *all, const char *network,
                                 const char *precision, const char *device,
                                 const char *framework)
{
    const cost_measured asked = {network,    precision, device,
                                 "one node", framework, 0};
    return cost_residuals_find(all, &asked);
}

int main(void)
{
    fs_arena *arena = fs_arena_create();
    cost_residuals made;
    make(arena, &made);
    const cost_residual *r = find(&made, "transformer", "16-bit", "a", "f");
    tap_ok(r && r->rows == N, "runs alike are a regime");
    tap_near(r->low, 0.92, 1e-9, "one in ten took less");
    tap_near(r->median, 1.0, 1e-9, "half took less");
    tap_near(r->high, 1.08, 1e-9, "one in ten took more");
    r = find(&made, "transformer", "16-bit", "a", "g");
    tap_ok(r && !r->framework && r->rows == N + 3,
           "too few of a framework: those of any");
    r = find(&made, "transformer", "16-bit", "a", NULL);
    tap_ok(r && !r->framework && r->rows == N + 3, "so has our own runtime");
    tap_ok(!find(&made, "transformer", "16-bit", "b", "f"),
           "another device is another regime");
    tap_ok(!find(&made, "transformer", "fp32", "a", "f"), "so is a precision");
    tap_ok(!find(&made, "cnn", "16-bit", "a", "f"), "so is a kind of network");
    tap_equal_text(cost_precision_name("bf16", false), "16-bit", "bf16");
    tap_equal_text(cost_precision_name(NULL, true), "tf32", "tf32");
    tap_equal_text(cost_precision_name("fp32", false), "fp32", "fp32");
    const double few[] = {1, 1, 1};
    tap_equal_int(cost_residual_of(few, 3, arena).rows, 0,
                  "three runs tell nothing");
    tap_equal_text(cost_scale_name(1, 1), "one device", "one device");
    tap_equal_text(cost_scale_name(8, 1), "one node", "one node");
    tap_equal_text(cost_scale_name(16, 2), "several nodes", "several nodes");
    fs_arena_destroy(arena);
    return tap_done();
}
