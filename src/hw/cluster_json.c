/* Cluster files: reading with errors that name file and field, writing. */
#include "config.h"
#include "hw/parts.h"

#include "base/hash.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { HW_FORMAT_VERSION = 1 };

/* What a figure can be: generous for any machine, and such that no sum or
 * quotient of them is infinite. */
typedef struct range {
    double low, high;
    bool or_zero;
} range;
static const range wait_s = {1e-15, 10, true};
static const range rate_bps = {1e3, 1e18, false};
static const range peak_flops = {1e6, 1e21, true};
static const range size_bytes = {1, 1e18, false};
static const range fraction = {1e-3, 1, false};
static const range point_work = {1, 1e24, false};
static const range point_s = {1e-12, 1e6, false};
static const range share = {1e-9, 10, true};
static const range depth = {1, 1e6, true};
static const range price = {1e-6, 1e6, false};
static const range slowdown = {1, 100, false};

static fs_status read_figure(const fs_json *in, const char *key,
                             const range *within, fs_err *err, double *out)
{
    double value;
    FS_TRY(fs_json_number(in, key, err, &value));
    bool zero = within->or_zero && value == 0;
    if (!zero && !(value >= within->low && value <= within->high))
        return fs_json_fail(in, key, err, "is %g, must be %sfrom %g to %g",
                            value, within->or_zero ? "0 or " : "", within->low,
                            within->high);
    *out = value;
    return FS_OK;
}

fs_status hw_read_bps(const fs_json *in, const char *key, fs_err *err,
                      double *out)
{
    return read_figure(in, key, &rate_bps, err, out);
}

fs_status hw_read_latency(const fs_json *in, const char *key, fs_err *err,
                          double *out)
{
    return read_figure(in, key, &wait_s, err, out);
}

static fs_status read_link_at(const fs_json *in, const char *const *keys,
                              fs_arena *arena, fs_err *err, hw_link *out)
{
    FS_TRY(fs_json_keys(in, keys, err));
    FS_TRY(fs_json_strdup(in, "name", arena, err, &out->name));
    FS_TRY(read_figure(in, "latency_s", &wait_s, err, &out->latency_s));
    FS_TRY(
        read_figure(in, "bandwidth_bps", &rate_bps, err, &out->bandwidth_bps));
    out->on_cores = false;
    if (fs_json_has(in, "on_cores"))
        FS_TRY(fs_json_bool(in, "on_cores", err, &out->on_cores));
    return FS_OK;
}

fs_status hw_read_link(const fs_json *in, const char *key, fs_arena *arena,
                       fs_err *err, hw_link *out)
{
    static const char *const keys[] = {"name",     "latency_s", "bandwidth_bps",
                                       "on_cores", "source",    NULL};
    fs_json link;
    FS_TRY(fs_json_object(in, key, err, &link));
    return read_link_at(&link, keys, arena, err, out);
}

fs_status hw_read_outer(const fs_json *in, fs_arena *arena, fs_err *err,
                        hw_cluster *out)
{
    static const char *const keys[] = {"name",     "latency_s", "bandwidth_bps",
                                       "on_cores", "source",    "nics_per_node",
                                       NULL};
    fs_json link;
    int64_t nics = 1;
    FS_TRY(fs_json_object(in, "outer", err, &link));
    FS_TRY(read_link_at(&link, keys, arena, err, &out->outer));
    if (fs_json_has(&link, "nics_per_node"))
        FS_TRY(fs_json_int(&link, "nics_per_node", 1, 1024, err, &nics));
    out->nics_per_node = (int32_t)nics;
    return FS_OK;
}

/* 16 hex digits; 0: it is not there. */
static fs_status read_hex(const fs_json *in, const char *key, fs_err *err,
                          uint64_t *out)
{
    const char *text;
    *out = 0;
    if (!fs_json_has(in, key))
        return FS_OK;
    FS_TRY(fs_json_text(in, key, err, &text));
    *out = strtoull(text, NULL, 16);
    if (strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16 ||
        *out == 0)
        return fs_json_fail(in, key, err,
                            "is \"%.40s\", must be 16 hex digits, not 0", text);
    return FS_OK;
}

