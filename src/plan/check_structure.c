#include "config.h"
#include "plan/check_parts.h"
#include "plan/schedule.h"

#include <inttypes.h>

/* Indices, sizes and lists: what every later part relies on. Names of tasks
 * cannot be printed here, for the indices they come from may be wrong. */

#define BAD(c, ...) plan_check_add((c), PLAN_FINDING_STRUCTURE, __VA_ARGS__)

static bool within(int32_t i, int32_t n)
{
    return i >= 0 && i < n;
}

static bool sbp_sound(const ir_nd_sbp *sbp)
{
    for (int32_t i = 0; i < IR_MAX_MESH; i++)
        if (sbp->at[i].kind > IR_PMIN || sbp->at[i].axis >= IR_MAX_RANK ||
            (sbp->at[i].kind != IR_S &&
             (sbp->at[i].before || sbp->at[i].after)))
            return false;
    return true;
}

/* ---- strategy ---- */

static bool mesh_sound(const plan_checking *c, const plan_stage *stage)
{
    int64_t size = 1;
    if (stage->mesh.n < 0 || stage->mesh.n > IR_MAX_MESH)
        return false;
    for (int32_t i = 0; i < stage->mesh.n; i++) {
        size *= stage->mesh.dim[i];
        if (size < 1 || size > c->cluster->n_devices)
            return false;
    }
    return stage->first_device >= 0 &&
           stage->first_device <= c->cluster->n_devices - size;
}

static int32_t edges_of(const ir_node *node)
{
    return node->op == IR_OP_variable ? 1 : node->n_in;
}

static void check_node(plan_checking *c, int32_t v)
{
    const plan_strategy *s = c->p->strategy;
    const ir_node *node = &c->graph->nodes.at[v];
    if (!within(s->stage_of[v], s->n_stages))
        BAD(c, "node %s stands in stage %d of %d", node->name, s->stage_of[v],
            s->n_stages);
    for (int32_t i = 0; i < node->n_in; i++)
        if (!sbp_sound(&s->sig[v].in[i]))
            BAD(c, "node %s: input %d has no valid SBP", node->name, i);
    for (int32_t i = 0; i < node->n_out; i++)
        if (!sbp_sound(&s->sig[v].out[i]))
            BAD(c, "node %s: output %d has no valid SBP", node->name, i);
    if (s->first_edge[v + 1] - s->first_edge[v] != edges_of(node)) {
        BAD(c, "node %s: edge list does not fit its inputs", node->name);
        return;
    }
    for (int32_t e = s->first_edge[v]; e < s->first_edge[v + 1]; e++) {
        bool sound = s->edge[e].n >= 0 && s->edge[e].n <= PLAN_MAX_BOXING &&
                     s->edge[e].cross >= 0;
        for (int32_t i = 0; sound && i <= s->edge[e].n; i++)
            sound = sbp_sound(&s->edge[e].at[i]);
        if (!sound)
            BAD(c, "node %s: boxing of input %d is no path", node->name,
                e - s->first_edge[v]);
    }
}

static bool check_strategy_sizes(plan_checking *c)
{
    const plan_strategy *s = c->p->strategy;
    int32_t before = c->report->n;
    if (s->n_nodes != c->graph->nodes.n || s->n_stages < 1 ||
        s->first_edge[0] != 0) {
        BAD(c,
            "the strategy is for %d nodes in %d stages, the graph has %d "
            "nodes",
            s->n_nodes, s->n_stages, c->graph->nodes.n);
        return false;
    }
    if (s->micro_batches < 1 || s->micro_batches > PLAN_MAX_MICRO_BATCHES ||
        s->micro_batches != c->p->micro_batches)
        BAD(c, "the plan has %d micro-batches, its strategy %d",
            c->p->micro_batches, s->micro_batches);
    if (s->batch != c->graph->batch)
        BAD(c,
            "the strategy is for %" PRId64 " samples per step, the graph "
            "for %" PRId64,
            s->batch, c->graph->batch);
    if (!plan_schedule_find(s->schedule))
        BAD(c, "the schedule %.40s is unknown; there are: %s", s->schedule,
            plan_schedule_names());
    for (int32_t i = 0; i < s->n_stages; i++)
        if (!mesh_sound(c, &s->stages[i]))
            BAD(c, "stage %d does not fit on %d devices", i,
                c->cluster->n_devices);
    for (int32_t v = 0; v < s->n_nodes && !plan_check_full(c); v++)
        check_node(c, v);
    return c->report->n == before;
}

