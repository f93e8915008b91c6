/* What tensors are to a recipe. */
#include "config.h"
#include "search/recipe/recipe_parts.h"

#include "ir/layers.h"

#include <string.h>

static bool reads_as_weight(const ir_node *node, int32_t slot)
{
    switch (ir_op_class_of(node->op)) {
    case IR_CLASS_MATMUL:
        return slot < 2;
    case IR_CLASS_CONV:
        return slot == 1;
    case IR_CLASS_GATHER:
        return slot == 0;
    default:
        return false;
    }
}

bool search_is_view(const ir_node *node)
{
    return ir_op_class_of(node->op) == IR_CLASS_VIEW ||
           node->op == IR_OP_transpose || node->op == IR_OP_cast ||
           node->op == IR_OP_slice;
}

bool search_reads_weight(const search_marks *m, const ir_node *node,
                         int32_t slot)
{
    return reads_as_weight(node, slot) && m->weight[node->in[slot]] &&
           !m->data[node->in[slot]];
}

/* Made of variables or constants: not the zeros that a recurrence starts
 * from. */
static bool *find_kept(const ir_graph *graph, fs_arena *arena)
{
    bool *kept = fs_new(arena, bool, graph->tensors.n);
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        const ir_node *node = &graph->nodes.at[v];
        bool from = node->op == IR_OP_variable || node->op == IR_OP_constant;
        for (int32_t k = 0; k < node->n_in; k++)
            from |= kept[node->in[k]];
        for (int32_t k = 0; k < node->n_out; k++)
            kept[node->out[k]] = from;
    }
    return kept;
}

/* Marks what a forward node reads as a weight, itself or through views. */
static void mark_weights(search_marks *m, fs_arena *arena)
{
    const ir_graph *graph = m->graph;
    const bool *kept = find_kept(graph, arena);
    m->weight = fs_new(arena, bool, graph->tensors.n);
    for (int32_t v = graph->nodes.n - 1; v >= 0; v--) {
        const ir_node *node = &graph->nodes.at[v];
        if (node->phase != IR_FORWARD)
            continue;
        bool passes =
            search_is_view(node) && node->n_out && m->weight[node->out[0]];
        for (int32_t k = 0; k < node->n_in; k++)
            m->weight[node->in[k]] |=
                kept[node->in[k]] && (passes || reads_as_weight(node, k));
    }
}

static void mark_data(search_marks *m, fs_arena *arena)
{
    const ir_graph *graph = m->graph;
    m->data = fs_new(arena, bool, graph->tensors.n);
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        const ir_node *node = &graph->nodes.at[v];
        bool data = node->op == IR_OP_input &&
                    graph->tensors.at[node->out[0]].batch_axis >= 0;
        for (int32_t k = 0; k < node->n_in; k++)
            data |= m->data[node->in[k]];
        for (int32_t k = 0; k < node->n_out; k++)
            m->data[node->out[k]] = data;
    }
}

/* An expert's weights are one of a batch of matrices. */
static void mark_experts(search_marks *m, fs_arena *arena)
{
    const ir_graph *graph = m->graph;
    m->expert = fs_new(arena, bool, graph->tensors.n);
    for (int32_t v = graph->nodes.n - 1; v >= 0; v--) {
        const ir_node *node = &graph->nodes.at[v];
        if (search_is_view(node) && node->n_out && m->expert[node->out[0]])
            m->expert[node->in[0]] = true;
        if (node->op != IR_OP_matmul || node->phase != IR_FORWARD)
            continue;
        const int32_t w = node->in[1];
        if (m->weight[w] && !m->data[w] && graph->tensors.at[w].shape.rank >= 3)
            m->expert[w] = true;
    }
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        const ir_node *node = &graph->nodes.at[v];
        if (ir_op_class_of(node->op) != IR_CLASS_UPDATE)
            continue;
        for (int32_t k = 1; k < node->n_in; k++)
            if (graph->tensors.at[node->in[k]].role == IR_STATE)
                m->expert[node->in[k]] = m->expert[node->in[0]];
    }
}

/* ---- axes ---- */

/* How many traced inputs are not cut along their axis by this signature, or -1
 * when it does not lead on: none is cut so, or one is cut otherwise. */
static int32_t misses(const ir_node *node, const ir_sig *sig,
                      const int32_t *axis)
{
    int32_t cut = 0, missed = 0;
    for (int32_t k = 0; k < node->n_in; k++) {
        const ir_sbp sbp = sig->in[k];
        const int32_t along = axis[node->in[k]];
        const bool here = sbp.kind == IR_S && sbp.axis == along;
        if (ir_sbp_is_partial(sbp) || (along >= 0 && !here && sbp.kind != IR_B))
            return -1;
        cut += along >= 0 && here;
        missed += along >= 0 && !here;
    }
    return cut ? missed : -1;
}

