#include "config.h"
#include "exec/rank.h"
#include "exec/results.h"
#include "exec/variants.h"
#include "kernels/tiled.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void exec_rank_piece(const exec_rank *rank, int32_t tensor,
                     const ir_nd_sbp *sbp, ir_shape *local,
                     int64_t offset[IR_MAX_RANK])
{
    ir_local_piece(&rank->graph->tensors.at[tensor].shape, sbp, rank->mesh,
                   rank->coords, local, offset);
}

void exec_rank_fault(exec_rank *rank, const plan_task *task, const char *cause)
{
    char text[1400];
    snprintf(text, sizeof text, "%.300s: %.1024s",
             plan_task_name(rank->graph, task, rank->arena), cause);
    exec_rank_fail(rank, task->kind == PLAN_LOAD ? EXEC_DATA : EXEC_KERNEL,
                   text);
}

void exec_rank_fail(exec_rank *rank, exec_fault fault, const char *text)
{
    if (!rank->options->keep_process || rank->world->size > 1)
        exec_world_abort_for(rank->world, fault, text);
    rank->fault = fs_strdup(rank->arena, text);
    rank->look_ns = 0; /* at once */
}

static int64_t piece_bytes(const exec_rank *rank, int32_t tensor,
                           const ir_nd_sbp *sbp)
{
    ir_shape local;
    exec_rank_piece(rank, tensor, sbp, &local, NULL);
    return ir_shape_count(&local) *
           ir_dtype_bytes(rank->graph->tensors.at[tensor].dtype);
}

/* ---- COMPUTE ---- */

static void set_arg(const exec_rank *rank, int32_t tensor, const ir_nd_sbp *sbp,
                    kernel_arg *arg)
{
    arg->dtype = rank->graph->tensors.at[tensor].dtype;
    exec_rank_piece(rank, tensor, sbp, &arg->shape, arg->offset);
}

/* The run's constants of the optimizer in the place of the graph's. */
static void set_values(const exec_rank *rank, const ir_node *node, exec_task *t)
{
    memcpy(t->f, node->f, sizeof t->f);
    t->call.f = t->f;
    if (rank->options->tuning && ir_op_class_of(node->op) == IR_CLASS_UPDATE)
        ir_update_values(rank->options->tuning, t->f);
}

static const char *kernels_of(const exec_rank *rank)
{
    return rank->options->kernels ? rank->options->kernels : "auto";
}

static void shape_compute(exec_rank *rank, exec_task *t)
{
    const ir_node *node = &rank->graph->nodes.at[t->task->node];
    const ir_nd_sig *sig = &rank->plan->strategy->sig[t->task->node];
    t->call.node = node;
    t->call.alike = exec_wants_alike(rank->graph);
    t->call.n_in = node->n_in;
    t->call.n_out = node->n_out;
    for (int32_t i = 0; i < node->n_in; i++)
        set_arg(rank, node->in[i], &sig->in[i], &t->call.in[i]);
    for (int32_t i = 0; i < node->n_out; i++)
        set_arg(rank, node->out[i], &sig->out[i], &t->call.out[i]);
    set_values(rank, node, t);
}

/* So many tiles that none takes much longer than transfers may wait: of the
 * task's amounts, not of its times, so that a plan has the same bits always. */
static int32_t tiles_of(const exec_rank *rank, const exec_task *t)
{
    enum { FLOP = 32 << 20, BYTES = 2 << 20, MOST = 1 << 12 };
    const ir_node *node = t->call.node;
    ir_work work;
    ir_node_flow(rank->graph, node, &rank->plan->strategy->sig[t->task->node],
                 rank->mesh, &work);
    const int64_t by_flop = ir_op_is_dense(node->op) ? work.flop / FLOP : 0;
    const int64_t by_bytes = (work.read_bytes + work.written_bytes) / BYTES;
    const int64_t n = by_flop > by_bytes ? by_flop : by_bytes;
    return (int32_t)(n < MOST ? n : MOST);
}

uint64_t exec_rank_kernels_digest(const exec_rank *rank)
{
    const exec_ran of = {.graph = rank->graph,
                         .plan = rank->plan,
                         .figures = rank->options->figures};
    return exec_kernels_digest(&of, kernels_of(rank));
}

