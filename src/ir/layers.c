/* Which copy a node belongs to is guessed here, and only guessed: from the
 * copies of blocks of the forward pass on along links. What is guessed right
 * in most copies is wrong nowhere, since layers_check.c proves it.
 *
 * A mark is what nodes of one position share: of the forward pass, where in
 * the block; then `forward` node's mark and the how-manieth of its nodes; else
 * by whom it is read first, or what it reads of a copy. What only one or two
 * copies have belongs to none. */
#include "config.h"
#include "ir/layers_parts.h"

#include "ir/blocks.h"
#include "ir/op.h"
#include "ir/recompute.h"

#include <stdlib.h>
#include <string.h>

/* ---- what is known of every node ---- */

static uint64_t look_of(const ir_graph *g, const ir_node *node)
{
    uint64_t h = ir_node_look(node);
    for (int32_t k = 0; k < node->n_in; k++)
        h = ir_tensor_look(&g->tensors.at[node->in[k]], h);
    for (int32_t k = 0; k < node->n_out; k++) {
        const ir_tensor *t = &g->tensors.at[node->out[k]];
        h = ir_tensor_look(t, h) ^ ((uint64_t)t->role << 32);
        h = fs_mix(h ^ (uint64_t)(t->batch_axis + 1));
    }
    return h;
}

static void list_kids(ir_layer_finder *f)
{
    const ir_graph *g = f->graph;
    const int32_t n = g->nodes.n;
    f->kid_first = fs_new(f->arena, int32_t, n + 2);
    f->kid = fs_new(f->arena, int32_t, n);
    for (int32_t v = 0; v < n; v++)
        if (g->nodes.at[v].forward >= 0)
            f->kid_first[g->nodes.at[v].forward + 2]++;
    for (int32_t v = 0; v < n; v++)
        f->kid_first[v + 2] += f->kid_first[v + 1];
    for (int32_t v = 0; v < n; v++)
        if (g->nodes.at[v].forward >= 0)
            f->kid[f->kid_first[g->nodes.at[v].forward + 1]++] = v;
}

static void note_holder(int32_t *by, int32_t node)
{
    *by = *by < 0 && *by != IR_LAYERS_SEVERAL ? node : IR_LAYERS_SEVERAL;
}

static void list_holders(ir_layer_finder *f)
{
    const ir_graph *g = f->graph;
    const size_t bytes = (size_t)g->tensors.n * sizeof(int32_t);
    f->held_by = memset(fs_new(f->arena, int32_t, g->tensors.n), 0xff, bytes);
    f->again = memset(fs_new(f->arena, int32_t, g->tensors.n), 0xff, bytes);
    f->pinned = fs_new(f->arena, bool, g->tensors.n);
    for (int32_t t = 0; t < g->tensors.n; t++) {
        const ir_tensor *tensor = &g->tensors.at[t];
        if (tensor->next >= 0)
            note_holder(&f->held_by[tensor->next], tensor->producer);
        if (tensor->again_of >= 0)
            note_holder(&f->again[tensor->again_of], tensor->producer);
    }
    for (int32_t k = 0; k < g->outputs.n; k++)
        f->pinned[g->outputs.at[k]] = true;
    if (g->loss >= 0)
        f->pinned[g->loss] = true;
}

static void open_finder(ir_layer_finder *f)
{
    const int32_t n = f->graph->nodes.n;
    const size_t bytes = (size_t)n * sizeof(int32_t);
    f->uses = ir_graph_uses(f->graph, f->arena);
    list_kids(f);
    list_holders(f);
    f->look = fs_new(f->arena, uint64_t, n);
    for (int32_t v = 0; v < n; v++)
        f->look[v] = look_of(f->graph, &f->graph->nodes.at[v]);
    f->run = memset(fs_new(f->arena, int32_t, n), 0xff, bytes);
    f->copy = memset(fs_new(f->arena, int32_t, n), 0xff, bytes);
    f->position = fs_new(f->arena, int32_t, n);
    f->mark = fs_new(f->arena, uint64_t, n);
}

/* ---- repeats of the forward pass ---- */

/* Is [i, i + length) like [j, j + length), by looks, and of repeat k or none?
 */
static bool looks_alike(const ir_layer_finder *f, const ir_blocks *blocks,
                        const int32_t *repeat_of, int32_t i, int32_t j,
                        int32_t length)
{
    if (i < 0 || j < 0 || i + length > blocks->n_nodes ||
        j + length > blocks->n_nodes)
        return false;
    for (int32_t k = 0; k < length; k++) {
        const int32_t other = repeat_of[j + k];
        if (f->look[blocks->node[i + k]] != f->look[blocks->node[j + k]] ||
            (other >= 0 && blocks->repeats.at[other].length != length))
            return false;
    }
    return true;
}

