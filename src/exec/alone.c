#include "config.h"
#include "exec/alone.h"

#include <math.h>

static bool is_transfer(const plan_task *task)
{
    return task->comm >= 0 || task->channel >= 0;
}

static int64_t had_until(exec_alone *a, const plan_task *task, int64_t now)
{
    const int64_t past_ns = now - a->at_ns - a->computed_ns;
    a->one_ns += past_ns;
    a->each_ns += a->n > 0 ? past_ns / a->n : 0;
    a->at_ns = now;
    a->computed_ns = 0;
    return task->comm >= 0 ? a->each_ns : a->one_ns;
}

int64_t exec_alone_begin(exec_alone *a, const plan_task *task, int64_t now)
{
    if (!is_transfer(task))
        return 0;
    const int64_t had_ns = had_until(a, task, now);
    a->n += task->comm >= 0;
    return had_ns;
}

float exec_alone_end(exec_alone *a, const plan_task *task, int64_t began,
                     int64_t start_ns, int64_t now)
{
    if (!is_transfer(task))
        return 0;
    const int64_t had_ns = had_until(a, task, now) - began;
    a->n -= task->comm >= 0;
    return now > start_ns
               ? fminf(1, fmaxf(0, 1 - (float)had_ns / (float)(now - start_ns)))
               : 0;
}
