/* Models: what the user said, the graph it gives, its training graph. */
#include "config.h"
#include "cli/cli.h"

#include "base/regex.h"
#include "cli/infer.h"
#include "cli/part.h"
#include "cli/sizes.h"
#include "cli/states.h"
#include "ir/recompute.h"
#include "ir/train.h"
#include "kernels/evaluate.h"
#include "onnx/import.h"
#include "zoo/zoo.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool ends_with(const char *text, const char *ending)
{
    size_t n = strlen(text), m = strlen(ending);
    return n >= m && strcmp(text + n - m, ending) == 0;
}

bool cli_is_model(const char *spec)
{
    return ends_with(spec, ".onnx") || strncmp(spec, "zoo:", 4) == 0;
}

static double or_default(double said)
{
    return isnan(said) ? -1.0 : said;
}

const char *cli_rewrites(const cli_args *args)
{
    return args->no_rewrite ? "none" : args->rewrite ? args->rewrite : "usual";
}

static const char *recompute_of(const cli_args *a)
{
    return a->recompute && strcmp(a->recompute, "none") != 0 ? a->recompute
                                                             : "";
}

plan_origin cli_origin(const cli *c, const char *model, const char *cluster)
{
    const cli_args *a = &c->args;
    return (plan_origin){
        .model = model,
        .infer = a->mode && strcmp(a->mode, "infer") == 0,
        .loss = a->loss ? a->loss : "",
        .params = a->params ? a->params : "",
        .rewrite = cli_rewrites(a),
        .dropout = !a->no_dropout,
        .recompute = recompute_of(a),
        .optimizer = a->optimizer ? a->optimizer : "adamw",
        .lr = or_default(a->lr),
        .lr_schedule = a->lr_schedule ? a->lr_schedule : "",
        .weight_decay = or_default(a->weight_decay),
        .momentum = or_default(a->momentum),
        .beta1 = or_default(a->beta1),
        .beta2 = or_default(a->beta2),
        .epsilon = or_default(a->epsilon),
        .clip_norm = isnan(a->clip_norm) ? 0 : a->clip_norm,
        .precision = a->precision ? a->precision : "fp32",
        .loss_scale = a->loss_scale ? a->loss_scale : "",
        .states = a->states ? a->states : "fp32",
        .compress =
            a->compress && strcmp(a->compress, "none") != 0 ? a->compress : "",
        .cluster = cluster,
        .batch = a->batch < 0 ? 0 : a->batch,
        .n_binds = a->bind.n,
        .binds = a->bind.at,
        .n_padding = a->padding.n,
        .padding = a->padding.at,
        .seed = a->seed < 0 ? 0 : (uint64_t)a->seed,
    };
}

uint64_t cli_seed(const cli *c, const plan_origin *o)
{
    return c->args.seed < 0 ? o->seed : (uint64_t)c->args.seed;
}

static fs_status read_rewrites(const plan_origin *o, fs_err *err,
                               ir_rewrite_options *out)
{
    return cli_part(o, "rewrite", err, ir_rewrite_parse(o->rewrite, err, out));
}

static fs_status open_onnx(const plan_origin *o, int64_t samples, fs_err *err,
                           cli_model *out)
{
    ir_rewrite_options rewrites;
    const char *about = "model";
    FS_TRY(read_rewrites(o, err, &rewrites));
    rewrites.evaluate = kernel_evaluate;
    onnx_options options = {
        .batch = samples,
        .n_binds = o->n_binds,
        .binds = o->binds,
        .loss = o->loss[0] ? o->loss : NULL,
        .params = o->params[0] ? o->params : NULL,
        .seed = o->seed,
        .rewrites = &rewrites,
        .no_dropout = !o->dropout,
        .answers = o->infer,
        .about = &about,
    };
    fs_status status = onnx_import(o->model, &options, err, &out->mapping,
                                   &out->graph, &out->notes);
    return cli_part(o, about, err, status);
}

static fs_status check_loss(const plan_origin *o, fs_err *err)
{
    if (!o->loss[0])
        return FS_OK;
    if (o->infer)
        return cli_part_fail(o, "loss", err,
                             "%s has no effect: a plan of inference has no "
                             "loss",
                             o->loss);
    return cli_part(o, "loss", err, onnx_loss_check(o->loss, err));
}

