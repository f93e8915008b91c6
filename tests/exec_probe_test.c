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

/* What a probe told its caller. */
typedef struct told {
    fs_arena *arena;
    FS_VEC(hw_sample) samples;
} told;

static fs_status take(void *ctx, const hw_sample *samples, int32_t n,
                      fs_err *err)
{
    told *t = ctx;
    (void)err;
    for (int32_t i = 0; i < n; i++)
        fs_push(t->arena, &t->samples, samples[i]);
    return FS_OK;
}

static int32_t count_variant(const told *t, const char *name)
{
    int32_t n = 0;
    for (int32_t i = 0; i < t->samples.n; i++)
        n += t->samples.at[i].variant &&
             strcmp(t->samples.at[i].variant, name) == 0;
    return n;
}

/* Those of oneDNN where the form has another kernel too. */
static int32_t count_behind(const told *t, const told *of)
{
    int32_t n = 0;
    for (int32_t i = 0; i < of->samples.n; i++) {
        const hw_sample *s = &of->samples.at[i];
        bool other = false;
        for (int32_t k = 0; k < t->samples.n; k++)
            other |= t->samples.at[k].form == s->form &&
                     t->samples.at[k].variant &&
                     strcmp(t->samples.at[k].variant, "dnnl") != 0;
        n += other && strcmp(s->variant ? s->variant : "", "dnnl") == 0;
    }
    return n;
}

/* Kernels that two passes found far behind are not measured a third time; all
 * others are. */
static void test_settled(exec_world *world, hw_cluster *cluster)
{
    fs_arena *arena = fs_arena_create();
    fs_err err = {0};
    told first = {.arena = arena}, third = {.arena = arena};
    exec_probe_options options = {.passes = 2, .found = take, .ctx = &first};
    fs_status status = exec_probe(world, &options, cluster, arena, &err);
    for (int32_t i = 0; i < first.samples.n; i++) {
        hw_sample *s = &first.samples.at[i];
        if (s->variant)
            s->seconds = strcmp(s->variant, "dnnl") == 0 ? 1e-3 : 1e-6;
    }
    options.known = first.samples.at;
    options.n_known = first.samples.n;
    options.first_pass = 2;
    options.passes = 1;
    options.ctx = &third;
    if (status == FS_OK)
        status = exec_probe(world, &options, cluster, arena, &err);
    tap_equal_int(status, FS_OK, "three passes %s", err.text);
    tap_ok(count_behind(&first, &first) > 40 &&
               count_behind(&first, &third) == 0,
           "of %d kernels far behind %d are measured again",
           count_behind(&first, &first) / 2, count_behind(&first, &third));
    tap_ok(count_variant(&third, "packed") * 2 ==
               count_variant(&first, "packed"),
           "of those in front all, %d", count_variant(&third, "packed"));
    fs_arena_destroy(arena);
}

/* Plans of more than the host has: their ranks are fewer than its cores, or
 * what they have in pages is less. */
static void test_bound(exec_world *world, hw_cluster *cluster)
{
    fs_arena *arena = fs_arena_create();
    fs_err err = {0};
    plan_role role = {.arena_bytes = (int64_t)1 << 50};
    const plan large = {.n_roles = 1, .roles = &role};
    const exec_probe_plan of = {NULL, &large};
    const exec_probe_options options = {
        .passes = 1, .n_plans = 1, .plans = &of};
    const fs_status status = exec_probe(world, &options, cluster, arena, &err);
    tap_equal_int(status, FS_OK, "a rank takes its share of memory %s",
                  err.text);
    fs_arena_destroy(arena);
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
    if (status == FS_OK) {
        test_settled(world, cluster);
        test_bound(world, cluster);
    }
    char text[256] = "";
    int32_t devices = exec_cuda_devices(text, sizeof text);
    tap_ok(devices >= 0 && text[0], "CUDA: %d devices, \"%s\"", devices, text);
    exec_world_close(world);
    fs_arena_destroy(arena);
    return tap_done();
}
