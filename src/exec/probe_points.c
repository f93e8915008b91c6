/* From samples to what a device file says: points of one form each, curves over
 * work of all forms, and rates. */
#include "config.h"
#include "exec/probe.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int compare_samples(const void *a, const void *b)
{
    const hw_sample *x = a, *y = b;
    const int by_name = strcmp(x->what, y->what);
    if (by_name)
        return by_name;
    if (x->form != y->form)
        return x->form < y->form ? -1 : 1;
    return (x->seconds > y->seconds) - (x->seconds < y->seconds);
}

/* Of n passes, sorted by seconds: their median, the deviation between them. */
static hw_point point_of(const hw_sample *at, int32_t n)
{
    hw_point point = {.what = at->what, .work = at->work, .form = at->form};
    double sum = 0, squares = 0;
    for (int32_t i = 0; i < n; i++) {
        sum += at[i].seconds;
        point.count += at[i].count;
    }
    for (int32_t i = 0; i < n; i++)
        squares += (at[i].seconds - sum / n) * (at[i].seconds - sum / n);
    point.seconds = n % 2 ? at[n / 2].seconds
                          : 0.5 * (at[n / 2 - 1].seconds + at[n / 2].seconds);
    point.deviation_s = sqrt(squares / n);
    return point;
}

typedef FS_VEC(hw_point) point_list;

static void list_forms(exec_samples *samples, fs_arena *arena, point_list *out)
{
    qsort(samples->at, (size_t)samples->n, sizeof *samples->at,
          compare_samples);
    for (int32_t i = 0, n; i < samples->n; i += n) {
        const hw_sample *first = &samples->at[i];
        for (n = 1; i + n < samples->n; n++)
            if (first[n].form != first->form ||
                strcmp(first[n].what, first->what) != 0)
                break;
        fs_push(arena, out, point_of(first, n));
    }
}

static int compare_points(const void *a, const void *b)
{
    const hw_point *x = a, *y = b;
    int by_name = strcmp(x->what, y->what);
    return by_name ? by_name : (x->work > y->work) - (x->work < y->work);
}

/* Calls of equal work (other shapes, the other pass) become one point of a
 * curve: their mean. */
static void merge_points(point_list *points)
{
    int32_t kept = 0;
    qsort(points->at, (size_t)points->n, sizeof *points->at, compare_points);
    for (int32_t i = 0, n; i < points->n; i += n) {
        hw_point mean = points->at[i];
        mean.form = 0;
        for (n = 1; i + n < points->n; n++) {
            const hw_point *next = &points->at[i + n];
            if (strcmp(next->what, mean.what) || next->work != mean.work)
                break;
            mean.seconds += next->seconds;
            mean.deviation_s = fmax(mean.deviation_s, next->deviation_s);
            mean.count += next->count;
        }
        mean.seconds /= n;
        points->at[kept++] = mean;
    }
    points->n = kept;
}

/* A class without a measured op of the same name takes a usual member's. */
static void add_classes(fs_arena *arena, point_list *points)
{
    static const ir_op_kind usual[] = {
        IR_OP_matmul, IR_OP_conv,      IR_OP_add,     IR_OP_reduce_sum,
        IR_OP_gather, IR_OP_transpose, IR_OP_momentum};
    int32_t n = points->n;
    for (size_t k = 0; k < sizeof usual / sizeof *usual; k++) {
        const char *name = ir_op_table[usual[k]]->name;
        const char *class = ir_op_class_name(ir_op_class_of(usual[k]));
        for (int32_t i = 0; i < n && strcmp(name, class) != 0; i++) {
            if (strcmp(points->at[i].what, name) != 0)
                continue;
            hw_point point = points->at[i];
            point.what = class;
            fs_push(arena, points, point);
        }
    }
    merge_points(points);
}

static double best_rate(const point_list *points, const char *what)
{
    double best = 0.0;
    for (int32_t i = 0; i < points->n; i++) {
        double rate = points->at[i].work / points->at[i].seconds;
        if (strcmp(points->at[i].what, what) == 0 && rate > best)
            best = rate;
    }
    return best;
}

static double least_seconds(const point_list *points)
{
    double least = 1.0;
    for (int32_t i = 0; i < points->n; i++)
        least = fmin(least, points->at[i].seconds);
    return least;
}

/* Of the addition that is larger than the caches. */
static double memory_rate(const point_list *points)
{
    const double work = 3.0 * sizeof(float) * EXEC_MEMORY_PROBE;
    for (int32_t i = 0; i < points->n; i++)
        if (points->at[i].work == work && strcmp(points->at[i].what, "add") == 0)
            return work / points->at[i].seconds;
    return best_rate(points, "add");
}

void exec_probe_take(exec_samples *samples, hw_group *group, fs_arena *arena)
{
    hw_device *device = &group->device;
    point_list forms = {0}, curves = {0};
    list_forms(samples, arena, &forms);
    for (int32_t i = 0; i < forms.n; i++)
        fs_push(arena, &curves, forms.at[i]);
    merge_points(&curves);
    device->memory_bps = memory_rate(&curves);
    add_classes(arena, &curves);
    device->launch_s = least_seconds(&curves);
    device->fp32_flops = best_rate(&curves, "matmul");
    device->tf32_flops = device->bf16_flops = device->fp16_flops = 0.0;
    device->matmul_efficiency = 1.0; /* the peak is the best measured */
    device->memory_efficiency = 1.0;
    device->source = "measured on this host";
    for (int32_t i = 0; i < forms.n; i++)
        fs_push(arena, &curves, forms.at[i]);
    device->points = curves.at;
    device->n_points = curves.n;
    group->memory.name = "memory";
    group->memory.latency_s = device->launch_s;
    group->memory.bandwidth_bps = device->memory_bps / 2; /* read and written */
    group->memory.on_cores = true;
}
