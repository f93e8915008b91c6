#include "config.h"

#include "plan/lower.h"

/* Collectives that run once per step, on one communicator, of one kind, dtype
 * and reduction go together as one task, until they have so many bytes: each
 * message costs its latency once. A bucket stands in the place of its last
 * part, so that it waits for nothing that comes later, and beside a pass that
 * goes on the first buckets are on their way while the last are being made.
 * Where something in between wants what one of its parts makes, it stays where
 * it is, and what comes behind may still come to it.
 *
 * What waits for other roles in its section takes no part, nor what stands
 * behind such tasks in its stream: what a bucket makes earlier may be what they
 * wait for. */

typedef struct bucket {
    int32_t at; /* the task in whose place it stands */
    bool stays; /* something behind it touches what it touches */
    int64_t bytes;
    FS_VEC(int32_t) tasks; /* ascending */
} bucket;

/* Of a register: who touched it last in the program, so far. */
typedef struct touched {
    int32_t read, written; /* tasks, or -1 */
    int32_t reader, maker; /* buckets that it is of, or -1 */
    int32_t late;          /* the last task that touches it late, or -1 */
} touched;

typedef struct bucketing {
    lowering *l;
    plan_role *role;
    int32_t first, end;  /* the section's tasks */
    bool *late;          /* [tasks] waits for another role in its section */
    int32_t *late_since; /* [streams] the first such task of it, or -1 */
    touched *reg;        /* [registers] */
    int32_t *of;         /* [tasks] its bucket, or -1 */
    FS_VEC(bucket) buckets;
    FS_VEC(int32_t) open; /* the section's that are not full: one of a kind */
} bucketing;

static int64_t bytes_of(const plan_task *task)
{
    return task->box.bytes_in > task->box.bytes_out ? task->box.bytes_in
                                                    : task->box.bytes_out;
}

static bool may_join(const plan_task *task)
{
    return task->comm >= 0 && plan_box_fuses(task->box.kind);
}

/* ---- what waits for other roles ---- */

static bool is_late(const bucketing *x, int32_t t)
{
    const plan_task *task = &x->role->tasks[t];
    bool late = task->kind == PLAN_RECV || x->late_since[task->stream] >= 0;

    for (int32_t i = 0; i < task->n_in && !late; i++) {
        const touched *r = &x->reg[task->in[i]];
        late = r->written >= x->first && x->late[r->written];
    }
    for (int32_t i = 0; i < task->n_out && !late; i++)
        late = x->reg[task->out[i]].late >= x->first;
    return late;
}

static void note_late(bucketing *x, int32_t t)
{
    const plan_task *task = &x->role->tasks[t];

    x->late[t] = is_late(x, t);
    if (!x->late[t])
        return;
    x->late_since[task->stream] = t;
    for (int32_t i = 0; i < task->n_in; i++)
        x->reg[task->in[i]].late = t;
    for (int32_t i = 0; i < task->n_out; i++)
        x->reg[task->out[i]].late = t;
}

/* ---- what touches what a bucket touches ---- */

static bool meets(const bucketing *x, int32_t b, const plan_task *task)
{
    for (int32_t i = 0; i < task->n_in; i++)
        if (x->reg[task->in[i]].maker == b)
            return true;
    for (int32_t i = 0; i < task->n_out; i++)
        if (x->reg[task->out[i]].maker == b || x->reg[task->out[i]].reader == b)
            return true;
    return false;
}

/* Where a bucket is, what its parts touch is touched. */
static int32_t written_at(const bucketing *x, int32_t reg)
{
    const touched *r = &x->reg[reg];

    return r->maker >= 0 ? x->buckets.at[r->maker].at : r->written;
}

static int32_t read_at(const bucketing *x, int32_t reg)
{
    const touched *r = &x->reg[reg];
    const int32_t at = r->reader >= 0 ? x->buckets.at[r->reader].at : -1;

    return at > r->read ? at : r->read;
}

/* May the task stand there, further up? */
static bool may_come_to(const bucketing *x, int32_t at, const plan_task *task)
{
    for (int32_t i = 0; i < task->n_in; i++)
        if (written_at(x, task->in[i]) >= at)
            return false;
    for (int32_t i = 0; i < task->n_out; i++)
        if (written_at(x, task->out[i]) >= at || read_at(x, task->out[i]) >= at)
            return false;
    return true;
}

/* ---- buckets ---- */

static bool same_kind(const bucketing *x, const plan_task *a,
                      const plan_task *b)
{
    const ir_tensor *tensors = x->l->graph->tensors.at;

    return a->comm == b->comm && a->box.kind == b->box.kind &&
           tensors[a->tensor].dtype == tensors[b->tensor].dtype &&
           plan_box_reduction(&a->box) == plan_box_reduction(&b->box);
}

static bool joins(const bucketing *x, int32_t b, const plan_task *task)
{
    const bucket *to = &x->buckets.at[b];

    return !meets(x, b, task) && (!to->stays || may_come_to(x, to->at, task));
}

static int32_t open_bucket(bucketing *x, int32_t t)
{
    fs_push(x->l->scratch, &x->buckets, (bucket){.at = t});
    return x->buckets.n - 1;
}

