/* On which machines one's own runs were, and with whose figures they were
 * predicted: runs of two machines are no repetitions of each other. */
#ifndef FS_CLI_VALIDATE_MACHINES_H
#define FS_CLI_VALIDATE_MACHINES_H

#include "cli/machine.h"

/* Of some runs; fingerprints, "": nobody says. */
typedef struct validate_where {
    const char *machine, *host;
    const char *figures;
    int32_t plans, runs;
} validate_where;

bool validate_same_where(const validate_where *a, const validate_where *b);
/* Predicted with figures of another machine: that is no error of predictions,
 * and counts in no mean. */
bool validate_misplaced(const validate_where *at);
/* Why intervals of `sim` (interval.h) leave them out; NULL: they have them. */
const char *validate_left_out(const validate_where *at);
/* " on 0123456789abcdef (host a), ..": what a network's name is marked with;
 * "": runs on this machine, predicted with its figures. */
const char *validate_mark(fs_arena *arena, const validate_where *at,
                          const cli_machine *here);
/* `machines` of the object; a table where runs were not all here. */
void validate_tell_machines(cli *c, const validate_where *at, int32_t n,
                            const cli_machine *here);

#endif