/* Copies that differ in who reads them or in what they read are repeats of
 * their own, or in none: here they belong together. */
static void widen(const ir_layer_finder *f, ir_blocks *blocks,
                  int32_t *repeat_of)
{
    for (int32_t k = 0; k < blocks->repeats.n; k++)
        for (int32_t i = 0;
             i < blocks->repeats.at[k].copies * blocks->repeats.at[k].length;
             i++)
            repeat_of[blocks->repeats.at[k].first + i] = k;
    for (int32_t k = 0; k < blocks->repeats.n; k++) {
        ir_repeat *r = &blocks->repeats.at[k];
        if (repeat_of[r->first] != k) {
            r->copies = 0;
            continue;
        }
        for (int turn = 0; turn < 2; turn++)
            for (;;) {
                const int32_t at = turn ? r->first - r->length
                                        : r->first + r->copies * r->length;
                if (!looks_alike(f, blocks, repeat_of, r->first, at, r->length))
                    break;
                for (int32_t i = 0; i < r->length; i++)
                    repeat_of[at + i] = k;
                r->first = turn ? at : r->first;
                r->copies++;
            }
    }
}

/* ---- along links ---- */

/* A guess: node v belongs to the copy of another node. */
typedef struct guess {
    int32_t node, copy;
    uint64_t mark;
} guess;

/* How many copies there are of each mark. */
typedef struct tally {
    uint64_t *mark;
    int32_t *copies, *last, room;
} tally;

typedef struct spreader {
    ir_layer_finder *f;
    fs_arena *arena; /* of one repeat */
    int32_t run;
    ir_id_vec members; /* in the order of their coming */
    FS_VEC(guess) guesses;
} spreader;

static tally open_tally(fs_arena *arena, int32_t n)
{
    tally t = {.room = 16};
    while (t.room < 2 * n)
        t.room *= 2;
    t.mark = fs_new(arena, uint64_t, t.room);
    t.copies = fs_new(arena, int32_t, t.room);
    t.last = fs_new(arena, int32_t, t.room);
    return t;
}

static int32_t place_of(const tally *t, uint64_t mark)
{
    const uint64_t mask = (uint64_t)t->room - 1;
    uint64_t at = fs_mix(mark) & mask;
    while (t->copies[at] > 0 && t->mark[at] != mark)
        at = (at + 1) & mask;
    return (int32_t)at;
}

/* Counts what copies come one after the other. */
static void count(tally *t, uint64_t mark, int32_t copy)
{
    const int32_t at = place_of(t, mark);
    if (t->copies[at] > 0 && t->last[at] == copy)
        return;
    t->mark[at] = mark;
    t->copies[at]++;
    t->last[at] = copy;
}

static int32_t counted(const tally *t, uint64_t mark)
{
    return t->copies[place_of(t, mark)];
}

static uint64_t mix3(uint64_t a, uint64_t b, uint64_t c)
{
    return fs_mix(a ^ fs_mix(b ^ fs_mix(c)));
}

static void take(spreader *s, int32_t v, int32_t copy, uint64_t mark)
{
    s->f->run[v] = s->run;
    s->f->copy[v] = copy;
    s->f->mark[v] = mark;
    fs_push(s->arena, &s->members, v);
}

/* Nodes that belong to a member by `forward`, and theirs. */
static void take_kids(spreader *s, int32_t first)
{
    ir_layer_finder *f = s->f;
    for (int32_t i = first; i < s->members.n; i++) {
        const int32_t v = s->members.at[i];
        for (int32_t k = f->kid_first[v]; k < f->kid_first[v + 1]; k++) {
            const int32_t kid = f->kid[k];
            const ir_node *node = &f->graph->nodes.at[kid];
            if (f->run[kid] < 0 && ir_op_class_of(node->op) != IR_CLASS_SOURCE)
                take(s, kid, f->copy[v],
                     mix3(f->mark[v], f->look[kid],
                          (uint64_t)(k - f->kid_first[v])));
        }
    }
}

