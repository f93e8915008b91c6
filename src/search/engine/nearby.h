/* Neighbourhoods of a choice: which nodes of a kernel may change. Internal to
 * this folder. */
#ifndef FS_SEARCH_NEARBY_H
#define FS_SEARCH_NEARBY_H

#include "search/engine/kernel.h"

/* Sets keep[n_values] to all values of about `size` nodes, and to those of
 * `at` for the others. The free nodes are linked, or hold bytes during one
 * step that is nearly full, and what is linked to them. */
void search_nearby(search_kernel *k, const int32_t *at, int32_t size,
                   uint64_t *rng, bool *keep);

#endif
