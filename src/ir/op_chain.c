/* chain: its rules are those of its steps. */
#include "config.h"
#include "ir/chain.h"

#include "ir/op_util.h"

#include <string.h>

bool ir_chain_takes(const ir_graph *graph, const ir_node *node)
{
    if (ir_op_class_of(node->op) != IR_CLASS_POINTWISE || node->n_out != 1 ||
        node->n_in == 0 || node->op == IR_OP_accumulate ||
        node->op == IR_OP_chain)
        return false;
    /* Integers may be divided by 0, which is told by position. */
    return (node->op != IR_OP_div && node->op != IR_OP_mod) ||
           ir_dtype_is_float(graph->tensors.at[node->out[0]].dtype);
}

int64_t ir_chain_digest(const ir_chain *chain, int32_t n_out)
{
    uint64_t h = fs_hash(0, chain->out, (size_t)n_out * sizeof *chain->out);
    for (int32_t k = 0; k < chain->n_steps; k++) {
        const ir_node *step = &chain->step[k];
        int64_t attr[IR_MAX_ATTR];
        const int32_t small[2] = {(int32_t)step->op, step->n_in};
        ir_structural_attrs(step, attr);
        h = fs_hash(h, small, sizeof small);
        h = fs_hash(h, step->in, (size_t)step->n_in * sizeof *step->in);
        h = fs_hash(h, attr, sizeof attr);
        h = fs_hash(h, step->f, sizeof step->f);
    }
    return (int64_t)h;
}

/* ---- shapes ---- */

static ir_io step_io(const ir_node *node, const ir_chain_types *types,
                     int32_t k)
{
    const ir_node *step = &node->chain->step[k];
    ir_io io = {0};
    for (int32_t i = 0; i < step->n_in; i++) {
        io.in[i] = types->shape[step->in[i]];
        io.in_dtype[i] = types->dtype[step->in[i]];
    }
    io.out[0] = types->shape[node->n_in + k];
    io.out_dtype[0] = types->dtype[node->n_in + k];
    return io;
}

static fs_status infer_step(const ir_node *node, int32_t k,
                            ir_chain_types *types, fs_err *err)
{
    const ir_node *step = &node->chain->step[k];
    const ir_op *op = ir_op_table[step->op];
    const int32_t made = node->n_in + k;
    fs_err why = {0};
    ir_io io = step_io(node, types, k);
    if (op->infer(step, &io, &why) != FS_OK)
        return fs_fail(err, FS_INVALID, "step %d (%s): %s", k, op->name,
                       why.text);
    types->shape[made] = io.out[0];
    types->dtype[made] = io.out_dtype[0];
    if (ir_shape_equal(&io.out[0], &types->shape[node->n_in]))
        return FS_OK;
    return fs_fail(err, FS_INVALID,
                   "step %d (%s) has another shape than the "
                   "first",
                   k, op->name);
}

fs_status ir_chain_infer(const ir_node *node, const ir_io *io, fs_err *err,
                         ir_chain_types *out)
{
    *out = (ir_chain_types){0};
    for (int32_t i = 0; i < node->n_in; i++) {
        out->shape[i] = io->in[i];
        out->dtype[i] = io->in_dtype[i];
    }
    for (int32_t k = 0; k < node->chain->n_steps; k++)
        FS_TRY(infer_step(node, k, out, err));
    return FS_OK;
}

static bool step_sound(const ir_node *node, int32_t k)
{
    const ir_node *step = &node->chain->step[k];
    if ((unsigned)step->op >= IR_OP_COUNT)
        return false;
    const ir_op *op = ir_op_table[step->op];
    bool sound = ir_op_class_of(step->op) == IR_CLASS_POINTWISE &&
                 step->op != IR_OP_chain && step->op != IR_OP_accumulate &&
                 op->n_out == 1 && step->n_in >= 1 &&
                 step->n_in >= op->min_in && step->n_in <= op->max_in;
    for (int32_t i = 0; sound && i < step->n_in; i++)
        sound = step->in[i] >= 0 && step->in[i] < node->n_in + k;
    return sound;
}

static fs_status check_program(const ir_node *node, fs_err *err)
{
    const ir_chain *chain = node->chain;
    if (!chain)
        return fs_fail(err, FS_INVALID, "a chain without its program");
    bool sound = chain->n_steps >= 1 && chain->n_steps <= IR_CHAIN_STEPS &&
                 node->n_out >= 1 && node->n_out <= IR_MAX_OUT;
    for (int32_t k = 0; sound && k < chain->n_steps; k++)
        sound = step_sound(node, k);
    for (int32_t i = 0; sound && i < node->n_out; i++) {
        sound = chain->out[i] >= node->n_in &&
                chain->out[i] < node->n_in + chain->n_steps;
        for (int32_t j = 0; j < i; j++)
            sound = sound && chain->out[i] != chain->out[j];
    }
    if (!sound)
        return fs_fail(err, FS_INVALID, "the program of the chain is unsound");
    if (node->i[0] != ir_chain_digest(chain, node->n_out))
        return fs_fail(err, FS_INVALID,
                       "attribute 0 is not the digest of the chain's program");
    return FS_OK;
}

