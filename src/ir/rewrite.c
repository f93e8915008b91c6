/* The driver, and the rules for arithmetic with constants, transposes and
 * sums of pads. A match turns the last node of the pattern into the fused op
 * where it stands, so that the order of nodes stays topological and every
 * tensor keeps its name. */
#include "config.h"
#include "ir/rewrite.h"
#include "ir/rewrite_match.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

void ir_rewrite_scale(ir_graph *g, int32_t v)
{
    ir_affine outer, inner;
    const ir_node *node = &g->nodes.at[v];
    if (node->n_out != 1 || !ir_match_affine(g, node->out[0], &outer))
        return;
    if (ir_producer(g, outer.x)->op == IR_OP_scale) {
        ir_match_affine(g, outer.x, &inner);
        outer.x = inner.x;
        outer.offset += outer.factor * inner.offset;
        outer.factor *= inner.factor;
    }
    ir_node scale = {.op = IR_OP_scale,
                     .n_in = 1,
                     .in = {outer.x},
                     .f = {outer.factor, outer.offset}};
    ir_graph_replace(g, v, &scale);
}

void ir_rewrite_silu(ir_graph *g, int32_t v)
{
    const ir_node *node = &g->nodes.at[v];
    for (int32_t k = 0; node->op == IR_OP_mul && k < 2; k++) {
        const ir_node *gate = ir_producer(g, node->in[1 - k]);
        ir_node silu = {.op = IR_OP_silu, .n_in = 1, .in = {node->in[k]}};
        if (gate->op == IR_OP_sigmoid && gate->in[0] == node->in[k] &&
            ir_graph_replace(g, v, &silu))
            return;
    }
}

/* ---- transposes ---- */

static bool swaps_last_two(const ir_node *node)
{
    int64_t rank = node->i[0];
    if (node->op != IR_OP_transpose || rank < 2)
        return false;
    for (int64_t i = 0; i < rank - 2; i++)
        if (node->i[i + 1] != i)
            return false;
    return node->i[rank] == rank - 2; /* i[1 + last] */
}

void ir_rewrite_transpose(ir_graph *g, int32_t v)
{
    ir_node matmul = g->nodes.at[v];
    bool found = false;
    if (matmul.op != IR_OP_matmul)
        return;
    for (int32_t k = 0; k < 2; k++) {
        const ir_node *from = ir_producer(g, matmul.in[k]);
        if (!swaps_last_two(from))
            continue;
        matmul.in[k] = from->in[0];
        matmul.i[k] = !matmul.i[k];
        found = true;
    }
    if (found)
        ir_graph_replace(g, v, &matmul);
}

/* ---- a product and its bias ---- */

/* A bias of the columns of a product that nothing else reads. */
static bool match_linear(const ir_graph *g, const ir_node *add, int32_t at,
                         const ir_uses *uses)
{
    const int32_t y = add->in[1 - at];
    const ir_tensor *bias = &g->tensors.at[add->in[at]];
    const ir_node *matmul = ir_producer(g, y);
    return matmul->op == IR_OP_matmul && matmul->n_in == 2 &&
           bias->role == IR_PARAM && bias->shape.rank == 1 &&
           bias->producer < g->tensors.at[add->out[0]].producer &&
           uses->first[y + 1] - uses->first[y] == 1;
}

void ir_rewrite_linear(ir_graph *g)
{
    fs_arena *arena = fs_arena_create();
    const ir_uses uses = ir_graph_uses(g, arena);
    for (int32_t v = 0; v < g->nodes.n; v++)
        for (int32_t at = 0; at < 2; at++) {
            const ir_node *add = &g->nodes.at[v];
            if (add->op != IR_OP_add || !match_linear(g, add, at, &uses))
                continue;
            ir_node linear = *ir_producer(g, add->in[1 - at]);
            linear.in[linear.n_in++] = add->in[at];
            ir_graph_replace(g, v,
                             &linear); /* unless a bias of (1) stretches */
        }
    fs_arena_destroy(arena);
}

/* ---- sums of pads ---- */

/* The pads under a tree of adds, by where they start. */
typedef struct pad_list {
    int32_t n;
    const ir_node *pad[IR_MAX_IN];
} pad_list;

static bool insert_pad(pad_list *list, const ir_node *pad)
{
    int32_t k = list->n;
    if (k == IR_MAX_IN || (k && pad->i[0] != list->pad[0]->i[0]))
        return false;
    for (; k > 0 && list->pad[k - 1]->i[1] > pad->i[1]; k--)
        list->pad[k] = list->pad[k - 1];
    list->pad[k] = pad;
    list->n++;
    return true;
}

/* False when anything but pads is added, or too many are. */
static bool collect_pads(const ir_graph *g, int32_t tensor, pad_list *list,
                         int32_t depth)
{
    const ir_node *node = ir_producer(g, tensor);
    if (node->op == IR_OP_pad && (node->i[3] == 0 || node->i[3] == 1))
        return insert_pad(list, node);
    return node->op == IR_OP_add && depth < IR_MAX_IN &&
           collect_pads(g, node->in[0], list, depth + 1) &&
           collect_pads(g, node->in[1], list, depth + 1);
}

void ir_rewrite_pads(ir_graph *g, int32_t v)
{
    pad_list list = {0};
    const ir_node *node = &g->nodes.at[v];
    if (node->op != IR_OP_add || !collect_pads(g, node->out[0], &list, 0))
        return;
    int64_t axis = list.pad[0]->i[0], end = 0;
    ir_node concat = {.op = IR_OP_concat, .n_in = list.n, .i = {axis}};
    for (int32_t k = 0; k < list.n; k++) {
        if (list.pad[k]->i[1] != end)
            return;
        concat.in[k] = list.pad[k]->in[0];
        end += g->tensors.at[concat.in[k]].shape.dim[axis];
    }
    ir_graph_replace(g, v, &concat); /* unless there is a gap at the end */
}

