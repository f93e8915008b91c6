#include "config.h"
#include "cli/cli.h"

#include "cli/make_plan.h"

/* A part of the recipe that was said as a flag. */
static fs_status take(cli *c, const char *key, const char *said,
                      search_recipe *recipe)
{
    if (!said)
        return FS_OK;
    return search_recipe_set(key, said, c->arena, &c->err, recipe);
}

static fs_status take_count(cli *c, const char *key, int64_t said,
                            search_recipe *recipe)
{
    if (said < 0)
        return FS_OK;
    return take(c, key, fs_printf(c->arena, "%lld", (long long)said), recipe);
}

fs_status cli_cmd_plan(cli *c)
{
    const cli_args *a = &c->args;
    search_recipe r = search_recipe_free();
    FS_TRY(take(c, "dp", a->dp, &r));
    FS_TRY(take(c, "tp", a->tp, &r));
    FS_TRY(take_count(c, "pp", a->pp, &r));
    FS_TRY(take(c, "cp", a->cp, &r));
    FS_TRY(take(c, "ep", a->ep, &r));
    FS_TRY(take_count(c, "zero", a->zero, &r));
    FS_TRY(take_count(c, "micro-batches", a->micro_batches, &r));
    FS_TRY(take_count(c, "micro-batch", a->micro_batch, &r));
    FS_TRY(take_count(c, "interleave", a->interleave, &r));
    FS_TRY(take(c, "layers", a->layers, &r));
    FS_TRY(take(c, "schedule", a->schedule, &r));
    r.seq_parallel = a->seq_parallel;
    return cli_make_plan(c, r, true);
}
