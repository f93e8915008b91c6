/* A training case, on one rank or under a recipe: loss, every gradient and the
 * optimizers' curves against what is recorded beside the model. */
#include "config.h"
#include "cli/conformance.h"

#include "cli/data.h"
#include "ir/element.h"
#include "ir/train.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>

/* PyTorch's settings behind the curves of train.json. */
typedef struct setting {
    const char *key, *optimizer;
    double lr, weight_decay;
} setting;
static const setting settings[CONFORMANCE_CURVES] = {
    {"sgd", "sgd", 0.1, 0},
    {"momentum", "momentum", 0.05, 1e-4},
    {"adam", "adam", 1e-2, 0},
    {"adamw", "adamw", 1e-2, 0.1}};

/* On one rank and on several alike. */
static const double LOSS_RELATIVE = 1e-5, GRADIENT_OF_NORM = 1e-4,
                    GRADIENT_OF_LARGEST = 1e-6, CURVE_RELATIVE = 1e-3;

enum { MOST_STEPS = 64 };

static fs_status read_inputs(conformance_case *t, const cli_model *model,
                             cli_inputs *in)
{
    return cli_inputs_read(model,
                           fs_printf(t->arena, "%s/test_data_set_0", t->dir),
                           t->arena, &t->c->err, in);
}

/* On one rank, in this process. */
static fs_status run_graph(conformance_case *t, const cli_model *model,
                           int64_t steps, bool gradients, cli_outcome *out)
{
    cli_inputs in;
    exec_data data;
    plan *p;
    const ir_graph *graph = model->graph;
    fs_err *err = &t->c->err;
    FS_TRY(read_inputs(t, model, &in));
    FS_TRY(conformance_plan(t, graph, &p));
    FS_TRY(
        exec_data_fixed(in.n, in.names, in.data, graph, t->arena, err, &data));
    if (gradients)
        cli_outcome_fetch_gradients(graph, t->arena, out);
    exec_options options = {
        .steps = steps,
        .kernels = t->c->args.kernels ? t->c->args.kernels : "auto",
        .n_fetch = out->n_fetch,
        .fetch = out->fetch,
        .fetched = out->fetched,
    };
    FS_TRY(exec_run(t->world, graph, t->cluster, p, &data, &options, t->arena,
                    err, &out->result));
    if (data.close)
        data.close(data.ctx);
    return FS_OK;
}

static plan_origin case_origin(conformance_case *t, const setting *s)
{
    cli plain = *t->c;
    plan_origin o = cli_origin(&plain, t->model, "");
    o.optimizer = s->optimizer;
    o.lr = s->lr;
    o.weight_decay = s->weight_decay;
    return o;
}

static fs_status open_model(conformance_case *t, const plan_origin *origin,
                            cli_model *model)
{
    uint64_t digest;
    fs_err *err = &t->c->err;
    fs_status status = onnx_digest(origin->model, err, &digest);
    bool readable = status == FS_OK;
    if (readable)
        status = cli_model_open(t->c, origin, 0, model);
    if (status == FS_INVALID)
        t->refused =
            conformance_is_unsupported(origin->model, readable, err->text);
    return status;
}

/* ---- padding rows ---- */

static bool is_zero_row(const onnx_const *table, int64_t row)
{
    int64_t width = ir_shape_count(&table->shape) / table->shape.dim[0];
    for (int64_t j = 0; j < width; j++)
        if (ir_element_real(table->dtype, table->data, row * width + j) != 0)
            return false;
    return true;
}

/* The one row that the ids look up though its recorded gradient is zero. */
static bool find_padding(const onnx_const *gradient, const ir_tensor *ids,
                         const void *data, int64_t *out)
{
    bool found = false;
    for (int64_t i = 0; i < ir_shape_count(&ids->shape); i++) {
        int64_t id = ir_element_int(ids->dtype, data, i);
        if (id < 0 || id >= gradient->shape.dim[0] || (found && id == *out) ||
            !is_zero_row(gradient, id))
            continue;
        if (found)
            return false;
        found = true;
        *out = id;
    }
    return found;
}

static const void *data_of(const cli_inputs *in, const char *name)
{
    for (int32_t i = 0; i < in->n; i++)
        if (strcmp(in->names[i], name) == 0)
            return in->data[i];
    return NULL;
}

/* PyTorch's padding_idx is not exported. A row that the ids look up though the
 * record gives it no gradient at all is taken for one, as --padding would say
 * it: the case's row and its JSON name it. */
