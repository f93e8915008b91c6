#include "config.h"

#include "plan/lower.h"

/* What a collective made is read by the kernel behind it in the program (a sum
 * of gradients by its cast, by what adds it up), though nobody in the section
 * waits for that: on the compute stream all that follows would wait for the
 * collective. Such kernels stand as far behind as what then lies read by nobody
 * takes no more bytes than WAITING times the section's largest. */

enum { WAITING = 2 };

typedef struct behind {
    plan_role *role;
    fs_arena *scratch;
    int32_t first, end; /* the section's tasks */
    bool *moves;        /* [tasks] */
    bool *wanted;       /* [tasks] another kernel of the section waits for it */
} behind;

static int32_t producer_of(const behind *x, const plan_task *task, int32_t i)
{
    const int32_t p = x->role->registers[task->in[i]].producer;
    return p >= x->first && p < x->end ? p : -1;
}

/* Does it read what a collective of its section makes, or what is made of that
 * and moves too? Bytes that it reads so. */
static int64_t reads_late(const behind *x, int32_t t)
{
    const plan_task *task = &x->role->tasks[t];
    int64_t bytes = 0;
    for (int32_t i = 0; i < task->n_in; i++) {
        const int32_t p = producer_of(x, task, i);
        if (p >= 0 && p < t && (x->role->tasks[p].comm >= 0 || x->moves[p]))
            bytes += x->role->registers[task->in[i]].bytes;
    }
    return bytes;
}

/* Kernels, and what boxes without others. */
static bool is_local(const plan_task *task)
{
    return task->kind == PLAN_COMPUTE ||
           (task->kind == PLAN_BOX && task->comm < 0);
}

/* From the last task to the first: whose reader is no kernel that moves. */
static void note_wanted(behind *x, int32_t t)
{
    const plan_task *task = &x->role->tasks[t];
    const bool may_move = is_local(task) && !x->wanted[t];
    for (int32_t i = 0; i < task->n_in && !may_move; i++) {
        const int32_t p = producer_of(x, task, i);
        if (p >= 0 && p != t)
            x->wanted[p] = true;
    }
}

static bool find_moves(behind *x)
{
    bool any = false;
    for (int32_t t = x->first; t < x->end; t++)
        x->moves[t] = x->wanted[t] = false;
    for (int32_t t = x->end - 1; t >= x->first; t--)
        note_wanted(x, t);
    for (int32_t t = x->first; t < x->end; t++) {
        x->moves[t] = is_local(&x->role->tasks[t]) && !x->wanted[t] &&
                      reads_late(x, t) > 0;
        any |= x->moves[t];
    }
    return any;
}

static void move_section(behind *x)
{
    const int32_t n = x->end - x->first;
    plan_task *tasks = fs_new(x->scratch, plan_task, n);
    int32_t *queue = fs_new(x->scratch, int32_t, n);
    int64_t *bytes = fs_new(x->scratch, int64_t, n), most = 0, waiting = 0;
    int32_t at = 0, begun = 0, queued = 0;

    for (int32_t t = x->first; t < x->end; t++)
        if (x->moves[t] && reads_late(x, t) > most)
            most = reads_late(x, t);
    for (int32_t t = x->first; t < x->end; t++) {
        if (!x->moves[t]) {
            tasks[at++] = x->role->tasks[t];
            continue;
        }
        queue[queued] = t;
        bytes[queued] = reads_late(x, t);
        waiting += bytes[queued++];
        for (; waiting > WAITING * most; begun++) {
            tasks[at++] = x->role->tasks[queue[begun]];
            waiting -= bytes[begun];
        }
    }
    while (begun < queued)
        tasks[at++] = x->role->tasks[queue[begun++]];
    FS_ASSERT(at == n);
    for (int32_t i = 0; i < n; i++)
        x->role->tasks[x->first + i] = tasks[i];
}

void plan_lower_behind(lowering *l, plan_role *role)
{
    behind x = {.role = role,
                .scratch = l->scratch,
                .moves = fs_new(l->scratch, bool, role->n_tasks),
                .wanted = fs_new(l->scratch, bool, role->n_tasks)};

    for (; x.first < role->n_tasks; x.first = x.end) {
        x.end = plan_lower_section_end(role, x.first);
        if (!plan_phase_once(role->tasks[x.first].phase) && find_moves(&x))
            move_section(&x);
    }
}
