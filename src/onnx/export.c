/* The export: for each node of the graph, one call of its row's handler, or a
 * node of our own domain; then the file in one go, values last. */
#include "config.h"
#include "onnx/writer.h"

#include "ir/chain.h"
#include "ir/first_values.h"

#include "base/text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Operators of 17 are what most tools read; sharding annotations came with the
 * messages of version 11. */
enum { USUAL_OPSET = 17, USUAL_IR = 8, SHARDING_IR = 11 };
/* Protobuf's limit, less room for what stands around the values. */
static const int64_t LARGEST_FILE = INT32_MAX - (1 << 20);
enum { SIDE_ALIGNMENT = 64 };

/* ---- which names, which opset ---- */

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* The importer takes a float initializer for a parameter unless it is called
 * like a Constant's output (inputs.c). */
static const char *name_in_file(onnx_writer *w, const ir_tensor *t)
{
    bool constant =
        strstr(t->name, "Constant") != NULL && ends_with(t->name, "_output_0");
    if (t->role != IR_CONST || !ir_dtype_is_float(t->dtype) || constant)
        return t->name;
    for (int32_t k = 0;; k++) {
        const char *name =
            k ? fs_printf(w->arena, "%s/%d/Constant_output_0", t->name, k)
              : fs_printf(w->arena, "%s/Constant_output_0", t->name);
        if (ir_graph_find(w->graph, name) >= 0)
            continue;
        *fs_map_at(&w->taken, name) = ONNX_NAME_TAKEN;
        return name;
    }
}

static const char *free_name(onnx_writer *w, const char *name)
{
    const char *found = name;
    for (int32_t k = 1; ir_graph_find(w->graph, found) >= 0; k++)
        found = fs_printf(w->arena, "%s_%d", name, k);
    *fs_map_at(&w->taken, found) = ONNX_NAME_TAKEN;
    return found;
}

static void survey(onnx_writer *w)
{
    const ir_graph *g = w->graph;
    w->name = fs_new(w->arena, const char *, g->tensors.n);
    w->read = fs_new(w->arena, bool, g->tensors.n);
    w->sum = fs_new(w->arena, const char *, g->tensors.n);
    w->opset = USUAL_OPSET;
    for (int32_t t = 0; t < g->tensors.n; t++) {
        w->name[t] = name_in_file(w, &g->tensors.at[t]);
        if (g->tensors.at[t].next >= 0)
            w->read[g->tensors.at[t].next] = true;
    }
    for (int32_t v = 0; v < g->nodes.n; v++) {
        const ir_node *node = &g->nodes.at[v];
        int32_t needed = onnx_opset_of(node, g);
        w->opset = needed > w->opset ? needed : w->opset;
        if (node->op == IR_OP_accumulate && g->micro_batches > 1)
            w->sum[node->out[0]] = free_name(
                w, fs_printf(w->arena, "%s.sum", w->name[node->out[0]]));
        if (onnx_counts_steps(node) && !w->step)
            w->step = free_name(w, ONNX_STEP);
        for (int32_t i = 0; i < node->n_in; i++)
            w->read[node->in[i]] = true;
    }
    for (int32_t i = 0; i < g->outputs.n; i++)
        w->read[g->outputs.at[i]] = true;
}

/* ---- nodes ---- */

/* What a function says is an attribute's default need not stand at the call. */
static void write_own(onnx_writer *w)
{
    const ir_node *node = w->node;
    const char *function = onnx_function_name(w);
    onnx_line line =
        onnx_line_like(w, function ? function : ir_op_table[node->op]->name);
    fs_wire_put_text(&line.attrs, 7, "flowsearch");
    if (function && onnx_more_input(node))
        line.in[line.n_in++] =
            onnx_counts_steps(node) ? w->step : w->sum[node->out[0]];
    if (!function)
        onnx_put_attributes(w, &line.attrs, 5);
    onnx_write_line(w, &line);
    w->any_own = true;
    w->own[node->op] |= !function;
}

