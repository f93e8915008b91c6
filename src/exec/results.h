/* What comes of a rank's run: values, outputs, losses, times. */
#ifndef FS_EXEC_RESULTS_H
#define FS_EXEC_RESULTS_H

#include "exec/rank.h"

/* Where a tensor that lives for a step or longer is kept: its variable's
 * register, or the out-register of its producer. Task -1 for variables;
 * register -1 when this role does not hold it. */
void exec_rank_find(const exec_rank *rank, int32_t tensor, int32_t *task,
                    int32_t *reg, ir_nd_sbp *sbp);
/* After the last step: fetched tensors whole on every rank; the digest of the
 * parameters. */
fs_status exec_rank_fetch(exec_rank *rank, fs_err *err);
uint64_t exec_rank_digest(exec_rank *rank);
/* What is watched, from the ranks that know it to all. */
void exec_rank_share_watched(exec_rank *rank);

/* Which of the graph's outputs the node's task gives away here: exec_task. */
int32_t exec_rank_output_of(const exec_rank *rank, const ir_node *node);
/* What its register holds, to the sink; counted into the digest in the last
 * step. */
void exec_rank_give(exec_rank *rank, int32_t stream, const exec_task *t);

/* Steps run here of which something is kept: the last ones. */
static inline int64_t exec_rank_kept(const exec_rank *rank)
{
    return rank->steps < rank->kept ? rank->steps : rank->kept;
}

/* How long a step took; of one without an end the last `kept` - 1 are known. */
static inline int64_t exec_rank_step_ns(const exec_rank *rank, int64_t step)
{
    const int64_t *end = rank->step_end_ns;
    return end[step & rank->ring] -
           (step ? end[(step - 1) & rank->ring] : rank->begin_ns);
}

/* Losses: agreed before the run who has them; told to rank 0 as steps end,
 * when it reports progress; given to all ranks after the run. */
void exec_rank_plan_losses(exec_rank *rank);
void exec_rank_tell_losses(exec_rank *rank);
/* On rank 0, what part of a step that takes long is done. */
void exec_rank_tell_part(const exec_rank *rank, int64_t now_ns);
void exec_rank_share_losses(exec_rank *rank);

/* Medians of the tasks' samples -> out->demand (collective). */
plan_timing *exec_rank_timing(exec_rank *rank);
/* Appends the other ranks' events to rank 0's trace; transfers start there
 * with their last member. */
void exec_rank_gather_trace(exec_rank *rank);

#endif
