#include "config.h"
#include "ir/train.h"

#include "ir/backward.h"
#include "ir/clip.h"
#include "ir/loss_groups.h"
#include "ir/loss_scale.h"
#include "ir/recompute.h"
#include "ir/rewrite.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name, *states;
    ir_op_kind op;
    double lr, weight_decay, epsilon;
    int uses;
} optimizers[] = {
#define IR_OPTIMIZER(id, name, op, states, ...)                                \
    {name, states, IR_OP_##op, __VA_ARGS__},
#include "ir/optimizers.def"
#undef IR_OPTIMIZER
};

ir_train_options ir_train_defaults(void)
{
    return (ir_train_options){.optimizer = IR_SGD,
                              .lr = -1,
                              .weight_decay = -1,
                              .momentum = -1,
                              .beta1 = -1,
                              .beta2 = -1,
                              .epsilon = -1,
                              .micro_batches = 1};
}

const char *ir_optimizer_name(ir_optimizer optimizer)
{
    return optimizers[optimizer].name;
}

bool ir_optimizer_has_states(ir_optimizer optimizer)
{
    return optimizers[optimizer].states[0] != '\0';
}

int ir_optimizer_uses(ir_optimizer optimizer)
{
    return optimizers[optimizer].uses;
}

fs_status ir_optimizer_parse(const char *text, fs_err *err, ir_optimizer *out)
{
    char known[120] = "";
    for (int32_t i = 0; i < IR_OPTIMIZER_COUNT; i++) {
        if (strcmp(text, optimizers[i].name) == 0) {
            *out = (ir_optimizer)i;
            return FS_OK;
        }
        size_t n = strlen(known);
        snprintf(known + n, sizeof known - n, "%s%s", n ? ", " : "",
                 optimizers[i].name);
    }
    return fs_fail(err, FS_INVALID, "unknown optimizer '%.40s' (%s)", text,
                   known);
}

static double or_default(double value, double usual)
{
    return value < 0 ? usual : value;
}

/* Options with every negative number replaced. */
static ir_train_options resolve(const ir_train_options *given)
{
    ir_train_options o = *given;
    o.lr = or_default(o.lr, optimizers[o.optimizer].lr);
    o.weight_decay =
        or_default(o.weight_decay, optimizers[o.optimizer].weight_decay);
    o.momentum = or_default(o.momentum, 0.9);
    o.beta1 = or_default(o.beta1, 0.9);
    o.beta2 = or_default(o.beta2, 0.999);
    o.epsilon = or_default(o.epsilon, optimizers[o.optimizer].epsilon);
    return o;
}

static fs_status about(const ir_train_options *o, const char *field,
                       fs_status status)
{
    if (status != FS_OK && o->about)
        *o->about = field;
    return status;
}

static fs_status check_options(const ir_train_options *o, fs_err *err)
{
    double all[] = {o->lr,    o->weight_decay, o->momentum, o->beta1,
                    o->beta2, o->epsilon,      o->clip_norm};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!isfinite(all[i]))
            return fs_fail(err, FS_INVALID,
                           "an optimizer's constant is not a finite number");
    if (o->beta1 >= 1 || o->beta2 >= 1)
        return fs_fail(err, FS_INVALID,
                       "beta1 %g, beta2 %g: both must be below 1", o->beta1,
                       o->beta2);
    if (o->micro_batches < 1)
        return fs_fail(err, FS_INVALID,
                       "%d micro-batches; at least 1 is wanted",
                       o->micro_batches);
    return FS_OK;
}

/* ---- gradients ---- */

static int32_t accumulate(ir_graph *graph, int32_t wrt, int32_t part)
{
    ir_node node = {.op = IR_OP_accumulate, .n_in = 1, .in = {part}};
    node.name =
        fs_printf(graph->arena, "%s.grad.acc", graph->tensors.at[wrt].name);
    return ir_append(graph, &node);
}

void ir_enter_update(ir_graph *graph, int32_t param)
{
    graph->phase = IR_UPDATE;
    graph->forward = graph->tensors.at[param].producer;
    graph->scope =
        fs_printf(graph->arena, "%s.grad", graph->tensors.at[param].name);
}

