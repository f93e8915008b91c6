/* Which ops two plans of one model treat otherwise. Ops are the same by name:
 * copies of a repeated block that change alike are told as one. */
#include "config.h"
#include "cli/compare.h"

#include "base/clock.h"
#include "ir/blocks.h"
#include "plan/boxing.h"
#include "report/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 40 };

/* A graph's nodes with what folds them: copies of a block's node are of one
 * kind, and what only stands in front of them (variables, constants) is of the
 * kind of its first reader. */
typedef struct side {
    const cli_side *s;
    int64_t *kind;           /* [nodes] */
    const cost_model *micro; /* of what runs per micro-batch */
} side;

static int64_t kind_in_copies(const ir_blocks *blocks, int32_t number)
{
    for (int32_t r = 0; r < blocks->repeats.n; r++) {
        const ir_repeat *repeat = &blocks->repeats.at[r];
        const int32_t at = number - repeat->first;
        if (at >= 0 && at < repeat->length * repeat->copies)
            return repeat->first + at % repeat->length;
    }
    return number;
}

static void find_kinds(const ir_graph *graph, fs_arena *arena, int64_t *kind)
{
    ir_blocks blocks;
    const int32_t n = graph->nodes.n;
    ir_find_blocks(graph, arena, &blocks);
    for (int32_t v = 0; v < n; v++)
        kind[v] = -1;
    for (int32_t i = 0; i < blocks.n_nodes; i++)
        kind[blocks.node[i]] = (1 + kind_in_copies(&blocks, i)) * IR_MAX_IN * 2;
    for (int32_t v = n - 1; v >= 0; v--) { /* the first reader counts */
        const ir_node *node = &graph->nodes.at[v];
        for (int32_t k = 0; k < node->n_in && kind[v] >= 0; k++) {
            const int32_t from = graph->tensors.at[node->in[k]].producer;
            if (from >= 0 && graph->nodes.at[from].n_in == 0)
                kind[from] = kind[v] + 1 + k;
        }
    }
    for (int32_t v = 0; v < n; v++) /* nobody reads it */
        if (kind[v] < 0)
            kind[v] = -1 - v;
}

static side side_of(const cli_side *s, fs_arena *arena)
{
    const ir_graph *graph = s->p.model.graph;
    const plan_strategy *strategy = s->p.plan->strategy;
    side out = {.s = s, .kind = fs_new(arena, int64_t, graph->nodes.n)};
    find_kinds(graph, arena, out.kind);
    out.micro = cost_model_for(s->p.cost, s->cost.n_groups,
                               strategy->micro_batches, arena);
    return out;
}

/* Seconds per step of a node with its inputs' boxing, as the formula adds
 * them. */
static double seconds_of(const side *x, int32_t v)
{
    const ir_graph *graph = x->s->p.model.graph;
    const plan_strategy *s = x->s->p.plan->strategy;
    const int32_t slots = s->first_edge[v + 1] - s->first_edge[v];
    const double m = s->micro_batches;
    const bool once = cost_node_per_step(graph, v);
    double sum = (once ? 1 : m) *
                 cost_node_seconds(once ? x->s->p.cost : x->micro, graph, v,
                                   &s->sig[v], &s->stages[s->stage_of[v]]);
    for (int32_t slot = 0; slot < slots; slot++) {
        if (plan_edge_tensor(graph, s, v, slot) < 0)
            continue;
        const bool step = plan_edge_per_step(graph, s, v, slot);
        const plan_ends ends = plan_edge_ends(graph, s, v, slot);
        sum += (step ? 1 : m) *
               cost_edge_seconds(step ? x->s->p.cost : x->micro, &ends,
                                 &s->edge[s->first_edge[v] + slot]);
    }
    return sum;
}

/* Ops of one kind that changed alike. */
typedef struct change {
    int64_t kind;
    const char *name, *op;
    const char *sig[2];        /* short; NULL: the graph has no such op */
    const char *full[2];       /* as `explain` tells them */
    int32_t first[2], last[2]; /* stages */
    double seconds[2];
    bool moved; /* to another stage */
    int32_t n;
} change;

typedef FS_VEC(change) changes;

/* The same along all axes is told once: so far a mesh of one axis and one of
 * two agree. One device has all of everything. */
static void lie_text(const ir_nd_sbp *sbp, int32_t n_axes, char text[64])
{
    bool same = true;
    for (int32_t a = 1; a < n_axes; a++)
        same &= ir_sbp_equal(sbp->at[0], sbp->at[a]);
    if (n_axes == 0)
        strcpy(text, "B");
    else
        ir_nd_sbp_text(text, sbp, same ? 1 : n_axes);
}

