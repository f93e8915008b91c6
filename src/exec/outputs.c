/* Outputs of the graph: given away by the first rank of the stage that has
 * them, micro-batch by micro-batch. */
#include "config.h"
#include "exec/rank.h"
#include "exec/results.h"

#include "ir/element.h"

#include <string.h>

int32_t exec_rank_output_of(const exec_rank *rank, const ir_node *node)
{
    const ir_graph *graph = rank->graph;
    if (node->op != IR_OP_output || node->in[0] == graph->loss ||
        rank->world->rank != rank->role->first_rank)
        return -1;
    for (int32_t i = 0; i < graph->outputs.n; i++)
        if (graph->outputs.at[i] == node->in[0])
            return i;
    return -1;
}

static uint64_t digest_row(uint64_t seed, uint64_t first, int64_t n,
                           int64_t bytes, const char *from)
{
    uint64_t sum = 0;
    for (int64_t i = 0; i < n; i++) {
        uint64_t bits = 0;
        memcpy(&bits, from + i * bytes, (size_t)bytes);
        sum += fs_mix(fs_mix(seed + first + (uint64_t)i) ^ bits);
    }
    return sum;
}

/* A sum over elements by where they lie in the whole batch, so that it is the
 * same for every number of micro-batches. */
static uint64_t digest_part(const ir_tensor *x, int32_t m, int32_t micro_batch,
                            const char *data)
{
    const int64_t bytes = ir_dtype_bytes(x->dtype);
    const int32_t axis = x->batch_axis < 0 ? 0 : x->batch_axis;
    int64_t rows = 1, row = 1;
    for (int32_t i = 0; i < x->shape.rank; i++)
        *(i < axis ? &rows : &row) *= x->shape.dim[i];
    const uint64_t seed = fs_hash_text(0, x->name);
    uint64_t sum = 0;
    for (int64_t k = 0; k < rows; k++)
        sum += digest_row(seed, (uint64_t)((k * m + micro_batch) * row), row,
                          bytes, data + k * row * bytes);
    return sum;
}

void exec_rank_give(exec_rank *rank, int32_t stream, const exec_task *t)
{
    const exec_sink *sink = rank->options->sink;
    const int64_t step = rank->actors->cursor[stream].step;
    const int32_t mb = plan_actor_micro_batch(rank->actors, stream);
    const ir_graph *graph = rank->graph;
    const char *data = rank->memory + plan_actor_offset(rank->actors, stream,
                                                        t->task->in[0], false);
    fs_err err = {0};
    if (step == rank->steps - 1)
        rank->outputs_digest +=
            digest_part(&graph->tensors.at[graph->outputs.at[t->output]],
                        rank->plan->micro_batches, mb, data);
    if (sink && sink->take(sink->ctx, t->output, rank->first_step + step, mb,
                           data, &err) != FS_OK)
        exec_rank_fail(rank, EXEC_DISK, err.text);
}
