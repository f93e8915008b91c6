/* A case of the ONNX backend tests: for each test_data_set_N the inputs are
 * fed by position, the graph runs forward on one rank, and every output is
 * compared as the ONNX runner does. */
#include "config.h"
#include "cli/conformance.h"

#include "ir/build.h"
#include "ir/element.h"
#include "ir/train.h"
#include "kernels/evaluate.h"

/* The runner's own (onnx/backend/test/runner). */
static const double RELATIVE = 1e-3, ABSOLUTE = 1e-7;

enum { MAX_VALUES = 64 };

typedef struct data_set {
    const char *prefix; /* of its files: "test_data_set_0/", "NAME_" */
    int32_t n_in, n_out;
    onnx_const in[MAX_VALUES], out[MAX_VALUES];
    const onnx_model *model;
    fs_text notes; /* of its import: which outputs have no elements */
} data_set;

static const char *file_of(const conformance_case *t, const data_set *set,
                           const char *kind, int32_t i)
{
    return fs_printf(t->arena, "%s%s_%d.pb", set->prefix, kind, i);
}

static fs_status read_values(conformance_case *t, const data_set *set,
                             const char *kind, int32_t *n, onnx_const *out)
{
    for (*n = 0; *n < MAX_VALUES; (*n)++) {
        const char *path = file_of(t, set, kind, *n);
        if (access(path, F_OK) != 0)
            return FS_OK;
        FS_TRY(onnx_read_tensor(path, t->arena, &t->c->err, &out[*n]));
    }
    return fs_fail(&t->c->err, FS_INVALID, "%s: more than %d files of %ss",
                   set->prefix, MAX_VALUES, kind);
}

/* ---- running ---- */

/* The inputs that are left: some were known at import, some nobody reads. */
static fs_status feed(conformance_case *t, const ir_graph *graph,
                      const data_set *set, exec_data *data)
{
    const char *names[MAX_VALUES];
    const void *values[MAX_VALUES];
    int32_t n = 0;
    for (int32_t k = 0; k < set->n_in; k++) {
        const char *name = onnx_model_input(set->model, set->n_in, k);
        if (!name || ir_graph_find(graph, name) < 0 ||
            ir_shape_count(&set->in[k].shape) == 0)
            continue;
        names[n] = name;
        values[n++] = set->in[k].data;
    }
    return exec_data_fixed(n, names, values, graph, t->arena, &t->c->err, data);
}

static int32_t list_outputs(const ir_graph *graph, int32_t *out)
{
    int32_t n = 0;
    for (int32_t i = 0; i < graph->nodes.n && n < MAX_VALUES; i++)
        if (graph->nodes.at[i].op == IR_OP_output)
            out[n++] = graph->nodes.at[i].in[0];
    return n;
}

static fs_status run_graph(conformance_case *t, const ir_graph *graph,
                           const data_set *set, int32_t n,
                           const int32_t *outputs, void **values)
{
    plan *p;
    exec_data data;
    exec_result result;
    FS_TRY(feed(t, graph, set, &data));
    FS_TRY(conformance_plan(t, graph, &p));
    exec_options options = {
        .steps = 1,
        .kernels = t->c->args.kernels ? t->c->args.kernels : "auto",
        .keep_process = true,
        .n_fetch = n,
        .fetch = outputs,
        .fetched = values,
    };
    fs_status status = exec_run(t->world, graph, t->cluster, p, &data, &options,
                                t->arena, &t->c->err, &result);
    if (data.close)
        data.close(data.ctx);
    return status;
}

/* ---- comparing ---- */

/* (Files of the ONNX tests hold bfloat16 as the bits of uint16.)
 * |got - wanted| as a part of what is allowed; equal infinities and NaN for
 * NaN are no difference. */
static double off_by(double got, double wanted)
{
    if (got == wanted || (isnan(got) && isnan(wanted)))
        return 0;
    double off = fabs(got - wanted) / (ABSOLUTE + RELATIVE * fabs(wanted));
    return isnan(off) ? INFINITY : off;
}

static void compare(conformance_case *t, int32_t i, const ir_tensor *x,
                    const void *got, const onnx_const *wanted)
{
    char a[160], b[160];
    bool bits = x->dtype == IR_BF16 && wanted->dtype == IR_U16;
    if ((x->dtype != wanted->dtype && !bits) ||
        !ir_shape_equal(&x->shape, &wanted->shape)) {
        conformance_failed(t, "output %d is %s %s, recorded %s %s", i,
                           ir_dtype_name(x->dtype), ir_shape_text(a, &x->shape),
                           ir_dtype_name(wanted->dtype),
                           ir_shape_text(b, &wanted->shape));
        return;
    }
    for (int64_t k = 0; k < ir_shape_count(&x->shape); k++) {
        double mine = ir_element_real(x->dtype, got, k);
        double theirs = ir_element_real(x->dtype, wanted->data, k);
        double off = off_by(mine, theirs);
        if (!(off <= t->worst_output))
            t->worst_output = off;
        if (off > 1) {
            conformance_failed(t,
                               "output %d: element %lld is %.9g, "
                               "recorded %.9g",
                               i, (long long)k, mine, theirs);
            return;
        }
    }
}

