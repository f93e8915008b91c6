/* What a run measured: durations per task, the trace of the last step. */
#include "config.h"
#include "exec/rank.h"
#include "exec/results.h"

#include <stdlib.h>
#include <string.h>

/* ---- last arrivals ---- */

/* Start of each kept firing, task by task. */
static void copy_starts(const exec_task *t, int64_t *out)
{
    for (int32_t k = 0; k < EXEC_SAMPLES; k++)
        out[k] = t->sample[k].start_ns;
}

/* A transfer begins when its last member arrives: what came before was waiting
 * for it. */
static void move_starts(exec_task *t, const int64_t *last)
{
    for (int32_t k = 0; k < EXEC_SAMPLES; k++)
        if (last[k] > t->sample[k].start_ns)
            t->sample[k].start_ns = last[k];
}

typedef bool task_test(const plan *p, const plan_task *task, int32_t which);

static bool on_comm(const plan *p, const plan_task *task, int32_t comm)
{
    (void)p;
    return task->kind == PLAN_BOX && task->comm == comm;
}

static bool straight_on(const plan *p, const plan_task *task, int32_t channel)
{
    return (task->kind == PLAN_SEND || task->kind == PLAN_RECV) &&
           task->channel == channel && plan_task_is_straight(p, task);
}

static bool across_on(const plan *p, const plan_task *task, int32_t channel)
{
    return (task->kind == PLAN_SEND || task->kind == PLAN_RECV) &&
           task->channel == channel && !plan_task_is_straight(p, task);
}

/* The tasks of a communicator or channel, in order: members count the same. */
static int32_t list_tasks(exec_rank *rank, task_test *belongs, int32_t which,
                          exec_task **list)
{
    int32_t n = 0;
    for (int32_t i = 0; i < rank->role->n_tasks; i++)
        if (belongs(rank->plan, &rank->role->tasks[i], which))
            list[n++] = &rank->tasks[i];
    return n;
}

/* The latest starts of these tasks over some ranks: their first one brings them
 * together. */
static void find_latest(exec_rank *rank, const int32_t *ranks, int32_t n,
                        exec_task **list, int32_t n_list)
{
    exec_world *world = rank->world;
    const int64_t count = (int64_t)n_list * EXEC_SAMPLES;
    const int64_t bytes = count * (int64_t)sizeof(int64_t);
    int64_t *mine = exec_world_alloc(world, 2 * (size_t)count, sizeof *mine,
                                     "the arrivals at a transfer");
    int64_t *theirs = mine + count;
    exec_request request = world->link->none;
    for (int32_t i = 0; i < n_list; i++)
        copy_starts(list[i], mine + i * EXEC_SAMPLES);
    for (int32_t r = 1; world->rank == ranks[0] && r < n; r++) {
        exec_recv_bytes(world, theirs, bytes, ranks[r], EXEC_TAG_TIMING,
                        &request);
        exec_wait(world, 1, &request);
        exec_fold(IR_PMAX, IR_I64, mine, theirs, count);
    }
    for (int32_t r = 1; world->rank == ranks[0] && r < n; r++) {
        exec_send_bytes(world, mine, bytes, ranks[r], EXEC_TAG_TIMING,
                        &request);
        exec_wait(world, 1, &request);
    }
    if (world->rank != ranks[0]) {
        exec_send_bytes(world, mine, bytes, ranks[0], EXEC_TAG_TIMING,
                        &request);
        exec_wait(world, 1, &request);
        exec_recv_bytes(world, mine, bytes, ranks[0], EXEC_TAG_TIMING,
                        &request);
        exec_wait(world, 1, &request);
    }
    for (int32_t i = 0; i < n_list; i++)
        move_starts(list[i], mine + i * EXEC_SAMPLES);
    free(mine);
}

