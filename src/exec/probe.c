/* Measures this machine with the kernels that will run on it: the cost model
 * interpolates between these points. */
#include "config.h"
#include "exec/calibrate.h"

#include "base/clock.h"
#include "exec/probe.h"
#include "exec/world.h"
#include "ir/element.h"
#include "kernels/kernel.h"

#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    MAX_BATCHES = 9,
    POOL_BYTES = 160 << 20,
    SPREAD_BYTES = 40 << 20 /* a step's working set: what a kernel reads was
                               pushed out of the core's caches since */
};

typedef struct probing {
    exec_world *world; /* whose ranks measure the same at the same time */
    const exec_probe_options *options;
    fs_arena *arena;
    char *pool; /* of plausible values */
    int64_t pool_bytes;
    exec_samples samples;
    int32_t first_pass, pass;
    int32_t told;          /* samples that the caller knows of */
    FS_VEC(uint64_t) seen; /* keys of samples, those of runs before too */
    int64_t budget_ns;     /* per call */
    int64_t told_ns;       /* when it was told what is measured */
    int32_t n_large;       /* calls that the pool has no room for */
} probing;

/* ---- one kernel ---- */

static int64_t arg_bytes(const kernel_arg *arg)
{
    int64_t bytes = ir_shape_count(&arg->shape) * ir_dtype_bytes(arg->dtype);
    return (bytes + 255) / 256 * 256;
}

/* Rows that every table has, and classes that every prediction is of: the
 * shortest end of a tensor of floats. */
static int64_t common_rows(const kernel_call *call)
{
    int64_t rows = 10;
    for (int32_t i = 0; i < call->n_in; i++) {
        const ir_shape *shape = &call->in[i].shape;
        if (!ir_dtype_is_float(call->in[i].dtype) || shape->rank == 0)
            continue;
        rows = shape->dim[0] < rows ? shape->dim[0] : rows;
        rows = shape->dim[shape->rank - 1] < rows ? shape->dim[shape->rank - 1]
                                                  : rows;
    }
    return rows > 0 ? rows : 1;
}

/* Positive floats: their logarithms and roots exist. Integers are valid rows
 * of every table. */
static void fill_arg(kernel_arg *arg, int64_t rows)
{
    int64_t n = ir_shape_count(&arg->shape);
    for (int64_t i = 0; i < n; i++) {
        if (ir_dtype_is_float(arg->dtype))
            ir_element_set_real(arg->dtype, arg->data, i,
                                0.25 + (double)(i * 37 % 64) / 128);
        else
            ir_element_set_int(arg->dtype, arg->data, i,
                               arg->dtype == IR_BOOL ? i % 3 : i * 7 % rows);
    }
}

/* A call and where its buffers stand in the pool: `copies` times, `stride`
 * bytes apart, so that runs after each other do not find their data in the
 * first caches, as they would not in a step. */
typedef struct placed_call {
    kernel_call call;
    int64_t in_at[IR_MAX_IN], out_at[IR_MAX_OUT], scratch_at, stride;
    int64_t workspace; /* bytes before the first copy: one room, as in a run */
    int32_t copies, next;
} placed_call;

void exec_piece_call(const exec_probe_piece *piece, kernel_call *call)
{
    const ir_node *node = &piece->graph->nodes.at[piece->node];
    ir_io io;
    ir_node_local_io(piece->graph, node, &piece->sig, &piece->mesh, &io);
    memset(call, 0, sizeof *call);
    call->node = node;
    call->f = node->f;
    call->n_in = node->n_in;
    call->n_out = node->n_out;
    for (int32_t i = 0; i < node->n_in; i++) {
        call->in[i].shape = io.in[i];
        call->in[i].dtype = io.in_dtype[i];
    }
    for (int32_t i = 0; i < node->n_out; i++) {
        call->out[i].shape = io.out[i];
        call->out[i].dtype = io.out_dtype[i];
    }
    kernel_lay_blocked(call);
}

