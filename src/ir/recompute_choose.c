/* Which forward nodes a policy has computed again. */
#include "config.h"
#include "ir/recompute.h"

#include "base/regex.h"
#include "ir/blocks.h"
#include "ir/op.h"
#include "ir/op_util.h"
#include "ir/recompute_core.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_KINDS = 256 };

typedef struct chooser {
    const ir_graph *graph;
    fs_arena *arena;
    ir_recompute_set *set;
    ir_blocks blocks;
    int32_t *block; /* [node] which copy of a block it stands in, -1 */
    bool *handed;   /* [node] a copy of a block hands its result on */
    bool *weak;     /* [node] for cheap */
    int32_t n;      /* how many the policy chose */
} chooser;

typedef fs_status policy_fn(chooser *c, fs_err *err);

static bool computes(const ir_node *node)
{
    return ir_op_class_of(node->op) != IR_CLASS_SOURCE && node->n_out > 0;
}

static bool is_view(const ir_node *node)
{
    return ir_op_class_of(node->op) == IR_CLASS_VIEW && node->n_out > 0;
}

static void choose(chooser *c, int32_t v)
{
    c->set->again[v] = true;
    c->n++;
}

/* ---- blocks ---- */

static void number_copies(chooser *c)
{
    int32_t n = 0;
    memset(c->block, 0xff, (size_t)c->set->n * sizeof *c->block);
    for (int32_t k = 0; k < c->blocks.repeats.n; k++) {
        const ir_repeat *r = &c->blocks.repeats.at[k];
        for (int32_t i = 0; i < r->copies * r->length; i++)
            c->block[c->blocks.node[r->first + i]] = n + i / r->length;
        n += r->copies;
    }
}

/* What the forward pass reads outside the copy that makes it, or the user. */
static void mark_handed(chooser *c)
{
    const ir_graph *g = c->graph;
    for (int32_t v = c->set->n - 1; v >= 0; v--) {
        const ir_node *node = &g->nodes.at[v];
        for (int32_t k = 0; k < node->n_in; k++) {
            int32_t maker = g->tensors.at[node->in[k]].producer;
            if (c->block[maker] >= 0 && c->block[maker] != c->block[v])
                c->handed[maker] = true;
        }
    }
    for (int32_t v = c->set->n - 1; v >= 0; v--) {
        const ir_node *node = &g->nodes.at[v];
        if (is_view(node) && c->handed[v])
            c->handed[g->tensors.at[node->in[0]].producer] = true;
    }
}

/* The blocks of the forward pass alone. */
static void find_blocks(chooser *c)
{
    ir_graph forward = *c->graph;
    forward.nodes.n = c->set->n;
    ir_find_blocks(&forward, c->arena, &c->blocks);
    c->block = fs_new(c->arena, int32_t, c->set->n);
    c->handed = fs_new(c->arena, bool, c->set->n);
    number_copies(c);
    mark_handed(c);
}

static fs_status recompute_block(chooser *c, fs_err *err)
{
    if (!c->blocks.repeats.n)
        return fs_fail(err, FS_INVALID,
                       "%s has no repeated block (flowsearch model shows them)",
                       c->graph->name);
    for (int32_t v = 0; v < c->set->n; v++)
        if (c->block[v] >= 0 && !c->handed[v])
            choose(c, v);
    return FS_OK;
}

/* Blocks that have a copy in the backward pass, and nothing in them that it
 * reads from the forward pass. */
static bool *find_whole(const chooser *c, int32_t n_blocks)
{
    const ir_graph *g = c->graph;
    bool *again = fs_new(c->arena, bool, n_blocks),
         *kept = fs_new(c->arena, bool, n_blocks);
    for (int32_t v = c->set->n; v < g->nodes.n; v++) {
        const ir_node *node = &g->nodes.at[v];
        if (node->phase == IR_BACKWARD && ir_computes_again(g, v) &&
            c->block[node->forward] >= 0)
            again[c->block[node->forward]] |=
                !ir_changes_precision(g, node) && !is_view(node);
        for (int32_t k = 0; node->phase == IR_BACKWARD && k < node->n_in; k++) {
            const int32_t maker = g->tensors.at[node->in[k]].producer;
            if (maker < c->set->n && c->block[maker] >= 0 &&
                !c->handed[maker] && computes(&g->nodes.at[maker]) &&
                !ir_changes_precision(g, &g->nodes.at[maker]))
                kept[c->block[maker]] = true;
        }
    }
    for (int32_t b = 0; b < n_blocks; b++)
        again[b] &= !kept[b];
    return again;
}

