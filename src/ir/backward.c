/* Reverse mode over the op table: nodes are visited from the loss backwards;
 * only tensors on a path from a wanted tensor to the loss get a gradient. */
#include "config.h"
#include "ir/backward.h"

typedef struct pass {
    ir_graph *graph;
    fs_arena *arena;
    int32_t n_tensors; /* before the pass */
    int32_t *slot;     /* [tensor] index in wrt, or -1 */
    bool *needed;      /* [tensor] leads from a wanted tensor */
    int32_t *grad;     /* [tensor] sum of what arrived, or -1 */
    ir_part_fn *part;
    ir_id_list *parts; /* NULL: sum into grad */
} pass;

static pass open_pass(ir_graph *graph, const ir_derivative *of)
{
    pass p = {.graph = graph, .n_tensors = graph->tensors.n};
    p.arena = fs_arena_create();
    p.slot = fs_new(p.arena, int32_t, p.n_tensors);
    p.needed = fs_new(p.arena, bool, p.n_tensors);
    p.grad = fs_new(p.arena, int32_t, p.n_tensors);
    for (int32_t t = 0; t < p.n_tensors; t++)
        p.slot[t] = p.grad[t] = -1;
    for (int32_t k = 0; k < of->n; k++) {
        p.slot[of->wrt[k]] = k;
        p.needed[of->wrt[k]] = true;
    }
    return p;
}

static bool reads_needed(const pass *p, const ir_node *node)
{
    for (int32_t i = 0; i < node->n_in; i++)
        if (p->needed[node->in[i]])
            return true;
    return false;
}

/* No gradient flows through integers. */
static void mark_needed(pass *p)
{
    for (int32_t v = 0; v < p->graph->nodes.n; v++) {
        const ir_node *node = &p->graph->nodes.at[v];
        if (!reads_needed(p, node))
            continue;
        for (int32_t i = 0; i < node->n_out; i++)
            if (ir_dtype_is_float(p->graph->tensors.at[node->out[i]].dtype))
                p->needed[node->out[i]] = true;
    }
}

static void add_part(pass *p, int32_t tensor, int32_t part)
{
    int32_t slot = p->slot[tensor];
    if (p->parts && slot >= 0) {
        part = p->part(p->graph, tensor, part);
        fs_push(p->graph->arena, &p->parts[slot], part);
    } else if (p->grad[tensor] < 0) {
        p->grad[tensor] = part;
    } else {
        p->grad[tensor] = ir_binary(p->graph, IR_OP_add, p->grad[tensor], part);
    }
}

static void enter_node(ir_graph *graph, int32_t v)
{
    graph->phase = IR_BACKWARD;
    graph->forward = v;
    graph->scope = fs_printf(graph->arena, "%s.grad", graph->nodes.at[v].name);
}

static void visit(pass *p, int32_t v)
{
    ir_node node = p->graph->nodes.at[v]; /* the array may move */
    int32_t dout[IR_MAX_OUT], din[IR_MAX_IN];
    bool flows = false;
    for (int32_t i = 0; i < node.n_out; i++) {
        dout[i] = p->grad[node.out[i]];
        flows |= dout[i] >= 0;
    }
    for (int32_t i = 0; i < IR_MAX_IN; i++)
        din[i] = -1;
    if (!flows || !reads_needed(p, &node))
        return;
    if (!ir_op_table[node.op]->grad) {
        ir_graph_fail(p->graph, "%s: op %s has no gradient", node.name,
                      ir_op_table[node.op]->name);
        return;
    }
    enter_node(p->graph, v);
    ir_op_table[node.op]->grad(p->graph, &node, dout, din);
    for (int32_t i = 0; i < node.n_in; i++)
        if (din[i] >= 0 && p->needed[node.in[i]])
            add_part(p, node.in[i], din[i]);
}

static int32_t add_seed(ir_graph *graph, int32_t loss, double seed)
{
    ir_dtype dtype = graph->tensors.at[loss].dtype;
    enter_node(graph, graph->tensors.at[loss].producer);
    int32_t fill = ir_fill(graph, ir_shape_of(graph, loss), seed);
    return ir_cast(graph, fill, dtype);
}

static fs_status check_loss(const ir_graph *graph, int32_t loss, fs_err *err)
{
    char text[160];
    if (graph->err.status != FS_OK)
        return fs_fail(err, graph->err.status, "%s", graph->err.text);
    if (loss < 0 || loss >= graph->tensors.n)
        return fs_fail(err, FS_INVALID, "%s: the graph has no loss",
                       graph->name);
    const ir_tensor *t = &graph->tensors.at[loss];
    if (ir_shape_count(&t->shape) != 1 || !ir_dtype_is_float(t->dtype))
        return fs_fail(err, FS_INVALID,
                       "%s: a loss must be one float, not %s %s", t->name,
                       ir_dtype_name(t->dtype), ir_shape_text(text, &t->shape));
    return FS_OK;
}

static fs_status run_pass(pass *p, const ir_derivative *of, fs_err *err)
{
    ir_graph *graph = p->graph;
    ir_phase phase = graph->phase;
    int32_t forward = graph->forward;
    const char *scope = graph->scope;
    mark_needed(p);
    if (p->needed[of->loss]) {
        int32_t last = graph->tensors.at[of->loss].producer;
        add_part(p, of->loss, add_seed(graph, of->loss, of->seed));
        for (int32_t v = last; v >= 0; v--)
            visit(p, v);
    }
    graph->phase = phase;
    graph->forward = forward;
    graph->scope = scope;
    if (graph->err.status != FS_OK)
        return fs_fail(err, graph->err.status, "%s", graph->err.text);
    return FS_OK;
}

fs_status ir_backward_parts(ir_graph *graph, const ir_derivative *of,
                            ir_part_fn *part, fs_err *err, ir_id_list *parts)
{
    FS_TRY(check_loss(graph, of->loss, err));
    pass p = open_pass(graph, of);
    p.part = part;
    p.parts = parts;
    fs_status status = run_pass(&p, of, err);
    fs_arena_destroy(p.arena);
    return status;
}

fs_status ir_backward(ir_graph *graph, const ir_derivative *of, fs_err *err,
                      int32_t *grad)
{
    FS_TRY(check_loss(graph, of->loss, err));
    pass p = open_pass(graph, of);
    fs_status status = run_pass(&p, of, err);
    for (int32_t k = 0; k < of->n && status == FS_OK; k++)
        grad[k] = p.grad[of->wrt[k]];
    fs_arena_destroy(p.arena);
    return status;
}