static void turn_to_copy(const probing *p, placed_call *c, int32_t copy)
{
    char *base = p->pool + c->workspace + copy * c->stride;
    for (int32_t i = 0; i < c->call.n_in; i++)
        c->call.in[i].data = base + c->in_at[i];
    for (int32_t i = 0; i < c->call.n_out; i++)
        c->call.out[i].data = base + c->out_at[i];
    c->call.scratch = base + c->scratch_at;
    c->call.workspace = p->pool;
}

/* Optimizers write in place, as they do in a run. False: too big. */
static bool place_call(const probing *p, const kernel *k, const void *state,
                       placed_call *c)
{
    kernel_call *call = &c->call;
    int64_t at = 0, scratch = k->scratch ? k->scratch(call) : 0;
    bool in_place = ir_op_class_of(call->node->op) == IR_CLASS_UPDATE;
    for (int32_t i = 0; i < call->n_in; i++) {
        c->in_at[i] = at;
        at += arg_bytes(&call->in[i]);
    }
    const int64_t in_bytes = at;
    for (int32_t i = 0; i < call->n_out; i++) {
        c->out_at[i] = at;
        at += arg_bytes(&call->out[i]);
        if (in_place) /* w, g, m, v -> w', m', v' */
            c->out_at[i] = c->in_at[i ? i + 1 : 0];
    }
    c->scratch_at = at;
    c->stride = at + (scratch + 255) / 256 * 256;
    c->workspace = (kernel_workspace(k, state) + 255) / 256 * 256;
    c->copies = (int32_t)(SPREAD_BYTES / c->stride) + 1;
    if (c->workspace + c->copies * c->stride > p->pool_bytes)
        return false;
    turn_to_copy(p, c, 0);
    for (int32_t i = 0; i < call->n_in; i++)
        fill_arg(&call->in[i], common_rows(call));
    for (int32_t i = 1; i < c->copies; i++)
        memcpy(p->pool + c->workspace + i * c->stride, p->pool + c->workspace,
               (size_t)in_bytes);
    return true;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static fs_status time_runs(const probing *p, const kernel *k, void *state,
                           placed_call *c, int32_t n, fs_err *err,
                           double *seconds)
{
    int64_t start = fs_now_ns();
    for (int32_t i = 0; i < n; i++) {
        turn_to_copy(p, c, c->next);
        c->next = c->next + 1 < c->copies ? c->next + 1 : 0;
        FS_TRY(k->run(state, &c->call, err));
    }
    *seconds = (double)(fs_now_ns() - start) * 1e-9 / n;
    return FS_OK;
}

static fs_status warm_up(const probing *p, const kernel *k, void *state,
                         placed_call *c, fs_err *err, double *one)
{
    FS_TRY(time_runs(p, k, state, c, 1, err, one));
    return time_runs(p, k, state, c, 1, err, one);
}

/* Mean over batches of at least 20 us but the slowest one, after runs that warm
 * up, of which one took out->seconds: as runs tell what their tasks take
 * (measure.c). All ranks begin together. */
static fs_status time_kernel(const probing *p, const kernel *k, void *state,
                             placed_call *c, fs_err *err, hw_sample *out)
{
    const double one = out->seconds;
    double seconds[MAX_BATCHES];
    int32_t n = one < 20e-6 ? (int32_t)(20e-6 / (one + 1e-8)) + 1 : 1;
    exec_world_barrier(p->world);
    int64_t start = fs_now_ns();
    out->count = 0;
    while (out->count < MAX_BATCHES &&
           (out->count < 2 || fs_now_ns() - start < p->budget_ns))
        FS_TRY(time_runs(p, k, state, c, n, err, &seconds[out->count++]));
    qsort(seconds, (size_t)out->count, sizeof *seconds, compare_doubles);
    out->count--;
    out->seconds = 0;
    for (int32_t i = 0; i < out->count; i++)
        out->seconds += seconds[i] / out->count;
    return FS_OK;
}

exec_probe_piece exec_task_piece(const ir_graph *graph, const plan *p,
                                 const plan_role *role, const plan_task *task)
{
    const plan_stage *stage = &p->strategy->stages[plan_task_stage(role, task)];
    return (exec_probe_piece){graph, task->node, p->strategy->sig[task->node],
                              stage->mesh};
}

bool exec_next_piece(const ir_graph *graph, const plan *p, exec_piece_at *at,
                     exec_probe_piece *out)
{
    for (; at->role < p->n_roles; at->role++, at->task = 0) {
        const plan_role *role = &p->roles[at->role];
        while (at->task < role->n_tasks) {
            const plan_task *task = &role->tasks[at->task++];
            if (task->kind != PLAN_COMPUTE)
                continue;
            *out = exec_task_piece(graph, p, role, task);
            return true;
        }
    }
    return false;
}

bool exec_piece_sample(const exec_probe_piece *piece, hw_sample *out)
{
    const ir_node *node = &piece->graph->nodes.at[piece->node];
    const ir_op_class class = ir_op_class_of(node->op);
    ir_work work = {0};
    if (class == IR_CLASS_SOURCE || class == IR_CLASS_VIEW)
        return false;
    ir_node_work(piece->graph, node, &piece->sig, &piece->mesh, &work);
    *out = (hw_sample){
        .what = ir_op_table[node->op]->name,
        .form = ir_node_form(piece->graph, node, &piece->sig, &piece->mesh),
        .work = ir_op_is_dense(node->op)
                    ? (double)work.flop
                    : (double)(work.read_bytes + work.written_bytes)};
    return out->work > 0;
}

static uint64_t key_of(const hw_sample *s)
{
    const uint64_t of = fs_hash_text(s->form, s->variant ? s->variant : "");
    return fs_mix(of ^ fs_mix((uint64_t)s->pass + 1));
}

/* All ranks see the same. */
static bool seen_before(probing *p, const hw_sample *s)
{
    const uint64_t key = key_of(s);
    for (int32_t i = 0; i < p->seen.n; i++)
        if (p->seen.at[i] == key)
            return true;
    fs_push(p->arena, &p->seen, key);
    return false;
}

/* The mean over ranks. */
static void keep_sample(probing *p, hw_sample sample)
{
    sample.seconds /= exec_world_size(p->world);
    exec_world_reduce(p->world, IR_PSUM, IR_F64, &sample.seconds, 1);
    exec_world_bcast(p->world, &sample.seconds, sizeof sample.seconds, 0);
    fs_push(p->arena, &p->samples, sample);
}

/* FS_NO: it does not take this call. */
static fs_status choose(const kernel_call *call, const char *variant,
                        fs_err *err, const kernel **k, void **state)
{
    fs_err none = {0};
    if (!variant)
        return kernel_choose(call, "auto", err, k, state);
    const fs_status status = kernel_choose(call, variant, &none, k, state);
    if (status != FS_OK && status != FS_INVALID)
        *err = none;
    return status == FS_INVALID ? FS_NO : status;
}

/* A kernel that took several times as long as another one of its form in each
 * of two passes will not be chosen: further passes need not tell by how much.
 * Rank 0 knows of those before this run too. */
static bool is_settled(const probing *p, const hw_sample *of)
{
    const double several = 3;
    double own_s = INFINITY, best_s = INFINITY;
    int32_t n = 0;
    for (int32_t i = 0; i < p->samples.n; i++) {
        const hw_sample *s = &p->samples.at[i];
        if (s->form != of->form || s->in_step || !s->variant)
            continue;
        best_s = fmin(best_s, s->seconds);
        if (strcmp(s->variant, of->variant) != 0)
            continue;
        own_s = fmin(own_s, s->seconds);
        n++;
    }
    return n >= 2 && own_s > several * best_s;
}

/* All ranks see the same. */
static bool is_wanted(probing *p, const hw_sample *sample)
{
    bool settled = false;
    if (seen_before(p, sample))
        return false;
    if (!sample->variant)
        return true;
    if (exec_world_rank(p->world) == 0)
        settled = is_settled(p, sample);
    exec_world_bcast(p->world, &settled, sizeof settled, 0);
    return !settled;
}

static fs_status time_placed(probing *p, const kernel *k, void *state,
                             const kernel_call *call, fs_err *err,
                             hw_sample *sample)
{
    placed_call c = {.call = *call};
    if (!place_call(p, k, state, &c)) {
        p->n_large++;
        return FS_OK;
    }
    FS_TRY(exec_world_agree(
        p->world, warm_up(p, k, state, &c, err, &sample->seconds), err));
    FS_TRY(exec_world_agree(p->world, time_kernel(p, k, state, &c, err, sample),
                            err));
    keep_sample(p, *sample);
    return FS_OK;
}

/* variant: NULL where there is no choice. FS_NO: it does not take this call. */
static fs_status probe_variant(probing *p, const kernel_call *call,
                               const char *variant, const hw_sample *of,
                               fs_err *err)
{
    const kernel *k = NULL;
    void *state = NULL;
    hw_sample sample = *of;
    sample.variant = variant;
    sample.pass = p->pass;
    fs_status status = choose(call, variant, err, &k, &state);
    if (status == FS_NO)
        return status; /* by its shapes: on all ranks */
    status = exec_world_agree(p->world, status, err);
    if (status == FS_OK && is_wanted(p, &sample))
        status = time_placed(p, k, state, call, err, &sample);
    if (k && k->release && state)
        k->release(state);
    return status;
}

/* To rank 0's caller, several times a second. */
static void tell_what(probing *p, const char *what)
{
    const int64_t often_ns = 200000000, now_ns = fs_now_ns();
    if (!p->options->tell || exec_world_rank(p->world) != 0 ||
        now_ns - p->told_ns < often_ns)
        return;
    p->options->tell(p->options->ctx, p->pass - p->first_pass, what);
    p->told_ns = now_ns;
}

/* The reference is the last: of much work nobody needs to know how long its
 * plain loops take, where another takes the call. */
static fs_status probe_variants(probing *p, const kernel_call *call,
                                const hw_sample *of, fs_err *err)
{
    const double much = 1 << 21;
    bool taken = false;
    int32_t n;
    const kernel *const *all = kernel_candidates(call, &n);
    for (int32_t i = 0; i < n; i++) {
        if (i == n - 1 && taken && of->work > much)
            break;
        const fs_status status =
            probe_variant(p, call, all[i]->variant, of, err);
        if (status != FS_OK && status != FS_NO)
            return status;
        taken |= status == FS_OK;
    }
    return FS_OK;
}

static bool has_choice(const kernel_call *call)
{
    int32_t n;
    kernel_candidates(call, &n);
    return n > 1;
}

static fs_status probe_piece(probing *p, const exec_probe_piece *piece,
                             fs_err *err)
{
    kernel_call call;
    hw_sample sample;
    if (!exec_piece_sample(piece, &sample))
        return FS_OK;
    tell_what(p, sample.what);
    exec_piece_call(piece, &call);
    if (has_choice(&call))
        return probe_variants(p, &call, &sample, err);
    return p->options->n_plans ? FS_OK
                               : probe_variant(p, &call, NULL, &sample, err);
}

/* What was measured since is the caller's to keep, should the rest be broken
 * off. Where that fails all ranks end: the others would wait for rank 0. */
static fs_status tell_samples(probing *p, fs_err *err)
{
    const int32_t n = p->samples.n - p->told;
    fs_status status = FS_OK;
    if (!n)
        return FS_OK;
    if (p->options->found && exec_world_rank(p->world) == 0)
        status =
            p->options->found(p->options->ctx, p->samples.at + p->told, n, err);
    p->told = p->samples.n;
    return exec_world_agree(p->world, status, err);
}

/* Takes the graph. */
static fs_status probe_graph(probing *p, ir_graph *g, fs_err *err)
{
    if (!g)
        return err->status;
    fs_status status = g->err.status;
    if (status != FS_OK)
        *err = g->err;
    for (int32_t v = 0; status == FS_OK && v < g->nodes.n; v++) {
        const exec_probe_piece whole = {.graph = g, .node = v};
        status = probe_piece(p, &whole, err);
    }
    ir_graph_destroy(g);
    if (status == FS_OK)
        status = tell_samples(p, err);
    return status;
}

/* ---- links ---- */

static void pass_on(exec_world *world, bool send, void *data, int bytes)
{
    exec_request request;
    int peer = 1 - world->rank;
    if (send)
        exec_send_bytes(world, data, bytes, peer, EXEC_TAG_PING, &request);
    else
        exec_recv_bytes(world, data, bytes, peer, EXEC_TAG_PING, &request);
    exec_wait(world, 1, &request);
}

/* Lower quartile of half a round trip, the best of some batches: it takes the
 * system a while to give the two ranks a core each. */
static double time_ping(exec_world *world, void *data, int bytes,
                        int32_t batches)
{
    enum { ROUNDS = 41 };
    double seconds[ROUNDS], best = 1e9;
    for (int32_t batch = 0; batch < batches; batch++) {
        for (int32_t i = 0; i < ROUNDS; i++) {
            int64_t start = fs_now_ns();
            pass_on(world, world->rank == 0, data, bytes);
            pass_on(world, world->rank == 1, data, bytes);
            seconds[i] = (double)(fs_now_ns() - start) * 0.5e-9;
        }
        qsort(seconds, ROUNDS, sizeof *seconds, compare_doubles);
        if (seconds[ROUNDS / 4] < best)
            best = seconds[ROUNDS / 4];
    }
    return best;
}

/* Two ranks that share a core would measure the scheduler: each takes a core of
 * its own while it measures. */
static void take_core(int32_t rank, cpu_set_t *usual)
{
    CPU_ZERO(usual);
    if (sched_getaffinity(0, sizeof *usual, usual) != 0 || CPU_COUNT(usual) < 2)
        return;
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int cpu = 0, seen = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, usual) && seen++ == rank)
            CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
}