static const ir_sig *best_sig(const ir_node *node, const ir_sig_list *list,
                              const int32_t *axis)
{
    const ir_sig *best = NULL;
    int32_t least = INT32_MAX;
    for (int32_t s = 0; s < list->n; s++) {
        const int32_t missed = misses(node, &list->at[s], axis);
        if (missed < 0 || missed >= least)
            continue;
        least = missed;
        best = &list->at[s];
    }
    return best;
}

/* Keys and values are whole where queries are cut, so that no signature tells
 * of their gradients; these lie as they do. */
static int32_t axis_of_alike(const ir_graph *graph, const ir_node *node,
                             int32_t out, const int32_t *axis)
{
    if (ir_op_class_of(node->op) != IR_CLASS_ATTENTION)
        return SEARCH_NO_AXIS;
    for (int32_t k = node->n_in - 1; k >= 0; k--)
        if (axis[node->in[k]] >= 0 &&
            ir_shape_equal(&graph->tensors.at[node->in[k]].shape,
                           &graph->tensors.at[node->out[out]].shape))
            return axis[node->in[k]];
    return SEARCH_NO_AXIS;
}

static void trace_node(const ir_graph *graph, const ir_node *node,
                       int32_t *axis)
{
    bool any = false;
    for (int32_t k = 0; k < node->n_in; k++)
        any |= axis[node->in[k]] >= 0;
    if (!any)
        return;
    fs_arena *scratch = fs_arena_create();
    ir_sig_list list;
    ir_signatures_1d(graph, node, scratch, &list);
    const ir_sig *sig = best_sig(node, &list, axis);
    for (int32_t k = 0; sig && k < node->n_out; k++)
        axis[node->out[k]] = sig->out[k].kind == IR_S
                                 ? sig->out[k].axis
                                 : axis_of_alike(graph, node, k, axis);
    fs_arena_destroy(scratch);
}

/* Behind the samples; behind the channels too of what has four axes. */
static int32_t place_of_input(const ir_tensor *t)
{
    const int32_t axis = t->batch_axis + (t->shape.rank >= 4 ? 2 : 1);
    return t->batch_axis >= 0 && axis < t->shape.rank ? axis : SEARCH_NO_AXIS;
}

/* Which node of its position in a run of layers, if known, was traced last:
 * what lies as its own inputs do leads on to the same. */
typedef struct traced {
    const ir_layers *layers; /* NULL: none are known */
    int32_t **last;          /* [run][position] -1: none yet */
} traced;

static traced trace_layers(const ir_graph *graph, fs_arena *scratch)
{
    traced t = {.layers = graph->layers};
    if (!t.layers)
        return t;
    t.last = fs_new(scratch, int32_t *, t.layers->runs.n);
    for (int32_t r = 0; r < t.layers->runs.n; r++) {
        const size_t n = (size_t)t.layers->runs.at[r].length;
        t.last[r] = fs_new(scratch, int32_t, n);
        memset(t.last[r], 0xff, n * sizeof **t.last);
    }
    return t;
}

/* False: nothing is known of it yet. */
static bool trace_as_before(const ir_graph *graph, const traced *t, int32_t v,
                            int32_t *axis)
{
    if (!t->layers || t->layers->run[v] < 0)
        return false;
    int32_t *last = &t->last[t->layers->run[v]][t->layers->position[v]];
    bool same = *last >= 0;
    const ir_node *node = &graph->nodes.at[v];
    const ir_node *as = same ? &graph->nodes.at[*last] : NULL;
    for (int32_t k = 0; same && k < node->n_in; k++)
        same = axis[node->in[k]] == axis[as->in[k]];
    for (int32_t k = 0; same && k < node->n_out; k++)
        axis[node->out[k]] = axis[as->out[k]];
    *last = v;
    return same;
}

/* Where samples, or places, lie in each tensor: an axis of the inputs followed
 * through the graph by the signatures of its ops. */
static int32_t *trace(const ir_graph *graph, bool places, fs_arena *arena)
{
    fs_arena *scratch = fs_arena_create();
    const traced before = trace_layers(graph, scratch);
    int32_t *axis = fs_new(arena, int32_t, graph->tensors.n);
    for (int32_t t = 0; t < graph->tensors.n; t++)
        axis[t] = SEARCH_NO_AXIS;
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        const ir_node *node = &graph->nodes.at[v];
        if (node->op == IR_OP_input) {
            const ir_tensor *t = &graph->tensors.at[node->out[0]];
            axis[node->out[0]] = places ? place_of_input(t) : t->batch_axis;
        } else if (node->phase != IR_UPDATE &&
                   !trace_as_before(graph, &before, v, axis)) {
            trace_node(graph, node, axis);
        }
    }
    fs_arena_destroy(scratch);
    return axis;
}

/* ---- the stream between blocks ---- */

enum { STREAM_RANK = 3 }; /* more: norms of heads, within a block */

static bool is_norm(const ir_node *node)
{
    return node->op == IR_OP_layer_norm || node->op == IR_OP_layer_norm_grad ||
           node->op == IR_OP_layer_norm_param_grad;
}

