#include "config.h"
#include "ir/train.h"

#include "ir/backward.h"
#include "ir/rewrite.h"

#include <math.h>
#include <string.h>

static const char *const optimizer_names[] = {[IR_SGD] = "sgd",
                                              [IR_MOMENTUM] = "momentum",
                                              [IR_ADAM] = "adam",
                                              [IR_ADAMW] = "adamw"};

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
    return optimizer_names[optimizer];
}

fs_status ir_optimizer_parse(const char *text, fs_err *err, ir_optimizer *out)
{
    for (int32_t i = 0; i <= IR_ADAMW; i++)
        if (strcmp(text, optimizer_names[i]) == 0) {
            *out = (ir_optimizer)i;
            return FS_OK;
        }
    return fs_fail(err, FS_INVALID,
                   "unknown optimizer '%.40s' (sgd, momentum, adam, adamw)",
                   text);
}

static double or_default(double value, double usual)
{
    return value < 0 ? usual : value;
}

/* Options with every negative number replaced. */
static ir_train_options resolve(const ir_train_options *given)
{
    ir_train_options o = *given;
    bool adam = o.optimizer >= IR_ADAM;
    o.lr = or_default(o.lr, adam ? 1e-3 : 1e-2);
    o.weight_decay =
        or_default(o.weight_decay, o.optimizer == IR_ADAMW ? 0.01 : 0);
    o.momentum = or_default(o.momentum, 0.9);
    o.beta1 = or_default(o.beta1, 0.9);
    o.beta2 = or_default(o.beta2, 0.999);
    o.epsilon = or_default(o.epsilon, 1e-8);
    return o;
}

static fs_status check_options(const ir_train_options *o, fs_err *err)
{
    double all[] = {o->lr,    o->weight_decay, o->momentum,
                    o->beta1, o->beta2,        o->epsilon};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!isfinite(all[i]))
            return fs_fail(err, FS_INVALID,
                           "an optimizer's constant is not a finite number");
    if (o->beta1 >= 1 || o->beta2 >= 1)
        return fs_fail(err, FS_INVALID, "betas must be below 1");
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

/* Nodes of the update of variable `param`. */
static void enter_update(ir_graph *graph, int32_t param)
{
    graph->phase = IR_UPDATE;
    graph->forward = graph->tensors.at[param].producer;
    graph->scope =
        fs_printf(graph->arena, "%s.grad", graph->tensors.at[param].name);
}

/* The scope is "PARAM.grad": what the sum is called. */
static int32_t sum_parts(ir_graph *graph, const ir_id_list *parts)
{
    int32_t sum = parts->at[0];
    for (int32_t i = 1; i < parts->n; i++)
        sum = ir_binary(graph, IR_OP_add, sum, parts->at[i]);
    ir_graph_rename(graph, sum, graph->scope);
    return sum;
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

/* The update node without its inputs. */
static ir_node update_node(const ir_train_options *o)
{
    ir_node node = {.op = IR_OP_sgd, .f = {o->lr, o->weight_decay}};
    if (o->optimizer == IR_MOMENTUM) {
        node.op = IR_OP_momentum;
        node.f[2] = o->momentum;
    } else if (o->optimizer == IR_ADAM || o->optimizer == IR_ADAMW) {
        node.op = IR_OP_adam;
        node.f[2] = o->beta1;
        node.f[3] = o->beta2;
        node.f[4] = o->epsilon;
        node.i[0] = o->optimizer == IR_ADAMW;
    }
    return node;
}

static void add_update(ir_graph *graph, int32_t param, int32_t grad,
                       const ir_train_options *o)
{
    const char *name = graph->tensors.at[param].name;
    ir_node node = update_node(o);
    int32_t carried[3] = {param}; /* variables in the order of the outputs */
    int32_t n = ir_op_table[node.op]->n_out;
    for (int32_t k = 1; k < n; k++)
        carried[k] = add_state(graph, param, k == 1 ? 'm' : 'v');
    node.name = fs_printf(graph->arena, "%s.update", name);
    node.n_in = n + 1;
    node.in[0] = param;
    node.in[1] = grad;
    for (int32_t k = 1; k < n; k++)
        node.in[k + 1] = carried[k];
    int32_t id = ir_graph_add(graph, &node);
    for (int32_t k = 0; id >= 0 && k < n; k++) {
        int32_t out = graph->nodes.at[id].out[k];
        ir_tensor *variable = &graph->tensors.at[carried[k]];
        variable->next = out;
        ir_graph_rename(graph, out,
                        fs_printf(graph->arena, "%s.next", variable->name));
    }
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
    graph->tensors.at[buffer].next = ir_append(graph, &mean);
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

static fs_status add_updates(ir_graph *graph, const ir_derivative *of,
                             const ir_id_list *parts, const ir_train_options *o,
                             fs_err *err)
{
    int32_t trained = 0;
    for (int32_t k = 0; k < of->n; k++) {
        if (!parts[k].n) {
            graph->tensors.at[of->wrt[k]].role = IR_BUFFER;
            continue;
        }
        enter_update(graph, of->wrt[k]);
        int32_t grad = sum_parts(graph, &parts[k]);
        add_update(graph, of->wrt[k], grad, o);
        trained++;
    }
    graph->phase = IR_FORWARD;
    graph->forward = -1;
    graph->scope = NULL;
    if (graph->err.status != FS_OK)
        return fs_fail(err, graph->err.status, "%s", graph->err.text);
    if (!trained)
        return fs_fail(err, FS_INVALID, "%s: the loss depends on no parameter",
                       graph->name);
    return FS_OK;
}

fs_status ir_train(ir_graph *graph, const ir_train_options *options,
                   fs_err *err)
{
    ir_train_options o = resolve(options);
    FS_TRY(check_options(&o, err));
    graph->loss_share =
        o.reduction == IR_LOSS_SUM ? 1.0 : 1.0 / o.micro_batches;
    ir_derivative of = {.loss = graph->loss, .seed = graph->loss_share};
    if (graph->err.status != FS_OK)
        return fs_fail(err, graph->err.status, "%s", graph->err.text);
    of.n = list_params(graph, graph->arena, &of.wrt);
    ir_id_list *parts = fs_new(graph->arena, ir_id_list, of.n);
    if (graph->loss >= 0)
        ir_mark_output(graph, graph->loss);
    FS_TRY(ir_backward_parts(graph, &of, accumulate, err, parts));
    FS_TRY(add_updates(graph, &of, parts, &o, err));
    graph->micro_batches = o.micro_batches;
    carry_buffers(graph);
    if (graph->err.status != FS_OK)
        return fs_fail(err, graph->err.status, "%s", graph->err.text);
    ir_rewrite(graph, &(ir_rewrite_options){.pads = !o.keep_pads});
    return FS_OK;
}
