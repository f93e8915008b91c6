#include "config.h"
#include "sim/watch.h"

#include "base/clock.h"
#include "sim/noise.h"

#include <inttypes.h>
#include <math.h>

enum { MOST_DEMAND_S = 1000000, PS_PER_NS = 1000, LOOK_AT_CLOCK = 1024 };

/* A demand in picoseconds times a fixed-point share. */
__extension__ typedef __int128 wide;

/* ---- making ---- */

static int32_t line_of(const simulation *s, const plan_task *task)
{
    if (task->channel >= 0)
        return s->p->n_comms + task->channel;
    return task->comm;
}

static void make_lines(simulation *s)
{
    int32_t n = s->p->n_comms + s->p->n_channels;
    int32_t *seen = fs_new(s->arena, int32_t, n); /* 1 + last role */
    s->lines = fs_new(s->arena, sim_line, n);
    for (int32_t r = 0; r < s->p->n_roles; r++) {
        const plan_role *role = &s->p->roles[r];
        for (int32_t t = 0; t < role->n_tasks; t++) {
            int32_t line = line_of(s, &role->tasks[t]);
            if (line < 0 || seen[line] == r + 1)
                continue;
            seen[line] = r + 1;
            s->lines[line].n_members++;
        }
    }
    for (int32_t i = 0; i < n; i++)
        s->lines[i].arrived = fs_new(s->arena, int32_t, s->lines[i].n_members);
}

static int64_t firings_of(const plan_role *role, int32_t micro_batches)
{
    int64_t n = 0;
    for (int32_t t = 0; t < role->n_tasks; t++)
        n += plan_phase_once(role->tasks[t].phase) ? 1 : micro_batches;
    return n;
}

static void make_roles(simulation *s)
{
    const plan *p = s->p;
    s->actors = fs_new(s->arena, plan_actors *, p->n_roles);
    s->first_stream = fs_new(s->arena, int32_t, p->n_roles + 1);
    s->touched = fs_new(s->arena, bool, p->n_roles);
    s->meters = fs_new(s->arena, sim_meter, p->n_roles);
    for (int32_t r = 0; r < p->n_roles; r++) {
        const plan_role *role = &p->roles[r];
        s->actors[r] = plan_actors_create(p, role, s->steps, s->arena);
        s->first_stream[r + 1] = s->first_stream[r] + role->n_streams;
        s->touched[r] = true;
        s->meters[r].live_bytes = sim_standing_bytes(role);
        s->meters[r].peak_bytes = s->meters[r].live_bytes;
        s->firings += firings_of(role, p->micro_batches);
    }
    s->left = fs_new(s->arena, int64_t, s->steps);
    s->end_ns = fs_new(s->arena, int64_t, s->steps);
    s->at_end = fs_new(s->arena, sim_meter *, s->steps);
    for (int64_t k = 0; k < s->steps; k++) {
        s->left[k] = s->firings;
        s->at_end[k] = fs_new(s->arena, sim_meter, p->n_roles);
    }
}

static void make_streams(simulation *s)
{
    int32_t n = s->first_stream[s->p->n_roles];
    s->role_of = fs_new(s->arena, int32_t, n);
    s->jobs = fs_new(s->arena, sim_job, n);
    s->heads = fs_new(s->arena, sim_head, n);
    for (int32_t r = 0; r < s->p->n_roles; r++)
        for (int32_t i = s->first_stream[r]; i < s->first_stream[r + 1]; i++) {
            s->role_of[i] = r;
            s->heads[i].ready_ns = -1;
            s->jobs[i].role = r;
            s->jobs[i].stream = i - s->first_stream[r];
        }
}

/* ---- one stream ---- */

static const plan_task *head_task(const simulation *s, int32_t stream)
{
    int32_t r = s->role_of[stream];
    int32_t t = plan_actor_head(s->actors[r], s->jobs[stream].stream);
    return t < 0 ? NULL : &s->p->roles[r].tasks[t];
}

static sim_thread thread_of(const plan_task *task)
{
    return task->kind == PLAN_LOAD ? SIM_THREAD_LOAD : SIM_THREAD_MAIN;
}

static double demand_s(const simulation *s, int32_t stream)
{
    int32_t r = s->role_of[stream];
    const plan_role *role = &s->p->roles[r];
    const plan_task *task = head_task(s, stream);
    double seconds = s->timing->demand[r][task - role->tasks].total_s;
    const int32_t behind = s->options->straggler_rank - role->first_rank;
    if (s->options->straggler > 1 && behind >= 0 && behind < role->n_ranks &&
        task->kind == PLAN_COMPUTE)
        seconds *= s->options->straggler;
    return seconds;
}

