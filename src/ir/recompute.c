/* A copy of a node stands in the backward pass, before the first that reads
 * it: what a block recomputes lives as long as that block's backward pass. */
#include "config.h"
#include "ir/recompute.h"

#include "ir/op.h"
#include "ir/op_util.h"

#include <string.h>

#define AGAIN ".again" /* ends the names of copies */

int32_t ir_forward_nodes(const ir_graph *graph)
{
    int32_t n = 0;
    while (n < graph->nodes.n && graph->nodes.at[n].phase == IR_FORWARD)
        n++;
    return n;
}

static bool chosen(const ir_recompute_set *set, int32_t v)
{
    return set && v < set->n && set->again[v];
}

static bool makes_any(const ir_node *node, const bool *wanted)
{
    for (int32_t k = 0; k < node->n_out; k++)
        if (wanted[node->out[k]])
            return true;
    return false;
}

void ir_recompute_wanted(const ir_graph *graph, const ir_recompute_set *set,
                         bool *wanted)
{
    memset(wanted, 0, (size_t)graph->tensors.n * sizeof *wanted);
    for (int32_t v = graph->nodes.n - 1; v >= 0; v--) {
        const ir_node *node = &graph->nodes.at[v];
        bool reads = node->phase == IR_BACKWARD ||
                     (chosen(set, v) && makes_any(node, wanted));
        for (int32_t k = 0; reads && k < node->n_in; k++)
            wanted[node->in[k]] = true;
    }
}

static bool is_view(const ir_node *node)
{
    return ir_op_class_of(node->op) == IR_CLASS_VIEW && node->n_out > 0;
}

/* A view keeps what it views. */
int64_t ir_kept_bytes(const ir_graph *graph, const ir_recompute_set *set)
{
    fs_arena *arena = fs_arena_create();
    bool *wanted = fs_new(arena, bool, graph->tensors.n);
    int64_t bytes = 0;
    ir_recompute_wanted(graph, set, wanted);
    for (int32_t v = ir_forward_nodes(graph) - 1; v >= 0; v--) {
        const ir_node *node = &graph->nodes.at[v];
        if (chosen(set, v) || ir_op_class_of(node->op) == IR_CLASS_SOURCE)
            continue;
        if (is_view(node)) {
            wanted[node->in[0]] |= wanted[node->out[0]];
            continue;
        }
        for (int32_t k = 0; k < node->n_out; k++) {
            const ir_tensor *t = &graph->tensors.at[node->out[k]];
            if (wanted[node->out[k]])
                bytes = ir_add_sat(bytes, ir_shape_bytes(&t->shape, t->dtype));
        }
    }
    fs_arena_destroy(arena);
    return bytes;
}

/* ---- copies ---- */

typedef struct copier {
    ir_graph *graph;
    const ir_recompute_set *set;
    int32_t n_nodes;  /* before copies */
    int32_t *copy_of; /* [tensor] what stands for it in the backward pass */
    int32_t *before;  /* [nodes and copies] the first node that reads a copy */
} copier;

static void copy_node(copier *c, int32_t v)
{
    ir_graph *graph = c->graph;
    ir_node copy = graph->nodes.at[v];
    copy.name = fs_printf(graph->arena, "%s" AGAIN, copy.name);
    for (int32_t k = 0; k < copy.n_in; k++)
        copy.in[k] = c->copy_of[copy.in[k]];
    graph->forward = v;
    int32_t id = ir_graph_add(graph, &copy);
    for (int32_t k = 0; id >= 0 && k < copy.n_out; k++) {
        const int32_t of = graph->nodes.at[v].out[k];
        c->copy_of[of] = graph->nodes.at[id].out[k];
        graph->tensors.at[c->copy_of[of]].again_of = of;
    }
}

static void copy_nodes(copier *c, const bool *wanted)
{
    ir_phase phase = c->graph->phase;
    int32_t forward = c->graph->forward;
    c->graph->phase = IR_BACKWARD;
    for (int32_t v = 0; v < c->set->n; v++)
        if (c->set->again[v] && makes_any(&c->graph->nodes.at[v], wanted))
            copy_node(c, v);
    c->graph->phase = phase;
    c->graph->forward = forward;
}

static void redirect(copier *c)
{
    for (int32_t v = c->set->n; v < c->n_nodes; v++) {
        ir_node *node = &c->graph->nodes.at[v];
        for (int32_t k = 0; node->phase == IR_BACKWARD && k < node->n_in; k++)
            node->in[k] = c->copy_of[node->in[k]];
    }
}

/* A reader of copies wants them before itself, or before where it stands as
 * a copy; copies are looked at after all that read them. */
static void find_places(copier *c)
{
    const ir_graph *graph = c->graph;
    for (int32_t v = 0; v < graph->nodes.n; v++)
        c->before[v] = v < c->n_nodes ? v : c->n_nodes;
    for (int32_t turn = 0; turn < 2; turn++) {
        int32_t first = turn ? c->n_nodes : 0;
        int32_t end = turn ? graph->nodes.n : c->n_nodes;
        for (int32_t v = end - 1; v >= first; v--)
            for (int32_t k = 0; k < graph->nodes.at[v].n_in; k++) {
                int32_t t = graph->nodes.at[v].in[k];
                int32_t maker = graph->tensors.at[t].producer;
                if (maker >= c->n_nodes && c->before[v] < c->before[maker])
                    c->before[maker] = c->before[v];
            }
    }
}

