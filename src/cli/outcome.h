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
    int32_t n_fetch;  /* tensors whose values are brought back too */
    int32_t *fetch;
    void **fetched; /* [n_fetch], whole */
} cli_outcome;

/* Asks for the gradients of all parameters, in the order of the tensors. */
void cli_outcome_fetch_gradients(const ir_graph *graph, fs_arena *arena,
                                 cli_outcome *out);
/* Is this process a rank of which another wants these? */
bool cli_outcome_wants_gradients(void);

/* What is fetched stands in a file beside it. */
fs_status cli_outcome_write(const cli_outcome *o, const cli_plan *p,
                            const char *path, fs_err *err);
/* Starts the plan's ranks with these words of `run`, waits, reads what they
 * bring back: what out->fetch asks for too. */
fs_status cli_outcome_of_ranks(cli *c, const cli_plan *p,
                               const char *const *words, cli_outcome *out);

#endif
