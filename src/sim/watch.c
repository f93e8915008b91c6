/* Bytes that are live on each role, by class, over the steps that are traced:
 * what the meters count, told apart. */
#include "config.h"
#include "sim/watch.h"

#include "plan/memory.h"

typedef int64_t by_kind[PLAN_BYTES_KINDS];

struct sim_watch {
    plan_bytes_kind **kind; /* [roles][registers] */
    by_kind *live;          /* [roles] */
    bool begun;             /* something of a traced step has fired */
};

/* What sim_standing_bytes counts, by class. */
static void stand(sim_watch *w, const plan_role *role, int32_t r)
{
    for (int32_t i = 0; i < role->n_registers; i++)
        if (role->registers[i].persistent)
            w->live[r][w->kind[r][i]] +=
                role->registers[i].count * role->registers[i].bytes;
    int64_t bytes = sim_standing_bytes(role);
    for (int32_t k = 0; k < PLAN_BYTES_KINDS; k++)
        bytes -= w->live[r][k];
    w->live[r][PLAN_BYTES_SCRATCH] += bytes;
}

sim_watch *sim_watch_create(const simulation *s)
{
    if (!sim_watches(s))
        return NULL;
    sim_watch *w = fs_new(s->arena, sim_watch, 1);
    w->kind = fs_new(s->arena, plan_bytes_kind *, s->p->n_roles);
    w->live = fs_new(s->arena, by_kind, s->p->n_roles);
    for (int32_t r = 0; r < s->p->n_roles; r++) {
        const plan_role *role = &s->p->roles[r];
        w->kind[r] = fs_new(s->arena, plan_bytes_kind, role->n_registers);
        for (int32_t i = 0; i < role->n_registers; i++)
            w->kind[r][i] =
                plan_memory_kind(s->graph, role, &role->registers[i]);
        stand(w, role, r);
    }
    return w;
}

void sim_watch_claim(sim_watch *w, const simulation *s, int32_t role,
                     int32_t reg)
{
    if (w)
        w->live[role][w->kind[role][reg]] +=
            s->p->roles[role].registers[reg].bytes;
}

/* In-registers, then out-registers. */
static int32_t register_of(const plan_task *task, int32_t i)
{
    return i < task->n_in ? task->in[i] : task->out[i - task->n_in];
}

static bool stands_before(const plan_task *task, int32_t i)
{
    int32_t k = 0;
    while (k < i && register_of(task, k) != register_of(task, i))
        k++;
    return k < i;
}

void sim_watch_release(sim_watch *w, const simulation *s, int32_t role,
                       const plan_task *task, int32_t sign)
{
    if (!w)
        return;
    const plan_register *registers = s->p->roles[role].registers;
    const int64_t *released = s->actors[role]->released;
    for (int32_t i = 0; i < task->n_in + task->n_out; i++) {
        const int32_t reg = register_of(task, i);
        if (registers[reg].persistent || stands_before(task, i))
            continue;
        w->live[role][w->kind[role][reg]] +=
            sign * released[reg] * registers[reg].bytes;
    }
}

void sim_watch_note(sim_watch *w, const simulation *s, int32_t role,
                    int64_t step)
{
    if (!w)
        return;
    w->begun = w->begun || step >= sim_first_traced(s);
    if (!w->begun)
        return;
    plan_trace *trace = s->options->trace;
    plan_live live = {.rank = s->p->roles[role].first_rank, .at_ns = s->now_ns};
    for (int32_t k = 0; k < PLAN_BYTES_KINDS; k++)
        live.bytes[k] = w->live[role][k];
    fs_push(trace->arena, &trace->live, live);
}

/* ---- a trace that somebody takes ---- */

/* All that comes later has started by now, or will start. */
static int64_t first_traced_ns(const simulation *s)
{
    const plan_trace *trace = s->options->trace;
    int64_t first_ns = s->now_ns;
    for (int32_t i = 0; i < trace->events.n; i++)
        if (trace->events.at[i].start_ns < first_ns)
            first_ns = trace->events.at[i].start_ns;
    for (int32_t i = 0; i < s->heap.n; i++) {
        const int32_t j = sim_event_job(&s->heap.at[i]);
        if (s->lanes[j].cursor->step >= sim_first_traced(s) &&
            s->jobs[j].start_ns < first_ns)
            first_ns = s->jobs[j].start_ns;
    }
    return first_ns;
}

void sim_trace_hand_over(simulation *s)
{
    plan_trace *trace = s->options->trace;
    if (s->traced_ns < 0)
        s->traced_ns = first_traced_ns(s);
    trace->take(trace->take_ctx, trace, s->traced_ns);
    trace->events.n = trace->live.n = 0;
}
