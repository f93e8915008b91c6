/* Work of an op on a device that widens 16-bit floats. How its float copies are
 * cut into tiles (ir/tiles.c) takes far longer to say than all else of it, and
 * hangs on the shapes at hand alone, which are the same for many signatures,
 * meshes and sizes of micro-batches: so it is remembered. */
#include "config.h"
#include "cost/parts.h"

#include "ir/words.h"

/* Everything that scratch depends on, packed; the rest is 0. */
enum { WORDS = 32 };

cost_memo *cost_widened_create(fs_arena *arena)
{
    return cost_memo_create(WORDS * sizeof(int64_t), sizeof(int64_t), COST_MANY,
                            arena);
}

static int64_t scratch_of(const cost_model *model, const ir_node *node,
                          const ir_io *io)
{
    int64_t word[WORDS] = {0};
    ir_words key = {0, WORDS, word};
    bool known;
    ir_put_pair(&key, (int32_t)node->op, node->n_in << 8 | node->n_out);
    ir_put_attributes(&key, node);
    for (int32_t i = 0; i < node->n_in; i++)
        ir_put_shape(&key, &io->in[i], io->in_dtype[i]);
    for (int32_t i = 0; i < node->n_out; i++)
        ir_put_shape(&key, &io->out[i], io->out_dtype[i]);
    if (key.n > WORDS || node->chain)
        return ir_widened_scratch(node, io);
    int64_t *bytes = cost_memo_at(cost_model_widened(model), word, &known);
    if (!known)
        *bytes = ir_widened_scratch(node, io);
    return *bytes;
}

int64_t cost_widened_scratch(const cost_model *model, const cost_piece *piece)
{
    const ir_node *node = piece->node;
    if (ir_op_table[node->op]->moves) {
        ir_work work;
        ir_node_work(piece->graph, node, piece->sig, piece->mesh, &work);
        return work.scratch_bytes;
    }
    ir_io io;
    ir_node_local_io(piece->graph, node, piece->sig, piece->mesh, &io);
    return scratch_of(model, node, &io);
}