enum { MOST_POINTS = 100000 }; /* of a device, and variants likewise */

static fs_status read_point(const fs_json *list, size_t i, fs_arena *arena,
                            fs_err *err, hw_point *out)
{
    static const char *const keys[] = {
        "what", "work", "seconds", "deviation_s", "count", "form", NULL};
    fs_json point;
    int64_t count = 0;
    FS_TRY(fs_json_item(list, i, err, &point));
    FS_TRY(fs_json_keys(&point, keys, err));
    FS_TRY(fs_json_strdup(&point, "what", arena, err, &out->what));
    FS_TRY(read_figure(&point, "work", &point_work, err, &out->work));
    FS_TRY(read_figure(&point, "seconds", &point_s, err, &out->seconds));
    if (fs_json_has(&point, "deviation_s"))
        FS_TRY(read_figure(&point, "deviation_s", &wait_s, err,
                           &out->deviation_s));
    if (fs_json_has(&point, "count"))
        FS_TRY(fs_json_int(&point, "count", 0, INT32_MAX, err, &count));
    out->count = (int32_t)count;
    return read_hex(&point, "form", err, &out->form);
}

static fs_status read_points(const fs_json *in, fs_arena *arena, fs_err *err,
                             hw_device *out)
{
    fs_json list;
    if (!fs_json_has(in, "points"))
        return FS_OK;
    FS_TRY(fs_json_array(in, "points", err, &list));
    size_t n = json_array_size(list.value);
    if (n > MOST_POINTS)
        return fs_fail(err, FS_INVALID, "%s: %s has %zu points, more than %d",
                       in->file, list.where, n, MOST_POINTS);
    out->points = fs_new(arena, hw_point, n);
    for (size_t i = 0; i < n; i++)
        FS_TRY(read_point(&list, i, arena, err, &out->points[i]));
    out->n_points = (int32_t)n;
    return FS_OK;
}

static fs_status read_variant(const fs_json *list, size_t i, fs_arena *arena,
                              fs_err *err, hw_variant *out)
{
    static const char *const keys[] = {"what",  "name",    "form",
                                       "work",  "seconds", "deviation_s",
                                       "count", NULL};
    fs_json one;
    int64_t count;
    FS_TRY(fs_json_item(list, i, err, &one));
    FS_TRY(fs_json_keys(&one, keys, err));
    FS_TRY(fs_json_strdup(&one, "what", arena, err, &out->what));
    FS_TRY(fs_json_strdup(&one, "name", arena, err, &out->name));
    FS_TRY(read_hex(&one, "form", err, &out->form));
    if (!out->form)
        return fs_json_fail(&one, "form", err, "is missing");
    FS_TRY(read_figure(&one, "work", &point_work, err, &out->work));
    FS_TRY(read_figure(&one, "seconds", &point_s, err, &out->seconds));
    FS_TRY(read_figure(&one, "deviation_s", &wait_s, err, &out->deviation_s));
    FS_TRY(fs_json_int(&one, "count", 0, INT32_MAX, err, &count));
    out->count = (int32_t)count;
    return FS_OK;
}

static fs_status read_variants(const fs_json *in, fs_arena *arena, fs_err *err,
                               hw_device *out)
{
    fs_json list;
    if (!fs_json_has(in, "variants"))
        return FS_OK;
    FS_TRY(fs_json_array(in, "variants", err, &list));
    const size_t n = json_array_size(list.value);
    if (n > MOST_POINTS)
        return fs_fail(err, FS_INVALID, "%s: %s has %zu variants, more than %d",
                       in->file, list.where, n, MOST_POINTS);
    out->variants = fs_new(arena, hw_variant, n);
    for (size_t i = 0; i < n; i++)
        FS_TRY(read_variant(&list, i, arena, err, &out->variants[i]));
    out->n_variants = (int32_t)n;
    return FS_OK;
}

