/* run's checkpoints: what was asked for, and what is told of them. */
#ifndef FS_CLI_CHECKPOINTS_H
#define FS_CLI_CHECKPOINTS_H

#include "cli/cli.h"

#include "exec/exec.h"

enum { CLI_CHECKPOINT_WORDS = 9 };

/* FS_INVALID: a flag without --checkpoint, a folder that cannot be written or
 * is itself a checkpoint, or (with --resume) one whose newest checkpoint leaves
 * nothing of `steps`. */
fs_status cli_check_checkpoints(cli *c, int64_t steps);
/* FS_INVALID: --weights is nothing of the kind, or of another network. A file
 * that has more is warned of. */
fs_status cli_check_weights(cli *c, const ir_graph *graph);
/* Without --weights a network that answers may have learnt nothing: told, once
 * by whoever starts the ranks. */
void cli_tell_drawn(const cli *c, const cli_plan *p);
/* And they become the graph's. */
fs_status cli_give_weights(cli *c, ir_graph *graph);
/* Of a training as it was planned. */
fs_status cli_saving(cli *c, const plan_origin *o, exec_saving *out);
/* The same as words of a command line; returns how many. */
int cli_checkpoint_words(cli *c, const char **words);
/* Into the JSON object and onto the screen: where the run began, and the
 * newest checkpoint that it leaves. */
void cli_tell_checkpoints(cli *c, const exec_result *result);

#endif
