/* From instant to instant: what ends, what may start then, what has another
 * share of its resources. */
#include "config.h"
#include "sim/beside.h"
#include "sim/noise.h"
#include "sim/watch.h"

#include "base/clock.h"

#include <math.h>

enum { LOOK_AT_CLOCK = 1024, TELL = 1 << 20, TAKEN_EVENTS = 1 << 16 };

/* ---- one stream ---- */

static const sim_task *head_task(const simulation *s, int32_t stream)
{
    const sim_lane *lane = &s->lanes[stream];
    return &lane->tasks[lane->cursor->task];
}

static sim_thread thread_of(const sim_task *task)
{
    return task->loads ? SIM_THREAD_LOAD : SIM_THREAD_MAIN;
}

static double head_seconds(const simulation *s, int32_t stream)
{
    return s->seconds[s->role_of[stream]][s->lanes[stream].cursor->task];
}

static const plan_task *plan_task_at(const simulation *s, int32_t stream)
{
    const sim_job *job = &s->jobs[stream];
    const int32_t t = s->actors[job->role]->cursor[job->stream].task;
    return &s->p->roles[job->role].tasks[t];
}

static void watch_claims(const simulation *s, int32_t stream)
{
    const sim_job *job = &s->jobs[stream];
    const plan_task *task = plan_task_at(s, stream);
    const plan_actors *a = s->actors[job->role];
    const bool first = plan_actor_first_firing(a, job->stream);
    for (int32_t i = 0; i < task->n_out; i++) {
        const plan_actor_register *r = &a->registers[task->out[i]];
        if (!r->persistent && (first || !r->per_step))
            sim_watch_claim(s->watch, s, job->role, task->out[i]);
    }
    sim_watch_note(s->watch, s, job->role, a->cursor[job->stream].step);
}

/* What the stream's next start will look at: in large plans it has left the
 * cache since it was there last. */
static void prefetch(const sim_lane *lane)
{
    const int32_t t = lane->cursor->task, next = lane->acts[t].next;
    const int32_t at = next < 0 ? t : next;
    __builtin_prefetch(&lane->tasks[at]);
    __builtin_prefetch(&lane->acts[at]);
}

/* A stream whose job ends soon. */
static void prefetch_end(const simulation *s, int32_t stream)
{
    const sim_lane *lane = &s->lanes[stream];
    const sim_job *job = &s->jobs[stream];
    __builtin_prefetch(lane->meter);
    prefetch(lane);
    if (job->line < 0)
        return;
    const sim_line *line = &s->lines[job->line];
    for (int32_t i = 1; i < line->n_members; i++) {
        const sim_lane *other = &s->lanes[line->arrived[i]];
        __builtin_prefetch(other->meter);
        prefetch(other);
    }
}

static void fire(simulation *s, int32_t stream, const sim_task *task)
{
    const sim_job *job = &s->jobs[stream];
    sim_meter *m = s->lanes[stream].meter;
    sim_meter_advance(m, s->now_ns, s->begun);
    if (job->span) {
        plan_actor_chain_fire(s->lanes[stream].actors, job->stream,
                              job->span->chain);
        sim_meter_start(m, job->span, s->now_ns);
        return;
    }
    const int64_t bytes = plan_actor_fire(s->lanes[stream].actors, job->stream);
    if (s->watch)
        watch_claims(s, stream);
    prefetch(&s->lanes[stream]);
    sim_meter_claim(m, bytes);
    sim_meter_count(m, task, 1);
    if (task->on_core) {
        sim_cores_change(&s->resources, job->role, thread_of(task), 1);
        s->cores_change = true;
    }
}

static void record(simulation *s, int32_t stream, int64_t start_ns)
{
    int32_t r = s->role_of[stream], local = s->jobs[stream].stream;
    const plan_cursor *c = &s->actors[r]->cursor[local];
    plan_trace *trace = s->options->trace;
    if (c->step < sim_first_traced(s))
        return;
    plan_event event = {.rank = s->p->roles[r].first_rank,
                        .stream = local,
                        .task = c->task,
                        .micro_batch =
                            plan_actor_micro_batch(s->actors[r], local),
                        .step = c->step,
                        .ready_ns = s->lanes[stream].head.ready_ns,
                        .start_ns = start_ns,
                        .end_ns = s->now_ns};
    fs_push(trace->arena, &trace->events, event);
    if (trace->take && trace->events.n >= TAKEN_EVENTS)
        sim_trace_hand_over(s);
}