/* Both or none. */
static fs_status read_price(const fs_json *in, fs_arena *arena, fs_err *err,
                            hw_device *out)
{
    if (!fs_json_has(in, "usd_per_h") && !fs_json_has(in, "price_source"))
        return FS_OK;
    FS_TRY(read_figure(in, "usd_per_h", &price, err, &out->usd_per_h));
    return fs_json_strdup(in, "price_source", arena, err, &out->price_source);
}

/* Both or none. */
static fs_status read_tiles(const fs_json *in, fs_err *err, hw_device *out)
{
    int64_t units;
    if (!fs_json_has(in, "units") && !fs_json_has(in, "ramp_depth"))
        return FS_OK;
    FS_TRY(fs_json_int(in, "units", 1, 1 << 20, err, &units));
    out->units = (int32_t)units;
    return read_figure(in, "ramp_depth", &depth, err, &out->ramp_depth);
}

fs_status hw_read_device(const fs_json *in, fs_arena *arena, fs_err *err,
                         hw_device *out)
{
    static const char *const keys[] = {"name",
                                       "memory_bytes",
                                       "memory_bps",
                                       "fp32_flops",
                                       "tf32_flops",
                                       "bf16_flops",
                                       "fp16_flops",
                                       "matmul_efficiency",
                                       "launch_s",
                                       "source",
                                       "memory_efficiency",
                                       "points",
                                       "usd_per_h",
                                       "price_source",
                                       "units",
                                       "ramp_depth",
                                       "fp32_efficiency",
                                       "overlap_slowdown",
                                       "uses_tf32",
                                       "reduce_efficiency",
                                       "unaligned_efficiency",
                                       "variants",
                                       NULL};
    fs_json dev;
    FS_TRY(fs_json_object(in, "device", err, &dev));
    FS_TRY(fs_json_keys(&dev, keys, err));
    FS_TRY(fs_json_strdup(&dev, "name", arena, err, &out->name));
    if (!out->name[0])
        return fs_json_fail(&dev, "name", err, "is empty");
    FS_TRY(read_figure(&dev, "memory_bytes", &size_bytes, err,
                       &out->memory_bytes));
    FS_TRY(read_figure(&dev, "memory_bps", &rate_bps, err, &out->memory_bps));
    FS_TRY(read_figure(&dev, "fp32_flops", &peak_flops, err, &out->fp32_flops));
    FS_TRY(read_figure(&dev, "tf32_flops", &peak_flops, err, &out->tf32_flops));
    FS_TRY(read_figure(&dev, "bf16_flops", &peak_flops, err, &out->bf16_flops));
    out->fp16_flops = out->bf16_flops;
    if (fs_json_has(&dev, "fp16_flops"))
        FS_TRY(read_figure(&dev, "fp16_flops", &peak_flops, err,
                           &out->fp16_flops));
    FS_TRY(read_figure(&dev, "matmul_efficiency", &fraction, err,
                       &out->matmul_efficiency));
    if (fs_json_has(&dev, "reduce_efficiency"))
        FS_TRY(read_figure(&dev, "reduce_efficiency", &fraction, err,
                           &out->reduce_efficiency));
    if (fs_json_has(&dev, "unaligned_efficiency"))
        FS_TRY(read_figure(&dev, "unaligned_efficiency", &fraction, err,
                           &out->unaligned_efficiency));
    if (fs_json_has(&dev, "uses_tf32"))
        FS_TRY(fs_json_bool(&dev, "uses_tf32", err, &out->uses_tf32));
    if (out->uses_tf32 && out->tf32_flops <= 0)
        return fs_json_fail(&dev, "uses_tf32", err, "wants tf32_flops above 0");
    if (fs_json_has(&dev, "fp32_efficiency"))
        FS_TRY(read_figure(&dev, "fp32_efficiency", &fraction, err,
                           &out->fp32_efficiency));
    if (fs_json_has(&dev, "overlap_slowdown"))
        FS_TRY(read_figure(&dev, "overlap_slowdown", &slowdown, err,
                           &out->overlap_slowdown));
    FS_TRY(read_figure(&dev, "memory_efficiency", &fraction, err,
                       &out->memory_efficiency));
    FS_TRY(read_figure(&dev, "launch_s", &wait_s, err, &out->launch_s));
    FS_TRY(fs_json_strdup(&dev, "source", arena, err, &out->source));
    FS_TRY(read_tiles(&dev, err, out));
    FS_TRY(read_price(&dev, arena, err, out));
    if (out->fp32_flops + out->tf32_flops + out->bf16_flops + out->fp16_flops <=
        0)
        return fs_fail(err, FS_INVALID,
                       "%s: %s has no peak: one of fp32_flops, tf32_flops, "
                       "bf16_flops, fp16_flops must be above 0",
                       in->file, dev.where);
    FS_TRY(read_variants(&dev, arena, err, out));
    return read_points(&dev, arena, err, out);
}