/* Are there transfers that go on while kernels run? */
static bool moves_beside(const exec_rank *rank)
{
    return rank->world->size > 1 &&
           (plan_overlaps(rank->plan) || rank->plan->n_channels > 0);
}

static fs_status choose_kernel(const exec_rank *rank, exec_task *t, fs_err *err)
{
    const char *kernels = kernels_of(rank);
    const int32_t node = t->task->node;
    const exec_probe_piece piece = {
        rank->graph, node, rank->plan->strategy->sig[node], *rank->mesh};
    if (strcmp(kernels, "auto") != 0)
        return kernel_choose(&t->call, kernels, err, &t->kernel, &t->state);
    return exec_choose_kernel(rank->options->figures, &piece, &t->call, err,
                              &t->kernel, &t->state);
}

static fs_status prepare_compute(exec_rank *rank, exec_task *t, fs_err *err)
{
    const ir_node *node = t->call.node;
    t->is_loss = node->op == IR_OP_output && node->in[0] == rank->graph->loss;
    t->output = exec_rank_output_of(rank, node);
    if (node->op == IR_OP_output)
        return FS_OK;
    FS_TRY(choose_kernel(rank, t, err));
    if (moves_beside(rank))
        kernel_rest_between(&t->call, tiles_of(rank, t), &t->kernel, &t->state);
    int64_t need = t->kernel->scratch ? t->kernel->scratch(&t->call) : 0;
    if (need > t->task->scratch_bytes)
        return fs_fail(err, FS_FAULT,
                       "the %s kernel of '%s' needs %lld bytes of scratch, "
                       "the plan reserves %lld",
                       t->kernel->variant, node->name, (long long)need,
                       (long long)t->task->scratch_bytes);
    return FS_OK;
}

/* ---- LOAD ---- */

static void prepare_load(exec_rank *rank, const exec_data *data, exec_task *t)
{
    const ir_node *node = &rank->graph->nodes.at[t->task->node];
    const ir_tensor *tensor = &rank->graph->tensors.at[node->out[0]];
    const plan_register *r = &rank->role->registers[t->task->out[0]];
    t->job = fs_new(rank->arena, exec_job, 1);
    t->job->name = tensor->name;
    t->job->dtype = tensor->dtype;
    t->job->batch_axis = tensor->batch_axis;
    exec_rank_piece(rank, node->out[0], &r->sbp, &t->job->local,
                    t->job->offset);
    if (data->expect)
        rank->state_bytes += data->expect(data->ctx, tensor->name,
                                          &t->job->local, t->job->offset);
}

/* ---- BOX, SEND, RECV ---- */

static plan_algorithm algorithm_of(const exec_rank *rank, const exec_task *t)
{
    const plan_choice *choice = rank->options->choice;
    const int64_t role = rank->role - rank->plan->roles;
    return choice ? (plan_algorithm)choice->of[role][t - rank->tasks]
                  : PLAN_BY_direct;
}

/* Where its pieces lie, from the arena on. */
static const exec_transfer_part *
parts_of(const exec_rank *rank, const plan_task *task, const ir_mesh *mesh)
{
    const plan_register *registers = rank->role->registers;
    exec_transfer_part *parts =
        fs_new(rank->arena, exec_transfer_part, task->n_parts);
    for (int32_t i = 0; i < task->n_parts; i++) {
        const plan_part *part = &task->parts[i];
        parts[i] = (exec_transfer_part){
            plan_box_exchange(&rank->graph->tensors.at[part->tensor], mesh,
                              &part->box.from, &part->box.to),
            registers[task->in[i]].offset[0],
            registers[task->out[i]].offset[0]};
    }
    return parts;
}

