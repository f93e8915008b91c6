/* A graph without some copies of its layers. Outside and in kept copies all
 * stays; who read the end of a removed copy's chain reads what went in there.
 */
#include "config.h"
#include "ir/layers.h"

#include <string.h>

typedef struct folder {
    const ir_layers *layers;
    const ir_graph *of;
    const bool *const *keep;
    ir_graph *graph;
    int32_t *node;   /* [original node] -1: left out */
    int32_t *tensor; /* [original tensor] -1: left out */
} folder;

static fs_status check_keep(const ir_layers *layers, const bool *const *keep,
                            fs_err *err)
{
    for (int32_t r = 0; r < layers->runs.n; r++) {
        const int32_t last = layers->runs.at[r].copies - 1;
        if (!keep[r][0] || !keep[r][last])
            return fs_fail(err, FS_INVALID,
                           "%s: copy %d of %d is at the rim and cannot be left "
                           "out",
                           layers->runs.at[r].scope, keep[r][0] ? last : 0,
                           last + 1);
    }
    return FS_OK;
}

static bool is_kept(const folder *f, int32_t v)
{
    const int32_t run = f->layers->run[v];
    return run < 0 || f->keep[run][f->layers->copy[v]];
}

static void number_kept(folder *f, fs_arena *arena, ir_folded *out)
{
    int32_t nodes = 0, tensors = 0;
    f->node = fs_new(arena, int32_t, f->of->nodes.n);
    f->tensor = fs_new(arena, int32_t, f->of->tensors.n);
    for (int32_t v = 0; v < f->of->nodes.n; v++)
        f->node[v] = is_kept(f, v) ? nodes++ : -1;
    for (int32_t t = 0; t < f->of->tensors.n; t++)
        f->tensor[t] =
            f->node[f->of->tensors.at[t].producer] < 0 ? -1 : tensors++;
    out->from = fs_new(f->graph->arena, int32_t, nodes);
    fs_reserve(f->graph->arena, &f->graph->nodes, nodes);
    fs_reserve(f->graph->arena, &f->graph->tensors, tensors);
    fs_map_reserve(&f->graph->node_names, nodes);
    fs_map_reserve(&f->graph->names, tensors);
}

/* What stands for a tensor: where its copy is left out, what entered the copy
 * by the chain that left it here. */
static int32_t resolve(const folder *f, int32_t tensor)
{
    while (f->tensor[tensor] < 0) {
        const ir_tensor *t = &f->of->tensors.at[tensor];
        const int32_t v = t->producer;
        const ir_layer_run *run = &f->layers->runs.at[f->layers->run[v]];
        const int32_t by =
            run->enter[f->layers->position[v] * IR_MAX_OUT + t->slot];
        FS_ASSERT(by >= 0);
        const int32_t at =
            run->node[f->layers->copy[v] * run->length + by / IR_MAX_IN];
        tensor = f->of->nodes.at[at].in[by % IR_MAX_IN];
    }
    return f->tensor[tensor];
}

static int32_t resolve_any(const folder *f, int32_t tensor)
{
    return tensor < 0 ? -1 : resolve(f, tensor);
}

static void copy_node(folder *f, int32_t v)
{
    ir_node node = f->of->nodes.at[v];
    for (int32_t k = 0; k < node.n_in; k++)
        node.in[k] = resolve(f, node.in[k]);
    for (int32_t k = 0; k < node.n_out; k++)
        node.out[k] = f->tensor[node.out[k]];
    if (node.forward >= 0) {
        node.forward = f->node[node.forward];
        FS_ASSERT(node.forward >= 0);
    }
    *fs_map_at(&f->graph->node_names, node.name) = f->graph->nodes.n;
    fs_push(f->graph->arena, &f->graph->nodes, node);
}

static void copy_tensor(folder *f, int32_t t)
{
    ir_tensor tensor = f->of->tensors.at[t];
    tensor.producer = f->node[tensor.producer];
    tensor.next = resolve_any(f, tensor.next);
    tensor.again_of = resolve_any(f, tensor.again_of);
    *fs_map_at(&f->graph->names, tensor.name) = f->graph->tensors.n;
    fs_push(f->graph->arena, &f->graph->tensors, tensor);
}

static void copy_kept(folder *f, ir_folded *out)
{
    for (int32_t v = 0; v < f->of->nodes.n; v++)
        if (f->node[v] >= 0) {
            out->from[f->node[v]] = v;
            copy_node(f, v);
        }
    for (int32_t t = 0; t < f->of->tensors.n; t++)
        if (f->tensor[t] >= 0)
            copy_tensor(f, t);
    for (int32_t k = 0; k < f->of->outputs.n; k++) {
        const int32_t t = resolve(f, f->of->outputs.at[k]);
        fs_push(f->graph->arena, &f->graph->outputs, t);
    }
    f->graph->loss = resolve_any(f, f->of->loss);
}

/* rep[] and times[]. */
static void note_reps(const folder *f, ir_folded *out)
{
    const ir_layers *layers = f->layers;
    out->rep = fs_memdup(f->graph->arena, f->node,
                         (size_t)f->of->nodes.n * sizeof *f->node);
    for (int32_t r = 0; r < layers->runs.n; r++) {
        const ir_layer_run *run = &layers->runs.at[r];
        for (int32_t i = run->length; i < run->copies * run->length; i++)
            if (!f->keep[r][i / run->length])
                out->rep[run->node[i]] = out->rep[run->node[i - run->length]];
    }
    out->times = fs_new(f->graph->arena, int32_t, f->graph->nodes.n);
    for (int32_t v = 0; v < f->of->nodes.n; v++)
        out->times[out->rep[v]]++;
}

static ir_graph *empty_copy(const ir_graph *of, fs_arena *arena)
{
    ir_graph *graph = fs_memdup(arena, of, sizeof *of);
    graph->arena = graph->tables = arena;
    graph->nodes.n = graph->nodes.room = 0;
    graph->tensors.n = graph->tensors.room = 0;
    graph->outputs.n = graph->outputs.room = 0;
    graph->nodes.at = NULL;
    graph->tensors.at = NULL;
    graph->outputs.at = NULL;
    graph->names = graph->node_names = graph->serials =
        (fs_map){.arena = arena};
    graph->forward = -1;
    ir_graph_changes(graph);
    return graph;
}

fs_status ir_fold(const ir_layers *layers, const bool *const *keep,
                  fs_arena *arena, fs_err *err, ir_folded *out)
{
    FS_TRY(check_keep(layers, keep, err));
    fs_arena *scratch = fs_arena_create();
    folder f = {.layers = layers,
                .of = layers->graph,
                .keep = keep,
                .graph = empty_copy(layers->graph, arena)};
    out->graph = f.graph;
    number_kept(&f, scratch, out);
    copy_kept(&f, out);
    note_reps(&f, out);
    fs_arena_destroy(scratch);
    return FS_OK;
}