/* All who read node v, but for its own updates, are of one copy of the run. */
static bool readers_agree(const spreader *s, int32_t v, guess *out)
{
    const ir_layer_finder *f = s->f;
    const ir_node *node = &f->graph->nodes.at[v];
    *out = (guess){v, -1, 0};
    for (int32_t k = 0; k < node->n_out; k++)
        for (int32_t i = f->uses.first[node->out[k]];
             i < f->uses.first[node->out[k] + 1]; i++) {
            const int32_t reader = f->uses.list[i];
            if (f->graph->nodes.at[reader].forward == v)
                continue;
            if (f->run[reader] != s->run ||
                (out->copy >= 0 && f->copy[reader] != out->copy))
                return false;
            if (out->copy >= 0)
                continue;
            out->copy = f->copy[reader];
            int32_t slot = 0;
            while (f->graph->nodes.at[reader].in[slot] != node->out[k])
                slot++;
            out->mark = mix3(f->mark[reader], f->look[v],
                             (uint64_t)(slot * IR_MAX_OUT + k) + 1000);
        }
    return out->copy >= 0;
}

static void guess_producers(spreader *s, int32_t first)
{
    const ir_layer_finder *f = s->f;
    for (int32_t i = first; i < s->members.n; i++) {
        const ir_node *node = &f->graph->nodes.at[s->members.at[i]];
        for (int32_t k = 0; k < node->n_in; k++) {
            const int32_t v = f->graph->tensors.at[node->in[k]].producer;
            guess g;
            if (f->run[v] < 0 && readers_agree(s, v, &g))
                fs_push(s->arena, &s->guesses, g);
        }
    }
}

static void guess_readers(spreader *s, int32_t first)
{
    const ir_layer_finder *f = s->f;
    for (int32_t i = first; i < s->members.n; i++) {
        const int32_t v = s->members.at[i];
        const ir_node *node = &f->graph->nodes.at[v];
        for (int32_t o = 0; o < node->n_out; o++) {
            const int32_t t = node->out[o];
            for (int32_t k = f->uses.first[t]; k < f->uses.first[t + 1]; k++) {
                const int32_t reader = f->uses.list[k];
                int32_t slot = 0;
                if (f->run[reader] >= 0)
                    continue;
                while (f->graph->nodes.at[reader].in[slot] != t)
                    slot++;
                const guess g = {reader, f->copy[v],
                                 mix3(f->mark[v], f->look[reader],
                                      (uint64_t)(slot * IR_MAX_OUT + o))};
                fs_push(s->arena, &s->guesses, g);
            }
        }
    }
}

/* Of several guesses about a node the one that most copies share. */
static bool take_guesses(spreader *s)
{
    ir_layer_finder *f = s->f;
    tally t = open_tally(s->arena, s->guesses.n);
    const int32_t before = s->members.n;
    for (int32_t i = 0; i < s->guesses.n; i++)
        count(&t, s->guesses.at[i].mark, s->guesses.at[i].copy);
    for (int32_t i = 0; i < s->guesses.n; i++) {
        const guess *g = &s->guesses.at[i];
        const int32_t n = counted(&t, g->mark);
        if (n < IR_LAYERS_LEAST)
            continue;
        if (f->run[g->node] < 0) {
            take(s, g->node, g->copy, g->mark);
        } else if (n > counted(&t, f->mark[g->node])) {
            f->copy[g->node] = g->copy;
            f->mark[g->node] = g->mark;
        }
    }
    s->guesses.n = 0;
    return s->members.n > before;
}

static void spread(spreader *s)
{
    int32_t kids = 0, producers = 0, readers = 0;
    for (;;) {
        const int32_t n = s->members.n;
        take_kids(s, kids);
        kids = s->members.n;
        if (kids > producers) {
            guess_producers(s, producers);
            producers = kids;
        } else {
            guess_readers(s, readers);
            readers = kids;
        }
        if (!take_guesses(s) && n == s->members.n && readers == s->members.n)
            return;
    }
}

/* ---- one repeat ---- */

/* What one or two copies have belongs to none. */
static void drop_rare(spreader *s)
{
    ir_layer_finder *f = s->f;
    int32_t n = 0;
    tally t = open_tally(s->arena, s->members.n);
    for (int32_t i = 0; i < s->members.n; i++)
        count(&t, f->mark[s->members.at[i]], f->copy[s->members.at[i]]);
    for (int32_t i = 0; i < s->members.n; i++) {
        const int32_t v = s->members.at[i];
        if (counted(&t, f->mark[v]) >= IR_LAYERS_LEAST)
            s->members.at[n++] = v;
        else
            f->run[v] = -1;
    }
    s->members.n = n;
}

