/* Plans of inference (`--mode infer`): INFER.md. */
#ifndef FS_CLI_INFER_H
#define FS_CLI_INFER_H

#include "cli/cli.h"
#include "search/recipe/recipe.h"

/* --mode; FS_INVALID: it is unknown, or an option is of training beside it. */
fs_status cli_mode(cli *c, bool *infer);
/* FS_INVALID: a part of the recipe is of training. */
fs_status cli_infer_recipe(cli *c, const search_recipe *recipe);
/* A network that was opened for inference becomes the step of m micro-batches;
 * `whole` as for cli_model_add_step. FS_NO: only one is legal. */
fs_status cli_infer_graph(cli *c, const plan_origin *o, int32_t m,
                          const cli_model *whole, ir_graph *graph);

#endif