/* Stages on devices that the schedule gives them; their program is known. */
static bool check_pipeline(plan_checking *c)
{
    const plan_strategy *s = c->p->strategy;
    fs_err err = {0};
    c->pipe = plan_pipeline_of(s->stages, s->n_stages, s->schedule,
                               s->micro_batches, c->scratch);
    if (plan_pipeline_check(&c->pipe, s->stages, &err) == FS_OK)
        return true;
    BAD(c, "%s", err.text);
    return false;
}

/* ---- communicators, channels, the ranks of roles ---- */

/* One per pass of the schedule and axes of a stage, and one for what runs once
 * per step on a stream of its own. */
static void check_comms(plan_checking *c)
{
    const plan *p = c->p;
    const plan_strategy *s = p->strategy;
    const int32_t most =
        plan_schedule_find(s->schedule)->passes * (plan_overlaps(p) ? 2 : 1);
    int32_t *last = fs_new(c->scratch, int32_t, s->n_stages << IR_MAX_MESH);
    int32_t *alike = fs_new(c->scratch, int32_t, s->n_stages << IR_MAX_MESH);
    for (int32_t i = 0; i < p->n_comms; i++) {
        const int32_t stage = p->comms[i].stage;
        const uint32_t axes = p->comms[i].axes;
        if (!within(stage, s->n_stages) || axes == 0 ||
            axes >> s->stages[stage].mesh.n != 0) {
            BAD(c, "communicator %d names axes %s of stage %d", i,
                plan_axes_text(axes, c->scratch), stage);
            continue;
        }
        int32_t at = (int32_t)((uint32_t)stage << IR_MAX_MESH | axes);
        if (++alike[at] > most)
            BAD(c, "communicators %d and %d are both of axes %s of stage %d",
                last[at], i, plan_axes_text(axes, c->scratch), stage);
        last[at] = i;
    }
}

static void check_channels(plan_checking *c)
{
    const plan *p = c->p;
    const plan_strategy *s = p->strategy;
    for (int32_t i = 0; i < p->n_channels; i++) {
        int32_t from = p->channels[i].from_stage, to = p->channels[i].to_stage;
        if (!within(from, s->n_stages) || !within(to, s->n_stages) ||
            from == to)
            BAD(c, "channel %d from stage %d to %d: needs two stages", i, from,
                to);
    }
}

/* A role has all the stages that lie on its devices. */
static bool stages_sound(plan_checking *c, int32_t role)
{
    const plan_role *r = &c->p->roles[role];
    const plan_pipeline *pipe = &c->pipe;
    int32_t n = r->n_chunks, place;
    if (n < 1 || !within(r->stages[0], pipe->n_stages)) {
        BAD(c, "role %d has none of the %d stages", role, pipe->n_stages);
        return false;
    }
    place = pipe->role_of[r->stages[0]];
    bool sound = n == pipe->first[place + 1] - pipe->first[place];
    for (int32_t i = 0; sound && i < n; i++)
        sound = r->stages[i] == pipe->stage[pipe->first[place] + i];
    if (!sound)
        BAD(c,
            "role %d: its stages are not those that share the devices of "
            "stage %d",
            role, r->stages[0]);
    return sound;
}

