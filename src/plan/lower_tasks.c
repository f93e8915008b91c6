#include "config.h"

#include "plan/lower.h"

#include <stdlib.h>

static int64_t register_bytes(const lowering *l, int32_t tensor,
                              const ir_nd_sbp *sbp, int32_t stage)
{
    const ir_tensor *t = &l->graph->tensors.at[tensor];
    ir_shape local =
        ir_largest_piece(&t->shape, sbp, &l->strategy->stages[stage].mesh);
    int64_t bytes = ir_shape_count(&local) * ir_dtype_bytes(t->dtype);

    return (bytes + PLAN_ALIGN - 1) / PLAN_ALIGN * PLAN_ALIGN;
}

static int32_t add_register(lowering *l, const lower_value *v, bool persistent)
{
    lower_role *role = &l->roles[v->stage];
    plan_register r = {.tensor = v->tensor,
                       .sbp = v->sbp,
                       .bytes = register_bytes(l, v->tensor, &v->sbp, v->stage),
                       .count = 1,
                       .per_step = !v->anew &&
                                   plan_tensor_per_step(l->graph, v->tensor),
                       .persistent = persistent,
                       .producer = -1};

    fs_push(l->scratch, &role->registers, r);
    return role->registers.n - 1;
}

static plan_task blank_task(plan_task_kind kind, plan_phase phase)
{
    return (plan_task){.kind = kind,
                       .phase = phase,
                       .node = -1,
                       .tensor = -1,
                       .comm = -1,
                       .channel = -1};
}

/* Room for its registers. */
static void take_registers(lowering *l, plan_task *task, int32_t n_in,
                           int32_t n_out)
{
    task->n_in = n_in;
    task->n_out = n_out;
    task->in = fs_new(l->arena, int32_t, n_in + n_out);
    task->out = task->in + n_in;
}

/* In the program of `stage`. */
static void add_task(lowering *l, int32_t stage, const plan_task *task,
                     const int32_t key[3])
{
    lower_task t = {*task, {key[0], key[1], key[2]}};

    t.task.chunk = l->pipe.chunk_of[stage];
    fs_push(l->scratch, &l->roles[plan_lower_home(l, stage)].tasks, t);
}

/* ---- places in the program ---- */

/* The node itself has key (v, 1, 0); what stands in front of it (v, 0, id).
 * Values have smaller ids than what is made from them. */
static void key_before(int32_t node, int32_t id, int32_t key[3])
{
    key[0] = node;
    key[1] = 0;
    key[2] = id;
}

static void key_at(int32_t node, int32_t key[3])
{
    key[0] = node;
    key[1] = 1;
    key[2] = 0;
}

/* A boxing runs right after its producer, so that communication starts early;
 * but not in a phase that does not need it yet, and without overlap late in
 * END, where waiting pieces would only hold memory. What is made anew for its
 * readers stands in front of the first. */
static plan_phase box_place(const lowering *l, lower_value *v, int32_t *before)
{
    plan_phase base = plan_lower_base_at(l, v->tensor);
    bool later = (base == PLAN_BEGIN && v->use.phase == PLAN_END) ||
                 (base == PLAN_FORWARD && (v->use.phase == PLAN_BACKWARD ||
                                           v->use.phase == PLAN_WEIGHT)) ||
                 (base == PLAN_BACKWARD && v->use.phase == PLAN_WEIGHT);

    if (v->sharing || later || (base == PLAN_END && !l->options->overlap)) {
        *before = v->use.node;
        v->at_stage = v->use.stage;
        return v->use.phase;
    }
    v->at_stage = l->values.at[v->parent].at_stage;
    *before = l->graph->tensors.at[v->tensor].producer + 1;
    return base;
}

/* ---- tasks of values ---- */

static int32_t find_channel(lowering *l, int32_t from, int32_t to,
                            plan_phase phase)
{
    bool late = phase >= PLAN_BACKWARD;

    for (int32_t c = 0; c < l->channels.n; c++)
        if (l->channels.at[c].from == from && l->channels.at[c].to == to &&
            l->channels.at[c].late == late)
            return c;
    fs_push(l->scratch, &l->channels, (lower_channel){from, to, late});
    return l->channels.n - 1;
}

/* Streams that nothing orders have communicators of their own. */
static int32_t find_comm(lowering *l, int32_t stage, const plan_task *task)
{
    const lower_comm due = {stage, task->box.axes,
                            plan_schedule_pass(l->pipe.schedule, task->phase),
                            l->options->overlap &&
                                plan_phase_once(task->phase)};

    for (int32_t c = 0; c < l->comms.n; c++)
        if (l->comms.at[c].stage == due.stage &&
            l->comms.at[c].axes == due.axes &&
            l->comms.at[c].pass == due.pass && l->comms.at[c].once == due.once)
            return c;
    fs_push(l->scratch, &l->comms, due);
    return l->comms.n - 1;
}