static void arrivals_on_comm(exec_rank *rank, int32_t comm, exec_task **list)
{
    const plan_comm *c = &rank->plan->comms[comm];
    if (!plan_role_has_stage(rank->role, c->stage))
        return;
    int32_t *ranks =
        fs_new(rank->arena, int32_t, plan_comm_size(rank->plan, c));
    int32_t n = plan_comm_ranks(rank->plan, c, rank->world->rank, ranks);
    find_latest(rank, ranks, n, list, list_tasks(rank, on_comm, comm, list));
}

/* The ranks of both stages, ascending. */
static int32_t list_both(exec_rank *rank, const plan_channel *c, int32_t **out)
{
    const plan_stage *stages = rank->plan->strategy->stages;
    const bool up =
        stages[c->from_stage].first_device < stages[c->to_stage].first_device;
    const plan_stage *two[2] = {&stages[up ? c->from_stage : c->to_stage],
                                &stages[up ? c->to_stage : c->from_stage]};
    int32_t n = 0;
    *out = fs_new(rank->arena, int32_t,
                  ir_mesh_size(&two[0]->mesh) + ir_mesh_size(&two[1]->mesh));
    for (int32_t k = 0; k < 2; k++)
        for (int32_t i = 0; i < ir_mesh_size(&two[k]->mesh); i++)
            (*out)[n++] = two[k]->first_device + i;
    return n;
}

/* Channels in ascending order on every rank, so that none can wait for each
 * other in a circle. Straight moves bring pairs together, others all ranks of
 * both stages. */
static void arrivals_on_channel(exec_rank *rank, int32_t channel,
                                exec_task **list)
{
    const plan_channel *c = &rank->plan->channels[channel];
    if (!plan_role_has_stage(rank->role, c->from_stage) &&
        !plan_role_has_stage(rank->role, c->to_stage))
        return;
    int32_t n = list_tasks(rank, straight_on, channel, list);
    if (n > 0) {
        int32_t me = rank->world->rank;
        int32_t peer = plan_channel_peer(rank->plan, c, me);
        int32_t ranks[2] = {me < peer ? me : peer, me < peer ? peer : me};
        find_latest(rank, ranks, 2, list, n);
    }
    n = list_tasks(rank, across_on, channel, list);
    if (n > 0) {
        int32_t *ranks, n_ranks = list_both(rank, c, &ranks);
        find_latest(rank, ranks, n_ranks, list, n);
    }
}

/* ---- means ---- */

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Where ranks share cores the wall clock holds the time that others ran; the
 * rank's own work is what the task demands. */
static double sample_seconds(const exec_rank *rank, const exec_sample *s,
                             bool load)
{
    int64_t wall = s->end_ns - s->start_ns;
    if (wall < 0)
        wall = 0;
    wall -= (int64_t)((double)wall * s->beside);
    bool own = rank->world->oversubscribed && !load && s->busy_ns < wall;
    return (double)(own ? s->busy_ns : wall) * 1e-9;
}

/* Of sorted seconds. Those of a task have a long tail: a step, which is the sum
 * of hundreds, takes what their means say and not their medians; but one
 * firing in many that the host held up for long is of the steps that a median
 * of steps leaves out. */
static double trimmed_mean(const double *seconds, int32_t n)
{
    enum { ONE_IN = 16 };
    const int32_t out = (n + ONE_IN / 2) / ONE_IN;
    double sum = 0;
    for (int32_t i = out; i < n - out; i++)
        sum += seconds[i];
    return sum / (n - 2 * out);
}

/* The first step warms caches and maps pages: left out when there are more. */
static double mean_seconds(const exec_rank *rank, const exec_task *t)
{
    double seconds[EXEC_SAMPLES];
    int64_t per_step = rank->steps > 0 ? t->fired / rank->steps : 0;
    int64_t first = t->fired > per_step ? per_step : 0;
    if (first < t->fired - EXEC_SAMPLES)
        first = t->fired - EXEC_SAMPLES;
    int32_t n = 0;
    for (int64_t f = first; f < t->fired; f++)
        seconds[n++] = sample_seconds(rank, &t->sample[f % EXEC_SAMPLES],
                                      t->task->kind == PLAN_LOAD);
    if (n == 0)
        return 0.0;
    qsort(seconds, (size_t)n, sizeof *seconds, compare_doubles);
    return trimmed_mean(seconds, n);
}

