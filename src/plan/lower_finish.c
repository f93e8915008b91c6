#include "config.h"

#include "plan/lower.h"
#include "plan/memory.h"

/* ---- tasks, registers, who reads what ---- */

static void copy_role(lowering *l, plan_role *role)
{
    const lower_role *from = &l->roles[role->stages[0]];

    role->n_tasks = from->tasks.n;
    role->tasks = fs_new(l->arena, plan_task, from->tasks.n);
    for (int32_t t = 0; t < from->tasks.n; t++)
        role->tasks[t] = from->tasks.at[from->order[t]].task;
    role->n_registers = from->registers.n;
    role->registers = fs_new(l->arena, plan_register, from->registers.n);
    for (int32_t r = 0; r < from->registers.n; r++)
        role->registers[r] = from->registers.at[r];
}

/* Does input `slot` make task t a consumer of its register? Not its own
 * producer's, and a register that is read twice once. */
static bool consumes(const plan_role *role, int32_t t, int32_t slot)
{
    const plan_task *task = &role->tasks[t];
    for (int32_t i = 0; i < slot; i++)
        if (task->in[i] == task->in[slot])
            return false;
    return role->registers[task->in[slot]].producer != t;
}

static void link_producers(plan_role *role)
{
    for (int32_t t = 0; t < role->n_tasks; t++)
        for (int32_t o = 0; o < role->tasks[t].n_out; o++)
            role->registers[role->tasks[t].out[o]].producer = t;
}

static void count_consumers(plan_role *role)
{
    for (int32_t t = 0; t < role->n_tasks; t++)
        for (int32_t i = 0; i < role->tasks[t].n_in; i++)
            if (consumes(role, t, i))
                role->registers[role->tasks[t].in[i]].n_consumers++;
}

static void link_consumers(lowering *l, plan_role *role)
{
    count_consumers(role);
    int64_t n = 0;
    for (int32_t i = 0; i < role->n_registers; i++)
        n += role->registers[i].n_consumers;
    int32_t *at = fs_new(l->arena, int32_t, n);
    for (int32_t i = 0; i < role->n_registers; i++) {
        plan_register *r = &role->registers[i];
        r->consumers = at;
        at += r->n_consumers;
        r->n_consumers = 0;
    }
    for (int32_t t = 0; t < role->n_tasks; t++)
        for (int32_t i = 0; i < role->tasks[t].n_in; i++) {
            plan_register *r = &role->registers[role->tasks[t].in[i]];
            if (consumes(role, t, i))
                r->consumers[r->n_consumers++] = t;
        }
}

/* ---- streams ---- */

static plan_stream_kind stream_kind(const lowering *l, const plan_task *task)
{
    if (task->kind == PLAN_LOAD)
        return PLAN_STREAM_LOAD;
    if (task->channel >= 0)
        return task->kind == PLAN_SEND ? PLAN_STREAM_SEND : PLAN_STREAM_RECV;
    if (!l->options->overlap || task->comm < 0)
        return PLAN_STREAM_COMPUTE;
    return plan_phase_once(task->phase) ? PLAN_STREAM_STEP : PLAN_STREAM_COMM;
}

static int32_t add_stream(plan_role *role, plan_stream_kind kind,
                          int32_t channel)
{
    role->streams[role->n_streams] = (plan_stream){kind, channel};
    return role->n_streams++;
}

/* Tasks of one kind of streams and one pass. */
static bool runs_on(const lowering *l, const plan_task *task,
                    plan_stream_kind kind, int32_t pass)
{
    return stream_kind(l, task) == kind &&
           plan_schedule_pass(l->pipe.schedule, task->phase) == pass;
}

/* Puts them on a stream of their own, if there are any. */
static void add_stream_of(lowering *l, plan_role *role, plan_stream_kind kind,
                          int32_t pass)
{
    bool always = kind == PLAN_STREAM_COMPUTE && pass == 0;
    int32_t stream = always ? add_stream(role, kind, -1) : -1;

    for (int32_t t = 0; t < role->n_tasks; t++) {
        if (!runs_on(l, &role->tasks[t], kind, pass))
            continue;
        if (stream < 0)
            stream = add_stream(role, kind, -1);
        role->tasks[t].stream = stream;
    }
}

/* COMPUTE of the first pass is stream 0; the others exist when something runs
 * on them. */
static void make_streams(lowering *l, plan_role *role)
{
    int32_t *of_channel = fs_new(l->scratch, int32_t, l->channels.n);

    role->streams =
        fs_new(l->arena, plan_stream,
               (PLAN_STREAM_LOAD + 1) * PLAN_PASSES + l->channels.n);
    for (int32_t kind = 0; kind <= PLAN_STREAM_LOAD; kind++)
        for (int32_t pass = 0; pass < l->pipe.schedule->passes; pass++)
            add_stream_of(l, role, (plan_stream_kind)kind, pass);
    for (int32_t c = 0; c < l->channels.n; c++)
        if (plan_role_has_stage(role, l->channels.at[c].from))
            of_channel[c] = add_stream(role, PLAN_STREAM_SEND, c);
        else if (plan_role_has_stage(role, l->channels.at[c].to))
            of_channel[c] = add_stream(role, PLAN_STREAM_RECV, c);
    for (int32_t t = 0; t < role->n_tasks; t++)
        if (role->tasks[t].channel >= 0)
            role->tasks[t].stream = of_channel[role->tasks[t].channel];
}

