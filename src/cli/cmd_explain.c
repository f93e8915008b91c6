#include "config.h"
#include "cli/cli.h"

#include "base/clock.h"
#include "report/report.h"

#include <string.h>

static json_t *tree_json(const plan_breakdown *tree)
{
    json_t *node =
        json_pack("{s:s, s:f}", "name", tree->name, "value", tree->value);
    if (tree->note)
        json_object_set_new(node, "note", json_string(tree->note));
    if (!tree->n)
        return node;
    json_t *children = json_array();
    for (int32_t i = 0; i < tree->n; i++)
        json_array_append_new(children, tree_json(&tree->child[i]));
    json_object_set_new(node, "children", children);
    return node;
}

static fs_status explain_plan(cli *c, const cli_plan *p)
{
    cost_summary cost;
    FS_TRY(cost_strategy(p->cost, p->model.graph, p->plan->strategy, c->arena,
                         &c->err, &cost));
    json_object_set_new(c->result, "iteration_s", json_real(cost.iteration_s));
    json_object_set_new(c->result, "tree",
                        json_pack("{s:o, s:o}", "time", tree_json(&cost.time),
                                  "memory", tree_json(&cost.memory)));
    char text[32];
    cli_say(c, "iteration by the formula: %s\n",
            fs_human_seconds(text, cost.iteration_s));
    if (c->args.json)
        return FS_OK;
    report_tree_print(&cost.time, "s", 0, stdout);
    report_tree_print(&cost.memory, "B", 0, stdout);
    return FS_OK;
}

/* A node by its own name, or by a tensor that it makes. */
static int32_t find_node(const ir_graph *graph, const char *name)
{
    int32_t tensor = ir_graph_find(graph, name);
    if (tensor >= 0)
        return graph->tensors.at[tensor].producer;
    for (int32_t v = 0; v < graph->nodes.n; v++)
        if (strcmp(graph->nodes.at[v].name, name) == 0)
            return v;
    return -1;
}

static const char *signature_text(cli *c, const ir_node *node,
                                  const ir_nd_sig *sig, int32_t axes)
{
    fs_text text = {.arena = c->arena};
    char one[64];
    for (int32_t i = 0; i < node->n_in; i++)
        fs_text_add(&text, "%s%s", i ? " " : "",
                    ir_nd_sbp_text(one, &sig->in[i], axes));
    fs_text_add(&text, " ->");
    for (int32_t i = 0; i < node->n_out; i++)
        fs_text_add(&text, " %s", ir_nd_sbp_text(one, &sig->out[i], axes));
    return text.at;
}

/* Seconds of the whole strategy with one node's signature changed and its
 * edges boxed anew: why this choice and not the next best. */
static double cost_with(cli *c, const cli_plan *p, plan_boxer *boxer, int32_t v,
                        const ir_nd_sig *sig)
{
    const ir_graph *graph = p->model.graph;
    plan_strategy s = *p->plan->strategy;
    s.sig = fs_memdup(c->arena, s.sig, sizeof *s.sig * (size_t)s.n_nodes);
    s.edge = fs_memdup(c->arena, s.edge, sizeof *s.edge * (size_t)s.n_edges);
    s.sig[v] = *sig;
    for (int32_t u = 0; u < s.n_nodes; u++) {
        int32_t slots = s.first_edge[u + 1] - s.first_edge[u];
        for (int32_t slot = 0; slot < slots; slot++) {
            int32_t t = plan_edge_tensor(graph, &s, u, slot);
            if (t < 0)
                continue;
            const ir_tensor *x = &graph->tensors.at[t];
            if (u != v && x->producer != v)
                continue;
            bool loop = graph->nodes.at[u].n_in == 0;
            const ir_nd_sbp *to = loop ? &s.sig[u].out[0] : &s.sig[u].in[slot];
            plan_boxer_find(boxer, x, &s.stages[s.stage_of[x->producer]],
                            &s.sig[x->producer].out[x->slot], to,
                            &s.edge[s.first_edge[u] + slot]);
        }
    }
    cost_summary cost;
    fs_err err = {0};
    if (cost_strategy(p->cost, graph, &s, c->arena, &err, &cost) != FS_OK)
        return -1;
    return cost.iteration_s;
}

static fs_status explain_op(cli *c, const cli_plan *p, const char *name)
{
    const ir_graph *graph = p->model.graph;
    const plan_strategy *s = p->plan->strategy;
    int32_t v = find_node(graph, name);
    if (v < 0)
        return fs_fail(&c->err, FS_INVALID,
                       "the plan has no op or tensor "
                       "'%s'",
                       name);
    const ir_node *node = &graph->nodes.at[v];
    const plan_stage *stage = &s->stages[s->stage_of[v]];
    plan_boxer *boxer = plan_boxer_create(cost_boxing(p->cost), c->arena);
    double chosen = cost_with(c, p, boxer, v, &s->sig[v]);
    json_t *list = json_array();
    json_object_set_new(c->result, "iteration_s", json_real(chosen));
    json_object_set_new(c->result, "tree", list);
    static const char *const header[] = {"signature", "op alone", "iteration",
                                         "against chosen", ""};
    report_table t = {.arena = c->arena, .n_columns = 5, .header = header};
    ir_nd_sig_list sigs = {0};
    ir_signatures(graph, node, &stage->mesh, c->arena, &sigs);
    for (int32_t i = 0; i < sigs.n; i++) {
        const char *text = signature_text(c, node, &sigs.at[i], stage->mesh.n);
        double alone = cost_node_seconds(p->cost, graph, v, &sigs.at[i], stage);
        double whole = cost_with(c, p, boxer, v, &sigs.at[i]);
        bool is_it = memcmp(&sigs.at[i], &s->sig[v], sizeof s->sig[v]) == 0;
        char a[32], b[32], d[32];
        json_array_append_new(
            list, json_pack("{s:s, s:f, s:f, s:b}", "signature", text, "op_s",
                            alone, "iteration_s", whole, "chosen", is_it));
        report_table_cell(&t, "%s", text);
        report_table_cell(&t, "%s", fs_human_seconds(a, alone));
        report_table_cell(&t, "%s", fs_human_seconds(b, whole));
        report_table_cell(&t, "%s", fs_human_seconds(d, whole - chosen));
        report_table_cell(&t, "%s", is_it ? "chosen" : "");
    }
    cli_say(c,
            "%s (%s), stage %d: all else as planned, its edges boxed "
            "anew\n",
            node->name, ir_op_table[node->op]->name, s->stage_of[v]);
    if (!c->args.json)
        report_table_print(&t, stdout);
    return FS_OK;
}

static fs_status explain(cli *c, const cli_plan *p)
{
    return c->args.op ? explain_op(c, p, c->args.op) : explain_plan(c, p);
}

fs_status cli_cmd_explain(cli *c)
{
    return cli_with_plan(c, explain);
}
