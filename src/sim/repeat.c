/* Steps are alike, and so are micro-batches in the middle of a step: when
 * everything stands as it stood some time before (what runs is as far from its
 * end, whoever waits does so in the same order, actors have moved on by a step,
 * or by whole micro-batches), the same will happen again in the same time, as
 * often as the programs repeat. These repetitions are left out: times, counts
 * and meters are what they would be if they had been played. */
#include "config.h"
#include "sim/watch.h"

#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

/* All of a simulation that what follows hangs on, and what it counts. */
typedef struct mark {
    bool set;
    int64_t now_ns, n_events;
    int64_t *left;             /* [steps] */
    sim_meter *meters;         /* [roles] */
    plan_actors_mark **actors; /* [roles] */
    sim_job *jobs;             /* [streams] */
    sim_head *heads;           /* [streams] */
    int32_t n_ends;
    sim_event *ends; /* [n_ends] of jobs that run, as they come */
    int32_t n_running, n_arrivals;
    int32_t *running;  /* [n_running] */
    int32_t *arrivals; /* [n_arrivals] of each line how many, then who */
} mark;

/* One is of the last time, which finds what repeats with every micro-batch; one
 * is renewed less and less often, which finds all periods (Brent 1980); one is
 * of the middle of the step before. A mark costs as much as some hundred
 * firings: of the last time there is one only where what ran looked like the
 * time before. */
struct sim_repeats {
    int32_t lead, slot; /* a stream, and the slot where it was */
    int64_t step;
    int64_t n_looks, renew; /* in this step, and at which the old is renewed */
    mark *last, *old, *now;
    uint64_t looked_last, looked_old; /* how these looked */
    mark *middle;                     /* with the lead in this slot: */
    int32_t middle_slot;
    int64_t middle_step;
    plan_shift *shift; /* [roles] */
};

static mark *make_mark(const simulation *s)
{
    const int32_t n_streams = s->first_stream[s->p->n_roles];
    const int32_t n_lines = s->p->n_comms + s->p->n_channels;
    int32_t n_arrivals = n_lines;
    mark *m = fs_new(s->arena, mark, 1);
    for (int32_t i = 0; i < n_lines; i++)
        n_arrivals += s->lines[i].n_members;
    m->left = fs_new(s->arena, int64_t, s->steps);
    m->meters = fs_new_lines(s->arena, sim_meter, s->p->n_roles);
    m->actors = fs_new(s->arena, plan_actors_mark *, s->p->n_roles);
    m->jobs = fs_new(s->arena, sim_job, n_streams);
    m->heads = fs_new(s->arena, sim_head, n_streams);
    m->ends = fs_new(s->arena, sim_event, n_streams);
    m->running = fs_new(s->arena, int32_t, n_streams);
    m->arrivals = fs_new(s->arena, int32_t, n_arrivals);
    for (int32_t r = 0; r < s->p->n_roles; r++)
        m->actors[r] = plan_actors_mark_create(s->actors[r], s->arena);
    return m;
}

/* A stream of a role that computes; -1: there is none. */
static int32_t find_lead(const simulation *s)
{
    for (int32_t i = 0; i < s->first_stream[s->p->n_roles]; i++) {
        const plan_role *role = &s->p->roles[s->role_of[i]];
        if (role->streams[s->jobs[i].stream].kind == PLAN_STREAM_COMPUTE)
            return i;
    }
    return -1;
}

sim_repeats *sim_repeats_create(const simulation *s)
{
    sim_repeats *r = fs_new(s->arena, sim_repeats, 1);
    r->lead = find_lead(s);
    r->step = -1;
    if (r->lead < 0 || s->options->in_full || s->options->jitter > 0)
        return NULL;
    r->last = make_mark(s);
    r->old = make_mark(s);
    r->now = make_mark(s);
    r->middle = make_mark(s);
    r->middle_step = -1;
    r->shift = fs_new(s->arena, plan_shift, s->p->n_roles);
    return r;
}

/* ---- where it stands ---- */

