/* Lists of whole numbers in JSON, kept apart from the tree that the parser
 * makes of it: there a number takes 40 bytes, and a file may have 10^8. */
#ifndef FS_BASE_JSON_LISTS_H
#define FS_BASE_JSON_LISTS_H

#include "base/intern.h"
#include "base/json.h"

typedef struct fs_numbers {
    const int64_t *at;
    size_t n;
} fs_numbers;

typedef struct fs_json_lists fs_json_lists;

fs_json_lists *fs_json_lists_new(fs_arena *arena);

/* As fs_json_load; but of lists in lists, those of nothing but integers that
 * fit 64 bits are in `lists`, equal ones once, and a word for each stands in
 * the tree, which fs_json_numbers takes. */
fs_status fs_json_load_lists(const char *path, fs_json_lists *lists,
                             fs_err *err, json_t **root);
/* A list of whole numbers, wherever it is: reals that are whole count. */
bool fs_json_numbers(fs_json_lists *lists, const json_t *value,
                     fs_numbers *out);
/* Whole? */
bool fs_json_whole(const json_t *value, int64_t *out);

/* Between the file and the parser: `read` fills from the file, -1 when it
 * fails. */
typedef size_t fs_json_read_fn(void *to, size_t bytes, void *source);
size_t fs_json_lists_read(fs_json_lists *lists, fs_json_read_fn *read,
                          void *source, void *to, size_t bytes);

#endif
