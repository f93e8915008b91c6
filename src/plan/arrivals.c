/* When transfers could begin: what each member of a communicator or channel
 * recorded, put together. */
#include "config.h"
#include "plan/timing.h"

#include <stdlib.h>

/* Events of one transfer have everything but `event` in common. */
typedef struct meeting {
    int32_t line;  /* communicator, or behind those the channel */
    int32_t group; /* which of its instances */
    int32_t place; /* among the line's tasks: members count the same */
    int32_t micro_batch;
    int64_t step;
    int32_t event;
} meeting;

static int32_t line_of(const plan *p, const plan_task *task)
{
    if (task->kind == PLAN_BOX)
        return task->comm;
    return task->channel < 0 ? -1 : p->n_comms + task->channel;
}

/* A communicator's instance is known by its first rank, a straight move's by
 * the position in its stage; all positions of other moves meet. */
static int32_t group_of(const plan *p, const plan_task *task, int32_t rank,
                        int32_t *room)
{
    if (task->kind != PLAN_BOX)
        return plan_task_is_straight(p, task)
                   ? rank - plan_role_of_rank(p, rank)->first_rank
                   : 0;
    plan_comm_ranks(p, &p->comms[task->comm], rank, room);
    return room[0];
}

static int32_t **places_of(const plan *p, fs_arena *arena)
{
    int32_t **place = fs_new(arena, int32_t *, p->n_roles);
    int32_t n_lines = p->n_comms + p->n_channels;
    for (int32_t r = 0; r < p->n_roles; r++) {
        const plan_role *role = &p->roles[r];
        int32_t *seen = fs_new(arena, int32_t, n_lines + 1);
        place[r] = fs_new(arena, int32_t, role->n_tasks + 1);
        for (int32_t i = 0; i < role->n_tasks; i++) {
            int32_t line = line_of(p, &role->tasks[i]);
            if (line >= 0)
                place[r][i] = seen[line]++;
        }
    }
    return place;
}

static int compare(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int compare_meetings(const void *a, const void *b)
{
    const meeting *x = a, *y = b;
    int order = compare(x->line, y->line);
    order = order ? order : compare(x->group, y->group);
    order = order ? order : compare(x->place, y->place);
    order = order ? order : compare(x->micro_batch, y->micro_batch);
    return order ? order : compare(x->step, y->step);
}

/* Who was done before the last came (what is small is sent at once) waited for
 * nobody. */
static void begin_with_last(plan_trace *trace, const meeting *at, int32_t n)
{
    int64_t last = INT64_MIN;
    for (int32_t i = 0; i < n; i++)
        if (trace->events.at[at[i].event].start_ns > last)
            last = trace->events.at[at[i].event].start_ns;
    for (int32_t i = 0; i < n; i++) {
        plan_event *e = &trace->events.at[at[i].event];
        if (last <= e->end_ns)
            e->start_ns = last;
    }
}

void plan_trace_arrivals(const plan *p, plan_trace *trace)
{
    fs_arena *arena = fs_arena_create();
    int32_t **place = places_of(p, arena);
    FS_VEC(meeting) all = {0};
    int32_t most = 1;
    for (int32_t r = 0; r < p->n_roles; r++)
        most = p->roles[r].n_ranks > most ? p->roles[r].n_ranks : most;
    int32_t *room = fs_new(arena, int32_t, most);
    for (int32_t i = 0; i < trace->events.n; i++) {
        const plan_event *e = &trace->events.at[i];
        const plan_role *role = plan_role_of_rank(p, e->rank);
        const plan_task *task = &role->tasks[e->task];
        int32_t line = line_of(p, task);
        if (line < 0)
            continue;
        meeting m = {line,
                     group_of(p, task, e->rank, room),
                     place[role - p->roles][e->task],
                     e->micro_batch,
                     e->step,
                     i};
        fs_push(arena, &all, m);
    }
    if (all.n > 0)
        qsort(all.at, (size_t)all.n, sizeof *all.at, compare_meetings);
    for (int32_t i = 0, end; i < all.n; i = end) {
        for (end = i + 1;
             end < all.n && compare_meetings(&all.at[i], &all.at[end]) == 0;)
            end++;
        begin_with_last(trace, &all.at[i], end - i);
    }
    fs_arena_destroy(arena);
}