static void start_op(onnx_writer *w, const ir_node *node)
{
    w->node = node;
    if (w->options->placement)
        onnx_lay_op(w);
}

static void write_node(onnx_writer *w, const ir_node *node)
{
    if (ir_op_class_of(node->op) == IR_CLASS_SOURCE || node->n_out == 0)
        return;
    start_op(w, node);
    if (!onnx_write_standard(w))
        write_own(w);
}

/* ---- values and their types ---- */

static int64_t bytes_of(const ir_tensor *t)
{
    return ir_shape_count(&t->shape) * ir_dtype_bytes(t->dtype);
}

static fs_wire_out describe_type(onnx_writer *w, const ir_tensor *t,
                                 const char *name)
{
    fs_wire_out shape = {.arena = w->arena}, tensor = shape, type = shape,
                info = shape;
    for (int32_t i = 0; i < t->shape.rank; i++) {
        fs_wire_out dim = {.arena = w->arena};
        fs_wire_put_int(&dim, 1, t->shape.dim[i]);
        fs_wire_put_message(&shape, 1, &dim);
    }
    fs_wire_put_int(&tensor, 1, onnx_dtype_number(t->dtype));
    fs_wire_put_message(&tensor, 2, &shape);
    fs_wire_put_message(&type, 1, &tensor);
    fs_wire_put_text(&info, 1, name);
    fs_wire_put_message(&info, 2, &type);
    return info;
}

static void put_type(onnx_writer *w, fs_wire_out *out, uint32_t field,
                     const ir_tensor *t, const char *name)
{
    fs_wire_out info = describe_type(w, t, name);
    fs_wire_put_message(out, field, &info);
}

static void put_told(onnx_writer *w, fs_wire_out *out, const ir_tensor *t,
                     const char *name, const char *told)
{
    fs_wire_out info = describe_type(w, t, name);
    fs_wire_put_text(&info, 3, told);
    fs_wire_put_message(out, 11, &info);
}

/* Adam divides by 1 - beta^step: a step of 0 is one of NaN. */
static void put_step(onnx_writer *w, fs_wire_out *out)
{
    put_told(w, out, &(ir_tensor){.dtype = IR_I64}, w->step,
             "number of the step: starts at 1, one more each step");
}

/* What the micro-batches before gave, an input beside each sum over them: zeros
 * in the first run of a step, then the output of the run before. */
static void put_sums(onnx_writer *w, fs_wire_out *out)
{
    for (int32_t i = 0; i < w->graph->tensors.n; i++) {
        const ir_tensor *t = &w->graph->tensors.at[i];
        if (!w->sum[i])
            continue;
        ir_tensor *zeros = fs_new(w->arena, ir_tensor, 1);
        *zeros = (ir_tensor){.name = w->sum[i],
                             .role = IR_STATE,
                             .dtype = t->dtype,
                             .shape = t->shape,
                             .init = {.kind = IR_INIT_ZERO}};
        put_told(w, out, t, w->sum[i],
                 fs_printf(w->arena,
                           "0 for a step's first micro-batch, then the value "
                           "of %s after the one before",
                           w->name[i]));
        if (!w->options->no_weights)
            fs_push(w->arena, &w->blobs,
                    ((onnx_blob){.name = w->sum[i],
                                 .dtype = t->dtype,
                                 .shape = t->shape,
                                 .drawn = zeros,
                                 .bytes = (size_t)bytes_of(t)}));
    }
}

/* Has the file values of a source? Not of inputs; of variables when they are
 * wanted, and of one of one element that always begins with the same (a loss
 * scale). */
static bool has_values(const ir_graph *graph,
                       const onnx_export_options *options, const ir_tensor *t)
{
    const ir_op_kind made = graph->nodes.at[t->producer].op;
    if (made != IR_OP_variable)
        return made == IR_OP_constant;
    return !options->no_weights ||
           (t->shape.rank == 0 &&
            (t->init.kind == IR_INIT_ZERO || t->init.kind == IR_INIT_CONSTANT));
}

