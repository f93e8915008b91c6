#include "config.h"

#include "plan/lower.h"

/* ---- phases ---- */

bool plan_lower_is_view(const ir_node *node)
{
    return ir_op_class_of(node->op) == IR_CLASS_VIEW && node->n_out > 0;
}

static plan_phase phase_of(ir_phase phase)
{
    return phase == IR_FORWARD    ? PLAN_FORWARD
           : phase == IR_BACKWARD ? PLAN_BACKWARD
                                  : PLAN_END;
}

plan_phase plan_lower_base(const ir_graph *graph, int32_t tensor)
{
    const ir_node *node = &graph->nodes.at[graph->tensors.at[tensor].producer];
    plan_phase own = phase_of(node->phase);

    if (node->op == IR_OP_variable || node->op == IR_OP_constant)
        return PLAN_BEGIN;
    if (node->op == IR_OP_accumulate)
        return PLAN_END;
    if (!plan_lower_is_view(node) || own == PLAN_END)
        return own;
    if (!plan_tensor_per_step(graph, node->in[0]))
        return own;
    return plan_lower_base(graph, node->in[0]);
}

plan_phase plan_lower_phase(const ir_graph *graph, const ir_node *node)
{
    /* Outputs are read as soon as they are there, whatever phase the graph
     * gave them: an update may overwrite a variable later on. */
    if (node->op == IR_OP_output)
        return plan_lower_base(graph, node->in[0]);
    return phase_of(node->phase);
}

static bool is_source(const ir_node *node)
{
    return ir_op_class_of(node->op) == IR_CLASS_SOURCE;
}

/* Inputs and constants are made anew on each stage that reads them. */
static bool made_anywhere(const ir_node *node)
{
    return node->op == IR_OP_input || node->op == IR_OP_constant;
}

/* ---- gradients of weights ---- */

/* Is it a variable, or made of variables and constants alone? */
static bool *find_of_weights(const lowering *l)
{
    const ir_graph *graph = l->graph;
    bool *of_weights = fs_new(l->scratch, bool, graph->tensors.n);

    for (int32_t v = 0; v < graph->nodes.n; v++) {
        const ir_node *node = &graph->nodes.at[v];
        bool all = node->n_in > 0, some = node->op == IR_OP_variable;
        for (int32_t i = 0; i < node->n_in; i++) {
            const ir_tensor *t = &graph->tensors.at[node->in[i]];
            bool constant = graph->nodes.at[t->producer].op == IR_OP_constant;
            some = some || of_weights[node->in[i]];
            all = all && (of_weights[node->in[i]] || constant);
        }
        for (int32_t o = 0; o < node->n_out; o++)
            of_weights[node->out[o]] =
                some && (all || node->op == IR_OP_variable);
    }
    return of_weights;
}

/* A backward node whose schedule may wait: it reads no weights, and nothing but
 * such nodes of its stage reads it; so it leads to sums of gradients only. */
static bool may_wait(const lowering *l, int32_t v, const bool *of_weights,
                     const ir_uses *uses)
{
    const ir_node *node = &l->graph->nodes.at[v];
    const int32_t *stage_of = l->strategy->stage_of;
    bool waits = node->phase == IR_BACKWARD;

    for (int32_t i = 0; i < node->n_in && waits; i++)
        waits = !of_weights[node->in[i]];
    for (int32_t o = 0; o < node->n_out && waits; o++)
        for (int32_t u = uses->first[node->out[o]];
             u < uses->first[node->out[o] + 1] && waits; u++) {
            int32_t reader = uses->list[u];
            waits = node->op == IR_OP_accumulate ||
                    l->graph->nodes.at[reader].op == IR_OP_output ||
                    l->weight[reader];
            waits = waits && (node->op == IR_OP_accumulate ||
                              stage_of[reader] == stage_of[v]);
        }
    return waits;
}

static void find_weights(lowering *l)
{
    ir_uses uses = ir_graph_uses(l->graph, l->scratch);
    bool *of_weights = find_of_weights(l);

    for (int32_t v = l->graph->nodes.n - 1; v >= 0; v--)
        l->weight[v] = may_wait(l, v, of_weights, &uses);
}

plan_phase plan_lower_base_at(const lowering *l, int32_t tensor)
{
    plan_phase base = plan_lower_base(l->graph, tensor);

    return base == PLAN_BACKWARD &&
                   l->weight[l->graph->tensors.at[tensor].producer]
               ? PLAN_WEIGHT
               : base;
}

plan_phase plan_lower_phase_at(const lowering *l, int32_t v)
{
    const ir_node *node = &l->graph->nodes.at[v];

    if (node->op == IR_OP_output)
        return plan_lower_base_at(l, node->in[0]);
    return l->weight[v] ? PLAN_WEIGHT : plan_lower_phase(l->graph, node);
}

