#include "config.h"
#include "ir/resize.h"

#include "ir/chain.h"
#include "ir/op_util.h"
#include "ir/op.h"

#include <string.h>

/* ---- few layers ---- */

/* Rims have first and last copies that differ from the others by who reads
 * them; behind these there are to be enough that repeat. */
enum { AT_EACH_END = 4 };

static bool **keep_ends(const ir_layers *layers, fs_arena *scratch)
{
    bool **keep = fs_new(scratch, bool *, layers->runs.n);
    for (int32_t r = 0; r < layers->runs.n; r++) {
        const int32_t n = layers->runs.at[r].copies;
        keep[r] = fs_new(scratch, bool, n);
        for (int32_t c = 0; c < n; c++)
            keep[r][c] = c < AT_EACH_END || c >= n - AT_EACH_END;
    }
    return keep;
}

/* As ir_graph_reserve wants it: what grows lies apart. */
static void take_tables(ir_graph *graph)
{
    fs_arena *own = graph->arena;
    graph->tables = fs_arena_create();
    ir_graph *copy = ir_graph_copy(graph, graph->tables);
    copy->arena = own;
    *graph = *copy;
}

ir_graph *ir_shorten(const ir_graph *graph)
{
    fs_arena *scratch = fs_arena_create(), *arena = fs_arena_create();
    ir_layers layers;
    ir_folded folded;
    fs_err ignored = {0};
    ir_find_layers(graph, scratch, &layers);
    if (layers.covered * 2 > graph->nodes.n &&
        ir_fold(&layers, (const bool *const *)keep_ends(&layers, scratch),
                arena, &ignored, &folded) == FS_OK &&
        folded.graph->nodes.n * 2 <= graph->nodes.n) {
        take_tables(folded.graph);
    } else {
        folded.graph = NULL;
        fs_arena_destroy(arena);
    }
    fs_arena_destroy(scratch);
    return folded.graph;
}

/* ---- alike but for sizes ---- */

static bool same_ids(const int32_t *a, const int32_t *b, int32_t n)
{
    return memcmp(a, b, (size_t)n * sizeof *a) == 0;
}

/* Names of draws do not hang on sizes. */
static bool same_seed(const ir_node *a, const ir_node *b)
{
    const ir_op *op = ir_op_table[a->op];
    return !op->draws || a->i[op->seed_attr] == b->i[op->seed_attr];
}

static bool same_step(const ir_node *a, const ir_node *b)
{
    return a->op == b->op && a->n_in == b->n_in &&
           same_ids(a->in, b->in, a->n_in) && same_seed(a, b);
}

static bool same_steps(const ir_chain *a, const ir_chain *b, int32_t n_out)
{
    if (!a || !b)
        return a == b;
    if (a->n_steps != b->n_steps || !same_ids(a->out, b->out, n_out))
        return false;
    for (int32_t k = 0; k < a->n_steps; k++)
        if (!same_step(&a->step[k], &b->step[k]))
            return false;
    return true;
}

static bool same_readings(const ir_node *a, const ir_node *b)
{
    return a->op == b->op && a->phase == b->phase && a->n_in == b->n_in &&
           a->n_out == b->n_out && a->forward == b->forward &&
           same_ids(a->in, b->in, a->n_in) &&
           same_ids(a->out, b->out, a->n_out) && !a->chain == !b->chain;
}

/* A chain's are digested in its own. */
static bool same_attrs(const ir_node *a, const ir_node *b)
{
    int64_t attr[2][IR_MAX_ATTR];
    ir_structural_attrs(a, attr[0]);
    ir_structural_attrs(b, attr[1]);
    return memcmp(attr[0], attr[1], sizeof attr[0]) == 0 &&
           memcmp(a->f, b->f, sizeof a->f) == 0;
}

static bool same_place(const ir_tensor *a, const ir_tensor *b)
{
    return a->dtype == b->dtype && a->role == b->role &&
           a->producer == b->producer && a->slot == b->slot &&
           a->next == b->next && a->again_of == b->again_of &&
           a->batch_axis == b->batch_axis && a->shape.rank == b->shape.rank;
}

static bool same_init(const ir_init *a, const ir_init *b)
{
    return a->kind == b->kind && a->mean == b->mean && a->spread == b->spread &&
           a->seed == b->seed;
}

static bool same_lists(const ir_graph *a, const ir_graph *b)
{
    return a->nodes.n == b->nodes.n && a->tensors.n == b->tensors.n &&
           a->loss == b->loss && a->outputs.n == b->outputs.n &&
           same_ids(a->outputs.at, b->outputs.at, a->outputs.n) &&
           a->batch == b->batch;
}

bool ir_same_but_names(const ir_graph *a, const ir_graph *b)
{
    bool same = same_lists(a, b) && a->micro_batches == b->micro_batches;
    for (int32_t v = 0; same && v < a->nodes.n; v++)
        same = same_readings(&a->nodes.at[v], &b->nodes.at[v]) &&
               same_attrs(&a->nodes.at[v], &b->nodes.at[v]);
    for (int32_t t = 0; same && t < a->tensors.n; t++)
        same = same_place(&a->tensors.at[t], &b->tensors.at[t]) &&
               ir_shape_equal(&a->tensors.at[t].shape, &b->tensors.at[t].shape);
    return same;
}

bool ir_sizes_alike(const ir_graph *a, const ir_graph *b)
{
    bool same = same_lists(a, b);
    for (int32_t v = 0; same && v < a->nodes.n; v++) {
        const ir_node *x = &a->nodes.at[v], *y = &b->nodes.at[v];
        same = same_readings(x, y) && same_seed(x, y) &&
               same_steps(x->chain, y->chain, x->n_out);
    }
    for (int32_t t = 0; same && t < a->tensors.n; t++)
        same = same_place(&a->tensors.at[t], &b->tensors.at[t]) &&
               same_init(&a->tensors.at[t].init, &b->tensors.at[t].init);
    return same;
}

