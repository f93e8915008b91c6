#include "config.h"
#include "plan/check_parts.h"
#include "plan/schedule.h"
#include "plan/text_parts.h"

#include <string.h>

/* What a role runs in which order: the program that its schedule names, and
 * streams that are what their tasks need. A stream's kind decides what may
 * share memory and what may wait for what, so it is no ornament. */

#define BAD(c, ...) plan_check_add((c), PLAN_FINDING_STRUCTURE, __VA_ARGS__)

/* ---- the program ---- */

static const char *slot_text(const plan_checking *c, const plan_role *r,
                             const plan_slot *slot)
{
    if ((uint32_t)slot->phase >= PLAN_PHASES)
        return "an unknown phase";
    const char *text = fs_printf(
        c->scratch, "%s %d", plan_phase_name(slot->phase), slot->micro_batch);
    if (r->n_chunks == 1)
        return text;
    return fs_printf(c->scratch, "%s of chunk %d", text, slot->chunk);
}

void plan_check_program(plan_checking *c, int32_t role)
{
    const plan_role *r = &c->p->roles[role];
    const plan_strategy *s = c->p->strategy;
    int32_t place = c->pipe.role_of[r->stages[0]];
    int32_t n = plan_program_slots(&c->pipe, place);
    if (r->n_slots != n) {
        BAD(c, "role %d: %d slots, the schedule %s has %d", role, r->n_slots,
            s->schedule, n);
        return;
    }
    plan_slot *due = fs_new(c->scratch, plan_slot, n);
    plan_program_fill(&c->pipe, place, due);
    for (int32_t i = 0; i < n; i++) {
        if (r->slots[i].phase == due[i].phase &&
            r->slots[i].micro_batch == due[i].micro_batch &&
            r->slots[i].chunk == due[i].chunk)
            continue;
        BAD(c, "role %d, slot %d: %s where the schedule %s has %s", role, i,
            slot_text(c, r, &r->slots[i]), s->schedule,
            slot_text(c, r, &due[i]));
        return;
    }
}

/* ---- the streams ---- */

enum { N_KINDS = PLAN_STREAM_RECV + 1 };

typedef struct stream_check {
    plan_checking *c;
    int32_t role;
    const plan_role *r;
    int32_t *pass;                      /* [streams] of its first task */
    int32_t only[N_KINDS][PLAN_PASSES]; /* the stream of a kind without
                                           channels and a pass, or -1 */
    int32_t *sends, *recvs; /* [channels] the stream that serves it, or -1 */
} stream_check;

static const char *stream_text(const stream_check *x, int32_t stream)
{
    const plan_stream *s = &x->r->streams[stream];
    const char *kind = plan_stream_kind_name(s->kind);
    if (s->channel < 0)
        return fs_printf(x->c->scratch, "stream %d (%s)", stream, kind);
    return fs_printf(x->c->scratch, "stream %d (%s on channel %d)", stream,
                     kind, s->channel);
}

static int32_t pass_of(const stream_check *x, const plan_task *task)
{
    return plan_schedule_pass(x->c->pipe.schedule, task->phase);
}

/* Where the stream of this kind and channel is noted; NULL when it has no
 * business in this role. */
static int32_t *place_of(stream_check *x, int32_t stream)
{
    const plan *p = x->c->p;
    const plan_stream *s = &x->r->streams[stream];
    bool sends = s->kind == PLAN_STREAM_SEND;
    if (!sends && s->kind != PLAN_STREAM_RECV)
        return s->channel == -1 ? &x->only[s->kind][x->pass[stream]] : NULL;
    if (s->channel < 0 || s->channel >= p->n_channels)
        return NULL;
    const plan_channel *ends = &p->channels[s->channel];
    if (!plan_role_has_stage(x->r, sends ? ends->from_stage : ends->to_stage))
        return NULL;
    return sends ? &x->sends[s->channel] : &x->recvs[s->channel];
}

