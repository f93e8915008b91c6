/* The network as a graph: forward ops by block, repeated blocks folded; plain
 * (coloured by class) or with a strategy on it (by SBP, with boxing). */
#include "config.h"
#include "report/network.h"

#include <string.h>

enum { MAX_DRAWN = 2000 }; /* dot takes minutes beyond that */

/* Parameters and constants would hide the flow of data. */
static bool is_drawn(const ir_node *node)
{
    return node->phase == IR_FORWARD && node->op != IR_OP_output &&
           node->op != IR_OP_variable && node->op != IR_OP_constant &&
           node->op != IR_OP_fill;
}

int32_t network_stage_of(const network *w, int32_t v)
{
    return w->strategy ? w->strategy->stage_of[v] : 0;
}

/* The boxing of what v reads from its own block. */
static uint64_t boxes_within(const network *w, int32_t v, uint64_t h)
{
    const ir_node *node = &w->graph->nodes.at[v];
    const plan_strategy *s = w->strategy;
    for (int32_t i = 0; i < node->n_in; i++) {
        int32_t u = w->graph->tensors.at[node->in[i]].producer;
        if (w->block_of[u] != w->block_of[v])
            continue;
        const plan_boxing *path = &s->edge[s->first_edge[v] + i];
        size_t n = path->n ? (size_t)path->n + 1 : 0;
        h = fs_hash(fs_mix(h + n), path->at, n * sizeof path->at[0]);
    }
    return h;
}

static uint64_t looks(const network *w, int32_t v)
{
    const ir_node *node = &w->graph->nodes.at[v];
    uint64_t h = fs_mix((uint64_t)node->op + 1);
    for (int32_t i = 0; i < node->n_out; i++) {
        const ir_shape *s = &w->graph->tensors.at[node->out[i]].shape;
        h = fs_hash(h, s->dim, sizeof(int64_t) * (size_t)s->rank);
    }
    if (!w->strategy)
        return h;
    const ir_nd_sig *sig = &w->strategy->sig[v];
    h = fs_hash(h, sig->in, sizeof sig->in[0] * (size_t)node->n_in);
    h = fs_hash(h, sig->out, sizeof sig->out[0] * (size_t)node->n_out);
    return boxes_within(w, v, h);
}

static void assign_blocks(network *w)
{
    fs_map names = {.arena = w->d.arena};
    for (int32_t v = 0; v < w->graph->nodes.n; v++) {
        const ir_node *node = &w->graph->nodes.at[v];
        w->block_of[v] = -1;
        if (!is_drawn(node))
            continue;
        const char *name = draw_block_of(w->d.arena, node->name);
        const char *key =
            fs_printf(w->d.arena, "%s|%d", name, network_stage_of(w, v));
        int32_t *b = fs_map_at(&names, key);
        if (*b < 0) {
            *b = w->blocks.n;
            network_block new = {
                .name = name, .stage = network_stage_of(w, v), .repeats = 1};
            new.fold_of = *b;
            fs_push(w->d.arena, &w->blocks, new);
        }
        w->block_of[v] = *b;
        w->place[v] = w->blocks.at[*b].n_nodes++;
        w->blocks.at[*b].kind = fs_mix(w->blocks.at[*b].kind ^ looks(w, v));
    }
}

static void list_members(network *w)
{
    int32_t n = 0;
    for (int32_t i = 0; i < w->blocks.n; i++) {
        w->blocks.at[i].first = n;
        n += w->blocks.at[i].n_nodes;
    }
    w->members = fs_new(w->d.arena, int32_t, n);
    for (int32_t v = 0; v < w->graph->nodes.n; v++)
        if (w->block_of[v] >= 0)
            w->members[w->blocks.at[w->block_of[v]].first + w->place[v]] = v;
}

/* Neighbouring blocks of one stage that look the same become one. */
static void fold_blocks(network *w)
{
    int32_t before = -1;
    for (int32_t i = 0; i < w->blocks.n; i++) {
        network_block *b = &w->blocks.at[i];
        if (!b->name[0])
            continue;
        network_block *a = before >= 0 ? &w->blocks.at[before] : NULL;
        if (a && a->kind == b->kind && a->stage == b->stage &&
            a->n_nodes == b->n_nodes) {
            b->fold_of = a->fold_of;
            w->blocks.at[a->fold_of].repeats++;
        }
        before = i;
    }
}

