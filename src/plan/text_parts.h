/* Parts of the text form that writer and reader share; not for other folders.
 */
#ifndef FS_PLAN_TEXT_PARTS_H
#define FS_PLAN_TEXT_PARTS_H

#include "plan/text.h"

#define PLAN_FORMAT_NAME "flowsearch-plan"

const char *plan_stream_kind_name(plan_stream_kind kind);

json_t *plan_origin_to_json(const plan_origin *origin, int32_t micro_batches);
/* `in`: the object "origin". */
fs_status plan_origin_from_json(const fs_json *in, fs_arena *arena, fs_err *err,
                                plan_origin *out);
/* Only a live probe's cluster is carried in the plan: a file can be read
 * again. */
bool plan_origin_is_local(const plan_origin *origin);

/* FS_INVALID names a key of the object that is not listed. */
#define PLAN_TEXT_KEYS(in, err, ...)                                           \
    fs_json_keys((in), (const char *const[]){__VA_ARGS__, NULL}, (err))

/* Loads a plan file and checks format and version; the caller owns *root. */
fs_status plan_text_load(const char *path, fs_err *err, json_t **root);
/* A digest as 16 hex digits. */
fs_status plan_text_digest(const fs_json *in, const char *key, fs_err *err,
                           uint64_t *out);

#endif