static bool note_streams(stream_check *x)
{
    int32_t before = x->c->report->n;
    for (int32_t i = 0; i < x->r->n_streams && !plan_check_full(x->c); i++) {
        const plan_stream *s = &x->r->streams[i];
        int32_t *place = (uint32_t)s->kind < N_KINDS ? place_of(x, i) : NULL;
        if (!place)
            BAD(x->c,
                "role %d, stream %d: its kind and channel %d do not fit %s",
                x->role, i, s->channel,
                plan_role_stages_text(x->r, x->c->scratch));
        else if (*place >= 0)
            BAD(x->c, "role %d: %s does the same as %s", x->role,
                stream_text(x, i), stream_text(x, *place));
        else
            *place = i;
    }
    return x->c->report->n == before;
}

/* Each end of a channel that lies in this role's stage has its stream. */
static void check_channels(const stream_check *x)
{
    const plan *p = x->c->p;
    for (int32_t i = 0; i < p->n_channels && !plan_check_full(x->c); i++) {
        const plan_channel *ends = &p->channels[i];
        bool sends = plan_role_has_stage(x->r, ends->from_stage);
        bool receives = plan_role_has_stage(x->r, ends->to_stage);
        if (sends ? x->sends[i] >= 0 : !receives || x->recvs[i] >= 0)
            continue;
        BAD(x->c, "role %d: no stream %s channel %d (stage %d to %d)", x->role,
            sends ? "sends on" : "receives from", i, ends->from_stage,
            ends->to_stage);
    }
}

/* The stream on which a task runs; collectives may have some of their own. */
static bool runs_on(const plan_task *task, const plan_stream *s)
{
    switch (task->kind) {
    case PLAN_COMPUTE:
        return s->kind == PLAN_STREAM_COMPUTE;
    case PLAN_BOX:
        return s->kind == PLAN_STREAM_COMPUTE ||
               (task->comm >= 0 &&
                s->kind == (plan_phase_once(task->phase) ? PLAN_STREAM_STEP
                                                         : PLAN_STREAM_COMM));
    case PLAN_LOAD:
        return s->kind == PLAN_STREAM_LOAD;
    case PLAN_SEND:
        return s->kind == PLAN_STREAM_SEND && s->channel == task->channel;
    default:
        return s->kind == PLAN_STREAM_RECV && s->channel == task->channel;
    }
}

static void check_tasks(const stream_check *x)
{
    bool *used = fs_new(x->c->scratch, bool, x->r->n_streams);
    used[0] = true; /* a role may have nothing to compute */
    for (int32_t t = 0; t < x->r->n_tasks && !plan_check_full(x->c); t++) {
        const plan_task *task = &x->r->tasks[t];
        used[task->stream] = true;
        if (!runs_on(task, &x->r->streams[task->stream]))
            BAD(x->c, "role %d, task %d: a %s task on %s", x->role, t,
                plan_task_kind_name(task->kind), stream_text(x, task->stream));
        else if (task->channel < 0 && pass_of(x, task) != x->pass[task->stream])
            BAD(x->c,
                "role %d, task %d: a task of the %s phase on %s of the other "
                "pass: the schedule %s leaves their order to credits",
                x->role, t, plan_phase_name(task->phase),
                stream_text(x, task->stream), x->c->pipe.schedule->name);
    }
    for (int32_t i = 0; i < x->r->n_streams && !plan_check_full(x->c); i++)
        if (!used[i])
            BAD(x->c, "role %d: nothing runs on %s", x->role,
                stream_text(x, i));
}

static int32_t *nowhere(plan_checking *c, int32_t n)
{
    int32_t *at = fs_new(c->scratch, int32_t, n);
    for (int32_t i = 0; i < n; i++)
        at[i] = -1;
    return at;
}

void plan_check_streams(plan_checking *c, int32_t role)
{
    const plan_role *r = &c->p->roles[role];
    stream_check x = {c,
                      role,
                      r,
                      fs_new(c->scratch, int32_t, r->n_streams),
                      {{0}},
                      nowhere(c, c->p->n_channels),
                      nowhere(c, c->p->n_channels)};
    if (r->n_streams < 1 || r->streams[0].kind != PLAN_STREAM_COMPUTE) {
        BAD(c, "role %d: stream 0 is not the compute stream", role);
        return;
    }
    memset(x.only, -1, sizeof x.only);
    for (int32_t t = r->n_tasks - 1; t >= 0; t--)
        x.pass[r->tasks[t].stream] = pass_of(&x, &r->tasks[t]);
    if (!note_streams(&x))
        return;
    check_channels(&x);
    check_tasks(&x);
}
