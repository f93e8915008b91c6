/* conformance: training cases (model.onnx, test_data_set_0, grad/, train.json)
 * on one rank: loss, every gradient and the optimizers' curves against what is
 * recorded beside the model. */
#include "config.h"
#include "cli/cli.h"

#include "exec/exec.h"
#include "ir/train.h"
#include "onnx/import.h"
#include "report/report.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* PyTorch's settings behind the curves of train.json. */
typedef struct setting {
    const char *key, *optimizer;
    double lr, weight_decay;
} setting;
static const setting settings[] = {{"sgd", "sgd", 0.1, 0},
                                   {"momentum", "momentum", 0.05, 1e-4},
                                   {"adam", "adam", 1e-2, 0},
                                   {"adamw", "adamw", 1e-2, 0.1}};

static const double LOSS_RELATIVE = 1e-4, GRADIENT_OF_NORM = 1e-4,
                    GRADIENT_OF_LARGEST = 1e-6, CURVE_RELATIVE = 1e-3;

enum { MAX_INPUTS = 8 };

typedef struct test_case {
    cli *c;
    const char *dir;
    exec_world *world;
    fs_arena *arena;
    double worst_loss, worst_gradient, worst_curve; /* relative; NAN: none */
    int32_t gradients;
    bool refused;  /* for what is not supported, whose reason is the error's */
    char why[512]; /* first failure, "" when all passed */
} test_case;

static void failed(test_case *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void failed(test_case *t, const char *format, ...)
{
    va_list args;
    if (t->why[0])
        return;
    va_start(args, format);
    vsnprintf(t->why, sizeof t->why, format, args);
    va_end(args);
}

typedef struct case_inputs {
    int32_t n;
    const char *names[MAX_INPUTS];
    const void *data[MAX_INPUTS];
} case_inputs;

static fs_status read_inputs(test_case *t, const ir_graph *graph, fs_err *err,
                             case_inputs *in)
{
    for (int32_t i = 0; i < graph->tensors.n; i++) {
        const ir_tensor *x = &graph->tensors.at[i];
        if (x->role != IR_INPUT)
            continue;
        onnx_const read;
        if (in->n == MAX_INPUTS)
            return fs_fail(err, FS_INVALID, "%s: more than %d inputs", t->dir,
                           MAX_INPUTS);
        FS_TRY(onnx_read_tensor(fs_printf(t->arena,
                                          "%s/test_data_set_0/input_%d.pb",
                                          t->dir, in->n),
                                t->arena, err, &read));
        if (read.dtype != x->dtype || !ir_shape_equal(&read.shape, &x->shape))
            return fs_fail(err, FS_INVALID,
                           "%s: input_%d.pb does not fit "
                           "input %s",
                           t->dir, in->n, x->name);
        in->data[in->n] = read.data;
        in->names[in->n++] = x->name;
    }
    return FS_OK;
}

/* One rank, nothing split, nothing boxed. */
static fs_status plan_for_one(test_case *t, const ir_graph *graph, fs_err *err,
                              hw_cluster **cluster, plan **out)
{
    plan_lower_options options = plan_lower_defaults();
    FS_TRY(hw_cluster_probe(1, t->arena, err, cluster));
    plan_strategy *s = plan_strategy_new(graph, 1, t->arena);
    s->micro_batches = 1;
    s->batch = graph->batch;
    s->schedule = "1f1b";
    return plan_lower(graph, *cluster, s, &options, t->arena, err, out);
}

typedef struct curve {
    double losses[64];
    int32_t n_gradients;
    int32_t *gradients; /* tensors */
    void **fetched;
} curve;

static void list_gradients(test_case *t, const ir_graph *graph, curve *out)
{
    out->gradients = fs_new(t->arena, int32_t, graph->tensors.n);
    for (int32_t i = 0; i < graph->tensors.n; i++) {
        const ir_tensor *x = &graph->tensors.at[i];
        if (x->role != IR_PARAM)
            continue;
        int32_t g =
            ir_graph_find(graph, fs_printf(t->arena, "%s.grad", x->name));
        if (g >= 0)
            out->gradients[out->n_gradients++] = g;
    }
    out->fetched = fs_new(t->arena, void *, out->n_gradients);
}

static fs_status run_graph(test_case *t, const ir_graph *graph, int64_t steps,
                           bool gradients, fs_err *err, curve *out)
{
    case_inputs in = {0};
    exec_data data;
    hw_cluster *cluster;
    plan *p;
    FS_TRY(read_inputs(t, graph, err, &in));
    FS_TRY(plan_for_one(t, graph, err, &cluster, &p));
    FS_TRY(
        exec_data_fixed(in.n, in.names, in.data, graph, t->arena, err, &data));
    if (gradients)
        list_gradients(t, graph, out);
    exec_options options = {
        .steps = steps,
        .kernels = t->c->args.kernels ? t->c->args.kernels : "auto",
        .lr = NAN,
        .weight_decay = NAN,
        .n_fetch = out->n_gradients,
        .fetch = out->gradients,
        .fetched = out->fetched,
    };
    exec_result result;
    FS_TRY(exec_run(t->world, graph, cluster, p, &data, &options, t->arena, err,
                    &result));
    memcpy(out->losses, result.losses, (size_t)steps * sizeof(double));
    if (data.close)
        data.close(data.ctx);
    return FS_OK;
}

static plan_origin case_origin(test_case *t, const setting *s)
{
    cli plain = *t->c;
    plan_origin o =
        cli_origin(&plain, fs_printf(t->arena, "%s/model.onnx", t->dir), "");
    o.optimizer = s->optimizer;
    o.lr = s->lr;
    o.weight_decay = s->weight_decay;
    return o;
}

/* Does the importer say no to what the model asks for, and name it? A file
 * that it could not read is a case that failed. */
static bool is_unsupported(const char *path, bool readable, const char *why)
{
    size_t n = strlen(path);
    const char *after = strncmp(why, path, n) == 0 ? why + n : why;
    return strstr(after, "supported") ||
           (readable && strncmp(after, ": node ", 7) == 0);
}

static fs_status open_model(test_case *t, const plan_origin *origin,
                            cli_model *model)
{
    uint64_t digest;
    fs_err *err = &t->c->err;
    fs_status status = onnx_digest(origin->model, err, &digest);
    bool readable = status == FS_OK;
    if (readable)
        status = cli_model_open(t->c, origin, 0, model);
    if (status == FS_INVALID)
        t->refused = is_unsupported(origin->model, readable, err->text);
    return status;
}

/* Opens the model, adds the setting's training graph, runs it. */
static fs_status run_setting(test_case *t, const setting *s, int64_t steps,
                             bool gradients, cli_model *model, curve *out)
{
    plan_origin origin = case_origin(t, s);
    FS_TRY(open_model(t, &origin, model));
    if (model->graph->loss < 0)
        return fs_fail(&t->c->err, FS_INVALID, "%s has no loss", origin.model);
    FS_TRY(cli_model_gradients(t->c, model));
    return run_graph(t, model->graph, steps, gradients, &t->c->err, out);
}

static double relative(double got, double wanted)
{
    return fabs(got - wanted) / fmax(fabs(wanted), 1e-12);
}

static fs_status check_loss(test_case *t, double got)
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
        failed(t, "loss %.7g, recorded %.7g", got, wanted);
    return FS_OK;
}

