#include "config.h"
#include "ir/narrow_states.h"

#include "ir/op.h"

#include <string.h>

static const struct {
    const char *name;
    ir_dtype dtype;
} kinds[] = {
#define IR_STATES(name, dtype) {name, IR_##dtype},
#include "ir/states.def"
#undef IR_STATES
};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

fs_status ir_states_parse(const char *text, fs_err *err, ir_dtype *out)
{
#define IR_STATES(name, dtype) ", " name
    static const char names[] =
#include "ir/states.def"
        ;
#undef IR_STATES
    for (int32_t k = 0; k < N_KINDS; k++)
        if (strcmp(text, kinds[k].name) == 0) {
            *out = kinds[k].dtype;
            return FS_OK;
        }
    return fs_fail(err, FS_INVALID, "'%.40s' is unknown (%s; any, of search)",
                   text, names + 2);
}

/* False: it has as few bytes, or is not computed with in float. */
static bool narrow_source(ir_graph *graph, int32_t tensor, ir_dtype dtype)
{
    ir_tensor *t = &graph->tensors.at[tensor];
    ir_node *made = &graph->nodes.at[t->producer];
    if (made->op != IR_OP_variable ||
        ir_dtype_widened(t->dtype) != ir_dtype_widened(dtype) ||
        ir_dtype_bytes(t->dtype) <= ir_dtype_bytes(dtype))
        return false;
    made->i[9] = dtype;
    t->dtype = dtype;
    return true;
}

static int32_t narrow_sources(ir_graph *graph, ir_dtype dtype)
{
    int32_t n = 0;
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        const ir_node *node = &graph->nodes.at[v];
        for (int32_t k = 0; k < ir_op_table[node->op]->states; k++)
            n += narrow_source(graph, node->in[2 + k], dtype);
    }
    return n;
}

/* Types as they follow from the inputs'. */
static void infer_types(ir_graph *graph, const ir_node *node)
{
    ir_io io;
    fs_err err = {0};
    ir_node_io(graph, node, &io);
    if (ir_op_table[node->op]->infer(node, &io, &err) != FS_OK)
        ir_graph_fail(graph, "%s: %s", node->name, err.text);
    for (int32_t i = 0; i < node->n_out; i++)
        graph->tensors.at[node->out[i]].dtype = io.out_dtype[i];
}

int32_t ir_narrow_states(ir_graph *graph, ir_dtype dtype)
{
    const int32_t n = narrow_sources(graph, dtype);
    for (int32_t v = 0; n > 0 && v < graph->nodes.n; v++)
        if (graph->nodes.at[v].phase == IR_UPDATE)
            infer_types(graph, &graph->nodes.at[v]);
    return n;
}