/* Over the micro-batches of a step, of which the file is one. */
static bool is_sum(const ir_graph *graph, int32_t tensor)
{
    const ir_node *made = &graph->nodes.at[graph->tensors.at[tensor].producer];
    return made->op == IR_OP_accumulate && graph->micro_batches > 1;
}

int64_t onnx_export_bytes(const ir_graph *graph,
                          const onnx_export_options *options)
{
    int64_t bytes = 0;
    for (int32_t i = 0; i < graph->tensors.n; i++)
        if ((has_values(graph, options, &graph->tensors.at[i]) ||
             (!options->no_weights && is_sum(graph, i))) &&
            __builtin_add_overflow(bytes, bytes_of(&graph->tensors.at[i]),
                                   &bytes))
            return INT64_MAX;
    return bytes;
}

/* Inputs, and variables whose values are not known, are inputs of the graph;
 * what is known is an initializer, and an input beside it where the next step
 * is fed what this one makes. */
static void put_sources(onnx_writer *w, fs_wire_out *out)
{
    for (int32_t i = 0; i < w->graph->tensors.n; i++) {
        const ir_tensor *t = &w->graph->tensors.at[i];
        const ir_node *made = &w->graph->nodes.at[t->producer];
        if (ir_op_class_of(made->op) != IR_CLASS_SOURCE)
            continue;
        const bool known = has_values(w->graph, w->options, t);
        if (!known || t->next >= 0)
            put_type(w, out, 11, t, w->name[i]);
        if (!known)
            continue;
        onnx_blob blob = {.name = w->name[i],
                          .dtype = t->dtype,
                          .shape = t->shape,
                          .data = t->data,
                          .drawn = t->data ? NULL : t,
                          .bytes = (size_t)bytes_of(t)};
        fs_push(w->arena, &w->blobs, blob);
    }
    if (w->step)
        put_step(w, out);
    put_sums(w, out);
}

/* An output of the file is made by a node of its own name, once. */
static void put_output(onnx_writer *w, fs_wire_out *out, bool *marked,
                       int32_t tensor)
{
    const ir_tensor *t = &w->graph->tensors.at[tensor];
    const ir_node *made = &w->graph->nodes.at[t->producer];
    const char *name = w->name[tensor];
    if (marked[tensor])
        return;
    marked[tensor] = true;
    if (ir_op_class_of(made->op) == IR_CLASS_SOURCE) {
        start_op(w, made);
        name = onnx_write_step(w, "Identity", name);
    }
    put_type(w, out, 12, t, name);
}

static void put_outputs(onnx_writer *w, fs_wire_out *out)
{
    const ir_graph *g = w->graph;
    bool *marked = fs_new(w->arena, bool, g->tensors.n);
    if (g->loss >= 0)
        put_output(w, out, marked, g->loss);
    for (int32_t i = 0; i < g->outputs.n; i++)
        put_output(w, out, marked, g->outputs.at[i]);
    for (int32_t t = 0; t < g->tensors.n; t++)
        if (w->sum[t])
            put_output(w, out, marked, t);
    for (int32_t t = 0; t < g->tensors.n; t++)
        if (g->tensors.at[t].next >= 0)
            put_output(w, out, marked, g->tensors.at[t].next);
    for (int32_t t = 0; t < g->tensors.n; t++) {
        const ir_node *made = &g->nodes.at[g->tensors.at[t].producer];
        if (!marked[t] && ir_op_class_of(made->op) != IR_CLASS_SOURCE)
            put_type(w, out, 13, &g->tensors.at[t], w->name[t]);
    }
}

/* ---- the file ---- */

/* Shapes, axes and the like stay where other tools look for them when they
 * infer shapes. */
static bool stands_apart(const onnx_blob *b, const char *side)
{
    enum { KEPT_INSIDE = 1024 };
    return side && b->bytes > KEPT_INSIDE;
}