static void compare_gradient(test_case *t, const char *name, const float *got,
                             const float *wanted, int64_t n)
{
    double norm = 0, off = 0, largest = 0;
    for (int64_t i = 0; i < n; i++) {
        double d = (double)got[i] - wanted[i];
        norm += (double)wanted[i] * wanted[i];
        off += d * d;
        largest = fmax(largest, fabs(wanted[i]));
    }
    norm = sqrt(norm);
    off = sqrt(off);
    t->gradients++;
    t->worst_gradient = fmax(t->worst_gradient, off / fmax(norm, 1e-12));
    if (!(off <= GRADIENT_OF_NORM * norm + GRADIENT_OF_LARGEST * largest))
        failed(t, "gradient of %s is off by %.3g of its norm %.3g", name, off,
               norm);
}

static fs_status check_gradients(test_case *t, const ir_graph *graph,
                                 const curve *run)
{
    for (int32_t i = 0; i < run->n_gradients; i++) {
        const ir_tensor *x = &graph->tensors.at[run->gradients[i]];
        char *param = fs_strndup(t->arena, x->name, strlen(x->name) - 5);
        onnx_const wanted;
        FS_TRY(onnx_read_tensor(
            fs_printf(t->arena, "%s/grad/%s.pb", t->dir, param), t->arena,
            &t->c->err, &wanted));
        if (wanted.dtype != IR_F32 || !ir_shape_equal(&wanted.shape, &x->shape))
            failed(t, "gradient of %s has another shape", param);
        else
            compare_gradient(t, param, run->fetched[i], wanted.data,
                             ir_shape_count(&wanted.shape));
    }
    return FS_OK;
}

