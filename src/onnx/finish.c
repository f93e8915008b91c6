#include "config.h"
#include "onnx/finish.h"
#include "onnx/scope.h"

#include "ir/losses.h"
#include "ir/rewrite.h"

#include <string.h>

/* Why an output is no tensor. */
static fs_status explain_output(onnx_ctx *c, const char *name,
                                const onnx_value *value)
{
    const onnx_proto *proto = &c->model->proto;
    const bool empty = value->is_known && onnx_const_count(&value->known) == 0;
    for (int32_t i = 0; i < proto->inputs.n && empty; i++) {
        char shape[160];
        int32_t id = onnx_find(c, proto->inputs.at[i].name);
        const onnx_const *known = id < 0 ? NULL : &c->values.at[id].known;
        if (!known || !c->values.at[id].is_known || onnx_const_count(known) > 0)
            continue;
        return onnx_fail(c,
                         "output \"%.80s\" is empty, as is input \"%.80s\": "
                         "%s",
                         name, proto->inputs.at[i].name,
                         ir_shape_text(shape, &known->shape));
    }
    return onnx_fail(c,
                     empty ? "output \"%.80s\" is empty"
                           : "output \"%.80s\" depends on no input",
                     name);
}

/* Tensor of output i of the model, materialised; -1 on error. */
static fs_status output_tensor(onnx_ctx *c, int32_t i, int32_t *out)
{
    const char *name = c->model->proto.outputs.at[i].name;
    int32_t id = onnx_find(c, name);
    if (id < 0 || c->values.at[id].refused)
        return onnx_fail(c, "output \"%.80s\" is made by no node", name);
    onnx_value *value = &c->values.at[id];
    *out = value->tensor;
    if (value->sequence)
        return onnx_fail(c,
                         "output \"%.80s\" is a sequence, which is not "
                         "supported",
                         name);
    if (value->tensor < 0)
        return explain_output(c, name, value);
    if (c->graph->tensors.at[value->tensor].role == IR_ACTIVATION &&
        ir_graph_find(c->graph, name) < 0)
        ir_graph_rename(c->graph, value->tensor, name);
    return FS_OK;
}

static bool is_loss(const ir_graph *g, int32_t tensor)
{
    return ir_dtype_is_float(g->tensors.at[tensor].dtype) &&
           g->tensors.at[tensor].shape.rank == 0;
}

/* A data input beside the model's own, as the appended loss needs. */
static int32_t add_target(onnx_ctx *c, const char *name, ir_dtype dtype,
                          ir_shape shape)
{
    bool samples =
        shape.rank > 0 && c->batch > 0 && shape.dim[0] % c->batch == 0;
    if (ir_graph_find(c->graph, name) >= 0)
        name = fs_printf(c->arena, "%s_of_loss", name);
    return ir_input(c->graph, name, dtype, shape, samples ? 0 : -1);
}

/* Losses of an output and a target of its shape. */
typedef int32_t target_loss(ir_graph *g, int32_t output, int32_t target);
static target_loss *find_target_loss(const char *name)
{
    static const struct {
        const char *name;
        target_loss *loss;
    } rows[] = {{"mse", ir_mse},
                {"l1", ir_l1},
                {"bce", ir_bce},
                {"bce-logits", ir_bce_logits}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].name, name) == 0)
            return rows[i].loss;
    return NULL;
}

/* What PyTorch's cross entropy leaves out by default, as padding. */
enum { IGNORED_LABEL = -100 };

