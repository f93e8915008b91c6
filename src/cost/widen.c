/* Work of an op on a device that widens 16-bit floats. How its float copies are
 * cut into tiles (ir/tiles.c) takes far longer to say than all else of it, and
 * hangs on the shapes at hand alone, which are the same for many signatures,
 * meshes and sizes of micro-batches: so it is remembered. */
#include "config.h"
#include "cost/parts.h"

#include <string.h>

enum { WORDS = 32 };

/* Everything that scratch depends on, packed; the rest is 0. */
typedef struct widen_key {
    int64_t word[WORDS];
    int32_t n;
} widen_key;

cost_memo *cost_widened_create(fs_arena *arena)
{
    return cost_memo_create(sizeof((widen_key){0}.word), sizeof(int64_t),
                            arena);
}

static void put(widen_key *key, int64_t word)
{
    if (key->n < WORDS)
        key->word[key->n] = word;
    key->n++;
}

/* Those behind the last that is not 0 are left out. */
static void put_attributes(widen_key *key, const ir_node *node)
{
    int64_t at[IR_MAX_ATTR + IR_MAX_REAL];
    int32_t n = IR_MAX_ATTR + IR_MAX_REAL;
    ir_structural_attrs(node, at);
    memcpy(at + IR_MAX_ATTR, node->f, sizeof node->f);
    while (n > 0 && at[n - 1] == 0)
        n--;
    put(key, n);
    for (int32_t k = 0; k < n; k++)
        put(key, at[k]);
}

static void put_tensor(widen_key *key, const ir_shape *shape, ir_dtype dtype)
{
    put(key, (int64_t)dtype << 32 | shape->rank);
    for (int32_t d = 0; d < shape->rank; d++)
        put(key, shape->dim[d]);
}

static int64_t scratch_of(const cost_model *model, const ir_node *node,
                          const ir_io *io)
{
    widen_key key = {0};
    bool known;
    put(&key, (int64_t)node->op << 32 | node->n_in << 8 | node->n_out);
    put_attributes(&key, node);
    for (int32_t i = 0; i < node->n_in; i++)
        put_tensor(&key, &io->in[i], io->in_dtype[i]);
    for (int32_t i = 0; i < node->n_out; i++)
        put_tensor(&key, &io->out[i], io->out_dtype[i]);
    if (key.n > WORDS || node->chain)
        return ir_widened_scratch(node, io);
    int64_t *bytes = cost_memo_at(cost_model_widened(model), key.word, &known);
    if (!known)
        *bytes = ir_widened_scratch(node, io);
    return *bytes;
}

void cost_widened_work(const cost_model *model, const cost_piece *piece,
                       ir_work *out)
{
    const ir_node *node = piece->node;
    if (ir_op_table[node->op]->moves) {
        ir_node_work(piece->graph, node, piece->sig, piece->mesh, out);
        return;
    }
    ir_node_flow(piece->graph, node, piece->sig, piece->mesh, out);
    if (!out->narrow)
        return;
    ir_io io;
    ir_node_local_io(piece->graph, node, piece->sig, piece->mesh, &io);
    out->scratch_bytes = scratch_of(model, node, &io);
}
