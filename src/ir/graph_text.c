/* The text form: one line per node, by names, so that a node more or less
 * changes one line. */
#include "config.h"
#include "ir/chain.h"

#include <string.h>

static void add_outputs(const ir_graph *graph, const ir_node *node,
                        fs_text *out)
{
    char shape[160];
    for (int32_t i = 0; i < node->n_out; i++) {
        const ir_tensor *t = &graph->tensors.at[node->out[i]];
        fs_text_add(out, "%s%s %s %s", i ? ", " : "", t->name,
                    ir_dtype_name(t->dtype), ir_shape_text(shape, &t->shape));
    }
    fs_text_add(out, "%s", node->n_out ? " = " : "");
}

static void add_inputs(const ir_graph *graph, const ir_node *node, fs_text *out)
{
    fs_text_add(out, "%s(", ir_op_table[node->op]->name);
    for (int32_t i = 0; i < node->n_in; i++)
        fs_text_add(out, "%s%s", i ? ", " : "",
                    graph->tensors.at[node->in[i]].name);
    fs_text_add(out, ")");
}

/* Attributes up to the last that is not zero. */
static void add_attributes(const ir_node *node, fs_text *out)
{
    int32_t n_int = IR_MAX_ATTR, n_real = IR_MAX_REAL;
    while (n_int > 0 && node->i[n_int - 1] == 0)
        n_int--;
    while (n_real > 0 && node->f[n_real - 1] == 0)
        n_real--;
    for (int32_t i = 0; i < n_int; i++)
        fs_text_add(out, "%s%lld", i ? "," : " i=", (long long)node->i[i]);
    for (int32_t i = 0; i < n_real; i++)
        fs_text_add(out, "%s%.9g", i ? "," : " f=", node->f[i]);
}

/* Values by number: inputs first, then what each step makes. */
static void add_program(const ir_node *node, fs_text *out)
{
    const ir_chain *chain = node->chain;
    for (int32_t k = 0; k < chain->n_steps; k++) {
        const ir_node *step = &chain->step[k];
        fs_text_add(out, "%s%d=%s(", k ? "; " : " {", node->n_in + k,
                    ir_op_table[step->op]->name);
        for (int32_t i = 0; i < step->n_in; i++)
            fs_text_add(out, "%s%d", i ? "," : "", step->in[i]);
        fs_text_add(out, ")");
        add_attributes(step, out);
    }
    for (int32_t i = 0; i < node->n_out; i++)
        fs_text_add(out, "%s%d", i ? "," : " -> ", chain->out[i]);
    fs_text_add(out, "}");
}

static void add_source(const ir_graph *graph, const ir_tensor *t, fs_text *out)
{
    static const char *const roles[] = {
        [IR_ACTIVATION] = "activation", [IR_INPUT] = "input",
        [IR_PARAM] = "parameter",       [IR_STATE] = "state",
        [IR_BUFFER] = "buffer",         [IR_CONST] = "constant"};
    fs_text_add(out, "%s", roles[t->role]);
    if (t->batch_axis >= 0)
        fs_text_add(out, " batch=%d", t->batch_axis);
    if (t->next >= 0)
        fs_text_add(out, " next=%s", graph->tensors.at[t->next].name);
}

static void add_node(const ir_graph *graph, const ir_node *node, fs_text *out)
{
    static const char *const phases[] = {[IR_FORWARD] = "forward",
                                         [IR_BACKWARD] = "backward",
                                         [IR_UPDATE] = "update"};
    fs_text_add(out, "%-9s", phases[node->phase]);
    add_outputs(graph, node, out);
    if (ir_op_class_of(node->op) == IR_CLASS_SOURCE) {
        add_source(graph, &graph->tensors.at[node->out[0]], out);
    } else {
        add_inputs(graph, node, out);
        if (node->chain)
            add_program(node, out);
        else
            add_attributes(node, out);
    }
    if (node->n_out &&
        strcmp(node->name, graph->tensors.at[node->out[0]].name) != 0)
        fs_text_add(out, " @ %s", node->name);
    fs_text_add(out, "\n");
}

void ir_graph_dump(const ir_graph *graph, fs_text *out)
{
    fs_text_add(out, "graph %s: %d nodes, %d tensors, micro-batches %d\n",
                graph->name, graph->nodes.n, graph->tensors.n,
                graph->micro_batches);
    for (int32_t v = 0; v < graph->nodes.n; v++)
        add_node(graph, &graph->nodes.at[v], out);
    if (graph->loss >= 0)
        fs_text_add(out, "loss %s\n", graph->tensors.at[graph->loss].name);
}
