/* Recipes: the usual names for parts of a strategy (dp=2, tp=2, pp=2, zero=1),
 * as constraints on the search; the engine finds the cheapest completion. */
#ifndef FS_SEARCH_RECIPE_H
#define FS_SEARCH_RECIPE_H

#include "search/recipe/pins.h"
#include "search/search.h"

/* A number of each stage, where these are not all the same. */
typedef struct search_each {
    int32_t n; /* 0: they are */
    const int32_t *at;
} search_each;

/* 0 (zero, seq_parallel: -1; texts: NULL) leaves a part free. */
typedef struct search_recipe {
    int32_t dp, tp, pp;
    int32_t cp; /* ranks that share the places of a sequence, or of an
                   image */
    int32_t ep; /* of the dp ranks, how many share the experts */
    search_each dp_each, tp_each, cp_each, ep_each; /* dp, .. : the first's */
    int32_t micro_batches;                          /* count */
    int64_t micro_batch;  /* size in samples per data-parallel rank */
    int32_t interleave;   /* stages per group of devices */
    int32_t zero;         /* 0..3 */
    int32_t seq_parallel; /* 1: on tp what lies between blocks is cut along the
                             sequence; 0: it is whole */
    const char *schedule;
    /* Of the training graph: the caller's */
    const char *precision, *states, *recompute;
    int32_t n_layers;
    const search_layers *layers; /* [n_layers] of each stage */
    search_pins pins; /* each matches a parameter of the graphs; they decide for
                         whatever makes or takes these */
} search_recipe;

search_recipe search_recipe_free(void);
/* Adds "dp=2,tp=2" to *out; FS_INVALID names the key and lists the known, or
 * names both values of one that was given before. */
fs_status search_recipe_parse(const char *text, fs_arena *arena, fs_err *err,
                              search_recipe *out);
/* Adds one key and its value. */
fs_status search_recipe_set(const char *key, const char *value, fs_arena *arena,
                            fs_err *err, search_recipe *out);
/* The recipe as it is for one stage. */
search_recipe search_recipe_at(const search_recipe *recipe, int32_t stage);
/* Parts that are given must multiply to the devices: dp * cp * tp * pp = n,
 * where cp is 1 unless given (the sum over stages that differ, which want dp);
 * ep divides dp. When `complete` is set, a free
 * part becomes: dp what is left of the devices, the others 1, zero and
 * seq_parallel 0 (the command `plan`). A micro-batch must divide over dp.
 * FS_INVALID says what does not fit. */
fs_status search_recipe_complete(const hw_cluster *cluster, int64_t batch,
                                 bool complete, fs_err *err,
                                 search_recipe *recipe);
/* Of a recipe that leaves parts open: FS_INVALID when one says something of
 * ranks that it gives nobody, which has no effect unless a planner does. */
fs_status search_recipe_check_open(const search_recipe *recipe, fs_err *err);
/* Ranks that the parts that are given multiply to; INT64_MAX: too many. */
int64_t search_recipe_ranks(const search_recipe *recipe);
/* FS_INVALID when a part has nothing to hold on to in this graph: experts of a
 * network without, sequences of one without. */
fs_status search_recipe_check(const search_recipe *recipe,
                              const ir_graph *graph, fs_err *err);
/* Of what zero, or tp, is to cut, what has no axis that is long enough. */
typedef struct search_uncut {
    int32_t n, of;     /* tensors that persist; of all that it is to cut */
    int64_t bytes;     /* theirs, whole */
    const char *first; /* the name of one; NULL: n is 0 */
} search_uncut;
/* On the meshes that a plan gives the stages. */
void search_recipe_uncut(const search_recipe *recipe, const ir_graph *graph,
                         const plan_strategy *strategy, search_uncut *zero,
                         search_uncut *tp);
/* Fills fix_stages, fix_mesh or stage_mesh (axes dp / ep, ep, cp, tp; those of
 * length 1 dropped), filter, layers, schedule and, of ZeRO-3, lives of the
 * problem. The filter's context lives in the arena. */
void search_recipe_apply(const search_recipe *recipe, fs_arena *arena,
                         search_problem *problem);

/* Of the stages of a strategy for the graph as it was bound to them
 * (ir_recompute_bind): what cuts the graph there again. */
void search_layers_of(const ir_graph *graph, const ir_graph *bound,
                      const plan_strategy *strategy, search_layers *out);
/* "0/2x6/0", as `layers` takes it. */
const char *search_layers_text(const search_layers *layers, int32_t n,
                               fs_arena *arena);

#endif