/* An initializer up to its values, which stand here or in the side file. */
static fs_wire_out describe(onnx_writer *w, const onnx_blob *b,
                            const char *side)
{
    fs_wire_out out = {.arena = w->arena};
    for (int32_t i = 0; i < b->shape.rank; i++)
        fs_wire_put_int(&out, 1, b->shape.dim[i]);
    fs_wire_put_int(&out, 2, onnx_dtype_number(b->dtype));
    fs_wire_put_text(&out, 8, b->name);
    if (!stands_apart(b, side)) {
        fs_wire_put_head(&out, 9, b->bytes);
        return out;
    }
    onnx_put_note(&out, 13, "location", side);
    onnx_put_note(&out, 13, "offset",
                  fs_printf(w->arena, "%lld", (long long)b->offset));
    onnx_put_note(&out, 13, "length",
                  fs_printf(w->arena, "%lld", (long long)b->bytes));
    fs_wire_put_int(&out, 14, 1);
    return out;
}

static int64_t blob_bytes(const onnx_writer *w)
{
    int64_t bytes = 0;
    for (int32_t i = 0; i < w->blobs.n; i++)
        bytes += (int64_t)w->blobs.at[i].bytes;
    return bytes;
}

/* Lengths first: the graph's own stands before its values are written. */
static uint64_t describe_all(onnx_writer *w, const char *side,
                             fs_wire_out *heads)
{
    uint64_t total = 0;
    for (int32_t i = 0; i < w->blobs.n; i++) {
        const onnx_blob *b = &w->blobs.at[i];
        fs_wire_out body = describe(w, b, side);
        uint64_t inside = stands_apart(b, side) ? 0 : b->bytes;
        uint64_t bytes = body.n + inside;
        heads[i] = (fs_wire_out){.arena = w->arena};
        fs_wire_put_head(&heads[i], 5, bytes);
        fs_wire_put_raw(&heads[i], body.at, body.n);
        total += heads[i].n + inside;
    }
    return total;
}

static void put_opset(fs_wire_out *out, const char *domain, int32_t version)
{
    fs_wire_out opset = {.arena = out->arena};
    fs_wire_put_text(&opset, 1, domain);
    fs_wire_put_int(&opset, 2, version);
    fs_wire_put_message(out, 8, &opset);
}

static const char *next_of(const onnx_writer *w, const ir_tensor *t)
{
    return t->next >= 0 ? w->name[t->next] : "";
}

/* Variables that are not trained, and what buffers become; what else is
 * loop-carried, a variable's value after the step, by tensor name. A state is
 * both: who trains the file's network anew starts without it. */
static void put_loops(onnx_writer *w, fs_wire_out *out)
{
    for (int32_t i = 0; i < w->graph->tensors.n; i++) {
        const ir_tensor *t = &w->graph->tensors.at[i];
        const bool buffer = t->role == IR_BUFFER;
        if (w->sum[i])
            onnx_put_note(out, 14,
                          fs_printf(w->arena, "flowsearch.sum.%s", w->sum[i]),
                          w->name[i]);
        if (buffer || t->role == IR_STATE)
            onnx_put_note(
                out, 14,
                fs_printf(w->arena, "flowsearch.buffer.%s", w->name[i]),
                buffer ? next_of(w, t) : "");
        if (!buffer && t->next >= 0)
            onnx_put_note(out, 14,
                          fs_printf(w->arena, "flowsearch.next.%s", w->name[i]),
                          next_of(w, t));
    }
}

/* The same in the standard's words: after a run of the graph each variable is
 * given the value of an output. A step of several micro-batches is several
 * runs. */
static void put_bindings(onnx_writer *w, fs_wire_out *out)
{
    fs_wire_out training = {.arena = w->arena};
    for (int32_t i = 0; i < w->graph->tensors.n; i++) {
        const ir_tensor *t = &w->graph->tensors.at[i];
        if (t->next >= 0 && has_values(w->graph, w->options, t))
            onnx_put_note(&training, 4, w->name[i], next_of(w, t));
    }
    if (training.n && w->graph->micro_batches == 1)
        fs_wire_put_message(out, 20, &training);
}