/* Without elements it is no tensor of the graph: the importer says so. */
static void compare_empty(conformance_case *t, int32_t i, const data_set *set)
{
    char shape[160];
    const char *says = fs_printf(t->arena, " is empty: %s\n",
                                 ir_shape_text(shape, &set->out[i].shape));
    if (!set->notes.at || !strstr(set->notes.at, says))
        conformance_failed(t, "output %d is not empty, recorded %s", i, shape);
    else if (isnan(t->worst_output))
        t->worst_output = 0;
}

/* ---- a case ---- */

static fs_status import(conformance_case *t, data_set *set, onnx_model **model,
                        ir_graph **graph)
{
    const char *path = t->model;
    ir_rewrite_options rewrites;
    FS_TRY(ir_rewrite_parse(cli_rewrites(&t->c->args), &t->c->err, &rewrites));
    rewrites.evaluate = kernel_evaluate;
    onnx_options options = {.infer = true,
                            .n_given = set->n_in,
                            .given = set->in,
                            .rewrites = &rewrites};
    uint64_t digest;
    fs_err *err = &t->c->err;
    bool readable = onnx_digest(path, err, &digest) == FS_OK;
    if (!readable)
        return err->status;
    set->notes = (fs_text){.arena = t->arena};
    fs_status status =
        onnx_import(path, &options, err, model, graph, &set->notes);
    set->model = status == FS_OK ? *model : NULL;
    if (status == FS_INVALID)
        t->refused = conformance_is_unsupported(path, readable, err->text);
    return status;
}

/* The fewest signatures beside all-B of the nodes that compute. */
static int32_t count_splits(const ir_graph *graph, fs_arena *arena)
{
    int32_t least = INT32_MAX;
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        const ir_node *node = &graph->nodes.at[v];
        ir_sig_list list;
        if (ir_op_class_of(node->op) == IR_CLASS_SOURCE ||
            node->op == IR_OP_output)
            continue;
        ir_signatures_1d(graph, node, arena, &list);
        least = list.n - 1 < least ? list.n - 1 : least;
    }
    return least == INT32_MAX ? 0 : least;
}

/* Sum of the float outputs; -1 without any. */
static int32_t add_loss(ir_graph *g, const int32_t *outputs, int32_t n)
{
    int32_t loss = -1;
    for (int32_t i = 0; i < n; i++) {
        const ir_tensor *x = &g->tensors.at[outputs[i]];
        if (!ir_dtype_is_float(x->dtype) || !ir_dtype_computes(x->dtype))
            continue;
        int32_t sum = ir_reduce_sum(
            g, outputs[i], (uint32_t)((1u << x->shape.rank) - 1), false);
        loss = loss < 0 ? sum : ir_binary(g, IR_OP_add, loss, sum);
    }
    return loss;
}

static int32_t list_float_inputs(const ir_graph *g, int32_t *out)
{
    int32_t n = 0;
    for (int32_t i = 0; i < g->tensors.n && n < MAX_VALUES; i++) {
        const ir_tensor *x = &g->tensors.at[i];
        if (x->role == IR_INPUT && ir_dtype_is_float(x->dtype) &&
            ir_dtype_computes(x->dtype))
            out[n++] = i;
    }
    return n;
}

/* Appends the backward pass to a graph that has been run. */
static int32_t find_gradient(ir_graph *g)
{
    int32_t outputs[MAX_VALUES], inputs[MAX_VALUES], grad[MAX_VALUES];
    fs_err err = {0};
    ir_derivative of = {.seed = 1, .wrt = inputs};
    of.loss = add_loss(g, outputs, list_outputs(g, outputs));
    of.n = list_float_inputs(g, inputs);
    if (of.loss < 0 || of.n == 0)
        return -1;
    if (ir_backward(g, &of, &err, grad) != FS_OK)
        return 0;
    for (int32_t i = 0; i < of.n; i++)
        if (grad[i] >= 0)
            return 1;
    return -1;
}