/* ---- programs ---- */

/* The stage on the same devices that is as late as `wanted`, or else the last.
 */
static int32_t as_late(const lowering *l, int32_t stage, int32_t wanted)
{
    const plan_pipeline *pipe = &l->pipe;
    int32_t role = pipe->role_of[stage], at = pipe->first[role];

    while (at < pipe->first[role + 1] - 1 &&
           (pipe->stage[at] < stage || pipe->stage[at] < wanted))
        at++;
    return pipe->stage[at];
}

/* The last stage on the same devices that is no later than `wanted`, or else
 * the first. */
static int32_t as_early(const lowering *l, int32_t stage, int32_t wanted)
{
    const plan_pipeline *pipe = &l->pipe;
    int32_t role = pipe->role_of[stage], at = pipe->first[role + 1] - 1;

    while (at > pipe->first[role] && pipe->stage[at] > wanted)
        at--;
    return pipe->stage[at];
}

static bool is_backward(const lowering *l, int32_t node)
{
    return l->graph->nodes.at[node].phase == IR_BACKWARD;
}

static int32_t input_from(const lowering *l, int32_t v, int32_t i)
{
    return l->graph->tensors.at[l->graph->nodes.at[v].in[i]].producer;
}

/* What is read runs with as late a stage as who reads it. */
static void make_late(lowering *l, int32_t v)
{
    for (int32_t i = 0; i < l->graph->nodes.at[v].n_in; i++) {
        int32_t from = input_from(l, v, i);
        if (is_backward(l, from))
            l->program[from] = as_late(l, l->program[from], l->program[v]);
    }
}

/* Who reads what runs with an earlier stage, for its devices have none as late,
 * runs with as early a one. */
static void make_early(lowering *l, int32_t v)
{
    for (int32_t i = 0; i < l->graph->nodes.at[v].n_in; i++) {
        int32_t from = input_from(l, v, i);
        if (is_backward(l, from) && l->program[from] < l->program[v])
            l->program[v] = as_early(l, l->program[v], l->program[from]);
    }
}

/* The backward pass runs the last stage first. What it makes on an earlier
 * stage for a later one (a gradient with several addends) runs with a stage of
 * its devices that is as late; are they of none, its reader as early. */
void plan_lower_programs(lowering *l)
{
    const ir_graph *graph = l->graph;

    l->program = fs_new(l->scratch, int32_t, graph->nodes.n);
    l->weight = fs_new(l->scratch, bool, graph->nodes.n);
    for (int32_t v = 0; v < graph->nodes.n; v++)
        l->program[v] = l->strategy->stage_of[v];
    for (int32_t v = graph->nodes.n - 1; v >= 0; v--)
        if (is_backward(l, v))
            make_late(l, v);
    for (int32_t v = 0; v < graph->nodes.n; v++)
        if (is_backward(l, v))
            make_early(l, v);
    if (l->pipe.schedule->splits)
        find_weights(l);
}

/* ---- values ---- */

int32_t plan_lower_home(const lowering *l, int32_t stage)
{
    return l->pipe.stage[l->pipe.first[l->pipe.role_of[stage]]];
}

static int32_t add_value(lowering *l, lower_value value)
{
    int32_t id = l->values.n;

    value.next = l->first_value[value.tensor];
    value.use = (lower_use){PLAN_PHASES, l->graph->nodes.n, 0};
    value.reg = -1;
    l->first_value[value.tensor] = id;
    fs_push(l->scratch, &l->values, value);
    return id;
}

static bool same_value(const lowering *l, const lower_value *a,
                       const lower_value *b)
{
    const plan_stage *stage = &l->strategy->stages[a->stage];

    return a->kind == b->kind && a->stage == b->stage &&
           a->parent == b->parent && a->sharing == b->sharing &&
           a->anew == b->anew && a->variable < 0 && b->variable < 0 &&
           ir_nd_sbp_equal(&a->sbp, &b->sbp, stage->mesh.n);
}

static int32_t intern_value(lowering *l, lower_value value)
{
    for (int32_t i = l->first_value[value.tensor]; i >= 0;
         i = l->values.at[i].next)
        if (same_value(l, &l->values.at[i], &value))
            return i;
    return add_value(l, value);
}

