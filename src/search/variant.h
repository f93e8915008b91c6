/* What a plan would cost if one thing in it were otherwise and all that it does
 * not fix were chosen anew: a min-marginal, by a search of its own. */
#ifndef FS_SEARCH_VARIANT_H
#define FS_SEARCH_VARIANT_H

#include "search/search.h"

typedef struct search_variant {
    const hw_cluster *cluster;
    const cost_model *cost;
    const ir_graph *graph;         /* bound to the stages of the strategy, or */
    const plan_strategy *strategy; /* with `layers`, to none */
    int64_t memory_bytes;          /* limit per device besides its own; 0 */
    bool any_memory;               /* no limit counts */
    int32_t node;                  /* -1: any signatures; else of this node */
    bool same;                     /* that of the strategy, or any other */
    const ir_mesh *mesh;           /* [groups of devices]; NULL: as they are */
    const search_layers *layers;   /* [stages] each has; NULL: as it is cut */
} search_variant;

/* Stages, micro-batches and schedule are the strategy's. FS_NO: there is no
 * such plan, or none was found within a fixed amount of work; out->status says.
 */
fs_status search_variant_run(const search_variant *variant, fs_arena *arena,
                             fs_err *err, search_result *out);

#endif
