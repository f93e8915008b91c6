/* What a training run brings back: from this process, or from the ranks that
 * it started, through a file. */
#ifndef FS_CLI_OUTCOME_H
#define FS_CLI_OUTCOME_H

#include "cli/cli.h"
#include "exec/exec.h"

typedef struct cli_outcome {
    int64_t steps;
    int32_t ranks;
    exec_result result;
    plan_trace trace; /* the last step, all ranks */
} cli_outcome;

fs_status cli_outcome_write(const cli_outcome *o, const plan *p,
                            const char *path, fs_err *err);
fs_status cli_outcome_read(const char *path, const plan *p, fs_arena *arena,
                           fs_err *err, cli_outcome *out);

#endif
