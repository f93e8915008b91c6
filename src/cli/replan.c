#include "config.h"
#include "cli/replan.h"

#include "base/clock.h"
#include "cli/guard.h"
#include "cli/make_plan.h"

#include <string.h>

/* Seconds: ranks that could train wait meanwhile. */
#define SEARCH_S 5.0

/* As the command `search`, with nothing said but what the plan says. */
static fs_status search(cli *c, const cli_plan *of, hw_cluster *cluster,
                        const char *file)
{
    cli own = cli_within(c);
    plan_origin origin = of->model.origin;
    own.args.time_limit = SEARCH_S;
    origin.again = "";
    origin.n_kept = 0;
    const fs_status status = cli_plan_by_search(&own, &origin, cluster, file);
    if (status != FS_OK)
        c->err = own.err;
    json_decref(own.result);
    return status;
}

static fs_status place(cli *c, int32_t ranks, const char **file)
{
    const char *name = fs_printf(c->arena, "plan-%d-ranks.json", ranks);
    if (!c->args.checkpoint)
        return cli_scratch_file(c, name, file);
    *file = fs_printf(c->arena, "%s/%s", c->args.checkpoint, name);
    return FS_OK;
}

fs_status cli_replan(cli *c, const cli_plan *of, cli_plan *out,
                     const char **file)
{
    const int64_t begin_ns = fs_now_ns();
    const hw_cluster *cluster = of->cluster;
    fs_status status = FS_NO;
    if (cluster->n_groups != 1 || cluster->groups[0].nodes != 1)
        return fs_fail(&c->err, FS_FAULT,
                       "--replan is for ranks of one host, the plan's are of "
                       "%s",
                       cluster->name);
    for (int32_t n = cluster->n_devices - 1; n >= 1 && status != FS_OK; n--) {
        c->err = (fs_err){0};
        FS_TRY(place(c, n, file));
        status = search(
            c, of, hw_cluster_part(cluster, 1, n, "local", c->arena), *file);
        if (status == FS_FAULT)
            return status;
    }
    FS_TRY(status);
    FS_TRY(cli_plan_open(c, *file, out));
    const int32_t n = out->cluster->n_devices;
    fs_warn("a plan for %d rank%s was found in %.1f s%s%s", n,
            n == 1 ? "" : "s", 1e-9 * (double)(fs_now_ns() - begin_ns),
            c->args.checkpoint ? ": " : "", c->args.checkpoint ? *file : "");
    return FS_OK;
}