static fs_status append_label_loss(onnx_ctx *c, int32_t output)
{
    const bool margin = onnx_is_margin(c->options->loss);
    ir_shape shape = ir_shape_of(c->graph, output);
    if (shape.rank < 2)
        return onnx_fail(c,
                         "%s wants logits (N, .., classes); the output has "
                         "rank %d",
                         margin ? "margin" : "cross-entropy", shape.rank);
    if (shape.dim[shape.rank - 1] == 1)
        return onnx_fail(c,
                         "%s wants two classes or more; the output has one "
                         "(a yes or no is learnt by bce-logits)",
                         margin ? "margin" : "cross-entropy");
    shape.rank--;
    int32_t labels = add_target(c, "labels", IR_I64, shape);
    if (margin)
        return onnx_append_margin(c, output, labels);
    const ir_label_loss loss = {.labels = labels,
                                .weights = -1,
                                .ignores = true,
                                .ignored = IGNORED_LABEL,
                                .reduction = IR_ROWS_MEAN};
    c->graph->loss = ir_cross_entropy_parts(c->graph, output, &loss);
    return FS_OK;
}

static bool is_label_loss(const char *name)
{
    return onnx_is_margin(name) || strcmp(name, "cross-entropy") == 0;
}

fs_status onnx_loss_check(const char *loss, fs_err *err)
{
    onnx_margin margin;
    if (onnx_is_margin(loss))
        return onnx_margin_parse(loss, err, &margin);
    if (is_label_loss(loss) || find_target_loss(loss))
        return FS_OK;
    return fs_fail(err, FS_INVALID,
                   "'%.80s' is unknown; there are cross-entropy, margin, "
                   "mse, l1, bce and bce-logits",
                   loss);
}

static fs_status append_loss(onnx_ctx *c, int32_t output)
{
    ir_graph *g = c->graph;
    const char *name = c->options->loss;
    target_loss *loss = find_target_loss(name);
    FS_TRY(onnx_loss_check(name, c->err));
    g->scope = "loss";
    if (loss)
        g->loss = loss(g, output,
                       add_target(c, "target", g->tensors.at[output].dtype,
                                  ir_shape_of(g, output)));
    else
        FS_TRY(append_label_loss(c, output));
    g->scope = NULL;
    if (ir_graph_find(g, "loss") < 0)
        ir_graph_rename(g, g->loss, "loss");
    return g->err.status == FS_OK ? FS_OK : onnx_fail(c, "%s", g->err.text);
}

/* With a loss in the graph nothing else is kept: each output would be
 * gathered whole in every step. */
static fs_status find_loss(onnx_ctx *c)
{
    int32_t n = c->model->proto.outputs.n, tensor, first = -1;
    for (int32_t i = 0; i < n; i++) {
        FS_TRY(output_tensor(c, i, &tensor));
        if (is_loss(c->graph, tensor) && c->graph->loss < 0)
            c->graph->loss = tensor;
        else if (first < 0 &&
                 ir_dtype_is_float(c->graph->tensors.at[tensor].dtype))
            first = tensor;
    }
    if (c->graph->loss >= 0) {
        if (n > 1)
            onnx_note(c, "only the loss \"%.80s\" is kept of %d outputs",
                      c->graph->tensors.at[c->graph->loss].name, n);
        if (!c->options->loss)
            return FS_OK;
        return onnx_about(
            c->options, "loss",
            onnx_fail(c, "the model has a loss, \"%.80s\": leave '%.80s' out",
                      c->graph->tensors.at[c->graph->loss].name,
                      c->options->loss));
    }
    if (c->options->loss && first < 0)
        return onnx_about(c->options, "loss",
                          onnx_fail(c, "no float output for a loss"));
    if (c->options->loss && n > 1)
        onnx_note(c, "--loss is of the output \"%.80s\", the first of %d",
                  c->graph->tensors.at[first].name, n);
    return c->options->loss
               ? onnx_about(c->options, "loss", append_loss(c, first))
               : FS_OK;
}

/* Outputs by position: one that is an input, or another's tensor too, is a
 * tensor of its own. */
static void mark_own(ir_graph *g, int32_t tensor)
{
    bool taken = g->tensors.at[tensor].role == IR_INPUT;
    for (int32_t i = 0; i < g->outputs.n; i++)
        taken = taken || g->outputs.at[i] == tensor;
    ir_mark_output(g, taken ? ir_unary(g, IR_OP_identity, tensor) : tensor);
}

