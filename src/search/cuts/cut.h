/* Where stages may be cut, and are (cut.c, split.c). Internal to this folder.
 */
#ifndef FS_SEARCH_CUT_H
#define FS_SEARCH_CUT_H

#include "search/layout.h"

/* Cuts the graph into runs of forward nodes, one for each stage of the layout:
 * as many repeated blocks each as problem->layers says, or balanced by time (on
 * one device over the number of the stage's devices, and receiving) at places
 * that as few activations as possible cross; all other nodes follow. FS_NO when
 * there are not enough places. */
fs_status search_cut(const search_problem *problem, const search_layout *layout,
                     fs_err *err, int32_t *stage_of);

/* The forward nodes that compute with data, in the order in which stages have
 * them; each other node is of the stage of one of these. The same nodes have
 * the same ranks when the graph is bound to stages, and with copies. */
typedef struct search_ranks {
    const ir_graph *graph;
    int32_t n;
    int32_t *order; /* [n] nodes */
    int32_t *rank;  /* [nodes] theirs, or that of the one that is followed */
    int32_t n_meant, *meant; /* [n_meant] ranks, in the order of the graph that
                                is meant: of a compact one some several times;
                                NULL: its layers do not stand in a row */
} search_ranks;
void search_find_ranks(const ir_graph *graph, fs_arena *arena,
                       search_ranks *out);

/* [ranks + 1] How many activations of weight cross in front of each: a cut by
 * time lies where fewest do, in more places the more stages there are. */
const int32_t *search_count_crossings(const ir_graph *graph, fs_arena *arena);

/* [stages] How many of the first device each stage's devices are as fast as, by
 * seconds of the whole graph on one; the slowest of a stage counts. */
double *search_find_speeds(const search_problem *problem,
                           const search_layout *layout, fs_arena *arena);

/* Where a layout's graph may be cut: at[0] = 0, at[1 .. n - 1] ranks that few
 * activations cross (fewest first, at most `most`, but not fewer than stages
 * need), at[n] = all ranks. [stage * (n + 1) + place] seconds in which a stage
 * receives what crosses there: from the one before when it begins there, from
 * the one behind when it ends there. */
typedef struct search_places {
    int32_t n, *at;
    double *in, *back;
} search_places;
void search_find_places(const search_problem *problem,
                        const search_layout *layout, int32_t most,
                        fs_arena *arena, search_places *out);

/* FS_INVALID when the graph does not have as many repeated blocks. */
fs_status search_cut_check(const ir_graph *graph, const search_layers *layers,
                           int32_t n_stages, fs_err *err);

#endif