/* ---- slots and credits ---- */

static void make_slots(lowering *l, plan_role *role)
{
    int32_t place = l->pipe.role_of[role->stages[0]];

    role->n_slots = plan_program_slots(&l->pipe, place);
    role->slots = fs_new(l->arena, plan_slot, role->n_slots);
    plan_program_fill(&l->pipe, place, role->slots);
}

/* What credits are found from. */
typedef struct crediting {
    const lowering *l;
    const plan_role *role;
    plan_places places;
    int32_t *held; /* [sections][sections] plan_schedule_held, 0: not known */
} crediting;

static plan_slot slot_of(const plan_task *task)
{
    return (plan_slot){task->phase, 0, task->chunk};
}

/* Micro-batches that stand between two tasks of the program. */
static int32_t held_between(const crediting *x, const plan_task *from,
                            const plan_task *to)
{
    int32_t n = plan_n_sections(x->role);
    int32_t *held = &x->held[plan_task_section(x->role, from) * n +
                             plan_task_section(x->role, to)];

    if (*held == 0)
        *held = plan_schedule_held(x->role->slots, x->role->n_slots,
                                   slot_of(from), slot_of(to));
    return *held;
}

/* Of what is received, stages may lie between both ends: a sender further on
 * by the schedule must not wait for this stage. */
static int32_t received(const crediting *x, const plan_task *recv,
                        const plan_task *reader, int32_t least)
{
    const lower_channel *channel = &x->l->channels.at[recv->channel];
    plan_crossing crossing = {channel->from, plan_task_stage(x->role, reader),
                              recv->phase, reader->phase};

    return plan_pace_buffers(&x->l->pace, &crossing, least);
}

/* Credits of a micro-batch register: as many as micro-batches may stand
 * between its producer and its consumers. One more where two streams meet
 * lets the one run ahead of the other. */
static int32_t credits(const crediting *x, const plan_register *r)
{
    const plan_task *tasks = x->role->tasks, *producer = &tasks[r->producer];
    int32_t m = x->l->strategy->micro_batches;
    int32_t prefetch = x->l->options->prefetch, n = 1;
    bool crosses = false;

    for (int32_t c = 0; c < r->n_consumers; c++) {
        const plan_task *reader = &tasks[r->consumers[c]];
        int32_t held = held_between(x, producer, reader);
        if (producer->kind == PLAN_RECV)
            held = received(x, producer, reader, held);
        crosses = crosses || plan_task_section(x->role, producer) !=
                                 plan_task_section(x->role, reader);
        n = held > n ? held : n;
    }
    if (producer->kind == PLAN_LOAD) /* of the next step too */
        return n + prefetch > 2 ? n + prefetch : 2;
    if (producer->kind == PLAN_RECV)
        n += prefetch;
    else if (!crosses && plan_memory_stream(&x->places, r) < 0)
        n++;
    return n < m ? n : m;
}

static void give_credits(lowering *l, plan_role *role)
{
    int64_t n = plan_n_sections(role);
    crediting x = {l, role, plan_places_of(role, l->scratch),
                   fs_new(l->scratch, int32_t, n * n)};

    for (int32_t i = 0; i < role->n_registers; i++) {
        plan_register *r = &role->registers[i];
        if (!r->per_step)
            r->count = credits(&x, r);
    }
}

/* ---- the whole ---- */

void plan_lower_finish(lowering *l, plan *p)
{
    l->pace = plan_pace_of(&l->pipe, l->scratch);
    for (int32_t r = 0; r < p->n_roles; r++) {
        plan_role *role = &p->roles[r];
        copy_role(l, role);
        make_streams(l, role);
        if (l->options->bucket_bytes > 0)
            plan_lower_buckets(l, role);
        link_producers(role);
        if (l->options->overlap) {
            plan_lower_ahead(l, role);
            link_producers(role);
            plan_lower_behind(l, role);
            link_producers(role);
        }
        link_consumers(l, role);
        make_slots(l, role);
        give_credits(l, role);
    }
    p->n_comms = l->comms.n;
    p->comms = fs_new(l->arena, plan_comm, l->comms.n);
    for (int32_t c = 0; c < l->comms.n; c++)
        p->comms[c] = (plan_comm){l->comms.at[c].stage, l->comms.at[c].axes};
    p->n_channels = l->channels.n;
    p->channels = fs_new(l->arena, plan_channel, l->channels.n);
    for (int32_t c = 0; c < l->channels.n; c++)
        p->channels[c] =
            (plan_channel){l->channels.at[c].from, l->channels.at[c].to};
}
