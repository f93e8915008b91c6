/* Which pointwise nodes of a training graph become one: groups of one phase and
 * one copy of a block, or of what lies between blocks, whose inner values have
 * no reader outside or leave the chain as outputs. Groups grow along edges, in
 * the graph's order; the last node gives the chain its place and name. All that
 * a decision asks is the same for every copy of a block (what any copy exports
 * counts as exported by all), so that copies stay alike. */
#include "config.h"
#include "ir/chain.h"
#include "ir/op_util.h"

#include "ir/blocks.h"
#include "ir/layers.h"
#include "ir/rewrite_match.h"

#include <string.h>

/* A value that is read more often is a chain's end: each attempt looks at all
 * of its readers. */
enum { MOST_READERS = 64, FAR_APART = 64 };
enum { PHASES = IR_UPDATE + 1 };

typedef struct group {
    int32_t n, member[IR_CHAIN_STEPS]; /* rising */
} group;

typedef struct chainer {
    ir_graph *graph;
    fs_arena *arena;
    ir_uses uses;
    int32_t *zone; /* [node] the copy of a block, or what lies between two, of
                      one phase; -1: a source */
    int32_t *like; /* [node] of the first copy, at its position; itself */
    bool *leaves;  /* [tensor] read outside its zone, or asked for */
    bool *partial; /* [tensor] may be a partial sum */
    group **of;    /* [node] NULL: no step */
} chainer;

static const ir_node *producer(const chainer *c, int32_t tensor)
{
    return ir_producer(c->graph, tensor);
}

/* ---- zones, and what leaves them ---- */

static void find_zones(chainer *c, const ir_blocks *blocks)
{
    const ir_graph *g = c->graph;
    bool *begins = fs_new(c->arena, bool, blocks->n_nodes + 1);
    int32_t zone = 0;
    for (int32_t r = 0; r < blocks->repeats.n; r++) {
        const ir_repeat *repeat = &blocks->repeats.at[r];
        for (int32_t k = 0; k <= repeat->copies; k++)
            begins[repeat->first + k * repeat->length] = true;
    }
    memset(c->zone, 0xff, (size_t)g->nodes.n * sizeof *c->zone);
    for (int32_t i = 0; i < blocks->n_nodes; i++) {
        const int32_t v = blocks->node[i];
        zone +=
            begins[i] || (i > 0 && g->nodes.at[v].phase !=
                                       g->nodes.at[blocks->node[i - 1]].phase);
        c->zone[v] = zone;
    }
}

/* Zones of what lies between blocks that hold nodes of several layers, as the
 * terms of a sum over all of them. */
static bool *find_mixed(const chainer *c, const ir_layers *layers,
                        const bool *stands)
{
    const int32_t n = c->graph->nodes.n;
    bool *mixed = fs_new(c->arena, bool, n);
    int32_t *one = fs_new(c->arena, int32_t, n); /* [zone] 1 + a node of it */
    for (int32_t v = 0; v < n; v++) {
        const int32_t zone = c->zone[v];
        if (zone < 0 || stands[v] || layers->run[v] < 0)
            continue;
        const int32_t u = one[zone] ? one[zone] - 1 : v;
        one[zone] = u + 1;
        mixed[zone] |= layers->run[u] == layers->run[v] &&
                       layers->copy[u] != layers->copy[v];
    }
    return mixed;
}

/* There each layer's nodes are a zone: joined, layers would not be equal any
 * more. */
static void part_layers(chainer *c, const ir_blocks *blocks)
{
    const ir_graph *g = c->graph;
    ir_layers layers;
    bool *stands = fs_new(c->arena, bool, g->nodes.n); /* in a block */
    ir_find_layers(g, c->arena, &layers);
    int32_t *first = fs_new(c->arena, int32_t, layers.runs.n + 1);
    first[0] = g->nodes.n; /* zones so far are fewer */
    for (int32_t r = 0; r < layers.runs.n; r++)
        first[r + 1] = first[r] + PHASES * layers.runs.at[r].copies;
    for (int32_t r = 0; r < blocks->repeats.n; r++) {
        const ir_repeat *repeat = &blocks->repeats.at[r];
        for (int32_t k = 0; k < repeat->copies * repeat->length; k++)
            stands[blocks->node[repeat->first + k]] = true;
    }
    const bool *mixed = find_mixed(c, &layers, stands);
    for (int32_t v = 0; v < g->nodes.n; v++)
        if (c->zone[v] >= 0 && mixed[c->zone[v]] && !stands[v] &&
            layers.run[v] >= 0)
            c->zone[v] = first[layers.run[v]] + PHASES * layers.copy[v] +
                         (int32_t)g->nodes.at[v].phase;
}