/* ---- updates ---- */

/* A state variable "PARAM.LETTER", zero at first. */
static int32_t add_state(ir_graph *graph, int32_t param, char letter)
{
    const ir_tensor *w = &graph->tensors.at[param];
    ir_variable_spec spec = {
        .role = IR_STATE, .dtype = w->dtype, .shape = w->shape};
    return ir_variable(graph, fs_printf(graph->arena, "%s.%c", w->name, letter),
                       &spec);
}

static void put_value(double *at, double value)
{
    if (!isnan(value))
        *at = value;
}

/* By what the optimizer uses. */
void ir_update_values(const ir_train_options *o, double f[IR_MAX_REAL])
{
    int uses = optimizers[o->optimizer].uses, n = 2;
    put_value(&f[0], o->lr);
    put_value(&f[1], o->weight_decay);
    if (uses & IR_USES_MU)
        put_value(&f[n++], o->momentum);
    if (uses & IR_USES_BETAS) {
        put_value(&f[n++], o->beta1);
        put_value(&f[n++], o->beta2);
    }
    if (uses & IR_USES_EPSILON)
        put_value(&f[n++], o->epsilon);
}

/* IR_OPTIMIZER_COUNT: the node is no update of a variable. */
static ir_optimizer optimizer_of(const ir_node *node)
{
    int32_t k = 0;
    while (k < IR_OPTIMIZER_COUNT && optimizers[k].op != node->op)
        k++;
    return k == IR_ADAM && node->i[0] ? IR_ADAMW : (ir_optimizer)k;
}

static void read_values(ir_train_options *o, const double f[IR_MAX_REAL])
{
    const int uses = optimizers[o->optimizer].uses;
    int n = 2;
    o->lr = f[0];
    o->weight_decay = f[1];
    o->momentum = uses & IR_USES_MU ? f[n++] : NAN;
    o->beta1 = uses & IR_USES_BETAS ? f[n++] : NAN;
    o->beta2 = uses & IR_USES_BETAS ? f[n++] : NAN;
    o->epsilon = uses & IR_USES_EPSILON ? f[n++] : NAN;
}

bool ir_update_options(const ir_graph *graph, const ir_train_options *said,
                       ir_train_options *out)
{
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        const ir_node *node = &graph->nodes.at[v];
        const ir_optimizer optimizer = optimizer_of(node);
        double f[IR_MAX_REAL];
        if (optimizer == IR_OPTIMIZER_COUNT)
            continue;
        memcpy(f, node->f, sizeof f);
        if (said)
            ir_update_values(said, f);
        *out = (ir_train_options){.optimizer = optimizer,
                                  .rate = ir_rate_of(node)};
        read_values(out, f);
        return true; /* all have the same */
    }
    return false;
}

/* An update node without its inputs. */
static ir_node update_node(const ir_train_options *o, ir_op_kind op)
{
    ir_node node = {.op = op};
    ir_update_values(o, node.f);
    node.i[0] = o->optimizer == IR_ADAMW;
    ir_rate_set(&node, &o->rate);
    return node;
}

/* What the updates are made of. */
typedef struct step {
    ir_graph *graph;
    const ir_train_options *options;
    ir_derivative of; /* of one group at a time */
    ir_loss_groups groups;
    ir_scaler scaler;
    ir_carried_list carried; /* states of compression */
} step;

/* `variable` takes the value `next` after the step. */
static void carry(const step *s, int32_t variable, int32_t next)
{
    ir_graph *graph = s->graph;
    next = ir_scaler_choose(graph, &s->scaler, variable, next);
    if (next < 0)
        return;
    ir_tensor *t = &graph->tensors.at[variable];
    t->next = next;
    ir_graph_rename(graph, next, fs_printf(graph->arena, "%s.next", t->name));
}

/* The node that reads w, its gradient and its states, and, where it corrects a
 * bias by the number of steps, how many were left out. The states' next values
 * are its outputs after the first; output 0 is returned. */