/* ---- the first ---- */

/* A copy is named by its first node of the forward pass. */
static const char *name_of(const ir_layers *layers, int32_t run, int32_t copy)
{
    const ir_layer_run *r = &layers->runs.at[run];
    const int32_t *node = r->node + copy * r->length;
    for (int32_t k = 0; k < r->length; k++) {
        const ir_node *of = &layers->graph->nodes.at[node[k]];
        if (of->phase == IR_FORWARD)
            return of->name;
    }
    return "";
}

static bool **keep_named(const ir_layers *layers, const ir_graph *few,
                         fs_arena *scratch)
{
    bool **keep = fs_new(scratch, bool *, layers->runs.n);
    for (int32_t r = 0; r < layers->runs.n; r++) {
        const int32_t n = layers->runs.at[r].copies;
        keep[r] = fs_new(scratch, bool, n);
        for (int32_t c = 0; c < n; c++)
            keep[r][c] =
                fs_map_get(&few->node_names, name_of(layers, r, c)) >= 0;
    }
    return keep;
}

bool ir_sizes_open(ir_graph *graph, const ir_graph *few, fs_arena *arena,
                   ir_sizes *out)
{
    const ir_layers *layers = ir_graph_layers(graph);
    fs_arena *scratch = fs_arena_create();
    fs_err ignored = {0};
    const bool *const *keep =
        (const bool *const *)keep_named(layers, few, scratch);
    *out = (ir_sizes){.graph = graph, .few = few};
    const bool same =
        ir_fold(layers, keep, arena, &ignored, &out->folded) == FS_OK &&
        ir_same_but_names(out->folded.graph, few);
    fs_arena_destroy(scratch);
    if (same)
        graph->like = graph;
    return same;
}

/* ---- another one ---- */

typedef struct resizing {
    const ir_sizes *of;
    const ir_graph *few;
    ir_graph *graph;
} resizing;

static void resize_attrs(ir_node *node, const ir_node *from, const ir_node *to)
{
    for (int32_t k = 0; k < IR_MAX_ATTR; k++)
        if (from->i[k] != to->i[k])
            node->i[k] = to->i[k];
    memcpy(node->f, to->f, sizeof node->f);
}

/* The first graph's own where nothing is other: steps have seeds of their own.
 */
static void resize_chain(const resizing *r, ir_node *node, const ir_node *from,
                         const ir_node *to)
{
    bool other = false;
    for (int32_t k = 0; k < from->chain->n_steps; k++)
        other |= !same_attrs(&from->chain->step[k], &to->chain->step[k]);
    if (!other)
        return;
    fs_arena *arena = r->graph->arena;
    ir_chain *chain = fs_memdup(arena, node->chain, sizeof *chain);
    ir_node *step = fs_memdup(arena, chain->step,
                              (size_t)chain->n_steps * sizeof *chain->step);
    for (int32_t k = 0; k < chain->n_steps; k++)
        resize_attrs(&step[k], &from->chain->step[k], &to->chain->step[k]);
    chain->step = step;
    node->chain = chain;
}

static bool same_data(const ir_tensor *a, const ir_tensor *b)
{
    const int64_t bytes = ir_shape_bytes(&a->shape, a->dtype);
    return a->data == b->data ||
           (a->data && b->data && memcmp(a->data, b->data, (size_t)bytes) == 0);
}

/* First values of variables are those of any size; a constant of another size
 * is what `to` has, if copies do not have their own. */
static bool resize_tensor(ir_tensor *t, const ir_tensor *from,
                          const ir_tensor *to)
{
    const bool resized = !ir_shape_equal(&from->shape, &to->shape);
    if ((from->role == IR_CONST && (resized || !same_data(from, to))) ||
        (resized && t->data)) {
        if (!same_data(t, from))
            return false;
        t->data = to->data;
    }
    t->shape = to->shape;
    return true;
}

static bool resize_node(const resizing *r, int32_t v)
{
    const int32_t rep = r->of->folded.rep[v];
    const ir_node *from = &r->of->few->nodes.at[rep];
    const ir_node *to = &r->few->nodes.at[rep];
    ir_node *node = &r->graph->nodes.at[v];
    if (node->chain)
        resize_chain(r, node, from, to);
    resize_attrs(node, from, to);
    for (int32_t k = 0; k < node->n_out; k++)
        if (!resize_tensor(&r->graph->tensors.at[node->out[k]],
                           &r->of->few->tensors.at[from->out[k]],
                           &r->few->tensors.at[to->out[k]]))
            return false;
    return true;
}

/* What holds of the copies of the one holds of the other's. */
static void take_layers(const resizing *r)
{
    ir_graph *graph = r->graph;
    ir_layers *layers =
        fs_memdup(graph->arena, r->of->graph->layers, sizeof *layers);
    layers->graph = graph;
    graph->layers = layers;
    graph->like = r->of->graph;
}

ir_graph *ir_resize(const ir_sizes *sizes, const ir_graph *few)
{
    resizing r = {sizes, few, ir_graph_copy(sizes->graph, fs_arena_create())};
    r.graph->micro_batches = few->micro_batches;
    r.graph->loss_share = few->loss_share;
    r.graph->digest = few->digest;
    /* Those of one position take what its one in `few` has. */
    for (int32_t v = 0; v < r.graph->nodes.n; v++)
        if (!resize_node(&r, v)) {
            ir_graph_destroy(r.graph);
            return NULL;
        }
    take_layers(&r);
    return r.graph;
}
