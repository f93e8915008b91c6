/* An op: what it costs, what each other signature would, and why not that. */
#include "config.h"
#include "cli/explain.h"

#include "base/clock.h"
#include "report/report.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

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

/* ---- a name that there is not ---- */

enum { FEW_NAMES = 5, LONGEST_NAME = 256 };

/* Edits that make `wanted` a part of the name (Sellers 1980), whatever its
 * case.
 */
static int32_t edits_to_part(const char *wanted, int32_t n, const char *name)
{
    int32_t edits[LONGEST_NAME + 1], least = n;
    for (int32_t i = 0; i <= n; i++)
        edits[i] = i;
    for (; *name; name++) {
        int32_t before = 0; /* a part may begin anywhere */
        for (int32_t i = 1; i <= n; i++) {
            const bool same = tolower((unsigned char)wanted[i - 1]) ==
                              tolower((unsigned char)*name);
            int32_t now = before + !same;
            before = edits[i];
            now = before + 1 < now ? before + 1 : now;
            now = edits[i - 1] + 1 < now ? edits[i - 1] + 1 : now;
            edits[i] = now;
        }
        least = edits[n] < least ? edits[n] : least;
    }
    return least;
}

typedef struct near_name {
    const char *name;
    int32_t edits;
    size_t length;
} near_name;

static bool is_nearer(const near_name *a, const near_name *b)
{
    return a->edits != b->edits ? a->edits < b->edits : a->length < b->length;
}

/* The nearest first; of equals the one that comes first. */
static void add_near(near_name *list, int32_t *n, near_name one)
{
    for (int32_t k = 0; k < *n; k++)
        if (strcmp(list[k].name, one.name) == 0)
            return;
    if (*n == FEW_NAMES && !is_nearer(&one, &list[*n - 1]))
        return;
    int32_t k = *n < FEW_NAMES ? (*n)++ : *n - 1;
    for (; k > 0 && is_nearer(&one, &list[k - 1]); k--)
        list[k] = list[k - 1];
    list[k] = one;
}

static fs_status fail_unknown(cli *c, const ir_graph *graph, const char *name)
{
    const size_t length = strlen(name);
    const int32_t n = length < LONGEST_NAME ? (int32_t)length : LONGEST_NAME;
    near_name list[FEW_NAMES];
    int32_t n_near = 0;
    fs_text near = {.arena = c->arena};
    for (int32_t k = 0; k < graph->nodes.n + graph->tensors.n; k++) {
        const char *known = k < graph->nodes.n
                                ? graph->nodes.at[k].name
                                : graph->tensors.at[k - graph->nodes.n].name;
        add_near(
            list, &n_near,
            (near_name){known, edits_to_part(name, n, known), strlen(known)});
    }
    for (int32_t k = 0; k < n_near; k++)
        fs_text_add(&near, "%s%s", k ? ", " : "", list[k].name);
    return fs_fail(&c->err, FS_INVALID,
                   "--op %s: the plan has no such op or tensor; the nearest "
                   "names: %s",
                   name, near.n ? near.at : "it has none");
}

/* The whole strategy with one node's signature changed and its edges boxed
 * anew: why this choice and not the next best. */
static plan_strategy strategy_with(cli *c, const cli_plan *p, plan_boxer *boxer,
                                   int32_t v, const ir_nd_sig *sig)
{
    const ir_graph *graph = p->model.graph;
    plan_strategy s = *p->plan->strategy;
    s.like = NULL;
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
            plan_boxing *edge = &s.edge[s.first_edge[u] + slot];
            const int32_t sharing = edge->sharing;
            plan_boxer_join(boxer, &ends, edge);
            edge->sharing = edge->n ? sharing : 0;
        }
    }
    return s;
}

static double cost_with(cli *c, const cli_plan *p, plan_boxer *boxer, int32_t v,
                        const ir_nd_sig *sig)
{
    const plan_strategy s = strategy_with(c, p, boxer, v, sig);
    cost_summary cost;
    fs_err err = {0};
    if (cost_strategy(p->cost, p->model.graph, &s, c->arena, &err, &cost) !=
        FS_OK)
        return NAN;
    return cost.iteration_s;
}

typedef struct choice {
    const char *signature;
    ir_nd_sig sig;
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
                     sigs.at[i],
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
        cli_say(c,
                "all else as planned the cheapest other costs the same: %s\n",
                next->signature);
    else
        cli_say(c,
                "all else as planned the cheapest other costs %s %s (%+.2g "
                "%%): %s\n",
                fs_human_seconds(text, fabs(more)), more > 0 ? "more" : "less",
                100 * more / chosen_s, next->signature);
}