/* The user meant something by it: what names nothing is a mistake. */
static fs_status check_params(const plan_origin *o, const ir_graph *graph,
                              fs_err *err)
{
    regex_t compiled;
    bool found = false;
    if (!o->params[0])
        return FS_OK;
    FS_TRY(cli_part(o, "params", err,
                    fs_regex_compile(o->params, err, &compiled)));
    for (int32_t i = 0; graph && i < graph->tensors.n && !found; i++) {
        const ir_tensor *x = &graph->tensors.at[i];
        found =
            x->role == IR_PARAM && regexec(&compiled, x->name, 0, NULL, 0) == 0;
    }
    regfree(&compiled);
    if (found || !graph)
        return FS_OK;
    return cli_part_fail(o, "params", err, "'%s' matches no parameter of %s",
                         o->params, o->model);
}

static fs_status open_zoo(const plan_origin *o, int64_t samples,
                          ir_tables *tables, fs_err *err, cli_model *out)
{
    if (o->params[0])
        return cli_part_fail(o, "params", err,
                             "'%s' is for .onnx models; %s knows its "
                             "parameters",
                             o->params, o->model);
    if (o->n_binds)
        return cli_part_fail(o, "binds", err,
                             "%s is for .onnx models; the sizes of %s are its "
                             "keys",
                             o->binds[0], o->model);
    if (!o->dropout)
        return cli_part_fail(o, "dropout", err,
                             "to leave dropouts out is for .onnx models; %s "
                             "has no dropouts",
                             o->model);
    ir_rewrite_options rewrites;
    const zoo_options options = {samples > 0 ? samples : 1, tables, o->infer};
    FS_TRY(read_rewrites(o, err, &rewrites));
    FS_TRY(cli_part(o, "model", err,
                    zoo_build_with(o->model, &options, err, &out->graph)));
    ir_rewrite(out->graph, &rewrites);
    if (out->graph->err.status != FS_OK)
        return cli_part_fail(o, "model", err, "%s", out->graph->err.text);
    if (!o->loss[0] || out->graph->loss < 0)
        return FS_OK;
    return cli_part_fail(o, "loss", err, "%s has a loss: leave '%s' out",
                         o->model, o->loss);
}

static fs_status set_precision(const plan_origin *o, ir_graph *graph,
                               fs_err *err)
{
    ir_dtype narrow;
    FS_TRY(cli_part(o, "precision", err,
                    ir_precision_parse(o->precision, err, &narrow)));
    ir_rewrite_precision(graph, narrow);
    if (graph->err.status != FS_OK)
        return cli_part_fail(o, "precision", err, "%s", graph->err.text);
    return FS_OK;
}

/* Who asks for steps is told where there are none. */
static fs_status note_scans(const plan_origin *o, fs_err *err, cli_model *model)
{
    ir_rewrite_options rewrites;
    int32_t n = 0;
    FS_TRY(read_rewrites(o, err, &rewrites));
    for (int32_t v = 0; rewrites.steps && v < model->graph->nodes.n; v++)
        n += model->graph->nodes.at[v].op == IR_OP_recurrent;
    if (n > 0)
        fs_text_add(&model->notes,
                    "--rewrite steps: %d recurrent layer%s one op: too many "
                    "steps, or with lengths, peepholes, clipping or rare "
                    "activations\n",
                    n, n == 1 ? " stays" : "s stay");
    return FS_OK;
}

fs_status cli_model_open(cli *c, const plan_origin *origin, int64_t samples,
                         cli_model *out)
{
    cli_model model = {.origin = *origin};
    fs_status status;
    FS_TRY(check_loss(origin, &c->err));
    FS_TRY(check_params(origin, NULL, &c->err));
    model.arena = model.notes.arena = fs_arena_create();
    if (strncmp(origin->model, "zoo:", 4) == 0)
        status = open_zoo(origin, samples, c->tables, &c->err, &model);
    else if (ends_with(origin->model, ".onnx"))
        status = open_onnx(origin, samples, &c->err, &model);
    else
        status = cli_part_fail(origin, "model", &c->err,
                               "'%s' is neither a .onnx file nor zoo:NAME",
                               origin->model);
    if (status == FS_OK)
        status = check_params(origin, model.graph, &c->err);
    if (status == FS_OK)
        status = note_scans(origin, &c->err, &model);
    if (status == FS_OK)
        status = set_precision(origin, model.graph, &c->err);
    if (status == FS_OK)
        *out = model;
    else
        cli_model_close(&model);
    return status;
}

