/* The network as a graph: forward ops by block, repeated blocks folded; plain
 * (coloured by class) or with a strategy on it (by SBP, with boxing). */
#include "config.h"
#include "report/draw.h"

#include "base/clock.h"
#include "plan/boxing.h"

#include <string.h>

enum { MAX_DRAWN = 2000 }; /* dot takes minutes beyond that */

typedef struct block {
    const char *name;
    int32_t stage;
    uint64_t kind;   /* equal for blocks that look the same */
    int32_t fold_of; /* the block that stands for it */
    int32_t repeats; /* how many it stands for */
    int32_t n_nodes;
    int32_t first; /* its nodes stand at members[first + place] */
    Agraph_t *cluster;
} block;

typedef struct network {
    draw d;
    const ir_graph *graph;
    const plan_strategy *strategy; /* NULL: the plain network */
    FS_VEC(block) blocks;
    int32_t *block_of; /* [nodes], -1 not drawn */
    int32_t *place;    /* [nodes] position in its block */
    int32_t *members;  /* [nodes drawn] by block, in place order */
    Agnode_t **node;   /* [nodes] */
    Agraph_t **stage;  /* [stages] */
} network;

/* Parameters and constants would hide the flow of data. */
static bool is_drawn(const ir_node *node)
{
    return node->phase == IR_FORWARD && node->op != IR_OP_output &&
           node->op != IR_OP_variable && node->op != IR_OP_constant &&
           node->op != IR_OP_fill;
}

