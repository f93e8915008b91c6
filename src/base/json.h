/* JSON through Jansson: reading with line and column, and field access whose
 * errors name the file and the path of the field. Writing is Jansson's own
 * API and the setters below, with FS_JSON_FORMAT for stable, diff-able text. */
#ifndef FS_BASE_JSON_H
#define FS_BASE_JSON_H

#include "base/arena.h"
#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* Flags of every JSON file we write: insertion order, indented. */
#define FS_JSON_FORMAT (JSON_INDENT(1) | JSON_REAL_PRECISION(17))

/* The caller owns *root (json_decref). Duplicate keys are refused. A file may
 * be gzip. */
fs_status fs_json_load(const char *path, fs_err *err, json_t **root);

/* Writes a temporary file beside it, then renames: never a half-written file.
 * What is there and is no regular file is refused; a link is followed. */
fs_status fs_json_save(const json_t *root, const char *path, fs_err *err);

/* A reader: an object and where it stands, for messages ("file: stages[2]"). */
typedef struct fs_json {
    const char *file;
    char where[96];
    json_t *value;
} fs_json;

fs_json fs_json_root(const char *file, json_t *root);
/* Missing fields and wrong types are FS_INVALID naming file and path. */
fs_status fs_json_object(const fs_json *in, const char *key, fs_err *err,
                         fs_json *out);
fs_status fs_json_array(const fs_json *in, const char *key, fs_err *err,
                        fs_json *out);
fs_status fs_json_item(const fs_json *array, size_t index, fs_err *err,
                       fs_json *out);
fs_status fs_json_int(const fs_json *in, const char *key, int64_t low,
                      int64_t high, fs_err *err, int64_t *out);
fs_status fs_json_number(const fs_json *in, const char *key, fs_err *err,
                         double *out);
fs_status fs_json_bool(const fs_json *in, const char *key, fs_err *err,
                       bool *out);
/* Borrowed from the JSON value. */
fs_status fs_json_text(const fs_json *in, const char *key, fs_err *err,
                       const char **out);
/* The same, copied into the arena. */
fs_status fs_json_strdup(const fs_json *in, const char *key, fs_arena *arena,
                         fs_err *err, const char **out);
/* Present in this object? */
bool fs_json_has(const fs_json *in, const char *key);
/* FS_INVALID names a key that is not among `known` (up to NULL): a misspelt one
 * would be taken for its default. */
fs_status fs_json_keys(const fs_json *in, const char *const *known,
                       fs_err *err);
/* FS_INVALID: "file: path.key " and the text. */
fs_status fs_json_fail(const fs_json *in, const char *key, fs_err *err,
                       const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* JSON has no text but UTF-8: what is none is made printable. */
json_t *fs_json_string(const char *text);

/* Setters of an object's fields. JSON has no infinity: a figure that is not
 * finite is written as 0; a text that is NULL as "". */
void fs_json_set_int(json_t *object, const char *key, int64_t value);
void fs_json_set_real(json_t *object, const char *key, double value);
void fs_json_set_bool(json_t *object, const char *key, bool value);
void fs_json_set_text(json_t *object, const char *key, const char *text);

#endif