static void add_run(fs_text *text, const char *one, int32_t n)
{
    fs_text_add(text, text->n ? " %s" : "%s", one);
    if (n > 1)
        fs_text_add(text, " x%d", n);
}

static void add_list(const ir_nd_sbp *sbp, int32_t n, int32_t n_axes,
                     fs_text *text)
{
    char last[64] = "", now[64];
    int32_t run = 0;
    for (int32_t i = 0; i < n; i++) {
        lie_text(&sbp[i], n_axes, now);
        if (run && strcmp(now, last) != 0) {
            add_run(text, last, run);
            run = 0;
        }
        strcpy(last, now);
        run++;
    }
    if (run)
        add_run(text, last, run);
}

/* "S(0) x4 B -> S(0)". */
static const char *short_text(const ir_node *node, const ir_nd_sig *sig,
                              int32_t n_axes, fs_arena *arena)
{
    fs_text text = {.arena = arena};
    add_list(sig->in, node->n_in, n_axes, &text);
    fs_text_add(&text, text.n ? " ->" : "->");
    add_list(sig->out, node->n_out, n_axes, &text);
    return text.at;
}

static void describe(const side *x, int32_t v, int32_t which, fs_arena *arena,
                     change *out)
{
    const plan_strategy *s = x->s->p.plan->strategy;
    const ir_node *node = &x->s->p.model.graph->nodes.at[v];
    const int32_t stage = s->stage_of[v];
    const int32_t n_axes = s->stages[stage].mesh.n;
    out->full[which] = ir_signature_text(node, &s->sig[v], n_axes, arena);
    out->sig[which] = short_text(node, &s->sig[v], n_axes, arena);
    out->first[which] = out->last[which] = stage;
    out->seconds[which] = seconds_of(x, v);
}

static bool same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

/* The key of a change: kind and both signatures. */
static uint64_t look_of(const change *x)
{
    uint64_t hash = fs_hash(0, &x->kind, sizeof x->kind);
    for (int32_t i = 0; i < 2; i++)
        hash = fs_hash_text(hash, x->sig[i] ? x->sig[i] : "");
    return hash;
}

static void join(change *to, const change *more)
{
    for (int32_t i = 0; i < 2; i++) {
        to->first[i] =
            more->first[i] < to->first[i] ? more->first[i] : to->first[i];
        to->last[i] = more->last[i] > to->last[i] ? more->last[i] : to->last[i];
        to->seconds[i] += more->seconds[i];
    }
    to->moved |= more->moved;
    to->n++;
}

typedef struct listing {
    fs_arena *arena;
    side a, b;
    fs_map at; /* key -> place in all */
    changes all;
    int32_t n_changed, n_same;
} listing;

static void note(listing *l, const change *one)
{
    char key[17];
    fs_hex(look_of(one), key);
    int32_t *known = fs_map_at(&l->at, fs_strdup(l->arena, key));
    l->n_changed++;
    if (*known >= 0) {
        join(&l->all.at[*known], one);
        return;
    }
    *known = l->all.n;
    fs_push(l->arena, &l->all, *one);
}

/* Kinds of B's own ops must not look like those of A's. */
#define ONLY_B ((int64_t)1 << 40)

static void look_at(listing *l, int32_t u, int32_t v)
{
    const side *from = u >= 0 ? &l->a : &l->b;
    const int32_t w = u >= 0 ? u : v;
    const ir_node *node = &from->s->p.model.graph->nodes.at[w];
    change one = {.kind = from->kind[w] + (u >= 0 ? 0 : ONLY_B),
                  .name = node->name,
                  .op = ir_op_table[node->op]->name,
                  .first = {-1, -1},
                  .last = {-1, -1},
                  .seconds = {NAN, NAN},
                  .n = 1};
    if (u >= 0)
        describe(&l->a, u, 0, l->arena, &one);
    if (v >= 0)
        describe(&l->b, v, 1, l->arena, &one);
    one.moved = u >= 0 && v >= 0 && one.first[0] != one.first[1];
    if (same_text(one.sig[0], one.sig[1]) && !one.moved)
        l->n_same++;
    else
        note(l, &one);
}

static void list_changes(listing *l)
{
    const ir_graph *a = l->a.s->p.model.graph, *b = l->b.s->p.model.graph;
    for (int32_t u = 0; u < a->nodes.n; u++)
        look_at(l, u, fs_map_get(&b->node_names, a->nodes.at[u].name));
    for (int32_t v = 0; v < b->nodes.n; v++)
        if (fs_map_get(&a->node_names, b->nodes.at[v].name) < 0)
            look_at(l, -1, v);
}