static fs_wire_out head_of_model(onnx_writer *w)
{
    fs_wire_out out = {.arena = w->arena};
    fs_wire_put_int(&out, 1, w->options->placement ? SHARDING_IR : USUAL_IR);
    fs_wire_put_text(&out, 2, "flowsearch");
    fs_wire_put_text(&out, 3, PACKAGE_VERSION);
    put_opset(&out, "", w->opset);
    if (w->any_own)
        put_opset(&out, "flowsearch", 1);
    fs_wire_put_raw(&out, w->functions.at, w->functions.n);
    put_loops(w, &out);
    put_bindings(w, &out);
    if (w->graph->micro_batches > 1)
        onnx_put_note(
            &out, 14, "flowsearch.step_is",
            fs_printf(w->arena,
                      "%d runs, one per micro-batch: flowsearch.sum.* from run "
                      "to run, flowsearch.next.* after the last",
                      w->graph->micro_batches));
    if (w->step)
        onnx_put_note(&out, 14, "flowsearch.step",
                      fs_printf(w->arena, "%s starts at 1", w->step));
    if (w->options->placement)
        onnx_put_model_plan(w, &out);
    return out;
}

/* Drawn values a piece at a time: they may be more than memory holds. */
static void write_values(fs_output *file, const onnx_writer *w,
                         const onnx_blob *b)
{
    enum { PIECE = 1 << 13 };
    if (!b->drawn) {
        fs_output_write(file, b->data, b->bytes);
        return;
    }
    double piece[PIECE]; /* of any type */
    const int64_t each = ir_dtype_bytes(b->dtype);
    const int64_t count = (int64_t)b->bytes / each;
    for (int64_t at = 0; at < count && !file->fault; at += PIECE) {
        const int64_t n = count - at < PIECE ? count - at : PIECE;
        ir_first_values(b->drawn, w->options->seed, at, n, piece);
        fs_output_write(file, piece, (size_t)(n * each));
    }
}

static void write_model(fs_output *file, onnx_writer *w,
                        const fs_wire_out *graph, const char *side)
{
    fs_wire_out *heads = fs_new(w->arena, fs_wire_out, w->blobs.n);
    fs_wire_out out = head_of_model(w);
    fs_wire_put_head(&out, 7, describe_all(w, side, heads) + graph->n);
    fs_output_write(file, out.at, out.n);
    fs_output_write(file, graph->at, graph->n);
    for (int32_t i = 0; i < w->blobs.n; i++) {
        fs_output_write(file, heads[i].at, heads[i].n);
        if (!stands_apart(&w->blobs.at[i], side))
            write_values(file, w, &w->blobs.at[i]);
    }
}

static int64_t place_blobs(onnx_writer *w, const char *side)
{
    int64_t at = 0;
    for (int32_t i = 0; i < w->blobs.n; i++) {
        if (!stands_apart(&w->blobs.at[i], side))
            continue;
        at = (at + SIDE_ALIGNMENT - 1) / SIDE_ALIGNMENT * SIDE_ALIGNMENT;
        w->blobs.at[i].offset = at;
        at += (int64_t)w->blobs.at[i].bytes;
    }
    return at;
}

static void write_blobs(fs_output *file, const onnx_writer *w, const char *side)
{
    static const char zeros[SIDE_ALIGNMENT];
    int64_t at = 0;
    for (int32_t i = 0; i < w->blobs.n; i++) {
        const onnx_blob *b = &w->blobs.at[i];
        if (!stands_apart(b, side))
            continue;
        fs_output_write(file, zeros, (size_t)(b->offset - at));
        write_values(file, w, b);
        at = b->offset + (int64_t)b->bytes;
    }
}

static void give_up(fs_output *file)
{
    fs_err ignored = {0};
    if (!file->fault)
        file->fault = ECANCELED;
    fs_output_close(file, &ignored);
}

/* Both are whole before either takes its place. */
static fs_status close_both(fs_output *model, fs_output *side, fs_err *err)
{
    if (fflush(model->file) != 0 && !model->fault)
        model->fault = errno;
    if (model->fault) {
        give_up(side);
        return fs_output_close(model, err);
    }
    fs_status status = fs_output_close(side, err);
    if (status != FS_OK) {
        give_up(model);
        return status;
    }
    return fs_output_close(model, err);
}