enum { MOST_ROWS = 16 };

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
        if (i >= MOST_ROWS && !k->chosen)
            continue;
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
                          : i == list->next ? "cheapest other"
                                            : "");
    }
    report_table_print(&t, stdout);
    if (list->n > MOST_ROWS)
        cli_say(c, "(of %d, all in --json)\n", list->n);
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

/* ---- all else chosen anew ---- */

static const char *signature_of(const cli_explaining *e, int32_t v,
                                const search_result *found)
{
    const plan_strategy *s = found->strategy;
    return ir_signature_text(&found->graph->nodes.at[v], &s->sig[v],
                             s->stages[s->stage_of[v]].mesh.n, e->c->arena);
}

/* Signatures that axes of two ranks would allow and these do not, since they
 * are longer than what they would cut. */
static int32_t too_short(const cli_explaining *e, int32_t v, const char **first)
{
    const ir_graph *graph = e->p->model.graph;
    const ir_node *node = &graph->nodes.at[v];
    const plan_strategy *s = e->p->plan->strategy;
    const ir_mesh *mesh = &s->stages[s->stage_of[v]].mesh;
    ir_mesh twos = *mesh;
    ir_nd_sig_list all, here;
    int32_t n = 0;
    for (int32_t a = 0; a < twos.n; a++)
        twos.dim[a] = 2;
    ir_signatures(graph, node, &twos, e->c->arena, &all);
    ir_signatures(graph, node, mesh, e->c->arena, &here);
    for (int32_t k = 0; k < all.n; k++) {
        bool known = false;
        for (int32_t i = 0; i < here.n && !known; i++)
            known = memcmp(&all.at[k], &here.at[i], sizeof all.at[k]) == 0;
        if (!known && n++ == 0)
            *first = ir_signature_text(node, &all.at[k], mesh->n, e->c->arena);
    }
    return n;
}

static void bind_op(cli_binds *binds, int32_t v, const cli_other *same,
                    const cli_other *other)
{
    const cli_explaining *e = binds->e;
    const int32_t stage = e->p->plan->strategy->stage_of[v];
    const char *first = NULL;
    const int32_t lengths = too_short(e, v, &first);
    char text[32];
    if (other->over)
        cli_bind(binds, "memory",
                 "another signature would take %s (%s) where memory is no "
                 "limit, but %s",
                 fs_human_seconds(text, other->free_s),
                 cli_against(e, other->free_s), other->over);
    if (lengths)
        cli_bind(binds, "lengths",
                 "%d more signature%s would cut what is too short for so many "
                 "ranks, as %s",
                 lengths, lengths == 1 ? "" : "s", first);
    cli_bind_pace(binds, stage);
    cli_bind_told(binds, fmin(same->iteration_s, other->iteration_s));
    if (json_array_size(binds->list) == 0)
        cli_bind(binds, "nothing",
                 "neither memory nor lengths: its seconds and its neighbours' "
                 "alone decide");
}

/* The best other signature, with its plan: what a search finds, or, where that
 * ended early, the next best of the list if it fits. */
typedef struct next_best {
    cli_other other;
    const char *signature; /* NULL: none */
    bool as_planned;       /* all else */
    bool only;             /* there is no other */
    const choice *refused; /* cheaper than it, all else as planned, but: */
    const char *over;      /* "stage 0 would take 3 GiB of 2 GiB, .." */
} next_best;

/* Of those that cost less, all else as planned, the cheapest that fits; NULL:
 * none of the first few does. */
static const choice *cheaper_listed(const cli_explaining *e, int32_t v,
                                    const choices *list, double than_s,
                                    next_best *out)
{
    const cli_plan *p = e->p;
    plan_boxer *boxer = plan_boxer_create(cost_boxing(p->cost), e->c->arena);
    for (int32_t k = 0; k < list->n && k < MOST_ROWS; k++) {
        const choice *one = &list->at[k];
        if (one->chosen)
            continue;
        if (!(one->iteration_s < than_s))
            break;
        const plan_strategy s = strategy_with(e->c, p, boxer, v, &one->sig);
        const char *over = cli_over_text(e, p->model.graph, &s);
        if (!over)
            return one;
        if (!out->refused) {
            out->refused = one;
            out->over = over;
        }
    }
    return NULL;
}

static void find_next(const cli_explaining *e, int32_t v, const choices *list,
                      next_best *out)
{
    const cli_plan *p = e->p;
    cli_other *other = &out->other;
    out->only = list->n < 2;
    *other = (cli_other){
        .what = "another signature",
        .variant = {.graph = p->model.graph, .node = v, .same = false}};
    cli_other_begin(e, other);
    cli_other_finish(e, other);
    if (other->status == FS_OK)
        out->signature = signature_of(e, v, &other->found);
    const choice *next =
        cheaper_listed(e, v, list, fmin(other->iteration_s, INFINITY), out);
    if (!next)
        return;
    out->as_planned = true;
    out->signature = next->signature;
    other->status = FS_OK;
    other->iteration_s = next->iteration_s;
}

