/* The variables of a rank as pieces of a checkpoint: where each lies in its
 * tensor, and which of them this rank writes. What replicas hold alike is
 * written once, and they share the work by bytes. */
#ifndef FS_EXEC_SHARD_H
#define FS_EXEC_SHARD_H

#include "exec/rank.h"

/* A piece of a variable. Of one that lies as a reduction of `terms` tensors it
 * is term `term`; else 0 of 1. */
typedef struct exec_shard {
    int32_t tensor, reg;
    ir_piece box; /* in the logical tensor */
    int32_t term, terms;
    ir_sbp_kind kind; /* of the reduction; IR_PSUM for 1 term */
    int64_t bytes;
    bool mine; /* this rank writes it */
} exec_shard;

typedef struct exec_shards {
    int32_t n;
    exec_shard *at; /* by register */
} exec_shards;

/* All variables of the rank, which has a role and memory. */
exec_shards exec_shards_of(const exec_rank *rank);
/* Where the piece lies: the arena. */
static inline void *exec_shard_data(const exec_rank *rank, const exec_shard *s)
{
    return rank->memory + rank->role->registers[s->reg].offset[0];
}
/* "x", "x[0:8,4:8]" of a part, "x+1" of a term: names it in a file. */
const char *exec_shard_name(const ir_graph *graph, const exec_shard *s,
                            fs_arena *arena);
/* Parameters, states and buffers; constants are the graph's. */
bool exec_is_variable(const ir_tensor *t);

#endif
