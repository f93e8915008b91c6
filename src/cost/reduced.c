/* Frameworks that overlap reduce a gradient as soon as the last micro-batch's
 * backward pass has made it, in the order in which it makes them, bucket by
 * bucket. A plan has reductions of sums one by one, on a stream of their own.
 * What a framework leaves to wait for is the last bucket, which is full only
 * when the pass is over, and what the pass is too short for: that much is left
 * of them, all of it in the last, whose gradient is there when the pass is
 * over. */
#include "config.h"
#include "cost/reduced.h"

#include <math.h>

/* What an update has made anew is gathered behind it. */
static bool is_reduction(const ir_graph *graph, const plan_task *task)
{
    const int32_t producer = graph->tensors.at[task->tensor].producer;
    return task->kind == PLAN_BOX && task->comm >= 0 &&
           task->phase == PLAN_END &&
           (producer < 0 ||
            ir_op_class_of(graph->nodes.at[producer].op) != IR_CLASS_UPDATE);
}

typedef struct sums {
    double pass_s;                  /* kernels of a backward pass */
    double beside_s;                /* collectives beside it, */
    double early_s, early_bytes;    /* of these reductions of gradients */
    double behind_s, last_s, bytes; /* reductions of sums; the last one */
    int32_t last;                   /* its task; -1: none */
} sums;

static sums sums_of(const ir_graph *graph, const plan_role *role,
                    const double *gradient_bytes, const plan_demand *demand)
{
    sums x = {.last = -1};
    for (int32_t i = 0; i < role->n_tasks; i++) {
        const plan_task *task = &role->tasks[i];
        const double s = demand[i].total_s;
        if (is_reduction(graph, task)) {
            x.behind_s += s;
            if (s > 0) {
                x.last_s = s;
                x.last = i;
            }
            x.bytes += gradient_bytes[i];
        } else if (task->phase != PLAN_BACKWARD && task->phase != PLAN_WEIGHT)
            continue;
        else if (task->kind == PLAN_COMPUTE)
            x.pass_s += s;
        else if (task->kind == PLAN_BOX && task->comm >= 0) {
            x.beside_s += s;
            x.early_s += gradient_bytes[i] > 0 ? s : 0;
            x.early_bytes += gradient_bytes[i];
        }
    }
    return x;
}

static void scale(plan_demand *d, double share)
{
    d->network_s *= share;
    d->latency_s *= share;
    d->launch_s *= share;
    d->memory_s *= share;
    d->total_s *= share;
}

static void wait_in_last(const ir_graph *graph, const plan_role *role,
                         const sums *x, double waits_s, plan_demand *demand)
{
    for (int32_t i = 0; i < role->n_tasks; i++)
        if (is_reduction(graph, &role->tasks[i]))
            scale(&demand[i], i == x->last ? waits_s / x->last_s : 0);
}

/* Where the plan has no reductions of sums, the first update waits. */
static void wait_to_update(const plan_role *role, double waits_s,
                           plan_demand *demand)
{
    for (int32_t i = 0; i < role->n_tasks; i++)
        if (role->tasks[i].phase == PLAN_END &&
            role->tasks[i].kind == PLAN_COMPUTE) {
            demand[i].launch_s += waits_s;
            demand[i].total_s += waits_s;
            return;
        }
}

static double part(double some, double all)
{
    return all > 0 ? fmin(1, some / all) : 1;
}

void cost_reduce_meanwhile(const cost_framework *framework,
                           const ir_graph *graph, const plan_role *role,
                           const double *gradient_bytes, bool once,
                           plan_demand *demand)
{
    const sums x = sums_of(graph, role, gradient_bytes, demand);
    const double bucket = framework->bucket_bytes;
    if (!framework->overlaps || !(x.behind_s + x.early_s > 0))
        return;
    const double waits_s = fmin(
        x.behind_s, fmax(fmax(x.last_s, x.behind_s * part(bucket, x.bytes)),
                         x.behind_s - fmax(0, x.pass_s - x.beside_s)));
    /* of one micro-batch the plan has reductions in the pass too, each as soon
     * as its gradient is there; a bucket's are there when its last one is, and
     * the last bucket's when the pass is over */
    const double last_s =
        (x.behind_s + x.early_s) * part(bucket, x.bytes + x.early_bytes);
    const double held_s = once ? fmin(x.early_s, fmax(0, last_s - waits_s)) : 0;
    for (int32_t i = 0; i < role->n_tasks && held_s > 0; i++)
        if (gradient_bytes[i] > 0 && role->tasks[i].phase != PLAN_END)
            scale(&demand[i], 1 - held_s / x.early_s);
    if (x.last >= 0)
        wait_in_last(graph, role, &x, waits_s + held_s, demand);
    else
        wait_to_update(role, waits_s + held_s, demand);
}
