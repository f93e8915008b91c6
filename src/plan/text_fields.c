/* Fields that several parts of the reader read. */
#include "config.h"
#include "plan/text_reading.h"

#include <string.h>

fs_status plan_text_read_i32(const plan_reading *r, const fs_json *in,
                             const char *key, int32_t low, int32_t high,
                             int32_t *out)
{
    int64_t value;
    FS_TRY(fs_json_int(in, key, low, high, r->err, &value));
    *out = (int32_t)value;
    return FS_OK;
}

fs_status plan_text_read_bytes(const plan_reading *r, const fs_json *in,
                               const char *key, int64_t *out)
{
    return fs_json_int(in, key, 0, INT64_MAX, r->err, out);
}

/* An array field and its length, at most `most`. */
fs_status plan_text_read_array(const plan_reading *r, const fs_json *in,
                               const char *key, int32_t most, fs_json *list,
                               int32_t *n)
{
    FS_TRY(fs_json_array(in, key, r->err, list));
    size_t size = json_array_size(list->value);
    if (size > (size_t)most)
        return fs_fail(r->err, FS_INVALID, "%s: %s has %zu items, at most %d",
                       in->file, list->where, size, most);
    *n = (int32_t)size;
    return FS_OK;
}

fs_status plan_text_read_ints(const plan_reading *r, const fs_json *list,
                              int32_t n, int32_t limit, int32_t *out)
{
    for (int32_t i = 0; i < n; i++) {
        json_t *item = json_array_get(list->value, (size_t)i);
        json_int_t value =
            json_is_integer(item) ? json_integer_value(item) : -1;
        if (value < 0 || value >= limit)
            return fs_fail(r->err, FS_INVALID,
                           "%s: %s[%d] must be a whole number below %d",
                           list->file, list->where, i, limit);
        out[i] = (int32_t)value;
    }
    return FS_OK;
}

/* Axes of a mesh of n, ascending. */
fs_status plan_text_read_axes(const plan_reading *r, const fs_json *in,
                              int32_t n, uint32_t *out)
{
    fs_json list;
    int32_t count, axes[IR_MAX_MESH];
    FS_TRY(plan_text_read_array(r, in, "axes", n, &list, &count));
    FS_TRY(plan_text_read_ints(r, &list, count, n, axes));
    *out = 0;
    for (int32_t i = 0; i < count; i++) {
        if (i > 0 && axes[i] <= axes[i - 1])
            return fs_fail(r->err, FS_INVALID, "%s: %s must ascend", in->file,
                           list.where);
        *out |= 1u << axes[i];
    }
    return FS_OK;
}

fs_status plan_text_read_name(const plan_reading *r, const fs_json *in,
                              const char *key, plan_text_names known,
                              int32_t *out)
{
    const char *text;
    FS_TRY(fs_json_text(in, key, r->err, &text));
    for (int32_t i = 0; i < known.n; i++)
        if (strcmp(text, known.at(i)) == 0) {
            *out = i;
            return FS_OK;
        }
    return fs_fail(r->err, FS_INVALID, "%s: %s.%s: unknown \"%.40s\"", in->file,
                   in->where, key, text);
}

fs_status plan_text_read_tensor(const plan_reading *r, const fs_json *in,
                                int32_t *out)
{
    const char *name;
    FS_TRY(fs_json_text(in, "tensor", r->err, &name));
    int32_t t = ir_graph_find(r->graph, name);
    if (t < 0)
        return fs_fail(r->err, FS_INVALID, "%s: %s: no tensor \"%.80s\" in %s",
                       in->file, in->where, name, r->graph->name);
    *out = t;
    return FS_OK;
}

fs_status plan_text_parse_sbp(const plan_reading *r, const fs_json *in,
                              const char *text, int32_t axes, ir_nd_sbp *out)
{
    fs_err why = {0};
    if (ir_nd_sbp_parse(text, axes, &why, out) == FS_OK)
        return FS_OK;
    return fs_fail(r->err, FS_INVALID, "%s: %s: %s", in->file, in->where,
                   why.text);
}

fs_status plan_text_read_sbp(const plan_reading *r, const fs_json *in,
                             const char *key, int32_t axes, ir_nd_sbp *out)
{
    const char *text;
    FS_TRY(fs_json_text(in, key, r->err, &text));
    return plan_text_parse_sbp(r, in, text, axes, out);
}

fs_status plan_text_read_sbps(const plan_reading *r, const fs_json *list,
                              int32_t n, int32_t axes, ir_nd_sbp *out)
{
    for (int32_t i = 0; i < n; i++) {
        const char *text =
            json_string_value(json_array_get(list->value, (size_t)i));
        if (!text)
            return fs_fail(r->err, FS_INVALID, "%s: %s[%d] must be a string",
                           list->file, list->where, i);
        FS_TRY(plan_text_parse_sbp(r, list, text, axes, &out[i]));
    }
    return FS_OK;
}