static int32_t stage_of(const network *w, int32_t v)
{
    return w->strategy ? w->strategy->stage_of[v] : 0;
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
    return fs_hash(h, sig->out, sizeof sig->out[0] * (size_t)node->n_out);
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
        const char *key = fs_printf(w->d.arena, "%s|%d", name, stage_of(w, v));
        int32_t *b = fs_map_at(&names, key);
        if (*b < 0) {
            *b = w->blocks.n;
            block new = {.name = name, .stage = stage_of(w, v), .repeats = 1};
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
        block *b = &w->blocks.at[i];
        if (!b->name[0])
            continue;
        block *a = before >= 0 ? &w->blocks.at[before] : NULL;
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
        block *b = &w->blocks.at[i];
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
        const plan_stage *stage = &w->strategy->stages[stage_of(w, v)];
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
    if (kind == IR_CLASS_MATMUL || kind == IR_CLASS_CONV)
        draw_set(n, "penwidth", "2");
}

static void make_nodes(network *w)
{
    for (int32_t v = 0; v < w->graph->nodes.n; v++) {
        if (w->block_of[v] < 0)
            continue;
        const block *b = &w->blocks.at[w->block_of[v]];
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
        const block *master = &w->blocks.at[w->blocks.at[b].fold_of];
        w->node[v] = w->node[w->members[master->first + w->place[v]]];
    }
}

/* "all-gather 64 KiB" for each step of an edge's boxing. */
static const char *boxing_label(network *w, int32_t tensor,
                                const plan_boxing *path)
{
    const ir_tensor *x = &w->graph->tensors.at[tensor];
    const plan_stage *stage = &w->strategy->stages[stage_of(w, x->producer)];
    fs_text text = {.arena = w->d.arena};
    for (int32_t i = 0; i < path->n; i++) {
        plan_box_step step;
        char bytes[32];
        if (!plan_box_step_make(x, &stage->mesh, &path->at[i], &path->at[i + 1],
                                &step))
            continue;
        int64_t most =
            step.bytes_in > step.bytes_out ? step.bytes_in : step.bytes_out;
        fs_text_add(&text, "%s%s %s", text.n ? "\n" : "",
                    plan_box_name(step.kind),
                    fs_human_bytes(bytes, (double)most));
    }
    return text.n ? text.at : "";
}

static bool folded_away(const network *w, int32_t u, int32_t v)
{
    int32_t a = w->block_of[u], b = w->block_of[v];
    if (w->blocks.at[b].fold_of != b)
        return true; /* drawn once, in the block that stands for it */
    return a != b && w->blocks.at[a].fold_of == w->blocks.at[b].fold_of;
}

static void style_edge(network *w, Agedge_t *e, int32_t u, int32_t v,
                       int32_t slot)
{
    const plan_strategy *s = w->strategy;
    int32_t tensor = w->graph->nodes.at[v].in[slot];
    const plan_boxing *path = &s->edge[s->first_edge[v] + slot];
    const char *label = boxing_label(w, tensor, path);
    char bytes[32];
    if (stage_of(w, u) != stage_of(w, v)) {
        const ir_tensor *x = &w->graph->tensors.at[tensor];
        ir_shape piece = ir_largest_piece(&x->shape, &s->sig[v].in[slot],
                                          &s->stages[stage_of(w, u)].mesh);
        double n = (double)(ir_shape_count(&piece) * ir_dtype_bytes(x->dtype));
        label = fs_printf(w->d.arena, "%s%smove %s", label,
                          label[0] ? "\n" : "", fs_human_bytes(bytes, n));
        draw_set(e, "penwidth", "3");
        draw_set(e, "color", "#7a1fa2");
        draw_set(e, "constraint", "false"); /* stages stand side by side */
    } else if (label[0]) {
        draw_set(e, "color", "#d2501e");
        draw_set(e, "penwidth", "1.6");
    }
    if (label[0])
        draw_set(e, "label", label);
}

static void make_edges(network *w)
{
    for (int32_t v = 0; v < w->graph->nodes.n; v++) {
        const ir_node *node = &w->graph->nodes.at[v];
        if (w->block_of[v] < 0)
            continue;
        for (int32_t i = 0; i < node->n_in; i++) {
            int32_t u = w->graph->tensors.at[node->in[i]].producer;
            if (w->block_of[u] < 0 || folded_away(w, u, v) || !w->node[u] ||
                !w->node[v])
                continue;
            Agedge_t *e = draw_edge(&w->d, w->node[u], w->node[v]);
            if (w->strategy)
                style_edge(w, e, u, v, i);
        }
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

/* Boxing steps by phase of the reading node and kind. */
typedef struct traffic {
    double bytes[3][PLAN_BOX_KINDS];
    int32_t count[3][PLAN_BOX_KINDS];
} traffic;

/* The steps on the way to slot k of node v. */
static void add_traffic(const network *w, int32_t v, int32_t k, traffic *sum)
{
    const plan_strategy *s = w->strategy;
    const plan_boxing *path = &s->edge[s->first_edge[v] + k];
    int32_t t = plan_edge_tensor(w->graph, s, v, k);
    int32_t phase = w->graph->nodes.at[v].phase;
    if (t < 0)
        return;
    const ir_tensor *x = &w->graph->tensors.at[t];
    const ir_mesh *mesh = &s->stages[stage_of(w, x->producer)].mesh;
    for (int32_t i = 0; i < path->n; i++) {
        plan_box_step step;
        if (!plan_box_step_make(x, mesh, &path->at[i], &path->at[i + 1], &step))
            continue;
        sum->bytes[phase][step.kind] += (double)step.bytes_in;
        sum->count[phase][step.kind]++;
    }
}

/* What moves in a stage: gradients' reductions are not on the forward
 * picture. */
static const char *stage_traffic(network *w, int32_t stage)
{
    static const char *const phases[] = {"forward", "backward", "update"};
    const plan_strategy *s = w->strategy;
    traffic sum = {0};
    for (int32_t v = 0; v < s->n_nodes; v++) {
        int32_t slots = s->first_edge[v + 1] - s->first_edge[v];
        for (int32_t k = 0; k < slots && stage_of(w, v) == stage; k++)
            add_traffic(w, v, k, &sum);
    }
    fs_text text = {.arena = w->d.arena};
    for (int32_t f = 0; f < 3; f++)
        for (int32_t k = 0; k < PLAN_BOX_KINDS; k++) {
            char size[32];
            if (sum.count[f][k])
                fs_text_add(&text, "%s: %d %s of %s\\l", phases[f],
                            sum.count[f][k], plan_box_name((plan_box_kind)k),
                            fs_human_bytes(size, sum.bytes[f][k]));
        }
    return text.n ? text.at : "no communication inside the stage\\l";
}

static void make_stages(network *w)
{
    const plan_strategy *s = w->strategy;
    w->stage = fs_new(w->d.arena, Agraph_t *, s->n_stages);
    for (int32_t i = 0; i < s->n_stages; i++) {
        const plan_stage *stage = &s->stages[i];
        fs_text mesh = {.arena = w->d.arena};
        for (int32_t a = 0; a < stage->mesh.n; a++)
            fs_text_add(&mesh, "%s%d", a ? "x" : "", stage->mesh.dim[a]);
        int32_t size = ir_mesh_size(&stage->mesh);
        w->stage[i] = draw_cluster(
            &w->d, w->d.graph, fs_printf(w->d.arena, "stage%d", i),
            fs_printf(w->d.arena, "stage %d: device%s %d%s, mesh %s", i,
                      size > 1 ? "s" : "", stage->first_device,
                      size > 1 ? fs_printf(w->d.arena, " to %d",
                                           stage->first_device + size - 1)
                               : "",
                      mesh.n ? mesh.at : "1"));
        draw_set(w->stage[i], "style", "filled,rounded");
        draw_set(w->stage[i], "color", "#f7f7fb");
        Agnode_t *note = draw_node(&w->d, w->stage[i],
                                   fs_printf(w->d.arena, "traffic%d", i));
        draw_set(note, "shape", "note");
        draw_set(note, "style", "filled");
        draw_set(note, "fillcolor", "#fffbe0");
        draw_set(note, "label", stage_traffic(w, i));
        w->d.drawn.nodes--;
    }
}

static void make_legend(network *w)
{
    Agraph_t *legend = draw_cluster(&w->d, w->d.graph, "legend", "output lies");
    draw_set(legend, "style", "rounded");
    static const char *const rows[][2] = {{"B: whole everywhere", "#e8e8e8"},
                                          {"P: partial sums", "#f2b179"},
                                          {"S(0)", "#8fbce6"},
                                          {"S(1)", "#7fd0c4"},
                                          {"S(2)", "#b7a5e0"},
                                          {"S(3)", "#9fd68a"}};
    Agnode_t *before = NULL; /* invisible edges stack them */
    for (int i = 0; i < 6; i++) {
        Agnode_t *n = agnode(legend, fs_printf(w->d.arena, "legend%d", i), 1);
        draw_set(n, "label", rows[i][0]);
        draw_set(n, "shape", "box");
        draw_set(n, "style", "filled,rounded");
        draw_set(n, "fillcolor", rows[i][1]);
        draw_set(n, "height", "0.2");
        if (before)
            draw_set(agedge(w->d.graph, before, n, NULL, 1), "style", "invis");
        before = n;
    }
}

static fs_status draw_network(const ir_graph *graph,
                              const plan_strategy *strategy, const char *file,
                              fs_err *err, report_drawn *out)
{
    const char *format;
    FS_TRY(draw_format(file, err, &format));
    network w = {.graph = graph, .strategy = strategy};
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
    if (strategy) {
        make_legend(&w);
        make_stages(&w);
    }
    make_clusters(&w);
    make_nodes(&w);
    make_edges(&w);
    return draw_finish(&w.d, "dot", file, err, out);
}

fs_status report_draw_graph(const ir_graph *graph, const char *file,
                            fs_err *err, report_drawn *out)
{
    return draw_network(graph, NULL, file, err, out);
}

fs_status report_draw_strategy(const ir_graph *graph,
                               const plan_strategy *strategy, const char *file,
                               fs_err *err, report_drawn *out)
{
    return draw_network(graph, strategy, file, err, out);
}
