/* A limit on what the nodes of an additive network hold at each step.
 * Internal to this folder. */
#ifndef FS_SEARCH_LIMIT_H
#define FS_SEARCH_LIMIT_H

#include "search/engine/cfn.h"

/* Drops values and forbids pairs of values that break the limit whatever the
 * rest chooses; exact for any objective. Usages are packed (as after
 * search_cfn_reduce). True when something changed: reduce again. */
bool search_cfn_limit(search_cfn *cfn, int64_t limit);

#endif
