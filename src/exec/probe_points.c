/* From samples to what a device file says: points of one form each, curves over
 * work of all forms, and rates. */
#include "config.h"
#include "exec/probe.h"
#include "exec/variants.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *variant_of(const hw_sample *s)
{
    return s->variant ? s->variant : "";
}

static int compare_samples(const void *a, const void *b)
{
    const hw_sample *x = a, *y = b;
    const int by_name = strcmp(x->what, y->what);
    if (by_name)
        return by_name;
    if (x->form != y->form)
        return x->form < y->form ? -1 : 1;
    const int by_variant = strcmp(variant_of(x), variant_of(y));
    if (by_variant)
        return by_variant;
    if (x->in_step != y->in_step)
        return x->in_step ? -1 : 1;
    return (x->seconds > y->seconds) - (x->seconds < y->seconds);
}

/* Of n passes, sorted by seconds: the mean of those that count, and how far
 * these deviate from it. */
static hw_point point_of(const hw_sample *at, int32_t n)
{
    static const double ROUNDING = 1e-12;
    hw_point point = {.what = at->what, .work = at->work, .form = at->form};
    double squares = 0;
    for (int32_t i = 0; i < n; i++)
        point.count += at[i].count;
    /* without the slowest of several */
    const int32_t kept = n > 2 ? n - 1 : n;
    double work = 0; /* a whole step's is measured too */
    for (int32_t i = 0; i < kept; i++) {
        point.seconds += at[i].seconds / kept;
        work += at[i].work / kept;
    }
    if (at[0].work != at[n - 1].work)
        point.work = work;
    for (int32_t i = 0; i < kept; i++)
        squares +=
            (at[i].seconds - point.seconds) * (at[i].seconds - point.seconds);
    point.deviation_s = sqrt(squares / kept);
    if (point.deviation_s < ROUNDING * point.seconds)
        point.deviation_s = 0; /* alike, but for what the mean was rounded by */
    return point;
}

typedef FS_VEC(hw_point) point_list;

/* "all-reduce/8": no op has such a name. */
static bool is_collective(const hw_point *point)
{
    return strchr(point->what, '/') != NULL;
}

typedef FS_VEC(hw_variant) variant_list;

static void add_variant(const hw_sample *of, const hw_point *alone,
                        fs_arena *arena, variant_list *out)
{
    const hw_variant one = {.what = of->what,
                            .name = of->variant,
                            .form = of->form,
                            .work = alone->work,
                            .seconds = alone->seconds,
                            .deviation_s = alone->deviation_s,
                            .count = alone->count};
    fs_push(arena, out, one);
}

/* Samples of a form, sorted: of the variant that is the fastest alone, for it
 * is what runs; measured within steps, if it was. */
static hw_point point_of_form(const hw_sample *at, int32_t n, fs_arena *arena,
                              variant_list *variants)
{
    hw_point best = {0};
    double best_s = INFINITY;
    for (int32_t i = 0, m; i < n; i += m) {
        const hw_sample *first = &at[i];
        int32_t steps = 0;
        for (m = 0; i + m < n; m++) {
            if (strcmp(variant_of(&first[m]), variant_of(first)) != 0)
                break;
            steps += first[m].in_step;
        }
        const hw_point point = point_of(first, steps ? steps : m);
        double own_s = point.seconds;
        if (first->variant && steps < m) {
            const hw_point alone = point_of(first + steps, m - steps);
            add_variant(first, &alone, arena, variants);
            own_s = alone.seconds;
        }
        if (own_s < best_s)
            best = point;
        best_s = fmin(best_s, own_s);
    }
    return best;
}

