/* A training case under a recipe: planned as `plan` does, run as `run` does. */
#include "config.h"
#include "cli/conformance.h"

#include "cli/data.h"
#include "cli/guard.h"
#include "cli/make_plan.h"

/* This host with the figures of the described device `cpu`: which plan a recipe
 * gives must not hang on what was measured here. */
static fs_status open_cluster(cli *c, int32_t ranks, hw_cluster **out)
{
    hw_cluster *host;
    FS_TRY(hw_cluster_probe(ranks, c->arena, &c->err, &host));
    FS_TRY(hw_cluster_open(fs_printf(c->arena, "1x%d:cpu", ranks), c->data_dir,
                           c->arena, &c->err, out));
    (*out)->name = host->name;
    (*out)->host = host->host;
    (*out)->groups[0].cores_per_node = host->groups[0].cores_per_node;
    hw_cluster_finish(*out);
    return FS_OK;
}

static fs_status open_recipe(cli *c, const char *text, conformance_recipe *out)
{
    out->text = text;
    out->parts = search_recipe_free();
    FS_TRY(search_recipe_parse(text, c->arena, &c->err, &out->parts));
    int64_t ranks = search_recipe_ranks(&out->parts);
    if (ranks > INT32_MAX)
        return fs_fail(&c->err, FS_INVALID, "'%.80s': too many ranks", text);
    out->ranks = (int32_t)ranks;
    return open_cluster(c, out->ranks, &out->cluster);
}

fs_status conformance_recipe_open(cli *c, const char *text,
                                  conformance_recipe *out)
{
    if (cli_am_rank())
        return fs_fail(&c->err, FS_INVALID,
                       "--plan %.80s starts its own ranks: leave mpirun out",
                       text);
    fs_status status = open_recipe(c, text, out);
    if (status != FS_OK)
        fs_err_prefix(&c->err, "--plan");
    return status;
}

static fs_status make(conformance_case *t, const cli_model *model,
                      const char *file, cli_plan *out)
{
    cli *c = t->c;
    plan_origin origin = model->origin;
    origin.batch = model->graph->batch;
    origin.cluster = "local";
    if (origin.batch < 1)
        return fs_fail(&c->err, FS_INVALID,
                       "%s: no input has a batch axis to plan by",
                       origin.model);
    FS_TRY(cli_plan_by_hand(c, &origin, &t->recipe->parts, t->recipe->cluster,
                            file));
    FS_TRY(cli_plan_open(c, file, out));
    const json_t *row = json_array_get(out->model.statistics, 0);
    if (out->plan->micro_batches == 1 || !row)
        return FS_OK;
    const char *node = json_string_value(json_object_get(row, "first"));
    fs_fail(&c->err, FS_INVALID,
            "%s takes statistics of a micro-batch: the record's are of the "
            "whole batch",
            node);
    cli_plan_close(out);
    return FS_INVALID;
}

static fs_status start(conformance_case *t, const cli_plan *p, int64_t steps,
                       const char *file, cli_outcome *out)
{
    const char *kernels = t->c->args.kernels;
    const char *words[] = {
        "run",       file,
        "--db",      "none",
        "--data",    fs_printf(t->arena, "%s/test_data_set_0", t->dir),
        "--steps",   fs_printf(t->arena, "%lld", (long long)steps),
        "--kernels", kernels ? kernels : "auto",
        NULL};
    FS_TRY(cli_outcome_of_ranks(t->c, p, words, out));
    if (out->steps < steps)
        return fs_fail(&t->c->err, FS_INVALID,
                       "the loss of step %lld of %lld is not finite",
                       (long long)out->steps, (long long)steps);
    return FS_OK;
}

fs_status conformance_on_ranks(conformance_case *t, cli_model *model,
                               int64_t steps, bool gradients, cli_outcome *out)
{
    cli_plan p;
    const char *file;
    FS_TRY(cli_scratch_file(t->c, "case.json", &file));
    fs_status status = make(t, model, file, &p);
    t->refused = status == FS_INVALID || status == FS_NO;
    FS_TRY(status);
    cli_model_close(model);
    *model = p.model;
    if (gradients)
        cli_outcome_fetch_gradients(p.model.graph, t->arena, out);
    return start(t, &p, steps, file, out);
}
