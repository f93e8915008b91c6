#include "config.h"
#include "cli/cli.h"

#include "cli/make_plan.h"

fs_status cli_cmd_search(cli *c)
{
    search_recipe recipe = search_recipe_free();
    if (c->args.fix)
        FS_TRY(search_recipe_parse(c->args.fix, c->arena, &c->err, &recipe));
    if (c->args.micro_batches > 0)
        recipe.micro_batches = (int32_t)c->args.micro_batches;
    if (c->args.schedule)
        recipe.schedule = c->args.schedule;
    return cli_make_plan(c, recipe, false);
}