static void set_demand(const exec_task *t, double seconds, plan_demand *out)
{
    bool compute = t->task->kind == PLAN_COMPUTE;
    bool local =
        t->task->kind == PLAN_BOX && !plan_box_is_collective(t->task->box.kind);
    memset(out, 0, sizeof *out);
    out->compute_s = compute ? seconds : 0.0;
    out->memory_s = local ? seconds : 0.0;
    out->network_s =
        compute || local || t->task->kind == PLAN_LOAD ? 0.0 : seconds;
    out->total_s = seconds;
    /* Messages between ranks of one host are copies by their cores. */
    out->on_core = t->task->kind != PLAN_LOAD;
}

plan_timing *exec_rank_timing(exec_rank *rank)
{
    const plan *p = rank->plan;
    exec_task **list =
        fs_new(rank->arena, exec_task *, rank->role->n_tasks + 1);
    for (int32_t c = 0; rank->world->size > 1 && c < p->n_comms; c++)
        arrivals_on_comm(rank, c, list);
    for (int32_t c = 0; rank->world->size > 1 && c < p->n_channels; c++)
        arrivals_on_channel(rank, c, list);
    plan_timing *timing = plan_timing_new(p, "measured", rank->arena);
    for (int32_t r = 0; r < p->n_roles; r++) {
        const plan_role *role = &p->roles[r];
        double *mean = fs_new(rank->arena, double, role->n_tasks + 1);
        for (int32_t i = 0; role == rank->role && i < role->n_tasks; i++)
            mean[i] = mean_seconds(rank, &rank->tasks[i]) / role->n_ranks;
        exec_world_reduce(rank->world, IR_PSUM, IR_F64, mean, role->n_tasks);
        for (int32_t i = 0; i < role->n_tasks; i++) {
            exec_task t = {.task = &role->tasks[i]};
            set_demand(&t, mean[i], &timing->demand[r][i]);
        }
    }
    return timing;
}

/* ---- trace ---- */

static void receive_events(exec_world *world, int32_t from, int64_t bytes,
                           plan_trace *trace)
{
    exec_request request;
    plan_event *events =
        exec_world_alloc(world, (size_t)bytes, 1, "a rank's trace");
    exec_recv_bytes(world, events, bytes, from, EXEC_TAG_TRACE, &request);
    exec_wait(world, 1, &request);
    for (size_t i = 0; i < (size_t)bytes / sizeof *events; i++)
        fs_push(trace->arena, &trace->events, events[i]);
    free(events);
}

void exec_rank_gather_trace(exec_rank *rank)
{
    exec_world *world = rank->world;
    plan_trace *trace = rank->options->trace;
    int32_t wanted = trace != NULL;
    exec_world_bcast(world, &wanted, sizeof wanted, 0);
    if (!wanted || world->size == 1)
        return;
    exec_request request = world->link->none;
    int64_t bytes = trace ? trace->events.n * (int64_t)sizeof(plan_event) : 0;
    for (int32_t r = 1; r < world->size; r++) {
        int64_t coming = bytes;
        exec_world_bcast(world, &coming, sizeof coming, r);
        if (world->rank == r)
            exec_send_bytes(world, trace ? trace->events.at : NULL, bytes, 0,
                            EXEC_TAG_TRACE, &request);
        else if (world->rank == 0)
            receive_events(world, r, coming, trace);
        exec_wait(world, 1, &request);
    }
    if (world->rank == 0)
        plan_trace_arrivals(rank->plan, trace);
}