static int ascending(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static void sort_members(spreader *s, int32_t copies)
{
    ir_layer_finder *f = s->f;
    f->begin = fs_new(s->arena, int32_t, copies + 2);
    f->member = fs_new(s->arena, int32_t, s->members.n + 1);
    for (int32_t i = 0; i < s->members.n; i++)
        f->begin[f->copy[s->members.at[i]] + 2]++;
    for (int32_t c = 0; c < copies; c++)
        f->begin[c + 2] += f->begin[c + 1];
    for (int32_t i = 0; i < s->members.n; i++)
        f->member[f->begin[f->copy[s->members.at[i]] + 1]++] = s->members.at[i];
    for (int32_t c = 0; c < copies; c++)
        qsort(f->member + f->begin[c], (size_t)(f->begin[c + 1] - f->begin[c]),
              sizeof *f->member, ascending);
}

static bool is_free(const ir_layer_finder *f, const ir_blocks *blocks,
                    const ir_repeat *r)
{
    for (int32_t i = 0; i < r->copies * r->length; i++)
        if (f->run[blocks->node[r->first + i]] >= 0)
            return false;
    return r->copies >= IR_LAYERS_LEAST;
}

static void try_repeat(ir_layer_finder *f, const ir_blocks *blocks, int32_t id)
{
    const ir_repeat *r = &blocks->repeats.at[id];
    spreader s = {.f = f, .run = id};
    if (!is_free(f, blocks, r))
        return;
    s.arena = fs_arena_create();
    for (int32_t c = 0; c < r->copies; c++)
        for (int32_t j = 0; j < r->length; j++)
            take(&s, blocks->node[r->first + c * r->length + j], c,
                 mix3((uint64_t)id, (uint64_t)j, 1));
    spread(&s);
    drop_rare(&s);
    sort_members(&s, r->copies);
    ir_layers_check(f, id, 0, r->copies);
    for (int32_t i = 0; i < s.members.n; i++)
        if (f->out->run[s.members.at[i]] < 0)
            f->run[s.members.at[i]] = -1;
    fs_arena_destroy(s.arena);
}

static int longest_first(const void *a, const void *b)
{
    const ir_repeat *x = a, *y = b;
    const int64_t m = (int64_t)x->copies * x->length;
    const int64_t n = (int64_t)y->copies * y->length;
    return m == n ? (x->first > y->first) - (x->first < y->first)
                  : (m < n) - (m > n);
}

/* The longest first: what belongs to its copies is no repeat of its own. */
static void try_repeats(ir_layer_finder *f, const ir_blocks *blocks)
{
    if (blocks->repeats.n)
        qsort(blocks->repeats.at, (size_t)blocks->repeats.n,
              sizeof *blocks->repeats.at, longest_first);
    for (int32_t k = 0; k < blocks->repeats.n; k++)
        try_repeat(f, blocks, k);
}

static int by_first_node(const void *a, const void *b)
{
    const ir_layer_run *x = a, *y = b;
    return (x->node[0] > y->node[0]) - (x->node[0] < y->node[0]);
}

static void number_runs(ir_layers *out)
{
    if (out->runs.n)
        qsort(out->runs.at, (size_t)out->runs.n, sizeof *out->runs.at,
              by_first_node);
    for (int32_t r = 0; r < out->runs.n; r++) {
        const ir_layer_run *run = &out->runs.at[r];
        for (int32_t i = 0; i < run->copies * run->length; i++) {
            out->run[run->node[i]] = r;
            out->copy[run->node[i]] = i / run->length;
            out->position[run->node[i]] = i % run->length;
        }
        out->covered += run->copies * run->length;
    }
}

void ir_find_layers(const ir_graph *graph, fs_arena *arena, ir_layers *out)
{
    const size_t bytes = (size_t)graph->nodes.n * sizeof(int32_t);
    *out = (ir_layers){.graph = graph};
    out->run = memset(fs_new(arena, int32_t, graph->nodes.n), 0xff, bytes);
    out->copy = memset(fs_new(arena, int32_t, graph->nodes.n), 0xff, bytes);
    out->position = memset(fs_new(arena, int32_t, graph->nodes.n), 0xff, bytes);
    ir_layer_finder f = {
        .graph = graph, .arena = fs_arena_create(), .kept = arena, .out = out};
    ir_graph forward = *graph;
    ir_blocks blocks;
    forward.nodes.n = ir_forward_nodes(graph);
    ir_find_blocks(&forward, f.arena, &blocks);
    open_finder(&f);
    int32_t *repeat_of = fs_new(f.arena, int32_t, blocks.n_nodes + 1);
    memset(repeat_of, 0xff, (size_t)blocks.n_nodes * sizeof *repeat_of);
    widen(&f, &blocks, repeat_of);
    try_repeats(&f, &blocks);
    fs_arena_destroy(f.arena);
    number_runs(out);
}

const ir_layers *ir_graph_layers(ir_graph *graph)
{
    if (!graph->layers) {
        ir_layers *layers = fs_new(graph->arena, ir_layers, 1);
        ir_find_layers(graph, graph->arena, layers);
        graph->layers = layers;
    }
    return graph->layers;
}