static fs_status make_transfer(exec_rank *rank, exec_task *t,
                               const plan_exchange *x, const plan_stage *from,
                               const plan_stage *to, fs_err *err)
{
    const int32_t me = rank->world->rank;
    const bool gives = t->task->kind != PLAN_RECV;
    const bool takes = t->task->kind != PLAN_SEND;
    const exec_transfer_spec spec = {
        .exchange = x,
        .n_parts = t->task->n_parts,
        .parts = parts_of(rank, t->task, &from->mesh),
        .dtype = rank->graph->tensors.at[t->task->tensor].dtype,
        .gives_at = gives ? me - from->first_device : -1,
        .takes_at = takes ? me - to->first_device : -1,
        .first_giver = from->first_device,
        .first_taker = to->first_device,
        .algorithm = algorithm_of(rank, t),
        .tag = 1 + (t->task->kind == PLAN_BOX
                        ? t->task->comm
                        : rank->plan->n_comms + t->task->channel)};
    FS_TRY(
        exec_transfer_make(rank->world, &spec, rank->arena, err, &t->transfer));
    if (exec_transfer_scratch(t->transfer) > t->task->scratch_bytes)
        return fs_fail(err, FS_FAULT,
                       "%s needs %lld bytes of scratch, the plan reserves "
                       "%lld",
                       plan_task_name(rank->graph, t->task, rank->arena),
                       (long long)exec_transfer_scratch(t->transfer),
                       (long long)t->task->scratch_bytes);
    return FS_OK;
}

static fs_status prepare_box(exec_rank *rank, exec_task *t, fs_err *err)
{
    const plan_stage *stage =
        &rank->plan->strategy->stages[plan_task_stage(rank->role, t->task)];
    const plan_exchange x = {.shape =
                                 rank->graph->tensors.at[t->task->tensor].shape,
                             .from_mesh = stage->mesh,
                             .to_mesh = stage->mesh,
                             .from = t->task->box.from,
                             .to = t->task->box.to};
    return make_transfer(rank, t, &x, stage, stage, err);
}

static fs_status prepare_move(exec_rank *rank, exec_task *t, fs_err *err)
{
    const plan_cross cross = plan_task_cross(rank->graph, rank->plan, t->task);
    const plan_exchange x = plan_cross_exchange(&cross);
    return make_transfer(rank, t, &x, cross.from_stage, cross.to_stage, err);
}

static fs_status prepare_task(exec_rank *rank, const exec_data *data,
                              exec_task *t, fs_err *err)
{
    switch (t->task->kind) {
    case PLAN_COMPUTE:
        return prepare_compute(rank, t, err);
    case PLAN_LOAD:
        prepare_load(rank, data, t);
        return FS_OK;
    case PLAN_BOX:
        return prepare_box(rank, t, err);
    default:
        return prepare_move(rank, t, err);
    }
}

/* ---- the rank ---- */

/* One arena, touched pages only; mmap gives zeroes and page alignment. */
static fs_status map_memory(exec_rank *rank, fs_err *err)
{
    int64_t bytes = rank->role->arena_bytes;
    size_t size = bytes > 0 ? (size_t)bytes : 1;
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return fs_fail(err, FS_FAULT,
                       "rank %d: cannot map its arena of %lld bytes",
                       rank->world->rank, (long long)bytes);
    madvise(at, size, MADV_HUGEPAGE); /* only speed: may fail */
    rank->memory = at;
    return FS_OK;
}

/* Kernels run one at a time: the room of the one that wants most, and of what
 * libraries take for one, the most. */
static void share_workspace(exec_rank *rank)
{
    enum { ALIGN = 64 };
    const int32_t n = rank->role->n_tasks;
    int64_t most = 0;
    for (int32_t i = 0; i < n; i++) {
        const exec_task *t = &rank->tasks[i];
        const int64_t bytes =
            t->kernel ? kernel_workspace(t->kernel, t->state) : 0;
        const int64_t packing =
            t->kernel ? kernel_packing(t->kernel, t->state) : 0;
        most = bytes > most ? bytes : most;
        if (packing > rank->packing_bytes)
            rank->packing_bytes = packing;
    }
    if (most == 0)
        return;
    char *room = fs_alloc(rank->arena, (size_t)most + ALIGN, 1);
    room += (ALIGN - (uintptr_t)room % ALIGN) % ALIGN;
    for (int32_t i = 0; i < n; i++)
        rank->tasks[i].call.workspace = room;
}

