/* Where the files lie that a plan names. A plan file keeps relative paths as
 * seen from its own folder, so that a folder with plan and model can be moved
 * and a plan opened from anywhere. */
#ifndef FS_CLI_PLACES_H
#define FS_CLI_PLACES_H

#include "cli/cli.h"

/* What the plan `file` is to say for a model or cluster named from the working
 * directory; absolute paths and what is no file stay. In the arena. */
const char *cli_place_stored(cli *c, const char *file, const char *spec);

/* The other way: *spec, read from the plan `file`, becomes a path that opens.
 * Looked for from the plan's folder, then as given from the working directory;
 * FS_INVALID names both. `what`: "model". */
fs_status cli_place_find(cli *c, const char *file, const char *what,
                         const char **spec);

#endif
