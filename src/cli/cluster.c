/* Clusters: files, strings, and this host, probed once. */
#include "config.h"
#include "cli/cluster.h"

#include "cli/calibrate.h"

#include "base/clock.h"
#include "cli/guard.h"
#include "cli/ranks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool cli_is_cluster(const char *spec)
{
    size_t n = strlen(spec);
    return strcmp(spec, "local") == 0 || strchr(spec, ':') ||
           (n > 5 && strcmp(spec + n - 5, ".json") == 0);
}

enum { MOST_LOCAL = 4096 }; /* that one host is seen as */

fs_status cli_check_ranks(cli *c)
{
    int64_t ranks = c->args.ranks;
    if (ranks == 0 || ranks > MOST_LOCAL)
        return fs_fail(&c->err, FS_INVALID, "--ranks must be 1 to %d",
                       MOST_LOCAL);
    return FS_OK;
}

/* The figures are of the host; how many ranks share it is the caller's. */
void cli_see_local(const cli *c, hw_cluster *cluster)
{
    int64_t ranks = c->args.ranks;
    hw_group *group = &cluster->groups[0];
    double whole = group->device.memory_bytes * group->devices_per_node;
    if (ranks < 1)
        ranks = group->cores_per_node;
    group->devices_per_node = (int32_t)ranks;
    group->device.memory_bytes = floor(whole / (double)ranks);
    cluster->name = "local";
    hw_cluster_finish(cluster);
}

static fs_status from_cache(cli *c, const char *key, hw_cluster **out)
{
    const char *text;
    if (!c->db)
        return FS_NO;
    FS_TRY(store_cache_get(c->db, key, c->arena, &c->err, &text));
    json_t *root = json_loads(text, 0, NULL);
    fs_err ignored = {0}; /* an unreadable cache is measured again */
    fs_status status = FS_NO;
    if (root &&
        hw_cluster_from_json(key, root, c->arena, &ignored, out) == FS_OK)
        status = FS_OK;
    json_decref(root);
    return status;
}

static const char *cache_key(cli *c, const hw_cluster *cluster)
{
    return fs_printf(c->arena, "probe:%s",
                     cli_machine_of(c, cluster).fingerprint);
}

fs_status cli_remember_local(cli *c, const hw_cluster *cluster)
{
    if (!c->db)
        return FS_OK;
    const char *key = cache_key(c, cluster);
    json_t *root = hw_cluster_to_json(cluster);
    char *text = json_dumps(root, JSON_REAL_PRECISION(17));
    fs_status status = store_cache_put(c->db, key, text, &c->err);
    free(text);
    json_decref(root);
    return status;
}

static fs_status open_local(cli *c, hw_cluster **out)
{
    hw_cluster *now; /* cores and memory as they are today */
    FS_TRY(hw_cluster_probe(1, c->arena, &c->err, &now));
    fs_status status = from_cache(c, cache_key(c, now), out);
    if (status == FS_NO) {
        FS_TRY(cli_probe(c, CLI_FEW_PASSES, out));
        status = cli_remember_local(c, *out);
    }
    FS_TRY(status);
    cli_see_local(c, *out);
    return FS_OK;
}

fs_status cli_cluster_open(cli *c, const char *spec, hw_cluster **out)
{
    if (!spec)
        return fs_fail(&c->err, FS_INVALID, "%s wants --cluster C", c->command);
    FS_TRY(cli_check_ranks(c));
    if (strcmp(spec, "local") == 0)
        return open_local(c, out);
    if (c->args.ranks > 0)
        return fs_fail(&c->err, FS_INVALID,
                       "--ranks goes with the cluster `local` only");
    return hw_cluster_open(spec, c->data_dir, c->arena, &c->err, out);
}

fs_status cli_memory_limit(cli *c, const hw_cluster *cluster, int64_t *out)
{
    char said[32], had[32];
    int64_t bytes;
    double most = 0;
    fs_status status = cli_parse_bytes(c->args.memory, &c->err, &bytes);
    if (status != FS_OK)
        fs_err_prefix(&c->err, "--memory");
    FS_TRY(status);
    if (bytes < 1)
        return fs_fail(&c->err, FS_INVALID,
                       "--memory %s: less than a byte limits nothing",
                       c->args.memory);
    for (int32_t g = 0; g < cluster->n_groups; g++)
        most = fmax(most, cluster->groups[g].device.memory_bytes);
    if ((double)bytes > most)
        return fs_fail(&c->err, FS_INVALID,
                       "--memory %s: %s is more than the %s of a device of %s",
                       c->args.memory, fs_human_bytes(said, (double)bytes),
                       fs_human_bytes(had, most), cluster->name);
    *out = bytes;
    return FS_OK;
}
