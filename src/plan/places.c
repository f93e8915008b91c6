#include "config.h"

#include "plan/places.h"

/* ---- leaders ---- */

/* Passes have streams of their own, so a section has one compute stream. */
static int32_t compute_stream_of(const plan_role *role, int32_t section)
{
    for (int32_t t = 0; t < role->n_tasks; t++) {
        int32_t stream = role->tasks[t].stream;
        if (role->streams[stream].kind == PLAN_STREAM_COMPUTE &&
            plan_task_section(role, &role->tasks[t]) == section)
            return stream;
    }
    return -1;
}

static int32_t leader_of(const plan_role *role, int32_t stream)
{
    int32_t leader = -1, last = -1;

    for (int32_t t = 0; t < role->n_tasks && leader < 0; t++) {
        int32_t section = plan_task_section(role, &role->tasks[t]);
        if (role->tasks[t].stream != stream || section == last)
            continue;
        leader = compute_stream_of(role, section);
        last = section;
    }
    return leader;
}

void plan_stream_leaders(const plan_role *role, int32_t *leader)
{
    for (int32_t s = 0; s < role->n_streams; s++)
        leader[s] =
            role->streams[s].kind == PLAN_STREAM_COMM ? leader_of(role, s) : -1;
}

bool plan_task_keeps_place(const plan_role *role, const int32_t *leader,
                           int32_t task)
{
    return leader[role->tasks[task].stream] >= 0;
}

/* ---- places ---- */

typedef struct placing {
    const plan_role *role;
    const int32_t *leader;
    plan_places places;
    int32_t *awaited; /* [streams] the first compute task of the section that
                         waits for what stands further on; -1: none */
} placing;

static void find_stream(placing *x, int32_t t)
{
    int32_t stream = x->role->tasks[t].stream;

    x->places.stream[t] =
        x->role->streams[stream].kind == PLAN_STREAM_COMPUTE ? stream
        : plan_task_keeps_place(x->role, x->leader, t)       ? x->leader[stream]
                                                             : -1;
}

/* The first compute task of the same slot that reads what a task makes there;
 * -1: none. A collective that runs per micro-batch makes no sums. */
static int32_t first_reader(const placing *x, int32_t t)
{
    const plan_role *role = x->role;
    const plan_task *task = &role->tasks[t];
    int32_t section = plan_task_section(role, task), first = -1;

    for (int32_t o = 0; o < task->n_out; o++) {
        const plan_register *r = &role->registers[task->out[o]];
        for (int32_t c = 0; c < r->n_consumers && !r->per_step; c++) {
            int32_t reader = r->consumers[c];
            if (reader > t &&
                x->places.stream[reader] == role->tasks[reader].stream &&
                plan_task_section(role, &role->tasks[reader]) == section &&
                (first < 0 || reader < first))
                first = reader;
        }
    }
    return first;
}

/* A stream runs in order: who waits for one of its tasks waits for those
 * before it. */
static void find_end(placing *x, int32_t t)
{
    const plan_task *task = &x->role->tasks[t];
    int32_t *awaited = &x->awaited[task->stream], reader;

    if (x->places.stream[t] == task->stream) {
        x->places.end[t] = t;
        return;
    }
    x->places.end[t] = -1;
    if (x->places.stream[t] < 0)
        return;
    reader = first_reader(x, t);
    if (*awaited < 0 ||
        plan_task_section(x->role, &x->role->tasks[*awaited]) !=
            plan_task_section(x->role, task) ||
        (reader >= 0 && reader < *awaited))
        *awaited = reader;
    if (*awaited >= 0)
        x->places.end[t] = *awaited - 1;
}

plan_places plan_places_of(const plan_role *role, fs_arena *arena)
{
    int32_t *leader = fs_new(arena, int32_t, role->n_streams);
    placing x = {.role = role,
                 .leader = leader,
                 .places = {fs_new(arena, int32_t, role->n_tasks),
                            fs_new(arena, int32_t, role->n_tasks)},
                 .awaited = fs_new(arena, int32_t, role->n_streams)};

    plan_stream_leaders(role, leader);
    for (int32_t s = 0; s < role->n_streams; s++)
        x.awaited[s] = -1;
    for (int32_t t = 0; t < role->n_tasks; t++)
        find_stream(&x, t);
    for (int32_t t = role->n_tasks - 1; t >= 0; t--)
        find_end(&x, t);
    return x.places;
}