static void check_ranks(plan_checking *c)
{
    const plan *p = c->p;
    const plan_strategy *s = p->strategy;
    int64_t next = 0, devices = 0;
    for (int32_t i = 0; i < c->pipe.n_roles; i++)
        devices +=
            ir_mesh_size(&s->stages[c->pipe.stage[c->pipe.first[i]]].mesh);
    if (p->n_roles < 1)
        BAD(c, "the plan has no roles");
    for (int32_t i = 0; i < p->n_roles; i++) {
        const plan_role *role = &p->roles[i];
        if (!stages_sound(c, i))
            return;
        const plan_stage *stage = &s->stages[role->stages[0]];
        int64_t end = (int64_t)role->first_rank + role->n_ranks;
        if (role->n_ranks < 1 || role->first_rank != next ||
            role->first_rank < stage->first_device ||
            end > stage->first_device + ir_mesh_size(&stage->mesh)) {
            BAD(c,
                "role %d: ranks %d to %" PRId64 " leave a gap, overlap or "
                "lie outside stage %d",
                i, role->first_rank, end - 1, role->stages[0]);
            return;
        }
        next = end;
    }
    if (next != devices)
        BAD(c,
            "the stages have %" PRId64 " devices, the roles %" PRId64 " ranks",
            devices, next);
}

/* ---- one role ---- */

typedef struct role_check {
    plan_checking *c;
    int32_t index;
    const plan_role *role;
    int32_t *reads; /* [registers] tasks that read it, the producer apart */
} role_check;

#define BAD_TASK(x, t, ...)                                                    \
    bad_task((x), (t), fs_printf((x)->c->scratch, __VA_ARGS__))
#define BAD_REGISTER(x, r, ...)                                                \
    bad_register((x), (r), fs_printf((x)->c->scratch, __VA_ARGS__))

static void bad_task(const role_check *x, int32_t t, const char *why)
{
    BAD(x->c, "role %d, task %d: %s", x->index, t, why);
}

static void bad_register(const role_check *x, int32_t r, const char *why)
{
    BAD(x->c, "role %d, register %d: %s", x->index, r, why);
}

static bool is_micro(plan_phase phase)
{
    return !plan_phase_once(phase);
}

static bool box_sound(const plan_box_step *box)
{
    return box->kind < PLAN_BOX_KINDS && sbp_sound(&box->from) &&
           sbp_sound(&box->to);
}

/* What `tensor` and `box` say of a bucket follows from its parts. */
static bool sums_up(const plan_task *task)
{
    int64_t in = 0, out = 0;
    for (int32_t i = 0; i < task->n_parts; i++) {
        const plan_box_step *box = &task->parts[i].box;
        if (__builtin_add_overflow(in, box->bytes_in, &in) ||
            __builtin_add_overflow(out, box->bytes_out, &out))
            return false;
    }
    return task->tensor == task->parts[0].tensor && in == task->box.bytes_in &&
           out == task->box.bytes_out;
}

/* Its parts go the same way: what one message can carry. */
static bool part_sound(const role_check *x, const plan_task *task, int32_t i)
{
    const plan_part *part = &task->parts[i];
    const ir_tensor *tensors = x->c->graph->tensors.at;
    return within(part->tensor, x->c->graph->tensors.n) &&
           box_sound(&part->box) && part->box.kind == task->box.kind &&
           part->box.axes == task->box.axes && part->box.bytes_in >= 0 &&
           part->box.bytes_out >= 0 &&
           tensors[part->tensor].dtype ==
               tensors[task->parts[0].tensor].dtype &&
           plan_box_reduction(&part->box) ==
               plan_box_reduction(&task->parts[0].box);
}

static bool parts_sound(const role_check *x, const plan_task *task)
{
    const int32_t axes = x->c->p->strategy->stages[x->role->stages[0]].mesh.n;
    if (task->n_parts == 0)
        return true;
    if (task->n_parts < 2 || task->kind != PLAN_BOX ||
        !plan_phase_once(task->phase) || task->box.kind >= PLAN_BOX_KINDS ||
        !plan_box_fuses(task->box.kind) || task->box.axes == 0 ||
        task->box.axes >> axes != 0)
        return false;
    for (int32_t i = 0; i < task->n_parts; i++)
        if (!part_sound(x, task, i))
            return false;
    return sums_up(task);
}

