#include "config.h"
#include "cli/explain.h"
#include "cli/collectives.h"

#include "base/clock.h"
#include "cli/cluster.h"
#include "cli/compressed.h"
#include "cli/states.h"
#include "report/report.h"

json_t *cli_tree_json(const plan_breakdown *tree)
{
    json_t *node =
        json_pack("{s:s, s:f}", "name", tree->name, "value", tree->value);
    if (tree->note)
        json_object_set_new(node, "note", json_string(tree->note));
    if (!tree->n)
        return node;
    json_t *children = json_array();
    for (int32_t i = 0; i < tree->n; i++)
        json_array_append_new(children, cli_tree_json(&tree->child[i]));
    json_object_set_new(node, "children", children);
    return node;
}

static void tell_limit(const cli_explaining *e)
{
    char text[32];
    if (e->memory_bytes == 0)
        return;
    fs_json_set_int(e->c->result, "limit_bytes", e->memory_bytes);
    cli_say(e->c, "memory limit: %s per device %s\n",
            fs_human_bytes(text, (double)e->memory_bytes), cli_limit_source(e));
}

static fs_status explain_plan(const cli_explaining *e)
{
    cli *c = e->c;
    const cli_plan *p = e->p;
    plan_breakdown memory = plan_memory_tree(p->plan, c->arena);
    json_object_set_new(c->result, "iteration_s",
                        json_real(e->cost.iteration_s));
    json_object_set_new(c->result, "tree",
                        json_pack("{s:o, s:o}", "time",
                                  cli_tree_json(&e->cost.time), "memory",
                                  cli_tree_json(&memory)));
    char text[32];
    cli_tell_statistics(c, &p->model);
    cli_tell_states(c, p->model.origin.states, p->model.graph);
    cli_tell_compressed(c, p, NULL);
    cli_say(c, "iteration by the formula: %s\n",
            fs_human_seconds(text, e->cost.iteration_s));
    tell_limit(e);
    cli_tell_collectives(c, p);
    cli_tell_offsets(c, p);
    if (c->args.json)
        return FS_OK;
    report_tree_print(&e->cost.time, "s", 0, stdout);
    report_tree_print(&memory, "B", 0, stdout);
    return FS_OK;
}

static fs_status explain(cli *c, const cli_plan *p)
{
    cli_tell_unsound(c, p);
    cli_explaining e = {.c = c, .p = p};
    if (c->args.op && c->args.stage >= 0)
        return fs_fail(&c->err, FS_INVALID, "give --op or --stage, not both");
    e.memory_bytes = p->model.origin.memory_bytes;
    if (c->args.memory)
        FS_TRY(cli_memory_limit(c, p->cluster, &e.memory_bytes));
    FS_TRY(cost_strategy(p->cost, p->model.graph, p->plan->strategy, c->arena,
                         &c->err, &e.cost));
    if (c->args.op)
        return cli_explain_op(&e, c->args.op);
    if (c->args.stage >= 0)
        return cli_explain_stage(&e, c->args.stage);
    return explain_plan(&e);
}

fs_status cli_cmd_explain(cli *c)
{
    return cli_with_plan(c, explain);
}