int32_t ir_recomputed_blocks(const ir_graph *graph, fs_arena *arena,
                             int32_t *number)
{
    ir_recompute_set set = {.n = ir_forward_nodes(graph)};
    chooser c = {.graph = graph, .arena = arena, .set = &set};
    int32_t n_blocks = 0, n = 0;
    find_blocks(&c);
    for (int32_t v = 0; v < set.n; v++)
        n_blocks = c.block[v] < n_blocks ? n_blocks : c.block[v] + 1;
    const bool *whole = find_whole(&c, n_blocks);
    int32_t *of = fs_new(arena, int32_t, n_blocks);
    for (int32_t b = 0; b < n_blocks; b++)
        of[b] = whole[b] ? n++ : -1;
    for (int32_t v = 0; v < set.n; v++)
        number[v] = c.block[v] < 0 ? -1 : of[c.block[v]];
    return n;
}

/* ---- by work and bytes ---- */

/* Nodes of one op, work and size, which are chosen together: copies of a block
 * stay alike. */
typedef struct node_kind {
    ir_op_kind op;
    int64_t flop, bytes;
    int32_t node; /* in the end: where its nodes begin */
} node_kind;

static int64_t flop_of(const ir_graph *g, const ir_node *node)
{
    static const ir_mesh one = {0};
    static const ir_nd_sig whole;
    ir_work work = {0};
    ir_node_work(g, node, &whole, &one, &work);
    return work.flop;
}

static node_kind kind_of(const ir_graph *g, int32_t v)
{
    const ir_node *node = &g->nodes.at[v];
    node_kind kind = {.op = node->op, .flop = flop_of(g, node), .node = v};
    for (int32_t k = 0; k < node->n_out; k++) {
        const ir_tensor *t = &g->tensors.at[node->out[k]];
        kind.bytes =
            ir_add_sat(kind.bytes, ir_shape_bytes(&t->shape, t->dtype));
    }
    return kind;
}

static double flop_per_byte(const node_kind *kind)
{
    return (double)kind->flop / fmax(1, (double)kind->bytes);
}

