#include "config.h"
#include "base/json.h"

#include "base/file.h"
#include "base/json_lists.h"
#include "base/text.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* What a file holds, unpacked on the way when it is gzip. */
typedef struct source {
    gzFile file;
    bool broken;
    fs_json_lists *lists; /* or NULL: all is the parser's */
} source;

static size_t read_part(void *to, size_t bytes, void *from)
{
    source *s = from;
    int n = gzread(s->file, to, (unsigned)bytes);
    s->broken |= n < 0;
    return n < 0 ? (size_t)-1 : (size_t)n;
}

/* What is damaged in the middle may read as text that no parser takes: its sum
 * is wrong, which zlib tells at the end. */
static void read_on(source *s)
{
    char rest[4096];
    while (!gzdirect(s->file) &&
           read_part(rest, sizeof rest, s) - 1 < sizeof rest)
        ;
}

/* zlib tells of a file that ends too early when it is closed. */
static bool close_source(source *s)
{
    int code = gzclose_r(s->file);
    return !s->broken && code == Z_OK;
}

static size_t read_filtered(void *to, size_t bytes, void *from)
{
    source *s = from;
    return fs_json_lists_read(s->lists, read_part, s, to, bytes);
}

fs_status fs_json_load(const char *path, fs_err *err, json_t **root)
{
    return fs_json_load_lists(path, NULL, err, root);
}

fs_status fs_json_load_lists(const char *path, fs_json_lists *lists,
                             fs_err *err, json_t **root)
{
    json_error_t why;
    int opened;
    FS_TRY(fs_input_open(path, err, &opened));
    source from = {.file = gzdopen(opened, "rb"), .lists = lists};
    FS_ASSERT(from.file);
    json_t *value = json_load_callback(lists ? read_filtered : read_part, &from,
                                       JSON_REJECT_DUPLICATES, &why);
    if (!value)
        read_on(&from);
    const bool whole = close_source(&from);
    if (!whole) {
        json_decref(value);
        return fs_fail(err, FS_INVALID, "%s: its gzip data is broken or cut",
                       path);
    }
    if (!value)
        return fs_fail(err, FS_INVALID, "%s:%d:%d: %s", path, why.line,
                       why.column, why.text);
    *root = value;
    return FS_OK;
}

static int write_part(const char *text, size_t bytes, void *out)
{
    fs_output_write(out, text, bytes);
    return ((fs_output *)out)->fault ? -1 : 0;
}

fs_status fs_json_save(const json_t *root, const char *path, fs_err *err)
{
    fs_output out;
    FS_TRY(fs_output_open(&out, path, err));
    /* Without a fault of writing: a value that JSON has no text for. */
    if (json_dump_callback(root, write_part, &out, FS_JSON_FORMAT) != 0 &&
        !out.fault)
        out.fault = EINVAL;
    write_part("\n", 1, &out);
    return fs_output_close(&out, err);
}

fs_json fs_json_root(const char *file, json_t *root)
{
    fs_json reader = {file, "", root};
    return reader;
}

bool fs_json_has(const fs_json *in, const char *key)
{
    return json_object_get(in->value, key) != NULL;
}

fs_status fs_json_fail(const fs_json *in, const char *key, fs_err *err,
                       const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return fs_fail(err, FS_INVALID, "%s: %s%s%.80s %s", in->file, in->where,
                   in->where[0] ? "." : "", key, text);
}

fs_status fs_json_keys(const fs_json *in, const char *const *known, fs_err *err)
{
    const char *key;
    json_t *value;
    json_object_foreach(in->value, key, value)
    {
        int32_t i = 0;
        while (known[i] && strcmp(known[i], key) != 0)
            i++;
        if (!known[i])
            return fs_json_fail(in, key, err, "is an unknown key");
    }
    return FS_OK;
}

static fs_status wrong(const fs_json *in, const char *key, const char *wanted,
                       fs_err *err)
{
    if (!fs_json_has(in, key))
        return fs_json_fail(in, key, err, "is missing (%s wanted)", wanted);
    return fs_json_fail(in, key, err, "must be %s", wanted);
}

