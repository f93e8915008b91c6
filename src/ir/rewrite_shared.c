/* What is shared by the copies of a repeated block is moved before them when it
 * hangs on nothing within them, so that the first copy still looks like the
 * others (blocks.h): masks, angles of rotary embeddings, and of weights that
 * all copies have in common what is made of them (transposed, cast, scaled). */
#include "config.h"
#include "ir/rewrite_match.h"

#include <string.h>

typedef struct mover {
    const ir_graph *graph;
    ir_uses uses;
    bool *early;  /* [node] */
    bool *params; /* [node]: of parameters and constants alone */
} mover;

static bool is_source(const ir_graph *g, const ir_tensor *t)
{
    return g->nodes.at[t->producer].n_in == 0;
}

/* What hangs on a parameter belongs to one copy, unless several read it. */
static bool is_of_params(const mover *m, const ir_node *node)
{
    const ir_graph *g = m->graph;
    bool any = false;
    for (int32_t i = 0; i < node->n_in; i++) {
        const ir_tensor *t = &g->tensors.at[node->in[i]];
        const bool param = t->role == IR_PARAM || m->params[t->producer];
        if (!param && !(is_source(g, t) && t->role == IR_CONST))
            return false;
        any = any || param;
    }
    return any && node->phase == IR_FORWARD && !ir_op_table[node->op]->draws;
}

static bool looks_like(const ir_graph *g, const ir_node *a, const ir_node *b)
{
    int64_t of_a[IR_MAX_ATTR], of_b[IR_MAX_ATTR];
    if (a->op != b->op || a->n_in != b->n_in ||
        memcmp(a->f, b->f, sizeof a->f) != 0)
        return false;
    ir_structural_attrs(a, of_a);
    ir_structural_attrs(b, of_b);
    for (int32_t i = 0; i < a->n_in; i++)
        if (!ir_shape_equal(&g->tensors.at[a->in[i]].shape,
                            &g->tensors.at[b->in[i]].shape))
            return false;
    return memcmp(of_a, of_b, sizeof of_a) == 0;
}

/* A node that was merged into another is read by none. */
static bool is_read(const mover *m, const ir_node *node)
{
    for (int32_t k = 0; k < node->n_out; k++)
        if (m->uses.first[node->out[k]] < m->uses.first[node->out[k] + 1])
            return true;
    return false;
}

/* Do two readers look alike, as in copies of a block? */
static bool has_twins(const mover *m, const ir_node *node)
{
    const ir_graph *g = m->graph;
    const ir_node *twin = NULL;
    for (int32_t k = 0; k < node->n_out; k++, twin = NULL)
        for (int32_t i = m->uses.first[node->out[k]];
             i < m->uses.first[node->out[k] + 1]; i++) {
            const ir_node *reader = &g->nodes.at[m->uses.list[i]];
            if (!is_read(m, reader))
                continue;
            if (twin && looks_like(g, twin, reader))
                return true;
            twin = twin ? twin : reader;
        }
    return false;
}

/* A shared node that hangs on sources, parameters excepted, and on such ones.
 */
static bool is_free(const mover *m, const ir_node *node)
{
    const ir_graph *g = m->graph;
    for (int32_t i = 0; i < node->n_in; i++) {
        const ir_tensor *t = &g->tensors.at[node->in[i]];
        if (t->role == IR_PARAM || !(is_source(g, t) || m->early[t->producer]))
            return false;
    }
    return true;
}

/* Returns whether there are any. */
static bool mark_early(mover *m, const bool *shared)
{
    const ir_graph *g = m->graph;
    bool any = false;
    for (int32_t v = 0; v < g->nodes.n; v++) {
        const ir_node *node = &g->nodes.at[v];
        m->params[v] = node->n_in > 0 && is_of_params(m, node);
        m->early[v] = m->params[v] ? has_twins(m, node)
                                   : shared && shared[v] && is_free(m, node);
        any = any || m->early[v];
    }
    for (int32_t v = g->nodes.n - 1; v >= 0; v--)
        for (int32_t i = 0; m->early[v] && i < g->nodes.at[v].n_in; i++)
            m->early[g->tensors.at[g->nodes.at[v].in[i]].producer] = true;
    return any;
}

void ir_move_shared(ir_graph *g, const bool *shared)
{
    fs_arena *arena = fs_arena_create();
    mover m = {.graph = g,
               .uses = ir_graph_uses(g, arena),
               .early = fs_new(arena, bool, g->nodes.n),
               .params = fs_new(arena, bool, g->nodes.n)};
    int32_t *order = fs_new(arena, int32_t, g->nodes.n), n = 0;
    if (mark_early(&m, shared)) {
        for (int32_t turn = 0; turn < 2; turn++)
            for (int32_t v = 0; v < g->nodes.n; v++)
                if (m.early[v] == (turn == 0))
                    order[n++] = v;
        ir_graph_reorder(g, order);
    }
    fs_arena_destroy(arena);
}