static void read_meters(simulation *s, sim_meter *to)
{
    for (int32_t r = 0; r < s->p->n_roles; r++) {
        sim_meter_advance(&s->meters[r], s->now_ns, s->begun);
        to[r] = s->meters[r];
    }
}

static void count_done(simulation *s, int64_t step, int32_t n)
{
    s->n_events += n;
    s->left[step] -= n;
    if (s->left[step] > 0)
        return;
    s->end_ns[step] = s->now_ns;
    read_meters(s, s->at_end[step]);
}

/* One task; returns the bytes let go of. */
static int64_t complete_task(simulation *s, int32_t stream,
                             const sim_task *task)
{
    const sim_job *job = &s->jobs[stream];
    sim_meter_count(s->lanes[stream].meter, task, -1);
    if (task->on_core) {
        sim_cores_change(&s->resources, job->role, thread_of(task), -1);
        s->cores_change = true;
    }
    if (!s->watch)
        return plan_actor_done(s->lanes[stream].actors, job->stream);
    const plan_task *its = plan_task_at(s, stream);
    const int64_t step = s->actors[job->role]->cursor[job->stream].step;
    sim_watch_release(s->watch, s, job->role, its, 1);
    const int64_t bytes = plan_actor_done(s->actors[job->role], job->stream);
    sim_watch_release(s->watch, s, job->role, its, -1);
    sim_watch_note(s->watch, s, job->role, step);
    return bytes;
}

/* Streams of a role, one at least, may go on. */
static void touch(simulation *s, int32_t role, uint64_t streams)
{
    if (s->woken[role] == 0)
        s->touched[s->n_touched++] = role;
    s->woken[role] |= streams;
}

static void complete(simulation *s, int32_t stream, int64_t start_ns)
{
    const sim_lane *lane = &s->lanes[stream];
    sim_job *job = &s->jobs[stream];
    const sim_task *task = head_task(s, stream);
    const int64_t step = lane->cursor->step;
    const sim_span *span = job->span;
    sim_meter_advance(lane->meter, s->now_ns, s->begun);
    if (s->options->trace)
        record(s, stream, start_ns);
    job->span = NULL;
    touch(s, job->role, span ? span->wakes : task->wakes);
    lane->meter->live_bytes -=
        span ? plan_actor_chain_done(lane->actors, job->stream, span->chain)
             : complete_task(s, stream, task);
    s->lanes[stream].head.ready_ns = -1;
    s->n_paired += span && span->chain->beside >= 0 ? span->chain->n : 0;
    count_done(s, step, span ? span->chain->n : 1);
}

/* ---- jobs ---- */

static void schedule_end(simulation *s, int32_t j)
{
    const sim_job *job = &s->jobs[j];
    const int64_t after_ns = plan_pace_ns(job->left_ps, job->rate);
    sim_heap_set(&s->heap,
                 sim_event_make(s->now_ns + after_ns, s->sequence++, j));
}

static void start_job(simulation *s, int32_t j, int32_t line, int64_t demand_ps)
{
    sim_job *job = &s->jobs[j];
    job->line = line;
    job->left_ps = demand_ps;
    job->start_ns = job->updated_ns = s->now_ns;
    const bool on_core = job->on_core, on_link = line >= 0 && s->shared[line];
    job->on_link = on_link;
    job->rate = 0;
    if (on_link) {
        sim_flows_start(s->flows, line);
        s->flows_change = true;
    }
    if (on_core) {
        job->running = s->running.n;
        fs_push(s->arena, &s->running, j);
    }
    if (job->beside)
        sim_beside_computes(s, job->role, j);
    if (on_core | on_link)
        return; /* its share is set when all jobs of this instant have begun */
    job->rate = job->beside ? sim_beside_rate(s, job->role) : PLAN_RATE_FULL;
    schedule_end(s, j);
}