static int by_time(const void *a, const void *b)
{
    const sim_event *x = a, *y = b;
    if (x->time_ns != y->time_ns)
        return x->time_ns < y->time_ns ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

/* What runs, and how far it is from its end, in no order. */
static uint64_t look(simulation *s)
{
    sim_heap_close(&s->heap);
    uint64_t sum = (uint64_t)s->heap.n;
    for (int32_t i = 0; i < s->heap.n; i++) {
        const sim_event *e = &s->heap.at[i];
        sum += fs_mix((uint64_t)(e->time_ns - s->now_ns) ^
                      (uint64_t)sim_event_job(e) << 40);
    }
    return sum;
}

static void set_ends(simulation *s, mark *m)
{
    sim_heap_close(&s->heap);
    m->n_ends = s->heap.n;
    if (m->n_ends > 0)
        memcpy(m->ends, s->heap.at, (size_t)m->n_ends * sizeof *m->ends);
    qsort(m->ends, (size_t)m->n_ends, sizeof *m->ends, by_time);
}

static void set_arrivals(const simulation *s, mark *m)
{
    m->n_arrivals = 0;
    for (int32_t i = 0; i < s->p->n_comms + s->p->n_channels; i++) {
        const sim_line *line = &s->lines[i];
        m->arrivals[m->n_arrivals++] = line->n_arrived;
        for (int32_t k = 0; k < line->n_arrived; k++)
            m->arrivals[m->n_arrivals++] = line->arrived[k];
    }
}

static void set_mark(simulation *s, mark *m)
{
    const size_t n_streams = (size_t)s->first_stream[s->p->n_roles];
    m->set = true;
    m->now_ns = s->now_ns;
    m->n_events = s->n_events;
    memcpy(m->left, s->left, (size_t)s->steps * sizeof *s->left);
    for (int32_t r = 0; r < s->p->n_roles; r++) {
        sim_meter_advance(&s->meters[r], s->now_ns, s->begun);
        m->meters[r] = s->meters[r];
        plan_actors_mark_set(s->actors[r], m->actors[r]);
    }
    memcpy(m->jobs, s->jobs, n_streams * sizeof *s->jobs);
    for (size_t i = 0; i < n_streams; i++)
        m->heads[i] = s->lanes[i].head;
    set_ends(s, m);
    m->n_running = s->running.n;
    for (int32_t i = 0; i < s->running.n; i++)
        m->running[i] = s->running.at[i];
    set_arrivals(s, m);
}

/* Who reads what, of roles where that is much: it is noted so rarely that it
 * costs no more than the rest, and what repeats there is found later. */
static void fill_mark(const simulation *s, mark *m)
{
    for (int32_t r = 0; r < s->p->n_roles; r++)
        plan_actors_mark_fill(s->actors[r], m->actors[r]);
}

/* ---- is it as it was? ---- */

static bool same_list(const int32_t *a, int32_t n_a, const int32_t *b,
                      int32_t n_b)
{
    return n_a == n_b &&
           (n_a == 0 || memcmp(a, b, (size_t)n_a * sizeof *a) == 0);
}

static bool same_jobs(const mark *was, const mark *is)
{
    if (was->n_ends != is->n_ends)
        return false;
    for (int32_t i = 0; i < is->n_ends; i++) {
        const sim_event *a = &was->ends[i], *b = &is->ends[i];
        const int32_t j = sim_event_job(a);
        const sim_job *x = &was->jobs[j], *y = &is->jobs[j];
        if (j != sim_event_job(b) ||
            a->time_ns - was->now_ns != b->time_ns - is->now_ns ||
            x->left_ps != y->left_ps || x->rate != y->rate ||
            x->span != y->span ||
            was->now_ns - x->updated_ns != is->now_ns - y->updated_ns ||
            x->line != y->line || x->on_core != y->on_core ||
            x->on_link != y->on_link)
            return false;
    }
    return true;
}

static bool same_heads(const simulation *s, const mark *was, const mark *is)
{
    for (int32_t i = 0; i < s->first_stream[s->p->n_roles]; i++)
        if ((was->heads[i].ready_ns < 0) != (is->heads[i].ready_ns < 0) ||
            was->heads[i].waits != is->heads[i].waits)
            return false;
    return true;
}

/* Steps that ended meanwhile. */
static int32_t n_ended(const simulation *s, const mark *was, const mark *is)
{
    int32_t n = 0;
    for (int64_t k = 0; k < s->steps; k++)
        n += was->left[k] > 0 && is->left[k] == 0;
    return n;
}

static bool same_counts(const simulation *s, const mark *was, const mark *is)
{
    for (int32_t r = 0; r < s->p->n_roles; r++) {
        const sim_meter *x = &was->meters[r], *y = &is->meters[r];
        if (x->computing != y->computing ||
            x->communicating != y->communicating ||
            x->live_bytes != y->live_bytes)
            return false;
    }
    return true;
}

/* How often what happened since `was`, in which so many steps ended, will come
 * again. */
static int32_t times_again(sim_repeats *r, const simulation *s, const mark *was,
                           int32_t steps)
{
    const mark *is = r->now;
    int32_t times = INT32_MAX;
    if (!was->set || !same_jobs(was, is) || !same_heads(s, was, is) ||
        !same_list(was->running, was->n_running, is->running, is->n_running) ||
        !same_list(was->arrivals, was->n_arrivals, is->arrivals,
                   is->n_arrivals) ||
        !same_counts(s, was, is) || n_ended(s, was, is) != steps)
        return 0;
    for (int32_t i = 0; i < s->p->n_roles && times > 0; i++) {
        if (!plan_actors_repeat(s->actors[i], was->actors[i], &r->shift[i]) ||
            r->shift[i].steps != steps)
            return 0;
        const int32_t its =
            plan_actors_repeats_left(s->actors[i], was->actors[i], r->shift[i]);
        times = its < times ? its : times;
    }
    return times == INT32_MAX ? 0 : times;
}

/* ---- what is left out ---- */

static void skip_meter(sim_meter *m, const sim_meter *was, int64_t times,
                       int64_t passed_ns)
{
    m->busy_ns += times * (m->busy_ns - was->busy_ns);
    m->comm_ns += times * (m->comm_ns - was->comm_ns);
    m->exposed_ns += times * (m->exposed_ns - was->exposed_ns);
    m->since_ns += passed_ns;
    m->span_start_ns += passed_ns;
}

static void skip_streams(simulation *s, const mark *was, int64_t passed_ns)
{
    for (int32_t i = 0; i < s->first_stream[s->p->n_roles]; i++) {
        sim_head *head = &s->lanes[i].head;
        s->jobs[i].updated_ns += passed_ns;
        s->jobs[i].start_ns += passed_ns;
        if (head->ready_ns >= 0 && head->ready_ns != was->heads[i].ready_ns)
            head->ready_ns += passed_ns; /* else it waits all along */
    }
    for (int32_t i = 0; i < s->heap.n; i++)
        s->heap.at[i].time_ns += passed_ns;
}

/* Meters as they are read at the end of a step. */
static void copy_reading(simulation *s, int64_t from, int64_t times,
                         const mark *was)
{
    for (int32_t i = 0; i < s->p->n_roles; i++) {
        sim_meter *m = &s->at_end[from + times][i];
        const sim_meter *now = &s->meters[i], *then = &was->meters[i];
        *m = s->at_end[from][i];
        m->busy_ns += times * (now->busy_ns - then->busy_ns);
        m->comm_ns += times * (now->comm_ns - then->comm_ns);
        m->exposed_ns += times * (now->exposed_ns - then->exposed_ns);
    }
}

/* The step that ended since `was` ends so often again. */
static void skip_steps(simulation *s, const mark *was, int64_t times)
{
    int64_t ended = 0;
    while (was->left[ended] == 0)
        ended++;
    for (int64_t k = 1; k <= times; k++) {
        s->end_ns[ended + k] = s->end_ns[ended] + k * (s->now_ns - was->now_ns);
        copy_reading(s, ended, k, was);
    }
    for (int64_t k = s->steps - 1; k >= 0; k--)
        s->left[k] = k < times ? 0 : s->left[k - times];
}

static void skip_micro_batches(simulation *s, const mark *was, int64_t times)
{
    for (int64_t k = 0; k < s->steps; k++)
        s->left[k] -= times * (was->left[k] - s->left[k]);
}

static void skip(sim_repeats *r, simulation *s, const mark *was, int64_t times)
{
    if (r->shift[0].steps)
        skip_steps(s, was, times);
    else
        skip_micro_batches(s, was, times);
    const int64_t passed_ns = times * (s->now_ns - was->now_ns);
    for (int32_t i = 0; i < s->p->n_roles; i++) {
        plan_actors_skip(s->actors[i], was->actors[i], r->shift[i],
                         (int32_t)times);
        skip_meter(&s->meters[i], &was->meters[i], times, passed_ns);
    }
    skip_streams(s, was, passed_ns);
    s->n_skipped += times * (s->n_events - was->n_events);
    s->n_events += times * (s->n_events - was->n_events);
    s->now_ns += passed_ns;
}

/* ---- when that is looked for ---- */

static const plan_cursor *lead_of(const sim_repeats *r, const simulation *s)
{
    return &s->actors[s->role_of[r->lead]]->cursor[s->jobs[r->lead].stream];
}

static void forget(sim_repeats *r)
{
    r->last->set = r->old->set = false;
    r->n_looks = 0;
    r->renew = 1;
}

/* The lead has come to another micro-batch, in a slot like the one before or of
 * the backward pass: once per micro-batch in most schedules. */
static bool may_repeat(sim_repeats *r, const simulation *s)
{
    const plan_actors *a = s->actors[s->role_of[r->lead]];
    const plan_cursor *c = lead_of(r, s);
    if (c->task < 0 || (c->step == r->step && c->slot == r->slot))
        return false;
    if (c->step != r->step)
        forget(r);
    r->step = c->step;
    r->slot = c->slot;
    return c->slot > 0 && (a->role->slots[c->slot].phase == PLAN_BACKWARD ||
                           a->section[c->slot] == a->section[c->slot - 1]);
}

static void swap(mark **a, mark **b)
{
    mark *was = *a;
    *a = *b;
    *b = was;
}

/* Steps that are traced are played: none of them may be skipped. */
static bool is_seen(const simulation *s, int64_t steps)
{
    const int64_t first = sim_first_traced(s);
    return s->options->trace &&
           (first < steps || s->left[first - steps] < s->firings);
}

static bool skip_times(sim_repeats *r, simulation *s, const mark *was,
                       int32_t times)
{
    if (times <= 0)
        return false;
    skip(r, s, was, times);
    const plan_cursor *c = lead_of(r, s);
    r->step = c->step;
    r->slot = c->slot;
    forget(r);
    return true;
}

/* Once in the middle of each step. */
static bool try_step(sim_repeats *r, simulation *s)
{
    const plan_actors *a = s->actors[s->role_of[r->lead]];
    if (r->middle_step == r->step || 2 * r->slot < a->role->n_slots)
        return false;
    int32_t times = 0;
    set_mark(s, r->now);
    if (r->middle_slot == r->slot && r->middle_step == r->step - 1)
        times = times_again(r, s, r->middle, 1);
    while (times > 0 && is_seen(s, times))
        times--;
    if (skip_times(r, s, r->middle, times)) {
        r->middle_step = r->step;
        r->middle_slot = -1;
        return true;
    }
    r->middle_step = r->step;
    r->middle_slot = r->slot;
    swap(&r->middle, &r->now);
    fill_mark(s, r->middle);
    return false;
}

static bool try_micro_batches(sim_repeats *r, simulation *s)
{
    return skip_times(r, s, r->last, times_again(r, s, r->last, 0)) ||
           skip_times(r, s, r->old, times_again(r, s, r->old, 0));
}

/* All that is due at this instant has begun. */
void sim_repeats_skip(sim_repeats *r, simulation *s)
{
    if (!r || !may_repeat(r, s))
        return;
    if (try_step(r, s) || is_seen(s, 0))
        return;
    const uint64_t looks = look(s);
    const bool again = r->n_looks > 0 && looks == r->looked_last;
    if (again || (r->old->set && looks == r->looked_old)) {
        set_mark(s, r->now);
        if (try_micro_batches(r, s))
            return;
    }
    r->last->set = false;
    if (again)
        swap(&r->now, &r->last);
    r->looked_last = looks;
    if (++r->n_looks < r->renew)
        return;
    r->renew *= 2;
    set_mark(s, r->old);
    fill_mark(s, r->old);
    r->looked_old = looks;
}