static void find_leaving(chainer *c)
{
    const ir_graph *g = c->graph;
    for (int32_t v = 0; v < g->nodes.n; v++)
        for (int32_t i = 0; i < g->nodes.at[v].n_in; i++) {
            const int32_t t = g->nodes.at[v].in[i];
            if (c->zone[g->tensors.at[t].producer] != c->zone[v])
                c->leaves[t] = true;
        }
    for (int32_t i = 0; i < g->outputs.n; i++)
        c->leaves[g->outputs.at[i]] = true;
    for (int32_t t = 0; t < g->tensors.n; t++)
        if (g->tensors.at[t].next >= 0)
            c->leaves[g->tensors.at[t].next] = true;
    if (g->loss >= 0)
        c->leaves[g->loss] = true;
}

/* Output `slot` at position j of a repeat leaves every copy or none. */
static void share_leaving(chainer *c, const ir_blocks *blocks,
                          const ir_repeat *r, int32_t j)
{
    const ir_node *nodes = c->graph->nodes.at;
    for (int32_t slot = 0; slot < nodes[blocks->node[r->first + j]].n_out;
         slot++) {
        bool any = false;
        for (int32_t k = 0; k < r->copies; k++)
            any = any ||
                  c->leaves[nodes[blocks->node[r->first + k * r->length + j]]
                                .out[slot]];
        for (int32_t k = 0; any && k < r->copies; k++)
            c->leaves[nodes[blocks->node[r->first + k * r->length + j]]
                          .out[slot]] = true;
    }
}

static void find_first_copies(chainer *c, const ir_blocks *blocks)
{
    for (int32_t v = 0; v < c->graph->nodes.n; v++)
        c->like[v] = v;
    for (int32_t r = 0; r < blocks->repeats.n; r++) {
        const ir_repeat *repeat = &blocks->repeats.at[r];
        const int32_t *node = &blocks->node[repeat->first];
        for (int32_t i = repeat->length; i < repeat->copies * repeat->length;
             i++)
            c->like[node[i]] = c->like[node[i - repeat->length]];
    }
}

static void survey(chainer *c)
{
    ir_blocks blocks;
    ir_find_blocks(c->graph, c->arena, &blocks);
    find_first_copies(c, &blocks);
    find_zones(c, &blocks);
    part_layers(c, &blocks);
    find_leaving(c);
    for (int32_t r = 0; r < blocks.repeats.n; r++)
        for (int32_t j = 0; j < blocks.repeats.at[r].length; j++)
            share_leaving(c, &blocks, &blocks.repeats.at[r], j);
}

/* ---- partial sums ---- */

static bool makes_partial(const chainer *c, const ir_node *node,
                          const ir_sig *sig, int32_t slot)
{
    bool partial = ir_sbp_is_partial(sig->out[slot]);
    for (int32_t i = 0; partial && i < node->n_in; i++)
        partial = !ir_sbp_is_partial(sig->in[i]) || c->partial[node->in[i]];
    return partial;
}

/* Copies have the signatures of the first. */
static void find_partial(chainer *c)
{
    fs_arena *scratch = fs_arena_create();
    ir_sig_list *known = fs_new(scratch, ir_sig_list, c->graph->nodes.n);
    for (int32_t v = 0; v < c->graph->nodes.n; v++) {
        const ir_node *node = &c->graph->nodes.at[v];
        if (ir_op_class_of(node->op) == IR_CLASS_SOURCE)
            continue;
        if (c->like[v] == v)
            ir_signatures_1d(c->graph, node, scratch, &known[v]);
        const ir_sig_list *list = &known[c->like[v]];
        for (int32_t s = 0; s < list->n; s++)
            for (int32_t k = 0; k < node->n_out; k++)
                c->partial[node->out[k]] |=
                    makes_partial(c, node, &list->at[s], k);
    }
    fs_arena_destroy(scratch);
}

static bool takes_partial(const chainer *c, const ir_node *node, int32_t t)
{
    ir_sig_list list;
    bool takes = false;
    fs_arena *scratch = fs_arena_create();
    ir_signatures_1d(c->graph, node, scratch, &list);
    for (int32_t s = 0; s < list.n; s++)
        for (int32_t i = 0; i < node->n_in; i++)
            takes = takes ||
                    (node->in[i] == t && ir_sbp_is_partial(list.at[s].in[i]));
    fs_arena_destroy(scratch);
    return takes;
}

/* A sum of partial sums is reduced once; before a reader that wants it reduced
 * it must stay a tensor of its own, else each of the terms would be. */
static bool saves_reduction(const chainer *c, int32_t t, const ir_node *reader)
{
    const ir_node *sum = producer(c, t);
    int32_t terms = 0;
    for (int32_t i = 0; i < sum->n_in; i++)
        terms += c->partial[sum->in[i]];
    return terms > 1 && c->partial[t] && !takes_partial(c, reader, t);
}

/* ---- may two groups be one? ---- */

