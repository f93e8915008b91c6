/* How the values of a plan's nodes lie: those of an op's own inputs and outputs
 * by the op's signature, constants whole, and what its nodes hand on among each
 * other (a chain's steps likewise) by the signatures that ir has for what each
 * of them does: where one is legal for the inputs as they lie, its output
 * follows. */
#include "config.h"
#include "onnx/writer.h"

#include <string.h>

static int32_t origin_of(const onnx_writer *w)
{
    return w->origin[w->node - w->graph->nodes.at];
}

/* The n-th of this name, else the last: an op may read a tensor twice, each
 * time in another layout. */
static const onnx_layout *find(const onnx_writer *w, const char *name,
                               int32_t n)
{
    const onnx_layout *found = NULL;
    for (int32_t i = 0; i < w->layouts.n && n >= 0; i++)
        if (strcmp(w->layouts.at[i].name, name) == 0) {
            found = &w->layouts.at[i];
            n--;
        }
    return found;
}

const onnx_layout *onnx_layout_of(const onnx_writer *w, const onnx_line *line,
                                  int32_t i)
{
    int32_t before = 0;
    if (i >= line->n_in)
        return find(w, line->out[i - line->n_in], INT32_MAX);
    for (int32_t k = 0; k < i; k++)
        before += strcmp(line->in[k], line->in[i]) == 0;
    return find(w, line->in[i], before);
}

static void lay(onnx_writer *w, const char *name, const ir_tensor *t,
                const ir_nd_sbp *sbp)
{
    onnx_layout layout = {name, t->shape, t->dtype, NULL, *sbp};
    fs_push(w->arena, &w->layouts, layout);
}

void onnx_lay_constant(onnx_writer *w, const onnx_blob *blob)
{
    onnx_layout layout = {
        blob->name, blob->shape, blob->dtype, blob->data, {{{0}}}};
    if (w->options->placement && w->node)
        fs_push(w->arena, &w->layouts, layout);
}

/* ---- what follows ---- */

static bool fits_axis(const ir_node *node, const ir_sig *sig,
                      const ir_nd_sig *nd, int32_t axis)
{
    for (int32_t i = 0; i < node->n_in; i++)
        if (!ir_sbp_equal(sig->in[i], nd->in[i].at[axis]))
            return false;
    return true;
}

/* From how a node's inputs lie to how its outputs do. */
static bool follow(onnx_writer *w, const ir_node *node, const ir_io *io,
                   ir_nd_sig *sig)
{
    const onnx_placement *p = w->options->placement;
    const ir_mesh *mesh = &p->mesh[p->stage_of[origin_of(w)]];
    ir_sig_list list;
    ir_signatures_local(node, io, w->arena, &list);
    for (int32_t axis = 0; axis < mesh->n; axis++) {
        int32_t i = 0;
        while (i < list.n && !fits_axis(node, &list.at[i], sig, axis))
            i++;
        if (i == list.n)
            return false;
        for (int32_t k = 0; k < node->n_out; k++)
            sig->out[k].at[axis] = list.at[i].out[k];
    }
    return ir_signature_fits(node, io, mesh, sig);
}

/* ---- ops ---- */

/* A step of a chain: what the chain reads and gives lies as it says. */
static void lay_step(onnx_writer *w)
{
    const ir_node *step = w->node;
    ir_nd_sig sig = {0};
    ir_io io;
    ir_node_io(w->graph, step, &io);
    for (int32_t i = 0; i < step->n_in; i++) {
        const onnx_layout *at = find(w, w->name[step->in[i]], INT32_MAX);
        if (!at)
            return;
        sig.in[i] = at->sbp;
    }
    if (!follow(w, step, &io, &sig))
        return;
    for (int32_t i = 0; i < step->n_out; i++)
        if (!find(w, w->name[step->out[i]], 0))
            lay(w, w->name[step->out[i]], onnx_out_tensor(w, i), &sig.out[i]);
}

