/* Values of a network's variables, from wherever they were saved: a checkpoint
 * (or a folder of them: its newest that is whole), a safetensors file, a folder
 * of such. All are read as checkpoints are: variables as pieces in files. */
#ifndef FS_EXEC_WEIGHTS_H
#define FS_EXEC_WEIGHTS_H

#include "exec/checkpoint.h"
#include "ir/graph.h"

/* FS_INVALID: it is none of these, or damaged. What it passed over in a folder
 * of checkpoints, out->passed has. */
fs_status exec_weights_open(const char *path, fs_arena *arena, fs_err *err,
                            exec_checkpoint *out);
/* Is `file` there, and what is read of `path`, or a file of it (of any of the
 * checkpoints of a folder)? */
bool exec_weights_reads(const char *path, const char *file, fs_arena *arena);
/* How many variables are none of the graph's; *first names one. */
int32_t exec_weights_unused(const exec_checkpoint *c, const ir_graph *graph,
                            const char **first);
/* Every parameter must be there in its shape, as a float where it is one;
 * FS_INVALID names the first that is not. Buffers may be absent. *unused: how
 * many variables are of no use, *first_unused names one. */
fs_status exec_weights_check(const exec_checkpoint *c, const ir_graph *graph,
                             fs_err *err, int32_t *unused,
                             const char **first_unused);
/* Of names, shapes and values, whose sums are taken as a checkpoint has them;
 * of files without sums, of blocks of 4 KiB of each tensor: the first, the last
 * and others as far from each other, 64 at most, fewer of more than 64 tensors
 * (some 4096 in all, 2 at least). FS_INVALID: they cannot be read. */
fs_status exec_weights_digest(const exec_checkpoint *c, fs_err *err,
                              uint64_t *digest);
/* Is the tensor one that weights give? */
bool exec_is_weight(const ir_tensor *t);
/* A piece in the type that is wanted; the caller frees it. */
fs_status exec_weights_read(const exec_checkpoint *c, const exec_kept *kept,
                            const exec_held *piece, ir_dtype wanted,
                            fs_err *err, void **out);
/* All parameters of the graph, and those buffers that are there, become data of
 * the graph, in its arena. */
fs_status exec_weights_give(const exec_checkpoint *c, ir_graph *graph,
                            fs_err *err);
/* Parameters and buffers of the graph as they are before the first step of a
 * run with this seed, into a safetensors file. */
fs_status exec_weights_write(const ir_graph *graph, uint64_t seed,
                             const char *path, fs_arena *arena, fs_err *err,
                             int64_t *bytes);

#endif