/* Node, tensor, communicator and channel by the kind of task. */
static bool subject_sound(const role_check *x, int32_t t)
{
    const plan_task *task = &x->role->tasks[t];
    const plan *p = x->c->p;
    bool on_node = task->kind == PLAN_COMPUTE || task->kind == PLAN_LOAD;
    bool on_channel = task->kind == PLAN_SEND || task->kind == PLAN_RECV;
    bool on_comm = task->kind == PLAN_BOX && task->box.kind < PLAN_BOX_KINDS &&
                   plan_box_is_collective(task->box.kind);
    if (on_node ? !within(task->node, x->c->graph->nodes.n)
                : !within(task->tensor, x->c->graph->tensors.n))
        return false;
    if (on_channel ? !within(task->channel, p->n_channels)
                   : task->channel != -1)
        return false;
    if (on_comm ? !within(task->comm, p->n_comms) : task->comm != -1)
        return false;
    if (task->kind == PLAN_BOX)
        return box_sound(&task->box);
    return !on_channel || (sbp_sound(&task->sbp) && sbp_sound(&task->peer_sbp));
}

/* Counts of registers by the kind of task. */
static bool arity_sound(const role_check *x, int32_t t)
{
    const plan_task *task = &x->role->tasks[t];
    const ir_node *node;
    switch (task->kind) {
    case PLAN_COMPUTE:
        node = &x->c->graph->nodes.at[task->node];
        return task->n_in == node->n_in && task->n_out == node->n_out;
    case PLAN_LOAD:
        return task->n_in == 0 && task->n_out == 1;
    case PLAN_BOX:
        return task->n_in == plan_task_n_parts(task) &&
               task->n_out == task->n_in;
    case PLAN_SEND:
        return task->n_in == 1 && task->n_out == 0;
    default:
        return task->n_in == 0 && task->n_out == 1;
    }
}

/* A line goes to the role's own stage, and along the axis that the box says. */
static bool line_sound(const role_check *x, int32_t t)
{
    const plan_task *task = &x->role->tasks[t];
    const plan *p = x->c->p;
    const int32_t stage = plan_task_stage(x->role, task);
    if (task->comm >= 0)
        return p->comms[task->comm].stage == stage &&
               p->comms[task->comm].axes == task->box.axes;
    if (task->kind == PLAN_SEND)
        return p->channels[task->channel].from_stage == stage;
    if (task->kind == PLAN_RECV)
        return p->channels[task->channel].to_stage == stage;
    return task->kind != PLAN_COMPUTE || /* inputs are loaded where read */
           plan_role_has_stage(x->role, p->strategy->stage_of[task->node]);
}

static bool registers_sound(const role_check *x, int32_t t)
{
    const plan_task *task = &x->role->tasks[t];
    const int32_t parts = task->n_parts;
    if (task->n_in < 0 || task->n_in > (parts ? parts : IR_MAX_IN) ||
        task->n_out < 0 || task->n_out > (parts ? parts : IR_MAX_OUT))
        return false;
    for (int32_t i = 0; i < task->n_in; i++)
        if (!within(task->in[i], x->role->n_registers))
            return false;
    for (int32_t i = 0; i < task->n_out; i++)
        if (!within(task->out[i], x->role->n_registers))
            return false;
    return true;
}

static bool has_section(const role_check *x, int32_t t)
{
    const plan_task *task = &x->role->tasks[t];
    return task->phase < PLAN_PHASES && within(task->chunk, x->role->n_chunks);
}

