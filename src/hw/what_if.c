#include "config.h"
#include "hw/what_if.h"

#include "base/clock.h"

#include "hw/devices.h"
#include "hw/parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* PATH*=X taken apart. */
typedef struct wish {
    const char *words, *path;
    char change; /* '*', '+' or '=' */
    double x;
} wish;

/* A number of the JSON form: its place there, and how it is called. */
typedef struct figure {
    json_t *in;
    const char *key;
    const char *group; /* "groups[0]."; "": of the whole cluster */
    const char *part;  /* "device."; "": of the group itself */
    const char *name;  /* without its unit */
} figure;
typedef FS_VEC(figure) figures;

/* ---- the numbers that there are ---- */

/* Why the number of a key is no figure to change; NULL: it is one. `name`: the
 * key, or the key without its unit. */
static const char *why_fixed(const char *name)
{
    static const char *const made_for = "cannot change under a plan, which was "
                                        "made for so many",
                             *const no_part =
                                 "has no part in a step's time, nor in "
                                 "what fits";
    static const char *const fixed[][2] = {{"nodes", "nodes"},
                                           {"devices_per_node", "devices"},
                                           {"process_bytes", "process"},
                                           {"usd_per_h", "usd"},
                                           {"version", "version"}};
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        if (strcmp(name, fixed[i][0]) == 0 || strcmp(name, fixed[i][1]) == 0)
            return i < 2 ? made_for : no_part;
    return NULL;
}

static const char *plain_name(const char *key, fs_arena *arena)
{
    static const char *const ends[] = {"_bps", "_s", "_bytes", "_per_node",
                                       NULL};
    const size_t n = strlen(key);
    if (strcmp(key, "memory_bps") == 0)
        return "memory_bandwidth";
    for (int i = 0; ends[i]; i++) {
        const size_t end = strlen(ends[i]);
        if (n > end && strcmp(key + n - end, ends[i]) == 0)
            return fs_strndup(arena, key, n - end);
    }
    return key;
}

static void add_numbers(json_t *in, const char *group, const char *part,
                        fs_arena *arena, figures *all)
{
    const char *key;
    json_t *value;
    json_object_foreach(in, key, value)
    {
        const char *own = fs_strdup(arena, key);
        if (json_is_number(value) && !why_fixed(key))
            fs_push(arena, all,
                    (figure){in, own, group, part, plain_name(own, arena)});
        else if (json_is_object(value) && !part[0])
            add_numbers(value, group, fs_printf(arena, "%s.", key), arena, all);
    }
}

static figures all_figures(json_t *root, fs_arena *arena)
{
    figures all = {0};
    json_t *groups = json_object_get(root, "groups"), *group;
    size_t i;
    json_array_foreach(groups, i, group) add_numbers(
        group, fs_printf(arena, "groups[%zu].", i), "", arena, &all);
    add_numbers(root, "", "", arena, &all);
    return all;
}

/* ---- the ones that are meant ---- */

static bool is_called(const char *rest, const figure *f, const char *part)
{
    const size_t n = strlen(part);
    return strncmp(rest, part, n) == 0 &&
           (strcmp(rest + n, f->name) == 0 || strcmp(rest + n, f->key) == 0);
}

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static bool is_meant(const char *path, const figure *f)
{
    const size_t n = strlen(f->group);
    const char *rest = n && strncmp(path, f->group, n) == 0 ? path + n : path;
    if (is_called(rest, f, f->part))
        return true;
    if (strcmp(f->part, "inner.") == 0 || strcmp(f->part, "outer.") == 0)
        return is_called(rest, f, "link.") ||
               (strcmp(f->name, "nics") == 0 && is_called(rest, f, ""));
    return strcmp(rest, "device.flops") == 0 && ends_with(f->key, "_flops");
}

static void add_name(hw_names *list, const char *name, fs_arena *arena)
{
    for (int32_t i = 0; i < list->n; i++)
        if (strcmp(list->at[i], name) == 0)
            return;
    fs_push(arena, list, fs_strdup(arena, name));
}

