/* What a training run brings back: from this process, or from the ranks that
 * it started, through a file. */
#ifndef FS_CLI_OUTCOME_H
#define FS_CLI_OUTCOME_H

#include "cli/cli.h"
#include "exec/exec.h"
#include "report/report.h"

/* What is watched: of a loss scale, the steps left out so far and the scale. */
enum { CLI_SKIPPED, CLI_SCALE, CLI_WATCHED };

typedef struct cli_outcome {
    int64_t steps; /* that were run, without those of a checkpoint */
    int32_t ranks;
    exec_result result;
    plan_trace trace; /* the last step, all ranks */
    int32_t n_fetch;  /* tensors whose values are brought back too */
    int32_t *fetch;
    void **fetched;  /* [n_fetch], whole */
    int32_t n_watch; /* scalars whose values after each step are */
    int32_t watch[CLI_WATCHED];
    json_t *told;  /* what its supervisor tells (supervise.h); NULL: nothing */
    cli_plan *ran; /* with --replan: what ran in the end; NULL: what was to */
} cli_outcome;

/* Asks for the gradients of all parameters, in the order of the tensors. */
void cli_outcome_fetch_gradients(const ir_graph *graph, fs_arena *arena,
                                 cli_outcome *out);
/* Is this process a rank of which another wants these? */
bool cli_outcome_wants_gradients(void);

/* The trace and what is fetched stand in a file beside it. */
fs_status cli_outcome_write(const cli_outcome *o, const cli_plan *p,
                            const char *path, fs_err *err);
/* Starts the plan's ranks with these words of `run`, waits, reads what they
 * bring back: what out->fetch asks for too. */
fs_status cli_outcome_of_ranks(cli *c, const cli_plan *p,
                               const char *const *words, cli_outcome *out);

/* Of the plan's graph: what its loss scale ends each step with. */
void cli_outcome_watch(const ir_graph *graph, cli_outcome *out);
/* Was the step (from 0) left out? */
bool cli_outcome_skipped(const cli_outcome *o, int64_t step);
/* Into the JSON object, the run's figures and the table that a run ends with;
 * nothing where there is no loss scale. */
void cli_outcome_tell_skipped(cli *c, const cli_outcome *o,
                              report_table *table);

#endif