static int64_t cores_rate(const simulation *s, int32_t j)
{
    const sim_job *job = &s->jobs[j];
    const sim_line *line = job->line < 0 ? NULL : &s->lines[job->line];
    double rate = 1;
    for (int32_t i = 0; line && i < line->n_members; i++) {
        double its = sim_cores_rate(&s->resources, s->role_of[line->arrived[i]],
                                    SIM_THREAD_MAIN);
        rate = its < rate ? its : rate;
    }
    if (!line)
        rate = sim_cores_rate(&s->resources, job->role,
                              thread_of(head_task(s, j)));
    return (int64_t)(rate * (double)PLAN_RATE_FULL + 0.5);
}

static int64_t link_rate(const simulation *s, int32_t line)
{
    const int64_t rate = sim_flows_rate(s->flows, line);
    const int64_t alone = sim_flows_alone(s->flows, line);
    if (rate == alone)
        return PLAN_RATE_FULL;
    return (int64_t)((((plan_pace_wide)rate << PLAN_RATE_BITS) + alone / 2) /
                     alone);
}

static void set_rate(simulation *s, int32_t j)
{
    sim_job *job = &s->jobs[j];
    int64_t rate = PLAN_RATE_FULL;
    if (job->on_core)
        rate = cores_rate(s, j);
    if (job->on_link) {
        int64_t its = link_rate(s, job->line);
        rate = its < rate ? its : rate;
    }
    if (job->beside) {
        const int64_t its = sim_beside_rate(s, job->role);
        rate = its < rate ? its : rate;
    }
    rate = rate < 1 ? 1 : rate;
    if (rate == job->rate)
        return;
    job->left_ps =
        plan_pace_left(job->left_ps, job->rate, s->now_ns - job->updated_ns);
    job->updated_ns = s->now_ns;
    job->rate = rate;
    schedule_end(s, j);
}

/* After starts and ends: whoever has another share now gets another end. */
static void set_rates(simulation *s)
{
    int32_t n = 0;
    const int32_t *lines =
        s->flows_change ? sim_flows_solve(s->flows, &n) : NULL;
    for (int32_t i = 0; i < n; i++)
        set_rate(s, s->lines[lines[i]].arrived[0]);
    for (int32_t i = 0; s->cores_change && i < s->running.n; i++)
        set_rate(s, s->running.at[i]);
    for (int32_t j = -1; s->beside && (j = sim_beside_next(s)) >= 0;)
        set_rate(s, j);
    s->flows_change = s->cores_change = false;
}

static void end_job(simulation *s, int32_t j)
{
    sim_job *job = &s->jobs[j];
    if (job->on_core) {
        int32_t last = s->running.at[--s->running.n];
        s->running.at[job->running] = last;
        s->jobs[last].running = job->running;
    }
    if (job->line < 0) {
        if (job->beside)
            sim_beside_computes(s, job->role, -1);
        complete(s, j, job->start_ns);
        return;
    }
    sim_beside_meets(s, job->line, -1);
    if (job->on_link) {
        sim_flows_end(s->flows, job->line);
        s->flows_change = true;
    }
    sim_line *line = &s->lines[job->line];
    line->n_arrived = 0;
    for (int32_t i = 0; i < line->n_members; i++)
        complete(s, line->arrived[i], job->start_ns);
}

/* ---- heads ---- */

/* The longest of those who meet. */
static int64_t meeting_ps(simulation *s, int32_t line)
{
    const sim_line *l = &s->lines[line];
    int64_t most_ps = 0;
    double seconds = 0;
    for (int32_t i = 0; i < l->n_members && !s->noise; i++) {
        const int64_t its = head_task(s, l->arrived[i])->demand_ps;
        most_ps = its > most_ps ? its : most_ps;
    }
    if (!s->noise)
        return most_ps;
    for (int32_t i = 0; i < l->n_members; i++)
        seconds = fmax(seconds, head_seconds(s, l->arrived[i]));
    return sim_ps_of(sim_noise_meeting(s->noise, s, line, seconds));
}

