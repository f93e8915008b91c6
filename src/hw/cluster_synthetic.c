/* "NODESxDEVICES:NAME[+...]": groups of nodes made from device files. */
#include "config.h"
#include "hw/devices.h"
#include "hw/parts.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A specification being read. */
typedef struct reading {
    const char *spec, *at; /* the whole, and what is still to read */
    const char *data_dir;
    fs_arena *arena;
    fs_err *err;
} reading;

static fs_status fail_unknown(const reading *r, const char *name,
                              const char *directory)
{
    const hw_names names = hw_device_names(directory, r->arena);
    if (!names.n)
        return fs_fail(r->err, FS_INVALID,
                       "unknown device '%s': no device files in %s", name,
                       directory);
    return fs_fail(r->err, FS_INVALID, "unknown device '%s'; %s", name,
                   hw_near_names(&names, name, r->arena));
}

/* A whole number from 1 to HW_MAX_DEVICES up to `stop`, which is skipped. */
static fs_status read_count(reading *r, char stop, const char *what,
                            int32_t *out)
{
    const char *p = r->at;
    int64_t value = 0;
    while (isdigit((unsigned char)*p) && value <= HW_MAX_DEVICES)
        value = value * 10 + (*p++ - '0');
    if (value > HW_MAX_DEVICES)
        return fs_fail(r->err, FS_INVALID,
                       "cluster '%s': more than %d %s are not handled", r->spec,
                       HW_MAX_DEVICES, what);
    if (p == r->at || *p != stop)
        return fs_fail(r->err, FS_INVALID,
                       "cluster '%s': %s must be a whole number before '%c', "
                       "as in 2x8:a100-sxm4-80g; or give a file NAME.json",
                       r->spec, what, stop);
    if (value == 0)
        return fs_fail(r->err, FS_INVALID,
                       "cluster '%s': zero %s, so zero devices", r->spec, what);
    r->at = p + 1;
    *out = (int32_t)value;
    return FS_OK;
}

static fs_status read_name(reading *r, char *name, size_t room)
{
    size_t n = strcspn(r->at, "+");
    if (n == 0 || n >= room)
        return fs_fail(r->err, FS_INVALID,
                       "cluster '%s': a device name of 1 to %zu characters "
                       "must follow ':'",
                       r->spec, room - 1);
    for (size_t i = 0; i < n; i++) {
        char c = r->at[i];
        if (!isalnum((unsigned char)c) && c != '-' && c != '_' && c != '.')
            return fs_fail(r->err, FS_INVALID,
                           "cluster '%s': '%c' in a device name", r->spec, c);
        name[i] = (char)tolower((unsigned char)c);
    }
    name[n] = '\0';
    r->at += n;
    return FS_OK;
}

/* Fills the group from the device file; `outer` gets the node's. */
static fs_status read_device_file(const fs_json *in, fs_arena *arena,
                                  fs_err *err, hw_group *group,
                                  hw_cluster *outer)
{
    static const char *const keys[] = {"device", "node", "outer", NULL};
    static const char *const node_keys[] = {
        "devices", "cores", "inner", "memory", "wiring", "in_switch", NULL};
    fs_json node;
    int64_t cores, devices;
    FS_TRY(fs_json_keys(in, keys, err));
    FS_TRY(hw_read_device(in, arena, err, &group->device));
    FS_TRY(fs_json_object(in, "node", err, &node));
    FS_TRY(fs_json_keys(&node, node_keys, err));
    FS_TRY(fs_json_int(&node, "cores", 0, HW_MAX_DEVICES, err, &cores));
    group->cores_per_node = (int32_t)cores;
    FS_TRY(hw_read_link(&node, "inner", arena, err, &group->inner));
    FS_TRY(hw_read_link(&node, "memory", arena, err, &group->memory));
    FS_TRY(fs_json_int(&node, "devices", 1, HW_MAX_DEVICES, err, &devices));
    FS_TRY(hw_read_reduction(&node, err, &group->in_switch));
    if (group->devices_per_node <=
        devices) /* of another node nothing is told */
        FS_TRY(hw_read_wiring(&node, (int32_t)devices, arena, err,
                              &group->wiring));
    return hw_read_outer(in, arena, err, outer);
}

static fs_status open_device(const reading *r, const char *name,
                             hw_group *group, hw_cluster *outer)
{
    struct stat seen;
    json_t *root;
    char *directory = fs_printf(r->arena, "%s/clusters", r->data_dir);
    char *path = fs_printf(r->arena, "%s/%s.json", directory, name);
    if (stat(path, &seen) != 0)
        return fail_unknown(r, name, directory);
    FS_TRY(fs_json_load(path, r->err, &root));
    fs_json in = fs_json_root(path, root);
    fs_status status = FS_OK;
    if (!json_is_object(root))
        status =
            fs_fail(r->err, FS_INVALID, "%s: a device must be an object", path);
    else
        status = read_device_file(&in, r->arena, r->err, group, outer);
    json_decref(root);
    return status;
}

/* Between nodes of different kinds the slower side counts. */
static void join_outer(hw_cluster *cluster, const hw_cluster *other, bool first)
{
    if (first) {
        cluster->outer = other->outer;
        cluster->nics_per_node = other->nics_per_node;
        return;
    }
    if (other->outer.latency_s > cluster->outer.latency_s)
        cluster->outer.latency_s = other->outer.latency_s;
    if (other->outer.bandwidth_bps < cluster->outer.bandwidth_bps) {
        cluster->outer.bandwidth_bps = other->outer.bandwidth_bps;
        cluster->outer.name = other->outer.name;
        cluster->nics_per_node = other->nics_per_node;
    }
    cluster->outer.on_cores |= other->outer.on_cores;
}

static fs_status read_group(reading *r, hw_group *group, hw_cluster *outer)
{
    char name[64];
    FS_TRY(read_count(r, 'x', "nodes", &group->nodes));
    FS_TRY(read_count(r, ':', "devices per node", &group->devices_per_node));
    FS_TRY(read_name(r, name, sizeof name));
    return open_device(r, name, group, outer);
}

fs_status hw_synthetic_open(const char *spec, const char *data_dir,
                            fs_arena *arena, fs_err *err, hw_cluster **out)
{
    hw_cluster *cluster = fs_new(arena, hw_cluster, 1);
    FS_VEC(hw_group) groups = {0};
    reading r = {spec, spec, data_dir, arena, err};
    int64_t devices = 0;
    cluster->name = fs_strdup(arena, spec);
    do {
        hw_group group = {0};
        hw_cluster outer = {0};
        FS_TRY(read_group(&r, &group, &outer));
        devices += (int64_t)group.nodes * group.devices_per_node;
        if (devices > HW_MAX_DEVICES)
            return fs_fail(err, FS_INVALID,
                           "cluster '%s': more than %d devices are not "
                           "handled",
                           spec, HW_MAX_DEVICES);
        join_outer(cluster, &outer, groups.n == 0);
        fs_push(arena, &groups, group);
    } while (*r.at++ == '+');
    cluster->n_groups = groups.n;
    cluster->groups = groups.at;
    hw_cluster_finish(cluster);
    *out = cluster;
    return FS_OK;
}