static void give_core_back(const cpu_set_t *usual)
{
    if (CPU_COUNT(usual) > 0)
        sched_setaffinity(0, sizeof *usual, usual);
}

/* Of so many bytes, once a pass. */
static void probe_message(probing *p, void *data, int bytes)
{
    const hw_sample what = {.what = HW_PING "/2",
                            .form = fs_mix((uint64_t)bytes + 1),
                            .work = bytes,
                            .pass = p->pass};
    hw_sample sample = what;
    if (seen_before(p, &what))
        return;
    /* the smallest is all latency, which the system's moods are most of */
    sample.seconds = time_ping(p->world, data, bytes, bytes == 1 ? 20 : 3);
    sample.count = 1;
    fs_push(p->arena, &p->samples, sample);
}

static fs_status probe_link(probing *p, fs_err *err)
{
    exec_world *world = p->world;
    if (world->size < 2)
        return FS_OK;
    void *data = malloc(1 << 22);
    if (!data)
        return fs_fail(err, FS_FAULT, "out of memory");
    memset(data, 1, 1 << 22);
    if (world->rank < 2) {
        cpu_set_t usual;
        take_core(world->rank, &usual);
        probe_message(p, data, 1);
        for (int bytes = 1 << 14; bytes <= 1 << 22; bytes *= 4)
            probe_message(p, data, bytes);
        give_core_back(&usual);
    }
    free(data);
    exec_world_barrier(world);
    return tell_samples(p, err);
}