static int32_t last_of(const group *g)
{
    return g->member[g->n - 1];
}

static void merge_members(const group *a, const group *b, group *out)
{
    int32_t i = 0, j = 0;
    *out = (group){0};
    while (i < a->n || j < b->n)
        out->member[out->n++] =
            j == b->n || (i < a->n && a->member[i] < b->member[j])
                ? a->member[i++]
                : b->member[j++];
}

static bool holds(const group *g, int32_t v)
{
    for (int32_t k = 0; k < g->n; k++)
        if (g->member[k] == v)
            return true;
    return false;
}

/* Readers of t outside the group: *early when one stands before its end. */
static bool read_outside(const chainer *c, const group *g, int32_t t,
                         bool *early)
{
    bool outside = c->leaves[t] || c->uses.first[t] == c->uses.first[t + 1];
    for (int32_t i = c->uses.first[t]; i < c->uses.first[t + 1]; i++) {
        const int32_t v = c->uses.list[i];
        if (holds(g, v))
            continue;
        outside = true;
        *early = *early || v < last_of(g);
    }
    return outside;
}

/* What enters and leaves a group. False when it is too much. */
typedef struct border {
    int32_t n_in, n_out, in[IR_MAX_IN], out[IR_MAX_OUT];
} border;

static bool add_inputs(const chainer *c, const group *g, const ir_node *node,
                       border *out)
{
    for (int32_t i = 0; i < node->n_in; i++) {
        const int32_t t = node->in[i];
        int32_t k = 0;
        if (holds(g, c->graph->tensors.at[t].producer))
            continue;
        while (k < out->n_in && out->in[k] != t)
            k++;
        if (k == IR_MAX_IN)
            return false;
        out->in[k] = t;
        out->n_in += k == out->n_in;
    }
    return true;
}

/* Outputs from the last member backwards: it names the chain. */
static bool find_border(const chainer *c, const group *g, border *out)
{
    bool early = false;
    *out = (border){0};
    for (int32_t k = 0; k < g->n; k++)
        if (!add_inputs(c, g, &c->graph->nodes.at[g->member[k]], out))
            return false;
    for (int32_t k = g->n - 1; k >= 0; k--) {
        const int32_t t = c->graph->nodes.at[g->member[k]].out[0];
        if (!read_outside(c, g, t, &early))
            continue;
        if (early || out->n_out == IR_MAX_OUT)
            return false;
        out->out[out->n_out++] = t;
    }
    return true;
}

/* Do only members and sources stand between the group's end and node v? */
static bool is_next(const chainer *c, const group *joined, int32_t end,
                    int32_t v)
{
    if (v - end > FAR_APART)
        return false;
    for (int32_t u = end + 1; u < v; u++)
        if (c->zone[u] >= 0 && !holds(joined, u))
            return false;
    return true;
}

static int64_t bytes_of(const chainer *c, int32_t t)
{
    const ir_tensor *tensor = &c->graph->tensors.at[t];
    return ir_shape_bytes(&tensor->shape, tensor->dtype);
}

/* Would the inputs of `early`, which wait for node v when it joins that node's
 * group, hold more memory until then than its values do? */
static bool holds_more(const chainer *c, const group *early,
                       const group *joined, int32_t v)
{
    const int32_t end = last_of(early);
    int64_t held = 0, freed = 0;
    border in;
    if (is_next(c, joined, end, v) || !find_border(c, early, &in))
        return false;
    for (int32_t i = 0; i < in.n_in; i++) {
        const int32_t t = in.in[i];
        bool dies = c->zone[c->graph->tensors.at[t].producer] == c->zone[end] &&
                    !c->leaves[t];
        for (int32_t k = c->uses.first[t]; k < c->uses.first[t + 1]; k++)
            dies = dies && c->uses.list[k] <= end;
        held += dies ? bytes_of(c, t) : 0;
    }
    for (int32_t i = 0; i < in.n_out; i++) {
        bool unused = false;
        if (!read_outside(c, joined, in.out[i], &unused))
            freed += bytes_of(c, in.out[i]);
    }
    return held > freed;
}

static int32_t forward_zone(const chainer *c, int32_t v)
{
    const int32_t forward = c->graph->nodes.at[v].forward;
    return forward < 0 ? -1 : c->zone[forward];
}

/* Joins node v's group with that of the node which makes t, which v reads. */
static void try_join(chainer *c, int32_t v, int32_t t)
{
    const ir_graph *g = c->graph;
    const int32_t from = g->tensors.at[t].producer;
    group *a = c->of[from], *b = c->of[v], joined;
    border unused;
    if (!a || a == b || a->n + b->n > IR_CHAIN_STEPS ||
        c->zone[from] != c->zone[v] ||
        forward_zone(c, from) != forward_zone(c, v) ||
        !ir_shape_equal(&g->tensors.at[t].shape,
                        &g->tensors.at[g->nodes.at[v].out[0]].shape) ||
        c->uses.first[t + 1] - c->uses.first[t] > MOST_READERS ||
        saves_reduction(c, t, &g->nodes.at[v]))
        return;
    merge_members(a, b, &joined);
    if (!find_border(c, &joined, &unused) || holds_more(c, a, &joined, v))
        return;
    *b = joined;
    for (int32_t k = 0; k < joined.n; k++)
        c->of[joined.member[k]] = b;
}