/* By kinds of ops, in the order of their first nodes. */
static json_t *count_statistics(const ir_graph *g, const ir_loss_form *form)
{
    json_t *list = form->statistics.n ? json_array() : NULL;
    int32_t row[IR_OP_COUNT] = {0};
    for (int32_t k = 0; k < form->statistics.n; k++) {
        const ir_node *node = &g->nodes.at[form->statistics.at[k]];
        json_t *of = json_array_get(list, (size_t)row[node->op] - 1);
        if (row[node->op]) {
            json_t *nodes = json_object_get(of, "nodes");
            json_integer_set(nodes, json_integer_value(nodes) + 1);
            continue;
        }
        row[node->op] = (int32_t)json_array_size(list) + 1;
        json_array_append_new(list,
                              json_pack("{s:s, s:i, s:o}", "op",
                                        ir_op_table[node->op]->name, "nodes", 1,
                                        "first", fs_json_string(node->name)));
    }
    return list;
}

void cli_tell_statistics(cli *c, const cli_model *model)
{
    size_t i;
    json_t *row;
    fs_text text = {.arena = c->arena};
    json_object_set_new(c->result, "statistics_per_micro_batch",
                        model->statistics ? json_deep_copy(model->statistics)
                                          : json_array());
    json_array_foreach(model->statistics, i, row)
        fs_text_add(&text, "%s%s x %lld (first %s)", i ? ", " : "",
                    json_string_value(json_object_get(row, "op")),
                    json_integer_value(json_object_get(row, "nodes")),
                    json_string_value(json_object_get(row, "first")));
    if (text.n)
        cli_say(c,
                "micro-batches   have statistics of their own, so that the "
                "numbers are not the whole batch's: %s\n",
                text.at);
}

/* The same network with the whole batch tells what the loss is to it. */
static fs_status find_terms(cli *c, const plan_origin *o, int32_t m,
                            const cli_model *whole, cli_model *part,
                            ir_loss_terms *out)
{
    cli_model opened = {0};
    ir_loss_form form;
    if (m == 1)
        return FS_OK;
    if (!whole)
        FS_TRY(cli_model_open(c, o, o->batch, &opened));
    fs_status status = ir_loss_find_form(whole ? whole->graph : opened.graph,
                                         part->graph, m, &c->err, &form);
    cli_model_close(&opened);
    FS_TRY(cli_part(o, "micro_batches", &c->err, status));
    *out = form.terms;
    part->statistics = count_statistics(part->graph, &form);
    return FS_OK;
}

/* One NAME=ROW; a name may hold = itself. */
static fs_status set_padding(cli *c, const plan_origin *o, const char *said,
                             ir_graph *graph)
{
    const char *equals = strrchr(said, '=');
    char *end = NULL;
    fs_err why = {0};
    errno = 0;
    long long row = equals ? strtoll(equals + 1, &end, 10) : 0;
    if (!equals || end == equals + 1 || *end || errno)
        return cli_part_fail(o, "padding", &c->err, "'%s' is not NAME=ROW",
                             said);
    int32_t table = ir_graph_find(
        graph, fs_strndup(graph->arena, said, (size_t)(equals - said)));
    if (table < 0)
        return cli_part_fail(o, "padding", &c->err,
                             "%s: %s has no parameter of that name", said,
                             graph->name);
    if (ir_train_padding(graph, table, row, &why) != FS_OK)
        return cli_part_fail(o, "padding", &c->err, "%s: %s", said, why.text);
    return FS_OK;
}

/* Names that the program found in an earlier graph of the model. */
static fs_status check_compressed(const plan_origin *o, const ir_graph *graph,
                                  fs_err *err)
{
    for (int32_t i = 0; i < o->n_compressed; i++)
        if (ir_graph_find(graph, o->compressed[i]) < 0)
            return cli_part_fail(o, "compressed", err,
                                 "%s has no parameter '%.80s'", graph->name,
                                 o->compressed[i]);
    return FS_OK;
}

/* Gradients that are fp16 where they move have its range too. */
fs_status cli_read_precision(const plan_origin *o, fs_err *err,
                             ir_train_options *out)
{
    ir_dtype narrow;
    FS_TRY(cli_part(o, "precision", err,
                    ir_precision_parse(o->precision, err, &narrow)));
    FS_TRY(cli_part(o, "compress", err,
                    ir_compress_parse(o->compress, err, &out->compress)));
    out->compress.n_only = o->n_compressed;
    out->compress.only = o->compressed;
    if (ir_compress_dtype(&out->compress) == IR_F16)
        narrow = IR_F16;
    return cli_part(
        o, "loss_scale", err,
        ir_loss_scale_parse(o->loss_scale, narrow, err, &out->loss_scale));
}

/* What is computed again by choice: chosen from the graph as it runs, whose
 * forward nodes make what the backward pass would read without. */