/* ---- all kernels ---- */

static fs_status probe_blocks(probing *p, fs_err *err)
{
    static const probe_block sizes[] = {
        {1, 16, 16, 2, 32, IR_ADAMW},    {1, 64, 64, 2, 128, IR_ADAMW},
        {2, 128, 128, 4, 256, IR_ADAMW}, {8, 128, 128, 4, 256, IR_ADAMW},
        {8, 128, 256, 8, 512, IR_ADAMW}, {2, 64, 64, 2, 256, IR_SGD},
        {1, 64, 256, 4, 512, IR_SGD},    {1, 32, 512, 8, 256, IR_SGD},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        FS_TRY(probe_graph(p, exec_probe_block(&sizes[i], err), err));
    return FS_OK;
}

static fs_status probe_dense(probing *p, fs_err *err)
{
    static const int64_t size[][3] = {
        {32, 32, 32},       {128, 128, 128}, {256, 256, 256},  {512, 512, 512},
        {1024, 1024, 1024}, {1024, 64, 64},  {2048, 256, 128}, {64, 1024, 64}};
    for (size_t i = 0; i < sizeof size / sizeof *size; i++)
        FS_TRY(probe_graph(
            p, exec_probe_matmul(size[i][0], size[i][1], size[i][2]), err));
    static const int64_t image[][3] = {{1, 4, 8}, {2, 8, 16}, {8, 16, 28}};
    for (size_t i = 0; i < sizeof image / sizeof *image; i++)
        FS_TRY(probe_graph(
            p, exec_probe_image(image[i][0], image[i][1], image[i][2], err),
            err));
    return FS_OK;
}

/* x + y over 3 x 32 MiB: beyond the caches that one core can count on. */
static fs_status probe_memory(probing *p, fs_err *err)
{
    ir_graph *g = ir_graph_create("probe");
    int64_t dim[1] = {EXEC_MEMORY_PROBE};
    ir_shape shape = ir_shape_make(1, dim);
    int32_t x = ir_input(g, "x", IR_F32, shape, -1);
    int32_t y = ir_input(g, "y", IR_F32, shape, -1);
    ir_mark_output(g, ir_binary(g, IR_OP_add, x, y));
    return probe_graph(p, g, err);
}

/* On all ranks at once, each with a plan of its own. */
static fs_status probe_firing(probing *p, fs_err *err)
{
    hw_sample sample = {.what = HW_FIRING "/1",
                        .form = fs_hash_text(0, HW_FIRING),
                        .work = 1,
                        .pass = p->pass,
                        .count = 1};
    if (seen_before(p, &sample))
        return FS_OK;
    FS_TRY(exec_probe_firing(err, &sample.seconds));
    keep_sample(p, sample);
    return tell_samples(p, err);
}

/* Forms of all roles: all ranks measure each, whose role it may be. */
static fs_status probe_plan(probing *p, const exec_probe_plan *of, fs_err *err)
{
    exec_piece_at at = {0};
    exec_probe_piece piece;
    while (exec_next_piece(of->graph, of->plan, &at, &piece))
        FS_TRY(probe_piece(p, &piece, err));
    return tell_samples(p, err);
}

static fs_status probe_plans(probing *p, fs_err *err)
{
    for (int32_t i = 0; i < p->options->n_plans; i++)
        FS_TRY(probe_plan(p, &p->options->plans[i], err));
    return FS_OK;
}

static fs_status probe_pass(probing *p, fs_err *err)
{
    if (p->options->n_plans)
        return probe_plans(p, err);
    FS_TRY(probe_memory(p, err));
    FS_TRY(probe_blocks(p, err));
    FS_TRY(probe_dense(p, err));
    FS_TRY(probe_firing(p, err));
    return probe_link(p, err);
}

/* What rank 0 knows: others may have found more in the database since, and all
 * must measure the same. */
static void take_known(probing *p)
{
    int32_t n = 0;
    for (int32_t i = 0; i < p->options->n_known; i++) {
        fs_push(p->arena, &p->samples, p->options->known[i]);
        if (!p->options->known[i].in_step)
            fs_push(p->arena, &p->seen, key_of(&p->options->known[i]));
    }
    p->told = p->samples.n;
    p->pass = p->options->first_pass;
    n = p->seen.n;
    exec_world_bcast(p->world, &p->pass, sizeof p->pass, 0);
    p->first_pass = p->pass;
    exec_world_bcast(p->world, &n, sizeof n, 0);
    uint64_t *keys = fs_new(p->arena, uint64_t, n + 1);
    if (exec_world_rank(p->world) == 0)
        for (int32_t i = 0; i < n; i++)
            keys[i] = p->seen.at[i];
    exec_world_bcast(p->world, keys, n * (int64_t)sizeof *keys, 0);
    p->seen.n = 0;
    for (int32_t i = 0; i < n; i++)
        fs_push(p->arena, &p->seen, keys[i]);
}

/* Ranks that outnumber the cores. */
static fs_status probe_turns(exec_world *world,
                             const exec_probe_options *options, hw_group *group,
                             fs_arena *arena, fs_err *err)
{
    probing p = {.world = world, .options = options, .arena = arena};
    take_known(&p);
    for (const int32_t end = p.pass + options->passes; p.pass < end; p.pass++) {
        hw_sample sample = exec_turn_sample(world, arena);
        sample.pass = p.pass;
        if (seen_before(&p, &sample))
            continue;
        sample.seconds = exec_probe_turn(world);
        fs_push(arena, &p.samples, sample);
        FS_TRY(tell_samples(&p, err));
    }
    exec_probe_take_turn(p.samples.at, p.samples.n, group, arena);
    return FS_OK;
}

/* A plan's op needs what the plan's arena has room for, and its kernel's own
 * room beside. These ranks are as many as there are cores, the plan's may be
 * few: together they take half of the host's memory at most, of which each
 * knows the same. */
static int64_t pool_bytes(const exec_world *world, const hw_group *group,
                          const exec_probe_options *options)
{
    const double host =
        group->device.memory_bytes * (double)group->devices_per_node;
    int64_t most = POOL_BYTES;
    int64_t share = (int64_t)(host / 2 / world->size);
    if (share < POOL_BYTES)
        share = POOL_BYTES;
    for (int32_t i = 0; i < options->n_plans; i++) {
        const plan *p = options->plans[i].plan;
        for (int32_t r = 0; r < p->n_roles; r++)
            if (2 * p->roles[r].arena_bytes > most)
                most = 2 * p->roles[r].arena_bytes;
    }
    return most < share ? most : share;
}

static void tell_large(const probing *p)
{
    char text[32];
    if (p->n_large && exec_world_rank(p->world) == 0)
        fs_warn("not measured: %d times a kernel that wants more than %s, a "
                "rank's share of half of this host's memory",
                p->n_large, fs_human_bytes(text, (double)p->pool_bytes));
}

static fs_status probe_kernels(exec_world *world,
                               const exec_probe_options *options,
                               hw_group *group, fs_arena *arena, fs_err *err)
{
    probing p = {.world = world,
                 .options = options,
                 .arena = arena,
                 .pool_bytes = pool_bytes(world, group, options),
                 .budget_ns = 2000000};
    void *pool = mmap(NULL, (size_t)p.pool_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    fs_status status = FS_OK;
    if (pool == MAP_FAILED)
        status = fs_fail(err, FS_FAULT, "the probe cannot map %lld bytes",
                         (long long)p.pool_bytes);
    FS_TRY(exec_world_agree(world, status, err));
    /* as a rank's arena */
    madvise(pool, (size_t)p.pool_bytes, MADV_HUGEPAGE);
    p.pool = pool;
    take_known(&p);
    exec_world_barrier(world); /* all know the same before any says more */
    const int32_t end = p.pass + options->passes;
    for (; status == FS_OK && p.pass < end; p.pass++)
        status = probe_pass(&p, err);
    munmap(pool, (size_t)p.pool_bytes);
    tell_large(&p);
    if (status != FS_OK)
        return status;
    exec_probe_take(p.samples.at, p.samples.n, group, arena);
    return FS_OK;
}

const char *exec_versions(fs_arena *arena)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int n;
    MPI_Get_library_version(text, &n);
    text[strcspn(text, ",\n")] = '\0';
    return fs_printf(arena, "%s, %s", kernel_library(), text);
}

fs_status exec_probe(exec_world *world, const exec_probe_options *options,
                     hw_cluster *cluster, fs_arena *arena, fs_err *err)
{
    hw_group *group = &cluster->groups[0];
    hw_link *link = &group->inner;
    if (world->size > world->cores) {
        FS_TRY(probe_turns(world, options, group, arena, err));
        hw_cluster_finish(cluster);
        return FS_OK;
    }
    kernel_set_threads(1); /* a device is one core: exec.h */
    FS_TRY(probe_kernels(world, options, group, arena, err));
    if (link->bandwidth_bps <= 0) {
        link->name = "shared memory";
        link->latency_s = 5e-6;
        link->bandwidth_bps = 2e9;
        link->on_cores = true;
    }
    if (cluster->outer.bandwidth_bps <= 0) {
        cluster->outer = *link;
        cluster->outer.name = "none";
    }
    hw_cluster_finish(cluster);
    return FS_OK;
}
