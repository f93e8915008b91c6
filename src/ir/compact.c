#include "config.h"
#include "ir/compact.h"

#include "ir/resize.h"

#include <string.h>

int32_t ir_copy_times(const ir_layers *layers, int32_t run, int32_t copy)
{
    const ir_layer_run *r = &layers->runs.at[run];
    return ir_times(&layers->graph->nodes.at[r->node[copy * r->length]]);
}

void ir_compact_count(ir_graph *graph, int32_t run, int32_t copy, int32_t times)
{
    const ir_layer_run *r = &graph->layers->runs.at[run];
    for (int32_t p = 0; p < r->length; p++)
        graph->nodes.at[r->node[copy * r->length + p]].more = times - 1;
}

void ir_compact_make(ir_graph *graph, const int32_t *times)
{
    const ir_layers *layers = graph->layers;
    graph->meant = graph->nodes.n;
    for (int32_t r = 0; r < layers->runs.n; r++)
        for (int32_t c = 0; c < layers->runs.at[r].copies; c++) {
            ir_compact_count(graph, r, c, times[c]);
            graph->meant += (times[c] - 1) * layers->runs.at[r].length;
        }
}

ir_graph *ir_compact_copy(const ir_graph *graph, fs_arena *arena)
{
    ir_graph *copy = fs_memdup(arena, graph, sizeof *graph);
    ir_layers *layers = fs_memdup(arena, graph->layers, sizeof *layers);
    copy->nodes.at = fs_memdup(arena, graph->nodes.at,
                               (size_t)graph->nodes.n * sizeof *copy->nodes.at);
    layers->graph = copy;
    copy->layers = layers;
    return copy;
}

/* ---- bound to stages ---- */

typedef struct binding {
    const ir_graph *before, *bound;
    const ir_layers *layers; /* of the graph before */
    int32_t *was, *is;       /* [bound, before] the other's node; -1: none */
    fs_arena *arena;
    ir_layers *out;
} binding;

/* Names are the same, in the same order. */
static void pair_nodes(binding *b, fs_arena *scratch)
{
    const int32_t n = b->before->nodes.n;
    b->was = fs_new(scratch, int32_t, b->bound->nodes.n);
    b->is = memset(fs_new(scratch, int32_t, n), 0xff,
                   (size_t)n * sizeof *b->is);
    for (int32_t i = 0, v = 0; i < b->bound->nodes.n; i++, v++) {
        while (strcmp(b->before->nodes.at[v].name,
                      b->bound->nodes.at[i].name) != 0)
            v++;
        b->was[i] = v;
        b->is[v] = i;
    }
}

static bool reads_the_same(const binding *b, int32_t v)
{
    const ir_node *node = &b->before->nodes.at[v];
    const ir_node *now = &b->bound->nodes.at[b->is[v]];
    bool same = node->n_in == now->n_in;
    for (int32_t k = 0; same && k < node->n_in; k++) {
        const ir_tensor *x = &b->before->tensors.at[node->in[k]],
                        *y = &b->bound->tensors.at[now->in[k]];
        same = x->producer == b->was[y->producer] && x->slot == y->slot;
    }
    return same;
}

static bool is_as_it_was(const binding *b, const ir_layer_run *run,
                         int32_t copy)
{
    for (int32_t p = 0; p < run->length; p++) {
        const int32_t v = run->node[copy * run->length + p];
        if (b->is[v] < 0 || !reads_the_same(b, v))
            return false;
    }
    return true;
}

static void add_run(binding *b, const ir_layer_run *of, int32_t first,
                    int32_t copies)
{
    enum { LEAST = 3 };
    ir_layers *out = b->out;
    ir_layer_run run = *of;
    if (copies < LEAST)
        return;
    run.copies = copies;
    int32_t *node = fs_new(b->arena, int32_t, copies * run.length);
    for (int32_t i = 0; i < copies * run.length; i++) {
        node[i] = b->is[of->node[first * run.length + i]];
        out->run[node[i]] = out->runs.n;
        out->copy[node[i]] = i / run.length;
        out->position[node[i]] = i % run.length;
    }
    run.node = node;
    out->covered += copies * run.length;
    fs_push(b->arena, &out->runs, run);
}

void ir_compact_bound(ir_graph *bound, const ir_graph *before)
{
    fs_arena *scratch = fs_arena_create(), *arena = bound->arena;
    const int32_t n = bound->nodes.n;
    const size_t bytes = (size_t)n * sizeof(int32_t);
    ir_layers *out = fs_new(arena, ir_layers, 1);
    binding b = {before, bound, before->layers, NULL, NULL, arena, out};
    *out = (ir_layers){.graph = bound};
    out->run = memset(fs_new(arena, int32_t, n), 0xff, bytes);
    out->copy = memset(fs_new(arena, int32_t, n), 0xff, bytes);
    out->position = memset(fs_new(arena, int32_t, n), 0xff, bytes);
    pair_nodes(&b, scratch);
    for (int32_t r = 0; r < b.layers->runs.n; r++) {
        const ir_layer_run *run = &b.layers->runs.at[r];
        for (int32_t c = 0, end; c < run->copies; c = end + 1) {
            for (end = c; end < run->copies && is_as_it_was(&b, run, end);)
                end++;
            add_run(&b, run, c, end - c);
        }
    }
    bound->layers = out;
    fs_arena_destroy(scratch);
}

/* ---- in full ---- */

/* Of each run, the first of those that one copy stands for. False: they are not
 * as many. */
static bool keep_first(const ir_layers *whole, const ir_layers *compact,
                       bool **keep, fs_arena *scratch)
{
    if (whole->runs.n != compact->runs.n)
        return false;
    for (int32_t r = 0; r < whole->runs.n; r++) {
        const int32_t n = whole->runs.at[r].copies;
        int32_t at = 0;
        keep[r] = fs_new(scratch, bool, n);
        for (int32_t c = 0; c < compact->runs.at[r].copies; c++) {
            if (at >= n)
                return false;
            keep[r][at] = true;
            at += ir_copy_times(compact, r, c);
        }
        if (at != n)
            return false;
    }
    return true;
}

bool ir_compact_open(ir_graph *whole, const ir_graph *compact, fs_arena *arena,
                     ir_folded *out)
{
    const ir_layers *layers = ir_graph_layers(whole);
    fs_arena *scratch = fs_arena_create();
    fs_err ignored = {0};
    bool **keep = fs_new(scratch, bool *, layers->runs.n + 1);
    const bool same =
        compact->layers &&
        keep_first(layers, compact->layers, keep, scratch) &&
        ir_fold(layers, (const bool *const *)keep, arena, &ignored, out) ==
            FS_OK &&
        ir_same_but_names(out->graph, compact);
    fs_arena_destroy(scratch);
    return same;
}