/* `made`: how it is made there, when it is made anywhere. */
static int32_t root_value(lowering *l, int32_t tensor, int32_t stage,
                          const ir_nd_sbp *made)
{
    const ir_tensor *t = &l->graph->tensors.at[tensor];
    const ir_node *node = &l->graph->nodes.at[t->producer];
    lower_value value = {.kind = LOWER_ROOT,
                         .tensor = tensor,
                         .parent = -1,
                         .view_of = -1,
                         .variable = -1};

    for (int32_t i = l->first_value[tensor]; i >= 0; i = l->values.at[i].next)
        if (l->values.at[i].kind == LOWER_ROOT &&
            (!made_anywhere(node) ||
             (l->values.at[i].stage == plan_lower_home(l, stage) &&
              ir_nd_sbp_equal(&l->values.at[i].sbp, made,
                              l->strategy->stages[stage].mesh.n))))
            return i;
    value.stage = plan_lower_home(
        l, made_anywhere(node) ? stage : l->strategy->stage_of[t->producer]);
    value.sbp = made_anywhere(node)
                    ? *made
                    : l->strategy->sig[t->producer].out[t->slot];
    if (plan_lower_is_view(node))
        value.view_of = l->edge_value[l->strategy->first_edge[t->producer]];
    return add_value(l, value);
}

/* In the order of sections, then of nodes. */
static bool comes_before(const lower_use *a, const lower_use *b)
{
    if (a->phase != b->phase)
        return a->phase < b->phase;
    if (a->stage != b->stage && !plan_phase_once(a->phase))
        return (a->stage < b->stage) == (a->phase == PLAN_FORWARD);
    return a->node < b->node;
}

/* The last place before both. Of a role's stages the later one's WEIGHT and the
 * earlier one's BACKWARD have no order that holds in each schedule for each
 * micro-batch; before both is the end of the later one's BACKWARD. */
static lower_use before_both(const lowering *l, const lower_use *a,
                             const lower_use *b)
{
    const bool in_order = comes_before(a, b);
    const lower_use *first = in_order ? a : b, *second = in_order ? b : a;

    if (first->phase == PLAN_BACKWARD && second->phase == PLAN_WEIGHT &&
        first->stage < second->stage)
        return (lower_use){PLAN_BACKWARD, l->graph->nodes.n, second->stage};
    return *first;
}

/* Notes a use of a value, for it and what it is made from. What moves is sent
 * as soon as it can be. */
static void note_use(lowering *l, int32_t id, lower_use use)
{
    while (id >= 0) {
        lower_value *v = &l->values.at[id];
        v->use = before_both(l, &use, &v->use);
        if (v->kind == LOWER_MOVE) {
            const int32_t producer = l->graph->tensors.at[v->tensor].producer;
            use = (lower_use){plan_lower_base_at(l, v->tensor), producer + 1,
                              l->program[producer]};
        }
        id = v->parent;
    }
}

/* ---- edges ---- */

typedef struct lower_edge {
    int32_t node, slot, tensor;
    int32_t stage; /* of the consumer */
    int32_t variable;
    bool crosses; /* the path has a step to another stage */
    plan_phase phase;
    int32_t before; /* node in whose front the value is wanted */
    const plan_boxing *path;
    plan_ends ends;
} lower_edge;

static fs_status edge_fail(const lowering *l, const lower_edge *e,
                           const char *why)
{
    return fs_fail(l->err, FS_INVALID, "node %s, input %d (%s): %s",
                   l->graph->nodes.at[e->node].name, (int)e->slot,
                   l->graph->tensors.at[e->tensor].name, why);
}

/* What a view reads lives as long as what reads the view; what crosses stages
 * is sent once. */
static fs_status check_sharing(const lowering *l, const lower_edge *e)
{
    if (e->path->sharing < 0)
        return edge_fail(l, e, "its boxing is shared under a number below 0");
    if (e->path->sharing && e->crosses)
        return edge_fail(l, e, "what crosses stages cannot be boxed anew");
    if (e->path->sharing && plan_lower_is_view(&l->graph->nodes.at[e->node]))
        return edge_fail(l, e, "what a view reads cannot be boxed anew");
    return FS_OK;
}

static fs_status check_phase(const lowering *l, const lower_edge *e)
{
    plan_phase base = plan_lower_base_at(l, e->tensor);

    if (base == PLAN_END && e->phase != PLAN_END)
        return edge_fail(l, e,
                         "a value of the update is read by the forward "
                         "or backward pass");
    if (e->phase == PLAN_END && base != PLAN_END && base != PLAN_BEGIN)
        return edge_fail(l, e,
                         "the update reads a value that changes per "
                         "micro-batch");
    if (base == PLAN_BACKWARD && e->phase == PLAN_FORWARD)
        return edge_fail(l, e,
                         "a value of the backward pass is read by the "
                         "forward pass");
    return FS_OK;
}

static fs_status check_edge(const lowering *l, const lower_edge *e)
{
    const bool checked = plan_node_like(l->strategy, e->node) != e->node;
    const char *why = checked ? NULL : plan_path_wrong(&e->ends, e->path);

    if (why != NULL)
        return edge_fail(l, e, why);
    FS_TRY(check_sharing(l, e));
    return check_phase(l, e);
}