static int64_t count_firings(const exec_rank *rank)
{
    int64_t n = 0;
    for (int32_t i = 0; i < rank->role->n_tasks; i++) {
        bool once = plan_phase_once(rank->role->tasks[i].phase);
        n += once ? 1 : rank->plan->micro_batches;
    }
    return n;
}

static void plan_watches(exec_rank *rank)
{
    const exec_options *options = rank->options;
    rank->watched = fs_new(rank->arena, double *, options->n_watch + 1);
    for (int32_t i = 0; i < options->n_watch; i++) {
        ir_nd_sbp sbp;
        exec_capture c = {.tensor = options->watch[i]};
        c.series = rank->watched[i] =
            fs_new(rank->arena, double, options->steps + 1);
        exec_rank_find(rank, c.tensor, &c.task, &c.reg, &sbp);
        if (c.reg >= 0 && c.task >= 0)
            rank->captures[rank->n_captures++] = c;
    }
}

/* Per-step tensors that are wanted are copied when they are made: later tasks
 * of the step may use their memory again. */
static void plan_captures(exec_rank *rank)
{
    const exec_options *options = rank->options;
    const int32_t n = options->n_fetch + options->n_watch;
    rank->captures = fs_new(rank->arena, exec_capture, n + 1);
    for (int32_t i = 0; i < options->n_fetch; i++) {
        ir_nd_sbp sbp;
        exec_capture c = {.tensor = options->fetch[i]};
        exec_rank_find(rank, c.tensor, &c.task, &c.reg, &sbp);
        if (c.reg < 0 || c.task < 0)
            continue;
        c.piece =
            fs_alloc(rank->arena, 1, (size_t)piece_bytes(rank, c.tensor, &sbp));
        rank->captures[rank->n_captures++] = c;
    }
    plan_watches(rank);
}

static void place_arg(exec_rank *rank, exec_task *t, int32_t reg, bool writes,
                      kernel_arg *arg)
{
    const plan_register *r = &rank->role->registers[reg];
    arg->data = rank->memory + r->offset[0];
    if (r->count > 1)
        t->turning[t->n_turning++] = (exec_turning){arg, reg, writes};
}

/* All that is the same in each firing. */
static void lay_out_firing(exec_rank *rank, int32_t task)
{
    exec_task *t = &rank->tasks[task];
    const plan_task *p = t->task;
    t->runs = p->kind == PLAN_COMPUTE;
    t->meets = p->comm >= 0 || p->channel >= 0;
    t->wakes = plan_actor_wakes_of(rank->actors, task);
    for (int32_t i = 0; i < rank->n_captures; i++)
        t->captured |= rank->captures[i].task == task;
    if (!t->kernel)
        return;
    t->turning = fs_new(rank->arena, exec_turning, p->n_in + p->n_out);
    for (int32_t i = 0; i < p->n_in; i++)
        place_arg(rank, t, p->in[i], false, &t->call.in[i]);
    for (int32_t i = 0; i < p->n_out; i++)
        place_arg(rank, t, p->out[i], true, &t->call.out[i]);
    t->call.scratch = rank->memory + rank->role->stream_scratch[p->stream];
    if (rank->world->size == 1)
        return;
    rank->rest[p->stream] = (exec_rest){rank, p->stream};
    t->call.rest = exec_rank_rest;
    t->call.rest_ctx = &rank->rest[p->stream];
}

fs_status exec_rank_begin(exec_world *world, const ir_graph *graph,
                          const plan *p, const exec_options *options,
                          fs_arena *arena, fs_err *err, exec_rank *rank)
{
    memset(rank, 0, sizeof *rank);
    rank->world = world;
    rank->graph = graph;
    rank->plan = p;
    rank->options = options;
    rank->arena = arena;
    rank->state_bytes = -(int64_t)fs_arena_bytes(arena);
    rank->role = plan_role_of_rank(p, world->rank);
    rank->mesh = plan_role_mesh(p, rank->role);
    plan_rank_coords(p, world->rank, rank->coords);
    return map_memory(rank, err);
}

