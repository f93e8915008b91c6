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
    FS_VEC(int32_t) copies; /* in the order of what they compute again */
    fs_arena *arena;
} copier;

/* Those that are there, of casts, count too. */
static void find_copies(copier *c, int32_t *copy_of_node)
{
    const ir_graph *graph = c->graph;
    memset(copy_of_node, 0xff, (size_t)c->n_nodes * sizeof *copy_of_node);
    for (int32_t v = c->set->n; v < c->n_nodes; v++)
        if (ir_computes_again(graph, v))
            copy_of_node[graph->nodes.at[v].forward] = v;
}

static int32_t copy_node(copier *c, int32_t v)
{
    ir_graph *graph = c->graph;
    ir_node copy = graph->nodes.at[v];
    copy.name = fs_printf(graph->arena, "%s" AGAIN, copy.name);
    for (int32_t k = 0; k < copy.n_in; k++)
        copy.in[k] = c->copy_of[copy.in[k]];
    graph->forward = v;
    return ir_graph_add(graph, &copy);
}

static void stand_for(copier *c, int32_t v, int32_t copy)
{
    ir_graph *graph = c->graph;
    for (int32_t k = 0; copy >= 0 && k < graph->nodes.at[v].n_out; k++) {
        const int32_t of = graph->nodes.at[v].out[k];
        c->copy_of[of] = graph->nodes.at[copy].out[k];
        graph->tensors.at[c->copy_of[of]].again_of = of;
    }
    fs_push(c->arena, &c->copies, copy);
}

