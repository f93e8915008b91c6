/* Values for the nodes of a kernel, one node after another, such that what is
 * held stays within the limit. Internal to this folder. */
#ifndef FS_SEARCH_SETTLE_H
#define FS_SEARCH_SETTLE_H

#include "search/engine/dual.h"
#include "search/engine/kernel.h"

/* at[n]: values of the kernel whose costs with the messages of `dual` (of the
 * kernel's network, perhaps with fewer values) are least among those that
 * leave room for what the nodes to come hold at least; then changed one by
 * one. False: it does not fit or is forbidden. */
bool search_settle(search_kernel *k, const search_dual *dual, int32_t *at);

#endif