/* The last part of a path. */
static const char *last_part(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot ? dot + 1 : path;
}

static fs_status fail_unknown(const wish *w, const figures *all,
                              fs_arena *arena, fs_err *err)
{
    hw_names known = {0};
    const char *why = why_fixed(last_part(w->path));
    if (why)
        return fs_fail(err, FS_INVALID, "%s: %s %s", w->words, w->path, why);
    add_name(&known, "link.bandwidth", arena);
    add_name(&known, "link.latency", arena);
    add_name(&known, "device.flops", arena);
    for (int32_t i = 0; i < all->n; i++) {
        const figure *f = &all->at[i];
        const bool nics = strcmp(f->name, "nics") == 0;
        add_name(&known,
                 nics ? f->name : fs_printf(arena, "%s%s", f->part, f->name),
                 arena);
    }
    const char *rest = strchr(w->path, ']');
    rest = rest && rest[1] == '.' ? rest + 2 : w->path;
    return fs_fail(err, FS_INVALID, "%s: the cluster has no figure '%s'; %s",
                   w->words, w->path, hw_near_names(&known, rest, arena));
}

/* ---- the change ---- */

static fs_status read_wish(const char *words, fs_arena *arena, fs_err *err,
                           wish *out)
{
    const char *at = strchr(words, '=');
    char *end;
    wish w = {.words = words, .change = '='};
    if (!at || at == words)
        return fs_fail(err, FS_INVALID,
                       "'%s': PATH*=X, PATH+=X or PATH=X is wanted, as "
                       "link.bandwidth*=2",
                       words);
    const bool by = at[-1] == '*' || at[-1] == '+';
    w.change = by ? at[-1] : '=';
    w.path = fs_strndup(arena, words, (size_t)(at - words) - by);
    const bool bytes =
        ends_with(w.path, "memory") || ends_with(w.path, "memory_bytes");
    const size_t digits = strspn(at + 1, "+-0123456789.eE"); /* none of 0x10 */
    w.x = strtod(at + 1, &end);
    if (bytes && w.change != '*') {
        if (!fs_read_bytes(at + 1, &w.x))
            return fs_fail(err, FS_INVALID,
                           "'%s': '%s' is no number of bytes (such as 16e9, "
                           "16G)",
                           words, at + 1);
    } else if (end == at + 1 || *end || end != at + 1 + digits ||
               !isfinite(w.x))
        return fs_fail(err, FS_INVALID,
                       "'%s': '%s' is no number (in the figure's unit, without "
                       "it: 25e9 bytes or flop a second, 5e-6 s)",
                       words, at + 1);
    *out = w;
    return FS_OK;
}

/* `device.flops` is several figures that are unlike each other. */
static fs_status check_peaks(const wish *w, fs_err *err)
{
    if (w->change == '*' || !ends_with(w->path, "device.flops"))
        return FS_OK;
    return fs_fail(err, FS_INVALID,
                   "%s: device.flops is a peak for each type; it takes *=, or "
                   "name one, as device.bf16_flops",
                   w->words);
}

static fs_status change_one(const wish *w, const figure *f, fs_arena *arena,
                            fs_err *err, hw_changes *changes)
{
    const json_t *was = json_object_get(f->in, f->key);
    const double from = json_number_value(was);
    const double wished = w->change == '*'   ? from * w->x
                          : w->change == '+' ? from + w->x
                                             : w->x;
    const double to = ends_with(f->key, "_bytes") ? floor(wished) : wished;
    const bool whole = json_is_integer(was);
    const hw_change change = {
        fs_printf(arena, "%s%s%s", f->group, f->part, f->name), from, to};
    /* 0: devices are no processes on their host's cores (hw_group) */
    if (to == from || (from == 0 && strcmp(f->key, "cores_per_node") == 0))
        return FS_OK;
    if (!isfinite(to) || (whole && (to != floor(to) || fabs(to) > 1e15)))
        return fs_fail(err, FS_INVALID, "%s: %s would be %g, must be %s",
                       w->words, change.path, to,
                       whole ? "a whole number of at most 1e15" : "finite");
    json_object_set_new(f->in, f->key,
                        whole ? json_integer((json_int_t)to) : json_real(to));
    fs_push(arena, changes, change);
    return FS_OK;
}

