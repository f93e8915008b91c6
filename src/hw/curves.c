/* Collectives within a node as they were measured: in cluster files a group's
 * "collectives"; of devices in files of their own. */
#include "config.h"
#include "hw/curves.h"
#include "hw/parts.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_POINTS = 10000 };

static fs_status read_positive(const fs_json *in, const char *key, fs_err *err,
                               double *out)
{
    FS_TRY(fs_json_number(in, key, err, out));
    return *out > 0 && *out < 1e18
               ? FS_OK
               : fs_json_fail(in, key, err, "is %g, must be above 0", *out);
}

static fs_status read_one(const fs_json *list, size_t i, int32_t most,
                          fs_arena *arena, fs_err *err, hw_collective *out)
{
    static const char *const keys[] = {"what", "ranks", "bytes", "seconds",
                                       NULL};
    fs_json in;
    int64_t ranks;
    FS_TRY(fs_json_item(list, i, err, &in));
    FS_TRY(fs_json_keys(&in, keys, err));
    FS_TRY(fs_json_strdup(&in, "what", arena, err, &out->what));
    FS_TRY(fs_json_int(&in, "ranks", 2, most, err, &ranks));
    FS_TRY(read_positive(&in, "bytes", err, &out->bytes));
    out->ranks = (int32_t)ranks;
    return read_positive(&in, "seconds", err, &out->seconds);
}

static int by_size(const void *a, const void *b)
{
    const hw_collective *x = a, *y = b;
    const int32_t what = strcmp(x->what, y->what);
    if (what || x->ranks != y->ranks)
        return what ? what : x->ranks < y->ranks ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

/* What disturbs a measurement only adds to it, and more bytes take no less
 * time. */
static void make_monotone(hw_collective *at, int32_t n)
{
    for (int32_t i = n - 2; i >= 0; i--)
        if (at[i].ranks == at[i + 1].ranks &&
            strcmp(at[i].what, at[i + 1].what) == 0 &&
            at[i].seconds > at[i + 1].seconds)
            at[i].seconds = at[i + 1].seconds;
}

fs_status hw_read_collectives(const fs_json *node, int32_t most,
                              fs_arena *arena, fs_err *err, hw_group *out)
{
    fs_json list;
    if (!fs_json_has(node, "collectives"))
        return FS_OK;
    FS_TRY(fs_json_array(node, "collectives", err, &list));
    const size_t n = json_array_size(list.value);
    if (n > MOST_POINTS)
        return fs_fail(err, FS_INVALID, "%s: %zu collectives, more than %d",
                       node->file, n, MOST_POINTS);
    out->collectives = fs_new(arena, hw_collective, n);
    for (size_t i = 0; i < n; i++)
        FS_TRY(read_one(&list, i, most, arena, err, &out->collectives[i]));
    out->n_collectives = (int32_t)n;
    if (n > 1)
        qsort(out->collectives, n, sizeof *out->collectives, by_size);
    make_monotone(out->collectives, out->n_collectives);
    return FS_OK;
}

json_t *hw_collectives_json(const hw_group *group)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < group->n_collectives; i++) {
        const hw_collective *c = &group->collectives[i];
        json_t *out = json_object();
        fs_json_set_text(out, "what", c->what);
        fs_json_set_int(out, "ranks", c->ranks);
        fs_json_set_real(out, "bytes", c->bytes);
        fs_json_set_real(out, "seconds", c->seconds);
        json_array_append_new(list, out);
    }
    return list;
}

void hw_collectives_fit(hw_group *group, fs_arena *arena)
{
    hw_collective *kept;
    int32_t n = 0;
    if (!group->n_collectives)
        return;
    kept = fs_new(arena, hw_collective, group->n_collectives);
    for (int32_t i = 0; i < group->n_collectives; i++)
        if (group->collectives[i].ranks <= group->devices_per_node)
            kept[n++] = group->collectives[i];
    group->collectives = kept;
    group->n_collectives = n;
}

const hw_collective *hw_collectives_of(const hw_group *group, const char *what,
                                       int32_t ranks, int32_t *n)
{
    const hw_collective *first = NULL;
    *n = 0;
    for (int32_t i = 0; i < group->n_collectives; i++) {
        const hw_collective *c = &group->collectives[i];
        if (c->ranks != ranks || strcmp(c->what, what) != 0)
            continue;
        first = first ? first : c;
        ++*n;
    }
    return first;
}

fs_status hw_collectives_open(const char *data_dir, fs_arena *arena,
                              fs_err *err, hw_group *group)
{
    static const char *const keys[] = {"source", "collectives", NULL};
    const char *path = fs_printf(arena, "%s/collectives/%s.json", data_dir,
                                 group->device.name);
    struct stat seen;
    json_t *root;
    if (group->n_collectives || stat(path, &seen) != 0)
        return FS_OK;
    FS_TRY(fs_json_load(path, err, &root));
    const fs_json in = fs_json_root(path, root);
    fs_status status = fs_json_keys(&in, keys, err);
    if (status == FS_OK)
        status = hw_read_collectives(&in, HW_MAX_DEVICES, arena, err, group);
    json_decref(root);
    if (status == FS_OK)
        hw_collectives_fit(group, arena);
    return status;
}