static void start_meeting(simulation *s, int32_t line)
{
    const sim_line *l = &s->lines[line];
    int32_t lead = l->arrived[0];
    s->jobs[lead].on_core = false;
    const int64_t demand_ps = meeting_ps(s, line);
    for (int32_t i = 0; i < l->n_members; i++) {
        const sim_task *task = head_task(s, l->arrived[i]);
        s->jobs[lead].on_core |= task->on_core;
        fire(s, l->arrived[i], task);
    }
    s->jobs[lead].beside = false;
    sim_beside_meets(s, line, 1);
    start_job(s, lead, line, demand_ps);
}

/* The chain that begins with a head, found when it is first asked for. */
static const sim_span *find_span(simulation *s, int32_t stream, int32_t kind)
{
    const int32_t r = s->jobs[stream].role, local = s->jobs[stream].stream;
    const int32_t task = s->actors[r]->cursor[local].task;
    const int32_t variant = plan_actor_variant(s->actors[r], local);
    int32_t *at =
        &s->spans[r][variant * s->p->roles[r].n_tasks + task].of[kind];
    if (*at == 0) {
        const plan_chain *chain =
            plan_chain_of(s->chains[r], task, variant, kind == SIM_PAIR);
        *at = -1;
        if (chain) {
            fs_push(s->arena, &s->all_spans,
                    sim_span_make(chain, s->tasks[r], s->arena));
            *at = s->all_spans.n;
        }
    }
    return *at < 0 ? NULL : s->all_spans.at[*at - 1];
}

/* The chain that begins with a head that is ready, if all of it may run. What
 * a trace shows is played task by task. */
static const sim_span *span_at(simulation *s, int32_t stream)
{
    const sim_job *job = &s->jobs[stream];
    const plan_actors *a = s->actors[job->role];
    if (s->options->trace && a->cursor[job->stream].step >= sim_first_traced(s))
        return NULL;
    for (int32_t k = 0; k < SIM_SPANS; k++) {
        if (k == SIM_PAIR &&
            !plan_actor_may_pair(a, job->stream, s->chains[job->role]))
            continue;
        const sim_span *span = find_span(s, stream, k);
        if (span && plan_actor_chain_ready(a, job->stream, span->chain))
            return span;
    }
    return NULL;
}

static void start_span(simulation *s, int32_t stream, const sim_span *span)
{
    sim_job *job = &s->jobs[stream];
    s->lanes[stream].head.ready_ns = s->now_ns;
    job->span = span;
    job->on_core = job->beside = false;
    fire(s, stream, NULL);
    start_job(s, stream, -1, span->end_ns * PLAN_PS_PER_NS);
}

/* The head has become ready: it starts, or waits for those it meets. */
static void arrive(simulation *s, int32_t stream)
{
    const sim_task *task = head_task(s, stream);
    const int32_t line =
        task->line < 0 ? -1 : s->lanes[stream].lines[task->line];
    sim_line *l = line < 0 ? NULL : &s->lines[line];
    const sim_span *span =
        s->spans[s->jobs[stream].role] ? span_at(s, stream) : NULL;
    if (span) {
        start_span(s, stream, span);
        return;
    }
    if (l && l->n_arrived == l->n_members)
        return; /* still in use by another stream; comes again when it ends */
    if (!s->lanes[stream].head.waits)
        s->lanes[stream].head.ready_ns = s->now_ns;
    if (l) {
        l->arrived[l->n_arrived++] = stream;
        if (l->n_arrived == l->n_members)
            start_meeting(s, line);
        return;
    }
    const plan_actors *a = s->lanes[stream].actors;
    s->lanes[stream].head.waits =
        a->n_compute > 1 && !plan_actor_turn(a, s->jobs[stream].stream);
    if (s->lanes[stream].head.waits)
        return;
    s->jobs[stream].on_core = task->on_core;
    s->jobs[stream].beside = task->slowed;
    const int64_t demand_ps =
        s->noise ? sim_ps_of(sim_noise_alone(s->noise, s, stream,
                                             head_seconds(s, stream)))
                 : task->demand_ps;
    fire(s, stream, task);
    start_job(s, stream, -1, demand_ps);
}

