/* The network of a kernel with some of its values. Internal to this folder. */
#ifndef FS_SEARCH_CONFINE_H
#define FS_SEARCH_CONFINE_H

#include "search/engine/kernel.h"

/* Nodes and values are the kernel's. A node that keeps one value is no live
 * node: what it costs and holds goes to the others. Steps during which these
 * hold the same are one. Costs of pairs are the kernel's own as far as nothing
 * changes them. */
search_cfn *search_kernel_confined(const search_kernel *k, int64_t limit,
                                   const bool *keep, fs_arena *arena);

#endif
