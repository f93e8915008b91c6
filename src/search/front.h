/* Time against memory: the best plan under each of a ladder of limits. */
#ifndef FS_SEARCH_FRONT_H
#define FS_SEARCH_FRONT_H

#include "search/search.h"

typedef struct search_front_point {
    int64_t limit_bytes; /* per device, that it was searched under, */
    int64_t peak_bytes;  /* and the largest arena of the plan */
    search_result found; /* nothing within the limit is below its bound */
    bool inherited; /* which was proven within more memory, where it is more
                       than what was proven within the limit */
} search_front_point;

typedef struct search_front {
    int32_t n;
    search_front_point *points; /* fastest first; each takes longer than the one
                                   before it, and less memory */
    int64_t end_bytes;  /* within that no plan was found; 0: not looked for */
    bool none;          /* there is none within it: proven */
    int64_t need_bytes; /* every plan takes at least that; 0: not known */
} search_front;

/* Begins with `first`, an answer to `problem`. Each further limit is a fixed
 * part of the last plan's memory, until none is found, `most` points are there
 * or the problem's end is reached. The searches share the problem's work and
 * time evenly. Errors are those of search_run but FS_NO. */
fs_status search_front_run(const search_problem *problem,
                           const search_result *first, int32_t most,
                           fs_arena *arena, fs_err *err, search_front *out);

#endif