static fs_status choose_again(const plan_origin *o, ir_graph *graph,
                              fs_err *err)
{
    if (!o->again || !o->again[0])
        return FS_OK;
    FS_TRY(cli_part(o, "again", err, ir_recompute(graph, o->again, err)));
    fs_status status = FS_OK;
    fs_arena *scratch = fs_arena_create();
    bool *copies = fs_new(scratch, bool, graph->nodes.n);
    int32_t *of = fs_new(scratch, int32_t, graph->nodes.n);
    for (int32_t i = 0; i < o->n_kept && status == FS_OK; i++) {
        const int32_t v = ir_graph_find_again(graph, o->kept[i]);
        if (v < 0)
            status = cli_part_fail(o, "kept", err,
                                   "%s computes no node '%.80s' again",
                                   graph->name, o->kept[i]);
        else
            copies[v] = true;
    }
    if (status == FS_OK)
        ir_recompute_keep(graph, copies, of);
    fs_arena_destroy(scratch);
    return status;
}

fs_status cli_model_add_step(cli *c, const plan_origin *o, int32_t m,
                             const cli_model *whole, cli_model *model)
{
    ir_graph *graph = model->graph;
    ir_train_options options = ir_train_defaults();
    const char *about = "model";
    fs_err *err = &c->err;
    if (o->infer)
        return cli_infer_graph(c, o, m, whole, graph);
    FS_TRY(cli_read_precision(o, err, &options));
    FS_TRY(cli_part(o, "optimizer", err,
                    ir_optimizer_parse(o->optimizer, err, &options.optimizer)));
    FS_TRY(cli_part(o, "lr_schedule", err,
                    ir_rate_parse(o->lr_schedule, err, &options.rate)));
    options.lr = o->lr;
    options.weight_decay = o->weight_decay;
    options.momentum = o->momentum;
    options.beta1 = o->beta1;
    options.beta2 = o->beta2;
    options.epsilon = o->epsilon;
    options.clip_norm = o->clip_norm;
    options.recompute = o->recompute;
    options.micro_batches = m;
    ir_rewrite_options rewrites;
    FS_TRY(read_rewrites(o, err, &rewrites));
    options.keep_pads = !rewrites.pads;
    options.keep_dead = !rewrites.dead;
    FS_TRY(find_terms(c, o, m, whole, model, &options.terms));
    graph->batch = o->batch;
    for (int32_t i = 0; i < o->n_padding; i++)
        FS_TRY(set_padding(c, o, o->padding[i], graph));
    FS_TRY(check_compressed(o, graph, err));
    options.about = &about;
    fs_status status = ir_train(graph, &options, err);
    FS_TRY(cli_part(o, about, err, status));
    ir_rewrite_step(graph, &rewrites);
    FS_TRY(choose_again(o, graph, err));
    return cli_model_states(o, graph, err);
}

fs_status cli_model_gradients(cli *c, cli_model *model)
{
    plan_origin origin = model->origin;
    return cli_model_add_step(c, &origin, 1, NULL, model);
}

fs_status cli_model_network(cli *c, const plan_origin *origin, int32_t m,
                            cli_model *out)
{
    if (origin->batch < 1 || origin->batch % m)
        return cli_part_fail(
            origin, "micro_batches", &c->err,
            "a batch of %lld does not divide into %d micro-batches",
            (long long)origin->batch, m);
    cli_model model;
    FS_TRY(cli_model_open(c, origin, origin->batch / m, &model));
    if (model.graph->loss < 0 && !origin->infer) {
        cli_model_close(&model);
        return cli_part_fail(origin, origin->file ? "loss" : "model", &c->err,
                             "%s has no loss to train%s", origin->model,
                             origin->file ? "" : ": " CLI_ADD_A_LOSS);
    }
    *out = model;
    return FS_OK;
}

fs_status cli_model_train(cli *c, const plan_origin *origin, int32_t m,
                          cli_model *out)
{
    cli_model model;
    FS_TRY(cli_model_network(c, origin, m, &model));
    const fs_status status = cli_model_add_step(c, origin, m, NULL, &model);
    if (status == FS_OK)
        *out = model;
    else
        cli_model_close(&model);
    return status;
}

void cli_model_close(cli_model *model)
{
    ir_graph_destroy(model->graph);
    if (model->mapping)
        onnx_model_close(model->mapping);
    json_decref(model->statistics);
    fs_arena_destroy(model->arena);
    model->arena = NULL;
    model->graph = NULL;
    model->lender = NULL;
    model->mapping = NULL;
    model->statistics = NULL;
}