static bool demand_on_core(const simulation *s, int32_t stream)
{
    int32_t r = s->role_of[stream];
    const plan_role *role = &s->p->roles[r];
    return s->timing->demand[r][head_task(s, stream) - role->tasks].on_core;
}

/* Bytes: an output is live from the first firing that writes it; what a
 * completion released is told by the counts before and after. */
static void claim_bytes(simulation *s, int32_t stream)
{
    int32_t r = s->role_of[stream];
    const plan_task *task = head_task(s, stream);
    sim_meter *m = &s->meters[r];
    for (int32_t i = 0; i < task->n_out; i++) {
        const plan_register *g = &s->p->roles[r].registers[task->out[i]];
        if (g->persistent ||
            (g->per_step &&
             !plan_actor_first_firing(s->actors[r], s->jobs[stream].stream)))
            continue;
        m->live_bytes += g->bytes;
        sim_watch_claim(s->watch, s, r, task->out[i]);
    }
    if (m->live_bytes > m->peak_bytes)
        m->peak_bytes = m->live_bytes;
}

static int64_t released_bytes(const simulation *s, int32_t r,
                              const plan_task *task)
{
    const plan_register *registers = s->p->roles[r].registers;
    const int64_t *released = s->actors[r]->released;
    int64_t bytes = 0;
    for (int32_t i = 0; i < task->n_in; i++) {
        bool again = registers[task->in[i]].persistent;
        for (int32_t k = 0; k < i; k++)
            again = again || task->in[k] == task->in[i];
        if (!again)
            bytes += released[task->in[i]] * registers[task->in[i]].bytes;
    }
    for (int32_t i = 0; i < task->n_out; i++)
        if (!registers[task->out[i]].persistent)
            bytes += released[task->out[i]] * registers[task->out[i]].bytes;
    return bytes;
}

static void fire(simulation *s, int32_t stream)
{
    int32_t r = s->role_of[stream];
    const plan_task *task = head_task(s, stream);
    claim_bytes(s, stream);
    sim_meter_advance(&s->meters[r], s->now_ns);
    sim_meter_count(&s->meters[r], &s->p->roles[r], task, 1);
    if (demand_on_core(s, stream))
        sim_cores_change(&s->resources, r, thread_of(task), 1);
    plan_actor_fire(s->actors[r], s->jobs[stream].stream);
    sim_watch_note(s->watch, s, r,
                   s->actors[r]->cursor[s->jobs[stream].stream].step);
}

static void record(simulation *s, int32_t stream, int64_t start_ns)
{
    int32_t r = s->role_of[stream], local = s->jobs[stream].stream;
    const plan_cursor *c = &s->actors[r]->cursor[local];
    plan_trace *trace = s->options->trace;
    plan_event event = {.rank = s->p->roles[r].first_rank,
                        .stream = local,
                        .task = c->task,
                        .micro_batch =
                            plan_actor_micro_batch(s->actors[r], local),
                        .step = c->step,
                        .ready_ns = s->heads[stream].ready_ns,
                        .start_ns = start_ns,
                        .end_ns = s->now_ns};
    if (trace && c->step >= sim_first_traced(s))
        fs_push(trace->arena, &trace->events, event);
}

static void read_meters(simulation *s, sim_meter *to)
{
    for (int32_t r = 0; r < s->p->n_roles; r++) {
        sim_meter_advance(&s->meters[r], s->now_ns);
        to[r] = s->meters[r];
    }
}

static void complete(simulation *s, int32_t stream, int64_t start_ns)
{
    int32_t r = s->role_of[stream], local = s->jobs[stream].stream;
    const plan_task *task = head_task(s, stream);
    int64_t step = s->actors[r]->cursor[local].step;
    sim_meter_advance(&s->meters[r], s->now_ns);
    sim_meter_count(&s->meters[r], &s->p->roles[r], task, -1);
    if (demand_on_core(s, stream))
        sim_cores_change(&s->resources, r, thread_of(task), -1);
    record(s, stream, start_ns);
    int64_t bytes = released_bytes(s, r, task);
    sim_watch_release(s->watch, s, r, task, 1);
    plan_actor_done(s->actors[r], local);
    s->meters[r].live_bytes -= released_bytes(s, r, task) - bytes;
    sim_watch_release(s->watch, s, r, task, -1);
    sim_watch_note(s->watch, s, r, step);
    s->heads[stream].ready_ns = -1;
    s->touched[r] = true;
    s->n_events++;
    if (--s->left[step] > 0)
        return;
    s->end_ns[step] = s->now_ns;
    read_meters(s, s->at_end[step]);
}

