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

typedef struct exec_probe_plan {
    const ir_graph *graph;
    const plan *plan;
} exec_probe_plan;

typedef struct exec_probe_options {
    int32_t n_plans; /* of these the kernels of ops that have several, and
                        nothing else; 0: usual workloads */
    const exec_probe_plan *plans;
    int32_t first_pass; /* rank 0's counts */
    int32_t passes;  /* over all that is measured: a shared host's speed drifts
                        within seconds */
    int32_t n_known; /* measured before: not measured again; rank 0's count */
    const hw_sample *known;
    /* What has been measured since, on rank 0; NULL. */
    fs_status (*found)(void *ctx, const hw_sample *samples, int32_t n,
                       fs_err *err);
    /* What is being measured, several times a second, on rank 0; NULL. Passes
     * of this run count from 0. */
    void (*tell)(void *ctx, int32_t pass, const char *what);
    void *ctx;
} exec_probe_options;
/* Fills the figures of a probed cluster that need measuring. Called by as many
 * ranks as there are cores: every kernel, on all of them at the same time, as a
 * step has them (points, memory bandwidth, launch overhead), then the link
 * between the first two. By more: what a meeting of ranks costs that outnumber
 * the cores. Figures not measured stay as they are, as do kernels of more bytes
 * than a rank's share of half of the host's memory. */
fs_status exec_probe(exec_world *world, const exec_probe_options *options,
                     hw_cluster *cluster, fs_arena *arena, fs_err *err);
/* All samples of a machine (their order changes) as the figures of a device.
 * What was measured within steps counts, where there is such; of several passes
 * the mean without the slowest. */
void exec_probe_take(hw_sample *samples, int32_t n, hw_group *group,
                     fs_arena *arena);
/* What ran: with figures, or NULL, as exec_options has them. */
typedef struct exec_ran {
    const ir_graph *graph;
    const plan *plan;
    const hw_device *figures;
    const plan_timing *measured;
    int32_t pass;
} exec_ran;
/* Of the kernels that a run chooses, `said` being exec_options.kernels: where
 * they are others, so are the bits. */
uint64_t exec_kernels_digest(const exec_ran *of, const char *said);
/* The first that pays; the fastest of this form; of forms of as much work. */
typedef enum exec_chosen_by {
    EXEC_BY_ORDER,
    EXEC_BY_TIMES,
    EXEC_BY_BUCKET
} exec_chosen_by;
/* Of a form of an op that has several kernels: the one that it gets. */
typedef struct exec_kernel {
    const char *what, *name;
    uint64_t form;
    double work;     /* flop */
    int32_t node;    /* the first of the graph that has the form */
    int32_t n_tasks; /* of all roles that have it */
    int32_t n_in;
    ir_shape in[IR_MAX_IN]; /* a piece's */
    exec_chosen_by by;
    int32_t n_timed;         /* of this form: */
    const hw_variant *timed; /* the fastest first */
} exec_kernel;
typedef FS_VEC(exec_kernel) exec_kernels;
/* `measured` and `pass` of what ran are not looked at. */
void exec_list_kernels(const exec_ran *of, fs_arena *arena, exec_kernels *out);
/* Its durations: of each op's forms, each collective's bytes. */
void exec_list_samples(const exec_ran *ran, fs_arena *arena, hw_sample **out,
                       int32_t *n);
/* "oneDNN 2.7.1, Open MPI 4.1.4": what a measurement hangs on beside the
 * machine. */
const char *exec_versions(fs_arena *arena);

#endif
