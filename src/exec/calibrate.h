/* Measuring this machine: kernels alone, links, what runs took; samples as the
 * figures of a device. */
#ifndef FS_EXEC_CALIBRATE_H
#define FS_EXEC_CALIBRATE_H

#include "exec/exec.h"
#include "hw/samples.h"

/* A node as a plan cuts it: sig on mesh; all zero: whole. */
typedef struct exec_probe_piece {
    const ir_graph *graph;
    int32_t node;
    ir_nd_sig sig;
    ir_mesh mesh;
} exec_probe_piece;

typedef struct exec_probe_options {
    int32_t passes;  /* over all that is measured: a shared host's speed drifts
                        within seconds */
    int32_t n_known; /* measured before: not measured again; rank 0's count */
    const hw_sample *known;
    /* What has been measured since, on rank 0; NULL. */
    fs_status (*found)(void *ctx, const hw_sample *samples, int32_t n,
                       fs_err *err);
    void *ctx;
} exec_probe_options;
/* Fills the figures of a probed cluster that need measuring. Called by as many
 * ranks as there are cores: every kernel, on all of them at the same time, as a
 * step has them (points, memory bandwidth, launch overhead), then the link
 * between the first two. By more: what a meeting of ranks costs that outnumber
 * the cores. Figures not measured stay as they are. */
fs_status exec_probe(exec_world *world, const exec_probe_options *options,
                     hw_cluster *cluster, fs_arena *arena, fs_err *err);
/* All samples of a machine (their order changes) as the figures of a device.
 * What was measured within steps counts, where there is such; of several passes
 * the mean without the slowest. */
void exec_probe_take(hw_sample *samples, int32_t n, hw_group *group,
                     fs_arena *arena);
/* A run's durations: of each op's forms, each collective's bytes. */
void exec_list_samples(const ir_graph *graph, const plan *p,
                       const plan_timing *measured, int32_t pass,
                       fs_arena *arena, hw_sample **out, int32_t *n);
/* "oneDNN 2.7.1, Open MPI 4.1.4": what a measurement hangs on beside the
 * machine. */
const char *exec_versions(fs_arena *arena);

#endif