static fs_status find_paddings(conformance_case *t, const cli_model *model)
{
    cli_inputs in;
    const ir_graph *graph = model->graph;
    FS_TRY(read_inputs(t, model, &in));
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        const ir_node *node = &graph->nodes.at[v];
        if (node->op != IR_OP_gather || node->i[2] != 0)
            continue;
        const ir_tensor *table = &graph->tensors.at[node->in[0]];
        const ir_tensor *ids = &graph->tensors.at[node->in[1]];
        const char *file = fs_printf(t->arena, "grad/%s.pb", table->name);
        const void *data = data_of(&in, ids->name);
        onnx_const gradient;
        int64_t row = -1;
        if (table->role != IR_PARAM || !data || !conformance_has(t, file))
            continue;
        FS_TRY(onnx_read_tensor(fs_printf(t->arena, "%s/%s", t->dir, file),
                                t->arena, &t->c->err, &gradient));
        if (ir_shape_equal(&gradient.shape, &table->shape) &&
            find_padding(&gradient, ids, data, &row))
            fs_push(
                t->arena, &t->padding,
                fs_printf(t->arena, "%s=%lld", table->name, (long long)row));
    }
    return FS_OK;
}

/* Opens the model, adds the setting's training graph, runs it. */
static fs_status run_setting(conformance_case *t, const setting *s,
                             int64_t steps, cli_model *model, cli_outcome *out)
{
    bool gradients = isnan(t->worst_loss); /* of the first run */
    plan_origin origin = case_origin(t, s);
    FS_TRY(open_model(t, &origin, model));
    if (model->graph->loss < 0)
        return fs_fail(&t->c->err, FS_INVALID, "%s has no loss", origin.model);
    if (gradients)
        FS_TRY(find_paddings(t, model));
    model->origin.n_padding = t->padding.n;
    model->origin.padding = t->padding.at;
    if (t->recipe)
        return conformance_on_ranks(t, model, steps, gradients, out);
    FS_TRY(cli_model_gradients(t->c, model));
    return run_graph(t, model, steps, gradients, out);
}

static double relative(double got, double wanted)
{
    return fabs(got - wanted) / fmax(fabs(wanted), 1e-12);
}

static fs_status check_loss(conformance_case *t, double got)
{
    onnx_const loss;
    FS_TRY(onnx_read_tensor(
        fs_printf(t->arena, "%s/test_data_set_0/output_0.pb", t->dir), t->arena,
        &t->c->err, &loss));
    if (loss.dtype != IR_F32 || ir_shape_count(&loss.shape) != 1)
        return fs_fail(&t->c->err, FS_INVALID,
                       "%s: output_0.pb is no float "
                       "scalar",
                       t->dir);
    double wanted = *(const float *)loss.data;
    t->worst_loss = relative(got, wanted);
    if (!(t->worst_loss <= LOSS_RELATIVE))
        conformance_failed(t, "loss %.7g, recorded %.7g", got, wanted);
    return FS_OK;
}

/* A gradient of the run and what is recorded. */
typedef struct gradient {
    const char *param;
    const float *got, *wanted;
    int64_t n;
    double norm; /* of the recorded one */
} gradient;

/* `largest`: norm of the largest gradient; some are zero but for rounding. */
static void compare_gradient(conformance_case *t, const gradient *g,
                             double largest)
{
    double off = 0;
    for (int64_t i = 0; i < g->n; i++) {
        double d = (double)g->got[i] - g->wanted[i];
        off += d * d;
    }
    off = sqrt(off);
    t->gradients++;
    double part = off / fmax(g->norm, GRADIENT_OF_LARGEST * largest);
    if (!(part <= t->worst_gradient))
        t->worst_gradient = part;
    if (!(off <= GRADIENT_OF_NORM * g->norm + GRADIENT_OF_LARGEST * largest))
        conformance_failed(t, "gradient of %s is off by %.3g of its norm %.3g",
                           g->param, off, g->norm);
}

static fs_status read_gradient(conformance_case *t, const ir_tensor *x,
                               gradient *out)
{
    onnx_const wanted;
    out->param = fs_strndup(t->arena, x->name, strlen(x->name) - 5);
    FS_TRY(onnx_read_tensor(
        fs_printf(t->arena, "%s/grad/%s.pb", t->dir, out->param), t->arena,
        &t->c->err, &wanted));
    if (wanted.dtype != IR_F32 || !ir_shape_equal(&wanted.shape, &x->shape)) {
        conformance_failed(t, "gradient of %s has another shape", out->param);
        return FS_OK;
    }
    out->n = ir_shape_count(&wanted.shape);
    out->wanted = wanted.data;
    for (int64_t i = 0; i < out->n; i++)
        out->norm += (double)out->wanted[i] * out->wanted[i];
    out->norm = sqrt(out->norm);
    return FS_OK;
}