void onnx_lay_op(onnx_writer *w)
{
    const int32_t v = origin_of(w);
    const ir_node *node = &w->planned->nodes.at[v];
    const ir_nd_sig *sig = &w->options->placement->sig[v];
    if (w->laid_out != node) {
        w->layouts.n = 0;
        for (int32_t i = 0; i < node->n_in; i++)
            lay(w, w->name[node->in[i]], &w->graph->tensors.at[node->in[i]],
                &sig->in[i]);
        for (int32_t i = 0; i < node->n_out; i++)
            lay(w, w->name[node->out[i]], &w->graph->tensors.at[node->out[i]],
                &sig->out[i]);
        if (node->op == IR_OP_accumulate && w->sum[node->out[0]])
            lay(w, w->sum[node->out[0]], onnx_out_tensor(w, 0), &sig->out[0]);
        if (w->step)
            lay(w, w->step, &(ir_tensor){.dtype = IR_I64}, &(ir_nd_sbp){0});
    }
    w->laid_out = node;
    if (node->chain)
        lay_step(w);
}

/* ---- nodes of one op ---- */

/* Integers that say how an operator works: an input or an attribute. */
typedef struct integers {
    int32_t n;
    const int64_t *at;
} integers;

static integers integers_of(const onnx_writer *w, const onnx_line *line)
{
    const onnx_layout *last =
        line->n_in == 2 ? find(w, line->in[1], INT32_MAX) : NULL;
    if (last && last->data && last->dtype == IR_I64 && last->shape.rank == 1)
        return (integers){(int32_t)last->shape.dim[0], last->data};
    return (integers){line->n_list, line->list};
}

/* The attributes of the op that does what an operator does; false: none does.
 * Sums keep their axes in what is written of several nodes; a mean is a sum
 * times a number. */
static bool find_op(const onnx_writer *w, const onnx_line *line, int32_t rank,
                    ir_node *node)
{
    const integers list = integers_of(w, line);
    node->n_in = line->n_in;
    node->n_out = 1;
    node->op = strcmp(line->op, "ReduceMean") == 0
                   ? IR_OP_reduce_sum
                   : onnx_op_written_as(line->op, line->n_in);
    if (node->op == IR_OP_COUNT)
        return false;
    if (node->op == IR_OP_reduce_sum) {
        node->n_in = 1;
        node->i[1] = 1;
        for (int32_t k = 0; k < list.n; k++)
            node->i[0] |= 1LL
                          << (list.at[k] < 0 ? list.at[k] + rank : list.at[k]);
        return true;
    }
    if (node->op == IR_OP_reshape || node->op == IR_OP_broadcast_to ||
        node->op == IR_OP_transpose) {
        node->n_in = 1;
        node->i[0] = list.n;
        for (int32_t k = 0; k < list.n; k++)
            node->i[1 + k] = list.at[k];
        return true;
    }
    return node->op == IR_OP_matmul || node->op == IR_OP_identity ||
           ir_op_class_of(node->op) == IR_CLASS_POINTWISE;
}

void onnx_lay_line(onnx_writer *w, const onnx_line *line)
{
    const onnx_layout *first = line->n_in ? find(w, line->in[0], 0) : NULL;
    ir_node node = {0};
    ir_nd_sig sig = {0};
    ir_io io = {0};
    fs_err ignored = {0};
    if (line->n_out != 1 || find(w, line->out[0], 0) || !first ||
        !find_op(w, line, first->shape.rank, &node))
        return;
    for (int32_t i = 0; i < node.n_in; i++) {
        const onnx_layout *at = onnx_layout_of(w, line, i);
        if (!at)
            return;
        io.in[i] = at->shape;
        io.in_dtype[i] = at->dtype;
        sig.in[i] = at->sbp;
    }
    if (ir_op_table[node.op]->infer(&node, &io, &ignored) != FS_OK ||
        !follow(w, &node, &io, &sig))
        return;
    lay(w, line->out[0],
        &(ir_tensor){.shape = io.out[0], .dtype = io.out_dtype[0]},
        &sig.out[0]);
}
