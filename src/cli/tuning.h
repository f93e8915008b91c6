#ifndef FS_CLI_TUNING_H
#define FS_CLI_TUNING_H

#include "cli/cli.h"

#include "ir/train.h"

/* FS_INVALID for a constant that this optimizer has no use for: it would have
 * no effect. `why` follows the optimizer's name in the message. */
fs_status cli_check_tuning(cli *c, const char *optimizer, const char *why);
/* What was said, NAN for the rest, in `room`; *out is NULL of a plan that
 * trains nothing. */
fs_status cli_tuning(cli *c, const plan_origin *o, ir_train_options *room,
                     const ir_train_options **out);
enum { CLI_TUNING_WORDS = 12 };
/* The same as words of a command line; returns how many. */
int cli_tuning_words(cli *c, const char **words);

#endif