static int32_t add_state_node(const step *s, int32_t param, int32_t grad,
                              ir_node *node)
{
    ir_graph *graph = s->graph;
    const char *states = optimizers[s->options->optimizer].states;
    int32_t variable[2], n = 0;
    node->n_in = 2;
    node->in[0] = param;
    node->in[1] = grad;
    for (; states[n]; n++)
        node->in[node->n_in++] = variable[n] =
            add_state(graph, param, states[n]);
    if (s->scaler.skipped >= 0 && ir_op_table[node->op]->max_in > node->n_in)
        node->in[node->n_in++] = s->scaler.skipped;
    int32_t id = ir_graph_add(graph, node);
    for (int32_t k = 0; id >= 0 && k < n; k++)
        carry(s, variable[k], graph->nodes.at[id].out[k + 1]);
    return id < 0 ? -1 : graph->nodes.at[id].out[0];
}

int32_t ir_sum_squares(ir_graph *graph, int32_t x)
{
    return ir_append(graph,
                     &(ir_node){.op = IR_OP_sum_squares, .n_in = 1, .in = {x}});
}

/* LAMB's step is as long as w is, whatever the direction's length; the norms
 * are nodes, so that cut tensors sum theirs like any other partial value. */
static int32_t add_lamb(const step *s, int32_t param, int32_t grad)
{
    ir_graph *graph = s->graph;
    ir_node direction = update_node(s->options, IR_OP_lamb_direction);
    ir_node last = update_node(s->options, IR_OP_lamb_step);
    direction.name =
        fs_printf(graph->arena, "%s.direction", graph->tensors.at[param].name);
    int32_t u = add_state_node(s, param, grad, &direction);
    last.n_in = 4;
    last.in[0] = param;
    last.in[1] = u;
    last.in[2] = ir_sum_squares(graph, param);
    last.in[3] = ir_sum_squares(graph, u);
    last.name =
        fs_printf(graph->arena, "%s.update", graph->tensors.at[param].name);
    return ir_append(graph, &last);
}

static void add_update(const step *s, int32_t param, int32_t grad)
{
    ir_graph *graph = s->graph;
    if (s->options->optimizer == IR_LAMB) {
        carry(s, param, add_lamb(s, param, grad));
        return;
    }
    ir_node node =
        update_node(s->options, optimizers[s->options->optimizer].op);
    node.name =
        fs_printf(graph->arena, "%s.update", graph->tensors.at[param].name);
    carry(s, param, add_state_node(s, param, grad, &node));
}

/* A buffer whose next value the forward pass makes (running statistics) takes
 * the mean of what the step's micro-batches make of its value before it. */
static void carry_buffer(ir_graph *graph, int32_t buffer)
{
    const char *name = graph->tensors.at[buffer].name;
    int32_t next = graph->tensors.at[buffer].next;
    ir_node sum = {.op = IR_OP_accumulate, .n_in = 1, .in = {next}};
    ir_node mean = {.op = IR_OP_scale, .n_in = 1};
    graph->phase = IR_BACKWARD;
    graph->forward = graph->tensors.at[next].producer;
    sum.name = fs_printf(graph->arena, "%s.acc", name);
    mean.in[0] = ir_append(graph, &sum);
    graph->phase = IR_UPDATE;
    graph->forward = graph->tensors.at[buffer].producer;
    mean.f[0] = 1.0 / graph->micro_batches;
    mean.name = fs_printf(graph->arena, "%s.next", name);
    int32_t carried = ir_append(graph, &mean); /* the array may move */
    graph->tensors.at[buffer].next = carried;
}

static void carry_buffers(ir_graph *graph)
{
    for (int32_t t = 0; t < graph->tensors.n; t++) {
        int32_t next = graph->tensors.at[t].next;
        if (next < 0 || graph->err.status != FS_OK)
            continue;
        int32_t made = graph->tensors.at[next].producer;
        if (graph->nodes.at[made].phase == IR_FORWARD)
            carry_buffer(graph, t);
    }
    graph->phase = IR_FORWARD;
    graph->forward = -1;
}

/* The trained variables; returns how many. */
static int32_t list_params(const ir_graph *graph, fs_arena *arena,
                           const int32_t **out)
{
    FS_VEC(int32_t) list = {0};
    for (int32_t t = 0; t < graph->tensors.n; t++)
        if (graph->tensors.at[t].role == IR_PARAM)
            fs_push(arena, &list, t);
    *out = list.at;
    return list.n;
}

