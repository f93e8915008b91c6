/* A loss is a sum of terms (samples.h). With m micro-batches
 *
 *   L = sum of c_k mean_k + c_k sum_k + c_k (sum of top_k) / (sum of bottom_k)
 *
 * where a mean of the whole batch is 1/m of the sum of the micro-batches' own.
 * What has no divisor is one group: its gradients need no more than weights.
 * A divisor is known after the last micro-batch, so that each one is a group of
 * its own: a backward pass from the tops, whose gradients are summed apart and
 * divided once. A second group costs a second backward pass and a second set
 * of gradients; the divisors ahead of the first micro-batch would save them,
 * and ask for a pass over the step's labels that no phase is there for. */
#include "config.h"
#include "ir/loss_groups.h"

/* Of a term in the sum over the micro-batches. */
static double weight_of(const ir_loss_term *term, int32_t micro_batches)
{
    return term->reduction == IR_LOSS_MEAN ? term->factor / micro_batches
                                           : term->factor;
}

static int32_t weighted(ir_graph *graph, int32_t x, double weight)
{
    return weight == 1 ? x : ir_scale(graph, x, weight, 0);
}

/* One scalar of the terms that have this divisor. */
static ir_loss_group group_of(ir_graph *graph, const ir_loss_terms *terms,
                              int32_t bottom, int32_t micro_batches)
{
    ir_loss_group group = {-1, 1, bottom, -1, 1, NULL};
    const ir_shape shape = ir_shape_of(graph, graph->loss);
    int32_t n = 0;
    for (int32_t k = 0; k < terms->n; k++) {
        const ir_loss_term *term = &terms->at[k];
        const double weight = weight_of(term, micro_batches);
        if (term->bottom != bottom)
            continue;
        if (n++ == 0) {
            group.value = term->top;
            group.seed = weight;
            group.runs = term->reduction == IR_LOSS_MEAN ? 1 : micro_batches;
            continue;
        }
        if (n == 2)
            group.value = ir_reshape(
                graph, weighted(graph, group.value, group.seed), shape);
        int32_t x = weighted(graph, term->top, weight);
        group.value = ir_binary(graph, IR_OP_add, group.value,
                                ir_reshape(graph, x, shape));
        group.seed = 1;
    }
    return group;
}

static bool has_term(const ir_loss_terms *terms, int32_t n, int32_t bottom)
{
    for (int32_t k = 0; k < n; k++)
        if (terms->at[k].bottom == bottom)
            return true;
    return false;
}

static void add_group(ir_graph *graph, const ir_loss_terms *terms,
                      int32_t bottom, int32_t m, ir_loss_groups *out)
{
    fs_push(graph->arena, out, group_of(graph, terms, bottom, m));
}

void ir_loss_group_terms(ir_graph *graph, const ir_train_options *options,
                         ir_loss_groups *out)
{
    const int32_t m = options->micro_batches;
    ir_loss_terms terms = options->terms;
    ir_loss_term whole = {IR_LOSS_MEAN, graph->loss, -1, 1};
    *out = (ir_loss_groups){0};
    if (m == 1 || terms.n == 0)
        terms = (ir_loss_terms){.at = &whole, .n = 1};
    if (graph->loss >= 0)
        graph->scope = graph->tensors.at[graph->loss].name;
    if (has_term(&terms, terms.n, -1))
        add_group(graph, &terms, -1, m, out);
    for (int32_t k = 0; k < terms.n; k++)
        if (!has_term(&terms, k, terms.at[k].bottom) && terms.at[k].bottom >= 0)
            add_group(graph, &terms, terms.at[k].bottom, m, out);
    graph->scope = NULL;
    if (out->n > 1 || out->at[0].bottom >= 0)
        return;
    graph->loss = out->at[0].value;
    graph->loss_share = out->at[0].seed;
    if (graph->loss >= 0)
        ir_mark_output(graph, graph->loss);
}

static int32_t sum_over_step(ir_graph *graph, int32_t tensor)
{
    ir_node node = {.op = IR_OP_accumulate, .n_in = 1, .in = {tensor}};
    node.name =
        fs_printf(graph->arena, "%s.acc", graph->tensors.at[tensor].name);
    graph->phase = IR_BACKWARD;
    graph->forward = graph->tensors.at[tensor].producer;
    return ir_append(graph, &node);
}

/* A group's part of the step's loss. */
static int32_t put_off(ir_graph *graph, ir_loss_group *group, int32_t owner)
{
    int32_t value = sum_over_step(graph, group->value);
    if (group->bottom >= 0)
        group->divisor = sum_over_step(graph, group->bottom);
    graph->phase = IR_UPDATE;
    graph->forward = owner;
    if (group->divisor >= 0)
        value = ir_binary(graph, IR_OP_div, value, group->divisor);
    return weighted(graph, value, group->seed);
}

void ir_loss_put_off(ir_graph *graph, const ir_loss_groups *groups)
{
    if (groups->n == 1 && groups->at[0].bottom < 0)
        return;
    const char *name = graph->tensors.at[graph->loss].name;
    const int32_t owner = graph->tensors.at[graph->loss].producer;
    int32_t loss = -1;
    graph->scope = name;
    for (int32_t k = 0; k < groups->n; k++) {
        const int32_t part = put_off(graph, &groups->at[k], owner);
        loss = k == 0 ? part : ir_binary(graph, IR_OP_add, loss, part);
    }
    ir_graph_rename(graph, loss, fs_printf(graph->arena, "%s.step", name));
    ir_mark_output(graph, loss);
    graph->loss = loss;
    graph->loss_share = 1;
    graph->scope = NULL;
    graph->phase = IR_FORWARD;
    graph->forward = -1;
}
