#include "config.h"
#include "cli/export.h"

#include "base/clock.h"
#include "base/file.h"
#include "cli/checkpoints.h"
#include "cli/tuning.h"
#include "exec/weights.h"
#include "onnx/export.h"

#include <math.h>
#include <string.h>

static bool to_chakra(const cli *c)
{
    return strcmp(c->args.to, "chakra") == 0;
}

static bool to_safetensors(const cli *c)
{
    return strcmp(c->args.to, "safetensors") == 0;
}

static fs_status check_format(cli *c)
{
    static const char *const planned[] = {"megatron", "torchtitan",
                                          "deepspeed"};
    const char *to = c->args.to;
    if (!to)
        return fs_fail(&c->err, FS_INVALID,
                       "export wants --to onnx, safetensors or chakra");
    if (c->args.weights && to_chakra(c))
        return fs_fail(&c->err, FS_INVALID,
                       "--weights says nothing of a chakra trace");
    if (c->args.collectives && !to_chakra(c))
        return fs_fail(&c->err, FS_INVALID,
                       "--collectives %s says nothing of --to %s: it is of a "
                       "chakra trace's durations",
                       c->args.collectives, to);
    if (strcmp(to, "onnx") == 0 || to_chakra(c) || to_safetensors(c))
        return FS_OK;
    for (size_t i = 0; i < sizeof planned / sizeof *planned; i++)
        if (strcmp(to, planned[i]) == 0)
            return fs_fail(
                &c->err, FS_INVALID,
                "--to %s is not there yet; there are onnx, safetensors "
                "and chakra",
                to);
    return fs_fail(
        &c->err, FS_INVALID,
        "--to %s is no format that export knows; there are onnx, safetensors "
        "and chakra",
        to);
}

/* The strategy's stages and signatures, as the writer takes them. */
static onnx_placement placement_of(cli *c, const plan *p)
{
    const plan_strategy *s = p->strategy;
    ir_mesh *mesh = fs_new(c->arena, ir_mesh, s->n_stages);
    int32_t *first = fs_new(c->arena, int32_t, s->n_stages);
    for (int32_t i = 0; i < s->n_stages; i++) {
        mesh[i] = s->stages[i].mesh;
        first[i] = s->stages[i].first_device;
    }
    return (onnx_placement){.n_stages = s->n_stages,
                            .mesh = mesh,
                            .first_device = first,
                            .stage_of = s->stage_of,
                            .sig = s->sig,
                            .schedule = s->schedule,
                            .digest = p->digest};
}

/* What the file says in our own terms only. */
static void tell(cli *c, const onnx_exported *done)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < done->n_own; i++)
        json_array_append_new(
            list, json_string(fs_printf(c->arena, "op %s", done->own[i])));
    if (done->n_partial)
        json_array_append_new(list, json_string("partial values"));
    if (done->n_halo)
        json_array_append_new(list, json_string("halos"));
    if (done->n_between)
        json_array_append_new(list, json_string("values within ops"));
    json_object_set_new(c->result, "file", fs_json_string(c->args.output));
    json_object_set_new(c->result, "nodes", json_integer(done->n_nodes));
    json_object_set_new(c->result, "data_bytes",
                        json_integer(done->side_bytes));
    json_object_set_new(c->result, "inexpressible", list);
    cli_say(c, "%s: %d nodes\n", c->args.output, done->n_nodes);
    if (done->side_bytes)
        cli_say(c, "%s: %lld bytes of values\n",
                onnx_side_file(c->arena, c->args.output),
                (long long)done->side_bytes);
    for (int32_t i = 0; i < done->n_own; i++)
        cli_say(c, "%s%s%s",
                i ? ", " : "without a form in ONNX, in domain flowsearch: ",
                done->own[i], i + 1 == done->n_own ? "\n" : "");
    if (done->n_between)
        cli_say(c,
                "%d values between the nodes that one op became have no "
                "annotation\n",
                done->n_between);
    if (done->n_partial)
        cli_say(c, "%d partial values stand in the nodes' metadata only\n",
                done->n_partial);
    if (done->n_halo)
        cli_say(c,
                "%d inputs with a halo are written as plain splits, the halo "
                "stands in the nodes' metadata only\n",
                done->n_halo);
}

/* Before anything is written. */
static fs_status tell_size(cli *c, const ir_graph *graph,
                           const onnx_export_options *options)
{
    enum { MUCH = 1 << 30 };
    const int64_t bytes = onnx_export_bytes(graph, options);
    char text[32];
    FS_TRY(fs_check_room(
        c->args.output, bytes,
        options->no_weights ? "" : "--no-weights leaves the values out",
        &c->err));
    if (bytes > MUCH && !options->no_weights)
        cli_say(c, "writing %s of values; --no-weights leaves them out\n",
                fs_human_bytes(text, (double)bytes));
    return FS_OK;
}

static fs_status write_values(cli *c, const cli_model *model)
{
    int64_t bytes;
    char text[32];
    FS_TRY(exec_weights_write(model->graph, cli_seed(c, &model->origin),
                              c->args.output, c->arena, &c->err, &bytes));
    json_object_set_new(c->result, "file", fs_json_string(c->args.output));
    json_object_set_new(c->result, "data_bytes", json_integer(bytes));
    cli_say(c, "%s: %s of values\n", c->args.output,
            fs_human_bytes(text, (double)bytes));
    return FS_OK;
}

