/* Offsets of buffers whose lives are known (dynamic storage allocation): the
 * least height such that no two that are live at once share a byte.
 *
 * Time is an axis of sections, within each of which the same buffers live. A
 * buffer may live in several spans of them. */
#ifndef FS_PLAN_OFFSETS_H
#define FS_PLAN_OFFSETS_H

#include "plan/plan.h"

#include <stdbool.h>

typedef struct plan_span {
    int32_t start, end; /* sections, inclusive */
} plan_span;

typedef struct plan_buffer {
    int64_t bytes, offset;
    int32_t copies, copy; /* of several that take turns: which; else 1, 0 */
    int32_t n_spans;
    const plan_span *spans; /* ascending, apart */
} plan_buffer;

typedef struct plan_packing {
    int32_t n_sections, n;
    plan_buffer *buffers;
    int64_t bound_bytes; /* no placement is lower */
    int64_t
        enough_bytes; /* none lower than this is wanted; 0: as low as can be */
    int64_t height_bytes; /* of the one found */
} plan_packing;

/* Fills bound_bytes with the most bytes of a section. */
void plan_offsets_bound(plan_packing *packing);

/* Fills offset and height_bytes: the best of several greedy orders. Needs
 * bound_bytes. The same packing gets the same offsets: effort is counted in
 * steps. */
void plan_offsets_place(plan_packing *packing);
/* The same where `known` (plan.h; NULL: nothing is) remembers placements. */
void plan_offsets_place_known(plan_packing *packing, plan_known *known);
/* Of a placement that stands, a lower one by local search and branch
 * and bound, if there is one,
 * as long as it is higher than `wanted`; other seeds find others. */
typedef struct plan_effort {
    int64_t steps; /* about so many at most */
    uint64_t seed;
} plan_effort;
void plan_offsets_refine(plan_packing *packing, int64_t wanted,
                         plan_effort effort);

/* ---- the parts ---- */

typedef enum plan_fit {
    PLAN_FIT_FOUND,
    PLAN_FIT_NONE,   /* proven */
    PLAN_FIT_UNKNOWN /* the steps are spent */
} plan_fit;

/* Is there a placement of at most `capacity` bytes? With FOUND offsets and
 * height are those of one; else they stay as they are. Exact search, with
 * *steps (counted down) as its budget. After Moffitt, "MiniMalloc: A
 * Lightweight Memory Allocator for Hardware-Accelerated Machine Learning",
 * ASPLOS 2023. */
plan_fit plan_offsets_fit(plan_packing *packing, int64_t capacity,
                          int64_t *steps);

#endif
