/* The import: for each node, one call of its row's handler. */
#include "config.h"
#include "onnx/import.h"

#include "onnx/declared.h"
#include "onnx/finish.h"
#include "onnx/inputs.h"
#include "onnx/operators.h"
#include "onnx/scope.h"
#include "onnx/signature.h"

#include <stdio.h>
#include <string.h>

enum { OLDEST_OPSET = 1, NEWEST_OPSET = 27 };

enum { ANY, WIDE };
static const onnx_row rows[] = {
#define ONNX_OP(type, types, import, fold, import_arg, fold_arg)               \
    {#type,      types == WIDE, onnx_import_##import, onnx_fold_##fold,        \
     import_arg, fold_arg},
#include "onnx/import.def"
#undef ONNX_OP
};

const onnx_row *onnx_find_row(const char *op)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].op, op) == 0)
            return &rows[i];
    return NULL;
}

const char *onnx_operator_at(int32_t i)
{
    bool there = i >= 0 && (size_t)i < sizeof rows / sizeof *rows;
    return there ? rows[i].op : NULL;
}

static bool is_standard(const char *domain)
{
    return domain[0] == '\0' || strcmp(domain, "ai.onnx") == 0;
}

/* Whose operators stand in import.def. */
static bool is_known_domain(const char *domain)
{
    return is_standard(domain) ||
           strcmp(domain, "ai.onnx.preview.training") == 0;
}

static fs_status find_opset(onnx_ctx *c)
{
    const onnx_proto *proto = &c->model->proto;
    bool standard = false;
    for (int32_t i = 0; i < proto->opsets.n; i++)
        if (is_standard(proto->opsets.at[i].domain)) {
            c->opset = proto->opsets.at[i].version;
            standard = true;
        }
    if (!standard)
        c->opset = NEWEST_OPSET;
    if (c->opset < OLDEST_OPSET)
        return onnx_fail(c, "opset %lld is older than %d, the oldest supported",
                         (long long)c->opset, OLDEST_OPSET);
    if (c->opset > NEWEST_OPSET)
        onnx_note(c, "opset %lld is newer than %d, the newest known",
                  (long long)c->opset, NEWEST_OPSET);
    if (proto->sparse)
        return onnx_fail(c, "sparse initializers are not supported");
    return FS_OK;
}

/* Our own ops, by their names, as an export wrote them. */
static const onnx_row own_row = {"flowsearch",   false, onnx_import_own,
                                 onnx_fold_none, 0,     0};

static fs_status find_handler(onnx_ctx *c, const onnx_row **row)
{
    const onnx_node *node = c->node;
    *row = is_known_domain(node->domain) ? onnx_find_row(node->op) : NULL;
    if (strcmp(node->domain, "flowsearch") == 0)
        *row = &own_row;
    if (*row)
        return FS_OK;
    return onnx_fail(c,
                     "operator \"%.80s\" of domain \"%.80s\" is not supported",
                     node->op, node->domain[0] ? node->domain : "ai.onnx");
}

/* Are all inputs known, or (`given`) at least their values of this run? With
 * an input that has no elements these do: it can be no tensor. */
static bool all_known(const onnx_ctx *c, bool given)
{
    bool known = true, empty = false;
    for (int32_t i = 0; i < c->node->in.n; i++) {
        int32_t id = onnx_find(c, c->node->in.at[i]);
        const onnx_value *value = id < 0 ? NULL : &c->values.at[id];
        if (!onnx_has(c, i))
            continue;
        if (!value || !(value->is_known || value->is_given))
            return false;
        known = known && value->is_known;
        empty =
            empty || (value->is_known && onnx_const_count(&value->known) == 0);
    }
    return known || empty || given;
}

static bool folds_floats(const onnx_ctx *c)
{
    return !c->options->rewrites || c->options->rewrites->fold;
}

/* Without the rewrite `fold` what is made of known floats is computed when the
 * graph runs; shapes are integers, and what leads to one through floats is
 * known beside its tensors (keep_values). */
static bool is_left_to_run(const onnx_ctx *c)
{
    bool floats = false;
    if (folds_floats(c))
        return false;
    for (int32_t i = 0; i < c->node->in.n; i++) {
        int32_t id = onnx_find(c, c->node->in.at[i]);
        if (!onnx_has(c, i) || id < 0 || !c->values.at[id].is_known)
            continue;
        if (onnx_const_count(&c->values.at[id].known) == 0)
            return false; /* it can be no tensor */
        floats = floats || ir_dtype_is_float(c->values.at[id].known.dtype);
    }
    return floats;
}

