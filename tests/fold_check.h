/* What must hold of layers found and of graphs folded. */
#ifndef FS_TESTS_FOLD_CHECK_H
#define FS_TESTS_FOLD_CHECK_H

#include "base/hash.h"
#include "ir/layers.h"
#include "ir/op.h"

#include "tap.h"

#include <ctype.h>

/* keep[run][copy]: first, last, and `most` - 2 (fewer where there are fewer)
 * that the seed chooses. */
static inline const bool *const *fold_choose(const ir_layers *layers,
                                             const int32_t *most,
                                             uint64_t *seed, fs_arena *arena)
{
    const bool **keep = fs_new(arena, const bool *, layers->runs.n + 1);
    for (int32_t r = 0; r < layers->runs.n; r++) {
        const int32_t copies = layers->runs.at[r].copies;
        bool *kept = fs_new(arena, bool, copies);
        int32_t left = most[r] < copies ? most[r] - 2 : copies - 2;
        kept[0] = kept[copies - 1] = true;
        while (left > 0) {
            const int64_t c = fs_rand_below(seed, copies);
            left -= !kept[c];
            kept[c] = true;
        }
        keep[r] = kept;
    }
    return keep;
}

/* Names but for their numbers. */
static inline bool fold_same_name(const char *a, const char *b)
{
    while (*a || *b) {
        if (isdigit((unsigned char)*a) && isdigit((unsigned char)*b)) {
            a += strspn(a, "0123456789");
            b += strspn(b, "0123456789");
        } else if (*a++ != *b++) {
            return false;
        }
    }
    return true;
}

static inline bool fold_same_tensor(const ir_tensor *a, const ir_tensor *b)
{
    return a->dtype == b->dtype && a->role == b->role &&
           a->batch_axis == b->batch_axis && a->producer == b->producer &&
           a->slot == b->slot && a->next == b->next &&
           a->again_of == b->again_of && ir_shape_equal(&a->shape, &b->shape);
}

static inline bool fold_same_node(const ir_graph *g, const ir_node *a,
                                  const ir_graph *h, const ir_node *b)
{
    int64_t attr[2][IR_MAX_ATTR];
    ir_structural_attrs(a, attr[0]);
    ir_structural_attrs(b, attr[1]);
    bool same = a->op == b->op && a->phase == b->phase && a->n_in == b->n_in &&
                a->n_out == b->n_out && a->forward == b->forward &&
                memcmp(attr[0], attr[1], sizeof attr[0]) == 0 &&
                memcmp(a->f, b->f, sizeof a->f) == 0;
    for (int32_t k = 0; same && k < a->n_in; k++)
        same = a->in[k] == b->in[k];
    for (int32_t k = 0; same && k < a->n_out; k++)
        same = a->out[k] == b->out[k] &&
               fold_same_tensor(&g->tensors.at[a->out[k]],
                                &h->tensors.at[b->out[k]]);
    return same;
}

/* The first node that differs, or -1; said which. Constants and first values
 * are not looked at. */
static inline int32_t fold_differs_at(const ir_graph *g, const ir_graph *h,
                                      bool names)
{
    const int32_t n = g->nodes.n < h->nodes.n ? g->nodes.n : h->nodes.n;
    for (int32_t v = 0; v < n; v++) {
        const ir_node *a = &g->nodes.at[v], *b = &h->nodes.at[v];
        if (fold_same_node(g, a, h, b) &&
            (!names || fold_same_name(a->name, b->name)))
            continue;
        printf("# node %d: %s, and %s\n", (int)v, a->name, b->name);
        return v;
    }
    if (g->nodes.n != h->nodes.n || g->loss != h->loss ||
        g->outputs.n != h->outputs.n) {
        printf("# %d nodes, and %d\n", (int)g->nodes.n, (int)h->nodes.n);
        return n;
    }
    for (int32_t k = 0; k < g->outputs.n; k++)
        if (g->outputs.at[k] != h->outputs.at[k])
            return n;
    return -1;
}

