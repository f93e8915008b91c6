#include "config.h"
#include "cli/cli.h"

#include "base/clock.h"
#include "base/file.h"
#include "cli/cluster.h"
#include "cli/machine.h"
#include "cli/predict.h"
#include "report/report.h"

#include <string.h>

static fs_status show_timeline(cli *c, const cli_plan *p, report_drawn *drawn)
{
    plan_trace trace = {.arena = c->arena};
    sim_result sim;
    FS_TRY(cli_predict(c, p, &trace, &sim));
    char text[32];
    const char *title =
        fs_printf(c->arena, "predicted timeline: one iteration takes %s",
                  fs_human_seconds(text, sim.iteration_s));
    return report_draw_timeline(p->plan, &trace, title, c->args.output, &c->err,
                                drawn);
}

static fs_status show_plan(cli *c, const char *path, report_drawn *drawn)
{
    cli_plan p;
    FS_TRY(cli_plan_open(c, path, &p));
    fs_status status = cli_machine_tell(c, path, p.cluster);
    if (status == FS_OK)
        status = cli_begin_plan(c, &p);
    if (status == FS_OK)
        cli_tell_unsound(c, &p);
    if (status == FS_OK)
        status = c->args.timeline
                     ? show_timeline(c, &p, drawn)
                     : report_draw_plan(p.model.graph, p.plan, c->args.output,
                                        &c->err, drawn);
    cli_plan_close(&p);
    return status;
}

static bool is_text(const char *file)
{
    const char *dot = strrchr(file, '.');
    return dot && strcmp(dot, ".txt") == 0;
}

/* The graph itself, a line per node. */
static fs_status write_text(const ir_graph *graph, const char *file,
                            fs_err *err)
{
    fs_output out;
    fs_text text = {.arena = fs_arena_create()};
    ir_graph_dump(graph, &text);
    fs_status status = fs_output_open(&out, file, err);
    if (status == FS_OK) {
        fs_output_write(&out, text.at, text.n);
        status = fs_output_close(&out, err);
    }
    fs_arena_destroy(text.arena);
    return status;
}

static fs_status show_model(cli *c, const char *spec, report_drawn *drawn)
{
    plan_origin origin = cli_origin(c, spec, "");
    cli_model model;
    FS_TRY(cli_begin(c, spec, NULL));
    FS_TRY(cli_model_open(c, &origin, origin.batch, &model));
    fs_status status = cli_digests(c, model.graph->digest, 0, 0);
    cli_keep(c, &model, NULL);
    drawn->nodes = model.graph->nodes.n;
    if (status == FS_OK)
        status = is_text(c->args.output)
                     ? write_text(model.graph, c->args.output, &c->err)
                     : report_draw_graph(model.graph, c->args.output, &c->err,
                                         drawn);
    cli_model_close(&model);
    return status;
}

static fs_status show_cluster(cli *c, const char *spec, report_drawn *drawn)
{
    hw_cluster *cluster;
    FS_TRY(cli_begin(c, NULL, spec));
    FS_TRY(cli_cluster_open(c, spec, &cluster));
    FS_TRY(cli_digests(c, 0, cluster->digest, 0));
    cli_keep(c, NULL, cluster);
    return report_draw_cluster(cluster, c->args.output, &c->err, drawn);
}

/* A .json file is a plan when it says so, else a cluster. */
static bool is_plan(const char *path)
{
    json_t *root = NULL;
    fs_err ignored = {0}; /* the opening of what it is tells it */
    if (fs_json_load(path, &ignored, &root) != FS_OK)
        return false;
    const char *format = json_string_value(json_object_get(root, "format"));
    bool plan_file = format && strcmp(format, "flowsearch-plan") == 0;
    json_decref(root);
    return plan_file;
}

fs_status cli_cmd_show(cli *c)
{
    if (c->args.n_operands != 1 || !c->args.output)
        return fs_fail(&c->err, FS_INVALID,
                       "show wants one PLAN, MODEL or CLUSTER, and -o FILE");
    const char *what = c->args.operands[0];
    bool model = cli_is_model(what);
    bool cluster = !model && cli_is_cluster(what) && !is_plan(what);
    report_drawn drawn = {0};
    if (c->args.batch == 0)
        return fs_fail(&c->err, FS_INVALID, "--batch must be at least 1");
    if (c->args.timeline && (model || cluster))
        return fs_fail(&c->err, FS_INVALID,
                       "--timeline is of a PLAN; %s is a %s", what,
                       cluster ? "cluster" : "model");
    if (c->args.collectives && !c->args.timeline)
        return fs_fail(&c->err, FS_INVALID,
                       "--collectives %s says nothing of a picture without "
                       "--timeline",
                       c->args.collectives);
    if (model)
        FS_TRY(show_model(c, what, &drawn));
    else if (cluster)
        FS_TRY(show_cluster(c, what, &drawn));
    else
        FS_TRY(show_plan(c, what, &drawn));
    json_object_set_new(c->result, "file", fs_json_string(c->args.output));
    json_object_set_new(c->result, "nodes", json_integer(drawn.nodes));
    json_object_set_new(c->result, "edges", json_integer(drawn.edges));
    if (model && is_text(c->args.output))
        cli_say(c, "%s: %d nodes\n", c->args.output, drawn.nodes);
    else
        cli_say(c, "%s: %d nodes, %d edges\n", c->args.output, drawn.nodes,
                drawn.edges);
    return FS_OK;
}
