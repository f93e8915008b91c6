/* What a configuration's network is built on: its layout, or one with fewer
 * stages and layers that stand for those like them. Internal to this folder. */
#ifndef FS_SEARCH_VIEW_H
#define FS_SEARCH_VIEW_H

#include "ir/layers.h"
#include "search/layout.h"

/* A placed graph with few of its equal layers and equal stages. Of stages in a
 * row that have equally many copies of the same runs and nothing else, the
 * first two stand for all; of the copies of a run in one stage the first, the
 * second, which stands for all between, and the last. */
typedef struct search_fold {
    const ir_layers *layers;
    const int32_t *whole_stage; /* [nodes of the whole graph] */
    int32_t n_whole;            /* stages of it */
    ir_folded folded;
    int32_t n_stages;
    int32_t *stage_of; /* [folded nodes] */
    int32_t *stage;    /* [n_stages] of the whole pipeline */
    int32_t *last;     /* [n_stages] the last of those that it stands for */
    int32_t *like;     /* [n_stages] how many these are */
    int32_t *times;    /* [folded nodes] of its stage */
    int32_t *equal;    /* [folded nodes] the first of its position there */
    int32_t *rep;      /* [nodes of the whole graph] */
} search_fold;

/* False where nothing would be left out. */
bool search_fold_find(const ir_layers *layers, const int32_t *stage_of,
                      int32_t n_stages, fs_arena *arena, search_fold *out);

/* A folded graph bound to its stages (ir_recompute_bind), as a layout has it.
 */
typedef struct search_view {
    const search_fold *fold;
    const ir_graph *graph;
    int32_t *stage_of, *times, *equal; /* [nodes] */
    int32_t *run, *copy, *position;    /* [nodes] ir_layers' */
    int32_t *rep; /* [nodes of the whole graph, before it is bound] */
} search_view;
void search_view_make(const search_fold *fold, fs_arena *arena,
                      search_view *out);

/* For each node of the whole graph, bound to its stages or not, which one it
 * was before, */
int32_t *search_view_before(const search_view *view, const ir_graph *bound,
                            fs_arena *arena);
/* and the one of the view that stands for it. */
int32_t *search_view_nodes(const search_view *view, const ir_graph *bound,
                           fs_arena *arena);

#endif
