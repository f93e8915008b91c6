/* What is found once, of a graph mostly, for all searches that one search is
 * made of (its planner's, recipe by recipe) and all their threads. Internal to
 * this folder. */
#ifndef FS_SEARCH_KNOWN_H
#define FS_SEARCH_KNOWN_H

#include "ir/blocks.h"
#include "search/cuts/cut.h"
#include "search/cuts/parting.h"
#include "search/recipe/recipe_parts.h"
#include "search/view.h"

typedef struct search_known search_known;

search_known *search_known_create(void);
void search_known_destroy(search_known *known);

/* Results live as long as `known`; so must the graph. Any thread may ask: who
 * is first finds it, others wait for that. */
const ir_layers *search_known_layers(search_known *known,
                                     const ir_graph *graph);
const ir_blocks *search_known_blocks(search_known *known,
                                     const ir_graph *graph);
/* The graph in stages, folded; NULL: that leaves out too little. */
const search_view *search_known_view(search_known *known, const ir_graph *graph,
                                     const int32_t *stage_of, int32_t n_stages);
const search_marks *search_known_marks(search_known *known,
                                       const ir_graph *graph);
/* Of a graph that is like others (ir_graph.like), which have the same. */
const search_ranks *search_known_ranks(search_known *known,
                                       const ir_graph *graph);
/* Do the layers that a problem's compact graphs mean stand in a row? */
bool search_known_in_a_row(const search_problem *problem);
/* What cuts by time into at most so many stages part. */
const search_partings *search_known_partings(search_known *known,
                                             const ir_graph *graph,
                                             const search_ranks *ranks,
                                             int32_t most_stages);
/* plan_schedule_fill of stages on groups of devices, of so many micro-batches:
 * equal for all meshes, unless stages have each their own. */
double search_known_fill(search_known *known, const search_layout *layout,
                         int32_t micro_batches);
double search_fill_of(const search_layout *layout, int32_t micro_batches);

#endif
