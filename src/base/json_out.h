/* JSON written value by value, for what is too large to stand in memory as a
 * tree first. The text is that of Jansson, JSON_COMPACT or FS_JSON_FORMAT. */
#ifndef FS_BASE_JSON_OUT_H
#define FS_BASE_JSON_OUT_H

#include "base/file.h"
#include "base/json.h"

/* To a file, indented; or compact, to memory. */
typedef struct fs_json_out {
    fs_output *file; /* NULL: */
    char *text;      /* [n] the caller's, to free */
    size_t n, room;
    int32_t depth;
    bool empty; /* nothing is in the innermost object or list yet */
} fs_json_out;

fs_json_out fs_json_out_to(fs_output *file); /* NULL: to memory */
/* What is left to write goes to the file. */
void fs_json_out_flush(fs_json_out *out);

/* Members of an object have a key, in UTF-8; items of a list have none. */
void fs_json_out_begin(fs_json_out *out, const char *key, char bracket);
void fs_json_out_end(fs_json_out *out, char bracket);
void fs_json_out_int(fs_json_out *out, const char *key, int64_t value);
void fs_json_out_bool(fs_json_out *out, const char *key, bool value);
void fs_json_out_text(fs_json_out *out, const char *key, const char *text);
void fs_json_out_value(fs_json_out *out, const char *key, const json_t *value);

#endif