/* Of measured collectives: devices are as many as they are; a host may have
 * been measured as more ranks than it is seen as here. */
static int32_t most_ranks(const hw_group *group)
{
    if (group->cores_per_node > 0)
        return HW_MAX_DEVICES;
    return group->wiring.devices > group->devices_per_node
               ? group->wiring.devices
               : group->devices_per_node;
}

static fs_status read_group(const fs_json *list, size_t i, fs_arena *arena,
                            fs_err *err, hw_group *out)
{
    static const char *const keys[] = {"nodes",          "devices_per_node",
                                       "cores_per_node", "turn_s",
                                       "jitter",         "process_bytes",
                                       "firing_s",       "device",
                                       "inner",          "memory",
                                       "wiring",         "collectives",
                                       "in_switch",      NULL};
    fs_json in;
    int64_t nodes, devices, cores = 0;
    FS_TRY(fs_json_item(list, i, err, &in));
    FS_TRY(fs_json_keys(&in, keys, err));
    FS_TRY(fs_json_int(&in, "nodes", 1, HW_MAX_DEVICES, err, &nodes));
    FS_TRY(
        fs_json_int(&in, "devices_per_node", 1, HW_MAX_DEVICES, err, &devices));
    if (fs_json_has(&in, "process_bytes"))
        FS_TRY(read_figure(&in, "process_bytes", &size_bytes, err,
                           &out->process_bytes));
    if (fs_json_has(&in, "jitter"))
        FS_TRY(read_figure(&in, "jitter", &share, err, &out->jitter));
    if (fs_json_has(&in, "firing_s"))
        FS_TRY(read_figure(&in, "firing_s", &wait_s, err, &out->firing_s));
    if (fs_json_has(&in, "turn_s"))
        FS_TRY(read_figure(&in, "turn_s", &wait_s, err, &out->turn_s));
    if (fs_json_has(&in, "cores_per_node"))
        FS_TRY(
            fs_json_int(&in, "cores_per_node", 0, HW_MAX_DEVICES, err, &cores));
    out->nodes = (int32_t)nodes;
    out->devices_per_node = (int32_t)devices;
    out->cores_per_node = (int32_t)cores;
    FS_TRY(hw_read_device(&in, arena, err, &out->device));
    FS_TRY(hw_read_link(&in, "inner", arena, err, &out->inner));
    FS_TRY(hw_read_link(&in, "memory", arena, err, &out->memory));
    FS_TRY(
        hw_read_wiring(&in, out->devices_per_node, arena, err, &out->wiring));
    FS_TRY(hw_read_collectives(&in, most_ranks(out), arena, err, out));
    return hw_read_reduction(&in, err, &out->in_switch);
}

static fs_status check_devices(const hw_cluster *cluster, const char *file,
                               fs_err *err)
{
    int64_t n = 0;
    for (int32_t g = 0; g < cluster->n_groups; g++)
        n += (int64_t)cluster->groups[g].nodes *
             cluster->groups[g].devices_per_node;
    if (n == 0)
        return fs_fail(err, FS_INVALID, "%s: the cluster has zero devices",
                       file);
    if (n > HW_MAX_DEVICES)
        return fs_fail(err, FS_INVALID,
                       "%s: %lld devices, at most %d are handled", file,
                       (long long)n, HW_MAX_DEVICES);
    return FS_OK;
}