static void add_to(bucketing *x, int32_t b, int32_t t)
{
    const plan_task *task = &x->role->tasks[t];
    bucket *to = &x->buckets.at[b];

    fs_push(x->l->scratch, &to->tasks, t);
    to->bytes += bytes_of(task);
    if (!to->stays)
        to->at = t;
    x->of[t] = b;
    x->reg[task->in[0]].reader = b;
    x->reg[task->out[0]].maker = b;
}

/* Which of the open ones is of the task's kind: their number if none is. */
static int32_t find_open(const bucketing *x, const plan_task *task)
{
    int32_t i = 0;

    while (i < x->open.n &&
           !same_kind(x,
                      &x->role->tasks[x->buckets.at[x->open.at[i]].tasks.at[0]],
                      task))
        i++;
    return i;
}

/* Into the open bucket, or the first of another one. A tensor that is boxed
 * twice has one of them in a bucket. */
static void put(bucketing *x, int32_t t)
{
    const plan_task *task = &x->role->tasks[t];
    const int32_t i = find_open(x, task);

    if (x->reg[task->in[0]].reader >= 0)
        return;
    if (i == x->open.n)
        fs_push(x->l->scratch, &x->open, open_bucket(x, t));
    else if (!joins(x, x->open.at[i], task))
        x->open.at[i] = open_bucket(x, t);
    add_to(x, x->open.at[i], t);
    if (x->buckets.at[x->open.at[i]].bytes >= x->l->options->bucket_bytes)
        x->open.at[i] = x->open.at[--x->open.n];
}

static void stay(bucketing *x, int32_t b, int32_t t)
{
    if (b >= 0 && b != x->of[t])
        x->buckets.at[b].stays = true;
}

static void note_touched(bucketing *x, int32_t t)
{
    const plan_task *task = &x->role->tasks[t];

    for (int32_t i = 0; i < task->n_in; i++) {
        stay(x, x->reg[task->in[i]].maker, t);
        x->reg[task->in[i]].read = t;
    }
    for (int32_t i = 0; i < task->n_out; i++) {
        stay(x, x->reg[task->out[i]].maker, t);
        stay(x, x->reg[task->out[i]].reader, t);
        x->reg[task->out[i]].written = t;
    }
}

static void look_at(bucketing *x, int32_t t)
{
    x->of[t] = -1;
    note_late(x, t);
    if (!x->late[t] && may_join(&x->role->tasks[t]))
        put(x, t);
    note_touched(x, t);
}

/* ---- tasks ---- */

static plan_task make_bucket(const bucketing *x, const bucket *b)
{
    const ir_graph *graph = x->l->graph;
    const int32_t n = b->tasks.n;
    plan_task made = x->role->tasks[b->tasks.at[0]];
    plan_part *parts = fs_new(x->l->arena, plan_part, n);

    made.n_in = made.n_out = made.n_parts = n;
    made.in = fs_new(x->l->arena, int32_t, 2 * n);
    made.out = made.in + n;
    made.parts = parts;
    made.box.bytes_in = made.box.bytes_out = 0;
    for (int32_t i = 0; i < n; i++) {
        const plan_task *task = &x->role->tasks[b->tasks.at[i]];
        parts[i] = (plan_part){task->tensor, task->box};
        made.in[i] = task->in[0];
        made.out[i] = task->out[0];
        made.box.bytes_in += task->box.bytes_in;
        made.box.bytes_out += task->box.bytes_out;
    }
    made.scratch_bytes = plan_box_scratch(
        &graph->tensors.at[made.tensor],
        &x->l->strategy->stages[x->role->stages[made.chunk]].mesh, &made.box);
    return made;
}

/* Back into the role, the buckets in their places. */
static void put_back(bucketing *x)
{
    const plan_role *role = x->role;
    plan_task *tasks = fs_new(x->l->scratch, plan_task, role->n_tasks);
    int32_t n = 0;

    for (int32_t t = 0; t < role->n_tasks; t++) {
        const bucket *b = x->of[t] < 0 ? NULL : &x->buckets.at[x->of[t]];
        if (b == NULL || b->tasks.n == 1)
            tasks[n++] = role->tasks[t];
        else if (b->at == t)
            tasks[n++] = make_bucket(x, b);
    }
    for (int32_t t = 0; t < n; t++)
        x->role->tasks[t] = tasks[t];
    x->role->n_tasks = n;
}

static void clear_section(bucketing *x)
{
    for (int32_t s = 0; s < x->role->n_streams; s++)
        x->late_since[s] = -1;
    for (int32_t r = 0; r < x->role->n_registers; r++)
        x->reg[r] = (touched){-1, -1, -1, -1, -1};
    x->open.n = 0;
}

void plan_lower_buckets(lowering *l, plan_role *role)
{
    bucketing x = {.l = l,
                   .role = role,
                   .late = fs_new(l->scratch, bool, role->n_tasks),
                   .late_since = fs_new(l->scratch, int32_t, role->n_streams),
                   .reg = fs_new(l->scratch, touched, role->n_registers),
                   .of = fs_new(l->scratch, int32_t, role->n_tasks)};

    for (int32_t t = 0; t < role->n_tasks; t++)
        x.of[t] = -1;
    for (; x.first < role->n_tasks; x.first = x.end) {
        x.end = plan_lower_section_end(role, x.first);
        if (!plan_phase_once(role->tasks[x.first].phase))
            continue;
        clear_section(&x);
        for (int32_t t = x.first; t < x.end; t++)
            look_at(&x, t);
    }
    put_back(&x);
}
