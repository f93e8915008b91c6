/* The names of the exact reductions, as bits of a mask: each has its switch. */
#ifndef FS_SEARCH_REDUCTIONS_H
#define FS_SEARCH_REDUCTIONS_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum {
#define SEARCH_REDUCTION(NAME, name, of, what) SEARCH_TURN_##NAME,
#include "search/engine/reductions.def"
#undef SEARCH_REDUCTION
    SEARCH_N_REDUCTIONS
};

enum {
#define SEARCH_REDUCTION(NAME, name, of, what)                                 \
    SEARCH_##NAME = 1 << SEARCH_TURN_##NAME,
#include "search/engine/reductions.def"
#undef SEARCH_REDUCTION
    SEARCH_REDUCE_ALL = (1 << SEARCH_N_REDUCTIONS) - 1,
    /* Not of an additive network: equal layers and stages are one (view.h). */
    SEARCH_LAYERS = 1 << SEARCH_N_REDUCTIONS,
    /* Nor are these of the proof of a configuration: other cuts are looked at,
     * and stages that have meshes of their own (recut.c). */
    SEARCH_CUTS = 1 << (SEARCH_N_REDUCTIONS + 1),
    SEARCH_SUBMESHES = 1 << (SEARCH_N_REDUCTIONS + 2),
    /* Or stages that take groups of devices in other orders (order.h). */
    SEARCH_ORDERS = 1 << (SEARCH_N_REDUCTIONS + 3),
    /* Or cuts that are looked at before one is closed (glance.c). */
    SEARCH_GLANCES = 1 << (SEARCH_N_REDUCTIONS + 4),
    /* Or lean plans of likely configurations before bounds lead to them
     * (anchor.c). */
    SEARCH_SWEEPS = 1 << (SEARCH_N_REDUCTIONS + 5),
    /* Or mixtures of lean plans. */
    SEARCH_BLENDS = 1 << (SEARCH_N_REDUCTIONS + 6),
    /* Or graphs with few of very many layers (cli/compact.c). */
    SEARCH_COMPACT = 1 << (SEARCH_N_REDUCTIONS + 7)
};

/* "arcs,fold" as a mask. FS_INVALID: an unknown name; err lists the known. */
fs_status search_reductions_parse(const char *names, fs_err *err,
                                  uint32_t *mask);

#endif