static fs_status read_cluster(const fs_json *in, fs_arena *arena, fs_err *err,
                              hw_cluster *out)
{
    static const char *const keys[] = {"version", "made_from", "host",
                                       "machine", "facts",     "groups",
                                       "outer",   "fabric",    NULL};
    fs_json list;
    int64_t version;
    uint64_t machine;
    const char *made_from; /* for people */
    if (!json_is_object(in->value))
        return fs_fail(err, FS_INVALID, "%s: a cluster must be an object",
                       in->file);
    if (fs_json_has(in, "device") && fs_json_has(in, "node"))
        return fs_fail(err, FS_INVALID,
                       "%s is a device file: give it as NODESxDEVICES:NAME, "
                       "as in 2x8:a100-sxm4-80g",
                       in->file);
    FS_TRY(fs_json_int(in, "version", HW_FORMAT_VERSION, HW_FORMAT_VERSION, err,
                       &version));
    FS_TRY(fs_json_keys(in, keys, err));
    if (fs_json_has(in, "made_from"))
        FS_TRY(fs_json_strdup(in, "made_from", arena, err, &made_from));
    if (fs_json_has(in, "host"))
        FS_TRY(fs_json_strdup(in, "host", arena, err, &out->host));
    FS_TRY(read_hex(in, "machine", err, &machine));
    if (machine)
        FS_TRY(fs_json_strdup(in, "machine", arena, err, &out->machine));
    if (fs_json_has(in, "facts"))
        FS_TRY(fs_json_strdup(in, "facts", arena, err, &out->facts));
    FS_TRY(fs_json_array(in, "groups", err, &list));
    size_t n = json_array_size(list.value);
    if (n > HW_MAX_DEVICES)
        return fs_fail(err, FS_INVALID, "%s: %zu groups are too many", in->file,
                       n);
    out->n_groups = (int32_t)n;
    out->groups = fs_new(arena, hw_group, n ? n : 1);
    for (size_t i = 0; i < n; i++)
        FS_TRY(read_group(&list, i, arena, err, &out->groups[i]));
    FS_TRY(check_devices(out, in->file, err));
    FS_TRY(hw_read_outer(in, arena, err, out));
    return hw_read_fabric(in, err, &out->fabric);
}

fs_status hw_cluster_from_json(const char *file, json_t *json, fs_arena *arena,
                               fs_err *err, hw_cluster **out)
{
    hw_cluster *cluster = fs_new(arena, hw_cluster, 1);
    cluster->name = fs_strdup(arena, file);
    fs_json in = fs_json_root(cluster->name, json);
    FS_TRY(read_cluster(&in, arena, err, cluster));
    hw_cluster_finish(cluster);
    *out = cluster;
    return FS_OK;
}

static fs_status open_file(const char *path, fs_arena *arena, fs_err *err,
                           hw_cluster **out)
{
    json_t *root;
    FS_TRY(fs_json_load(path, err, &root));
    fs_status status = hw_cluster_from_json(path, root, arena, err, out);
    json_decref(root);
    return status;
}

/* Behind NODESxDEVICES: of a part, or all of it. */
static const char *behind_part(const char *spec, int64_t *nodes,
                               int64_t *devices)
{
    char *end;
    *nodes = *devices = 0;
    if (!isdigit((unsigned char)spec[0]))
        return spec;
    const int64_t n = strtoll(spec, &end, 10);
    if (*end != 'x' || !isdigit((unsigned char)end[1]))
        return spec;
    const int64_t d = strtoll(end + 1, &end, 10);
    if (*end != ':')
        return spec;
    *nodes = n;
    *devices = d;
    return end + 1;
}

const char *hw_cluster_file(const char *spec)
{
    int64_t nodes, devices;
    const size_t n = strlen(spec);
    if (n <= 5 || strcmp(spec + n - 5, ".json") != 0)
        return NULL;
    return behind_part(spec, &nodes, &devices);
}