static int no_dots(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* NAME.pb in grad/ of no parameter that has a gradient would compare nothing.
 */
static fs_status check_records(conformance_case *t, const ir_graph *graph)
{
    struct dirent **list;
    const char *dir = fs_printf(t->arena, "%s/grad", t->dir);
    int n = scandir(dir, &list, no_dots, alphasort);
    if (n < 0)
        return fs_fail(&t->c->err, FS_INVALID, "%s: cannot be read: %s", dir,
                       strerror(errno));
    for (int i = 0; i < n; i++) {
        const char *file = list[i]->d_name, *dot = strrchr(file, '.');
        const int length = dot ? (int)(dot - file) : (int)strlen(file);
        if (ir_graph_find(graph,
                          fs_printf(t->arena, "%.*s.grad", length, file)) < 0)
            conformance_failed(t,
                               "grad/%s: no parameter \"%.*s\" has a gradient",
                               file, length, file);
        free(list[i]);
    }
    free(list);
    return FS_OK;
}

static fs_status check_gradients(conformance_case *t, const ir_graph *graph,
                                 const cli_outcome *run)
{
    double largest = 0;
    gradient *all = fs_new(t->arena, gradient, run->n_fetch);
    for (int32_t i = 0; i < run->n_fetch; i++) {
        all[i].got = run->fetched[i];
        FS_TRY(read_gradient(t, &graph->tensors.at[run->fetch[i]], &all[i]));
        largest = fmax(largest, all[i].norm);
    }
    for (int32_t i = 0; i < run->n_fetch; i++)
        if (all[i].wanted)
            compare_gradient(t, &all[i], largest);
    return check_records(t, graph);
}

static void compare_curve(conformance_case *t, const setting *s,
                          const json_t *list, const double *losses)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        double wanted = json_number_value(json_array_get(list, i));
        double off = relative(losses[i], wanted);
        t->worst_curve = fmax(t->worst_curve, off);
        if (!(off <= CURVE_RELATIVE))
            conformance_failed(t, "%s: loss %.7g at step %zu, recorded %.7g",
                               s->key, losses[i], i, wanted);
    }
}

/* A curve that is not recorded is not compared; one that is no list of losses
 * is a fault of the case. */
static fs_status check_curve(conformance_case *t, const fs_json *curves,
                             const setting *s)
{
    fs_json list;
    cli_model model = {0};
    cli_outcome run = {0};
    if (!fs_json_has(curves, s->key))
        return FS_OK;
    FS_TRY(fs_json_array(curves, s->key, &t->c->err, &list));
    size_t n = json_array_size(list.value), most = MOST_STEPS;
    for (size_t i = 0; i < n; i++)
        if (!json_is_number(json_array_get(list.value, i)))
            n = 0;
    if (n == 0 || n > most)
        return fs_json_fail(curves, s->key, &t->c->err,
                            "must be a list of 1 to %zu losses", most);
    fs_status status = run_setting(t, s, (int64_t)n, &model, &run);
    if (status == FS_OK) {
        compare_curve(t, s, list.value, run.result.losses);
        t->curve_steps[s - settings] = (int32_t)n;
    }
    cli_model_close(&model);
    return status;
}

/* A curve of an optimizer that has no setting here would be passed over. */
static fs_status check_names(const fs_json *curves, fs_err *err)
{
    const char *known[CONFORMANCE_CURVES + 1] = {NULL};
    for (int i = 0; i < CONFORMANCE_CURVES; i++)
        known[i] = settings[i].key;
    return fs_json_keys(curves, known, err);
}

static fs_status check_curves(conformance_case *t, const char *path)
{
    json_t *root;
    fs_json curves;
    FS_TRY(fs_json_load(path, &t->c->err, &root));
    fs_json file = fs_json_root(path, root);
    fs_status status = fs_json_object(&file, "losses", &t->c->err, &curves);
    if (status == FS_OK)
        status = check_names(&curves, &t->c->err);
    for (int i = 0; i < CONFORMANCE_CURVES && status == FS_OK; i++)
        status = check_curve(t, &curves, &settings[i]);
    if (status == FS_OK && isnan(t->worst_curve) && !t->why[0])
        conformance_failed(t, "%s records no curve", path);
    json_decref(root);
    return status;
}

const char *conformance_curve(int i)
{
    return settings[i].key;
}

fs_status conformance_train(conformance_case *t)
{
    cli_model model = {0};
    cli_outcome first = {0};
    t->training = true;
    fs_status status = run_setting(t, &settings[0], 1, &model, &first);
    if (status == FS_OK)
        status = check_loss(t, first.result.losses[0]);
    if (status == FS_OK)
        status = check_gradients(t, model.graph, &first);
    cli_model_close(&model);
    FS_TRY(status);
    return check_curves(t, fs_printf(t->arena, "%s/train.json", t->dir));
}
