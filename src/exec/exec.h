/* The runtime: one rank runs the tasks of its role. The same actor protocol as
 * the simulator, dense state, one polling thread that runs kernels and
 * progresses communication, a loader thread that reads data ahead.
 *
 * A device is one core: kernels run on one thread, however many cores the host
 * has, so that what was measured once holds for any number of ranks. */
#ifndef FS_EXEC_EXEC_H
#define FS_EXEC_EXEC_H

#include "exec/data.h"
#include "exec/saving.h"
#include "ir/train.h"
#include "plan/algorithms.h"
#include "plan/actor.h"
#include "plan/timing.h"

/* ---- the world: who else is there ---- */
typedef struct exec_world exec_world;
/* Joins the ranks it was started under (mpirun), or is alone. */
fs_status exec_world_open(fs_err *err, exec_world **out);
void exec_world_close(exec_world *world);
int32_t exec_world_rank(const exec_world *world);
int32_t exec_world_size(const exec_world *world);
/* Cores that ranks of this rank's host may use in all. */
int32_t exec_world_cores(const exec_world *world);
/* Each value summed over all ranks; every rank calls it. */
void exec_world_sum(exec_world *world, int64_t *values, int64_t n);
bool exec_started_by_mpirun(void);
/* "Open MPI v4.1.4", in any process. */
void exec_mpi_version(char *text, size_t room);
/* The number that mpirun gave this process, before any call of MPI; 0 alone. */
int32_t exec_launched_rank(void);
/* All ranks call it: all go on, or all fail with what the first rank that
 * failed found (its number before the text, unless it is rank 0). */
fs_status exec_world_agree(exec_world *world, fs_status mine, fs_err *err);
/* Ends the whole job: prints "rank R: task: cause" once, status 3. */
void exec_world_abort(exec_world *world, const char *cause)
    __attribute__((noreturn));

/* Calls `run` for n ranks that are threads of this process, and waits for all.
 * A fault ends the process. */
typedef void exec_thread_fn(exec_world *world, void *ctx);
fs_status exec_world_threads(int32_t n, exec_thread_fn *run, void *ctx,
                             fs_err *err);

/* ---- running ---- */
/* Takes the outputs of the graph but its loss, whole, of each micro-batch of
 * each step, on the first rank of the stage that has one: `output` counts in
 * graph->outputs, `data` is row-major and lives until it returns. FS_FAULT ends
 * the job with its message. */
typedef struct exec_sink {
    void *ctx;
    fs_status (*take)(void *ctx, int32_t output, int64_t step,
                      int32_t micro_batch, const void *data, fs_err *err);
} exec_sink;

/* Steps of a run that its data ends. Of its last EXEC_STEPS_KEPT steps alone
 * there are times, so that it may go on for ever; what is one value per step
 * (losses, progress, what is watched) or is made after a last one that is known
 * (a trace, checkpoints, tensors that are fetched) it cannot have. */
#define EXEC_ENDLESS (INT64_MAX >> 20)
enum { EXEC_STEPS_KEPT = 1024 }; /* a power of two */

typedef struct exec_options {
    int64_t steps;             /* with those that a checkpoint has behind it;
                                  EXEC_ENDLESS: until data->over */
    int64_t first_step;        /* of inference: steps that were done before, as
                                  a checkpoint has them behind it */
    const exec_saving *saving; /* NULL: none */
    const exec_sink *sink;     /* of this rank; NULL: nobody wants outputs */
    const char *weights;       /* first values: weights.h; NULL: drawn */
    uint64_t seed;
    const char *kernels;       /* "auto", "reference" */
    const plan_choice *choice; /* how all-reduces are done; NULL: directly */
    const hw_device *figures;  /* measured on this machine: of an op's kernels
                                  that which was the fastest runs, where
                                  several were measured. NULL, on any rank:
                                  the first that pays */
    const ir_train_options *tuning; /* values of the optimizer's in the place
                                       of the graph's, NAN: its own; NULL: all
                                       its own */
    int32_t warmup;                 /* steps left out of step_s statistics */
    double stall_s;     /* least time without progress that ends the job;
                           0: 30 */
    bool keep_process;  /* a fault of a lone rank is returned (FS_FAULT);
                           else it ends the process */
    bool checks;        /* after each act, that no stream sleeps which may go
                           on; else now and then */
    bool stop_early;    /* end soon after a loss that is not finite: no
                           trace then, and nothing may be fetched */
    plan_trace *trace;  /* events of the last step, or NULL: all ranks' on
                           rank 0, this rank's on the others; given on
                           every rank or on none */
    int32_t trace_ends; /* of its first and its last so many micro-batches;
                           0: of all (plan_trace_ends) */
    /* After the last step: values of these tensors, gathered whole on every
     * rank (per-step tensors and variables; of the last
     * micro-batch those that are marked as outputs). */
    int32_t n_fetch;
    const int32_t *fetch; /* tensor ids */
    void **fetched;       /* [n_fetch], filled with arena memory */
    /* After every step, also of a run that is stopped early: the values of
     * these scalars, which an op makes once per step. */
    int32_t n_watch;
    const int32_t *watch; /* tensor ids */
    /* After every step; FS_FAULT ends the job with its message. */
    fs_status (*progress)(void *ctx, int64_t step, double loss, double step_s,
                          fs_err *err);
    /* What part of a step that takes more than a second is done on rank 0,
     * several times a second; NULL. */
    void (*within)(void *ctx, int64_t step, double part);
    void *progress_ctx; /* called on rank 0 */
} exec_options;

typedef struct exec_result {
    int64_t steps; /* run here, up to the first loss that is not finite when
                      stopped early; of a run without an end, the last ones */
    int64_t first_step; /* done before: by the checkpoint, as was said, or not
                           kept */
    double *earlier;    /* [first_step] losses of these, NULL: not known */
    double *losses;     /* [steps], equal on every rank */
    double *step_s;     /* [steps]: slowest rank */
    double **watched;   /* [n_watch][steps], equal on every rank */
    double step_median_s, step_min_s, step_max_s;
    int64_t *peak_bytes;       /* [ranks] allocated arenas */
    int64_t *touched_bytes;    /* [ranks] of them, pages that were ever used */
    int64_t *process_bytes;    /* [ranks] most that the process had resident:
                                  programs, libraries, message buffers too */
    int64_t *workspace_bytes;  /* [ranks] what is stated beside the arena before
                                  the first step: exec_rank_workspace */
    int64_t *rss_growth_bytes; /* [ranks] what the process had resident at most
                                  (at the end, if it once had more) above what
                                  it had before its rank was made */
    uint64_t weights_digest;   /* of parameters after the last step; the same
                                  for every plan that gives the same bits; 0
                                  when the training diverged */
    uint64_t outputs_digest;   /* likewise of the outputs of the last step, but
                                  the loss; 0: there are none */
    bool by_figures;           /* every rank had options->figures */
    plan_timing *measured;     /* per role and task: median isolated seconds */
} exec_result;

/* Every rank calls it with the same plan, data and options (they are compared
 * at the start).
 * A fault on any rank ends the job; a rank that makes no progress for
 * max(stall_s, 50 steps) says which of its tasks wait for what, and ends the
 * job. */
fs_status exec_run(exec_world *world, const ir_graph *graph,
                   const hw_cluster *cluster, const plan *p,
                   const exec_data *data, const exec_options *options,
                   fs_arena *arena, fs_err *err, exec_result *out);

/* The GPU module: opened on demand. Says what it found in `text` ("2 devices",
 * "built without CUDA", "no driver: ..."); returns the number of devices. */
int32_t exec_cuda_devices(char *text, size_t room);

#endif
