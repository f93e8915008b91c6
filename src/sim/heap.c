#include "config.h"
#include "sim/heap.h"

#include "base/status.h"

/* Four children: half as deep as with two, and side by side in one line of the
 * cache. */
enum { WIDTH = 4 };

__extension__ typedef unsigned __int128 wide;

/* As one number, for a processor guesses half of two comparisons wrongly. */
static inline wide key(const sim_event *e)
{
    return (wide)(uint64_t)e->time_ns << 64 | (uint64_t)e->order;
}

static inline bool before(const sim_event *a, const sim_event *b)
{
    return key(a) < key(b);
}

sim_heap sim_heap_make(int32_t n_jobs, fs_arena *arena)
{
    FS_ASSERT(n_jobs < 1 << SIM_JOB_BITS);
    sim_heap heap = {.place = fs_new(arena, int32_t, n_jobs)};
    /* The second stands at the beginning of a line. */
    heap.at = fs_new_lines(arena, sim_event, n_jobs + WIDTH - 1) + WIDTH - 1;
    for (int32_t j = 0; j < n_jobs; j++)
        heap.place[j] = -1;
    return heap;
}

static void put(sim_heap *heap, int32_t i, const sim_event *event)
{
    heap->at[i] = *event;
    heap->place[sim_event_job(event)] = i;
}

static void rise(sim_heap *heap, int32_t i, const sim_event *event)
{
    while (i > 0 && before(event, &heap->at[(i - 1) / WIDTH])) {
        put(heap, i, &heap->at[(i - 1) / WIDTH]);
        i = (i - 1) / WIDTH;
    }
    put(heap, i, event);
}

/* Of the children from here on, of which there is one. */
static int32_t least_child(const sim_heap *heap, int32_t child)
{
    const sim_event *at = heap->at + child;
    if (child + WIDTH > heap->n) {
        int32_t least = child;
        for (int32_t k = child + 1; k < heap->n; k++)
            if (before(&heap->at[k], &heap->at[least]))
                least = k;
        return least;
    }
    const int32_t a = before(&at[1], &at[0]), b = 2 + before(&at[3], &at[2]);
    const int32_t is = before(&at[b], &at[a]);
    return child + a + ((b - a) & -is);
}

static void sink(sim_heap *heap, int32_t i, const sim_event *event)
{
    for (int32_t child = WIDTH * i + 1; child < heap->n;
         child = WIDTH * i + 1) {
        const int32_t least = least_child(heap, child);
        if (!before(&heap->at[least], event))
            break;
        put(heap, i, &heap->at[least]);
        i = least;
    }
    put(heap, i, event);
}

/* The event takes the place of the first, which has gone. */
static void fill(sim_heap *heap, const sim_event *event)
{
    const int32_t second = heap->second;
    heap->hole = false;
    heap->second = 0;
    if (second == 0 || second >= heap->n) {
        sink(heap, 0, event);
    } else if (before(event, &heap->at[second])) {
        put(heap, 0, event);
    } else {
        put(heap, 0, &heap->at[second]);
        sink(heap, second, event);
    }
}

void sim_heap_close(sim_heap *heap)
{
    if (!heap->hole)
        return;
    const sim_event last = heap->at[--heap->n];
    if (heap->n > 0)
        fill(heap, &last);
    heap->hole = false;
    heap->second = 0;
}

/* Whoever has ended is followed by another, as a rule, that takes its place at
 * the top. */
void sim_heap_set(sim_heap *heap, sim_event event)
{
    const int32_t i = heap->place[sim_event_job(&event)];
    if (i < 0 && heap->hole) {
        fill(heap, &event);
        return;
    }
    if (i < 0) {
        rise(heap, heap->n++, &event);
        return;
    }
    sim_heap_close(heap); /* which may move it */
    const int32_t now = heap->place[sim_event_job(&event)];
    if (before(&event, &heap->at[now]))
        rise(heap, now, &event);
    else
        sink(heap, now, &event);
}

const sim_event *sim_heap_first(sim_heap *heap)
{
    if (heap->n <= heap->hole)
        return NULL;
    if (heap->hole && heap->second == 0)
        heap->second = least_child(heap, 1);
    return &heap->at[heap->second];
}

int32_t sim_heap_pop(sim_heap *heap)
{
    sim_heap_close(heap);
    const int32_t job = sim_event_job(&heap->at[0]);
    heap->place[job] = -1;
    heap->hole = true;
    return job;
}
