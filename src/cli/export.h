/* Formats of `export` that have files of their own. */
#ifndef FS_CLI_EXPORT_H
#define FS_CLI_EXPORT_H

#include "cli/cli.h"

/* --to chakra: FS_INVALID of a model, of options that say nothing of a trace,
 * where the output is no folder. */
fs_status cli_check_chakra(cli *c);
fs_status cli_export_chakra(cli *c, const cli_plan *p);

#endif