/* What a node makes of values that are only given is kept beside its tensors,
 * for those who want to know it at import. */
static void keep_values(onnx_ctx *c, const onnx_row *row)
{
    enum { LARGEST = 4096 };
    ir_shape shape;
    if ((!c->options->n_given && folds_floats(c)) ||
        row->fold == onnx_fold_none || c->node->in.n == 0 ||
        !all_known(c, true))
        return;
    for (int32_t i = 0; i < c->node->in.n; i++)
        if (onnx_has(c, i) && (onnx_shape(c, i, &shape) != FS_OK ||
                               ir_shape_count(&shape) > LARGEST))
            return;
    fs_err before = *c->err;
    c->arg = row->fold_arg;
    c->widens = false;
    c->beside = true;
    row->fold(c);
    c->beside = false;
    *c->err = before;
}

/* Shape of a value by name; rank -1 when it has none. */
static ir_shape shape_of_name(const onnx_ctx *c, const char *name)
{
    int32_t id = onnx_find(c, name);
    if (id < 0 || c->values.at[id].refused || c->values.at[id].sequence)
        return (ir_shape){.rank = -1};
    const onnx_value *value = &c->values.at[id];
    return value->tensor >= 0 ? ir_shape_of(c->graph, value->tensor)
                              : value->known.shape;
}

static void record_shapes(onnx_ctx *c)
{
    ir_shape none = {.rank = -1};
    if (!c->record)
        return;
    c->record->in.at[c->step] =
        onnx_has(c, 0) ? shape_of_name(c, c->node->in.at[0]) : none;
    c->record->out.at[c->step] =
        onnx_wants(c, 0) ? shape_of_name(c, c->node->out.at[0]) : none;
}

/* A node that became a single op keeps its own name; of several, each stands
 * below it ("NODE/op"). */
static void keep_name(onnx_ctx *c, int32_t first)
{
    ir_graph *g = c->graph;
    int32_t n = 0, id = -1;
    for (int32_t i = first; i < g->nodes.n; i++) {
        ir_op_kind op = g->nodes.at[i].op;
        if (op == IR_OP_constant || op == IR_OP_variable)
            continue;
        id = i;
        n++;
    }
    if (n == 1)
        ir_graph_rename_node(g, id, g->scope);
}

/* The first input's type that no kernel computes in. */
static bool find_narrow(onnx_ctx *c, ir_dtype *out)
{
    c->widens = false;
    for (int32_t i = 0; i < c->node->in.n; i++) {
        int32_t id = onnx_find(c, c->node->in.at[i]);
        if (!onnx_has(c, i) || id < 0 || c->values.at[id].refused ||
            c->values.at[id].sequence)
            continue;
        *out = onnx_dtype_of(c, i);
        if (!ir_dtype_computes(*out))
            return true;
    }
    return false;
}

static fs_status fold_or_import(onnx_ctx *c, const onnx_row *row, bool folds)
{
    c->arg = folds ? row->fold_arg : row->arg;
    c->widens = !folds && row->widens && find_narrow(c, &c->narrow);
    return folds ? row->fold(c) : row->import(c);
}

/* What is too large to be computed now is computed when the graph runs. */
static fs_status call_row(onnx_ctx *c, const onnx_row *row)
{
    bool folds = row->fold != onnx_fold_none &&
                 (row->import == onnx_import_none ||
                  (all_known(c, false) && !is_left_to_run(c)));
    int32_t first = c->graph->nodes.n;
    const fs_err before = *c->err;
    c->too_large = false;
    fs_status status = fold_or_import(c, row, folds);
    if (status != FS_OK && folds && c->too_large &&
        row->import != onnx_import_none) {
        *c->err = before;
        folds = false;
        status = fold_or_import(c, row, false);
    }
    FS_TRY(status);
    if (c->graph->err.status == FS_OK)
        keep_name(c, first);
    if (!folds && c->graph->err.status == FS_OK)
        keep_values(c, row);
    return FS_OK;
}

/* A function of the model's own comes before an operator of its name; one that
 * an export wrote for others does not come before our op. */