static fs_status infer_chain(const ir_node *node, ir_io *io, fs_err *err)
{
    ir_chain_types types;
    FS_TRY(check_program(node, err));
    FS_TRY(ir_chain_infer(node, io, err, &types));
    for (int32_t i = 0; i < node->n_out; i++) {
        io->out[i] = types.shape[node->chain->out[i]];
        io->out_dtype[i] = types.dtype[node->chain->out[i]];
    }
    return FS_OK;
}

/* ---- signatures: those of the steps, joined on equal values ---- */

typedef struct joining {
    const ir_node *node;
    ir_sig_list step[IR_CHAIN_STEPS];
    ir_sbp value[IR_CHAIN_VALUES];
    bool set[IR_CHAIN_VALUES];
    fs_arena *arena;
    ir_sig_list *out;
} joining;

/* The signatures of step k alone, all B among them. */
static void list_step(joining *j, const ir_chain_types *types, int32_t k)
{
    const ir_node *step = &j->node->chain->step[k];
    const ir_op *op = ir_op_table[step->op];
    const ir_io io = step_io(j->node, types, k);
    ir_sig_add(j->arena, &j->step[k]);
    if (op->sbp)
        op->sbp(step, &io, j->arena, &j->step[k]);
}

/* Takes the signature of step k, or says that its inputs lie otherwise. Values
 * that get their place here are noted in *fresh. */
static bool take(joining *j, int32_t k, const ir_sig *sig, uint32_t *fresh)
{
    const ir_node *step = &j->node->chain->step[k];
    const int32_t made = j->node->n_in + k;
    for (int32_t i = 0; i < step->n_in; i++) {
        const int32_t v = step->in[i];
        if (j->set[v] && !ir_sbp_equal(j->value[v], sig->in[i]))
            return false;
        if (!j->set[v])
            *fresh |= 1u << v;
        j->set[v] = true;
        j->value[v] = sig->in[i];
    }
    *fresh |= 1u << made;
    j->set[made] = true;
    j->value[made] = sig->out[0];
    return true;
}

static void give_back(joining *j, uint32_t fresh)
{
    for (int32_t v = 0; v < IR_CHAIN_VALUES; v++)
        if (fresh >> v & 1)
            j->set[v] = false;
}

static void emit(const joining *j)
{
    const ir_node *node = j->node;
    ir_sig *sig = ir_sig_add(j->arena, j->out);
    for (int32_t i = 0; i < node->n_in; i++)
        sig->in[i] = j->value[i];
    for (int32_t i = 0; i < node->n_out; i++)
        sig->out[i] = j->value[node->chain->out[i]];
}

static void join(joining *j, int32_t k)
{
    if (k == j->node->chain->n_steps) {
        emit(j);
        return;
    }
    for (int32_t s = 0; s < j->step[k].n; s++) {
        uint32_t fresh = 0;
        if (take(j, k, &j->step[k].at[s], &fresh))
            join(j, k + 1);
        give_back(j, fresh);
    }
}

static void sbp_chain(const ir_node *node, const ir_io *io, fs_arena *arena,
                      ir_sig_list *out)
{
    ir_chain_types types;
    joining j = {.node = node, .arena = arena, .out = out};
    if (ir_chain_infer(node, io, NULL, &types) != FS_OK)
        return;
    for (int32_t k = 0; k < node->chain->n_steps; k++)
        list_step(&j, &types, k);
    join(&j, 0);
}

/* ---- work: all operations, but only what enters and leaves is moved ---- */

static ir_work step_work(const ir_node *node, const ir_chain_types *types,
                         int32_t k)
{
    const ir_node *step = &node->chain->step[k];
    const ir_io io = step_io(node, types, k);
    ir_work work = {0};
    if (ir_op_table[step->op]->work)
        ir_op_table[step->op]->work(step, &io, &work);
    return work;
}

static void work_chain(const ir_node *node, const ir_io *io, ir_work *out)
{
    ir_chain_types types;
    int64_t flop = 0;
    *out = (ir_work){0};
    if (ir_chain_infer(node, io, NULL, &types) != FS_OK)
        return;
    for (int32_t k = 0; k < node->chain->n_steps; k++)
        flop = ir_add_sat(flop, step_work(node, &types, k).flop);
    ir_work_moves(node, io, flop, out);
}

