/* Families of strategies of one network: graphs of few layers with a strategy
 * that search completes from a recipe, and what each stands for, written out.
 */
#ifndef FS_TESTS_PRICING_H
#define FS_TESTS_PRICING_H

#include "cost/sheet.h"
#include "hw/cluster.h"

/* Layers of each stage of a graph with few. */
enum { PRICING_LAYERS = 3 };

typedef struct pricing_network {
    const char *spec; /* "zoo:gpt3-175b", without layers */
    const char *recompute;
    int32_t layers;  /* in all */
    int32_t samples; /* of a micro-batch, over all data-parallel ranks */
} pricing_network;
/* Its training graph with so many layers, in bf16 and fp32, by AdamW. */
ir_graph *pricing_graph(const pricing_network *network, int32_t layers);

/* What search makes of the recipe for a graph of n_stages times
 * PRICING_LAYERS, on as few devices as that has. */
plan_strategy *pricing_pattern(const ir_graph *graph, int32_t n_stages,
                               const char *recipe, const char *cluster,
                               const char *datasets, fs_arena *arena);

/* The strategy for the whole network that a pattern stands for. */
plan_strategy *pricing_whole(const ir_graph *few, const plan_strategy *pattern,
                             const ir_graph *whole, const cost_degrees *degrees,
                             fs_arena *arena);

#endif
