/* The probe gives figures that a cost model can stand on; the CUDA module says
 * what it finds. No time is asserted: the machine may be busy. */
#include "config.h"

#include "exec/calibrate.h"
#include "ir/op.h"

#include "tests/tap.h"

static int32_t count_points(const hw_device *device, const char *what)
{
    int32_t n = 0;
    for (int32_t i = 0; i < device->n_points; i++)
        n += strcmp(device->points[i].what, what) == 0;
    return n;
}

static void test_points(const hw_device *device)
{
    static const char *const ops[] = {"matmul",
                                      "weight_grad",
                                      "softmax",
                                      "softmax_grad",
                                      "layer_norm",
                                      "layer_norm_grad",
                                      "layer_norm_param_grad",
                                      "gelu",
                                      "gelu_grad",
                                      "add",
                                      "mul",
                                      "where",
                                      "scale",
                                      "transpose",
                                      "slice",
                                      "pad",
                                      "concat",
                                      "gather",
                                      "gather_grad",
                                      "cross_entropy",
                                      "cross_entropy_grad",
                                      "adam",
                                      "sgd",
                                      "momentum",
                                      "accumulate",
                                      "conv",
                                      "conv_data_grad",
                                      "conv_filter_grad",
                                      "max_pool",
                                      "reduce_sum"};
    int32_t rare = 0, unsorted = 0, odd = 0;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (count_points(device, ops[i]) < 3) {
            printf("# %s: %d points\n", ops[i], count_points(device, ops[i]));
            rare++;
        }
    for (int32_t i = 0; i < device->n_points; i++) {
        const hw_point *p = &device->points[i];
        odd += !(p->work > 0 && p->seconds > 0 && p->seconds < 10);
        if (i == 0)
            continue;
        int by_name = strcmp(p[-1].what, p->what);
        bool by_form = p[-1].form < p->form ||
                       (!p->form && !p[-1].form && p[-1].work < p->work);
        unsorted += by_name > 0 || (by_name == 0 && !by_form);
    }
    tap_equal_int(rare, 0, "every op that matters has at least 3 points");
    tap_equal_int(unsorted, 0,
                  "points are sorted by op, form and work, each once");
    tap_equal_int(odd, 0, "work and seconds are positive");
    tap_ok(count_points(device, ir_op_class_name(IR_CLASS_POINTWISE)) > 2,
           "an op without points of its own finds those of its class");
}

/* Of the forms of an op: how many were measured of several kernels. */
static void test_variants(const hw_device *device)
{
    int32_t several = 0, unsorted = 0;
    for (int32_t i = 1; i < device->n_variants; i++) {
        const hw_variant *a = &device->variants[i - 1], *b = a + 1;
        if (a->form != b->form || strcmp(a->what, b->what) != 0)
            continue;
        several++;
        unsorted += a->seconds > b->seconds;
    }
    tap_ok(several > 30, "of %d forms several kernels were measured", several);
    tap_equal_int(unsorted, 0, "the fastest first");
}

int main(void)
{
    fs_err err = {0};
    fs_arena *arena = fs_arena_create();
    exec_world *world = NULL;
    const exec_probe_options options = {.passes = 2};
    hw_cluster *cluster = NULL;
    fs_status status = exec_world_open(&err, &world);
    if (status == FS_OK)
        status = hw_cluster_probe(4, arena, &err, &cluster);
    if (status == FS_OK)
        status = exec_probe(world, &options, cluster, arena, &err);
    tap_equal_int(status, FS_OK, "this machine can be measured %s", err.text);
    if (status == FS_OK) {
        const hw_group *group = &cluster->groups[0];
        test_points(&group->device);
        test_variants(&group->device);
        tap_ok(group->device.fp32_flops > 1e8, "matmul runs: %.3g flop/s",
               group->device.fp32_flops);
        tap_ok(group->device.memory_bps > 1e7, "memory moves: %.3g bytes/s",
               group->device.memory_bps);
        tap_ok(group->firing_s > 0 && group->firing_s < 1e-5,
               "firing a task takes the runtime %.3g s", group->firing_s);
        tap_ok(group->inner.bandwidth_bps > 0 && group->inner.latency_s > 0,
               "links have figures before they are measured");
    }
    char text[256] = "";
    int32_t devices = exec_cuda_devices(text, sizeof text);
    tap_ok(devices >= 0 && text[0], "CUDA: %d devices, \"%s\"", devices, text);
    exec_world_close(world);
    fs_arena_destroy(arena);
    return tap_done();
}