static fs_status open_part(const char *spec, fs_arena *arena, fs_err *err,
                           hw_cluster **out)
{
    int64_t nodes, devices;
    const char *file = behind_part(spec, &nodes, &devices);
    FS_TRY(open_file(file, arena, err, out));
    if (file == spec)
        return FS_OK;
    const hw_group *group = &(*out)->groups[0];
    if ((*out)->n_groups != 1)
        return fs_fail(err, FS_INVALID,
                       "%s: a part is of a cluster of one kind of devices, %s "
                       "has %d groups",
                       spec, file, (*out)->n_groups);
    if (nodes < 1 || nodes > group->nodes || devices < 1 ||
        devices > group->devices_per_node)
        return fs_fail(err, FS_INVALID, "%s: %s has %d nodes of %d devices",
                       spec, file, group->nodes, group->devices_per_node);
    *out = hw_cluster_part(*out, (int32_t)nodes, (int32_t)devices,
                           fs_strdup(arena, spec), arena);
    return FS_OK;
}

fs_status hw_cluster_open(const char *spec, const char *data_dir,
                          fs_arena *arena, fs_err *err, hw_cluster **out)
{
    if (hw_cluster_file(spec))
        return open_part(spec, arena, err, out);
    return hw_synthetic_open(spec, data_dir, arena, err, out);
}

static json_t *link_json(const hw_link *link)
{
    json_t *out = json_object();
    fs_json_set_text(out, "name", link->name);
    fs_json_set_real(out, "latency_s", link->latency_s);
    fs_json_set_real(out, "bandwidth_bps", link->bandwidth_bps);
    fs_json_set_bool(out, "on_cores", link->on_cores);
    return out;
}

static json_t *point_json(const hw_point *point)
{
    json_t *out = json_object();
    char form[17];
    fs_json_set_text(out, "what", point->what);
    fs_json_set_real(out, "work", point->work);
    fs_json_set_real(out, "seconds", point->seconds);
    if (point->count) {
        fs_json_set_real(out, "deviation_s", point->deviation_s);
        fs_json_set_int(out, "count", point->count);
    }
    if (point->form) {
        fs_hex(point->form, form);
        fs_json_set_text(out, "form", form);
    }
    return out;
}

static json_t *variant_json(const hw_variant *variant)
{
    json_t *out = json_object();
    char form[17];
    fs_hex(variant->form, form);
    fs_json_set_text(out, "what", variant->what);
    fs_json_set_text(out, "name", variant->name);
    fs_json_set_text(out, "form", form);
    fs_json_set_real(out, "work", variant->work);
    fs_json_set_real(out, "seconds", variant->seconds);
    fs_json_set_real(out, "deviation_s", variant->deviation_s);
    fs_json_set_int(out, "count", variant->count);
    return out;
}

static json_t *variants_json(const hw_device *device)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < device->n_variants; i++)
        json_array_append_new(list, variant_json(&device->variants[i]));
    return list;
}

static json_t *device_json(const hw_device *device, bool figures)
{
    json_t *out = json_object(), *points = json_array();
    fs_json_set_text(out, "name", device->name);
    /* Bytes are whole; ranges keep them below 2^60. */
    fs_json_set_int(out, "memory_bytes", (int64_t)device->memory_bytes);
    fs_json_set_real(out, "memory_bps", device->memory_bps);
    fs_json_set_real(out, "fp32_flops", device->fp32_flops);
    fs_json_set_real(out, "tf32_flops", device->tf32_flops);
    fs_json_set_real(out, "bf16_flops", device->bf16_flops);
    if (device->fp16_flops != device->bf16_flops)
        fs_json_set_real(out, "fp16_flops", device->fp16_flops);
    fs_json_set_real(out, "matmul_efficiency", device->matmul_efficiency);
    if (device->fp32_efficiency > 0)
        fs_json_set_real(out, "fp32_efficiency", device->fp32_efficiency);
    if (device->units) {
        fs_json_set_int(out, "units", device->units);
        fs_json_set_real(out, "ramp_depth", device->ramp_depth);
    }
    if (device->unaligned_efficiency > 0)
        fs_json_set_real(out, "unaligned_efficiency",
                         device->unaligned_efficiency);
    if (device->reduce_efficiency > 0)
        fs_json_set_real(out, "reduce_efficiency", device->reduce_efficiency);
    if (device->uses_tf32)
        json_object_set_new(out, "uses_tf32", json_true());
    if (device->overlap_slowdown > 0)
        fs_json_set_real(out, "overlap_slowdown", device->overlap_slowdown);
    fs_json_set_real(out, "memory_efficiency", device->memory_efficiency);
    fs_json_set_real(out, "launch_s", device->launch_s);
    fs_json_set_text(out, "source", device->source);
    if (device->usd_per_h > 0 && !figures) {
        fs_json_set_real(out, "usd_per_h", device->usd_per_h);
        fs_json_set_text(out, "price_source", device->price_source);
    }
    for (int32_t i = 0; i < device->n_points; i++)
        json_array_append_new(points, point_json(&device->points[i]));
    json_object_set_new(out, "points", points);
    if (device->n_variants)
        json_object_set_new(out, "variants", variants_json(device));
    return out;
}

