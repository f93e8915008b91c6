/* What cuts part of what is computed again (parting.c). Internal to this
 * folder. */
#ifndef FS_SEARCH_PARTING_H
#define FS_SEARCH_PARTING_H

#include "search/cuts/cut.h"

/* Copies that may lie on another stage than their readers, which then read what
 * the forward pass made (ir_recompute_bind): a bound of all such cuts counts
 * none of what may be left out. */
typedef struct search_parting {
    int32_t most, places; /* of cuts that it speaks of: at places that at most
                             so many activations cross, so many of them */
    int32_t n;            /* edges that count nothing; 0: there are none, and */
    bool *gone;           /* [nodes] takes no time, */
    uint8_t *apart;       /* [nodes] bit k: nor does its input k; NULL both */
} search_parting;

/* Of a graph: by what its stages are cut at, places that fewest activations
 * cross (search_cut), more of them the more stages there are. */
typedef struct search_partings {
    int32_t n;
    search_parting *at;
    const int32_t *crossing; /* [places] activations that cross, */
    const int32_t *n_parted; /* and edges that a cut there parts; NULL: it has
                                no copies, or cuts are given */
} search_partings;

search_partings search_find_partings(const ir_graph *graph,
                                     const search_ranks *ranks,
                                     int32_t most_stages, fs_arena *arena);
/* Stages of all groups of devices that a problem may have. */
int32_t search_most_stages(const search_problem *problem);
/* Where cuts are given: by stages that nodes are to have, or by blocks of each.
 */
search_partings search_part_as_told(const search_problem *problem,
                                    const ir_graph *graph, fs_arena *arena);
const search_parting *search_parting_of(const search_partings *partings,
                                        int32_t n_stages);
/* Does a cut at these ranks, begin[1 .. n - 1], part nothing else? */
bool search_parts_no_more(const search_partings *partings, int32_t n_stages,
                          int32_t n, const int32_t *begin);
/* A layout of all of the graph, or of a view of it, leaves that out. */
void search_leave_parted(const search_parting *parting, const ir_graph *graph,
                         fs_arena *arena, search_layout *layout);

#endif
