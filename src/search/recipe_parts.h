/* What a recipe's filter knows of a graph. Internal to this folder. */
#ifndef FS_SEARCH_RECIPE_PARTS_H
#define FS_SEARCH_RECIPE_PARTS_H

#include "ir/op.h"
#include "search/recipe.h"

enum { SEARCH_NO_AXIS = -1 };

/* All of it is read off the graph's structure and its ops' signatures; no name
 * and no model is known. */
typedef struct search_marks {
    const ir_graph *graph;
    bool *weight;    /* [tensor] read as a weight, itself or through views */
    bool *data;      /* [tensor] depends on an input that has samples */
    int32_t *sample; /* [tensor] the axis of its samples, or none */
    int32_t *place;  /* [tensor] the axis of the places of a sequence, of the
                        rows of an image, or none */
    bool *stream;    /* [tensor] what norms take and make, and what elementwise
                        ops make of it: the residual stream between blocks */
    bool *between;   /* [node] is such an op or norm */
    bool *sums;      /* [node] adds up gradients that products make of one
                        tensor */
    bool *expert; /* [tensor] a weight per expert, or its optimizer's state */
} search_marks;

void search_marks_make(const ir_graph *graph, fs_arena *arena,
                       search_marks *out);

/* FS_INVALID: a part that is given changes nothing beside the others. What is
 * free has any number. */
fs_status search_recipe_effects(const search_recipe *recipe, fs_err *err);

#endif