static bool leads_on(const ir_node *node)
{
    return is_norm(node) || node->op == IR_OP_identity ||
           (ir_op_class_of(node->op) == IR_CLASS_POINTWISE &&
            node->op != IR_OP_accumulate);
}

static bool touches(const search_marks *m, const ir_node *node)
{
    bool found = false;
    for (int32_t k = 0; k < node->n_in; k++)
        found |= m->stream[node->in[k]];
    for (int32_t k = 0; k < node->n_out; k++)
        found |= m->stream[node->out[k]];
    return found;
}

/* A tensor made of samples that has the shape of the stream there. (No op cuts
 * along a single sample, so that its axis cannot be traced.) */
static bool join(search_marks *m, int32_t t, const ir_shape *shape)
{
    if (m->stream[t] || !m->data[t] ||
        !ir_shape_equal(&m->graph->tensors.at[t].shape, shape))
        return false;
    m->stream[t] = true;
    return true;
}

/* What a norm reads first and what an elementwise op makes have the stream's
 * shape. */
static const ir_shape *shape_of(const search_marks *m, const ir_node *node)
{
    const int32_t t = is_norm(node) ? node->in[0] : node->out[0];
    return &m->graph->tensors.at[t].shape;
}

static bool spread(search_marks *m, const ir_node *node)
{
    const ir_shape *shape = shape_of(m, node);
    bool grown = false;
    for (int32_t k = 0; k < node->n_in; k++)
        grown |= join(m, node->in[k], shape);
    for (int32_t k = 0; k < node->n_out; k++)
        grown |= join(m, node->out[k], shape);
    return grown;
}

/* Those that may lead on. */
typedef FS_VEC(int32_t) leading;

static leading list_leading(const ir_graph *graph, fs_arena *arena)
{
    leading list = {0};
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        const ir_node *node = &graph->nodes.at[v];
        if (node->phase != IR_UPDATE && node->n_out > 0 && leads_on(node))
            fs_push(arena, &list, v);
    }
    return list;
}

static bool spread_all(search_marks *m, const leading *list)
{
    const ir_graph *graph = m->graph;
    bool grown = false;
    for (int32_t k = 0; k < list->n; k++) {
        const int32_t v = list->at[k];
        const ir_node *node = &graph->nodes.at[v];
        const int32_t rank = shape_of(m, node)->rank;
        if ((is_norm(node) && rank <= STREAM_RANK) || touches(m, node)) {
            m->between[v] = true;
            grown |= spread(m, node);
        }
    }
    return grown;
}

static void mark_stream(search_marks *m, fs_arena *arena)
{
    m->stream = fs_new(arena, bool, m->graph->tensors.n);
    m->between = fs_new(arena, bool, m->graph->nodes.n);
    fs_arena *scratch = fs_arena_create();
    const leading list = list_leading(m->graph, scratch);
    while (spread_all(m, &list))
        ;
    fs_arena_destroy(scratch);
}

static bool adds_gradients(const ir_node *node)
{
    return node->op == IR_OP_add && node->phase == IR_BACKWARD;
}

/* How many products a tensor is the sum of. */
static int32_t products_in(const search_marks *m, const int32_t *n, int32_t t)
{
    const int32_t v = m->graph->tensors.at[t].producer;
    const ir_node *node = &m->graph->nodes.at[v];
    if (adds_gradients(node))
        return n[v];
    return ir_op_class_of(node->op) == IR_CLASS_MATMUL;
}

/* Sums of sums are one: what else is added there, as what came round a block,
 * may come first or last. */
static void mark_sums(search_marks *m, fs_arena *arena)
{
    const ir_graph *graph = m->graph;
    int32_t *n = fs_new(arena, int32_t, graph->nodes.n);
    m->sums = fs_new(arena, bool, graph->nodes.n);
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        const ir_node *node = &graph->nodes.at[v];
        for (int32_t k = 0; adds_gradients(node) && k < 2; k++)
            n[v] += products_in(m, n, node->in[k]);
    }
    for (int32_t v = graph->nodes.n - 1; v >= 0; v--) {
        const ir_node *node = &graph->nodes.at[v];
        if (!adds_gradients(node) || n[v] == 0)
            continue;
        m->sums[v] |= n[v] >= 2;
        for (int32_t k = 0; m->sums[v] && k < 2; k++) {
            const int32_t u = graph->tensors.at[node->in[k]].producer;
            m->sums[u] = n[u] > 0;
        }
    }
}

void search_marks_make(const ir_graph *graph, fs_arena *arena,
                       search_marks *out)
{
    *out = (search_marks){.graph = graph};
    mark_weights(out, arena);
    mark_data(out, arena);
    mark_experts(out, arena);
    out->sample = trace(graph, false, arena);
    out->place = trace(graph, true, arena);
    mark_stream(out, arena);
    mark_sums(out, arena);
    search_mark_parts(out, arena);
}
