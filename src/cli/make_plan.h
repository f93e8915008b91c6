/* From a model, a cluster and constraints to a proven, simulated plan file:
 * what `search` and `plan` share. */
#ifndef FS_CLI_MAKE_PLAN_H
#define FS_CLI_MAKE_PLAN_H

#include "cli/cli.h"
#include "search/recipe.h"

/* Runs the whole command: graphs for the micro-batch counts that the recipe
 * allows, search, lowering, proof, simulation, file, table. `by_hand`: the
 * recipe is complete and no bound is claimed. */
fs_status cli_make_plan(cli *c, search_recipe recipe, bool by_hand);

#endif