/* Copies of one place stay in their order, in front of its node. */
static void reorder(copier *c, fs_arena *arena)
{
    int32_t n = c->graph->nodes.n, at = 0;
    int32_t *order = fs_new(arena, int32_t, n);
    int32_t *next = fs_new(arena, int32_t, n);
    int32_t *first = fs_new(arena, int32_t, c->n_nodes + 1);
    memset(first, 0xff, (size_t)(c->n_nodes + 1) * sizeof *first);
    for (int32_t v = n - 1; v >= c->n_nodes; v--) {
        next[v] = first[c->before[v]];
        first[c->before[v]] = v;
    }
    for (int32_t v = 0; v <= c->n_nodes; v++) {
        for (int32_t copy = first[v]; copy >= 0; copy = next[copy])
            order[at++] = copy;
        if (v < c->n_nodes)
            order[at++] = v;
    }
    ir_graph_reorder(c->graph, order);
}

static bool any_chosen(const ir_recompute_set *set)
{
    for (int32_t v = 0; v < set->n; v++)
        if (set->again[v])
            return true;
    return false;
}

static void make_copies(ir_graph *graph, const ir_recompute_set *set,
                        fs_arena *arena)
{
    bool *wanted = fs_new(arena, bool, graph->tensors.n);
    copier c = {.graph = graph, .set = set, .n_nodes = graph->nodes.n};
    c.copy_of = fs_new(arena, int32_t, graph->tensors.n);
    for (int32_t t = 0; t < graph->tensors.n; t++)
        c.copy_of[t] = t;
    ir_recompute_wanted(graph, set, wanted);
    copy_nodes(&c, wanted);
    if (graph->err.status != FS_OK)
        return;
    redirect(&c);
    c.before = fs_new(arena, int32_t, graph->nodes.n);
    find_places(&c);
    reorder(&c, arena);
}

fs_status ir_recompute(ir_graph *graph, const char *policy, fs_err *err)
{
    fs_arena *arena = fs_arena_create();
    ir_recompute_set set;
    fs_status status = ir_recompute_choose(graph, policy, arena, err, &set);
    if (status == FS_OK && any_chosen(&set))
        make_copies(graph, &set, arena);
    fs_arena_destroy(arena);
    if (status == FS_OK && graph->err.status != FS_OK)
        status = fs_fail(err, graph->err.status, "%s", graph->err.text);
    return status;
}

/* ---- stages ---- */

/* What node v reads as tensor t: what is made again on another stage as the
 * forward pass made it. */
static int32_t reads_as(const ir_graph *graph, const int32_t *stage_of,
                        int32_t v, int32_t t)
{
    const ir_tensor *tensor = &graph->tensors.at[t];
    return tensor->again_of >= 0 && stage_of[tensor->producer] != stage_of[v]
               ? tensor->again_of
               : t;
}

bool ir_recompute_crosses(const ir_graph *graph, const int32_t *stage_of)
{
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        const ir_node *node = &graph->nodes.at[v];
        for (int32_t k = 0; k < node->n_in; k++)
            if (reads_as(graph, stage_of, v, node->in[k]) != node->in[k])
                return true;
    }
    return false;
}

typedef struct binder {
    ir_graph *graph;
    int32_t *readers; /* [tensor] */
    bool *left;       /* [node] by a reader */
} binder;

static void rebind(binder *b, const int32_t *stage_of)
{
    ir_graph *graph = b->graph;
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        ir_node *node = &graph->nodes.at[v];
        for (int32_t k = 0; k < node->n_in; k++) {
            const int32_t was = node->in[k];
            node->in[k] = reads_as(graph, stage_of, v, was);
            b->readers[node->in[k]]++;
            if (node->in[k] != was)
                b->left[graph->tensors.at[was].producer] = true;
        }
    }
}

static bool is_read(const binder *b, const ir_node *node)
{
    bool any = false;
    for (int32_t o = 0; o < node->n_out; o++)
        any |= b->readers[node->out[o]] > 0;
    return any;
}

/* Readers stand behind what they read: one sweep from the end suffices. */
static void drop_unread(binder *b, int32_t *stage_of, bool *keep)
{
    ir_graph *graph = b->graph;
    int32_t n = 0;
    for (int32_t v = graph->nodes.n - 1; v >= 0; v--) {
        const ir_node *node = &graph->nodes.at[v];
        keep[v] = node->phase != IR_BACKWARD || !b->left[v] || is_read(b, node);
        for (int32_t k = 0; !keep[v] && k < node->n_in; k++) {
            b->readers[node->in[k]]--;
            b->left[graph->tensors.at[node->in[k]].producer] = true;
        }
    }
    for (int32_t v = 0; v < graph->nodes.n; v++)
        if (keep[v])
            stage_of[n++] = stage_of[v];
    ir_graph_keep(graph, keep);
}

void ir_recompute_bind(ir_graph *graph, int32_t *stage_of)
{
    if (!ir_recompute_crosses(graph, stage_of))
        return;
    fs_arena *arena = fs_arena_create();
    binder b = {.graph = graph,
                .readers = fs_new(arena, int32_t, graph->tensors.n),
                .left = fs_new(arena, bool, graph->nodes.n)};
    rebind(&b, stage_of);
    drop_unread(&b, stage_of, fs_new(arena, bool, graph->nodes.n));
    fs_arena_destroy(arena);
}

int32_t ir_count_recomputed(const ir_graph *graph)
{
    int32_t n = 0;

    for (int32_t v = 0; v < graph->nodes.n; v++) {
        const char *end = strrchr(graph->nodes.at[v].name, '.');
        n += graph->nodes.at[v].phase == IR_BACKWARD && end &&
             strcmp(end, AGAIN) == 0 && graph->nodes.at[v].op != IR_OP_cast;
    }
    return n;
}