/* One step of the path after value `id`. */
static int32_t step_value(lowering *l, const lower_edge *e, int32_t id,
                          int32_t k)
{
    const lower_value *before = &l->values.at[id];
    const bool moves = e->crosses && k == e->path->cross;
    const bool anew = e->path->sharing && !plan_phase_once(e->phase);

    return intern_value(
        l, (lower_value){.kind = moves ? LOWER_MOVE : LOWER_BOX,
                         .tensor = e->tensor,
                         .stage = moves ? plan_lower_home(l, e->stage)
                                        : before->stage,
                         .sbp = e->path->at[k + 1],
                         .parent = id,
                         .sharing = e->path->sharing,
                         .anew = anew,
                         .view_of = -1,
                         .variable = k + 1 == e->path->n ? e->variable : -1});
}

static fs_status lower_one_edge(lowering *l, const lower_edge *e, int32_t *out)
{
    int32_t id;

    FS_TRY(check_edge(l, e));
    id = root_value(l, e->tensor, e->stage, &e->path->at[0]);
    for (int32_t k = 0; k < e->path->n; k++)
        id = step_value(l, e, id, k);
    note_use(l, id, (lower_use){e->phase, e->before, l->program[e->node]});
    *out = id;
    return FS_OK;
}

/* What both kinds of edges have in common. */
static lower_edge edge_at(const lowering *l, int32_t v, int32_t slot)
{
    const plan_strategy *s = l->strategy;
    const plan_ends ends = plan_edge_ends(l->graph, s, v, slot);

    return (lower_edge){.node = v,
                        .slot = slot,
                        .tensor = plan_edge_tensor(l->graph, s, v, slot),
                        .stage = s->stage_of[v],
                        .variable = -1,
                        .crosses = plan_ends_cross(&ends),
                        .path = &s->edge[s->first_edge[v] + slot],
                        .ends = ends};
}

static fs_status lower_inputs(lowering *l, int32_t v)
{
    const ir_node *node = &l->graph->nodes.at[v];
    const plan_strategy *s = l->strategy;

    for (int32_t slot = 0; slot < node->n_in; slot++) {
        lower_edge e = edge_at(l, v, slot);
        e.phase = plan_lower_phase_at(l, v);
        e.before = v;
        FS_TRY(lower_one_edge(l, &e, &l->edge_value[s->first_edge[v] + slot]));
    }
    return FS_OK;
}

/* A loop edge: how the next value of variable v comes back to it. Without
 * boxing on one stage the update writes in place. */
static fs_status lower_loop(lowering *l, int32_t v)
{
    const plan_strategy *s = l->strategy;
    int32_t x = l->graph->nodes.at[v].out[0];
    int32_t next = l->graph->tensors.at[x].next;
    int32_t producer = l->graph->tensors.at[next].producer;
    const ir_node *update = &l->graph->nodes.at[producer];
    lower_edge e = edge_at(l, v, 0);
    int32_t root;

    e.variable = v;
    e.phase = PLAN_END;
    e.before = producer + 1;
    if (update->phase != IR_UPDATE || plan_lower_is_view(update) ||
        is_source(update))
        return edge_fail(l, &e,
                         "a variable's next value must come from an op "
                         "of the update");
    if (e.path->n > 0 || e.crosses)
        return lower_one_edge(l, &e, &l->edge_value[s->first_edge[v]]);
    FS_TRY(check_edge(l, &e));
    root = root_value(l, next, s->stage_of[producer], NULL);
    if (l->values.at[root].use.phase != PLAN_PHASES)
        return edge_fail(l, &e,
                         "a value that replaces its variable in place "
                         "cannot be read by others");
    l->values.at[root].variable = v;
    l->edge_value[s->first_edge[v]] = root;
    return FS_OK;
}

static void add_roots(lowering *l, int32_t v)
{
    const ir_node *node = &l->graph->nodes.at[v];

    if (made_anywhere(node))
        return; /* on demand, where it is read */
    for (int32_t o = 0; o < node->n_out; o++)
        root_value(l, node->out[o], l->strategy->stage_of[v], NULL);
}

fs_status plan_lower_values(lowering *l)
{
    for (int32_t v = 0; v < l->graph->nodes.n; v++) {
        if (!is_source(&l->graph->nodes.at[v]))
            FS_TRY(lower_inputs(l, v));
        add_roots(l, v);
    }
    for (int32_t v = 0; v < l->graph->nodes.n; v++) {
        const ir_node *node = &l->graph->nodes.at[v];
        if (node->op == IR_OP_variable &&
            l->graph->tensors.at[node->out[0]].next >= 0)
            FS_TRY(lower_loop(l, v));
    }
    return FS_OK;
}
