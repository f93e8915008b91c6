#include "config.h"
#include "cli/cli.h"

#include "cli/cluster.h"
#include "exec/exec.h"

#include <string.h>

/* As a rank. Alone it measures the device; two or more measure the links and
 * add them to the file that the first pass wrote. */
static fs_status measure(cli *c, exec_world *world)
{
    hw_cluster *cluster;
    const char *file = c->args.output;
    bool first = exec_world_size(world) == 1;
    if (!file)
        return fs_fail(&c->err, FS_INVALID, "a rank measures into -o FILE");
    if (first)
        FS_TRY(hw_cluster_probe(1, c->arena, &c->err, &cluster));
    else
        FS_TRY(hw_cluster_open(file, c->data_dir, c->arena, &c->err, &cluster));
    FS_TRY(exec_probe(world, cluster, c->arena, &c->err));
    hw_cluster_finish(cluster);
    if (exec_world_rank(world) != 0)
        return FS_OK;
    return hw_cluster_save(cluster, file, &c->err);
}

static fs_status as_rank(cli *c)
{
    FS_TRY(exec_world_open(&c->err, &c->world));
    c->quiet = true;
    return exec_world_agree(c->world, measure(c, c->world), &c->err);
}

/* What was said is true when it is said. */
static void tell(cli *c, int32_t n_points)
{
    json_object_set_new(c->result, "points", json_integer(n_points));
    json_object_set_new(c->result, "file",
                        fs_json_string(c->args.output ? c->args.output : ""));
    cli_say(c, "%d points measured%s\n", n_points,
            c->db ? "; `local` now means these figures" : "");
    if (c->args.output)
        cli_say(c, "written to %s\n", c->args.output);
}

fs_status cli_cmd_calibrate(cli *c)
{
    if (c->args.n_operands > 1 ||
        (c->args.n_operands == 1 && strcmp(c->args.operands[0], "local") != 0))
        return fs_fail(&c->err, FS_INVALID,
                       "calibrate measures this machine: "
                       "its only operand is `local`");
    if (cli_am_rank())
        return as_rank(c);
    FS_TRY(cli_check_ranks(c));
    if (c->args.output)
        FS_TRY(cli_check_writable(c, c->args.output));
    FS_TRY(cli_begin(c, NULL, "local"));
    hw_cluster *cluster;
    FS_TRY(cli_probe(c, &cluster));
    FS_TRY(cli_remember_local(c, cluster));
    cli_see_local(c, cluster);
    if (c->args.output)
        FS_TRY(hw_cluster_save(cluster, c->args.output, &c->err));
    tell(c, cluster->groups[0].device.n_points);
    return FS_OK;
}
