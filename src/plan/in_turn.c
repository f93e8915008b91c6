#include "config.h"
#include "plan/in_turn.h"

#include <string.h>

/* [sections] the compute stream that runs it; where none does the first. */
static int32_t *compute_streams(const plan_role *role, fs_arena *arena)
{
    int32_t *of = fs_new(arena, int32_t, plan_n_sections(role));
    for (int32_t t = 0; t < role->n_tasks; t++) {
        const plan_task *task = &role->tasks[t];
        if (role->streams[task->stream].kind == PLAN_STREAM_COMPUTE)
            of[plan_task_section(role, task)] = task->stream;
    }
    return of;
}

/* Those that are left keep their order; [streams] the number of each now. */
static int32_t *leave_out_sends(plan_role *role, const plan_role *from,
                                fs_arena *arena)
{
    int32_t *now = fs_new(arena, int32_t, from->n_streams);
    role->streams = fs_new(arena, plan_stream, from->n_streams);
    role->stream_scratch = fs_new(arena, int64_t, from->n_streams);
    role->n_streams = 0;
    for (int32_t s = 0; s < from->n_streams; s++) {
        if (from->streams[s].kind == PLAN_STREAM_SEND)
            continue;
        now[s] = role->n_streams;
        role->streams[now[s]] = from->streams[s];
        role->stream_scratch[now[s]] = from->stream_scratch[s];
        role->n_streams++;
    }
    return now;
}

static void send_in_turn(plan_role *role, fs_arena *arena)
{
    const plan_role from = *role;
    const int32_t *computes = compute_streams(&from, arena);
    const int32_t *now = leave_out_sends(role, &from, arena);
    role->tasks = fs_new(arena, plan_task, role->n_tasks);
    memcpy(role->tasks, from.tasks, (size_t)role->n_tasks * sizeof *from.tasks);
    for (int32_t t = 0; t < role->n_tasks; t++) {
        plan_task *task = &role->tasks[t];
        const int32_t stream = task->kind == PLAN_SEND
                                   ? computes[plan_task_section(&from, task)]
                                   : task->stream;
        task->stream = now[stream];
    }
}

const plan *plan_sends_in_turn(const plan *p, fs_arena *arena)
{
    plan *out = fs_new(arena, plan, 1);
    *out = *p;
    out->roles = fs_new(arena, plan_role, p->n_roles);
    for (int32_t r = 0; r < p->n_roles; r++) {
        out->roles[r] = p->roles[r];
        send_in_turn(&out->roles[r], arena);
    }
    return out;
}