static void compare_curve(test_case *t, const setting *s, const json_t *list,
                          const double *losses)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        double wanted = json_number_value(json_array_get(list, i));
        double off = relative(losses[i], wanted);
        t->worst_curve = fmax(t->worst_curve, off);
        if (!(off <= CURVE_RELATIVE))
            failed(t, "%s: loss %.7g at step %zu, recorded %.7g", s->key,
                   losses[i], i, wanted);
    }
}

/* A curve that is not recorded is not compared; one that is no list of losses
 * is a fault of the case. */
static fs_status check_curve(test_case *t, const fs_json *curves,
                             const setting *s)
{
    fs_json list;
    cli_model model = {0};
    curve run = {0};
    if (!fs_json_has(curves, s->key))
        return FS_OK;
    FS_TRY(fs_json_array(curves, s->key, &t->c->err, &list));
    size_t n = json_array_size(list.value),
           most = sizeof run.losses / sizeof run.losses[0];
    for (size_t i = 0; i < n; i++)
        if (!json_is_number(json_array_get(list.value, i)))
            n = 0;
    if (n == 0 || n > most)
        return fs_json_fail(curves, s->key, &t->c->err,
                            "must be a list of 1 to %zu losses", most);
    fs_status status = run_setting(t, s, (int64_t)n, false, &model, &run);
    if (status == FS_OK)
        compare_curve(t, s, list.value, run.losses);
    cli_model_close(&model);
    return status;
}

static fs_status check_curves(test_case *t, const char *path)
{
    json_t *root;
    fs_json curves;
    FS_TRY(fs_json_load(path, &t->c->err, &root));
    fs_json file = fs_json_root(path, root);
    fs_status status = fs_json_object(&file, "losses", &t->c->err, &curves);
    for (size_t i = 0; i < 4 && status == FS_OK; i++)
        status = check_curve(t, &curves, &settings[i]);
    if (status == FS_OK && isnan(t->worst_curve) && !t->why[0])
        failed(t, "%s records no curve", path);
    json_decref(root);
    return status;
}

static bool has_file(const test_case *t, const char *name)
{
    return access(fs_printf(t->arena, "%s/%s", t->dir, name), R_OK) == 0;
}

static fs_status run_case(test_case *t)
{
    bool trains = has_file(t, "grad") || has_file(t, "train.json");
    if (!trains && has_file(t, "model.onnx")) {
        t->refused = true;
        return fs_fail(&t->c->err, FS_INVALID,
                       "a case of one node (no grad/, no train.json): only "
                       "training cases are run");
    }
    cli_model model = {0};
    curve first = {0};
    fs_status status = run_setting(t, &settings[0], 1, true, &model, &first);
    if (status == FS_OK)
        status = check_loss(t, first.losses[0]);
    if (status == FS_OK)
        status = check_gradients(t, model.graph, &first);
    cli_model_close(&model);
    FS_TRY(status);
    return check_curves(t, fs_printf(t->arena, "%s/train.json", t->dir));
}

typedef struct tally {
    int32_t cases, passed, failed, refused;
    json_t *details;
    report_table table;
} tally;

/* The operator that the importer's message names, as `operator "Op"` or as
 * `node 3 "name" (Op)`; "" when it names none. */
static const char *refused_op(cli *c, const char *why)
{
    static const char before[] = "operator \"", node[] = ": node ";
    const char *at = strstr(why, before);
    if (at)
        return fs_strndup(c->arena, at + sizeof before - 1,
                          strcspn(at + sizeof before - 1, "\""));
    at = strstr(why, node);
    at = at ? strstr(at, "\" (") : NULL;
    return at ? fs_strndup(c->arena, at + 3, strcspn(at + 3, ")")) : "";
}

static void figure_cell(report_table *table, double value)
{
    if (isnan(value))
        report_table_cell(table, "-");
    else
        report_table_cell(table, "%.1e", value);
}

static void set_figure(json_t *object, const char *key, double value)
{
    json_object_set_new(object, key,
                        isfinite(value) ? json_real(value) : json_null());
}

static json_t *detail_json(const test_case *t, const char *name,
                           const char *word, const char *why)
{
    json_t *detail =
        json_pack("{s:s, s:s, s:s, s:s, s:i}", "case", name, "status", word,
                  "op", t->refused ? refused_op(t->c, why) : "", "reason", why,
                  "gradients", t->gradients);
    set_figure(detail, "loss_error", t->worst_loss);
    set_figure(detail, "gradient_error", t->worst_gradient);
    set_figure(detail, "curve_error", t->worst_curve);
    return detail;
}

