/* How a run goes on while it does: a line for people, a table for programs. */
#ifndef FS_CLI_PROGRESS_H
#define FS_CLI_PROGRESS_H

#include "cli/cli.h"

#include "exec/exec.h"

typedef struct cli_progress {
    int64_t steps; /* of the whole run */
    double batch, predicted_s;
    bool shows;          /* the line */
    bool infer;          /* there are no losses */
    const char *scalars; /* the table's file; NULL: none */
    FILE *file;          /* from the first step on */
    int64_t n;           /* steps seen */
    double took_s;       /* they, but the first */
} cli_progress;

/* Where somebody looks (FS_PROGRESS, the predicted seconds of a step) or
 * --scalars asks. */
void cli_progress_begin(const cli *c, const cli_plan *p, int64_t steps,
                        cli_progress *out);
/* FS_INVALID: --resume, and the file of --scalars is no table of a run. */
fs_status cli_progress_check(cli *c);
/* Calls of exec_options; NULL where nobody wants them. */
void cli_progress_ask(cli_progress *progress, exec_options *options);
/* FS_FAULT: the table could not be written to its end. */
fs_status cli_progress_end(cli_progress *progress, fs_err *err);
/* Lets ranks that are started show the line, where people look. */
fs_status cli_progress_show(cli *c, const cli_plan *p);

#endif
