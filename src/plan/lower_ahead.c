#include "config.h"

#include "plan/lower.h"

/* A collective keeps its place in the program (plan/places.h), so one that
 * waits for nothing in its section (a shard of a weight to gather) overlaps
 * with what stands between its place and its first reader. Its place is as far
 * ahead of the reader as what then lies gathered and not yet read takes no more
 * bytes than `prefetch` of the section's largest. */

typedef struct ahead {
    plan_role *role;
    fs_arena *scratch;
    int32_t first, end;   /* the section's tasks */
    bool *free;           /* [tasks] waits for nothing of its section: a
                             collective, or a kernel that only such ones wait
                             for (the cast of a shard) */
    bool *local;          /* [tasks] a kernel that may be one */
    int32_t *reader;      /* [tasks] the first of its section that reads what it
                             makes; of what waits for nothing too, theirs; -1 */
    FS_VEC(int32_t) list; /* those to be placed, ascending */
    int32_t *before;      /* [list] in front of which task */
} ahead;

static bool is_here(const ahead *x, int32_t task)
{
    return task >= x->first && task < x->end;
}

static void find_free(ahead *x, int32_t t)
{
    const plan_task *task = &x->role->tasks[t];

    x->reader[t] = -1;
    x->free[t] = task->comm >= 0 || x->local[t];
    for (int32_t i = 0; i < task->n_in; i++) {
        int32_t producer = x->role->registers[task->in[i]].producer;
        if (is_here(x, producer) && producer != t && !x->free[producer])
            x->free[t] = false;
    }
}

/* A kernel, or boxing without others, that reads nothing of a micro-batch: what
 * is computed again in the backward pass does. */
static bool is_of_step(const ahead *x, int32_t t)
{
    const plan_task *task = &x->role->tasks[t];
    bool all = task->kind == PLAN_COMPUTE ||
               (task->kind == PLAN_BOX && task->comm < 0);

    for (int32_t i = 0; i < task->n_in && all; i++) {
        const plan_register *r = &x->role->registers[task->in[i]];
        all = r->per_step || r->persistent || is_here(x, r->producer);
    }
    return all;
}

/* Free kernels that something else waits for than what is free stay where they
 * are, and what waits for these too. */
static void find_local(ahead *x)
{
    bool *read = fs_new(x->scratch, bool, x->role->n_tasks);

    for (int32_t t = x->first; t < x->end; t++)
        x->local[t] = is_of_step(x, t);
    for (int32_t t = x->first; t < x->end; t++)
        find_free(x, t);
    for (int32_t t = x->end - 1; t >= x->first; t--) {
        const plan_task *task = &x->role->tasks[t];
        const bool stays = !x->free[t] || (x->local[t] && !read[t]);
        for (int32_t i = 0; i < task->n_in; i++) {
            int32_t producer = x->role->registers[task->in[i]].producer;
            if (!is_here(x, producer) || producer == t)
                continue;
            read[producer] = true;
            x->local[producer] &= !stays;
        }
        x->local[t] &= !stays;
    }
}

/* From the last task to the first: t is the first reader so far. */
static void note_reads(ahead *x, int32_t t)
{
    const plan_task *task = &x->role->tasks[t];
    int32_t reader = x->free[t] ? x->reader[t] : t;

    for (int32_t i = 0; i < task->n_in && reader >= 0; i++) {
        int32_t producer = x->role->registers[task->in[i]].producer;
        if (is_here(x, producer) && producer < t &&
            (x->reader[producer] < 0 || reader < x->reader[producer]))
            x->reader[producer] = reader;
    }
}

static int64_t bytes_made(const ahead *x, int32_t t)
{
    return x->role->registers[x->role->tasks[t].out[0]].bytes;
}

static void find_list(ahead *x)
{
    find_local(x);
    for (int32_t t = x->first; t < x->end; t++)
        find_free(x, t);
    for (int32_t t = x->end - 1; t >= x->first; t--)
        note_reads(x, t);
    x->list.n = 0;
    for (int32_t t = x->first; t < x->end; t++)
        if (x->free[t] && x->reader[t] >= 0)
            fs_push(x->scratch, &x->list, t);
}

/* In their order, each behind as many readers of those before it as must have
 * begun. */
static void find_places(ahead *x, int32_t prefetch)
{
    int64_t most = 0, waiting = 0;
    int32_t begun = -1, place = x->first;

    x->before = fs_new(x->scratch, int32_t, x->list.n);
    for (int32_t i = 0; i < x->list.n; i++)
        if (bytes_made(x, x->list.at[i]) > most)
            most = bytes_made(x, x->list.at[i]);
    most = prefetch > 0 ? most * prefetch : 0;
    for (int32_t i = 0; i < x->list.n; i++) {
        int32_t t = x->list.at[i];
        waiting += bytes_made(x, t);
        while (waiting > most && begun < i - 1) {
            begun++;
            waiting -= bytes_made(x, x->list.at[begun]);
            if (x->reader[x->list.at[begun]] > place)
                place = x->reader[x->list.at[begun]];
        }
        x->before[i] = place < t ? place : t;
    }
}

static void move_section(ahead *x)
{
    int32_t n = x->end - x->first, at = 0, next = 0;
    plan_task *tasks = fs_new(x->scratch, plan_task, n);

    for (int32_t t = x->first; t < x->end; t++) {
        while (next < x->list.n && x->before[next] <= t)
            tasks[at++] = x->role->tasks[x->list.at[next++]];
        if (!(x->free[t] && x->reader[t] >= 0))
            tasks[at++] = x->role->tasks[t];
    }
    FS_ASSERT(at == n);
    for (int32_t i = 0; i < n; i++)
        x->role->tasks[x->first + i] = tasks[i];
}

int32_t plan_lower_section_end(const plan_role *role, int32_t first)
{
    const int32_t section = plan_task_section(role, &role->tasks[first]);
    int32_t end = first;

    while (end < role->n_tasks &&
           plan_task_section(role, &role->tasks[end]) == section)
        end++;
    return end;
}

void plan_lower_ahead(lowering *l, plan_role *role)
{
    ahead x = {.role = role,
               .scratch = l->scratch,
               .free = fs_new(l->scratch, bool, role->n_tasks),
               .local = fs_new(l->scratch, bool, role->n_tasks),
               .reader = fs_new(l->scratch, int32_t, role->n_tasks)};

    for (; x.first < role->n_tasks; x.first = x.end) {
        x.end = plan_lower_section_end(role, x.first);
        if (plan_phase_once(role->tasks[x.first].phase))
            continue;
        find_list(&x);
        if (x.list.n == 0)
            continue;
        find_places(&x, l->options->prefetch);
        move_section(&x);
    }
}
