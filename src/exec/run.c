/* The polling loop: one thread looks at the heads of streams to which something
 * has happened, fires what may fire, runs kernels inline and progresses
 * transfers between them. */
#include "config.h"
#include "exec/rank.h"
#include "exec/results.h"

#include "base/clock.h"
#include "exec/interleave.h"
#include "exec/saver.h"
#include "ir/element.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* What a firing always takes stands in one piece; what it seldom takes stands
 * apart, so as not to cost it registers. */
#define ALWAYS static inline __attribute__((always_inline))
#define SELDOM __attribute__((noinline, cold)) static

enum { STALL_STEPS = 50 };
static const double stall_usual_s = 30.0;

/* A rank's own time: where ranks share cores, the time that others had the
 * core does not count. */
static int64_t own_now_ns(const exec_rank *rank)
{
    struct timespec t;
    if (!rank->world->oversubscribed)
        return fs_ticker_ns(&rank->clock);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void *buffer(const exec_rank *rank, int32_t stream, int32_t reg,
                    bool writes)
{
    return rank->memory + plan_actor_offset(rank->actors, stream, reg, writes);
}

static void *scratch_of(const exec_rank *rank, int32_t stream)
{
    return rank->memory + rank->role->stream_scratch[stream];
}

/* ---- one task ---- */

SELDOM void read_loss(exec_rank *rank, int32_t stream, const exec_task *t)
{
    const plan_cursor *c = &rank->actors->cursor[stream];
    const void *at = buffer(rank, stream, t->task->in[0], false);
    double loss = ir_element_real(t->call.in[0].dtype, at, 0);
    rank->losses[c->step] += loss * rank->graph->loss_share;
}

__attribute__((noinline)) static void turn_buffers(const exec_rank *rank,
                                                   int32_t stream, exec_task *t)
{
    for (int32_t i = 0; i < t->n_turning; i++)
        t->turning[i].arg->data =
            buffer(rank, stream, t->turning[i].reg, t->turning[i].writes);
}

ALWAYS void run_kernel(exec_rank *rank, int32_t stream, exec_task *t)
{
    const plan_cursor *c = &rank->actors->cursor[stream];
    if (!t->kernel) {
        if (t->is_loss)
            read_loss(rank, stream, t);
        if (t->output >= 0)
            exec_rank_give(rank, stream, t);
        return;
    }
    if (t->n_turning > 0)
        turn_buffers(rank, stream, t);
    t->call.step = rank->first_step + c->step;
    t->call.micro_batch = rank->actors->micro_batch[c->slot];
    fs_err err; /* its text is long: not cleared for each firing */
    err.status = FS_OK;
    err.text[0] = '\0';
    if (t->kernel->run(t->state, &t->call, &err) != FS_OK)
        exec_rank_fault(rank, t->task, err.text);
}

/* A failpoint's slow rank: it works for nothing. */
static void dawdle(const exec_rank *rank, int64_t start, int64_t percent)
{
    const int64_t now = own_now_ns(rank);
    const int64_t end = now + (now - start) * percent / 100;
    while (own_now_ns(rank) < end)
        ;
}

/* Where a rank shares its core, or is slowed. A kernel may take less than
 * reading the clock: else the firing's start and end are its own. */
static void run_timed(exec_rank *rank, int32_t stream, exec_task *t)
{
    const exec_failpoints *f = rank->world->failpoints;
    int64_t start = own_now_ns(rank);
    run_kernel(rank, stream, t);
    if (f && f->slow_percent > 0)
        dawdle(rank, start, f->slow_percent);
    rank->flight[stream].busy_ns += own_now_ns(rank) - start;
}

static void start_load(exec_rank *rank, int32_t stream, exec_task *t)
{
    int64_t batch = rank->plan->strategy->batch;
    int32_t m = rank->plan->micro_batches;
    int32_t mb = plan_actor_micro_batch(rank->actors, stream);
    const int64_t step = rank->first_step + rank->actors->cursor[stream].step;
    t->job->sample = step * batch + mb * (batch / m);
    t->job->out = buffer(rank, stream, t->task->out[0], true);
    exec_loader_submit(rank->loader, t->job);
}

/* Parts of a bucket lie where they lie. */
static void start_transfer(exec_rank *rank, int32_t stream, exec_task *t)
{
    const plan_task *task = t->task;
    const bool alone = task->n_parts == 0;
    const void *in = rank->memory;
    void *out = rank->memory;
    if (alone) {
        in = task->n_in ? buffer(rank, stream, task->in[0], false) : NULL;
        out = task->n_out ? buffer(rank, stream, task->out[0], true) : NULL;
    }
    exec_transfer_start(t->transfer, in, out, scratch_of(rank, stream),
                        task->scratch_bytes);
}

/* ---- a step's end ---- */

static void capture_piece(exec_rank *rank, const exec_capture *c,
                          int32_t stream, int64_t step)
{
    const bool last = step == rank->options->steps - 1;
    ir_nd_sbp sbp;
    int32_t task, reg;
    ir_shape local;
    exec_rank_find(rank, c->tensor, &task, &reg, &sbp);
    ir_local_piece(&rank->graph->tensors.at[c->tensor].shape, &sbp, rank->mesh,
                   rank->coords, &local, NULL);
    ir_dtype dtype = rank->graph->tensors.at[c->tensor].dtype;
    bool writes = rank->tasks[c->task].task->n_out > 0;
    const void *from = buffer(rank, stream, c->reg, writes);
    if (c->series)
        c->series[step] = ir_element_real(dtype, from, 0);
    else if (last)
        memcpy(c->piece, from,
               (size_t)(ir_shape_count(&local) * ir_dtype_bytes(dtype)));
}

static void trace_task(exec_rank *rank, int32_t stream, int32_t task,
                       const exec_flight *flight, int64_t end)
{
    plan_trace *trace = rank->options->trace;
    const plan_cursor *c = &rank->actors->cursor[stream];
    const int32_t micro_batch = plan_actor_micro_batch(rank->actors, stream);
    if (!plan_trace_shows(rank->plan, rank->options->trace_ends, micro_batch))
        return;
    plan_event event = {.rank = rank->world->rank,
                        .stream = stream,
                        .task = task,
                        .micro_batch = micro_batch,
                        .step = rank->first_step + c->step,
                        .ready_ns = flight->ready_ns,
                        .start_ns = flight->start_ns,
                        .end_ns = end};
    fs_push(trace->arena, &trace->events, event);
}

/* Was it the step's last? */
ALWAYS bool count_firing(exec_rank *rank, int64_t step, int64_t now)
{
    if (++rank->firings[step & rank->ring] < rank->firings_per_step)
        return false;
    rank->firings[step & rank->ring] = 0; /* the place is another step's next */
    rank->step_end_ns[step & rank->ring] = now;
    rank->steps_done = step + 1;
    rank->record->steps_done++;
    return true;
}

static int64_t last_end(const exec_rank *rank, int32_t task)
{
    const exec_task *t = task < 0 ? NULL : &rank->tasks[task];
    return t && t->fired > 0 ? t->sample[(t->fired - 1) % EXEC_SAMPLES].end_ns
                             : 0;
}

/* Since when the task could have fired: its turn, its last input, its last
 * free buffer. */
static int64_t find_ready(const exec_rank *rank, const plan_task *task)
{
    const plan_register *regs = rank->role->registers;
    int64_t ready = rank->flight[task->stream].free_ns;
    for (int32_t i = 0; i < task->n_in; i++) {
        const int64_t made = last_end(rank, regs[task->in[i]].producer);
        ready = made > ready ? made : ready;
    }
    for (int32_t i = 0; i < task->n_out; i++)
        for (int32_t k = 0; k < regs[task->out[i]].n_consumers; k++) {
            const int64_t freed =
                last_end(rank, regs[task->out[i]].consumers[k]);
            ready = freed > ready ? freed : ready;
        }
    return ready > rank->begin_ns ? ready : rank->begin_ns;
}

/* What the flight recorder is told: the stream's next task .. */
ALWAYS void record_head(const exec_rank *rank, const plan_cursor *c,
                        const exec_flight *flight, int64_t now)
{
    exec_now *at = flight->now;
    at->since_ns = now;
    at->task = c->task;
    at->micro_batch = c->task < 0 ? 0 : rank->actors->micro_batch[c->slot];
    at->step = (int32_t)(flight->record->first_step + c->step);
    at->busy = false;
}

/* .. that it has begun .. */
ALWAYS void record_begin(const exec_flight *flight)
{
    flight->now->since_ns = flight->start_ns;
    flight->now->fired++;
    flight->now->busy = true;
}

/* .. and ended: the stream is at the next one. */
ALWAYS void record_end(const exec_rank *rank, int32_t stream,
                       const exec_flight *flight, int64_t now)
{
    exec_record *r = flight->record;
    const exec_now *at = flight->now;
    r->ring[(uint64_t)r->n_events++ % EXEC_RECORD_EVENTS] = (exec_event){
        at->since_ns, now, at->task, at->micro_batch, at->step, stream};
    r->completed++;
    r->moved_ns = r->heartbeat_ns = now;
    record_head(rank, &rank->actors->cursor[stream], flight, now);
}

/* A rank that is a thread notes it for itself, and any those streams that the
 * record has no room for. */
static void begin_record(exec_rank *rank)
{
    const int32_t n = rank->role->n_streams;
    exec_record *r = rank->world->recorder.record, *own = NULL;
    if (!r || n > EXEC_RECORD_STREAMS)
        own = fs_new_lines(rank->arena, exec_record, 1);
    rank->record = r = r ? r : own;
    r->n_streams = n;
    r->arena_bytes = rank->role->arena_bytes;
    r->first_step = r->steps_begun = r->steps_done = rank->first_step;
    for (int32_t s = 0; s < n; s++) {
        exec_flight *flight = &rank->flight[s];
        flight->record = s < EXEC_RECORD_STREAMS ? r : own;
        flight->now = &flight->record->now[s % EXEC_RECORD_STREAMS];
        record_head(rank, &rank->actors->cursor[s], flight, rank->begin_ns);
    }
    exec_recorder_state(&rank->world->recorder, EXEC_RUNNING);
}

void exec_rank_moves(exec_rank *rank, int64_t now_ns)
{
    rank->last_move_ns = now_ns;
    rank->record->moved_ns = rank->record->heartbeat_ns = now_ns;
}

static void capture(exec_rank *rank, int32_t stream, int32_t task)
{
    const int64_t step = rank->actors->cursor[stream].step;
    for (int32_t i = 0; i < rank->n_captures; i++)
        if (rank->captures[i].task == task)
            capture_piece(rank, &rank->captures[i], stream, step);
}

/* Of a step of which more is wanted than that it runs: before the outputs may
 * be read or written by others; returns whether they are saved. */
SELDOM bool look_at_result(exec_rank *rank, int32_t stream, exec_task *t,
                           int64_t now)
{
    const int64_t step = rank->actors->cursor[stream].step;
    const int32_t task = (int32_t)(t - rank->tasks);
    if (step == rank->traced_step)
        trace_task(rank, stream, task, &rank->flight[stream], now);
    if (t->captured)
        capture(rank, stream, task);
    return rank->saver && exec_saver_is_due(rank->saver, step) &&
           plan_actor_last_firing(rank->actors, stream);
}

/* A bit that streams share stays. */
static uint64_t own_bit(const exec_rank *rank, int32_t stream)
{
    return stream < 63 || rank->role->n_streams <= 64 ? plan_stream_bit(stream)
                                                      : 0;
}

/* Returns whether it was the step's last act. */
ALWAYS bool complete(exec_rank *rank, int32_t stream, exec_task *t,
                     float beside, int64_t now)
{
    exec_flight *flight = &rank->flight[stream];
    const int64_t step = rank->actors->cursor[stream].step;
    bool saves = false;
    t->sample[(uint64_t)t->fired++ % EXEC_SAMPLES] =
        (exec_sample){flight->start_ns, now, flight->busy_ns, beside};
    if (step >= rank->wanted_step)
        saves = look_at_result(rank, stream, t, now);
    rank->awake |= t->wakes.by[plan_actor_last_firing(rank->actors, stream)];
    exec_interleave_done(rank, stream);
    plan_actor_done(rank->actors, stream);
    if (saves)
        exec_saver_made(rank->saver, t->task, step);
    flight->busy_ns = 0;
    flight->free_ns = rank->last_move_ns = now;
    record_end(rank, stream, flight, now);
    return count_firing(rank, step, now);
}

/* ---- a stream's turn ---- */

/* Progresses it as long as there is something to do, for a link takes a part of
 * what has come at a time (of TCP 128 KiB), and the next kernel may take long;
 * but not for ever, for others wait for that kernel. */
static bool poll_transfer(exec_rank *rank, int32_t stream, exec_task *t,
                          bool *moved)
{
    enum { MOST_POLLS = 64 };
    /* Where ranks share a core, others wait for it. */
    const int most = rank->world->oversubscribed ? 1 : MOST_POLLS;
    bool done = false, busy = true;
    for (int i = 0; i < most && busy && !done; i++) {
        const int64_t start = own_now_ns(rank);
        busy = false;
        done = exec_transfer_poll(t->transfer, &busy);
        if (busy)
            rank->flight[stream].busy_ns += own_now_ns(rank) - start;
        *moved |= busy;
    }
    return done;
}

/* Looks after a task in flight; true when it has completed. */
static bool poll_flight(exec_rank *rank, int32_t stream, exec_task *t,
                        bool *moved)
{
    if (t->task->kind == PLAN_LOAD) {
        const int state = exec_loader_look(rank->loader, t->job);
        if (state == EXEC_JOB_FAILED)
            exec_rank_fault(rank, t->task,
                            exec_loader_error(rank->loader)->text);
        return state == EXEC_JOB_DONE;
    }
    if (rank->flight[stream].landed) {
        rank->flight[stream].landed = false;
        return true;
    }
    return poll_transfer(rank, stream, t, moved);
}

/* While a kernel runs that takes long. Its time is less by what went to
 * transfers. */
void exec_rank_rest(void *ctx)
{
    enum { SELDOM_NS = 100000 };
    const exec_rest *rest = ctx;
    exec_rank *rank = rest->rank;
    if (rank->moving == 0)
        return;
    const int64_t start = fs_ticker_ns(&rank->clock);
    if (start - rank->rested_ns < SELDOM_NS)
        return;
    const int64_t own = own_now_ns(rank);
    for (int32_t s = 0; s < rank->role->n_streams; s++) {
        const plan_cursor *c = &rank->actors->cursor[s];
        exec_task *t = c->busy ? &rank->tasks[c->task] : NULL;
        bool moved = false;
        if (t && t->transfer && !rank->flight[s].landed)
            rank->flight[s].landed = poll_transfer(rank, s, t, &moved);
    }
    rank->flight[rest->stream].busy_ns -= own_now_ns(rank) - own;
    rank->rested_ns = fs_ticker_ns(&rank->clock);
    rank->flight[rest->stream].start_ns += rank->rested_ns - start;
}

/* Of a run with failpoints, before anything of the firing is done but its
 * record: who fails here is seen in this task. */
static void come_to(exec_rank *rank, int32_t stream, const exec_task *t)
{
    exec_failpoints *f = rank->world->failpoints;
    exec_record *r = rank->record;
    const int64_t step = r->first_step + rank->actors->cursor[stream].step;
    if (step >= r->steps_begun && plan_task_computes(t->task)) {
        r->steps_begun = step + 1;
        exec_failpoint_step(f, step + 1);
    }
    exec_failpoint_come(f, EXEC_AT_FIRE);
    if (t->transfer)
        exec_failpoint_come(f, EXEC_AT_TRANSFER);
}

SELDOM void look_at_firing(exec_rank *rank, int32_t stream, const exec_task *t)
{
    if (rank->actors->cursor[stream].step == rank->traced_step)
        rank->flight[stream].ready_ns = find_ready(rank, t->task);
    if (rank->world->failpoints)
        come_to(rank, stream, t);
}

ALWAYS void fire(exec_rank *rank, int32_t stream, exec_task *t)
{
    exec_flight *flight = &rank->flight[stream];
    plan_actor_fire(rank->actors, stream);
    exec_interleave_fired(rank, stream);
    flight->start_ns = fs_ticker_ns(&rank->clock);
    record_begin(flight);
    if (rank->actors->cursor[stream].step >= rank->wanted_step)
        look_at_firing(rank, stream, t);
}

ALWAYS bool end_kernel(exec_rank *rank, int32_t stream, exec_task *t,
                       int64_t took_ns, int64_t now)
{
    exec_alone_compute(&rank->alone, took_ns);
    rank->record->compute_ns += took_ns;
    return complete(rank, stream, t, 0, now);
}

SELDOM bool compute_timed(exec_rank *rank, int32_t stream, exec_task *t)
{
    fire(rank, stream, t);
    run_timed(rank, stream, t);
    return end_kernel(rank, stream, t, rank->flight[stream].busy_ns,
                      fs_ticker_ns(&rank->clock));
}

/* A kernel is done when it returns. Returns whether the step is. */
ALWAYS bool compute(exec_rank *rank, int32_t stream, exec_task *t)
{
    const exec_flight *flight = &rank->flight[stream];
    if (rank->times_kernels)
        return compute_timed(rank, stream, t);
    fire(rank, stream, t);
    run_kernel(rank, stream, t);
    const int64_t now = fs_ticker_ns(&rank->clock);
    return end_kernel(rank, stream, t, now - flight->start_ns, now);
}

SELDOM void start(exec_rank *rank, int32_t stream, exec_task *t)
{
    const uint64_t bit = plan_stream_bit(stream);
    exec_flight *flight = &rank->flight[stream];
    fire(rank, stream, t);
    if (t->meets)
        flight->alone =
            exec_alone_begin(&rank->alone, t->task, flight->start_ns);
    if (t->job) {
        rank->loading |= bit;
        start_load(rank, stream, t);
        return;
    }
    rank->moving |= bit;
    const int64_t begin = own_now_ns(rank);
    start_transfer(rank, stream, t);
    flight->busy_ns = own_now_ns(rank) - begin;
}

SELDOM void land(exec_rank *rank, int32_t stream, exec_task *t)
{
    const exec_flight *flight = &rank->flight[stream];
    const int64_t now = fs_ticker_ns(&rank->clock);
    rank->moving &= ~own_bit(rank, stream);
    rank->loading &= ~own_bit(rank, stream);
    complete(rank, stream, t,
             t->meets ? exec_alone_end(&rank->alone, t->task, flight->alone,
                                       flight->start_ns, now)
                      : 0,
             now);
}

ALWAYS bool may_fire(const exec_rank *rank, int32_t stream)
{
    return exec_rank_may_begin(rank, stream) &&
           plan_actor_ready(rank->actors, stream) &&
           plan_actor_turn(rank->actors, stream);
}

/* Nobody else has anything to do. Loads go on by themselves. */
ALWAYS bool may_go_on(const exec_rank *rank, uint64_t bit)
{
    return (rank->awake | rank->moving) == bit &&
           rank->last_move_ns < rank->look_ns;
}

/* The stream's head and those behind it, one kernel upon the other. Returns
 * whether any has run. */
static bool run_kernels(exec_rank *rank, int32_t stream)
{
    const plan_cursor *c = &rank->actors->cursor[stream];
    const uint64_t bit = plan_stream_bit(stream);
    bool ran = false;
    while (may_fire(rank, stream)) {
        exec_task *t = &rank->tasks[c->task];
        if (!t->runs)
            break;
        ran = true;
        if (compute(rank, stream, t) || !may_go_on(rank, bit))
            break;
    }
    return ran;
}

/* Returns whether anything moved. */
static bool serve_stream(exec_rank *rank, int32_t stream)
{
    const plan_cursor *c = &rank->actors->cursor[stream];
    if (run_kernels(rank, stream))
        return true;
    bool moved = false;
    if (may_fire(rank, stream)) {
        start(rank, stream, &rank->tasks[c->task]);
        moved = true;
    }
    if (c->busy && poll_flight(rank, stream, &rank->tasks[c->task], &moved)) {
        land(rank, stream, &rank->tasks[c->task]);
        return true;
    }
    return moved;
}

/* Those of a bit, which sleep from now on unless something wakes them. */
static bool serve_bit(exec_rank *rank, int32_t bit)
{
    const int32_t end = bit < 63 ? bit + 1 : rank->role->n_streams;
    bool moved = false;
    rank->awake &= ~plan_stream_bit(bit);
    for (int32_t s = bit; s < end; s++)
        moved |= serve_stream(rank, s);
    return moved;
}

/* What sleeps can do nothing. */
SELDOM void check_sleepers(const exec_rank *rank)
{
    for (int32_t s = 0; s < rank->role->n_streams; s++)
        FS_ASSERT((rank->awake & plan_stream_bit(s)) || !may_fire(rank, s));
}

static bool serve_streams(exec_rank *rank)
{
    bool moved = false;
    uint64_t left = rank->awake | rank->moving | rank->loading;
    while (left != 0) {
        const int bit = exec_interleave_stream(left);
        left ^= UINT64_C(1) << bit;
        moved |= serve_bit(rank, bit);
        if (rank->options->checks)
            check_sleepers(rank);
    }
    return moved;
}

/* ---- stalls ---- */

static int compare_times(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int64_t stall_limit_ns(const exec_rank *rank, int64_t quiet_ns)
{
    double least = rank->options->stall_s;
    int64_t limit = (int64_t)((least > 0 ? least : stall_usual_s) * 1e9);
    const int64_t done = rank->steps_done;
    const int64_t n = done < rank->kept ? done : rank->kept - 1;
    if (n <= 0 || quiet_ns <= limit)
        return limit;
    int64_t *took = calloc((size_t)n, sizeof *took);
    if (!took)
        return limit;
    for (int64_t k = 0; k < n; k++)
        took[k] = exec_rank_step_ns(rank, done - n + k);
    qsort(took, (size_t)n, sizeof *took, compare_times);
    int64_t steps = STALL_STEPS * took[n / 2];
    free(took);
    return steps > limit ? steps : limit;
}

static void report_stall(exec_rank *rank, double seconds)
{
    fs_text text = {.arena = rank->arena};
    fs_text_add(&text, "no progress for %.0f s", seconds);
    for (int32_t s = 0; s < rank->role->n_streams; s++) {
        if (plan_actor_head(rank->actors, s) < 0)
            continue;
        fs_text_add(&text, "; stream %d: ", s);
        plan_actor_explain(rank->actors, rank->graph, s, &text);
    }
    exec_world_abort_for(rank->world, EXEC_HANG, text.at);
}

/* What the checkpoints' thread has written may be made anew. */
static void serve_saver(exec_rank *rank)
{
    const char *cause;
    if (!exec_saver_poll(rank->saver, &cause))
        exec_rank_fail(rank, EXEC_DISK, cause);
}

/* Does what is next hang on others, who have not sent it yet? */
static bool awaits_step(const exec_rank *rank)
{
    const exec_data *data = rank->data;
    const int64_t step = rank->first_step + rank->steps_done;
    return data->come && rank->steps_done < rank->steps &&
           !data->come(data->ctx, step * rank->plan->strategy->batch);
}

enum { LOOK_NS = 50000000, FIRST_LOOK_NS = 1000000 };

/* By time, and after rounds that moved something too: a poll that only took
 * long counts as movement, and never completes what a stopped rank owes, nor
 * does it leave a round in which a verdict would be looked for. Under a
 * supervisor, which sees all ranks, it is the supervisor that judges. */
static void watch(exec_rank *rank, int64_t now)
{
    exec_recorder *recorder = &rank->world->recorder;
    rank->record->heartbeat_ns = now;
    if (now < rank->look_ns && now >= rank->look_ns - LOOK_NS)
        return;
    /* The clock is known soon, then better and better. */
    fs_ticker_tune(&rank->clock);
    now = fs_ticker_ns(&rank->clock); /* if it had leapt, the true time */
    const int64_t run_ns = now - rank->begin_ns;
    rank->look_ns = now + (rank->options->checks ? 0
                           : run_ns < LOOK_NS    ? run_ns
                                                 : LOOK_NS);
    check_sleepers(rank);
    if (rank->saver && exec_saver_moves(rank->saver, now))
        exec_rank_moves(rank, now);
    exec_rank_poll_stop(rank);
    if (rank->options->within && rank->world->rank == 0)
        exec_rank_tell_part(rank, now);
    if (exec_recorder_is_read(recorder))
        return;
    if (awaits_step(rank))
        rank->last_move_ns = now;
    int64_t quiet = now - rank->last_move_ns;
    if (quiet > stall_limit_ns(rank, quiet))
        report_stall(rank, (double)quiet * 1e-9);
}

static void begin(exec_rank *rank)
{
    rank->clock = fs_ticker_open();
    fs_ticker_tune(&rank->clock);
    rank->begin_ns = rank->last_move_ns = fs_now_ns();
    rank->look_ns = rank->begin_ns + FIRST_LOOK_NS;
    rank->all_awake = rank->role->n_streams < 64
                          ? (UINT64_C(1) << rank->role->n_streams) - 1
                          : UINT64_MAX;
    exec_rank_wake(rank);
    rank->times_kernels =
        rank->world->oversubscribed || rank->world->failpoints;
    rank->traced_step = rank->options->trace ? rank->options->steps - 1 : -1;
    rank->wanted_step =
        rank->saver || rank->n_captures > 0 || rank->world->failpoints ? 0
        : rank->traced_step >= 0 ? rank->traced_step
                                 : rank->options->steps;
    begin_record(rank);
}

/* Who is to ring; false: not all that it waits for can. Loads and checkpoints
 * do. */
static bool list_wants(const exec_rank *rank, exec_wants *wants)
{
    const exec_data *data = rank->data;
    bool called =
        !data->come || (data->rings && rank->world->recorder.supervised);
    for (int32_t s = 0; s < rank->role->n_streams && rank->moving; s++) {
        const plan_cursor *c = &rank->actors->cursor[s];
        const exec_task *t = c->busy ? &rank->tasks[c->task] : NULL;
        if (t && t->transfer && !rank->flight[s].landed)
            called &= exec_transfer_wants(t->transfer, wants);
    }
    if (data->come && (rank->loading || rank->world->rank == rank->judge_rank))
        wants->from[EXEC_CAME] = UINT64_MAX;
    if (rank->tells && rank->loss_rank > 0)
        wants->from[EXEC_SENT] |= exec_bell_bit(rank->loss_rank);
    if (rank->stopping == EXEC_WATCHING)
        wants->from[EXEC_SENT] |= exec_bell_bit(rank->judge_rank);
    return called;
}

/* What other ranks do about an early end is looked for; that there is one may
 * be heard some ms late. */
static void wait(exec_rank *rank, exec_idle *idle)
{
    idle->at_once = rank->data->come != NULL;
    idle->wants = (exec_wants){0};
    idle->called =
        list_wants(rank, &idle->wants) &&
        (rank->stopping == EXEC_SETTLED || rank->stopping == EXEC_WATCHING);
    exec_idle_wait(rank->world, idle);
}

void exec_rank_run(exec_rank *rank)
{
    exec_idle idle = {0};
    bool moved = false;
    begin(rank);
    /* Who moved something is looked at once more before it is at its end. */
    while (!rank->fault && (moved || rank->stopping != EXEC_SETTLED ||
                            !exec_rank_at_end(rank))) {
        const int64_t before_ns = rank->last_move_ns;
        moved = serve_streams(rank);
        if (rank->saver)
            serve_saver(rank);
        if (rank->tells)
            exec_rank_tell_losses(rank);
        /* A verdict is looked for while waiting: a rank that holds makes its
         * peers wait. */
        if (rank->world->rank == rank->judge_rank || idle.rung ||
            idle.rounds % 16 == 15)
            exec_rank_poll_stop(rank);
        if (!moved)
            wait(rank, &idle);
        else if (idle.rounds > 0)
            exec_idle_end(rank->world, &idle);
        /* Who completed something has just looked at the clock. */
        watch(rank, rank->last_move_ns == before_ns ? fs_ticker_ns(&rank->clock)
                                                    : rank->last_move_ns);
    }
    exec_idle_end(rank->world, &idle);
    exec_recorder_state(&rank->world->recorder, EXEC_ENDING);
}