static fs_json child(const fs_json *in, const char *key, json_t *value)
{
    fs_json out = {in->file, "", value};
    snprintf(out.where, sizeof out.where, "%.60s%s%.30s", in->where,
             in->where[0] ? "." : "", key);
    return out;
}

fs_status fs_json_object(const fs_json *in, const char *key, fs_err *err,
                         fs_json *out)
{
    json_t *value = json_object_get(in->value, key);
    if (!json_is_object(value))
        return wrong(in, key, "an object", err);
    *out = child(in, key, value);
    return FS_OK;
}

fs_status fs_json_array(const fs_json *in, const char *key, fs_err *err,
                        fs_json *out)
{
    json_t *value = json_object_get(in->value, key);
    if (!json_is_array(value))
        return wrong(in, key, "an array", err);
    *out = child(in, key, value);
    return FS_OK;
}

fs_status fs_json_item(const fs_json *array, size_t index, fs_err *err,
                       fs_json *out)
{
    json_t *value = json_array_get(array->value, index);
    fs_json item = {array->file, "", value};
    snprintf(item.where, sizeof item.where, "%.70s[%zu]", array->where, index);
    if (!value)
        return fs_fail(err, FS_INVALID, "%s: %s is missing", array->file,
                       item.where);
    *out = item;
    return FS_OK;
}

fs_status fs_json_int(const fs_json *in, const char *key, int64_t low,
                      int64_t high, fs_err *err, int64_t *out)
{
    json_t *value = json_object_get(in->value, key);
    if (!json_is_integer(value))
        return wrong(in, key, "a whole number", err);
    int64_t number = json_integer_value(value);
    if (number < low || number > high)
        return fs_json_fail(in, key, err, "is %lld, outside %lld to %lld",
                            (long long)number, (long long)low, (long long)high);
    *out = number;
    return FS_OK;
}

fs_status fs_json_number(const fs_json *in, const char *key, fs_err *err,
                         double *out)
{
    json_t *value = json_object_get(in->value, key);
    if (!json_is_number(value))
        return wrong(in, key, "a number", err);
    *out = json_number_value(value);
    return FS_OK;
}

fs_status fs_json_bool(const fs_json *in, const char *key, fs_err *err,
                       bool *out)
{
    json_t *value = json_object_get(in->value, key);
    if (!json_is_boolean(value))
        return wrong(in, key, "true or false", err);
    *out = json_is_true(value);
    return FS_OK;
}

fs_status fs_json_text(const fs_json *in, const char *key, fs_err *err,
                       const char **out)
{
    json_t *value = json_object_get(in->value, key);
    if (!json_is_string(value))
        return wrong(in, key, "a string", err);
    *out = json_string_value(value);
    return FS_OK;
}

fs_status fs_json_strdup(const fs_json *in, const char *key, fs_arena *arena,
                         fs_err *err, const char **out)
{
    FS_TRY(fs_json_text(in, key, err, out));
    *out = fs_strdup(arena, *out);
    return FS_OK;
}

json_t *fs_json_string(const char *text)
{
    json_t *value = json_string(text);
    if (value)
        return value;
    char *copy = strdup(text);
    FS_ASSERT(copy);
    fs_make_printable(copy);
    value = json_string(copy);
    free(copy);
    return value;
}

void fs_json_set_int(json_t *object, const char *key, int64_t value)
{
    json_object_set_new(object, key, json_integer(value));
}

void fs_json_set_real(json_t *object, const char *key, double value)
{
    json_object_set_new(object, key, json_real(isfinite(value) ? value : 0));
}

void fs_json_set_bool(json_t *object, const char *key, bool value)
{
    json_object_set_new(object, key, json_boolean(value));
}

void fs_json_set_text(json_t *object, const char *key, const char *text)
{
    json_object_set_new(object, key, fs_json_string(text ? text : ""));
}
