/* Prices of all usual recipes of a network of equal layers: data, tensor and
 * pipeline parallelism that multiply to the devices, micro-batches, what is
 * computed again, ZeRO, the stream between blocks cut along the sequence or
 * not, schedules. Search completes each kind of recipe on a few meshes; what is
 * priced is the best of these strategies on meshes of all lengths
 * (cost/sheet.h, src/search/SWEEP.md). */
#ifndef FS_SEARCH_SWEEP_H
#define FS_SEARCH_SWEEP_H

#include "cost/sheet.h"
#include "search/recipe/recipe.h"

/* Layers of each stage of the graphs that it asks for. */
enum { SEARCH_SWEEP_LAYERS = 3 };

/* A training graph. */
typedef struct search_sweep_graph {
    const char *recompute;
    int32_t layers, samples, micro_batches;
} search_sweep_graph;

/* Micro-batches of so many samples, over all ranks, and how many of them. Those
 * of one count have graphs of their own: nothing is accumulated there. */
typedef struct search_sweep_size {
    int32_t samples, n_counts;
    const int32_t *counts;
} search_sweep_size;

typedef struct search_swept {
    const char *recompute, *schedule;
    int32_t dp, tp, pp, layers; /* layers of a stage */
    int32_t zero, seq_parallel, micro_batches;
    const cost_price *price; /* NULL: it has none, */
    const char *why;         /* since this */
    /* What was priced; NULL where there is none. */
    const ir_graph *few;
    const plan_strategy *pattern;
    const cost_degrees *degrees;
} search_swept;

/* Of the processor. */
typedef struct search_sweep_figures {
    int32_t patterns, same, sheets, meshes; /* same: patterns that were known */
    double patterns_s, graphs_s, sheets_s;
} search_sweep_figures;

typedef struct search_sweep {
    const hw_cluster *cluster; /* of one kind of devices */
    const cost_model *cost;
    int32_t layers, devices;
    bool fewer; /* recipes of fewer devices too, dp and tp powers of two; no
                   word of stages that have no sheet */
    bool quick; /* completed on two ranks of each axis alone */
    double limit_bytes; /* of strategies of one recipe, what fits goes first */
    int32_t most_each;  /* samples of a rank's micro-batch; 0: any */
    int32_t n_recompute, n_schedules, n_sizes;
    const char *const *recompute, *const *schedules;
    const search_sweep_size *sizes;
    const search_recipe *fix; /* dp, tp, pp, zero, seq_parallel, micro_batches,
                                 micro_batch that are given; NULL: none */
    void *ctx;
    /* The sweep's, which destroys it; NULL: err says why, and recipes of it
     * have no price. */
    ir_graph *(*graph)(void *ctx, const search_sweep_graph *of, fs_err *err);
    void (*visit)(void *ctx, const search_swept *recipe);
    /* Once behind all recipes of a mesh, with what is known by then; NULL. */
    void (*mesh_done)(void *ctx, cost_sheet *sheet, const cost_degrees *of,
                      const search_sweep_size *size);
    search_sweep_figures figures;
} search_sweep;

void search_sweep_run(search_sweep *sweep);

/* What search makes of a recipe that has all devices of the model's cluster,
 * whatever they hold, of this graph alone. FS_INVALID: there is no such
 * strategy. */
fs_status search_sweep_complete(const cost_model *cost, const ir_graph *graph,
                                search_recipe recipe, fs_arena *arena,
                                fs_err *err, plan_strategy **out);

#endif
