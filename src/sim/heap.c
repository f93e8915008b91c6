#include "config.h"
#include "sim/heap.h"

/* Four children: half as deep as with two, and they lie side by side. */
enum { WIDTH = 4 };

static bool before(const sim_event *a, const sim_event *b)
{
    return a->time_ns < b->time_ns ||
           (a->time_ns == b->time_ns && a->sequence < b->sequence);
}

sim_heap sim_heap_make(int32_t n_jobs, fs_arena *arena)
{
    sim_heap heap = {fs_new(arena, sim_event, n_jobs), 0,
                     fs_new(arena, int32_t, n_jobs)};
    for (int32_t j = 0; j < n_jobs; j++)
        heap.place[j] = -1;
    return heap;
}

static void put(sim_heap *heap, int32_t i, const sim_event *event)
{
    heap->at[i] = *event;
    heap->place[event->job] = i;
}

static void rise(sim_heap *heap, int32_t i, const sim_event *event)
{
    while (i > 0 && before(event, &heap->at[(i - 1) / WIDTH])) {
        put(heap, i, &heap->at[(i - 1) / WIDTH]);
        i = (i - 1) / WIDTH;
    }
    put(heap, i, event);
}

static void sink(sim_heap *heap, int32_t i, const sim_event *event)
{
    for (int32_t child = WIDTH * i + 1; child < heap->n;
         child = WIDTH * i + 1) {
        const int32_t end = child + WIDTH < heap->n ? child + WIDTH : heap->n;
        int32_t least = child;
        for (int32_t k = child + 1; k < end; k++)
            if (before(&heap->at[k], &heap->at[least]))
                least = k;
        if (!before(&heap->at[least], event))
            break;
        put(heap, i, &heap->at[least]);
        i = least;
    }
    put(heap, i, event);
}

void sim_heap_set(sim_heap *heap, sim_event event)
{
    const int32_t i = heap->place[event.job];
    if (i < 0)
        rise(heap, heap->n++, &event);
    else if (before(&event, &heap->at[i]))
        rise(heap, i, &event);
    else
        sink(heap, i, &event);
}

sim_event sim_heap_pop(sim_heap *heap)
{
    const sim_event top = heap->at[0], last = heap->at[--heap->n];
    heap->place[top.job] = -1;
    if (heap->n > 0)
        sink(heap, 0, &last);
    return top;
}