static fs_status run_imported(conformance_case *t, const data_set *set,
                              const ir_graph *graph)
{
    int32_t outputs[MAX_VALUES];
    void *values[MAX_VALUES];
    int32_t n = list_outputs(graph, outputs), at = 0;
    if (n > 0)
        FS_TRY(run_graph(t, graph, set, n, outputs, values));
    for (int32_t i = 0; i < set->n_out; i++) {
        if (ir_shape_count(&set->out[i].shape) == 0)
            compare_empty(t, i, set);
        else if (at == n)
            conformance_failed(t, "%d outputs, %d recorded", n, set->n_out);
        else
            compare(t, i, &graph->tensors.at[outputs[at]], values[at],
                    &set->out[i]);
        at += at < n && ir_shape_count(&set->out[i].shape) > 0;
    }
    return FS_OK;
}

/* A record of fewer outputs than the model has would compare nothing, one of
 * more inputs would feed what nobody asked for. */
static bool check_counts(conformance_case *t, const data_set *set)
{
    const int32_t wanted = onnx_model_outputs(set->model);
    int32_t taken = 0;
    while (taken < set->n_in && onnx_model_input(set->model, set->n_in, taken))
        taken++;
    if (taken < set->n_in)
        conformance_failed(t, "%s: %d recorded inputs, %d wanted", set->prefix,
                           set->n_in, taken);
    else if (set->n_out != wanted)
        conformance_failed(t, "%s: %d recorded outputs, %d wanted", set->prefix,
                           set->n_out, wanted);
    return taken == set->n_in && set->n_out == wanted;
}

/* k / n for the k-th of n elements, as the ONNX runner feeds a flat case. */
static fs_status draw_ramp(conformance_case *t, const ir_tensor *x,
                           onnx_const *out)
{
    int64_t n = ir_shape_count(&x->shape);
    if (x->dtype != IR_F32)
        return fs_fail(&t->c->err, FS_INVALID,
                       "%s: input \"%s\" is %s and not recorded", t->model,
                       x->name, ir_dtype_name(x->dtype));
    float *values = fs_new(t->arena, float, n);
    for (int64_t k = 0; k < n; k++)
        values[k] = (float)((double)k / (double)n);
    *out = (onnx_const){.dtype = IR_F32, .shape = x->shape, .data = values};
    return FS_OK;
}

/* A flat case records outputs only. What nobody reads gets no values. */
static fs_status draw_inputs(conformance_case *t, const ir_graph *graph,
                             data_set *set)
{
    const char *name;
    while (set->n_in < MAX_VALUES &&
           (name = onnx_model_input(set->model, 0, set->n_in)) != NULL) {
        int32_t id = ir_graph_find(graph, name);
        if (id >= 0)
            FS_TRY(draw_ramp(t, &graph->tensors.at[id], &set->in[set->n_in]));
        set->n_in++;
    }
    return FS_OK;
}

/* Files that are no tensors (sequences, optionals) are no fault of the case
 * when its model is refused for them. */
static fs_status run_set(conformance_case *t, data_set *set)
{
    onnx_model *model;
    ir_graph *graph;
    fs_status readable = read_values(t, set, "input", &set->n_in, set->in);
    if (readable == FS_OK)
        readable = read_values(t, set, "output", &set->n_out, set->out);
    fs_err unread = t->c->err;
    t->c->err = (fs_err){0};
    FS_TRY(import(t, set, &model, &graph));
    fs_status status = readable;
    if (readable != FS_OK)
        t->c->err = unread;
    else if (t->flat && set->n_in == 0)
        status = draw_inputs(t, graph, set);
    if (status == FS_OK && check_counts(t, set))
        status = run_imported(t, set, graph);
    t->splits = count_splits(graph, t->arena);
    t->gradient = find_gradient(graph);
    ir_graph_destroy(graph);
    onnx_model_close(model);
    return status;
}

static fs_status find_operator(conformance_case *t)
{
    fs_err *err = &t->c->err;
    fs_status status = onnx_lone_operator(t->model, t->c->arena, err, &t->op);
    if (status == FS_INVALID)
        t->refused = conformance_is_unsupported(t->model, false, err->text);
    return status;
}

static fs_status run_flat(conformance_case *t)
{
    data_set set = {.prefix = fs_printf(t->arena, "%.*s_",
                                        (int)strlen(t->model) - 5, t->model)};
    if (access(file_of(t, &set, "output", 0), F_OK) != 0)
        return fs_fail(&t->c->err, FS_INVALID, "no %s",
                       file_of(t, &set, "output", 0));
    return run_set(t, &set);
}

fs_status conformance_infer(conformance_case *t)
{
    FS_TRY(find_operator(t));
    if (t->flat)
        return run_flat(t);
    for (int32_t k = 0;; k++) {
        data_set set = {
            .prefix = fs_printf(t->arena, "%s/test_data_set_%d/", t->dir, k)};
        if (access(set.prefix, F_OK) != 0)
            return k ? FS_OK
                     : fs_fail(&t->c->err, FS_INVALID, "%s: no test_data_set_0",
                               t->dir);
        FS_TRY(run_set(t, &set));
    }
}