static bool check_task(const role_check *x, int32_t t)
{
    const plan_task *task = &x->role->tasks[t];
    if (task->kind >= PLAN_TASK_KINDS || task->phase >= PLAN_PHASES)
        BAD_TASK(x, t, "unknown kind or phase");
    else if (!within(task->chunk, x->role->n_chunks))
        BAD_TASK(x, t, "chunk %d of %d", task->chunk, x->role->n_chunks);
    else if (task->phase == PLAN_WEIGHT && !x->c->pipe.schedule->splits)
        BAD_TASK(x, t, "the schedule %s has no slots for weights alone",
                 x->c->pipe.schedule->name);
    else if (t > 0 && has_section(x, t - 1) &&
             plan_task_section(x->role, task) <
                 plan_task_section(x->role, &x->role->tasks[t - 1]))
        BAD_TASK(x, t, "tasks are not sorted by phase and chunk");
    else if (!within(task->stream, x->role->n_streams))
        BAD_TASK(x, t, "stream %d of %d", task->stream, x->role->n_streams);
    else if (!parts_sound(x, task))
        BAD_TASK(x, t,
                 "is a bucket whose parts are not of one kind, dtype and "
                 "reduction, once per step");
    else if (!registers_sound(x, t))
        BAD_TASK(x, t, "names a register that does not exist");
    else if (!subject_sound(x, t))
        BAD_TASK(x, t,
                 "its node, tensor, SBP, communicator or channel does "
                 "not fit its kind");
    else if (!arity_sound(x, t))
        BAD_TASK(x, t, "%d inputs and %d outputs do not fit what it does",
                 task->n_in, task->n_out);
    else if (!line_sound(x, t))
        BAD_TASK(x, t, "belongs to another stage or axis");
    else if (task->scratch_bytes < 0)
        BAD_TASK(x, t, "negative scratch");
    else
        return true;
    return false;
}

static bool has(const int32_t *list, int32_t n, int32_t value)
{
    for (int32_t i = 0; i < n; i++)
        if (list[i] == value)
            return true;
    return false;
}

static const char *task_name(const role_check *x, int32_t t)
{
    return t < 0
               ? "nobody"
               : plan_task_name(x->c->graph, &x->role->tasks[t], x->c->scratch);
}

/* Its messages are prepared once: what they carry lies in one place. */
static void check_one_buffer(const role_check *x, int32_t t, int32_t reg)
{
    if (x->role->tasks[t].n_parts > 0 && x->role->registers[reg].count != 1)
        BAD_TASK(x, t, "is a bucket with register %d, which has %d buffers",
                 reg, x->role->registers[reg].count);
}

/* Every output has this task as its producer; every input counts as a reader.
 * Rates: what changes per micro-batch is neither made nor read per step. */
static void check_wires(const role_check *x, int32_t t)
{
    const plan_task *task = &x->role->tasks[t];
    for (int32_t i = 0; i < task->n_out; i++) {
        const plan_register *r = &x->role->registers[task->out[i]];
        check_one_buffer(x, t, task->out[i]);
        if (r->producer != t || has(task->out, i, task->out[i]))
            BAD_TASK(x, t, "%s writes register %d (%s), which %s makes",
                     task_name(x, t), task->out[i],
                     x->c->graph->tensors.at[r->tensor].name,
                     task_name(x, r->producer));
        if (!r->per_step && !r->persistent && !is_micro(task->phase))
            BAD_TASK(x, t,
                     "writes register %d, which changes per micro-batch, "
                     "once per step",
                     task->out[i]);
    }
    for (int32_t i = 0; i < task->n_in; i++) {
        int32_t reg = task->in[i];
        const plan_register *r = &x->role->registers[reg];
        check_one_buffer(x, t, reg);
        if (!r->per_step && !r->persistent && !is_micro(task->phase))
            BAD_TASK(x, t,
                     "reads register %d, which changes per micro-batch, "
                     "once per step",
                     reg);
        if (r->producer == t && !r->persistent)
            BAD_TASK(x, t, "reads register %d, which it makes itself", reg);
        if (r->producer != t && !has(task->in, i, reg))
            x->reads[reg]++;
    }
}