static int32_t root_register(const lowering *l, int32_t tensor)
{
    int32_t i = l->first_value[tensor];

    while (l->values.at[i].kind != LOWER_ROOT)
        i = l->values.at[i].next;
    return l->values.at[i].reg;
}

/* The register of a made value: its own, or the variable's that it updates. */
static int32_t target_register(lowering *l, const lower_value *v)
{
    if (v->variable >= 0)
        return root_register(l, l->graph->nodes.at[v->variable].out[0]);
    return add_register(l, v, false);
}

static void make_box(lowering *l, int32_t id)
{
    lower_value *v = &l->values.at[id];
    const lower_value *parent = &l->values.at[v->parent];
    const ir_tensor *tensor = &l->graph->tensors.at[v->tensor];
    int32_t before, key[3];
    plan_phase phase = box_place(l, v, &before);
    plan_task task = blank_task(PLAN_BOX, phase);
    bool legal = plan_box_step_make(tensor, &l->strategy->stages[v->stage].mesh,
                                    &parent->sbp, &v->sbp, &task.box);

    FS_ASSERT(legal); /* every path was checked when its value was made */
    v->reg = target_register(l, v);
    task.tensor = v->tensor;
    if (plan_box_is_collective(task.box.kind)) {
        task.comm = find_comm(l, v->at_stage, &task);
        task.scratch_bytes = plan_box_scratch(
            tensor, &l->strategy->stages[v->stage].mesh, &task.box);
    }
    take_registers(l, &task, 1, 1);
    task.in[0] = parent->reg;
    task.out[0] = v->reg;
    key_before(before, id, key);
    add_task(l, v->at_stage, &task, key);
}

/* Receiving tasks stand in the order of the sending ones: at the start of
 * their phase, because they have a stream of their own. */
static void make_move(lowering *l, int32_t id)
{
    lower_value *v = &l->values.at[id];
    const lower_value *parent = &l->values.at[v->parent];
    int32_t producer = l->graph->tensors.at[v->tensor].producer, key[3];
    plan_phase phase = plan_lower_base_at(l, v->tensor);
    plan_task send = blank_task(PLAN_SEND, phase), recv;
    const plan_cross cross = {
        &l->graph->tensors.at[v->tensor], &l->strategy->stages[parent->stage],
        &l->strategy->stages[v->stage], parent->sbp, v->sbp};

    v->reg = target_register(l, v);
    v->at_stage = v->use.stage;
    send.tensor = v->tensor;
    send.sbp = parent->sbp;
    send.peer_sbp = v->sbp;
    send.channel = find_channel(l, parent->at_stage, v->at_stage, phase);
    recv = send;
    recv.kind = PLAN_RECV;
    recv.sbp = v->sbp;
    recv.peer_sbp = parent->sbp;
    recv.scratch_bytes = plan_cross_scratch(&cross);
    take_registers(l, &send, 1, 0);
    take_registers(l, &recv, 0, 1);
    send.in[0] = parent->reg;
    recv.out[0] = v->reg;
    key_before(producer + 1, id, key);
    add_task(l, parent->at_stage, &send, key);
    key[0] = -1;
    key[1] = producer;
    add_task(l, v->at_stage, &recv, key);
}

static void make_load(lowering *l, int32_t id)
{
    lower_value *v = &l->values.at[id];
    int32_t node = l->graph->tensors.at[v->tensor].producer, key[3];
    plan_task task = blank_task(PLAN_LOAD, PLAN_FORWARD);

    v->reg = add_register(l, v, false);
    task.node = node;
    take_registers(l, &task, 0, 1);
    task.out[0] = v->reg;
    key_at(node, key);
    key[2] = id; /* one for each way in which it is made here */
    add_task(l, v->at_stage, &task, key);
}

static void make_root(lowering *l, int32_t id)
{
    lower_value *v = &l->values.at[id];
    const int32_t producer = l->graph->tensors.at[v->tensor].producer;
    const ir_node *node = &l->graph->nodes.at[producer];
    bool on_demand = node->op == IR_OP_input || node->op == IR_OP_constant;

    v->at_stage = on_demand ? v->use.stage : l->program[producer];
    if (v->view_of >= 0)
        v->reg = l->values.at[v->view_of].reg;
    else if (node->op == IR_OP_input)
        make_load(l, id);
    else if (node->op == IR_OP_variable || node->op == IR_OP_constant)
        v->reg = add_register(l, v, true);
    else
        v->reg = target_register(l, v); /* its task is the node's */
}