static void tell_next(const cli_explaining *e, const next_best *next)
{
    char a[32], b[32];
    const cli_other *other = &next->other;
    if (!next->signature) {
        cli_say(e->c, "next best       none: %s\n",
                next->only ? "it has no other signature here" : other->why);
        return;
    }
    cli_say(e->c, "next best       %s: %s (%s), %s; no other in less than %s\n",
            next->signature, fs_human_seconds(a, other->iteration_s),
            cli_against(e, other->iteration_s),
            next->as_planned ? "all else as planned"
                             : "all else on these stages chosen anew",
            isfinite(other->bound_s) ? fs_human_seconds(b, other->bound_s)
                                     : "0 s");
}

/* Why the cheapest of the list is not the next best. */
static void tell_refused(const cli_explaining *e, const next_best *next,
                         json_t *best)
{
    char text[32];
    if (!next->refused)
        return;
    cli_say(e->c, "not that        %s: %s (%s), but %s\n",
            next->refused->signature,
            fs_human_seconds(text, next->refused->iteration_s),
            cli_against(e, next->refused->iteration_s), next->over);
    json_object_set_new(best, "refused",
                        json_pack("{s:s, s:f, s:s}", "signature",
                                  next->refused->signature, "iteration_s",
                                  next->refused->iteration_s, "over",
                                  next->over));
}

/* The plan's own signature, when all else is chosen anew, and the best other.
 */
static json_t *tell_others(const cli_explaining *e, const cli_other *same,
                           const next_best *next)
{
    char text[32];
    tell_next(e, next);
    if (same->iteration_s < e->cost.iteration_s)
        cli_say(e->c,
                "chosen          %s (%s), when all else is chosen anew as "
                "well\n",
                fs_human_seconds(text, same->iteration_s),
                cli_against(e, same->iteration_s));
    json_t *best = cli_other_json(e, &next->other);
    tell_refused(e, next, best);
    json_object_set_new(best, "signature",
                        next->signature ? json_string(next->signature)
                                        : json_null());
    json_object_set_new(best, "all_else_as_planned",
                        json_boolean(next->as_planned));
    return json_pack("{s:o, s:o}", "chosen", cli_other_json(e, same),
                     "next_best", best);
}

static void tell_op(const cli_explaining *e, int32_t v, const choices *list)
{
    cli *c = e->c;
    const cli_plan *p = e->p;
    const ir_graph *graph = p->model.graph;
    const ir_node *node = &graph->nodes.at[v];
    const int32_t stage = p->plan->strategy->stage_of[v];
    const plan_breakdown tree =
        cost_node_tree(p->cost, graph, p->plan->strategy, v, c->arena);
    json_object_set_new(c->result, "tree",
                        json_pack("{s:s, s:s, s:i, s:o, s:o}", "name",
                                  node->name, "op", ir_op_table[node->op]->name,
                                  "stage", (int)stage, "signatures",
                                  choices_json(list), "cost",
                                  cli_tree_json(&tree)));
    json_object_set_new(c->result, "iteration_s",
                        json_real(e->cost.iteration_s));
    cli_say(c, "%s (%s), stage %d: seconds per step\n", node->name,
            op_text(c, graph, node), stage);
    if (!c->args.json)
        report_tree_print(&tree, "s", 0, stdout);
    cli_say(c, "\nanother signature, all else as planned, its edges boxed "
               "anew\n");
    if (!c->args.json)
        print_choices(c, list);
    cli_say(c, "\n");
}

fs_status cli_explain_op(const cli_explaining *e, const char *name)
{
    cli *c = e->c;
    const ir_graph *graph = e->p->model.graph;
    const int32_t v = find_node(graph, name);
    if (v < 0)
        return fail_unknown(c, graph, name);
    const choices list = list_choices(c, e->p, v);
    cli_other same = {.what = "this signature",
                      .variant = {.graph = graph, .node = v, .same = true}};
    cli_binds binds = {e, json_array()};
    next_best next = {0};
    tell_op(e, v, &list);
    cli_other_begin(e, &same);
    cli_other_finish(e, &same);
    find_next(e, v, &list, &next);
    json_object_set_new(c->result, "anew", tell_others(e, &same, &next));
    bind_op(&binds, v, &same, &next.other);
    json_object_set_new(c->result, "binds", binds.list);
    return FS_OK;
}