static bool check_register(const role_check *x, int32_t r)
{
    const plan_register *g = &x->role->registers[r];
    int32_t before = x->c->report->n;
    if (!within(g->tensor, x->c->graph->tensors.n) || !sbp_sound(&g->sbp))
        BAD_REGISTER(x, r, "no such tensor or SBP");
    if (g->count < 1 || g->bytes < 0)
        BAD_REGISTER(x, r, "%d buffers of %" PRId64 " bytes", g->count,
                     g->bytes);
    if (g->producer != -1 && !within(g->producer, x->role->n_tasks))
        BAD_REGISTER(x, r, "producer %d of %d tasks", g->producer,
                     x->role->n_tasks);
    if (g->producer == -1 && !g->persistent)
        BAD_REGISTER(x, r,
                     "nobody produces it and it is no variable or "
                     "constant");
    for (int32_t i = 0; i < g->n_consumers; i++)
        if (!within(g->consumers[i], x->role->n_tasks) ||
            (i > 0 && g->consumers[i] <= g->consumers[i - 1]))
            BAD_REGISTER(x, r, "consumers are not ascending tasks");
    return x->c->report->n == before;
}

static void check_lists(const role_check *x, int32_t r)
{
    const plan_register *g = &x->role->registers[r];
    const plan_task *tasks = x->role->tasks;
    if (g->producer >= 0 &&
        !has(tasks[g->producer].out, tasks[g->producer].n_out, r))
        BAD_REGISTER(x, r, "its producer, task %d, does not write it",
                     g->producer);
    for (int32_t i = 0; i < g->n_consumers; i++) {
        const plan_task *reader = &tasks[g->consumers[i]];
        if (g->consumers[i] == g->producer || !has(reader->in, reader->n_in, r))
            BAD_REGISTER(x, r,
                         "task %d stands among its consumers and is "
                         "none",
                         g->consumers[i]);
    }
    if (g->n_consumers != x->reads[r])
        BAD_REGISTER(x, r, "%d tasks read it, %d stand among its consumers",
                     x->reads[r], g->n_consumers);
}

static void check_bytes(const role_check *x)
{
    const plan_role *role = x->role;
    int64_t total = 0;
    bool sound = role->arena_bytes >= 0;
    for (int32_t k = 0; k < PLAN_BYTES_KINDS; k++)
        sound = sound && role->bytes[k] >= 0 &&
                !__builtin_add_overflow(total, role->bytes[k], &total);
    if (!sound || total != role->arena_bytes)
        BAD(x->c,
            "role %d: bytes by kind do not add up to the arena of "
            "%" PRId64 " bytes",
            x->index, role->arena_bytes);
}

static void check_role(plan_checking *c, int32_t index)
{
    const plan_role *role = &c->p->roles[index];
    role_check x = {c, index, role, NULL};
    int32_t before = c->report->n;
    for (int32_t r = 0; r < role->n_registers && !plan_check_full(c); r++)
        check_register(&x, r);
    for (int32_t t = 0; t < role->n_tasks && !plan_check_full(c); t++)
        check_task(&x, t);
    if (c->report->n != before)
        return;
    x.reads = fs_new(c->scratch, int32_t, role->n_registers);
    for (int32_t t = 0; t < role->n_tasks; t++)
        check_wires(&x, t);
    for (int32_t r = 0; r < role->n_registers; r++)
        check_lists(&x, r);
    check_bytes(&x);
    plan_check_program(c, index);
    plan_check_streams(c, index);
}

void plan_check_structure(plan_checking *c)
{
    if (!check_strategy_sizes(c) || !check_pipeline(c))
        return;
    check_comms(c);
    check_channels(c);
    check_ranks(c);
    if (c->report->n > 0)
        return;
    for (int32_t r = 0; r < c->p->n_roles && !plan_check_full(c); r++)
        check_role(c, r);
}