static inline uint64_t fold_look(const ir_graph *g, const ir_node *node)
{
    int64_t attr[IR_MAX_ATTR];
    uint64_t h = fs_mix((uint64_t)node->op * 4 + (uint64_t)node->phase);
    ir_structural_attrs(node, attr);
    h = fs_hash(fs_hash(h, attr, sizeof attr), node->f, sizeof node->f);
    for (int32_t k = 0; k < node->n_out; k++) {
        const ir_tensor *t = &g->tensors.at[node->out[k]];
        const int64_t is[4] = {t->dtype, t->role, t->batch_axis, t->next >= 0};
        h = fs_hash(h, is, sizeof is);
        h = fs_hash(h, t->shape.dim, (size_t)t->shape.rank * sizeof(int64_t));
    }
    return h;
}

static inline int fold_by_value(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* What every node is by all that it comes from and all that comes of it,
 * whatever the order of nodes; ascending. */
static inline uint64_t *fold_hashes(const ir_graph *g, fs_arena *arena)
{
    const int32_t n = g->nodes.n;
    uint64_t *down = fs_new(arena, uint64_t, n),
             *up = fs_new(arena, uint64_t, n);
    for (int32_t v = 0; v < n; v++) {
        const ir_node *node = &g->nodes.at[v];
        down[v] = fold_look(g, node);
        for (int32_t k = 0; k < node->n_in; k++) {
            const ir_tensor *t = &g->tensors.at[node->in[k]];
            down[v] = fs_mix(down[v] ^ (down[t->producer] + (uint64_t)t->slot));
        }
    }
    for (int32_t v = n - 1; v >= 0; v--) {
        const ir_node *node = &g->nodes.at[v];
        for (int32_t k = 0; k < node->n_out; k++)
            if (g->tensors.at[node->out[k]].next >= 0)
                up[v] += down[g->tensors.at[g->tensors.at[node->out[k]].next]
                                  .producer];
        up[v] = fs_mix(up[v] ^ down[v]);
        if (node->forward >= 0)
            up[v] = fs_mix(up[v] ^ down[node->forward]);
        for (int32_t k = 0; k < node->n_in; k++)
            up[g->tensors.at[node->in[k]].producer] +=
                fs_mix(up[v] + (uint64_t)k);
    }
    qsort(up, (size_t)n, sizeof *up, fold_by_value);
    return up;
}

static inline bool fold_same_unordered(const ir_graph *g, const ir_graph *h)
{
    if (g->nodes.n != h->nodes.n)
        return false;
    fs_arena *arena = fs_arena_create();
    const size_t bytes = (size_t)g->nodes.n * sizeof(uint64_t);
    const bool same =
        memcmp(fold_hashes(g, arena), fold_hashes(h, arena), bytes) == 0;
    fs_arena_destroy(arena);
    return same;
}

/* Runs, copies and positions say of every node the same. */
static inline bool fold_layers_sound(const ir_layers *layers)
{
    int32_t covered = 0;
    bool sound = true;
    for (int32_t r = 0; r < layers->runs.n; r++) {
        const ir_layer_run *run = &layers->runs.at[r];
        for (int32_t i = 0; i < run->copies * run->length; i++, covered++) {
            const int32_t v = run->node[i];
            sound &= layers->run[v] == r && layers->position[v] >= 0 &&
                     layers->copy[v] == i / run->length &&
                     layers->position[v] == i % run->length;
        }
        sound &= run->copies >= 3 && run->length > 0;
    }
    for (int32_t v = 0; v < layers->graph->nodes.n; v++)
        covered -= layers->run[v] >= 0;
    return sound && covered == 0;
}

/* Where input k of position p of copy c comes from: a place of its own copy
 * (kind 0), a tensor outside (1), of another copy (2). */
static inline void fold_origin(const ir_layers *l, int32_t v, int32_t tensor,
                               int32_t out[3])
{
    const ir_tensor *t = &l->graph->tensors.at[tensor];
    const bool inside = l->run[t->producer] == l->run[v];
    out[0] = !inside ? 1 : l->copy[t->producer] == l->copy[v] ? 0 : 2;
    out[1] = inside ? l->position[t->producer] : tensor;
    out[2] = inside ? t->slot : 0;
}

/* Position p of all copies of a run, held against each other without a look at
 * how they were found: inputs come from the same place, or by the chain that
 * `enter` tells of from as many different copies as there are, less one. */
static inline bool fold_position_exact(const ir_layers *l, int32_t r, int32_t p)
{
    const ir_layer_run *run = &l->runs.at[r];
    const ir_graph *g = l->graph;
    const ir_node *first = &g->nodes.at[run->node[p]];
    bool exact = true;
    for (int32_t c = 1; c < run->copies; c++) {
        const ir_node *node = &g->nodes.at[run->node[c * run->length + p]];
        exact &= fold_look(g, first) == fold_look(g, node) &&
                 first->n_in == node->n_in;
    }
    for (int32_t k = 0; exact && k < first->n_in; k++) {
        int32_t links = 0, same = 0, at[3], is[3];
        bool linked = false;
        fold_origin(l, run->node[p], first->in[k], at);
        for (int32_t c = 0; c < run->copies; c++) {
            const int32_t v = run->node[c * run->length + p];
            fold_origin(l, v, g->nodes.at[v].in[k], is);
            same += memcmp(at, is, sizeof at) == 0;
            if (is[0] != 2)
                continue;
            const int32_t by = run->enter[is[1] * IR_MAX_OUT + is[2]];
            const int32_t q = by < 0 ? 0 : by / IR_MAX_IN;
            links +=
                by >= 0 && g->nodes.at[run->node[l->copy[v] * run->length + q]]
                                   .in[by % IR_MAX_IN] == g->nodes.at[v].in[k];
            linked = true;
        }
        exact = linked ? links >= run->copies - 1 : same == run->copies;
    }
    return exact;
}

/* Who reads removable copies from outside, by anything but the end of a chain,
 * would have stopped them from being one run. */
static inline bool fold_runs_exact(const ir_layers *l)
{
    bool exact = true;
    for (int32_t r = 0; r < l->runs.n; r++)
        for (int32_t p = 0; exact && p < l->runs.at[r].length; p++)
            exact = fold_position_exact(l, r, p);
    for (int32_t v = 0; v < l->graph->nodes.n; v++) {
        const ir_node *node = &l->graph->nodes.at[v];
        for (int32_t k = 0; k < node->n_in; k++) {
            const ir_tensor *t = &l->graph->tensors.at[node->in[k]];
            const int32_t r = l->run[t->producer], c = l->copy[t->producer];
            if (r < 0 || r == l->run[v] || c == 0 ||
                c == l->runs.at[r].copies - 1)
                continue;
            exact &= l->runs.at[r].enter[l->position[t->producer] * IR_MAX_OUT +
                                         t->slot] >= 0;
        }
    }
    return exact;
}

/* from, rep and times are each other's; names and nodes those of before. */
static inline bool fold_maps_sound(const ir_layers *layers, const ir_folded *f,
                                   const bool *const *keep)
{
    const ir_graph *g = layers->graph;
    int32_t times = 0;
    bool sound = true;
    for (int32_t u = 0; u < f->graph->nodes.n; u++) {
        const ir_node *a = &f->graph->nodes.at[u];
        const ir_node *b = &g->nodes.at[f->from[u]];
        sound &= f->rep[f->from[u]] == u && strcmp(a->name, b->name) == 0 &&
                 a->op == b->op && (u == 0 || f->from[u - 1] < f->from[u]);
        times += f->times[u];
    }
    for (int32_t v = 0; v < g->nodes.n; v++) {
        const int32_t to = f->from[f->rep[v]];
        const int32_t run = layers->run[v], copy = layers->copy[v];
        sound &= layers->run[to] == run &&
                 layers->position[to] == layers->position[v];
        if (run < 0 || keep[run][copy]) {
            sound &= to == v;
            continue;
        }
        int32_t before = copy;
        while (!keep[run][before])
            before--;
        sound &= layers->copy[to] == before;
    }
    return sound && times == g->nodes.n;
}

#endif