/* What a buffer takes as its next value is nobody's output, where an export
 * says so. */
static const bool *list_carried(onnx_ctx *c)
{
    const ir_graph *g = c->graph;
    bool *out = fs_new(c->arena, bool, g->tensors.n);
    for (int32_t t = 0; t < g->tensors.n && c->model->proto.notes.n > 0; t++)
        if (g->tensors.at[t].next >= 0)
            out[g->tensors.at[t].next] = true;
    return out;
}

/* Also where nothing is left to compute. What has no elements is no tensor. */
static fs_status mark_known(onnx_ctx *c)
{
    ir_graph *g = c->graph;
    const int32_t n_known = g->tensors.n;
    const bool *carried = list_carried(c);
    for (int32_t i = 0; i < c->model->proto.outputs.n; i++) {
        char shape[160];
        const char *name = c->model->proto.outputs.at[i].name;
        int32_t id = onnx_find(c, name), tensor;
        onnx_value *value = id < 0 ? NULL : &c->values.at[id];
        bool known = value && value->is_known && value->tensor < 0;
        if (known && onnx_const_count(&value->known) == 0) {
            onnx_note(c, "output \"%.80s\" is empty: %s", name,
                      ir_shape_text(shape, &value->known.shape));
            continue;
        }
        if (known)
            value->tensor = onnx_tensor_of(c, value);
        FS_TRY(output_tensor(c, i, &tensor));
        if (!c->options->answers || tensor >= n_known || !carried[tensor])
            mark_own(g, tensor);
    }
    return FS_OK;
}

static fs_status mark_all(onnx_ctx *c)
{
    const bool *carried = list_carried(c);
    const int32_t n_known = c->graph->tensors.n;
    for (int32_t i = 0; i < c->model->proto.outputs.n; i++) {
        int32_t tensor;
        FS_TRY(output_tensor(c, i, &tensor));
        if (tensor < n_known && carried[tensor])
            continue;
        ir_mark_output(c->graph, tensor);
    }
    return FS_OK;
}

/* Only training moves them. */
static void keep_buffers(ir_graph *g)
{
    for (int32_t t = 0; t < g->tensors.n; t++)
        g->tensors.at[t].next = -1;
}

fs_status onnx_mark_ends(onnx_ctx *c)
{
    ir_graph *g = c->graph;
    if (c->model->proto.outputs.n == 0)
        return onnx_fail(c, "the graph has no outputs");
    if (!c->options->infer)
        onnx_restore_buffers(c);
    if (c->options->infer || c->options->answers) {
        FS_TRY(mark_known(c));
        if (c->options->answers)
            keep_buffers(g);
    } else {
        FS_TRY(find_loss(c));
        if (g->loss < 0)
            FS_TRY(mark_all(c));
        if (g->loss < 0)
            onnx_note(c, "the graph has no loss; --loss appends one");
    }
    return g->err.status == FS_OK ? FS_OK : onnx_fail(c, "%s", g->err.text);
}

fs_status onnx_clean_up(onnx_ctx *c)
{
    ir_graph *g = c->graph;
    const ir_rewrite_options usual = ir_rewrite_usual();
    const ir_rewrite_options *on =
        c->options->rewrites ? c->options->rewrites : &usual;
    if (on->dead)
        ir_graph_prune(g);
    if (on->dead && !c->options->infer && g->err.status == FS_OK)
        onnx_drop_states(c);
    if (!c->options->infer && g->err.status == FS_OK)
        onnx_find_buffers(c);
    if (!c->options->no_rewrite)
        ir_rewrite(g, on);
    if (g->err.status != FS_OK)
        return onnx_fail(c, "%s", g->err.text);
    return ir_graph_check(g, c->err);
}
