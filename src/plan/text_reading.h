/* The reader of plans, in parts; not for other folders. */
#ifndef FS_PLAN_TEXT_READING_H
#define FS_PLAN_TEXT_READING_H

#include "plan/text_parts.h"

/* What every part of the reader needs. */
typedef struct plan_reading {
    const ir_graph *graph;
    const hw_cluster *cluster;
    fs_arena *arena;
    fs_err *err;
    fs_map nodes; /* name -> node */
    plan_origin origin;
    plan_strategy *s;
    plan *p;
} plan_reading;

fs_status plan_text_read_i32(const plan_reading *r, const fs_json *in,
                             const char *key, int32_t low, int32_t high,
                             int32_t *out);
fs_status plan_text_read_bytes(const plan_reading *r, const fs_json *in,
                               const char *key, int64_t *out);
/* An array field and its length, at most `most`. */
fs_status plan_text_read_array(const plan_reading *r, const fs_json *in,
                               const char *key, int32_t most, fs_json *list,
                               int32_t *n);
/* Its n items, numbers below `limit`. */
fs_status plan_text_read_ints(const plan_reading *r, const fs_json *list,
                              int32_t n, int32_t limit, int32_t *out);
/* Axes of a mesh of n, ascending. */
fs_status plan_text_read_axes(const plan_reading *r, const fs_json *in,
                              int32_t n, uint32_t *out);

/* The names of an enumeration. */
typedef struct plan_text_names {
    const char *(*at)(int32_t);
    int32_t n;
} plan_text_names;
fs_status plan_text_read_name(const plan_reading *r, const fs_json *in,
                              const char *key, plan_text_names known,
                              int32_t *out);

fs_status plan_text_read_tensor(const plan_reading *r, const fs_json *in,
                                int32_t *out);
/* `in` is where the text stands. */
fs_status plan_text_parse_sbp(const plan_reading *r, const fs_json *in,
                              const char *text, int32_t axes, ir_nd_sbp *out);
fs_status plan_text_read_sbp(const plan_reading *r, const fs_json *in,
                             const char *key, int32_t axes, ir_nd_sbp *out);
fs_status plan_text_read_sbps(const plan_reading *r, const fs_json *list,
                              int32_t n, int32_t axes, ir_nd_sbp *out);

/* The strategy, communicators and channels stand. */
fs_status plan_text_read_role(plan_reading *r, const fs_json *in,
                              plan_role *role);

#endif
