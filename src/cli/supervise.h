/* The supervisor: starts a plan's ranks, watches them, ends them when one has
 * gone or nothing moves, and starts them again where that was asked. */
#ifndef FS_CLI_SUPERVISE_H
#define FS_CLI_SUPERVISE_H

#include "cli/outcome.h"
#include "cli/watch.h"
#include "exec/recorder.h"

/* What a job is for that goes on until it is told to end. */
typedef struct cli_service {
    void *ctx;
    cli_watch_idle *idle; /* of its ranks, while they run */
    /* All ranks are at their steps, and have these records. False: it is not
     * ready for more yet, and wants to be asked again. */
    bool (*up)(void *ctx, const exec_records *records);
    /* They have ended, of this; they may be started again. */
    void (*down)(void *ctx, const char *cause);
    /* Nobody is started again: the records go. */
    void (*over)(void *ctx);
    /* INT, TERM or HUP; true: ranks will end by themselves. */
    bool (*stop)(void *ctx, int number);
} cli_service;

/* Runs `flowsearch words...` (run PLAN ...) as the plan's ranks to their end.
 * out->told gets "fault", "fault_text", "faults" and "restarts"; NULL: nobody
 * asks for them, and nothing is started again. out->ran: see there. `service`:
 * NULL for a training. */
fs_status cli_supervise(cli *c, const cli_plan *p, const char *const *words,
                        const cli_service *service, cli_outcome *out);

/* FS_INVALID: what --max-restarts and --replan cannot do, and failpoints that
 * are none, or that none of the ranks can come to in so many steps (0: there is
 * no last one). */
fs_status cli_check_faults(cli *c, int32_t ranks, int64_t steps);
/* A command that ends with 3 says of what in one word: where nobody did, by
 * its message. */
void cli_tell_fault(cli *c);
/* Of the command's message. */
exec_fault cli_fault_kind(const cli *c);

#endif
