/* Which steps of time a limit on what nodes hold has to be looked at. Internal
 * to this folder. */
#ifndef FS_SEARCH_BINDING_H
#define FS_SEARCH_BINDING_H

#include "search/engine/cfn.h"

typedef struct search_binding {
    int32_t n;       /* steps of the cfn */
    int64_t *room;   /* [n] bytes that choices may hold */
    int32_t *before; /* [n + 1] steps that bind before it: step t binds when
                        before[t + 1] > before[t] */
    bool full;       /* more than the limit is held whatever is chosen */
} search_binding;

/* Usages are packed (as after search_cfn_reduce). A choice that fits at all
 * steps that bind fits at all. Lives in `arena`. */
search_binding search_binding_find(const search_cfn *cfn, int64_t limit,
                                   fs_arena *arena);
/* Forgets what is held while nothing binds, and what all values of a node hold
 * is held whatever is chosen: nodes of which nothing is left are free of the
 * limit. Exact for any objective; bytes of steps that do not bind are no longer
 * what they were. True when something changed: reduce again. */
bool search_cfn_clip(search_cfn *cfn, int64_t limit);
/* Steps of time that the network speaks of. */
int32_t search_usage_steps(const search_cfn *cfn);

#endif
