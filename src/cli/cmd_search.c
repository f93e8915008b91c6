#include "config.h"
#include "cli/cli.h"

#include "cli/making.h"
#include "cli/make_plan.h"

#include <string.h>

/* A part that both its flag and --fix name must be the same in both. */
static fs_status add_flags(cli *c, search_recipe *recipe)
{
    int64_t count = c->args.micro_batches;
    const char *schedule = c->args.schedule;
    if (count == 0 || count > 1000000)
        return fs_fail(&c->err, FS_INVALID,
                       "--micro-batches must be 1 to 1000000");
    if (count > 0 && recipe->micro_batches && recipe->micro_batches != count)
        return fs_fail(&c->err, FS_INVALID,
                       "--micro-batches %d and --fix micro-batches=%d "
                       "contradict each other; give one",
                       (int)count, recipe->micro_batches);
    if (schedule && recipe->schedule && strcmp(schedule, recipe->schedule))
        return fs_fail(&c->err, FS_INVALID,
                       "--schedule %s and --fix schedule=%s contradict each "
                       "other; give one",
                       schedule, recipe->schedule);
    if (schedule && cli_several_schedules(schedule) &&
        (recipe->schedule || recipe->interleave > 0))
        return fs_fail(
            &c->err, FS_INVALID,
            "--schedule %s chooses the schedule, and how many stages "
            "a group of devices has; --fix fixes one of these "
            "(--schedule 1f1b,interleaved:4 names some)",
            schedule);
    if (count > 0)
        recipe->micro_batches = (int32_t)count;
    return schedule && !cli_several_schedules(schedule)
               ? search_recipe_set("schedule", schedule, c->arena, &c->err,
                                   recipe)
               : FS_OK;
}

fs_status cli_cmd_search(cli *c)
{
    search_recipe recipe = search_recipe_free();
    if (c->args.fix)
        FS_TRY(search_recipe_parse(c->args.fix, c->arena, &c->err, &recipe));
    FS_TRY(add_flags(c, &recipe));
    return cli_make_plan(c, recipe, false);
}
