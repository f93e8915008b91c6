/* Intervals of predictions by regime: quantiles, which regime a run is of, the
 * file. */
#include "config.h"

#include "cost/residuals.h"

#include "tests/tap.h"

enum { N = 20 };

/* 0.9 to 1.1 on one kind of device, twice that on another, of few runs. */
static void make(fs_arena *arena, cost_residuals *out)
{
    cost_measured runs[N + 3];
    for (int32_t i = 0; i < N + 3; i++)
        runs[i] = (cost_measured){"transformer", i < N ? "a" : "b", "one node",
                                  (i < N ? 1 : 2) * (0.9 + 0.2 * (i % N) / 19)};
    cost_residuals_make(runs, N + 3, arena, out);
}

int main(void)
{
    fs_arena *arena = fs_arena_create();
    cost_residuals made;
    make(arena, &made);
    const cost_residual *r =
        cost_residuals_find(&made, "transformer", "a", "one node");
    tap_ok(r && r->rows == N, "runs alike are a regime");
    tap_near(r->low, 0.92, 1e-9, "one in ten took less");
    tap_near(r->median, 1.0, 1e-9, "half took less");
    tap_near(r->high, 1.08, 1e-9, "one in ten took more");
    r = cost_residuals_find(&made, "transformer", "b", "one node");
    tap_ok(r && !r->device && r->rows == N + 3,
           "too few of a device: those of any");
    r = cost_residuals_find(&made, "cnn", "c", "one device");
    tap_ok(r && !r->network && !r->device && !r->scale,
           "of nothing alike: all");
    const double few[] = {1, 1, 1};
    tap_equal_int(cost_residual_of(few, 3, arena).rows, 0,
                  "three runs tell nothing");
    tap_equal_text(cost_scale_name(1, 1), "one device", "one device");
    tap_equal_text(cost_scale_name(8, 1), "one node", "one node");
    tap_equal_text(cost_scale_name(16, 2), "several nodes", "several nodes");
    fs_arena_destroy(arena);
    return tap_done();
}
