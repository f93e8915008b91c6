/* One rank at run time: its arena, its tasks (exec/task.h), its clock and
 * record. The firing rules are plan/actor.h's; what comes of it: results.h. */
#ifndef FS_EXEC_RANK_H
#define FS_EXEC_RANK_H

#include "base/ticker.h"
#include "exec/alone.h"
#include "exec/task.h"

/* Why a run ends before its last step. */
typedef enum exec_early {
    EXEC_NOT_EARLY,
    EXEC_DIVERGES, /* a loss is not finite */
    EXEC_IS_OVER   /* its data says so */
} exec_early;

typedef struct exec_rank {
    exec_world *world;
    const ir_graph *graph;
    const plan *plan;
    const plan_role *role;
    const exec_options *options; /* their steps are those of this process */
    const exec_data *data;
    fs_arena *arena;
    int64_t first_step;       /* steps of the run before this process's */
    bool restored;            /* variables are a checkpoint's */
    double *earlier;          /* [first_step] losses of these, or NULL */
    struct exec_saver *saver; /* NULL: no checkpoints */
    int32_t coords[IR_MAX_MESH];
    const ir_mesh *mesh;
    char *memory; /* role->arena_bytes */
    plan_actors *actors;
    exec_task *tasks;    /* [role->n_tasks] */
    exec_flight *flight; /* [role->n_streams] */
    exec_alone alone;
    fs_ticker clock;
    /* Streams (plan_stream_bit): to which something has happened since they
     * could not go on; with a transfer in flight; with a load. */
    uint64_t awake, moving, loading;
    uint64_t all_awake;
    int64_t rested_ns; /* when transfers were looked after the last time */
    exec_rest *rest;   /* [role->n_streams] */
    exec_record *record;
    bool times_kernels;  /* by the rank's own time */
    int64_t traced_step; /* -1: none */
    int64_t wanted_step; /* the first of whose tasks more is wanted */
    int64_t look_ns;     /* when to look around, at the latest */
    exec_loader *loader;
    int64_t state_bytes;   /* of the runtime, before the first step */
    int64_t packing_bytes; /* most that a library takes for a kernel */
    int64_t rss_before, most_before; /* of the process, before it was made */
    int32_t n_captures;
    exec_capture *captures;
    double **watched; /* [n_watch][steps], of this rank's own knowledge */

    uint64_t outputs_digest; /* of what this rank gave away in the last step */

    /* What is kept of a step stands at `step & ring`: of all steps, or of the
     * last `kept` of a run without an end. */
    int64_t kept, ring;
    int64_t *firings; /* [kept] completed tasks of the step */
    int64_t firings_per_step;
    int64_t *step_end_ns; /* [kept] */
    int64_t steps_done, begin_ns, last_move_ns;
    const char *fault; /* what a lone rank that keeps its process met */
    double *losses;    /* [kept] means over the micro-batches so far; of
                          this rank's own knowledge until they are shared */
    int32_t loss_rank; /* who knows the losses first; -1: there are none */

    bool tells;            /* rank 0 reports steps as they end */
    int64_t told;          /* steps reported, or sent to rank 0 */
    exec_request *sent;    /* [kept] of loss_rank */
    exec_request arriving; /* of rank 0 */

    int64_t steps; /* to run, fewer once it is stopped early */
    enum {
        EXEC_WATCHING,
        EXEC_TELLING,
        EXEC_COUNTING,
        EXEC_AGREEING,
        EXEC_SETTLED
    } stopping;
    int64_t judged, last;  /* losses looked at; the agreed number of steps */
    int32_t judge_rank;    /* who knows whether it ends early; -1: nobody */
    int32_t early;         /* exec_early */
    exec_request *verdict; /* [ranks] words to and from others */
    int *verdict_index;
    int64_t *begun; /* [ranks] steps, of judge_rank */
} exec_rank;

/* Its role and its memory. */
fs_status exec_rank_begin(exec_world *world, const ir_graph *graph,
                          const plan *p, const exec_options *options,
                          fs_arena *arena, fs_err *err, exec_rank *out);
/* Places variables unless they were restored, prepares every task. */
fs_status exec_rank_open(exec_rank *rank, const exec_data *data, fs_err *err);
/* Once all ranks are open. */
void exec_rank_join(exec_rank *rank);
void exec_rank_close(exec_rank *rank);
/* Beside the arena: the state of the runtime, the workspace of its kernels, and
 * what libraries (packed operands, kernels made at run time, message buffers)
 * may take. */
int64_t exec_rank_workspace(const exec_rank *rank);
/* Of the arena: whole pages that hold something. */
int64_t exec_rank_touched_bytes(const exec_rank *rank);

/* The local piece of `tensor` under `sbp` on this rank. */
void exec_rank_piece(const exec_rank *rank, int32_t tensor,
                     const ir_nd_sbp *sbp, ir_shape *local,
                     int64_t offset[IR_MAX_RANK]);
/* Which registers lie in blocks of channels; before kernels are chosen. */
fs_status exec_rank_choose_layouts(exec_rank *rank, fs_err *err);
/* First values of constants and, unless they were restored, of variables, into
 * their registers. */
void exec_rank_place_variables(exec_rank *rank);
/* Ends the job with the task's name and the cause; a lone rank that keeps its
 * process notes them and ends its run. */
void exec_rank_fault(exec_rank *rank, const plan_task *task, const char *cause);
/* Of no task. */
void exec_rank_fail(exec_rank *rank, exec_fault fault, const char *cause);

/* Steps the actors until all are at their end. */
void exec_rank_run(exec_rank *rank);
/* Of a kernel that takes long (kernel_rest): progresses transfers. */
void exec_rank_rest(void *rest);

/* Something happened that is no message of a task. */
static inline void exec_rank_wake(exec_rank *rank)
{
    rank->awake = rank->all_awake;
}
/* Something of it went on that is no task. */
void exec_rank_moves(exec_rank *rank, int64_t now_ns);

/* exec_kernels_digest of the run, all its ranks. */
uint64_t exec_rank_kernels_digest(const exec_rank *rank);
/* Ending early, after exec_rank_plan_losses and a barrier; polled until the
 * rank is at its end and the matter settled. */
void exec_rank_plan_stop(exec_rank *rank);
void exec_rank_poll_stop(exec_rank *rank);
/* Nothing more to begin or to finish. */
bool exec_rank_at_end(const exec_rank *rank);
static inline bool exec_rank_may_begin(const exec_rank *rank, int32_t stream)
{
    return plan_actor_head(rank->actors, stream) >= 0 &&
           rank->actors->cursor[stream].step < rank->steps;
}

#endif