static void keep_steps(exec_rank *rank)
{
    const bool endless = rank->options->steps >= EXEC_ENDLESS;
    rank->kept = endless ? EXEC_STEPS_KEPT : rank->options->steps;
    rank->ring = endless ? EXEC_STEPS_KEPT - 1 : -1;
    rank->firings = fs_new(rank->arena, int64_t, rank->kept + 1);
    rank->step_end_ns = fs_new(rank->arena, int64_t, rank->kept + 1);
    rank->losses = fs_new(rank->arena, double, rank->kept + 1);
}

fs_status exec_rank_open(exec_rank *rank, const exec_data *data, fs_err *err)
{
    const plan *p = rank->plan;
    const exec_options *options = rank->options;
    fs_arena *arena = rank->arena;
    rank->data = data;
    rank->actors =
        plan_actors_create_ordered(p, rank->role, options->steps, arena);
    rank->tasks = fs_new(arena, exec_task, rank->role->n_tasks);
    rank->flight = fs_new(arena, exec_flight, rank->role->n_streams);
    keep_steps(rank);
    rank->rest = fs_new(arena, exec_rest, rank->role->n_streams);
    rank->firings_per_step = count_firings(rank);
    rank->loader = exec_loader_create(rank->world, data, rank->role->n_streams);
    kernel_set_threads(1); /* a device is one core: exec.h */
    for (int32_t i = 0; i < rank->role->n_tasks; i++) {
        rank->tasks[i].task = &rank->role->tasks[i];
        if (rank->tasks[i].task->kind == PLAN_COMPUTE)
            shape_compute(rank, &rank->tasks[i]);
    }
    if (strcmp(kernels_of(rank), "auto") == 0)
        FS_TRY(exec_rank_choose_layouts(rank, err));
    for (int32_t i = 0; i < rank->role->n_tasks; i++)
        FS_TRY(prepare_task(rank, data, &rank->tasks[i], err));
    share_workspace(rank);
    plan_captures(rank);
    for (int32_t i = 0; i < rank->role->n_tasks; i++)
        lay_out_firing(rank, i);
    exec_rank_place_variables(rank);
    rank->state_bytes += (int64_t)fs_arena_bytes(arena);
    return FS_OK;
}

void exec_rank_join(exec_rank *rank)
{
    for (int32_t i = 0; i < rank->role->n_tasks; i++)
        if (rank->tasks[i].transfer)
            exec_transfer_join(rank->tasks[i].transfer);
}

int64_t exec_rank_workspace(const exec_rank *rank)
{
    enum {
        LIBRARIES = 16 << 20, /* kernels made at run time, their code's pages */
        PER_PEER = 2 << 20    /* message queues of MPI */
    };
    int32_t peers = rank->world->size - 1;
    return rank->state_bytes + rank->packing_bytes + LIBRARIES +
           (int64_t)peers * PER_PEER;
}

int64_t exec_rank_touched_bytes(const exec_rank *rank)
{
    enum { STRIDE = 4096 }; /* pages a call */
    unsigned char resident[STRIDE];
    int64_t page = sysconf(_SC_PAGESIZE), n = 0,
            bytes = rank->role->arena_bytes;
    for (int64_t at = 0; at < bytes; at += STRIDE * page) {
        int64_t left = bytes - at, part = STRIDE * page;
        part = left < part ? left : part;
        if (mincore(rank->memory + at, (size_t)part, resident) != 0)
            return bytes;
        for (int64_t i = 0; i < (part + page - 1) / page; i++)
            n += resident[i] & 1;
    }
    return n * page < bytes ? n * page : bytes;
}

void exec_rank_close(exec_rank *rank)
{
    exec_loader_destroy(rank->loader);
    for (int32_t i = 0; rank->tasks && i < rank->role->n_tasks; i++) {
        exec_task *t = &rank->tasks[i];
        if (t->kernel && t->kernel->release && t->state)
            t->kernel->release(t->state);
        if (t->transfer)
            exec_transfer_release(t->transfer);
    }
    int64_t bytes = rank->role->arena_bytes;
    if (rank->memory)
        munmap(rank->memory, bytes > 0 ? (size_t)bytes : 1);
}