static void copy_nodes(copier *c, const bool *wanted)
{
    ir_phase phase = c->graph->phase;
    int32_t forward = c->graph->forward;
    int32_t *known = fs_new(c->arena, int32_t, c->n_nodes);
    find_copies(c, known);
    c->graph->phase = IR_BACKWARD;
    for (int32_t v = 0; v < c->set->n; v++)
        if (known[v] >= 0)
            stand_for(c, v, known[v]);
        else if (c->set->again[v] && makes_any(&c->graph->nodes.at[v], wanted))
            stand_for(c, v, copy_node(c, v));
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

static void want_before(copier *c, int32_t v, const bool *is_copy)
{
    const ir_graph *graph = c->graph;
    for (int32_t k = 0; k < graph->nodes.at[v].n_in; k++) {
        int32_t maker = graph->tensors.at[graph->nodes.at[v].in[k]].producer;
        if (is_copy[maker] && c->before[v] < c->before[maker])
            c->before[maker] = c->before[v];
    }
}

/* A reader of copies wants them before itself, or before where it stands as
 * a copy; copies are looked at after all that read them. */
static void find_places(copier *c, const bool *is_copy)
{
    const ir_graph *graph = c->graph;
    for (int32_t v = 0; v < graph->nodes.n; v++)
        c->before[v] = is_copy[v] ? c->n_nodes : v;
    for (int32_t v = 0; v < graph->nodes.n; v++)
        if (!is_copy[v])
            want_before(c, v, is_copy);
    for (int32_t k = c->copies.n - 1; k >= 0; k--)
        want_before(c, c->copies.at[k], is_copy);
}

/* Copies of one place stay in their order, in front of its node. */
static void reorder(copier *c, const bool *is_copy)
{
    int32_t n = c->graph->nodes.n, at = 0;
    int32_t *order = fs_new(c->arena, int32_t, n);
    int32_t *next = fs_new(c->arena, int32_t, n);
    int32_t *first = fs_new(c->arena, int32_t, c->n_nodes + 1);
    memset(first, 0xff, (size_t)(c->n_nodes + 1) * sizeof *first);
    for (int32_t k = c->copies.n - 1; k >= 0; k--) {
        const int32_t v = c->copies.at[k];
        next[v] = first[c->before[v]];
        first[c->before[v]] = v;
    }
    for (int32_t v = 0; v <= c->n_nodes; v++) {
        for (int32_t copy = first[v]; copy >= 0; copy = next[copy])
            order[at++] = copy;
        if (v < c->n_nodes && !is_copy[v])
            order[at++] = v;
    }
    ir_graph_reorder(c->graph, order);
}

static void place(copier *c)
{
    bool *is_copy = fs_new(c->arena, bool, c->graph->nodes.n);
    for (int32_t k = 0; k < c->copies.n; k++)
        is_copy[c->copies.at[k]] = true;
    c->before = fs_new(c->arena, int32_t, c->graph->nodes.n);
    find_places(c, is_copy);
    reorder(c, is_copy);
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
    copier c = {
        .graph = graph, .set = set, .n_nodes = graph->nodes.n, .arena = arena};
    c.copy_of = fs_new(arena, int32_t, graph->tensors.n);
    for (int32_t t = 0; t < graph->tensors.n; t++)
        c.copy_of[t] = t;
    ir_recompute_wanted(graph, set, wanted);
    copy_nodes(&c, wanted);
    if (graph->err.status != FS_OK)
        return;
    redirect(&c);
    place(&c);
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
    const int32_t *stage_of; /* NULL: it is told which copies are left, */
    const bool *copies;      /* these */
    int32_t *readers;        /* [tensor] */
    bool *left;              /* [node] by a reader */
} binder;

static int32_t reads_now(const binder *b, int32_t v, int32_t t)
{
    const ir_tensor *tensor = &b->graph->tensors.at[t];
    if (b->stage_of)
        return reads_as(b->graph, b->stage_of, v, t);
    return tensor->again_of >= 0 && b->copies[tensor->producer]
               ? tensor->again_of
               : t;
}

static void rebind(binder *b)
{
    ir_graph *graph = b->graph;
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        ir_node *node = &graph->nodes.at[v];
        for (int32_t k = 0; k < node->n_in; k++) {
            const int32_t was = node->in[k];
            node->in[k] = reads_now(b, v, was);
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
static void drop_unread(binder *b, int32_t *of, bool *keep)
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
            of[n++] = of[v];
    ir_graph_keep(graph, keep);
}

static void leave_copies(ir_graph *graph, const int32_t *stage_of,
                         const bool *copies, int32_t *of)
{
    fs_arena *arena = fs_arena_create();
    binder b = {.graph = graph,
                .stage_of = stage_of,
                .copies = copies,
                .readers = fs_new(arena, int32_t, graph->tensors.n),
                .left = fs_new(arena, bool, graph->nodes.n)};
    rebind(&b);
    drop_unread(&b, of, fs_new(arena, bool, graph->nodes.n));
    fs_arena_destroy(arena);
}

void ir_recompute_bind(ir_graph *graph, int32_t *stage_of)
{
    if (ir_recompute_crosses(graph, stage_of))
        leave_copies(graph, stage_of, NULL, stage_of);
}

void ir_recompute_keep(ir_graph *graph, const bool *copies, int32_t *of)
{
    leave_copies(graph, NULL, copies, of);
}

bool ir_computes_again(const ir_graph *graph, int32_t v)
{
    const ir_node *node = &graph->nodes.at[v];
    bool again = node->n_out > 0 && node->forward >= 0 &&
                 node->phase == IR_BACKWARD &&
                 graph->nodes.at[node->forward].n_out == node->n_out;
    for (int32_t k = 0; again && k < node->n_out; k++)
        again = graph->tensors.at[node->out[k]].again_of ==
                graph->nodes.at[node->forward].out[k];
    return again;
}

int32_t ir_graph_find_again(const ir_graph *graph, const char *name)
{
    fs_arena *scratch = fs_arena_create();
    const int32_t v =
        fs_map_get(&graph->node_names, fs_printf(scratch, "%s" AGAIN, name));
    fs_arena_destroy(scratch);
    return v >= 0 && ir_computes_again(graph, v) ? v : -1;
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