static void record(cli *c, tally *all, const test_case *t, fs_status status)
{
    const char *slash = strrchr(t->dir, '/');
    const char *name = slash ? slash + 1 : t->dir;
    const char *word = "passed", *why = t->why;
    all->cases++;
    if (status != FS_OK) {
        word = t->refused ? "refused" : "failed";
        why = c->err.text;
    } else if (t->why[0]) {
        word = "failed";
    }
    all->passed += word[0] == 'p';
    all->failed += word[0] == 'f';
    all->refused += word[0] == 'r';
    json_array_append_new(all->details, detail_json(t, name, word, why));
    report_table_cell(&all->table, "%s", name);
    report_table_cell(&all->table, "%s", word);
    figure_cell(&all->table, t->worst_loss);
    report_table_cell(&all->table, "%d", t->gradients);
    figure_cell(&all->table, t->worst_gradient);
    figure_cell(&all->table, t->worst_curve);
    report_table_cell(&all->table, "%s", why);
    c->err = (fs_err){0};
}

static void try_case(cli *c, exec_world *world, const char *dir, tally *all)
{
    test_case t = {.c = c,
                   .dir = dir,
                   .world = world,
                   .arena = fs_arena_create(),
                   .worst_loss = NAN,
                   .worst_gradient = NAN,
                   .worst_curve = NAN};
    fs_status status = run_case(&t);
    record(c, all, &t, status);
    fs_arena_destroy(t.arena);
}

/* Whatever a case has: one that lost its model failed, it is not passed over.
 */
static bool is_case(cli *c, const char *dir)
{
    static const char *const parts[] = {"model.onnx", "train.json", "grad",
                                        "test_data_set_0"};
    for (int i = 0; i < 4; i++)
        if (access(fs_printf(c->arena, "%s/%s", dir, parts[i]), F_OK) == 0)
            return true;
    return false;
}

static int no_dots(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static fs_status try_all(cli *c, exec_world *world, const char *dir, tally *all)
{
    if (is_case(c, dir)) {
        try_case(c, world, dir, all);
        return FS_OK;
    }
    struct dirent **list;
    int n = scandir(dir, &list, no_dots, alphasort);
    if (n < 0)
        return fs_fail(&c->err, FS_INVALID, "%s: cannot be read: %s", dir,
                       strerror(errno));
    for (int i = 0; i < n; i++) {
        const char *path = fs_printf(c->arena, "%s/%s", dir, list[i]->d_name);
        if (is_case(c, path))
            try_case(c, world, path, all);
        free(list[i]);
    }
    free(list);
    if (!all->cases)
        return fs_fail(&c->err, FS_INVALID,
                       "%s holds no case (a folder with model.onnx)", dir);
    return FS_OK;
}

static fs_status verdict(cli *c, const tally *all)
{
    json_object_set_new(c->result, "cases", json_integer(all->cases));
    json_object_set_new(c->result, "passed", json_integer(all->passed));
    json_object_set_new(c->result, "failed", json_integer(all->failed));
    json_object_set_new(c->result, "refused", json_integer(all->refused));
    if (!c->args.json)
        report_table_print(&all->table, stdout);
    cli_say(c, "%d case%s: %d passed, %d failed, %d refused\n", all->cases,
            all->cases == 1 ? "" : "s", all->passed, all->failed, all->refused);
    if (all->failed)
        return fs_fail(&c->err, FS_NO, "%d case%s failed", all->failed,
                       all->failed == 1 ? "" : "s");
    return all->passed ? FS_OK : fs_fail(&c->err, FS_NO, "no case passed");
}

fs_status cli_cmd_conformance(cli *c)
{
    static const char *const header[] = {"case",      "status",    "loss off",
                                         "gradients", "worst off", "curves off",
                                         "reason"};
    if (c->args.n_operands != 1)
        return fs_fail(&c->err, FS_INVALID, "conformance wants one DIR");
    FS_TRY(cli_check_kernels(c));
    FS_TRY(cli_begin(c, c->args.operands[0], NULL));
    exec_world *world;
    FS_TRY(exec_world_open(&c->err, &world));
    tally all = {
        .details = json_array(),
        .table = {.arena = c->arena, .n_columns = 7, .header = header}};
    json_object_set_new(c->result, "details", all.details);
    fs_status status = try_all(c, world, c->args.operands[0], &all);
    exec_world_close(world);
    return status == FS_OK ? verdict(c, &all) : status;
}