static fs_status call_handler(onnx_ctx *c)
{
    const onnx_function *function =
        onnx_is_own(c->node) ? NULL : onnx_find_function(c);
    const onnx_row *row;
    fs_status status = FS_OK;
    if (function) {
        status = onnx_call_function(c, function);
    } else {
        FS_TRY(find_handler(c, &row));
        FS_TRY(onnx_check_signature(c));
        if (c->opset < 7)
            FS_TRY(onnx_modernise(c));
        status = call_row(c, row);
    }
    if (c->graph->err.status != FS_OK)
        return onnx_fail(c, "%s", c->graph->err.text);
    return status;
}

static void explain_failure(onnx_ctx *c)
{
    const onnx_node *node = c->node;
    if (c->scope->parent) {
        fs_err_prefix(c->err, "node %d \"%.40s\" (%.40s)", c->at, node->name,
                      node->op);
        return;
    }
    if (c->before && !strstr(c->err->text, "dynamic_axes")) {
        size_t n = strlen(c->err->text);
        snprintf(c->err->text + n, sizeof c->err->text - n,
                 " (after changing the batch of %lld that was fixed at export "
                 "to %lld; export with dynamic_axes for axis 0)",
                 (long long)c->old_batch, (long long)c->batch);
    }
    fs_err_prefix(c->err, "%s: node %d \"%.80s\" (%.60s)", c->model->path,
                  c->at, node->name, node->op);
}

/* What the nodes of the graph are called after. */
static const char *name_node(onnx_ctx *c)
{
    const char *outer = c->scope->prefix, *name = c->node->name;
    if (!outer)
        return name[0] ? name
                       : fs_printf(c->arena, "/%s_%d", c->node->op, c->at);
    return name[0] ? fs_printf(c->arena, "%.400s/%.80s", outer, name)
                   : fs_printf(c->arena, "%.400s/%.40s_%d", outer, c->node->op,
                               c->at);
}

static void open_step(onnx_ctx *c)
{
    ir_shape none = {.rank = -1};
    c->step = c->n_steps++;
    if (!c->record)
        return;
    fs_push(c->model->arena, &c->record->in, none);
    fs_push(c->model->arena, &c->record->out, none);
}

static fs_status import_node(onnx_ctx *c, const onnx_node *node, int32_t i)
{
    c->at = i;
    c->node = onnx_resolve(c, node);
    c->graph->scope = name_node(c);
    open_step(c);
    if (c->scope->parent)
        FS_TRY(onnx_spend(c));
    fs_status status = call_handler(c);
    for (int32_t k = 0; k < c->node->out.n && !c->scope->parent; k++)
        if (status == FS_OK)
            status = onnx_check_declared(c, c->node->out.at[k]);
    if (status != FS_OK)
        explain_failure(c);
    else
        record_shapes(c);
    return status;
}

/* Within a node that has a body, that node is at hand again afterwards. */
fs_status onnx_import_nodes(onnx_ctx *c, const onnx_node *nodes, int32_t n)
{
    const onnx_ctx outer = *c;
    const char *scope = c->graph->scope;
    fs_status status = FS_OK;
    c->nodes = nodes;
    c->n_nodes = n;
    for (int32_t i = 0; i < n && status == FS_OK; i++)
        status = import_node(c, &nodes[i], i);
    c->nodes = outer.nodes;
    c->n_nodes = outer.n_nodes;
    c->node = outer.node;
    c->at = outer.at;
    c->step = outer.step;
    c->arg = outer.arg;
    c->widens = outer.widens;
    c->narrow = outer.narrow;
    c->graph->scope = scope;
    return status;
}

static fs_status import_graph(onnx_ctx *c)
{
    const onnx_proto *proto = &c->model->proto;
    FS_TRY(onnx_import_nodes(c, proto->nodes.at, proto->nodes.n));
    if (c->n_dropped)
        onnx_note(c, "%d Dropout nodes (ratio up to %g) %s", c->n_dropped,
                  c->dropped,
                  c->options->no_dropout
                      ? "are left out, as asked"
                      : "draw their masks from the seed; --no-dropout leaves "
                        "them out");
    return FS_OK;
}

static fs_status import_parts(onnx_ctx *c, const onnx_batch *batch)
{
    fs_status status = find_opset(c);
    if (status == FS_OK)
        status = onnx_add_inputs(c, batch);
    if (status == FS_OK && c->graph->err.status == FS_OK)
        status = onnx_list_declared(c);
    if (c->graph->err.status != FS_OK)
        status = onnx_fail(c, "%s", c->graph->err.text);
    if (status != FS_OK) {
        fs_err_prefix(c->err, "%s", c->model->path);
        return status;
    }
    status = import_graph(c);
    if (status != FS_OK)
        return onnx_check_inputs(c, status);
    status = onnx_mark_ends(c);
    if (status == FS_OK)
        return FS_OK;
    fs_err_prefix(c->err, "%s", c->model->path);
    return onnx_check_inputs(c, status);
}