static fs_status write_apart(onnx_writer *w, const char *path,
                             const fs_wire_out *graph, fs_err *err)
{
    fs_output model, side;
    const char *name = onnx_side_file(w->arena, path);
    const char *slash = strrchr(name, '/');
    FS_TRY(fs_output_open(&side, name, err));
    fs_status status = fs_output_open(&model, path, err);
    if (status != FS_OK) {
        give_up(&side);
        return status;
    }
    write_blobs(&side, w, name);
    write_model(&model, w, graph, slash ? slash + 1 : name);
    return close_both(&model, &side, err);
}

static fs_status write_whole(onnx_writer *w, const char *path,
                             const fs_wire_out *graph, fs_err *err)
{
    fs_output model;
    FS_TRY(fs_output_open(&model, path, err));
    write_model(&model, w, graph, NULL);
    return fs_output_close(&model, err);
}

/* The location of the values is text in the model. */
static fs_status check_path(const char *path, fs_err *err)
{
    size_t left = strlen(path);
    for (const char *at = path; left;) {
        size_t n = fs_printable(at, left);
        if (n == 0)
            return fs_fail(err, FS_INVALID,
                           "an ONNX file names the file with its values: a "
                           "path that is not printable cannot be written");
        at += n;
        left -= n;
    }
    return FS_OK;
}

const char *onnx_side_file(fs_arena *arena, const char *path)
{
    return fs_printf(arena, "%s.data", path);
}

static void report(const onnx_writer *w, fs_arena *arena, onnx_exported *out)
{
    const char **names = fs_new(arena, const char *, IR_OP_COUNT);
    *out = (onnx_exported){.n_nodes = w->n_nodes,
                           .n_partial = w->n_partial,
                           .n_halo = w->n_halo,
                           .n_between = w->n_between,
                           .own = names};
    for (int32_t op = 0; op < IR_OP_COUNT; op++)
        if (w->own[op])
            names[out->n_own++] = ir_op_table[op]->name;
}

static fs_status write_file(onnx_writer *w, const char *path, fs_err *err,
                            onnx_exported *out)
{
    fs_wire_out ends = {.arena = w->arena};
    put_sources(w, &ends);
    for (int32_t v = 0; v < w->graph->nodes.n; v++)
        write_node(w, &w->graph->nodes.at[v]);
    put_outputs(w, &ends);
    report(w, w->arena, out);
    fs_wire_put_text(&w->nodes, 2, w->graph->name);
    fs_wire_put_raw(&w->nodes, ends.at, ends.n);
    bool apart = w->options->external ||
                 blob_bytes(w) + (int64_t)w->nodes.n > LARGEST_FILE;
    if (!apart)
        return write_whole(w, path, &w->nodes, err);
    FS_TRY(check_path(path, err));
    out->side_bytes = place_blobs(w, onnx_side_file(w->arena, path));
    if (out->side_bytes == 0)
        return write_whole(w, path, &w->nodes, err);
    return write_apart(w, path, &w->nodes, err);
}

fs_status onnx_export(const ir_graph *graph, const char *path,
                      const onnx_export_options *options, fs_arena *arena,
                      fs_err *err, onnx_exported *out)
{
    onnx_writer w = {
        .planned = graph, .options = options, .arena = fs_arena_create()};
    ir_graph steps;
    int32_t *origin;
    ir_chain_expand(graph, w.arena, &steps, &origin);
    w.graph = &steps;
    w.node_field = 1;
    w.origin = origin;
    onnx_exported done = {0};
    w.nodes.arena = w.taken.arena = w.arena;
    w.functions.arena = w.bodies.arena = w.arena;
    survey(&w);
    fs_status status = write_file(&w, path, err, &done);
    if (status == FS_OK) {
        report(&w, arena, out);
        out->side_bytes = done.side_bytes;
    }
    fs_arena_destroy(w.arena);
    return status;
}
