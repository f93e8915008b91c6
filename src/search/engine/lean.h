/* Lean plans of a network (lean.c). Internal to this folder. */
#ifndef FS_SEARCH_LEAN_H
#define FS_SEARCH_LEAN_H

#include "search/engine/engine.h"

/* Assignments between the leanest and the fastest, cheapest first: a fixed
 * number of weights of bytes against seconds, but for those too light for any
 * to fit, or to be wanted. So what fits is a part of what there is for every
 * larger limit. */
typedef struct search_lean_plan {
    double cost;
    int64_t bytes; /* of the fullest moment */
    int32_t *value;
    bool fits;
    double full; /* what it takes when looked at, of its limit; 0: not known */
} search_lean_plan;
typedef struct search_lean_wish {
    int64_t limit;  /* of each moment; 0: the leanest will do */
    double below_s; /* what costs more is not wanted */
    bool near;      /* the cheapest weight with a plan that fits will do */
    /* Does it fit when it is looked at? One that does under a limit does under
     * every larger one. NULL: what keeps the limit does. */
    bool (*fits)(void *ctx, search_lean_plan *found);
    void *ctx;
} search_lean_wish;
typedef struct search_lean {
    FS_VEC(search_lean_plan) plans;
} search_lean;
/* Seconds of the fastest, as far as even prices say. */
double search_lean_fastest(const search_net *net, fs_deadline deadline,
                           fs_arena *arena);
void search_lean_plans(const search_net *net, const search_lean_wish *wish,
                       fs_deadline deadline, fs_arena *arena, search_lean *out);
/* A plan that keeps the limits, [n_limits], takes parts of all these over, and
 * single values, as long as that makes it cheaper within them. */
void search_lean_blend(const search_net *net, const search_lean *all,
                       const int64_t *limit, fs_deadline deadline,
                       fs_arena *arena, search_lean_plan *out);

/* A plan that may exceed the limits is mended (mend.c), then the same. False:
 * that is not to be had for less than `most_s`. */
bool search_lean_mend(const search_net *net, const search_lean *all,
                      const int64_t *limit, double most_s, fs_deadline deadline,
                      fs_arena *arena, search_lean_plan *out);

#endif
