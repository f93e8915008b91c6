/* Common sub-expressions: a node that computes what an earlier one does leaves
 * its uses to that one. Nodes without effects only; constants of equal value
 * count as equal. What copies of a block share thereby is moved before them
 * (rewrite_shared.c). */
#include "config.h"
#include "ir/op_util.h"
#include "ir/rewrite_match.h"

#include <string.h>

typedef struct merger {
    ir_graph *graph;
    int32_t *same;  /* per tensor: what stands for it */
    int32_t *table; /* of nodes by their hash, -1 free */
    uint64_t mask;  /* its size, a power of two, less 1 */
    bool *wanted;   /* tensors that must stay what they are */
    bool *shared;   /* nodes that stand for others */
} merger;

/* What it makes differs from run to run, is fed, or is said elsewhere. */
static bool is_pure(const ir_node *node)
{
    const ir_op_class op_class = ir_op_class_of(node->op);
    const bool is_source =
        op_class == IR_CLASS_SOURCE && node->op != IR_OP_constant;
    const bool keeps = node->op == IR_OP_accumulate || node->n_out == 0;
    return !is_source && !keeps && op_class != IR_CLASS_UPDATE &&
           !ir_op_table[node->op]->draws;
}

/* Is the second operand to be told first? Nodes keep their own order: copies of
 * a block look alike by it. */
static bool is_turned(const ir_node *node)
{
    return ir_op_table[node->op]->commutes && node->in[0] > node->in[1];
}

static uint64_t hash_node(const ir_graph *g, const ir_node *node)
{
    uint64_t h = fs_mix((uint64_t)node->op);
    for (int32_t k = 0; k < node->n_in; k++)
        h = fs_hash(h, &node->in[k ^ is_turned(node)], sizeof *node->in);
    h = fs_hash(h, node->i, sizeof node->i);
    h = fs_hash(h, node->f, sizeof node->f);
    if (node->op != IR_OP_constant)
        return h;
    /* Of a mask of 8192 x 8192 the first rows say enough; equality is proven
     * byte by byte. */
    enum { TOLD_APART_BY = 4096 };
    const ir_tensor *t = &g->tensors.at[node->out[0]];
    int64_t bytes = ir_shape_bytes(&t->shape, t->dtype);
    if (bytes > TOLD_APART_BY)
        bytes = TOLD_APART_BY;
    return fs_hash(h, t->data, (size_t)bytes);
}

static bool equal_data(const ir_tensor *a, const ir_tensor *b)
{
    return a->dtype == b->dtype && ir_shape_equal(&a->shape, &b->shape) &&
           (a->data == b->data ||
            memcmp(a->data, b->data,
                   (size_t)ir_shape_bytes(&a->shape, a->dtype)) == 0);
}

static bool equal_inputs(const ir_node *a, const ir_node *b)
{
    if (a->n_in != b->n_in)
        return false;
    for (int32_t k = 0; k < a->n_in; k++)
        if (a->in[k ^ is_turned(a)] != b->in[k ^ is_turned(b)])
            return false;
    return true;
}

static bool equal_nodes(const ir_graph *g, const ir_node *a, const ir_node *b)
{
    return a->op == b->op && equal_inputs(a, b) &&
           memcmp(a->i, b->i, sizeof a->i) == 0 &&
           memcmp(a->f, b->f, sizeof a->f) == 0 &&
           (a->op != IR_OP_constant ||
            equal_data(&g->tensors.at[a->out[0]], &g->tensors.at[b->out[0]]));
}

static bool may_merge(const merger *m, const ir_node *node)
{
    bool free_to_go = is_pure(node) && node->phase == IR_FORWARD;
    for (int32_t k = 0; k < node->n_out; k++)
        free_to_go = free_to_go && !m->wanted[node->out[k]];
    return free_to_go && (node->op != IR_OP_constant ||
                          m->graph->tensors.at[node->out[0]].data);
}

/* Reads what stands for its inputs. */
static void redirect(const merger *m, ir_node *node)
{
    for (int32_t i = 0; i < node->n_in; i++)
        node->in[i] = m->same[node->in[i]];
}

static void merge_node(merger *m, int32_t v)
{
    const ir_graph *g = m->graph;
    ir_node *node = &g->nodes.at[v];
    redirect(m, node);
    if (!may_merge(m, node))
        return;
    uint64_t at = hash_node(g, node) & m->mask;
    while (m->table[at] >= 0 &&
           !equal_nodes(g, &g->nodes.at[m->table[at]], node))
        at = (at + 1) & m->mask;
    if (m->table[at] < 0) {
        m->table[at] = v;
        return;
    }
    const ir_node *first = &g->nodes.at[m->table[at]];
    m->shared[m->table[at]] = true;
    for (int32_t k = 0; k < node->n_out; k++)
        m->same[node->out[k]] = first->out[k];
}

static void mark_wanted(merger *m)
{
    const ir_graph *g = m->graph;
    for (int32_t i = 0; i < g->outputs.n; i++)
        m->wanted[g->outputs.at[i]] = true;
    if (g->loss >= 0)
        m->wanted[g->loss] = true;
    for (int32_t t = 0; t < g->tensors.n; t++) {
        m->same[t] = t;
        if (g->tensors.at[t].next >= 0)
            m->wanted[g->tensors.at[t].next] = true;
    }
}

void ir_rewrite_common(ir_graph *g)
{
    if (g->err.status != FS_OK || !g->nodes.n)
        return;
    fs_arena *arena = fs_arena_create();
    size_t room = 16;
    while (room < 2 * (size_t)g->nodes.n)
        room *= 2;
    merger m = {.graph = g,
                .same = fs_new(arena, int32_t, g->tensors.n),
                .table = fs_new(arena, int32_t, room),
                .mask = room - 1,
                .wanted = fs_new(arena, bool, g->tensors.n),
                .shared = fs_new(arena, bool, g->nodes.n)};
    memset(m.table, -1, room * sizeof *m.table);
    mark_wanted(&m);
    for (int32_t v = 0; v < g->nodes.n; v++)
        merge_node(&m, v);
    ir_move_shared(g, m.shared);
    fs_arena_destroy(arena);
}