/* What one group gives to the gradient of a parameter; -1: nothing. */
static int32_t sum_group(ir_graph *graph, const ir_loss_group *group,
                         int32_t param)
{
    const ir_id_list *parts = &group->parts[param];
    if (!parts->n)
        return -1;
    int32_t sum = parts->at[0];
    for (int32_t i = 1; i < parts->n; i++)
        sum = ir_binary(graph, IR_OP_add, sum, parts->at[i]);
    return group->divisor < 0
               ? sum
               : ir_binary(graph, IR_OP_div, sum, group->divisor);
}

/* -1: no gradient reaches it. */
static int32_t sum_gradient(const step *s, int32_t k)
{
    ir_graph *graph = s->graph;
    int32_t sum = -1;
    ir_enter_update(graph, s->of.wrt[k]);
    for (int32_t i = 0; i < s->groups.n; i++) {
        const int32_t part = sum_group(graph, &s->groups.at[i], k);
        if (part >= 0)
            sum = sum < 0 ? part : ir_binary(graph, IR_OP_add, sum, part);
    }
    if (sum >= 0)
        ir_graph_rename(graph, sum, graph->scope);
    return sum;
}

/* The gradients of the parameters that have one; the others are buffers.
 * Returns how many. */
static int32_t sum_gradients(const step *s, ir_update_pair *out)
{
    int32_t n = 0;
    for (int32_t k = 0; k < s->of.n; k++) {
        const int32_t param = s->of.wrt[k];
        const int32_t sum = sum_gradient(s, k);
        if (sum < 0)
            s->graph->tensors.at[param].role = IR_BUFFER;
        else
            out[n++] = (ir_update_pair){param, sum};
    }
    return n;
}

/* Compressed gradients: 16 bits hold them while they are scaled, errors are
 * kept without a scale, which changes. */
static void compress(step *s, bool scaled, int32_t n, ir_update_pair *pairs)
{
    const ir_compress *how = &s->options->compress;
    const bool casts = ir_compress_dtype(how) != IR_F32;
    if (how->kind == IR_COMPRESS_NONE || casts != scaled || n == 0)
        return;
    if (ir_compress_gradients(s->graph, how, n, pairs, &s->carried))
        return;
    about(s->options, "compress", FS_INVALID);
    ir_graph_fail(s->graph,
                  "no gradient would be smaller (powersgd wants matrices "
                  "larger than their factors, topk gradients of which it sends "
                  "32 entries or more)");
}

/* Gradients as the updates read them: without the scale, clipped. */
static void finish_gradients(step *s, int32_t n, ir_update_pair *pairs)
{
    ir_graph *graph = s->graph;
    const bool scaled = s->scaler.scale >= 0;
    compress(s, true, n, pairs);
    ir_scaler_undo(graph, &s->scaler, n, pairs);
    compress(s, false, n, pairs);
    if (n == 0 || !(scaled || s->options->clip_norm > 0))
        return;
    int32_t squares = ir_squares_of_all(graph, n, pairs);
    ir_scaler_judge(graph, &s->scaler, squares);
    if (s->options->clip_norm > 0)
        ir_clip_gradients(graph, s->options->clip_norm, squares, n, pairs);
}

static fs_status add_updates(step *s, fs_err *err)
{
    ir_graph *graph = s->graph;
    ir_update_pair *pairs = fs_new(graph->arena, ir_update_pair, s->of.n);
    int32_t n = sum_gradients(s, pairs);
    finish_gradients(s, n, pairs);
    for (int32_t k = 0; k < n; k++) {
        ir_enter_update(graph, pairs[k].param);
        add_update(s, pairs[k].param, pairs[k].grad);
    }
    for (int32_t k = 0; k < s->carried.n; k++) {
        ir_enter_update(graph, s->carried.at[k].variable);
        carry(s, s->carried.at[k].variable, s->carried.at[k].next);
    }
    if (n > 0)
        ir_scaler_end(graph, &s->scaler);
    graph->phase = IR_FORWARD;
    graph->forward = -1;
    graph->scope = NULL;
    if (graph->err.status != FS_OK)
        return fs_fail(err, graph->err.status, "%s", graph->err.text);
    if (!n)
        return fs_fail(err, FS_INVALID, "%s: the loss depends on no parameter",
                       graph->name);
    return FS_OK;
}

