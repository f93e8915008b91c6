#include "config.h"
#include "cli/cli.h"

#include "cli/make_plan.h"

static fs_status take(cli *c, const char *flag, int64_t said, int32_t *out)
{
    if (said < 0)
        return FS_OK;
    if (said == 0 || said > 1000000)
        return fs_fail(&c->err, FS_INVALID, "--%s must be 1 to 1000000", flag);
    *out = (int32_t)said;
    return FS_OK;
}

fs_status cli_cmd_plan(cli *c)
{
    const cli_args *a = &c->args;
    search_recipe recipe = search_recipe_free();
    FS_TRY(take(c, "dp", a->dp, &recipe.dp));
    FS_TRY(take(c, "tp", a->tp, &recipe.tp));
    FS_TRY(take(c, "pp", a->pp, &recipe.pp));
    FS_TRY(take(c, "micro-batches", a->micro_batches, &recipe.micro_batches));
    if (a->zero > 3)
        return fs_fail(&c->err, FS_INVALID, "--zero must be 0 to 3");
    if (a->micro_batch == 0)
        return fs_fail(&c->err, FS_INVALID, "--micro-batch must be at least 1");
    if (a->micro_batch > 0)
        recipe.micro_batch = a->micro_batch;
    recipe.zero = a->zero < 0 ? 0 : (int32_t)a->zero;
    recipe.schedule = a->schedule;
    return cli_make_plan(c, recipe, true);
}
