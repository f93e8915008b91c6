/* The polling loop: one thread looks at the head of each stream, fires what
 * may fire, runs kernels inline and progresses transfers between them. */
#include "config.h"
#include "exec/rank.h"

#include "base/clock.h"
#include "exec/saver.h"
#include "ir/element.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { STALL_STEPS = 50 };
static const double stall_usual_s = 30.0;

/* A rank's own time: where ranks share cores, the time that others had the
 * core does not count. */
static int64_t own_now_ns(const exec_rank *rank)
{
    struct timespec t;
    if (!rank->world->oversubscribed)
        return fs_now_ns();
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

static void read_loss(exec_rank *rank, int32_t stream, const exec_task *t)
{
    const plan_cursor *c = &rank->actors->cursor[stream];
    const void *at = buffer(rank, stream, t->task->in[0], false);
    double loss = ir_element_real(t->call.in[0].dtype, at, 0);
    rank->losses[c->step] += loss * rank->graph->loss_share;
}

static void run_kernel(exec_rank *rank, int32_t stream, exec_task *t)
{
    const plan_task *task = t->task;
    if (!t->kernel) {
        if (t->is_loss)
            read_loss(rank, stream, t);
        if (t->output >= 0)
            exec_rank_give(rank, stream, t);
        return;
    }
    for (int32_t i = 0; i < task->n_in; i++)
        t->call.in[i].data = buffer(rank, stream, task->in[i], false);
    for (int32_t i = 0; i < task->n_out; i++)
        t->call.out[i].data = buffer(rank, stream, task->out[i], true);
    t->call.scratch = scratch_of(rank, stream);
    t->call.step = rank->first_step + rank->actors->cursor[stream].step;
    t->call.micro_batch = plan_actor_micro_batch(rank->actors, stream);
    fs_err err; /* its text is long: not cleared for each firing */
    err.status = FS_OK;
    err.text[0] = '\0';
    if (t->kernel->run(t->state, &t->call, &err) != FS_OK)
        exec_rank_fault(rank, task, err.text);
}

/* A failpoint's slow rank: it works for nothing. */
static void dawdle(const exec_rank *rank, int64_t start, int64_t percent)
{
    const int64_t now = own_now_ns(rank);
    const int64_t end = now + (now - start) * percent / 100;
    while (own_now_ns(rank) < end)
        ;
}

/* A kernel may take less than reading the clock: where a rank has its core to
 * itself the firing's start and end are the kernel's. */
static void run_compute(exec_rank *rank, int32_t stream, exec_task *t)
{
    const exec_failpoints *f = rank->world->failpoints;
    const bool slow = f && f->slow_percent > 0;
    if (!rank->world->oversubscribed && !slow) {
        run_kernel(rank, stream, t);
        return;
    }
    int64_t start = own_now_ns(rank);
    run_kernel(rank, stream, t);
    if (slow)
        dawdle(rank, start, f->slow_percent);
    rank->flight[stream].busy_ns = own_now_ns(rank) - start;
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

static void start_transfer(exec_rank *rank, int32_t stream, exec_task *t)
{
    const plan_task *task = t->task;
    const void *in =
        task->n_in ? buffer(rank, stream, task->in[0], false) : NULL;
    void *out = task->n_out ? buffer(rank, stream, task->out[0], true) : NULL;
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
    if (!trace || c->step != rank->options->steps - 1 ||
        !plan_trace_shows(rank->plan, rank->options->trace_ends, micro_batch))
        return;
    plan_event event = {.rank = rank->world->rank,
                        .stream = stream,
                        .task = task,
                        .micro_batch = micro_batch,
                        .step = c->step,
                        .ready_ns = flight->ready_ns,
                        .start_ns = flight->start_ns,
                        .end_ns = end};
    fs_push(trace->arena, &trace->events, event);
}

static void count_firing(exec_rank *rank, int64_t step, int64_t now)
{
    if (++rank->firings[step] == rank->firings_per_step) {
        rank->step_end_ns[step] = now;
        rank->steps_done = step + 1;
        if (rank->world->recorder.record)
            rank->world->recorder.record->steps_done++;
    }
}

/* Since when the task could have fired: its turn, its last input, its last
 * free buffer. */
static int64_t find_ready(const exec_rank *rank, const plan_task *task)
{
    int64_t ready = rank->flight[task->stream].free_ns;
    for (int32_t i = 0; i < task->n_in; i++)
        if (rank->made_ns[task->in[i]] > ready)
            ready = rank->made_ns[task->in[i]];
    for (int32_t i = 0; i < task->n_out; i++)
        if (rank->freed_ns[task->out[i]] > ready)
            ready = rank->freed_ns[task->out[i]];
    return ready > rank->begin_ns ? ready : rank->begin_ns;
}

/* What the flight recorder is told: the stream's next task, and whether it has
 * begun. */
static void record_head(exec_rank *rank, int32_t stream, int64_t now, bool busy)
{
    exec_record *r = rank->world->recorder.record;
    const plan_cursor *c = &rank->actors->cursor[stream];
    if (!r || stream >= EXEC_RECORD_STREAMS)
        return;
    exec_now *at = &r->now[stream];
    at->task = plan_actor_head(rank->actors, stream);
    at->step = (int32_t)(r->first_step + c->step);
    at->micro_batch =
        at->task < 0 ? 0 : plan_actor_micro_batch(rank->actors, stream);
    at->since_ns = now;
    at->fired += busy;
    at->busy = busy;
}

static void record_end(exec_rank *rank, int32_t stream, int64_t now)
{
    exec_record *r = rank->world->recorder.record;
    if (!r || stream >= EXEC_RECORD_STREAMS)
        return;
    const exec_now *at = &r->now[stream];
    r->ring[(uint64_t)r->n_events++ % EXEC_RECORD_EVENTS] = (exec_event){
        at->since_ns, now, at->task, at->micro_batch, at->step, stream};
    r->completed++;
    r->moved_ns = r->heartbeat_ns = now;
}

static void begin_record(exec_rank *rank)
{
    exec_record *r = rank->world->recorder.record;
    if (!r)
        return;
    r->n_streams = rank->role->n_streams;
    r->arena_bytes = rank->role->arena_bytes;
    r->first_step = r->steps_begun = r->steps_done = rank->first_step;
    for (int32_t s = 0; s < rank->role->n_streams; s++)
        record_head(rank, s, rank->begin_ns, false);
    exec_recorder_state(&rank->world->recorder, EXEC_RUNNING);
}

void exec_rank_moves(exec_rank *rank, int64_t now_ns)
{
    exec_record *r = rank->world->recorder.record;
    rank->last_move_ns = now_ns;
    if (r)
        r->moved_ns = r->heartbeat_ns = now_ns;
}

static void note_times(exec_rank *rank, const plan_task *task, int64_t now)
{
    for (int32_t i = 0; i < task->n_in; i++)
        rank->freed_ns[task->in[i]] = now;
    for (int32_t i = 0; i < task->n_out; i++)
        rank->made_ns[task->out[i]] = now;
    rank->flight[task->stream].free_ns = now;
    rank->last_move_ns = now;
}

static void note_compute(exec_rank *rank, int64_t took_ns)
{
    exec_alone_compute(&rank->alone, took_ns);
    if (rank->world->recorder.record)
        rank->world->recorder.record->compute_ns += took_ns;
}

static void complete(exec_rank *rank, int32_t stream, int32_t task)
{
    exec_task *t = &rank->tasks[task];
    exec_flight *flight = &rank->flight[stream];
    int64_t step = rank->actors->cursor[stream].step;
    int64_t now = fs_now_ns();
    if (t->task->kind == PLAN_COMPUTE)
        note_compute(rank, rank->world->oversubscribed
                               ? flight->busy_ns
                               : now - flight->start_ns);
    const exec_sample sample = {flight->start_ns, now, flight->busy_ns,
                                exec_alone_end(&rank->alone, t->task,
                                               flight->alone, flight->start_ns,
                                               now)};
    t->sample[t->fired++ % EXEC_SAMPLES] = sample;
    trace_task(rank, stream, task, flight, now);
    record_end(rank, stream, now);
    for (int32_t i = 0; i < rank->n_captures; i++)
        if (rank->captures[i].task == task)
            capture_piece(rank, &rank->captures[i], stream, step);
    const bool saves = rank->saver && exec_saver_is_due(rank->saver, step) &&
                       plan_actor_last_firing(rank->actors, stream);
    plan_actor_done(rank->actors, stream);
    if (saves)
        exec_saver_made(rank->saver, t->task, step);
    count_firing(rank, step, now);
    flight->busy_ns = 0;
    record_head(rank, stream, now, false);
    note_times(rank, t->task, now);
}

/* ---- a stream's turn ---- */

/* Progresses it as long as there is something to do, for a link takes a part of
 * what has come at a time (of TCP 128 KiB), and the next kernel may take long;
 * but not for ever, for others wait for that kernel. A poll that finds nothing
 * takes well under a microsecond: what takes longer did work on bytes. */
static bool poll_transfer(exec_rank *rank, int32_t stream, exec_task *t,
                          bool *moved)
{
    enum { QUIET_NS = 2000, MOST_POLLS = 64 };
    bool done = false, busy = true;
    for (int i = 0; i < MOST_POLLS && busy && !done; i++) {
        const int64_t start = own_now_ns(rank);
        busy = false;
        done = exec_transfer_poll(t->transfer, &busy);
        const int64_t spent = own_now_ns(rank) - start;
        busy |= spent > QUIET_NS;
        rank->flight[stream].busy_ns += busy ? spent : 0;
        *moved |= busy;
    }
    return done;
}

/* Looks after a task in flight; true when it has completed. */
static bool poll_flight(exec_rank *rank, int32_t stream, exec_task *t,
                        bool *moved)
{
    if (t->task->kind == PLAN_COMPUTE)
        return true;
    if (t->task->kind == PLAN_LOAD) {
        int state = atomic_load_explicit(&t->job->state, memory_order_acquire);
        if (state == EXEC_JOB_FAILED)
            exec_rank_fault(rank, t->task,
                            exec_loader_error(rank->loader)->text);
        return state == EXEC_JOB_DONE;
    }
    return poll_transfer(rank, stream, t, moved);
}

/* Of a run with failpoints, before anything of the firing is done but its
 * record: who fails here is seen in this task. */
static void come_to(exec_rank *rank, int32_t stream, const exec_task *t)
{
    exec_failpoints *f = rank->world->failpoints;
    exec_record *r = rank->world->recorder.record;
    const int64_t step = r->first_step + rank->actors->cursor[stream].step;
    if (step >= r->steps_begun && plan_task_computes(t->task)) {
        r->steps_begun = step + 1;
        exec_failpoint_step(f, step + 1);
    }
    exec_failpoint_come(f, EXEC_AT_FIRE);
    if (t->transfer)
        exec_failpoint_come(f, EXEC_AT_TRANSFER);
}

static void fire(exec_rank *rank, int32_t stream, exec_task *t)
{
    exec_flight *flight = &rank->flight[stream];
    int64_t start;
    plan_actor_fire(rank->actors, stream);
    flight->ready_ns = find_ready(rank, t->task);
    flight->start_ns = fs_now_ns();
    record_head(rank, stream, flight->start_ns, true);
    if (rank->world->failpoints)
        come_to(rank, stream, t);
    flight->alone = exec_alone_begin(&rank->alone, t->task, flight->start_ns);
    switch (t->task->kind) {
    case PLAN_COMPUTE:
        run_compute(rank, stream, t);
        break;
    case PLAN_LOAD:
        start_load(rank, stream, t);
        break;
    default:
        start = own_now_ns(rank);
        start_transfer(rank, stream, t);
        flight->busy_ns = own_now_ns(rank) - start;
    }
}

/* Returns whether anything moved. */
static bool serve_stream(exec_rank *rank, int32_t stream)
{
    int32_t head = plan_actor_head(rank->actors, stream);
    bool moved = false;
    if (!exec_rank_may_begin(rank, stream))
        return false;
    exec_task *t = &rank->tasks[head];
    if (!rank->actors->cursor[stream].busy) {
        if (!plan_actor_ready(rank->actors, stream) ||
            !plan_actor_turn(rank->actors, stream))
            return false;
        fire(rank, stream, t);
        moved = true;
    }
    if (!poll_flight(rank, stream, t, &moved))
        return moved;
    complete(rank, stream, head);
    return true;
}

/* ---- stalls ---- */

static int compare_times(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int64_t stall_limit_ns(const exec_rank *rank)
{
    double least = rank->options->stall_s;
    int64_t limit = (int64_t)((least > 0 ? least : stall_usual_s) * 1e9);
    int64_t n = rank->steps_done;
    if (n == 0)
        return limit;
    int64_t *took = calloc((size_t)n, sizeof *took);
    if (!took)
        return limit;
    for (int64_t k = 0; k < n; k++)
        took[k] = rank->step_end_ns[k] -
                  (k ? rank->step_end_ns[k - 1] : rank->begin_ns);
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

enum { LOOK_NS = 50000000 };

/* By time, and after rounds that moved something too: a poll that only took
 * long counts as movement, and never completes what a stopped rank owes, nor
 * does it leave a round in which a verdict would be looked for. Under a
 * supervisor, which sees all ranks, it is the supervisor that judges. */
static void watch(exec_rank *rank, int64_t now, int64_t *looked_ns)
{
    exec_recorder *recorder = &rank->world->recorder;
    if (recorder->record)
        recorder->record->heartbeat_ns = now;
    if (now - *looked_ns < LOOK_NS)
        return;
    *looked_ns = now;
    if (rank->saver && exec_saver_moves(rank->saver, now))
        exec_rank_moves(rank, now);
    exec_rank_poll_stop(rank);
    if (rank->options->within && rank->world->rank == 0)
        exec_rank_tell_part(rank, now);
    if (recorder->supervised)
        return;
    int64_t quiet = now - rank->last_move_ns;
    if (quiet > stall_limit_ns(rank))
        report_stall(rank, (double)quiet * 1e-9);
}

void exec_rank_run(exec_rank *rank)
{
    exec_idle idle = {0};
    int64_t looked_ns = fs_now_ns();
    bool moved = false;
    rank->begin_ns = rank->last_move_ns = looked_ns;
    begin_record(rank);
    /* Who moved something is looked at once more before it is at its end. */
    while (!rank->fault && (moved || rank->stopping != EXEC_SETTLED ||
                            !exec_rank_at_end(rank))) {
        const int64_t before_ns = rank->last_move_ns;
        moved = false;
        for (int32_t s = 0; s < rank->role->n_streams; s++)
            moved |= serve_stream(rank, s);
        if (rank->saver)
            serve_saver(rank);
        if (rank->tells)
            exec_rank_tell_losses(rank);
        /* A verdict is looked for while waiting: a rank that holds makes its
         * peers wait. */
        if (rank->world->rank == rank->loss_rank || idle.rounds % 16 == 15)
            exec_rank_poll_stop(rank);
        if (moved)
            idle.rounds = 0;
        else
            exec_idle_wait(rank->world, &idle);
        /* Who completed something has just looked at the clock. */
        watch(rank,
              rank->last_move_ns == before_ns ? fs_now_ns()
                                              : rank->last_move_ns,
              &looked_ns);
    }
    exec_recorder_state(&rank->world->recorder, EXEC_ENDING);
}
