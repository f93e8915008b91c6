#include "config.h"

#include "plan/lower.h"

/* ---- tasks, registers, who reads what ---- */

static void copy_role(lowering *l, plan_role *role)
{
    const lower_role *from = &l->roles[role->stages[0]];

    role->n_tasks = from->tasks.n;
    role->tasks = fs_new(l->arena, plan_task, from->tasks.n);
    for (int32_t t = 0; t < from->tasks.n; t++)
        role->tasks[t] = from->tasks.at[t].task;
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
    for (int32_t i = 0; i < role->n_registers; i++) {
        plan_register *r = &role->registers[i];
        r->consumers = fs_new(l->arena, int32_t, r->n_consumers);
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

static bool on_comm_stream(const lowering *l, const plan_task *task)
{
    return l->options->overlap && task->kind == PLAN_BOX && task->comm >= 0;
}

static int32_t count_tasks(const plan_role *role, plan_task_kind kind)
{
    int32_t n = 0;

    for (int32_t t = 0; t < role->n_tasks; t++)
        n += role->tasks[t].kind == kind;
    return n;
}

static int32_t add_stream(plan_role *role, plan_stream_kind kind,
                          int32_t channel)
{
    role->streams[role->n_streams] = (plan_stream){kind, channel};
    return role->n_streams++;
}

/* COMPUTE is stream 0; the others exist when something runs on them. */
static void make_streams(lowering *l, plan_role *role)
{
    int32_t comm = -1, load = -1;
    int32_t *of_channel = fs_new(l->scratch, int32_t, l->channels.n);

    role->streams = fs_new(l->arena, plan_stream, 3 + l->channels.n);
    add_stream(role, PLAN_STREAM_COMPUTE, -1);
    for (int32_t t = 0; t < role->n_tasks && comm < 0; t++)
        if (on_comm_stream(l, &role->tasks[t]))
            comm = add_stream(role, PLAN_STREAM_COMM, -1);
    if (count_tasks(role, PLAN_LOAD) > 0)
        load = add_stream(role, PLAN_STREAM_LOAD, -1);
    for (int32_t c = 0; c < l->channels.n; c++)
        if (plan_role_has_stage(role, l->channels.at[c].from))
            of_channel[c] = add_stream(role, PLAN_STREAM_SEND, c);
        else if (plan_role_has_stage(role, l->channels.at[c].to))
            of_channel[c] = add_stream(role, PLAN_STREAM_RECV, c);
    for (int32_t t = 0; t < role->n_tasks; t++) {
        plan_task *task = &role->tasks[t];
        task->stream = task->channel >= 0        ? of_channel[task->channel]
                       : task->kind == PLAN_LOAD ? load
                       : on_comm_stream(l, task) ? comm
                                                 : 0;
    }
}

/* ---- slots and credits ---- */

static void make_slots(lowering *l, plan_role *role)
{
    int32_t place = l->pipe.role_of[role->stages[0]];

    role->n_slots = plan_program_slots(&l->pipe, place);
    role->slots = fs_new(l->arena, plan_slot, role->n_slots);
    plan_program_fill(&l->pipe, place, role->slots);
}

static bool touched_elsewhere(const plan_role *role, const plan_register *r)
{
    if (r->producer >= 0 && role->tasks[r->producer].stream != 0)
        return true;
    for (int32_t c = 0; c < r->n_consumers; c++)
        if (role->tasks[r->consumers[c]].stream != 0)
            return true;
    return false;
}

/* What credits are found from. */
typedef struct crediting {
    const lowering *l;
    const plan_role *role;
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
    else if (!crosses && touched_elsewhere(x->role, r))
        n++;
    return n < m ? n : m;
}

static void give_credits(lowering *l, plan_role *role)
{
    int64_t n = plan_n_sections(role);
    crediting x = {l, role, fs_new(l->scratch, int32_t, n * n)};

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
        link_producers(role);
        link_consumers(l, role);
        make_streams(l, role);
        make_slots(l, role);
        give_credits(l, role);
    }
    p->n_comms = l->comms.n;
    p->comms = fs_new(l->arena, plan_comm, l->comms.n);
    for (int32_t c = 0; c < l->comms.n; c++)
        p->comms[c] = l->comms.at[c];
    p->n_channels = l->channels.n;
    p->channels = fs_new(l->arena, plan_channel, l->channels.n);
    for (int32_t c = 0; c < l->channels.n; c++)
        p->channels[c] =
            (plan_channel){l->channels.at[c].from, l->channels.at[c].to};
}