/* Room for what most files come to, a tensor per value: no more than a file of
 * nodes worth their bytes can hold. */
static void reserve(onnx_ctx *c, onnx_scope *scope)
{
    enum { NODE_BYTES = 16 };
    const onnx_proto *proto = &c->model->proto;
    const size_t n = (size_t)proto->nodes.n + (size_t)proto->inputs.n +
                     (size_t)proto->initializers.n;
    const size_t most = c->model->files.at[0].bytes / NODE_BYTES;
    const int32_t room = (int32_t)(n < most ? n : most);
    ir_graph_reserve(c->graph, room);
    fs_map_reserve(&scope->index, room);
    fs_reserve(c->scratch, &c->values, room);
}

static fs_status import_with_scratch(onnx_ctx *c, const onnx_batch *batch)
{
    onnx_scope scope = {.index = {.arena = c->scratch}};
    reserve(c, &scope);
    c->scope = &scope;
    return import_parts(c, batch);
}

static fs_status clean_up(onnx_ctx *c)
{
    const fs_status status = onnx_clean_up(c);
    if (status != FS_OK)
        fs_err_prefix(c->err, "%s", c->model->path);
    return onnx_check_inputs(c, status);
}

static const char *model_name(fs_arena *arena, const char *path)
{
    const char *slash = strrchr(path, '/');
    char *name = fs_strdup(arena, slash ? slash + 1 : path);
    size_t n = strlen(name);
    if (n > 5 && strcmp(name + n - 5, ".onnx") == 0)
        name[n - 5] = '\0';
    return name;
}

/* One import with one batch. `setup` gives what differs between the two of a
 * graph that is re-batched. */
static fs_status import_once(const onnx_ctx *setup, const onnx_batch *batch,
                             ir_graph **out)
{
    onnx_ctx c = *setup;
    c.graph = ir_graph_create(model_name(c.model->arena, c.model->path));
    c.arena = c.graph->arena;
    c.scratch = fs_arena_create();
    c.graph->batch = c.batch;
    c.graph->digest = c.model->digest;
    fs_status status = import_with_scratch(&c, batch);
    fs_arena_destroy(c.scratch);
    if (status == FS_OK)
        status = clean_up(&c);
    if (status != FS_OK)
        ir_graph_destroy(c.graph);
    else
        *out = c.graph;
    return status;
}

/* Imports with the exported batch, for the shapes, then with the wanted one. */
static fs_status import_rebatched(onnx_ctx *setup, const onnx_batch *batch,
                                  ir_graph **out)
{
    onnx_trace trace = {0};
    onnx_ctx first = *setup;
    ir_graph *graph;
    first.batch = first.old_batch;
    first.record = &trace;
    first.notes = NULL;
    FS_TRY(import_once(&first, batch, &graph));
    ir_graph_destroy(graph);
    setup->before = &trace;
    onnx_note(setup,
              "the batch of %lld that was fixed at export is changed "
              "to %lld",
              (long long)setup->old_batch, (long long)setup->batch);
    return onnx_about(setup->options, "batch", import_once(setup, batch, out));
}

static fs_status import_model(onnx_ctx *setup, ir_graph **out)
{
    const onnx_options *options = setup->options;
    onnx_batch batch;
    FS_TRY(onnx_find_batch(setup->model, options, setup->err, &batch));
    setup->batch = options->batch ? options->batch : batch.exported;
    FS_TRY(onnx_bind_batch(setup, &batch));
    setup->old_batch = batch.exported;
    if (batch.exported && setup->batch != batch.exported)
        return import_rebatched(setup, &batch, out);
    return import_once(setup, &batch, out);
}

fs_status onnx_import(const char *path, const onnx_options *options,
                      fs_err *err, onnx_model **model, ir_graph **graph,
                      fs_text *notes)
{
    onnx_model *opened;
    FS_TRY(onnx_model_open(path, err, &opened));
    onnx_ctx setup = {
        .model = opened, .options = options, .err = err, .notes = notes};
    fs_status status = import_model(&setup, graph);
    if (status != FS_OK)
        onnx_model_close(opened);
    else
        *model = opened;
    return status;
}
