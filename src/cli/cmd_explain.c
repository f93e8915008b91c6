#include "config.h"
#include "cli/cli.h"

#include "base/clock.h"
#include "cli/compressed.h"
#include "report/report.h"

#include <math.h>
#include <stdlib.h>
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
    plan_breakdown memory = plan_memory_tree(p->plan, c->arena);
    json_object_set_new(c->result, "iteration_s", json_real(cost.iteration_s));
    json_object_set_new(c->result, "tree",
                        json_pack("{s:o, s:o}", "time", tree_json(&cost.time),
                                  "memory", tree_json(&memory)));
    char text[32];
    cli_tell_statistics(c, &p->model);
    cli_tell_compressed(c, p, NULL);
    cli_say(c, "iteration by the formula: %s\n",
            fs_human_seconds(text, cost.iteration_s));
    cli_tell_offsets(c, p);
    if (c->args.json)
        return FS_OK;
    report_tree_print(&cost.time, "s", 0, stdout);
    report_tree_print(&memory, "B", 0, stdout);
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
            const plan_ends ends = plan_edge_ends(graph, &s, u, slot);
            plan_boxer_join(boxer, &ends, &s.edge[s.first_edge[u] + slot]);
        }
    }
    cost_summary cost;
    fs_err err = {0};
    if (cost_strategy(p->cost, graph, &s, c->arena, &err, &cost) != FS_OK)
        return NAN;
    return cost.iteration_s;
}

typedef struct choice {
    const char *signature;
    double op_s, iteration_s; /* iteration_s: NAN when it cannot be priced */
    bool chosen;
} choice;

/* Cheapest first; of equals the chosen one, then by signature. */
static int compare_choices(const void *a, const void *b)
{
    const choice *x = a, *y = b;
    if (isnan(x->iteration_s) != isnan(y->iteration_s))
        return isnan(x->iteration_s) ? 1 : -1;
    if (x->iteration_s < y->iteration_s || x->iteration_s > y->iteration_s)
        return x->iteration_s < y->iteration_s ? -1 : 1;
    if (x->chosen != y->chosen)
        return x->chosen ? -1 : 1;
    return strcmp(x->signature, y->signature);
}

typedef struct choices {
    int32_t n, chosen, next; /* next: the best other one; -1: none */
    choice *at;
} choices;

static choices list_choices(cli *c, const cli_plan *p, int32_t v)
{
    const ir_graph *graph = p->model.graph;
    const plan_strategy *s = p->plan->strategy;
    const plan_stage *stage = &s->stages[s->stage_of[v]];
    plan_boxer *boxer = plan_boxer_create(cost_boxing(p->cost), c->arena);
    ir_nd_sig_list sigs = {0};
    ir_signatures(graph, &graph->nodes.at[v], &stage->mesh, c->arena, &sigs);
    choices out = {.n = sigs.n,
                   .chosen = -1,
                   .next = -1,
                   .at = fs_new(c->arena, choice, sigs.n)};
    for (int32_t i = 0; i < sigs.n; i++)
        out.at[i] =
            (choice){ir_signature_text(&graph->nodes.at[v], &sigs.at[i],
                                       stage->mesh.n, c->arena),
                     cost_node_seconds(p->cost, graph, v, &sigs.at[i], stage),
                     cost_with(c, p, boxer, v, &sigs.at[i]),
                     memcmp(&sigs.at[i], &s->sig[v], sizeof s->sig[v]) == 0};
    qsort(out.at, (size_t)out.n, sizeof *out.at, compare_choices);
    for (int32_t i = out.n - 1; i >= 0; i--)
        if (out.at[i].chosen)
            out.chosen = i;
        else if (!isnan(out.at[i].iteration_s))
            out.next = i;
    return out;
}

/* cost_strategy sums the same terms in one order, so equal means equal; what
 * is below a millionth of the iteration is its rounding. */