static void (*const make_value[])(lowering *, int32_t) = {
    [LOWER_ROOT] = make_root, [LOWER_BOX] = make_box, [LOWER_MOVE] = make_move};

/* ---- tasks of nodes ---- */

/* Nodes that are alike need as much. */
static int64_t scratch_of(lowering *l, int32_t v)
{
    const plan_strategy *s = l->strategy;
    const int32_t u = plan_node_like(s, v);

    if (u == v)
        l->scratch_bytes[v] =
            ir_work_of(&l->works, l->graph, &l->graph->nodes.at[v], &s->sig[v],
                       &s->stages[s->stage_of[v]].mesh)
                ->scratch_bytes;
    return l->scratch_bytes[u];
}

static void make_compute(lowering *l, int32_t v)
{
    const ir_node *node = &l->graph->nodes.at[v];
    const plan_strategy *s = l->strategy;
    plan_task task = blank_task(PLAN_COMPUTE, plan_lower_phase_at(l, v));
    int32_t key[3];

    task.node = v;
    task.scratch_bytes = scratch_of(l, v);
    take_registers(l, &task, node->n_in, node->n_out);
    for (int32_t i = 0; i < node->n_in; i++)
        task.in[i] = l->values.at[l->edge_value[s->first_edge[v] + i]].reg;
    for (int32_t o = 0; o < node->n_out; o++)
        task.out[o] = root_register(l, node->out[o]);
    key_at(v, key);
    add_task(l, l->program[v], &task, key);
}

/* ---- order ---- */

/* By sections (plan_section): chunks ascending on the way forward, descending
 * on the way back. */
typedef struct lower_place {
    int32_t at[5]; /* of these in lexicographic order */
    int32_t task;
} lower_place;

static lower_place place_of(const lower_task *t, int32_t task)
{
    const int32_t chunk = plan_phase_once(t->task.phase)  ? 0
                          : t->task.phase == PLAN_FORWARD ? t->task.chunk
                                                          : -t->task.chunk;

    return (lower_place){
        {(int32_t)t->task.phase, chunk, t->key[0], t->key[1], t->key[2]}, task};
}

static int compare_places(const void *a, const void *b)
{
    const lower_place *x = a, *y = b;

    for (int32_t k = 0; k < 5; k++)
        if (x->at[k] != y->at[k])
            return x->at[k] < y->at[k] ? -1 : 1;
    return 0;
}

/* What is sorted is small; tasks are not. */
static void order_tasks(lowering *l, lower_role *role)
{
    const int32_t n = role->tasks.n;
    fs_arena *scratch = fs_arena_create();
    lower_place *place = fs_new(scratch, lower_place, n);

    for (int32_t t = 0; t < n; t++)
        place[t] = place_of(&role->tasks.at[t], t);
    if (n > 0)
        qsort(place, (size_t)n, sizeof *place, compare_places);
    role->order = fs_new(l->scratch, int32_t, n);
    for (int32_t t = 0; t < n; t++)
        role->order[t] = place[t].task;
    fs_arena_destroy(scratch);
}

/* Room for tasks and registers: as many as values and nodes want, or more. */
static void make_room(lowering *l)
{
    const plan_strategy *s = l->strategy;
    int32_t *n = fs_new(l->scratch, int32_t, s->n_stages);

    for (int32_t id = 0; id < l->values.n; id++)
        n[l->values.at[id].stage]++;
    for (int32_t k = 0; k < s->n_stages; k++)
        fs_reserve(l->scratch, &l->roles[k].registers, n[k]);
    for (int32_t id = 0; id < l->values.n; id++)
        if (l->values.at[id].kind == LOWER_ROOT)
            n[l->values.at[id].stage]--;
        else if (l->values.at[id].kind == LOWER_MOVE)
            n[l->values.at[l->values.at[id].parent].stage]++;
    for (int32_t v = 0; v < l->graph->nodes.n; v++)
        if (!plan_lower_is_view(&l->graph->nodes.at[v]))
            n[plan_lower_home(l, l->program[v])]++;
    for (int32_t k = 0; k < s->n_stages; k++)
        fs_reserve(l->scratch, &l->roles[k].tasks, n[k]);
}

void plan_lower_tasks(lowering *l)
{
    make_room(l);
    for (int32_t id = 0; id < l->values.n; id++)
        make_value[l->values.at[id].kind](l, id);
    for (int32_t v = 0; v < l->graph->nodes.n; v++) {
        const ir_node *node = &l->graph->nodes.at[v];
        if (ir_op_class_of(node->op) != IR_CLASS_SOURCE &&
            !plan_lower_is_view(node))
            make_compute(l, v);
    }
    for (int32_t s = 0; s < l->strategy->n_stages; s++)
        order_tasks(l, &l->roles[s]);
}
