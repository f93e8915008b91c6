/* Which of an op's kernels run, and why. */
#ifndef FS_CLI_VARIANTS_H
#define FS_CLI_VARIANTS_H

#include "cli/cli.h"

/* `variants[]` {`op`, `node`, `shapes`, `flop`, `tasks`, `chosen`, `by`:
 * "times" of this form, of a "bucket" of as much work, "order", `timed[]`
 * {`name`, `seconds`, `deviation_s`, `count`}} of each form that has a choice;
 * a table unless it is JSON. */
fs_status cli_explain_variants(cli *c, const cli_plan *p);
/* The same into a run's object: {`op`, `form`, `chosen`, `by`}; whether its
 * ranks chose by figures is theirs to say. Of a run by `--kernels reference`
 * nothing. */
void cli_note_variants(cli *c, const cli_plan *p, bool by_figures);

#endif