void ir_rewrite_dead(ir_graph *g)
{
    ir_graph_prune(g);
}

/* ---- all of them ---- */

typedef void node_rule(ir_graph *g, int32_t v);

static void for_each_node(ir_graph *g, node_rule *rule)
{
    for (int32_t v = 0; v < g->nodes.n && g->err.status == FS_OK; v++)
        rule(g, v);
}

static const struct {
    const char *name;
    bool usual;
    size_t at; /* in ir_rewrite_options */
    node_rule *node;
    void (*graph)(ir_graph *g);
    void (*step)(ir_graph *g);
} rules[] = {
#define IR_RULE_NODE(name) .node = ir_rewrite_##name
#define IR_RULE_GRAPH(name) .graph = ir_rewrite_##name
#define IR_RULE_STEP(name) .step = ir_rewrite_##name
#define IR_REWRITE(rule, per, on)                                              \
    {.name = #rule,                                                            \
     .usual = on,                                                              \
     .at = offsetof(ir_rewrite_options, rule),                                 \
     IR_RULE_##per(rule)},
#include "ir/rewrites.def"
#undef IR_REWRITE
};
enum { N_RULES = sizeof rules / sizeof *rules };

static bool *rule_switch(ir_rewrite_options *options, int32_t rule)
{
    return (bool *)((char *)options + rules[rule].at);
}

static void set_all(ir_rewrite_options *options, bool on)
{
    for (int32_t i = 0; i < N_RULES; i++)
        *rule_switch(options, i) = on;
}

ir_rewrite_options ir_rewrite_all(void)
{
    ir_rewrite_options all = {0};
    set_all(&all, true);
    return all;
}

ir_rewrite_options ir_rewrite_usual(void)
{
    ir_rewrite_options usual = {0};
    for (int32_t i = 0; i < N_RULES; i++)
        *rule_switch(&usual, i) = rules[i].usual;
    return usual;
}

static bool is_word(const char *word, size_t n, const char *wanted)
{
    return strlen(wanted) == n && strncmp(wanted, word, n) == 0;
}

static bool begins_list(const char *word, size_t n)
{
    return is_word(word, n, "all") || is_word(word, n, "none") ||
           is_word(word, n, "usual");
}

/* "NAME" or "-NAME", `n` characters; -1: there is none. */
static int32_t find_rule(const char *word, size_t n)
{
    const bool off = n > 0 && word[0] == '-';
    for (int32_t i = 0; i < N_RULES; i++)
        if (is_word(word + off, n - off, rules[i].name))
            return i;
    return -1;
}

static fs_status unknown_rule(const char *word, size_t n, fs_err *err)
{
    fs_fail(err, FS_INVALID, "rewrite '%.*s' is unknown; there are",
            n < 40 ? (int)n : 40, word);
    for (int32_t i = 0; err && i < N_RULES; i++) {
        const size_t used = strlen(err->text);
        snprintf(err->text + used, sizeof err->text - used, "%s %s",
                 i ? "," : "", rules[i].name);
    }
    return FS_INVALID;
}

/* A list says one thing: what it begins from, or these alone, or all usual ones
 * but these; and nothing twice. */
static fs_status check_list(const char *text, fs_err *err)
{
    const bool from = begins_list(text, strcspn(text, ","));
    uint64_t named = 0;
    for (const char *at = text;; at++) {
        const size_t n = strcspn(at, ",");
        const int32_t rule = find_rule(at, n);
        const bool begins = begins_list(at, n);
        if (rule < 0 && !begins)
            return unknown_rule(at, n, err);
        if ((begins && at != text) ||
            (!from && (at[0] == '-') != (text[0] == '-')) ||
            (rule >= 0 && named >> rule & 1))
            return fs_fail(err, FS_INVALID,
                           "'%.80s' contradicts itself: all, none and usual "
                           "only come first; without them either NAMEs or "
                           "-NAMEs; none twice",
                           text);
        named |= rule >= 0 ? UINT64_C(1) << rule : 0;
        at += n;
        if (!*at)
            return FS_OK;
    }
}

fs_status ir_rewrite_parse(const char *text, fs_err *err,
                           ir_rewrite_options *out)
{
    const size_t first = strcspn(text, ",");
    FS_TRY(check_list(text, err));
    *out = (ir_rewrite_options){0};
    if (text[0] == '-' || is_word(text, first, "usual"))
        *out = ir_rewrite_usual();
    else if (is_word(text, first, "all"))
        *out = ir_rewrite_all();
    for (const char *at = text;; at++) {
        const size_t n = strcspn(at, ",");
        const int32_t rule = find_rule(at, n);
        if (rule >= 0)
            *rule_switch(out, rule) = at[0] != '-';
        at += n;
        if (!*at)
            return FS_OK;
    }
}

void ir_rewrite(ir_graph *graph, const ir_rewrite_options *options)
{
    ir_rewrite_options on = *options;
    graph->evaluate = options->evaluate;
    for (int32_t i = 0; i < N_RULES; i++) {
        if (!*rule_switch(&on, i))
            continue;
        if (rules[i].graph)
            rules[i].graph(graph);
        else if (rules[i].node)
            for_each_node(graph, rules[i].node);
    }
}

void ir_rewrite_step(ir_graph *graph, const ir_rewrite_options *options)
{
    ir_rewrite_options on = *options;
    for (int32_t i = 0; i < N_RULES; i++)
        if (rules[i].step && *rule_switch(&on, i))
            rules[i].step(graph);
}