static void make_clusters(network *w)
{
    for (int32_t i = 0; i < w->blocks.n; i++) {
        network_block *b = &w->blocks.at[i];
        Agraph_t *in = w->stage ? w->stage[b->stage] : w->d.graph;
        b->cluster = in;
        if (b->fold_of != i || !b->name[0])
            continue;
        const char *label =
            b->repeats > 1
                ? fs_printf(w->d.arena, "%s and the next %d alike (x%d)",
                            b->name, b->repeats - 1, b->repeats)
                : b->name;
        b->cluster =
            draw_cluster(&w->d, in, fs_printf(w->d.arena, "block%d", i), label);
        draw_set(b->cluster, "style", "rounded");
        draw_set(b->cluster, "color", "#999999");
    }
}

static void style_node(network *w, int32_t v)
{
    const ir_node *node = &w->graph->nodes.at[v];
    ir_op_class kind = ir_op_class_of(node->op);
    char shape[160], sbp[64] = "";
    Agnode_t *n = w->node[v];
    const char *colour = draw_class_colour(kind);
    if (w->strategy) {
        const plan_stage *stage = &w->strategy->stages[network_stage_of(w, v)];
        const ir_nd_sbp *out = &w->strategy->sig[v].out[0];
        colour = draw_sbp_colour(&w->d, out, stage->mesh.n);
        if (stage->mesh.n)
            ir_nd_sbp_text(sbp, out, stage->mesh.n);
    }
    ir_shape_text(shape, &w->graph->tensors.at[node->out[0]].shape);
    draw_setf(&w->d, n, "label", "%s\n%s%s%s", ir_op_table[node->op]->name,
              shape, sbp[0] ? "\n" : "", sbp);
    draw_set(n, "shape", kind == IR_CLASS_VIEW ? "plaintext" : "box");
    draw_set(n, "style", "filled,rounded");
    draw_set(n, "fillcolor", colour);
    draw_set(n, "height", "0.2");
    draw_setf(&w->d, n, "tooltip", "%s", node->name);
    if (ir_op_is_dense(node->op))
        draw_set(n, "penwidth", "2");
}

static void make_nodes(network *w)
{
    for (int32_t v = 0; v < w->graph->nodes.n; v++) {
        if (w->block_of[v] < 0)
            continue;
        const network_block *b = &w->blocks.at[w->block_of[v]];
        if (b->fold_of != w->block_of[v])
            continue;
        w->node[v] =
            draw_node(&w->d, b->cluster, fs_printf(w->d.arena, "n%d", v));
        style_node(w, v);
    }
    /* A folded node is drawn by its counterpart. */
    for (int32_t v = 0; v < w->graph->nodes.n; v++) {
        int32_t b = w->block_of[v];
        if (b < 0 || w->node[v])
            continue;
        const network_block *master = &w->blocks.at[w->blocks.at[b].fold_of];
        w->node[v] = w->node[w->members[master->first + w->place[v]]];
    }
}

static int32_t drawn_count(const network *w)
{
    int32_t n = 0;
    for (int32_t i = 0; i < w->blocks.n; i++)
        if (w->blocks.at[i].fold_of == i)
            n += w->blocks.at[i].n_nodes;
    return n;
}

static fs_status draw_network(const ir_graph *graph, const plan *p,
                              const char *file, fs_err *err, report_drawn *out)
{
    const char *format;
    FS_TRY(draw_format(file, err, &format));
    network w = {.graph = graph, .plan = p, .strategy = p ? p->strategy : NULL};
    draw_begin(&w.d, graph->name ? graph->name : "network");
    w.block_of = fs_new(w.d.arena, int32_t, graph->nodes.n);
    w.place = fs_new(w.d.arena, int32_t, graph->nodes.n);
    w.node = fs_new(w.d.arena, Agnode_t *, graph->nodes.n);
    assign_blocks(&w);
    list_members(&w);
    fold_blocks(&w);
    if (drawn_count(&w) > MAX_DRAWN) {
        agclose(w.d.graph);
        fs_arena_destroy(w.d.arena);
        return fs_fail(err, FS_INVALID,
                       "%s: too many different ops to draw (at most %d)", file,
                       MAX_DRAWN);
    }
    if (p)
        network_make_stages(&w);
    make_clusters(&w);
    make_nodes(&w);
    if (p)
        network_make_legend(&w);
    network_draw_flow(&w);
    if (p)
        network_join_notes(&w);
    return draw_finish(&w.d, "dot", file, err, out);
}

fs_status report_draw_graph(const ir_graph *graph, const char *file,
                            fs_err *err, report_drawn *out)
{
    return draw_network(graph, NULL, file, err, out);
}

fs_status report_draw_plan(const ir_graph *graph, const plan *p,
                           const char *file, fs_err *err, report_drawn *out)
{
    return draw_network(graph, p, file, err, out);
}