static void print_verdict(const cli *c, const choices *list)
{
    if (list->chosen < 0 || list->next < 0)
        return;
    const choice *next = &list->at[list->next];
    double chosen_s = list->at[list->chosen].iteration_s;
    double more = next->iteration_s - chosen_s;
    char text[32];
    if (fabs(more) < 1e-6 * chosen_s)
        cli_say(c, "the next best costs the same: %s\n", next->signature);
    else
        cli_say(c, "the next best costs %s %s (%+.2g %%): %s\n",
                fs_human_seconds(text, fabs(more)), more > 0 ? "more" : "less",
                100 * more / chosen_s, next->signature);
}

static void print_choices(const cli *c, const choices *list)
{
    static const char *const header[] = {"signature", "op alone", "iteration",
                                         "against chosen", ""};
    report_table t = {.arena = c->arena, .n_columns = 5, .header = header};
    double chosen = list->chosen < 0 ? NAN : list->at[list->chosen].iteration_s;
    for (int32_t i = 0; i < list->n; i++) {
        const choice *k = &list->at[i];
        double more = k->iteration_s - chosen;
        char text[32];
        report_table_cell(&t, "%s", k->signature);
        report_table_cell(&t, "%s", fs_human_seconds(text, k->op_s));
        report_table_cell(&t, "%s",
                          isnan(k->iteration_s)
                              ? "-"
                              : fs_human_seconds(text, k->iteration_s));
        report_table_cell(&t, "%s",
                          isnan(more) ? "-" : fs_human_seconds(text, more));
        report_table_cell(&t, "%s",
                          k->chosen         ? "chosen"
                          : i == list->next ? "next best"
                                            : "");
    }
    report_table_print(&t, stdout);
    print_verdict(c, list);
}

static json_t *choices_json(const choices *list)
{
    json_t *out = json_array();
    for (int32_t i = 0; i < list->n; i++) {
        const choice *k = &list->at[i];
        json_t *row = json_pack("{s:s, s:f, s:b, s:b}", "signature",
                                k->signature, "op_s", k->op_s, "chosen",
                                k->chosen, "next_best", i == list->next);
        json_object_set_new(row, "iteration_s",
                            isnan(k->iteration_s) ? json_null()
                                                  : json_real(k->iteration_s));
        json_array_append_new(out, row);
    }
    return out;
}

/* "matmul", "matmul of bf16": 16-bit operands are worth a word. */
static const char *op_text(cli *c, const ir_graph *graph, const ir_node *node)
{
    const char *name = ir_op_table[node->op]->name;
    const int32_t first = node->n_in ? node->in[0] : node->out[0];
    const ir_dtype dtype = graph->tensors.at[first].dtype;
    if (!ir_dtype_is_float(dtype) || ir_dtype_computes(dtype))
        return name;
    return fs_printf(c->arena, "%s of %s", name, ir_dtype_name(dtype));
}

static fs_status explain_op(cli *c, const cli_plan *p, const char *name)
{
    const ir_graph *graph = p->model.graph;
    int32_t v = find_node(graph, name);
    if (v < 0)
        return fs_fail(&c->err, FS_INVALID, "the plan has no op or tensor '%s'",
                       name);
    const ir_node *node = &graph->nodes.at[v];
    choices list = list_choices(c, p, v);
    json_object_set_new(c->result, "tree",
                        json_pack("{s:s, s:s, s:i, s:o}", "name", node->name,
                                  "op", ir_op_table[node->op]->name, "stage",
                                  (int)p->plan->strategy->stage_of[v],
                                  "signatures", choices_json(&list)));
    if (list.chosen >= 0)
        json_object_set_new(c->result, "iteration_s",
                            json_real(list.at[list.chosen].iteration_s));
    cli_say(c,
            "%s (%s), stage %d: all else as planned, its edges boxed "
            "anew\n",
            node->name, op_text(c, graph, node),
            p->plan->strategy->stage_of[v]);
    if (!c->args.json)
        print_choices(c, &list);
    return FS_OK;
}

static fs_status explain(cli *c, const cli_plan *p)
{
    cli_tell_unsound(c, p);
    return c->args.op ? explain_op(c, p, c->args.op) : explain_plan(c, p);
}

fs_status cli_cmd_explain(cli *c)
{
    return cli_with_plan(c, explain);
}
