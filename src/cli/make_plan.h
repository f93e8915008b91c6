/* From a model, a cluster and constraints to a proven, simulated plan file:
 * what `search` and `plan` share. */
#ifndef FS_CLI_MAKE_PLAN_H
#define FS_CLI_MAKE_PLAN_H

#include "cli/cli.h"
#include "search/recipe/recipe.h"

/* Runs the whole command: graphs for the micro-batch counts that the recipe
 * allows, search, lowering, proof, simulation, file, table. `by_hand`: the
 * recipe is complete and no bound is claimed. */
fs_status cli_make_plan(cli *c, search_recipe recipe, bool by_hand);

/* The same without a word, for a command of another kind: the plan stands in
 * `file`. FS_INVALID or FS_NO: the recipe cannot be had of this model, and why;
 * FS_FAULT: what was made is not sound. */
fs_status cli_plan_by_hand(cli *c, const plan_origin *origin,
                           const search_recipe *recipe, hw_cluster *cluster,
                           const char *file);
/* Likewise, but a search of what the command's arguments leave open. */
fs_status cli_plan_by_search(cli *c, const plan_origin *origin,
                             hw_cluster *cluster, const char *file);
/* Likewise, but the plan is used while it is there, and neither proven nor
 * written; `roughly`: its arenas are no lower than the devices want.
 * `formula_s`: an iteration by the formula. */
typedef fs_status cli_plan_use(cli *c, const cli_plan *p, double formula_s,
                               void *ctx);
fs_status cli_plan_unwritten(cli *c, const plan_origin *origin,
                             const search_recipe *recipe, hw_cluster *cluster,
                             bool roughly, cli_plan_use *use, void *ctx);

#endif