/* ---- jobs ---- */

static void schedule_end(simulation *s, int32_t j)
{
    sim_job *job = &s->jobs[j];
    wide scaled = (wide)job->left_ps << SIM_RATE_BITS;
    wide per_ns = (wide)job->rate * PS_PER_NS;
    int64_t after_ns = (int64_t)((scaled + per_ns - 1) / per_ns);
    sim_heap_push(&s->heap, (sim_event){s->now_ns + after_ns, s->sequence++, j,
                                        ++job->version});
}

static void start_job(simulation *s, int32_t j, int32_t line, double seconds)
{
    sim_job *job = &s->jobs[j];
    job->line = line;
    job->left_ps = (int64_t)(seconds * 1e12 + 0.5);
    job->start_ns = job->updated_ns = s->now_ns;
    job->on_link = line >= s->p->n_comms;
    job->rate = 0;
    if (job->on_link)
        sim_channel_change(&s->resources, line - s->p->n_comms, 1);
    if (job->on_core || job->on_link) {
        job->place = s->running.n;
        fs_push(s->arena, &s->running, j);
        return; /* its share is set when all jobs of this instant have begun */
    }
    job->rate = SIM_RATE_FULL;
    schedule_end(s, j);
}

static double line_rate(const simulation *s, const sim_job *job)
{
    const sim_line *line = &s->lines[job->line];
    double rate = 1;
    for (int32_t i = 0; i < line->n_members && job->on_core; i++) {
        double its = sim_cores_rate(&s->resources, s->role_of[line->arrived[i]],
                                    SIM_THREAD_MAIN);
        rate = its < rate ? its : rate;
    }
    if (job->on_link) {
        double its = sim_channel_rate(&s->resources, job->line - s->p->n_comms);
        rate = its < rate ? its : rate;
    }
    return rate;
}

static double job_rate(const simulation *s, int32_t j)
{
    const sim_job *job = &s->jobs[j];
    if (job->line >= 0)
        return line_rate(s, job);
    return sim_cores_rate(&s->resources, job->role, thread_of(head_task(s, j)));
}

/* After starts and ends: whoever has another share now gets another end. */
static void set_rates(simulation *s)
{
    for (int32_t i = 0; i < s->running.n; i++) {
        int32_t j = s->running.at[i];
        sim_job *job = &s->jobs[j];
        int64_t rate = (int64_t)(job_rate(s, j) * (double)SIM_RATE_FULL + 0.5);
        rate = rate < 1 ? 1 : rate;
        if (rate == job->rate)
            continue;
        wide done =
            (wide)(s->now_ns - job->updated_ns) * PS_PER_NS * job->rate >>
            SIM_RATE_BITS;
        job->left_ps = done < job->left_ps ? job->left_ps - (int64_t)done : 0;
        job->updated_ns = s->now_ns;
        job->rate = rate;
        schedule_end(s, j);
    }
}

static void end_job(simulation *s, int32_t j)
{
    sim_job *job = &s->jobs[j];
    job->version++;
    if (job->on_core || job->on_link) {
        int32_t last = s->running.at[--s->running.n];
        s->running.at[job->place] = last;
        s->jobs[last].place = job->place;
    }
    if (job->line < 0) {
        complete(s, j, job->start_ns);
        return;
    }
    if (job->on_link)
        sim_channel_change(&s->resources, job->line - s->p->n_comms, -1);
    sim_line *line = &s->lines[job->line];
    line->n_arrived = 0;
    for (int32_t i = 0; i < line->n_members; i++)
        complete(s, line->arrived[i], job->start_ns);
}

/* ---- heads ---- */

static void start_meeting(simulation *s, int32_t line)
{
    const sim_line *l = &s->lines[line];
    int32_t lead = l->arrived[0];
    double seconds = 0;
    s->jobs[lead].on_core = false;
    for (int32_t i = 0; i < l->n_members; i++)
        seconds = fmax(seconds, demand_s(s, l->arrived[i]));
    seconds = sim_noise_meeting(s->noise, s, line, seconds);
    for (int32_t i = 0; i < l->n_members; i++) {
        s->jobs[lead].on_core |= demand_on_core(s, l->arrived[i]);
        fire(s, l->arrived[i]);
    }
    start_job(s, lead, line, seconds);
}

