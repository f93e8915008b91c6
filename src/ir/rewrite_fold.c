/* Folding: a node that reads constants only becomes a constant. What the op
 * computes is the business of its reference kernel, of which this layer knows
 * nothing: the caller brings it along (ir_rewrite_options.evaluate). A folded
 * value is never larger than the constants it is made of, so that fills and
 * stretched numbers stay what they are, and all of them are bounded. */
#include "config.h"
#include "ir/op_util.h"
#include "ir/rewrite.h"
#include "ir/rewrite_match.h"

/* Of all values made, and operations spent on them. */
static const int64_t MOST_BYTES = INT64_C(256) << 20, MOST_FLOP = INT64_C(256)
                                                                  << 20;

typedef struct budget {
    int64_t bytes, flop;
} budget;

static int64_t bytes_of(const ir_tensor *t)
{
    return ir_shape_bytes(&t->shape, t->dtype);
}

/* Does the node do the same in every step, from constants alone? */
static bool is_foldable(const ir_graph *g, const ir_node *node)
{
    int64_t bytes = ir_dtype_bytes(IR_F64);
    const ir_op_class class = ir_op_class_of(node->op);
    if (class == IR_CLASS_SOURCE || class == IR_CLASS_UPDATE ||
        node->op == IR_OP_accumulate || ir_op_table[node->op]->draws ||
        node->n_in == 0 || node->n_out != 1 || node->out[0] == g->loss)
        return false;
    for (int32_t k = 0; k < node->n_in; k++) {
        const ir_tensor *t = &g->tensors.at[node->in[k]];
        if (t->role != IR_CONST || !t->data)
            return false;
        bytes = ir_add_sat(bytes, bytes_of(t));
    }
    return bytes_of(&g->tensors.at[node->out[0]]) <= bytes;
}

static bool spend(const ir_graph *g, const ir_node *node, budget *left)
{
    ir_io io;
    ir_work work = {0};
    ir_node_io(g, node, &io);
    if (ir_op_table[node->op]->work)
        ir_op_table[node->op]->work(node, &io, &work);
    const int64_t bytes = bytes_of(&g->tensors.at[node->out[0]]);
    if (bytes > left->bytes || work.flop > left->flop)
        return false;
    left->bytes -= bytes;
    left->flop -= work.flop;
    return true;
}

static void fold(ir_graph *g, int32_t v)
{
    const ir_node node = g->nodes.at[v];
    const ir_tensor *y = &g->tensors.at[node.out[0]];
    const void *in[IR_MAX_IN];
    void *out[1] = {fs_alloc(g->arena, (size_t)bytes_of(y), 1)};
    fs_err left_to_the_run = {0};
    ir_node constant = {.op = IR_OP_constant};
    for (int32_t k = 0; k < node.n_in; k++)
        in[k] = g->tensors.at[node.in[k]].data;
    if (g->evaluate(g, &node, in, out, &left_to_the_run) != FS_OK)
        return;
    ir_attr_set_shape(&constant, &y->shape);
    constant.i[9] = y->dtype;
    constant.i[10] = -1;
    if (!ir_graph_replace(g, v, &constant))
        return;
    g->tensors.at[node.out[0]].role = IR_CONST;
    g->tensors.at[node.out[0]].data = out[0];
}

void ir_rewrite_fold(ir_graph *g)
{
    budget left = {MOST_BYTES, MOST_FLOP};
    if (!g->evaluate)
        return;
    for (int32_t v = 0; v < g->nodes.n && g->err.status == FS_OK; v++)
        if (is_foldable(g, &g->nodes.at[v]) && spend(g, &g->nodes.at[v], &left))
            fold(g, v);
}