fs_status ir_train_padding(ir_graph *graph, int32_t table, int64_t row,
                           fs_err *err)
{
    const ir_tensor *t = &graph->tensors.at[table];
    bool looked_up = false;
    if (t->role != IR_PARAM || t->shape.rank < 1)
        return fs_fail(err, FS_INVALID, "%s is no table of parameters",
                       t->name);
    if (row < 0 || row >= t->shape.dim[0])
        return fs_fail(err, FS_INVALID, "%s has %lld rows, but no row %lld",
                       t->name, (long long)t->shape.dim[0], (long long)row);
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        ir_node *node = &graph->nodes.at[v];
        if (node->op != IR_OP_gather || node->in[0] != table || node->i[2] != 0)
            continue;
        if (node->i[3] && node->i[3] != row + 1)
            return fs_fail(err, FS_INVALID,
                           "%s has padding row %lld, and can have no other",
                           t->name, (long long)node->i[3] - 1);
        node->i[3] = row + 1;
        looked_up = true;
    }
    return looked_up ? FS_OK
                     : fs_fail(err, FS_INVALID,
                               "the rows of %s are not looked up", t->name);
}

/* The first group's scale is undone: the divisors of others take up how theirs
 * differs. */
static void level_scales(const step *s)
{
    ir_graph *graph = s->graph;
    for (int32_t k = 1; k < s->groups.n; k++) {
        ir_loss_group *group = &s->groups.at[k];
        const double ratio =
            ir_scaler_share(graph, &s->scaler.how, group) / s->scaler.share;
        graph->phase = IR_UPDATE;
        graph->forward = graph->tensors.at[group->bottom].producer;
        if (ratio != 1)
            group->divisor = ir_scale(graph, group->divisor, ratio, 0);
    }
    graph->phase = IR_FORWARD;
    graph->forward = -1;
}

/* One backward pass per group, of which all begin where the forward pass is
 * complete. */
static fs_status differentiate(step *s, fs_err *err)
{
    ir_graph *graph = s->graph;
    ir_loss_groups *groups = &s->groups;
    s->scaler = ir_scaler_begin(graph, &s->options->loss_scale, &groups->at[0]);
    int32_t *start = fs_new(graph->arena, int32_t, groups->n);
    for (int32_t k = 0; k < groups->n; k++)
        start[k] = ir_scaler_loss(graph, &s->scaler, &groups->at[k]);
    s->of.n = list_params(graph, graph->arena, &s->of.wrt);
    for (int32_t k = 0; k < groups->n; k++) {
        ir_loss_group *group = &groups->at[k];
        s->of.loss = start[k];
        s->of.seed = group->seed;
        group->parts = fs_new(graph->arena, ir_id_list, s->of.n);
        FS_TRY(ir_backward_parts(graph, &s->of, accumulate, err, group->parts));
    }
    ir_loss_put_off(graph, groups);
    level_scales(s);
    return FS_OK;
}

fs_status ir_train(ir_graph *graph, const ir_train_options *options,
                   fs_err *err)
{
    ir_train_options o = resolve(options);
    FS_TRY(check_options(&o, err));
    if (graph->err.status != FS_OK)
        return fs_fail(err, graph->err.status, "%s", graph->err.text);
    ir_graph_reserve(graph, graph->nodes.n);
    step s = {.graph = graph, .options = &o};
    ir_loss_group_terms(graph, &o, &s.groups);
    FS_TRY(differentiate(&s, err));
    FS_TRY(add_updates(&s, err));
    graph->micro_batches = o.micro_batches;
    carry_buffers(graph);
    if (graph->err.status != FS_OK)
        return fs_fail(err, graph->err.status, "%s", graph->err.text);
    ir_rewrite(graph, &(ir_rewrite_options){.pads = !o.keep_pads,
                                            .dead = !o.keep_dead});
    fs_status status = ir_recompute(graph, o.recompute, err);
    return about(&o, "recompute", status);
}
