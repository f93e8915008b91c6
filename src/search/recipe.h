/* Recipes: the usual names for parts of a strategy (dp=2, tp=2, pp=2, zero=1),
 * as constraints on the search; the engine finds the cheapest completion. */
#ifndef FS_SEARCH_RECIPE_H
#define FS_SEARCH_RECIPE_H

#include "search/pins.h"
#include "search/search.h"

/* 0 (zero: -1; schedule: NULL) leaves a part free. */
typedef struct search_recipe {
    int32_t dp, tp, pp;
    int32_t micro_batches; /* count */
    int64_t micro_batch;   /* size in samples per data-parallel rank */
    int32_t zero;          /* 0..3 */
    const char *schedule;
    search_pins pins; /* each matches a parameter of the graphs; they decide for
                         whatever makes or takes these */
} search_recipe;

search_recipe search_recipe_free(void);
/* Adds "dp=2,tp=2" to *out; FS_INVALID names the key and lists the known, or
 * names both values of one that was given before. */
fs_status search_recipe_parse(const char *text, fs_arena *arena, fs_err *err,
                              search_recipe *out);
/* Parts that are given must multiply to the devices: dp * tp * pp = n. When
 * `complete` is set, a free part becomes: dp what is left of the devices, the
 * others 1 (the command `plan`). A micro-batch must divide over dp. FS_INVALID
 * says what does not fit. */
fs_status search_recipe_complete(const hw_cluster *cluster, int64_t batch,
                                 bool complete, fs_err *err,
                                 search_recipe *recipe);
/* Fills fix_stages, fix_mesh (axes dp, tp; those of length 1 dropped), filter
 * and schedule of the problem. The filter's context lives in the arena. */
void search_recipe_apply(const search_recipe *recipe, fs_arena *arena,
                         search_problem *problem);

#endif