static fs_status change_all(const wish *w, json_t *root, fs_arena *arena,
                            fs_err *err, hw_changes *changes)
{
    const figures all = all_figures(root, arena);
    int32_t meant = 0;
    const int32_t before = changes->n;
    for (int32_t i = 0; i < all.n; i++) {
        if (!is_meant(w->path, &all.at[i]))
            continue;
        meant++;
        FS_TRY(change_one(w, &all.at[i], arena, err, changes));
    }
    if (meant == 0)
        return fail_unknown(w, &all, arena, err);
    if (changes->n == before)
        return fs_fail(err, FS_INVALID, "%s: that changes nothing%s", w->words,
                       strstr(last_part(w->path), "cores")
                           ? ", or devices are none that share cores"
                           : "");
    return FS_OK;
}

/* A measured point is a launch and work, at a rate of the device. */
static void follow_points(const hw_device *was, hw_device *is)
{
    const double flops = hw_device_flops(is) * is->matmul_efficiency /
                         (hw_device_flops(was) * was->matmul_efficiency);
    const double bytes = is->memory_bps * is->memory_efficiency /
                         (was->memory_bps * was->memory_efficiency);
    for (int32_t i = 0; i < is->n_points; i++) {
        hw_point *point = &is->points[i];
        const bool dense = strcmp(point->what, "matmul") == 0 ||
                           strcmp(point->what, "conv") == 0;
        const double work_s = fmax(point->seconds - was->launch_s, 0);
        point->seconds = is->launch_s + work_s / (dense ? flops : bytes);
        if (point->seconds <= 0)
            point->seconds = was->points[i].seconds;
    }
}

/* A measured collective is what a ring has on the wire, and the rest waits. */
static void follow_collectives(const hw_group *was, hw_group *is)
{
    const double waits = is->inner.latency_s / was->inner.latency_s;
    const double bytes = was->inner.bandwidth_bps / is->inner.bandwidth_bps;
    for (int32_t i = 0; i < is->n_collectives; i++) {
        hw_collective *c = &is->collectives[i];
        const double n = c->ranks;
        const double wire_s = fmin(c->seconds, 2 * (n - 1) / n * c->bytes /
                                                   was->inner.bandwidth_bps);
        c->seconds = (c->seconds - wire_s) * waits + wire_s * bytes;
    }
}

static void follow(const hw_cluster *was, hw_cluster *is)
{
    for (int32_t g = 0; g < is->n_groups; g++) {
        const hw_group *from = &was->groups[g];
        hw_group *to = &is->groups[g];
        follow_points(&from->device, &to->device);
        if (from->inner.latency_s > 0 && to->inner.latency_s > 0)
            follow_collectives(from, to);
        if (to->memory.bandwidth_bps == from->memory.bandwidth_bps)
            to->memory.bandwidth_bps *=
                to->device.memory_bps / from->device.memory_bps;
    }
}

fs_status hw_cluster_set(const hw_cluster *cluster, const char *words,
                         fs_arena *arena, fs_err *err, hw_cluster **out,
                         hw_changes *changes)
{
    wish w = {0};
    hw_cluster *changed;
    FS_TRY(read_wish(words, arena, err, &w));
    FS_TRY(check_peaks(&w, err));
    json_t *root = hw_cluster_to_json(cluster);
    fs_status status = change_all(&w, root, arena, err, changes);
    if (status == FS_OK)
        status = hw_cluster_from_json(words, root, arena, err, &changed);
    json_decref(root);
    FS_TRY(status);
    follow(cluster, changed);
    changed->name = cluster->name;
    changed->host = cluster->host;
    hw_cluster_finish(changed);
    *out = changed;
    return FS_OK;
}