static int compare_kinds(const node_kind *x, const node_kind *y)
{
    double p = flop_per_byte(x), q = flop_per_byte(y);
    if (p < q || p > q)
        return p < q ? -1 : 1;
    if (x->op != y->op)
        return x->op < y->op ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static int by_kind(const void *a, const void *b)
{
    const node_kind *x = a, *y = b;
    int order = compare_kinds(x, y);
    return order ? order : (x->node > y->node) - (x->node < y->node);
}

/* What may be chosen, cheapest first: what takes fewer flop per byte than the
 * forward pass on the whole, and no block hands on. */
static int32_t list_cheap(const chooser *c, node_kind *out)
{
    const ir_graph *g = c->graph;
    double flop = 0;
    int32_t n = 0;
    for (int32_t v = 0; v < c->set->n; v++)
        flop += (double)flop_of(g, &g->nodes.at[v]);
    double mean = flop / fmax(1, (double)ir_kept_bytes(g, c->set));
    for (int32_t v = 0; v < c->set->n; v++) {
        node_kind kind = kind_of(g, v);
        const ir_node *node = &g->nodes.at[v];
        if (computes(node) && !is_view(node) && !c->handed[v] &&
            !ir_changes_precision(g, node) && flop_per_byte(&kind) < mean)
            out[n++] = kind;
    }
    qsort(out, (size_t)n, sizeof *out, by_kind);
    return n;
}

static void follow_views(const chooser *c)
{
    for (int32_t v = 0; v < c->set->n; v++) {
        const ir_node *node = &c->graph->nodes.at[v];
        if (is_view(node))
            c->set->again[v] =
                c->set->again[c->graph->tensors.at[node->in[0]].producer];
    }
}

/* Made of parameters and constants alone, which are there always. */
static void mark_weak(chooser *c)
{
    const ir_graph *g = c->graph;
    c->weak = fs_new(c->arena, bool, c->set->n);
    for (int32_t v = 0; v < c->set->n; v++) {
        const ir_node *node = &g->nodes.at[v];
        c->weak[v] = node->op != IR_OP_input && !ir_op_table[node->op]->draws;
        for (int32_t k = 0; k < node->n_in; k++)
            c->weak[v] &= c->weak[g->tensors.at[node->in[k]].producer];
    }
}

/* A chain of copies that reaches far back would have to live as a whole, as
 * along the additions of a residual network without blocks: longer ones than
 * the root of all nodes, or a block, are not begun. What is weak begins none:
 * a cast of a mask that all layers share stands far before most of them. */
static bool chains_short(const chooser *c, int32_t *start)
{
    const ir_graph *g = c->graph;
    int32_t most = (int32_t)sqrt((double)c->set->n);
    for (int32_t k = 0; k < c->blocks.repeats.n; k++)
        if (c->blocks.repeats.at[k].length > most)
            most = c->blocks.repeats.at[k].length;
    for (int32_t v = 0; v < c->set->n; v++) {
        const ir_node *node = &g->nodes.at[v];
        start[v] = v;
        for (int32_t k = 0; c->set->again[v] && k < node->n_in; k++) {
            int32_t maker = g->tensors.at[node->in[k]].producer;
            if (c->set->again[maker] && !c->weak[maker] &&
                start[maker] < start[v])
                start[v] = start[maker];
        }
        if (v - start[v] > 2 * most)
            return false;
    }
    return true;
}

/* Casts of mixed precision follow what they cast, as views do: a chain does
 * not break at them, whichever of its ends is the smaller. */
static void set_kind(const chooser *c, const node_kind *nodes, int32_t n,
                     bool again)
{
    for (int32_t k = 0; k < n; k++)
        c->set->again[nodes[k].node] = again;
    follow_views(c);
    for (int32_t v = 0; v < c->set->n; v++)
        if (ir_changes_precision(c->graph, &c->graph->nodes.at[v]))
            c->set->again[v] = false;
    ir_recompute_casts(c->graph, c->set);
    follow_views(c);
}

typedef struct run_of_kinds {
    int32_t n, first[MOST_KINDS + 1];
    bool on[MOST_KINDS];
} run_of_kinds;

static void split_kinds(const node_kind *nodes, int32_t n, run_of_kinds *out)
{
    for (int32_t k = 0; k < n; k++) {
        if (k && compare_kinds(&nodes[k - 1], &nodes[k]) == 0)
            continue;
        out->first[out->n] = k;
        if (out->n == MOST_KINDS)
            return;
        out->n++;
    }
    out->first[out->n] = n;
}

/* Kinds are taken, cheapest first, when no more is kept with them: a chain
 * from scores to weights of attention pays only as a whole. Then those that
 * saved nothing are given back, dearest first. */
static fs_status recompute_cheap(chooser *c, fs_err *err)
{
    (void)err;
    node_kind *nodes = fs_new(c->arena, node_kind, c->set->n);
    int32_t *start = fs_new(c->arena, int32_t, c->set->n);
    run_of_kinds kinds = {0};
    int64_t kept = ir_kept_bytes(c->graph, c->set);
    mark_weak(c);
    split_kinds(nodes, list_cheap(c, nodes), &kinds);
    for (int32_t turn = 0; turn < 2; turn++)
        for (int32_t i = 0; i < kinds.n; i++) {
            int32_t k = turn ? kinds.n - 1 - i : i;
            if (turn && !kinds.on[k])
                continue;
            const node_kind *first = &nodes[kinds.first[k]];
            int32_t n = kinds.first[k + 1] - kinds.first[k];
            set_kind(c, first, n, !turn);
            int64_t now = ir_kept_bytes(c->graph, c->set);
            if (now > kept || (!turn && !chains_short(c, start)))
                set_kind(c, first, n, turn);
            else {
                kept = now;
                kinds.on[k] = !turn;
            }
        }
    for (int32_t k = 0; k < kinds.n; k++)
        c->n += kinds.on[k];
    return FS_OK;
}

/* ---- by place ---- */

/* Casts of mixed precision and views follow (ir_recompute_choose). */
static fs_status recompute_selective(chooser *c, fs_err *err)
{
    const ir_graph *g = c->graph;
    bool *core = fs_new(c->arena, bool, c->set->n);
    (void)err;
    ir_attention_core(g, c->set->n, c->arena, core);
    for (int32_t v = 0; v < c->set->n; v++)
        if (core[v] && !is_view(&g->nodes.at[v]) &&
            !ir_changes_precision(g, &g->nodes.at[v]))
            choose(c, v);
    return FS_OK;
}

/* ---- by names ---- */

static fs_status recompute_named(chooser *c, const char *regex, fs_err *err)
{
    regex_t compiled;
    FS_TRY(fs_regex_compile(regex, err, &compiled));
    for (int32_t v = 0; v < c->set->n; v++) {
        const ir_node *node = &c->graph->nodes.at[v];
        if (computes(node) && regexec(&compiled, node->name, 0, NULL, 0) == 0)
            choose(c, v);
    }
    regfree(&compiled);
    return FS_OK;
}

static const struct {
    const char *name;
    policy_fn *choose;
} policies[] = {
#define IR_RECOMPUTE(name, function) {#name, recompute_##function},
#include "ir/recompute.def"
#undef IR_RECOMPUTE
};

static const char policy_names[] =
#define IR_RECOMPUTE(name, ...) #name ", "
#include "ir/recompute.def"
#undef IR_RECOMPUTE
    "casts, nothing, none";

static bool any_again(const ir_recompute_set *set)
{
    return set->n > 0 && memchr(set->again, true, (size_t)set->n);
}

static fs_status choose_by(chooser *c, const char *policy, fs_err *err)
{
    policy_fn *choose_all = NULL;
    for (size_t k = 0; k < sizeof policies / sizeof *policies; k++)
        if (strcmp(policy, policies[k].name) == 0)
            choose_all = policies[k].choose;
    find_blocks(c);
    FS_TRY(choose_all ? choose_all(c, err) : recompute_named(c, policy, err));
    if (c->n)
        return FS_OK;
    if (choose_all)
        return fs_fail(err, FS_INVALID, "'%.80s' chooses nothing of %s", policy,
                       c->graph->name);
    return fs_fail(
        err, FS_INVALID,
        "'%.80s' chooses nothing of %s: it is no policy (%s; any, of "
        "search), and "
        "matches no name of a node (flowsearch show MODEL -o "
        "FILE.txt lists them)",
        policy, c->graph->name, policy_names);
}

/* Casts come first, as a policy counts what is kept without them; what it
 * chooses may put the inputs of others at hand. */
fs_status ir_recompute_choose(const ir_graph *graph, const char *policy,
                              fs_arena *arena, fs_err *err,
                              ir_recompute_set *out)
{
    *out = (ir_recompute_set){.n = ir_forward_nodes(graph)};
    out->again = fs_new(arena, bool, out->n);
    chooser c = {.graph = graph, .arena = arena, .set = out};
    if (policy && strcmp(policy, "nothing") == 0)
        return FS_OK;
    ir_recompute_casts(graph, out);
    if (policy && strcmp(policy, "casts") == 0) {
        if (!any_again(out))
            return fs_fail(err, FS_INVALID, "'casts' chooses nothing of %s",
                           graph->name);
    } else if (policy && policy[0]) {
        FS_TRY(choose_by(&c, policy, err));
        ir_recompute_casts(graph, out);
    }
    follow_views(&c);
    return FS_OK;
}