/* The head has become ready: it starts, or waits for those it meets. */
static void arrive(simulation *s, int32_t stream)
{
    int32_t line = line_of(s, head_task(s, stream));
    sim_line *l = line < 0 ? NULL : &s->lines[line];
    if (l && l->n_arrived == l->n_members)
        return; /* still in use by another stream; comes again when it ends */
    if (!s->heads[stream].waits)
        s->heads[stream].ready_ns = s->now_ns;
    if (l) {
        l->arrived[l->n_arrived++] = stream;
        if (l->n_arrived == l->n_members)
            start_meeting(s, line);
        return;
    }
    s->heads[stream].waits =
        !plan_actor_turn(s->actors[s->role_of[stream]], s->jobs[stream].stream);
    if (s->heads[stream].waits)
        return;
    s->jobs[stream].on_core = demand_on_core(s, stream);
    double seconds = sim_noise_alone(s->noise, s, stream, demand_s(s, stream));
    fire(s, stream);
    start_job(s, stream, -1, seconds);
}

static void start_ready(simulation *s)
{
    for (int32_t r = 0; r < s->p->n_roles; r++) {
        if (!s->touched[r])
            continue;
        s->touched[r] = false;
        for (int32_t i = s->first_stream[r]; i < s->first_stream[r + 1]; i++)
            if (s->heads[i].waits ||
                (s->heads[i].ready_ns < 0 &&
                 plan_actor_ready(s->actors[r], s->jobs[i].stream)))
                arrive(s, i);
    }
}

/* Ends everything due at the next instant; false when nothing runs. */
static bool end_next(simulation *s)
{
    bool ended = false;
    while (s->heap.events.n > 0) {
        const sim_event *next = &s->heap.events.at[0];
        bool stale = s->jobs[next->job].version != next->version;
        if (!stale && ended && next->time_ns != s->now_ns)
            break;
        sim_event event = sim_heap_pop(&s->heap);
        if (stale)
            continue;
        s->now_ns = event.time_ns;
        ended = true;
        end_job(s, event.job);
    }
    return ended;
}

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
        if (s->heads[i].ready_ns >= 0)
            fs_text_add(&text, ", but its peer does not come");
    }
    return fs_fail(err, FS_NO, "the plan stalls after %.9f s: %s",
                   (double)s->now_ns * 1e-9, text.at);
}

/* ---- the run ---- */

static fs_status check_timing(const plan *p, const plan_timing *timing,
                              const ir_graph *graph, fs_arena *arena,
                              fs_err *err)
{
    if (timing->n_roles != p->n_roles)
        return fs_fail(err, FS_INVALID,
                       "the timing is for %d roles, the plan has %d",
                       timing->n_roles, p->n_roles);
    for (int32_t r = 0; r < p->n_roles; r++)
        for (int32_t t = 0; t < p->roles[r].n_tasks; t++) {
            double seconds = timing->demand[r][t].total_s;
            if (!(seconds >= 0 && seconds < MOST_DEMAND_S))
                return fs_fail(
                    err, FS_INVALID,
                    "the timing says %g s for %s of rank %d, must "
                    "be 0 to %d",
                    seconds,
                    plan_task_name(graph, &p->roles[r].tasks[t], arena),
                    p->roles[r].first_rank, MOST_DEMAND_S);
        }
    return FS_OK;
}

static void fill_stage(const simulation *s, int32_t r, double window_s,
                       sim_stage *out)
{
    static const sim_meter none;
    const int64_t first = s->first_measured, k = s->measured_step;
    const sim_meter *a = first ? &s->at_end[first - 1][r] : &none;
    const sim_meter *b = &s->at_end[k][r];
    const double each_s = 1e-9 / (double)(k - first + 1);
    out->busy_s += (double)(b->busy_ns - a->busy_ns) * each_s;
    out->comm_s += (double)(b->comm_ns - a->comm_ns) * each_s;
    out->exposed_comm_s += (double)(b->exposed_ns - a->exposed_ns) * each_s;
    out->idle_s +=
        window_s - (double)(b->occupied_ns - a->occupied_ns) * each_s;
}

/* A stage's ranks may be several roles. */
static void add_role(const plan *p, const plan_role *role, const sim_stage *one,
                     sim_stage *sum)
{
    double part = (double)role->n_ranks / ir_mesh_size(plan_role_mesh(p, role));
    sum->busy_s += part * one->busy_s;
    sum->comm_s += part * one->comm_s;
    sum->exposed_comm_s += part * one->exposed_comm_s;
    sum->idle_s += part * one->idle_s;
    if (one->peak_bytes > sum->peak_bytes)
        sum->peak_bytes = one->peak_bytes;
}

