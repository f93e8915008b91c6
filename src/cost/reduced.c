/* Frameworks that overlap reduce a gradient as soon as the last micro-batch's
 * backward pass has made it, in the order in which it makes them. A plan has
 * reductions of sums behind that pass, on a stream where what each micro-batch
 * reduces stands in front of them, so that none could begin before that ends.
 * What a framework leaves to wait for is the last bucket, which is full only
 * when the pass is over, and what the pass is too short for. */
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
    double beside_s;                /* collectives beside it */
    double behind_s, last_s, bytes; /* reductions behind it; the last one */
} sums;

static sums sums_of(const ir_graph *graph, const plan_role *role,
                    const plan_demand *demand)
{
    sums x = {0};
    for (int32_t i = 0; i < role->n_tasks; i++) {
        const plan_task *task = &role->tasks[i];
        const double s = demand[i].total_s;
        if (is_reduction(graph, task)) {
            x.behind_s += s;
            x.last_s = s;
            x.bytes +=
                fmax((double)task->box.bytes_in, (double)task->box.bytes_out);
        } else if (task->phase != PLAN_BACKWARD && task->phase != PLAN_WEIGHT)
            continue;
        else if (task->kind == PLAN_COMPUTE)
            x.pass_s += s;
        else if (task->kind == PLAN_BOX && task->comm >= 0)
            x.beside_s += s;
    }
    return x;
}

void cost_reduce_meanwhile(const cost_framework *framework,
                           const ir_graph *graph, const plan_role *role,
                           plan_demand *demand)
{
    const sums x = sums_of(graph, role, demand);
    if (!framework->overlaps || !(x.behind_s > 0))
        return;
    const double bucket_s =
        x.behind_s * fmin(1, framework->bucket_bytes / x.bytes);
    const double waits_s = fmax(fmax(x.last_s, bucket_s),
                                x.behind_s - fmax(0, x.pass_s - x.beside_s));
    const double share = fmin(1, waits_s / x.behind_s);
    for (int32_t i = 0; i < role->n_tasks; i++) {
        plan_demand *d = &demand[i];
        if (!is_reduction(graph, &role->tasks[i]))
            continue;
        d->network_s *= share;
        d->latency_s *= share;
        d->launch_s *= share;
        d->memory_s *= share;
        d->total_s *= share;
    }
}