static double gain(const change *x)
{
    const double a = isnan(x->seconds[0]) ? 0 : x->seconds[0];
    const double b = isnan(x->seconds[1]) ? 0 : x->seconds[1];
    return b - a;
}

/* What changes the time most first; of equals by kind, which is the order of
 * the graph. */
static int by_gain(const void *x, const void *y)
{
    const change *a = x, *b = y;
    const double da = fabs(gain(a)), db = fabs(gain(b));
    if (da < db || da > db)
        return da > db ? -1 : 1;
    return a->kind != b->kind ? (a->kind > b->kind) - (a->kind < b->kind)
                              : strcmp(a->name, b->name);
}

static const char *stages_text(const change *x, int32_t i, fs_arena *arena)
{
    if (x->first[i] == x->last[i])
        return fs_printf(arena, "%d", x->first[i]);
    return fs_printf(arena, "%d..%d", x->first[i], x->last[i]);
}

/* "0", "0 -> 1..3". */
static const char *move_text(const change *x, fs_arena *arena)
{
    if (!x->sig[0] || !x->sig[1])
        return stages_text(x, x->sig[0] ? 0 : 1, arena);
    const char *a = stages_text(x, 0, arena), *b = stages_text(x, 1, arena);
    return strcmp(a, b) == 0 && !x->moved ? a
                                          : fs_printf(arena, "%s -> %s", a, b);
}

static void add_row(report_table *t, const change *x)
{
    char text[32];
    const double more = gain(x);
    report_table_cell(t, "%s%s", x->name,
                      x->n > 1 ? fs_printf(t->arena, " x%d", x->n) : "");
    report_table_cell(t, "%s", x->op);
    report_table_cell(t, "%s", move_text(x, t->arena));
    report_table_cell(t, "%s", x->sig[0] ? x->sig[0] : "not there");
    report_table_cell(t, "%s",
                      same_text(x->sig[0], x->sig[1]) ? "the same"
                      : x->sig[1]                     ? x->sig[1]
                                                      : "not there");
    report_table_cell(t, "%s%s",
                      more < 0   ? "-"
                      : more > 0 ? "+"
                                 : "",
                      fs_human_seconds(text, fabs(more)));
}

static json_t *half_json(const change *x, int32_t i)
{
    if (!x->sig[i])
        return json_null();
    return json_pack("{s:s, s:i, s:i, s:f}", "signature", x->full[i],
                     "first_stage", x->first[i], "last_stage", x->last[i],
                     "seconds", x->seconds[i]);
}

static void add_json(json_t *list, const change *x)
{
    json_array_append_new(
        list, json_pack("{s:s, s:o, s:s, s:i, s:o, s:o}", "kind", "op", "name",
                        fs_json_string(x->name), "op", x->op, "copies", x->n,
                        "a", half_json(x, 0), "b", half_json(x, 1)));
}

static void print(const cli *c, const listing *l)
{
    static const char *const header[] = {"op", "",  "stage",
                                         "A",  "B", "B - A, with boxing"};
    report_table t = {.arena = c->arena, .n_columns = 6, .header = header};
    for (int32_t i = 0; i < l->all.n && i < MOST_ROWS; i++)
        add_row(&t, &l->all.at[i]);
    report_table_print(&t, stdout);
    if (l->all.n > MOST_ROWS)
        cli_say(c, "(and %d more, all in --json)\n", l->all.n - MOST_ROWS);
}

void cli_compare_ops(cli_comparing *k)
{
    fs_arena *arena = k->c->arena;
    listing l = {.arena = arena,
                 .at.arena = arena,
                 .a = side_of(&k->a, arena),
                 .b = side_of(&k->b, arena)};
    list_changes(&l);
    if (l.all.n)
        qsort(l.all.at, (size_t)l.all.n, sizeof *l.all.at, by_gain);
    for (int32_t i = 0; i < l.all.n; i++)
        add_json(k->differences, &l.all.at[i]);
    json_object_set_new(k->c->result, "changed_ops", json_integer(l.n_changed));
    json_object_set_new(k->c->result, "same_ops", json_integer(l.n_same));
    cli_say(k->c, "\nops: %d lie otherwise or elsewhere, %d do not\n",
            l.n_changed, l.n_same);
    if (l.all.n && !k->c->args.json)
        print(k->c, &l);
}