static void grow(chainer *c, int32_t v)
{
    const ir_node *node = &c->graph->nodes.at[v];
    if (node->phase == IR_UPDATE || !ir_chain_takes(c->graph, node))
        return;
    c->of[v] = fs_new(c->arena, group, 1);
    *c->of[v] = (group){1, {v}};
    for (int32_t i = 0; i < node->n_in; i++)
        try_join(c, v, node->in[i]);
}

/* ---- writing chains ---- */

static int32_t value_of(const chainer *c, const group *g, const border *b,
                        int32_t t)
{
    for (int32_t i = 0; i < b->n_in; i++)
        if (b->in[i] == t)
            return i;
    for (int32_t k = 0; k < g->n; k++)
        if (c->graph->nodes.at[g->member[k]].out[0] == t)
            return b->n_in + k;
    FS_ASSERT(false);
    return -1;
}

static ir_chain *make_program(const chainer *c, const group *g, const border *b)
{
    fs_arena *arena = c->graph->arena;
    ir_chain *chain = fs_new(arena, ir_chain, 1);
    ir_node *step = fs_new(arena, ir_node, g->n);
    chain->n_steps = g->n;
    chain->step = step;
    for (int32_t k = 0; k < g->n; k++) {
        const ir_node *member = &c->graph->nodes.at[g->member[k]];
        step[k] = (ir_node){
            .op = member->op, .n_in = member->n_in, .n_out = 1, .forward = -1};
        memcpy(step[k].i, member->i, sizeof step[k].i);
        memcpy(step[k].f, member->f, sizeof step[k].f);
        for (int32_t i = 0; i < member->n_in; i++)
            step[k].in[i] = value_of(c, g, b, member->in[i]);
    }
    for (int32_t i = 0; i < b->n_out; i++)
        chain->out[i] = value_of(c, g, b, b->out[i]);
    return chain;
}

static void write_chain(chainer *c, const group *g)
{
    border b;
    const bool fits = find_border(c, g, &b);
    FS_ASSERT(fits && b.n_out > 0);
    const int32_t v = last_of(g);
    ir_node node = c->graph->nodes.at[v];
    node.op = IR_OP_chain;
    node.n_in = b.n_in;
    node.n_out = b.n_out;
    node.chain = make_program(c, g, &b);
    memcpy(node.in, b.in, sizeof b.in);
    memcpy(node.out, b.out, sizeof b.out);
    memset(node.i, 0, sizeof node.i);
    memset(node.f, 0, sizeof node.f);
    node.i[0] = ir_chain_digest(node.chain, node.n_out);
    for (int32_t i = 0; i < b.n_out; i++) {
        c->graph->tensors.at[b.out[i]].producer = v;
        c->graph->tensors.at[b.out[i]].slot = i;
    }
    c->graph->nodes.at[v] = node;
}

static void write_all(chainer *c)
{
    ir_graph *g = c->graph;
    bool *keep = fs_new(c->arena, bool, g->nodes.n);
    for (int32_t v = 0; v < g->nodes.n; v++) {
        const group *own = c->of[v];
        keep[v] = !own || v == last_of(own);
        if (own && own->n > 1 && v == last_of(own))
            write_chain(c, own);
    }
    for (int32_t v = 0; v < g->nodes.n; v++) {
        const int32_t forward = g->nodes.at[v].forward;
        if (forward >= 0 && c->of[forward])
            g->nodes.at[v].forward = last_of(c->of[forward]);
    }
    ir_graph_keep(g, keep);
}

void ir_rewrite_chain(ir_graph *g)
{
    if (g->err.status != FS_OK || !g->nodes.n)
        return;
    fs_arena *arena = fs_arena_create();
    chainer c = {.graph = g,
                 .arena = arena,
                 .uses = ir_graph_uses(g, arena),
                 .zone = fs_new(arena, int32_t, g->nodes.n),
                 .like = fs_new(arena, int32_t, g->nodes.n),
                 .leaves = fs_new(arena, bool, g->tensors.n),
                 .partial = fs_new(arena, bool, g->tensors.n),
                 .of = fs_new(arena, group *, g->nodes.n)};
    survey(&c);
    find_partial(&c);
    for (int32_t v = 0; v < g->nodes.n; v++)
        grow(&c, v);
    write_all(&c);
    fs_arena_destroy(arena);
}