int64_t ir_chain_work(const ir_graph *graph, const ir_node *node,
                      const ir_nd_sig *sig, const ir_mesh *mesh, ir_work *work)
{
    ir_io io;
    ir_chain_types types;
    ir_node_local_io(graph, node, sig, mesh, &io);
    const fs_status status = ir_chain_infer(node, &io, NULL, &types);
    FS_ASSERT(status == FS_OK);
    for (int32_t k = 0; k < node->chain->n_steps; k++)
        work[k] = step_work(node, &types, k);
    const int64_t n = ir_shape_count(&types.shape[node->n_in]);
    return n / IR_CHAIN_TILE + (n % IR_CHAIN_TILE > 0);
}

const ir_op ir_op_chain = {.name = "chain",
                           .moves = true, /* its steps widen their slices */
                           .min_in = 1,
                           .max_in = IR_MAX_IN,
                           .n_out = IR_OUT_OF_NODE,
                           .infer = infer_chain,
                           .sbp = sbp_chain,
                           .work = work_chain};

/* ---- expansion ---- */

static const char *free_name(const ir_graph *g, fs_arena *arena,
                             const char *base, int32_t k)
{
    const char *name = fs_printf(arena, "%s/step%d", base, k);
    while (ir_graph_find(g, name) >= 0)
        name = fs_printf(arena, "%s_", name);
    return name;
}

/* Tensors of all values of a chain: its own where they enter or leave. */
static void name_values(const ir_graph *g, const ir_node *node, fs_arena *arena,
                        ir_graph *out, int32_t tensor[IR_CHAIN_VALUES])
{
    ir_io io;
    ir_chain_types types;
    ir_node_io(g, node, &io);
    ir_chain_infer(node, &io, NULL, &types);
    for (int32_t v = 0; v < node->n_in + node->chain->n_steps; v++)
        tensor[v] = v < node->n_in ? node->in[v] : -1;
    for (int32_t i = 0; i < node->n_out; i++)
        tensor[node->chain->out[i]] = node->out[i];
    for (int32_t k = 0; k < node->chain->n_steps; k++) {
        const int32_t v = node->n_in + k;
        const ir_tensor inner = {.name = free_name(g, arena, node->name, k),
                                 .dtype = types.dtype[v],
                                 .shape = types.shape[v],
                                 .next = -1,
                                 .again_of = -1,
                                 .batch_axis = -1};
        if (tensor[v] >= 0)
            continue;
        tensor[v] = out->tensors.n;
        fs_push(arena, &out->tensors, inner);
    }
}

static void push_steps(const ir_graph *g, const ir_node *node, fs_arena *arena,
                       ir_graph *out)
{
    int32_t tensor[IR_CHAIN_VALUES];
    name_values(g, node, arena, out, tensor);
    for (int32_t k = 0; k < node->chain->n_steps; k++) {
        ir_node step = node->chain->step[k];
        const int32_t made = tensor[node->n_in + k];
        for (int32_t i = 0; i < step.n_in; i++)
            step.in[i] = tensor[step.in[i]];
        step.out[0] = made;
        step.name = out->tensors.at[made].name;
        step.phase = node->phase;
        step.forward = node->forward;
        out->tensors.at[made].producer = out->nodes.n;
        out->tensors.at[made].slot = 0;
        fs_push(arena, &out->nodes, step);
    }
}

static void push_same(const ir_node *node, fs_arena *arena, ir_graph *out)
{
    for (int32_t i = 0; i < node->n_out; i++)
        out->tensors.at[node->out[i]].producer = out->nodes.n;
    fs_push(arena, &out->nodes, *node);
}

void ir_chain_expand(const ir_graph *g, fs_arena *arena, ir_graph *out,
                     int32_t **origin)
{
    FS_VEC(int32_t) from = {0};
    *out = *g;
    memset(&out->nodes, 0, sizeof out->nodes);
    memset(&out->tensors, 0, sizeof out->tensors);
    for (int32_t t = 0; t < g->tensors.n; t++)
        fs_push(arena, &out->tensors, g->tensors.at[t]);
    for (int32_t v = 0; v < g->nodes.n; v++) {
        const ir_node *node = &g->nodes.at[v];
        if (node->chain)
            push_steps(g, node, arena, out);
        else
            push_same(node, arena, out);
        while (from.n < out->nodes.n)
            fs_push(arena, &from, v);
    }
    *origin = from.at;
}
