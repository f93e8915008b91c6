#include "config.h"
#include "cli/cli.h"

#include "exec/exec.h"

#include <string.h>

/* As a rank: measures, and rank 0 writes. */
static fs_status measure(cli *c, exec_world *world)
{
    hw_cluster *cluster;
    int32_t ranks = exec_world_size(world);
    FS_TRY(hw_cluster_probe(ranks, c->arena, &c->err, &cluster));
    FS_TRY(exec_probe(world, cluster, c->arena, &c->err));
    hw_cluster_finish(cluster);
    if (exec_world_rank(world) != 0)
        return FS_OK;
    int32_t points = cluster->groups[0].device.n_points;
    json_object_set_new(c->result, "points", json_integer(points));
    if (!c->args.output)
        return FS_OK;
    json_object_set_new(c->result, "file", json_string(c->args.output));
    return hw_cluster_save(cluster, c->args.output, &c->err);
}

static fs_status as_rank(cli *c)
{
    exec_world *world;
    FS_TRY(exec_world_open(&c->err, &world));
    c->quiet = true;
    fs_status status = measure(c, world);
    exec_world_close(world);
    return status;
}

fs_status cli_cmd_calibrate(cli *c)
{
    if (c->args.n_operands > 1 ||
        (c->args.n_operands == 1 && strcmp(c->args.operands[0], "local") != 0))
        return fs_fail(&c->err, FS_INVALID, "calibrate measures this machine: "
                       "its only operand is `local`");
    if (cli_am_rank())
        return as_rank(c);
    FS_TRY(cli_begin(c, NULL, "local"));
    hw_cluster *cluster;
    FS_TRY(hw_cluster_probe(1, c->arena, &c->err, &cluster));
    int32_t ranks = cluster->groups[0].cores_per_node > 1 ? 2 : 1;
    FS_TRY(cli_probe(c, ranks, &cluster));
    const hw_device *device = &cluster->groups[0].device;
    json_object_set_new(c->result, "points", json_integer(device->n_points));
    json_object_set_new(c->result, "file",
                        json_string(c->args.output ? c->args.output : ""));
    FS_TRY(cli_remember_local(c, cluster));
    cli_say(c, "%d points measured; `local` now means these figures\n",
            device->n_points);
    if (!c->args.output)
        return FS_OK;
    cli_say(c, "written to %s\n", c->args.output);
    return hw_cluster_save(cluster, c->args.output, &c->err);
}
