#include "config.h"
#include "sim/parts.h"

static bool before(const sim_event *a, const sim_event *b)
{
    return a->time_ns < b->time_ns ||
           (a->time_ns == b->time_ns && a->sequence < b->sequence);
}

void sim_heap_push(sim_heap *heap, sim_event event)
{
    fs_push(heap->arena, &heap->events, event);
    sim_event *at = heap->events.at;
    int32_t i = heap->events.n - 1;
    for (; i > 0 && before(&event, &at[(i - 1) / 2]); i = (i - 1) / 2)
        at[i] = at[(i - 1) / 2];
    at[i] = event;
}

sim_event sim_heap_pop(sim_heap *heap)
{
    sim_event *at = heap->events.at;
    int32_t n = --heap->events.n, i = 0;
    sim_event top = at[0], last = at[n];
    for (int32_t child = 1; child < n; child = 2 * i + 1) {
        if (child + 1 < n && before(&at[child + 1], &at[child]))
            child++;
        if (!before(&at[child], &last))
            break;
        at[i] = at[child];
        i = child;
    }
    at[i] = last;
    return top;
}
