/* Which of an op's kernels a piece gets: the one that was the fastest on this
 * machine, where figures say so, else the first that pays. */
#ifndef FS_EXEC_VARIANTS_H
#define FS_EXEC_VARIANTS_H

#include "exec/calibrate.h"
#include "kernels/kernel.h"

/* Inference: an answer has the same bits whatever batch it comes in, and
 * wherever it stands there. */
static inline bool exec_wants_alike(const ir_graph *graph)
{
    return graph->loss < 0;
}

/* kernel_choose of "auto", but for what figures (NULL: none) say of the piece:
 * of its form, or else of forms of as much work. */
fs_status exec_choose_kernel(const hw_device *figures,
                             const exec_probe_piece *piece,
                             const kernel_call *call, fs_err *err,
                             const kernel **out, void **state);
/* The name of the kernel that a piece of an op of several gets; NULL: it has no
 * choice. */
const char *exec_variant_of(const hw_device *figures,
                            const exec_probe_piece *piece, exec_chosen_by *by);

#endif