static void try_stream(simulation *s, int32_t r, int32_t i)
{
    if (s->lanes[i].head.waits ||
        (s->lanes[i].head.ready_ns < 0 &&
         plan_actor_ready(s->actors[r], s->jobs[i].stream)))
        arrive(s, i);
}

static void start_role(simulation *s, int32_t r)
{
    const int32_t first = s->first_stream[r], end = s->first_stream[r + 1];
    uint64_t bits = s->woken[r];
    s->woken[r] = 0;
    const bool others = bits >> 63; /* of the last bit */
    if (end - first < 64)
        bits &= plan_stream_bit(end - first) - 1;
    for (; bits; bits &= bits - 1)
        try_stream(s, r, first + __builtin_ctzll(bits));
    for (int32_t i = first + 64; others && i < end; i++)
        try_stream(s, r, i);
}

/* In their order, whoever has come first. They are one or two, as a rule. */
static void start_ready(simulation *s)
{
    int32_t *roles = s->touched;
    const int32_t n = s->n_touched;
    s->begun = true;
    s->n_touched = 0;
    for (int32_t i = 1; i < n; i++) {
        const int32_t role = roles[i];
        int32_t k = i;
        for (; k > 0 && roles[k - 1] > role; k--)
            roles[k] = roles[k - 1];
        roles[k] = role;
    }
    for (int32_t i = 0; i < n; i++)
        start_role(s, roles[i]);
}

/* Ends everything due at the next instant; false when nothing runs. */
static bool end_next(simulation *s)
{
    const sim_event *next = sim_heap_first(&s->heap);
    if (!next)
        return false;
    const int64_t next_ns = next->time_ns;
    if (next_ns > s->now_ns)
        s->begun = false;
    s->now_ns = next_ns;
    while (next && next->time_ns == next_ns) {
        const int32_t j = sim_heap_pop(&s->heap);
        next = sim_heap_first(&s->heap);
        if (next)
            prefetch_end(s, sim_event_job(next));
        end_job(s, j);
    }
    return true;
}

/* ---- the run ---- */

static bool finished(const simulation *s)
{
    for (int32_t r = 0; r < s->p->n_roles; r++)
        if (!plan_actors_finished(s->actors[r]))
            return false;
    return true;
}

static fs_status stalled(const simulation *s, fs_err *err)
{
    fs_text text = {.arena = s->arena};
    for (int32_t i = 0; i < s->first_stream[s->p->n_roles]; i++) {
        int32_t r = s->role_of[i], local = s->jobs[i].stream;
        if (plan_actor_head(s->actors[r], local) < 0)
            continue;
        fs_text_add(&text, text.n ? "; " : "");
        plan_actor_explain(s->actors[r], s->graph, local, &text);
        if (s->lanes[i].head.ready_ns >= 0)
            fs_text_add(&text, ", but its peer does not come");
    }
    return fs_fail(err, FS_NO, "the plan stalls after %.9f s: %s",
                   (double)s->now_ns * 1e-9, text.at);
}

static bool is_late(const simulation *s)
{
    return s->options->end && fs_end_reached(s->options->end);
}

fs_status sim_play(simulation *s, fs_err *err)
{
    start_ready(s);
    set_rates(s);
    for (int64_t k = 0; end_next(s); k++) {
        start_ready(s);
        set_rates(s);
        if (s->repeats)
            sim_repeats_skip(s->repeats, s);
        if (k % TELL == 0 && s->options->progress)
            s->options->progress(s->options->progress_ctx,
                                 (double)s->n_events /
                                     ((double)s->firings * (double)s->steps));
        if (k % LOOK_AT_CLOCK == 0 && is_late(s))
            return fs_fail(err, FS_NO, "the simulation was ended after %.9f s",
                           (double)s->now_ns * 1e-9);
    }
    return finished(s) ? FS_OK : stalled(s, err);
}