/* Figures per rank: means over the ranks of a stage, of the plan. */
static void fill_result(const simulation *s, fs_arena *arena, sim_result *out)
{
    const plan *p = s->p;
    const int64_t first = s->first_measured, k = s->measured_step;
    const double window_s =
        (double)(s->end_ns[k] - (first ? s->end_ns[first - 1] : 0)) * 1e-9 /
        (double)(k - first + 1);
    double ranks = 0, idle_s = 0, exposed_s = 0;
    out->iteration_s = window_s;
    out->n_stages = p->strategy->n_stages;
    out->stages = fs_new(arena, sim_stage, out->n_stages);
    for (int32_t r = 0; r < p->n_roles; r++) {
        const plan_role *role = &p->roles[r];
        sim_stage one = {.peak_bytes = s->meters[r].peak_bytes};
        fill_stage(s, r, window_s, &one);
        for (int32_t c = 0; c < role->n_chunks; c++)
            add_role(p, role, &one, &out->stages[role->stages[c]]);
        ranks += role->n_ranks;
        idle_s += role->n_ranks * one.idle_s;
        exposed_s += role->n_ranks * one.exposed_comm_s;
    }
    out->bubble = window_s > 0 ? idle_s / (ranks * window_s) : 0;
    out->exposed_comm_s = exposed_s / ranks;
    out->events = s->n_events;
    out->skipped = s->n_skipped;
    out->n_steps = s->steps;
    out->first_step = first;
    out->last_step = k;
    out->step_s = fs_new(arena, double, s->steps);
    for (int64_t i = 0; i < s->steps; i++)
        out->step_s[i] =
            (double)(s->end_ns[i] - (i ? s->end_ns[i - 1] : 0)) * 1e-9;
}

/* Times of the trace count from the first thing it shows. */
static void shift_trace(plan_trace *trace, int32_t first, int32_t first_live)
{
    int64_t zero_ns = INT64_MAX;
    for (int32_t i = first; i < trace->events.n; i++)
        if (trace->events.at[i].ready_ns < zero_ns)
            zero_ns = trace->events.at[i].ready_ns;
    for (int32_t i = first; i < trace->events.n; i++) {
        trace->events.at[i].ready_ns -= zero_ns;
        trace->events.at[i].start_ns -= zero_ns;
        trace->events.at[i].end_ns -= zero_ns;
    }
    for (int32_t i = first_live; i < trace->live.n; i++)
        trace->live.at[i].at_ns -= zero_ns;
}

static bool is_late(const simulation *s)
{
    return s->options->end && fs_end_reached(s->options->end);
}

static fs_status play(simulation *s, fs_err *err)
{
    start_ready(s);
    set_rates(s);
    for (int64_t k = 0; end_next(s); k++) {
        start_ready(s);
        set_rates(s);
        sim_repeats_skip(s->repeats, s);
        if (k % LOOK_AT_CLOCK == 0 && is_late(s))
            return fs_fail(err, FS_NO, "the simulation was ended after %.9f s",
                           (double)s->now_ns * 1e-9);
    }
    return finished(s) ? FS_OK : stalled(s, err);
}

fs_status sim_run(const ir_graph *graph, const plan *p,
                  const hw_cluster *cluster, const plan_timing *timing,
                  const sim_options *options, fs_arena *arena, fs_err *err,
                  sim_result *out)
{
    int64_t start_ns = fs_now_ns();
    int32_t first = options->trace ? options->trace->events.n : 0;
    int32_t first_live = options->trace ? options->trace->live.n : 0;
    simulation s = {.graph = graph,
                    .p = p,
                    .timing = timing,
                    .options = options,
                    .steps = options->steps > 0 ? options->steps : 1};
    fs_status status;
    s.arena = s.heap.arena = fs_arena_create();
    status = check_timing(p, timing, graph, s.arena, err);
    if (status == FS_OK) {
        /* The last step but one, if there are three: in the last, what the
         * next would have begun early is missing. */
        s.measured_step = s.steps >= 3 ? s.steps - 2 : s.steps - 1;
        s.first_measured =
            options->jitter > 0 && s.steps >= 3 ? 1 : s.measured_step;
        sim_resources_make(&s.resources, p, cluster, s.arena);
        make_roles(&s);
        make_streams(&s);
        make_lines(&s);
        s.repeats = sim_repeats_create(&s);
        s.watch = sim_watch_create(&s);
        s.noise = sim_noise_create(&s);
        status = play(&s, err);
    }
    if (status == FS_OK) {
        sim_result result = {0};
        fill_result(&s, arena, &result);
        result.wall_s = (double)(fs_now_ns() - start_ns) * 1e-9;
        *out = result;
        if (options->trace)
            shift_trace(options->trace, first, first_live);
    }
    fs_arena_destroy(s.arena);
    return status;
}
