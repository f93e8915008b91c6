/* Clusters: files, strings, and this host, probed once. */
#include "config.h"
#include "cli/cluster.h"

#include "cli/calibrate.h"

#include "base/clock.h"
#include "cli/guard.h"
#include "cli/ranks.h"
#include "cost/points.h"
#include "hw/curves.h"

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
    hw_collectives_fit(group, c->arena);
    cluster->name = "local";
    hw_cluster_finish(cluster);
}

/* Of this machine, whatever the key says. */
static fs_status from_cache(cli *c, const char *key, hw_cluster **out)
{
    const char *text;
    bool own = false;
    if (!c->db)
        return FS_NO;
    FS_TRY(store_cache_get(c->db, key, c->arena, &c->err, &text));
    json_t *root = json_loads(text, 0, NULL);
    fs_err ignored = {0}; /* an unreadable cache is measured again */
    fs_status status = FS_NO;
    if (root &&
        hw_cluster_from_json(key, root, c->arena, &ignored, out) == FS_OK &&
        cost_points_check(*out, key, &ignored) == FS_OK)
        status = cli_machine_is_here(c, *out, &own);
    json_decref(root);
    return status == FS_OK && !own ? FS_NO : status;
}

static const char *cache_key(cli *c, const cli_machine *machine)
{
    return fs_printf(c->arena, "probe:%s", machine->fingerprint);
}

fs_status cli_remember_local(cli *c, const hw_cluster *cluster)
{
    const cli_machine *here;
    if (!c->db)
        return FS_OK;
    FS_TRY(cli_machine_here(c, &here));
    const char *key = cache_key(c, here);
    json_t *root = hw_cluster_to_json(cluster);
    char *text = json_dumps(root, JSON_REAL_PRECISION(17));
    fs_status status = store_cache_put(c->db, key, text, &c->err);
    free(text);
    json_decref(root);
    return status;
}

/* Machines of which the database has samples, the latest first. */
typedef struct others {
    cli *c;
    const cli_machine *here;
    json_t *list;
    const char *first; /* in words */
} others;

static void take_other(void *ctx, int n, const char *const *columns,
                       const char *const *values)
{
    others *o = ctx;
    (void)n;
    (void)columns;
    if (strcmp(values[0], o->here->fingerprint) == 0)
        return;
    const char *host = values[1] ? values[1] : "";
    const char *differs = cli_machine_differs(o->c, values[2], o->here);
    if (!o->first)
        o->first =
            fs_printf(o->c->arena, "%s: %s",
                      cli_machine_name(o->c->arena, values[0], host), differs);
    json_array_append_new(o->list, json_pack("{s:o, s:o, s:o}", "machine",
                                             fs_json_string(values[0]), "host",
                                             fs_json_string(host), "differs",
                                             fs_json_string(differs)));
}

/* Figures of other machines are no figures of this one: why it is measured now,
 * though the database has some. */
static void tell_not_used(cli *c, const cli_machine *here)
{
    others o = {.c = c, .here = here, .list = json_array()};
    fs_err ignored = {0};
    store_query(c->db,
                "SELECT fingerprint, host, facts FROM machines m WHERE EXISTS"
                " (SELECT 1 FROM samples s WHERE s.fingerprint = m.fingerprint)"
                " ORDER BY (SELECT max(measured) FROM samples s"
                "  WHERE s.fingerprint = m.fingerprint) DESC",
                take_other, &o, &ignored);
    const size_t n = json_array_size(o.list);
    if (n)
        fs_warn("%s: what it has was measured on %s, not on this machine, %s, "
                "and is not used (%s%s)",
                cli_db_path(c), n == 1 ? "another" : "others",
                cli_machine_name(c->arena, here->fingerprint, here->host),
                o.first,
                n > 1 ? fs_printf(c->arena, "; and %zu more", n - 1) : "");
    if (n)
        json_object_set(c->result, "machines_not_used", o.list);
    json_decref(o.list);
}

/* Nobody asked for it, and it takes long: on a terminal and elsewhere. */
static void tell_measuring(cli *c)
{
    const char *kept = c->db ? fs_printf(c->arena, "kept in %s", cli_db_path(c))
                             : "kept nowhere (--db none)";
    fs_warn("this machine is measured now, its kernels, memory and links: %d "
            "passes, about half a minute each, %s; `flowsearch calibrate` "
            "measures it at length",
            CLI_FEW_PASSES, kept);
}

static fs_status open_local(cli *c, hw_cluster **out)
{
    const cli_machine *here;
    FS_TRY(cli_machine_here(c, &here)); /* cores and memory as they are today */
    fs_status status = from_cache(c, cache_key(c, here), out);
    if (status == FS_NO) {
        if (c->db)
            tell_not_used(c, here);
        tell_measuring(c);
        FS_TRY(cli_probe(c, CLI_FEW_PASSES, out));
        status = cli_remember_local(c, *out);
    }
    FS_TRY(status);
    (*out)->host = here->host; /* that of a like host, whose file this was */
    cli_see_local(c, *out);
    return cli_machine_tell(c, "local", *out);
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
    FS_TRY(hw_cluster_open(spec, c->data_dir, c->arena, &c->err, out));
    FS_TRY(cost_points_check(*out, spec, &c->err));
    return cli_machine_tell(c, spec, *out);
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
