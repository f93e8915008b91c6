/* `run` of a plan of inference: where its outputs go. */
#ifndef FS_CLI_OUTPUTS_H
#define FS_CLI_OUTPUTS_H

#include "cli/cli.h"
#include "exec/exec.h"

/* Before anything is run. FS_INVALID: an option has no effect on such a plan,
 * or --outputs on another; the folder, or what there is room for, will not do.
 */
fs_status cli_outputs_check(cli *c, const cli_plan *p, int64_t steps);
/* The file of the i-th output of the graph, in the arena; NULL after the last
 * or without --outputs. */
const char *cli_outputs_file(const cli *c, const ir_graph *graph, int32_t i);

/* On each rank: files of those outputs that it gives away, of which `first`
 * steps are there. Each stands under its own name once all ranks ran to the
 * end. */
typedef struct cli_outputs cli_outputs;
cli_outputs *cli_outputs_open(cli *c, const cli_plan *p, int64_t first,
                              int64_t steps);
/* NULL: nobody wants them. */
const exec_sink *cli_outputs_sink(const cli_outputs *outputs);
fs_status cli_outputs_close(cli_outputs *outputs, fs_status status,
                            fs_err *err);

/* The keys outputs[], outputs_digest; lines for people. */
void cli_outputs_json(cli *c, const cli_plan *p, const exec_result *result,
                      int64_t steps);
void cli_outputs_tell(cli *c, const cli_plan *p);
/* Can ranks go on with what others began? Not once it has its own names, or was
 * taken away. */
bool cli_outputs_are_begun(const cli *c, const cli_plan *p);
/* What ranks that failed left of them. */
void cli_outputs_remove(const cli *c, const cli_plan *p);

#endif
