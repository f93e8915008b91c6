/* Workloads that the probe times: small training steps whose nodes have the
 * shapes that training meets. */
#ifndef FS_EXEC_PROBE_H
#define FS_EXEC_PROBE_H

#include "exec/calibrate.h"
#include "ir/train.h"
#include "kernels/kernel.h"

/* Elements of each operand of the addition that tells the memory's rate. */
enum { EXEC_MEMORY_PROBE = 8 << 20 };

typedef FS_VEC(hw_sample) exec_samples;

/* A transformer block with embedding and loss, trained by `optimizer`. Sizes:
 * samples, length, width, heads (width is a multiple), words. */
typedef struct probe_block {
    int64_t samples, length, width, heads, words;
    ir_optimizer optimizer;
} probe_block;
ir_graph *exec_probe_block(const probe_block *sizes, fs_err *err);

/* Two convolutions with pooling and a classifier; `size` is the image's side,
 * a multiple of 4. */
ir_graph *exec_probe_image(int64_t samples, int64_t channels, int64_t size,
                           fs_err *err);

/* What tasks of a plan compute, one after the other from {0} on, of all roles.
 */
typedef struct exec_piece_at {
    int32_t role, task;
} exec_piece_at;
bool exec_next_piece(const ir_graph *graph, const plan *p, exec_piece_at *at,
                     exec_probe_piece *out);
/* Of a task that computes. */
exec_probe_piece exec_task_piece(const ir_graph *graph, const plan *p,
                                 const plan_role *role, const plan_task *task);
/* Ready but for its data; what may lie blocked does. */
void exec_piece_call(const exec_probe_piece *piece, kernel_call *call);
/* What, form and work of a piece; false: it takes no time. */
bool exec_piece_sample(const exec_probe_piece *piece, hw_sample *out);

/* One product of (m, k) and (k, n). */
ir_graph *exec_probe_matmul(int64_t m, int64_t k, int64_t n);

/* What a meeting of all ranks takes beyond their work, who outnumber the cores:
 * a sample of pass 0. Every rank calls both. */
hw_sample exec_turn_sample(const exec_world *world, fs_arena *arena);
double exec_probe_turn(exec_world *world); /* its seconds */
/* What firing a task takes beside the task, on this rank alone. */
fs_status exec_probe_firing(fs_err *err, double *seconds);
/* Samples of meetings as a figure of the group, and points. */
void exec_probe_take_turn(hw_sample *samples, int32_t n, hw_group *group,
                          fs_arena *arena);

#endif
