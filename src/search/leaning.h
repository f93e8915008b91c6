/* Lean plans of one configuration on their way (anchor.c, blend.c). Internal to
 * this folder. */
#ifndef FS_SEARCH_LEANING_H
#define FS_SEARCH_LEANING_H

#include "search/engine/lean.h"
#include "search/level0.h"

/* A configuration's lean plans on their way: of the tables of `anew`. */
typedef struct leaning {
    search_level0 *z;
    search_candidate *c, anew;
    int64_t *limit, *bytes; /* [stages] */
    search_lean lean;
    bool refused;  /* one would have been the best, had it fitted */
    double excess; /* of what did not fit, least of all: bytes per limit */
    bool blends;   /* the series is over */
} leaning;

/* Lowers a plan of them, and keeps it if it is the best that fits. `ctx`: the
 * leaning. */
bool search_lean_look(void *ctx, search_lean_plan *lean);
/* Mixtures of those that there are, and of what engines met. */
void search_blend(leaning *l, fs_deadline deadline);
int64_t search_largest(const int64_t *bytes, int32_t n);

#endif
