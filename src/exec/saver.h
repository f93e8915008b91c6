/* Checkpoints while the run goes on. A thread writes each variable straight
 * from its register as soon as the update of that step has made it: it is one
 * reader more of that piece, so that only the next update of this variable
 * waits, and nothing is copied. Rank 0 joins what the ranks have written to a
 * checkpoint once all of it is on the disk.
 *
 * Asynchronous checkpoints with a copy: Check-N-Run, NSDI 2022; CheckFreq, FAST
 * 2021. */
#ifndef FS_EXEC_SAVER_H
#define FS_EXEC_SAVER_H

#include "exec/rank.h"

typedef struct exec_saver exec_saver;

/* On every rank, once it has its memory and knows its first step; NULL in *out
 * where no checkpoints are wanted. Collective: rank 0 makes the folder. */
fs_status exec_saver_open(exec_rank *rank, uint64_t data_digest, fs_err *err,
                          exec_saver **out);
/* Is a checkpoint of the state behind this step (of this process, from 0)
 * wanted? */
bool exec_saver_is_due(const exec_saver *saver, int64_t step);
/* The task has made the variables of this step, which is due, for the last time
 * in the step. */
void exec_saver_made(exec_saver *saver, const plan_task *task, int64_t step);
/* What is written may be made anew; steps that have ended are told to the
 * thread. Returns false when it could not write: *cause says why. */
bool exec_saver_poll(exec_saver *saver, const char **cause);
/* Has it work in hand that goes on? A disk may take minutes for what others
 * have written. */
bool exec_saver_moves(exec_saver *saver, int64_t now_ns);
/* After the last step: waits until all is written, and on rank 0 committed.
 * False as with exec_saver_poll. */
bool exec_saver_finish(exec_saver *saver, const char **cause);
void exec_saver_close(exec_saver *saver); /* NULL is allowed */

/* Variables from the newest checkpoint of less than options->steps steps that
 * is whole; those that are not are warned of on rank 0. Collective. Sets
 * rank->first_step and rank->earlier; 0 steps where there is none. FS_INVALID:
 * it is of another network, or all are damaged. */
fs_status exec_rank_restore(exec_rank *rank, const exec_saving *saving,
                            uint64_t data_digest, fs_err *err);

/* First values of parameters and buffers from what exec_weights_open takes, in
 * the place of those that were drawn. */
fs_status exec_rank_take_weights(exec_rank *rank, const char *path,
                                 fs_err *err);

#endif
