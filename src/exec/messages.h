/* The messages of a transfer as data, for transfer.c which runs them and
 * algorithms.c which lists those of all-reduces. A rank sends parts of what it
 * gives (`in`) or of what it has made (`out`), and takes parts into `out`. Both
 * lists are worked off in order; between a pair of ranks messages have one
 * order on both. What waits for what is a count: of takes that are done before
 * a part may be sent, of sends that are done before a part may be written. */
#ifndef FS_EXEC_MESSAGES_H
#define FS_EXEC_MESSAGES_H

#include "exec/world.h"
#include "plan/algorithms.h"

/* Elements from begin to before end, of a flat tensor. */
typedef struct exec_span {
    int64_t begin, end;
} exec_span;

typedef struct exec_send {
    exec_layout layout; /* in `out` when it is `made`, else in `in` */
    exec_span span;     /* of an all-reduce */
    int32_t rank;
    bool made;
    int32_t after; /* takes */
} exec_send;

typedef struct exec_take {
    exec_layout layout; /* in `out` */
    exec_span span;     /* of an all-reduce */
    int32_t rank;       /* this rank: what it gives itself, `own` in `in` */
    exec_part own;
    bool folds;       /* into its box; else it is placed there */
    bool first, last; /* of the contributions to its box */
    bool joins;       /* with the next, which is added to it on the way */
    int64_t low_at;   /* of its box in the lower halves */
    int32_t after;    /* sends */
} exec_take;

typedef struct exec_messages {
    FS_VEC(exec_send) sends;
    FS_VEC(exec_take) takes;
    int64_t largest;   /* bytes of a contribution of another rank */
    int64_t low_bytes; /* lower halves of sums of 16-bit floats; 0: none */
} exec_messages;

/* ---- all-reduces of a flat tensor, or of several behind each other ---- */

/* Where one of them lies: bytes from `in` and `out`. */
typedef struct exec_flat {
    exec_span span;
    int64_t in_at, out_at;
} exec_flat;

/* Some of the members, by their numbers; this rank among them. */
typedef struct exec_members {
    int32_t n;
    const int32_t *at;
    int32_t me; /* at[me] is this rank's number */
} exec_members;

typedef struct exec_listing {
    exec_world *world;
    fs_arena *arena;
    const int32_t *rank; /* of the members, by number */
    int32_t n_flat;
    const exec_flat *flat; /* ascending, together the whole */
    int64_t element_bytes;
    int64_t chunk; /* elements in a message at most */
    bool wide;     /* a sum of 16-bit floats */
    exec_messages *out;
} exec_listing;

typedef void exec_list_fn(exec_listing *l, exec_members all, exec_span whole);
#define PLAN_ALGORITHM(name, where, runs) EXEC_LIST_##runs(name)
#define EXEC_LIST_RUNS(name) exec_list_fn exec_list_##name;
#define EXEC_LIST_SAID(name)
#include "plan/algorithms.def"
#undef EXEC_LIST_RUNS
#undef EXEC_LIST_SAID
#undef PLAN_ALGORITHM

/* May it reduce so? What it may not is done directly. */
bool exec_algorithm_may(plan_algorithm algorithm, const exec_world *world,
                        ir_dtype dtype);

#endif
