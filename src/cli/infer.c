/* Plans of inference: what of the command line shapes a training only, and the
 * graph that answers in the place of the one that trains. */
#include "config.h"
#include "cli/infer.h"

#include "cli/part.h"
#include "ir/rewrite.h"
#include "ir/samples.h"

#include <math.h>
#include <string.h>

/* ---- what is said ---- */

/* NULL: nothing that inference knows nothing of. */
static const char *first_of_training(const cli_args *a)
{
    const struct {
        bool said;
        const char *flag;
    } all[] = {{a->loss, "--loss"},
               {a->optimizer, "--optimizer"},
               {!isnan(a->lr), "--lr"},
               {a->lr_schedule, "--lr-schedule"},
               {!isnan(a->weight_decay), "--weight-decay"},
               {!isnan(a->momentum), "--momentum"},
               {!isnan(a->beta1), "--beta1"},
               {!isnan(a->beta2), "--beta2"},
               {!isnan(a->epsilon), "--epsilon"},
               {!isnan(a->clip_norm), "--clip-norm"},
               {a->loss_scale, "--loss-scale"},
               {a->states, "--states"},
               {a->compress, "--compress"},
               {a->recompute, "--recompute"},
               {a->padding.n > 0, "--padding"},
               {a->no_dropout, "--no-dropout"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].said)
            return all[i].flag;
    return NULL;
}

fs_status cli_mode(cli *c, bool *infer)
{
    const char *mode = c->args.mode ? c->args.mode : "train", *said;
    *infer = strcmp(mode, "infer") == 0;
    if (!*infer && strcmp(mode, "train") != 0)
        return fs_fail(&c->err, FS_INVALID,
                       "--mode %s is unknown; there are train and infer", mode);
    said = *infer ? first_of_training(&c->args) : NULL;
    return said ? fs_fail(&c->err, FS_INVALID,
                          "%s has no effect with --mode infer: it is of "
                          "training",
                          said)
                : FS_OK;
}

fs_status cli_infer_recipe(cli *c, const search_recipe *recipe)
{
    const char *key = recipe->recompute ? "recompute"
                      : recipe->states  ? "states"
                                        : NULL;
    if (recipe->zero == 1 || recipe->zero == 2)
        return fs_fail(&c->err, FS_INVALID,
                       "zero=%d has no effect with --mode infer: there are no "
                       "states and no gradients (zero=3 cuts parameters)",
                       recipe->zero);
    return key ? fs_fail(&c->err, FS_INVALID,
                         "%s of the recipe has no effect with --mode infer: it "
                         "is of training",
                         key)
               : FS_OK;
}

/* ---- the graph ---- */

/* Of a single sample axes tell nothing: the graph of more does, whose outputs
 * are the same ones. */
static fs_status open_several(cli *c, const plan_origin *o, const ir_graph *few,
                              cli_model *out)
{
    FS_TRY(cli_model_open(c, o, o->batch > 1 ? o->batch : 2, out));
    if (out->graph->outputs.n == few->outputs.n)
        return FS_OK;
    cli_model_close(out);
    return cli_part_fail(o, "model", &c->err,
                         "%s has other outputs with another batch", few->name);
}

static fs_status find_axes(cli *c, const plan_origin *o, int32_t m,
                           const cli_model *whole, const ir_graph *graph,
                           int32_t *axis)
{
    cli_model opened = {0};
    const ir_graph *of = o->batch > m ? graph : whole ? whole->graph : NULL;
    if (!of)
        FS_TRY(open_several(c, o, graph, &opened));
    of = of ? of : opened.graph;
    fs_arena *scratch = fs_arena_create();
    const int32_t *all = ir_sample_axes(of, scratch);
    for (int32_t i = 0; i < of->outputs.n; i++)
        axis[i] = all[of->outputs.at[i]];
    fs_arena_destroy(scratch);
    cli_model_close(&opened);
    return FS_OK;
}

/* A micro-batch's outputs are parts of the whole batch's only where each row is
 * some sample's alone. */
static fs_status check_axes(const plan_origin *o, const ir_graph *graph,
                            const int32_t *axis, fs_err *err)
{
    for (int32_t i = 0; i < graph->outputs.n; i++)
        if (axis[i] < 0)
            return cli_part(
                o, "micro_batches", err,
                fs_fail(err, FS_NO,
                        "%s: the rows of its output '%s' are not each one "
                        "sample's alone, as far as can be told: those of "
                        "micro-batches do not make it up; use 1 micro-batch",
                        graph->name,
                        graph->tensors.at[graph->outputs.at[i]].name));
    return FS_OK;
}

/* One micro-batch does without: a batch of one that cannot be another is no
 * fault. */
static fs_status look_for_axes(cli *c, const plan_origin *o, int32_t m,
                               const cli_model *whole, const ir_graph *graph,
                               int32_t *axis)
{
    for (int32_t i = 0; i < graph->outputs.n; i++)
        axis[i] = IR_SAMPLES_MIXED;
    const fs_status status = find_axes(c, o, m, whole, graph, axis);
    if (m > 1)
        return status == FS_OK ? check_axes(o, graph, axis, &c->err) : status;
    if (status != FS_OK)
        c->err = (fs_err){0};
    return FS_OK;
}

fs_status cli_infer_graph(cli *c, const plan_origin *o, int32_t m,
                          const cli_model *whole, ir_graph *graph)
{
    ir_rewrite_options rewrites;
    if (graph->outputs.n == 0)
        return cli_part_fail(o, "model", &c->err, "%s has no outputs",
                             o->model);
    int32_t *axis = fs_new(graph->arena, int32_t, graph->outputs.n);
    FS_TRY(look_for_axes(c, o, m, whole, graph, axis));
    FS_TRY(cli_part(o, "rewrite", &c->err,
                    ir_rewrite_parse(o->rewrite, &c->err, &rewrites)));
    graph->batch = o->batch;
    graph->micro_batches = m;
    ir_rewrite_step(graph, &rewrites);
    for (int32_t i = 0; i < graph->outputs.n; i++)
        graph->tensors.at[graph->outputs.at[i]].batch_axis =
            axis[i] < 0 ? -1 : axis[i];
    return graph->err.status == FS_OK
               ? FS_OK
               : cli_part_fail(o, "model", &c->err, "%s", graph->err.text);
}