static void list_forms(hw_sample *samples, int32_t n_samples, fs_arena *arena,
                       point_list *out, variant_list *variants)
{
    if (n_samples > 1)
        qsort(samples, (size_t)n_samples, sizeof *samples, compare_samples);
    for (int32_t i = 0, n; i < n_samples; i += n) {
        const hw_sample *first = &samples[i];
        for (n = 1; i + n < n_samples; n++)
            if (first[n].form != first->form ||
                strcmp(first[n].what, first->what) != 0)
                break;
        fs_push(arena, out, point_of_form(first, n, arena, variants));
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
        if (points->at[i].work == work &&
            strcmp(points->at[i].what, "add") == 0)
            return work / points->at[i].seconds;
    return best_rate(points, "add");
}

/* "pace/2" is of 2 ranks; 0: it is of something else. */
static int32_t ranks_of(const hw_point *point, const char *what)
{
    const size_t n = strlen(what);
    return strncmp(point->what, what, n) == 0 && point->what[n] == '/'
               ? atoi(point->what + n + 1)
               : 0;
}

/* What is no collective and has a slash all the same. */
static bool is_of_step(const hw_point *point)
{
    return ranks_of(point, HW_PACE) || ranks_of(point, HW_PROCESS) ||
           ranks_of(point, HW_PING) || ranks_of(point, HW_TURN) ||
           ranks_of(point, HW_FIRING);
}

/* By how much steps take longer than their tasks, per deviation. */
static double jitter_of(const point_list *forms)
{
    double sum = 0;
    int32_t n = 0;
    for (int32_t i = 0; i < forms->n; i++) {
        const hw_point *p = &forms->at[i];
        const int32_t ranks = ranks_of(p, HW_PACE);
        if (ranks < 2)
            continue;
        sum += (p->seconds / p->work - 1) / hw_slowest_of(ranks);
        n++;
    }
    return n ? fmax(0, sum / n) : 0;
}

/* Of all networks; those of one stand among the points, by its digest. */
static double take_processes(const point_list *forms, fs_arena *arena,
                             point_list *out)
{
    double sum = 0;
    int32_t n = 0;
    for (int32_t i = 0; i < forms->n; i++) {
        if (!ranks_of(&forms->at[i], HW_PROCESS))
            continue;
        hw_point one = forms->at[i];
        one.what = HW_PROCESS;
        fs_push(arena, out, one);
        sum += one.work;
        n++;
    }
    return n ? sum / n : 0;
}

/* Latency is the smallest message's time; bandwidth fits the messages that take
 * much longer, least squares through the latency, relative errors alike at
 * every size. They stand among the points, with their deviations. */
static void take_link(const point_list *forms, hw_link *link, fs_arena *arena,
                      point_list *out)
{
    double latency_s = INFINITY, xy = 0, xx = 0;
    int32_t n = 0;
    for (int32_t i = 0; i < forms->n; i++) {
        hw_point one = forms->at[i];
        if (!ranks_of(&one, HW_PING))
            continue;
        one.what = HW_PING;
        fs_push(arena, out, one);
        latency_s = fmin(latency_s, one.seconds);
        n++;
    }
    if (!n)
        return;
    for (int32_t i = out->n - n; i < out->n; i++) {
        const double bytes = out->at[i].work;
        const double seconds = fmax(0, out->at[i].seconds - latency_s);
        xy += seconds / bytes;
        xx += 1;
    }
    link->latency_s = latency_s;
    link->bandwidth_bps = xy > 0 ? (xx - 1) / xy : 1e10;
    link->name = "shared memory";
    link->on_cores = true;
}

static void take_firing(const point_list *forms, hw_group *group,
                        fs_arena *arena, point_list *out)
{
    for (int32_t i = 0; i < forms->n; i++) {
        hw_point one = forms->at[i];
        if (!ranks_of(&one, HW_FIRING))
            continue;
        one.what = HW_FIRING;
        fs_push(arena, out, one);
        group->firing_s = one.seconds;
    }
}

/* Of most ranks, if several numbers of them were measured. */
static void take_turn(const point_list *forms, hw_group *group, fs_arena *arena,
                      point_list *out)
{
    int32_t most = 0;
    for (int32_t i = 0; i < forms->n; i++) {
        hw_point one = forms->at[i];
        const int32_t ranks = ranks_of(&one, HW_TURN);
        if (!ranks)
            continue;
        one.what = HW_TURN;
        fs_push(arena, out, one);
        group->turn_s = ranks > most ? one.seconds : group->turn_s;
        most = ranks > most ? ranks : most;
    }
}

void exec_probe_take_turn(hw_sample *samples, int32_t n, hw_group *group,
                          fs_arena *arena)
{
    hw_device *device = &group->device;
    point_list forms = {0}, points = {0};
    variant_list none = {0};
    for (int32_t i = 0; i < device->n_points; i++)
        if (strcmp(device->points[i].what, HW_TURN) != 0)
            fs_push(arena, &points, device->points[i]);
    list_forms(samples, n, arena, &forms, &none);
    take_turn(&forms, group, arena, &points);
    device->points = points.at;
    device->n_points = points.n;
}

static int compare_collectives(const void *a, const void *b)
{
    const hw_collective *x = a, *y = b;
    const int by_name = strcmp(x->what, y->what);
    if (by_name)
        return by_name;
    if (x->ranks != y->ranks)
        return x->ranks < y->ranks ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* More bytes take no less time: of noise that says otherwise the larger one. */
static void raise_curves(hw_collective *at, int32_t n)
{
    for (int32_t i = 1; i < n; i++)
        if (strcmp(at[i].what, at[i - 1].what) == 0 &&
            at[i].ranks == at[i - 1].ranks)
            at[i].seconds = fmax(at[i].seconds, at[i - 1].seconds);
}

/* "all-reduce/2" */
static void take_collectives(const point_list *forms, hw_group *group,
                             fs_arena *arena)
{
    FS_VEC(hw_collective) list = {0};
    for (int32_t i = 0; i < forms->n; i++) {
        const hw_point *p = &forms->at[i];
        const char *slash = strchr(p->what, '/');
        if (!slash || is_of_step(p))
            continue;
        const hw_collective one = {
            .what = fs_printf(arena, "%.*s", (int)(slash - p->what), p->what),
            .ranks = atoi(slash + 1),
            .bytes = p->work,
            .seconds = p->seconds};
        if (one.ranks > 1)
            fs_push(arena, &list, one);
    }
    if (list.n > 1)
        qsort(list.at, (size_t)list.n, sizeof *list.at, compare_collectives);
    raise_curves(list.at, list.n);
    group->collectives = list.at;
    group->n_collectives = list.n;
}

void exec_probe_take(hw_sample *samples, int32_t n, hw_group *group,
                     fs_arena *arena)
{
    hw_device *device = &group->device;
    point_list forms = {0}, curves = {0};
    variant_list variants = {0};
    list_forms(samples, n, arena, &forms, &variants);
    for (int32_t i = 0; i < forms.n; i++)
        if (!is_collective(&forms.at[i])) /* which bytes tell all of */
            fs_push(arena, &curves, forms.at[i]);
    merge_points(&curves);
    device->memory_bps = memory_rate(&curves);
    add_classes(arena, &curves);
    device->launch_s = least_seconds(&curves);
    device->fp32_flops = best_rate(&curves, "matmul");
    device->tf32_flops = device->bf16_flops = device->fp16_flops = 0.0;
    device->matmul_efficiency = 1.0; /* the peak is the best measured */
    device->memory_efficiency = 1.0;
    device->source = "measured by calibrate";
    take_collectives(&forms, group, arena);
    group->jitter = jitter_of(&forms);
    for (int32_t i = 0; i < forms.n; i++)
        if (!is_collective(&forms.at[i]))
            fs_push(arena, &curves, forms.at[i]);
    group->process_bytes = take_processes(&forms, arena, &curves);
    take_link(&forms, &group->inner, arena, &curves);
    take_turn(&forms, group, arena, &curves);
    take_firing(&forms, group, arena, &curves);
    device->points = curves.at;
    device->n_points = curves.n;
    device->variants = variants.at;
    device->n_variants = variants.n;
    group->memory.name = "memory";
    group->memory.latency_s = device->launch_s;
    group->memory.bandwidth_bps = device->memory_bps / 2; /* read and written */
    group->memory.on_cores = true;
}

/* ---- of a run ---- */

/* Tasks of one form that a step has several of are one sample: their mean. */
static void add_sample(fs_arena *arena, exec_samples *list, hw_sample sample)
{
    if (sample.seconds <= 0)
        return;
    for (int32_t i = 0; i < list->n; i++) {
        hw_sample *one = &list->at[i];
        if (one->form != sample.form || strcmp(one->what, sample.what) != 0)
            continue;
        one->seconds =
            (one->seconds * one->count + sample.seconds) / (one->count + 1);
        one->count++;
        return;
    }
    fs_push(arena, list, sample);
}

static int64_t moved_bytes(const plan_box_step *step)
{
    return step->bytes_in > step->bytes_out ? step->bytes_in : step->bytes_out;
}

static void add_collective(const exec_ran *ran, const plan_task *task,
                           double seconds, fs_arena *arena, exec_samples *list)
{
    const int32_t ranks =
        plan_comm_size(ran->plan, &ran->plan->comms[task->comm]);
    const int64_t bytes = moved_bytes(&task->box);
    const hw_sample sample = {
        .what = fs_printf(arena, "%s/%d", plan_box_name(task->box.kind), ranks),
        .form = fs_mix((uint64_t)bytes + 1),
        .work = (double)bytes,
        .pass = ran->pass,
        .in_step = true,
        .seconds = seconds,
        .count = 1};
    if (bytes > 0 && task->box.kind != PLAN_HALO)
        add_sample(arena, list, sample);
}

static void add_compute(const exec_ran *ran, const plan_role *role,
                        const plan_task *task, double seconds, fs_arena *arena,
                        exec_samples *list)
{
    const exec_probe_piece piece =
        exec_task_piece(ran->graph, ran->plan, role, task);
    hw_sample sample;
    if (!exec_piece_sample(&piece, &sample))
        return;
    exec_chosen_by by;
    sample.variant = exec_variant_of(ran->figures, &piece, &by);
    sample.pass = ran->pass;
    sample.in_step = true;
    sample.seconds = seconds;
    sample.count = 1;
    add_sample(arena, list, sample);
}

void exec_list_samples(const exec_ran *ran, fs_arena *arena, hw_sample **out,
                       int32_t *n)
{
    exec_samples list = {0};
    for (int32_t r = 0; r < ran->plan->n_roles; r++) {
        const plan_role *role = &ran->plan->roles[r];
        for (int32_t t = 0; t < role->n_tasks; t++) {
            const plan_task *task = &role->tasks[t];
            const double seconds = ran->measured->demand[r][t].total_s;
            if (task->kind == PLAN_COMPUTE)
                add_compute(ran, role, task, seconds, arena, &list);
            else if (task->kind == PLAN_BOX &&
                     plan_box_is_collective(task->box.kind))
                add_collective(ran, task, seconds, arena, &list);
        }
    }
    *out = list.at;
    *n = list.n;
}