static fs_status write_graph(cli *c, const cli_model *model,
                             const onnx_placement *placement)
{
    onnx_export_options options = {.placement = placement,
                                   .external = c->args.external,
                                   .no_weights = c->args.no_weights,
                                   .seed = cli_seed(c, &model->origin)};
    onnx_exported done;
    FS_TRY(cli_give_weights(c, model->graph));
    if (to_safetensors(c))
        return write_values(c, model);
    FS_TRY(tell_size(c, model->graph, &options));
    FS_TRY(onnx_export(model->graph, c->args.output, &options, c->arena,
                       &c->err, &done));
    tell(c, &done);
    return FS_OK;
}

static fs_status export_plan(cli *c, const cli_plan *p)
{
    onnx_placement placement = placement_of(c, p->plan);
    return write_graph(c, &p->model, &placement);
}

/* An option of a MODEL; what shapes its training step wants --train. */
typedef struct flag {
    const char *name;
    bool said, trains;
} flag;

enum { N_FLAGS = 22 };

static void list_flags(const cli_args *a, flag out[N_FLAGS])
{
    const flag all[N_FLAGS] = {{"train", a->train, false},
                               {"batch", a->batch >= 0, false},
                               {"bind", a->bind.n > 0, false},
                               {"loss", a->loss != NULL, false},
                               {"params", a->params != NULL, false},
                               {"precision", a->precision != NULL, false},
                               {"loss-scale", a->loss_scale != NULL, true},
                               {"rewrite", a->rewrite != NULL, false},
                               {"no-rewrite", a->no_rewrite, false},
                               {"no-dropout", a->no_dropout, false},
                               {"states", a->states != NULL, true},
                               {"optimizer", a->optimizer != NULL, true},
                               {"lr", !isnan(a->lr), true},
                               {"lr-schedule", a->lr_schedule != NULL, true},
                               {"weight-decay", !isnan(a->weight_decay), true},
                               {"momentum", !isnan(a->momentum), true},
                               {"beta1", !isnan(a->beta1), true},
                               {"beta2", !isnan(a->beta2), true},
                               {"epsilon", !isnan(a->epsilon), true},
                               {"clip-norm", !isnan(a->clip_norm), true},
                               {"padding", a->padding.n > 0, true},
                               {"recompute", a->recompute != NULL, true}};
    memcpy(out, all, sizeof all);
}

static fs_status check_training(cli *c)
{
    const cli_args *a = &c->args;
    flag flags[N_FLAGS];
    list_flags(a, flags);
    for (int i = 0; i < N_FLAGS && !a->train; i++)
        if (flags[i].said && flags[i].trains)
            return fs_fail(&c->err, FS_INVALID, "--%s wants --train",
                           flags[i].name);
    if (!a->train)
        return FS_OK;
    return cli_check_tuning(c, a->optimizer ? a->optimizer : "adamw",
                            a->optimizer ? "" : " (the default)");
}

/* A plan's file says these itself. */
static fs_status check_plain(cli *c)
{
    flag flags[N_FLAGS];
    list_flags(&c->args, flags);
    for (int i = 0; i < N_FLAGS; i++)
        if (flags[i].said)
            return fs_fail(&c->err, FS_INVALID,
                           "--%s is of a MODEL; a plan's nodes are what its "
                           "file says",
                           flags[i].name);
    return FS_OK;
}

static fs_status export_model(cli *c, const char *spec)
{
    plan_origin origin = cli_origin(c, spec, "");
    cli_model model;
    FS_TRY(check_training(c));
    FS_TRY(cli_begin(c, spec, NULL));
    FS_TRY(cli_model_open(c, &origin, origin.batch, &model));
    fs_status status = cli_digests(c, model.graph->digest, 0, 0);
    cli_keep(c, &model, NULL);
    if (status == FS_OK && c->args.train && model.graph->loss < 0)
        status = fs_fail(&c->err, FS_INVALID,
                         "%s has no loss to train: " CLI_ADD_A_LOSS, spec);
    if (status == FS_OK && c->args.train)
        status = cli_model_gradients(c, &model);
    if (status == FS_OK && model.notes.n)
        cli_say(c, "%s", model.notes.at);
    if (status == FS_OK)
        status = write_graph(c, &model, NULL);
    cli_model_close(&model);
    return status;
}

fs_status cli_cmd_export(cli *c)
{
    if (c->args.n_operands != 1 || !c->args.output)
        return fs_fail(&c->err, FS_INVALID,
                       "export wants one PLAN or MODEL, --to onnx and -o FILE, "
                       "or one PLAN, --to chakra and -o DIR");
    if (c->args.batch == 0)
        return fs_fail(&c->err, FS_INVALID, "--batch must be at least 1");
    FS_TRY(check_format(c));
    FS_TRY(to_chakra(c) ? cli_check_chakra(c)
                        : cli_check_writable(c, c->args.output));
    const char *what = c->args.operands[0];
    if (cli_is_model(what))
        return export_model(c, what);
    FS_TRY(check_plain(c));
    return cli_with_plan(c, to_chakra(c) ? cli_export_chakra : export_plan);
}