static json_t *group_json(const hw_group *group, bool figures)
{
    json_t *out = json_object();
    fs_json_set_int(out, "nodes", group->nodes);
    fs_json_set_int(out, "devices_per_node", group->devices_per_node);
    fs_json_set_int(out, "cores_per_node", group->cores_per_node);
    fs_json_set_real(out, "turn_s", group->turn_s);
    if (group->process_bytes > 0)
        fs_json_set_real(out, "process_bytes", group->process_bytes);
    if (group->firing_s > 0)
        fs_json_set_real(out, "firing_s", group->firing_s);
    if (group->jitter > 0)
        fs_json_set_real(out, "jitter", group->jitter);
    json_object_set_new(out, "device", device_json(&group->device, figures));
    json_object_set_new(out, "inner", link_json(&group->inner));
    json_object_set_new(out, "memory", link_json(&group->memory));
    if (group->wiring.kind != HW_WIRED_SWITCH)
        json_object_set_new(out, "wiring", hw_wiring_json(&group->wiring));
    if (group->in_switch.bandwidth_bps > 0)
        json_object_set_new(out, "in_switch",
                            hw_reduction_json(&group->in_switch));
    if (group->n_collectives)
        json_object_set_new(out, "collectives", hw_collectives_json(group));
    return out;
}

json_t *hw_cluster_json(const hw_cluster *cluster, bool figures)
{
    json_t *out = json_object(), *groups = json_array();
    fs_json_set_int(out, "version", HW_FORMAT_VERSION);
    if (!figures) {
        fs_json_set_text(out, "made_from", cluster->name);
        if (cluster->host)
            fs_json_set_text(out, "host", cluster->host);
        if (cluster->machine)
            fs_json_set_text(out, "machine", cluster->machine);
        if (cluster->facts)
            fs_json_set_text(out, "facts", cluster->facts);
    }
    for (int32_t g = 0; g < cluster->n_groups; g++)
        json_array_append_new(groups, group_json(&cluster->groups[g], figures));
    json_object_set_new(out, "groups", groups);
    json_t *outer = link_json(&cluster->outer);
    int32_t nics = cluster->nics_per_node > 0 ? cluster->nics_per_node : 1;
    fs_json_set_int(outer, "nics_per_node", nics);
    json_object_set_new(out, "outer", outer);
    if (cluster->fabric.rails || cluster->fabric.nodes_per_leaf > 0 ||
        cluster->fabric.in_switch.bandwidth_bps > 0)
        json_object_set_new(out, "fabric", hw_fabric_json(&cluster->fabric));
    return out;
}

json_t *hw_cluster_to_json(const hw_cluster *cluster)
{
    return hw_cluster_json(cluster, false);
}

fs_status hw_cluster_save(const hw_cluster *cluster, const char *path,
                          fs_err *err)
{
    json_t *root = hw_cluster_to_json(cluster);
    fs_status status = fs_json_save(root, path, err);
    json_decref(root);
    return status;
}
