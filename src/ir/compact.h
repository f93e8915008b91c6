/* Compact graphs: of each run of equal layers few copies, some of which stand
 * for several. A compact graph is the network with so many layers less, and for
 * whom it stands is proven only by the one in full (ir_compact_open).
 *
 * A copy that stands for more (`ir_node.more`, of all its nodes) lies between
 * two that stand for themselves: these three are a group, which stands for
 * equal layers in a row, the middle one for all between the first and the last.
 * What reads along a chain reads from copy to copy: its edges count as often as
 * the reader stands for. So a sum over nodes and edges is that of the graph in
 * full, if each counts ir_times and the copies of a group have equal values. */
#ifndef FS_IR_COMPACT_H
#define FS_IR_COMPACT_H

#include "ir/layers.h"

static inline int32_t ir_times(const ir_node *node)
{
    return 1 + node->more;
}
static inline bool ir_is_compact(const ir_graph *graph)
{
    return graph->meant > 0;
}
int32_t ir_copy_times(const ir_layers *layers, int32_t run, int32_t copy);

/* Copy c of every run comes to stand for times[c]; all runs have as many
 * copies. The graph's layers are known. */
void ir_compact_make(ir_graph *graph, const int32_t *times);
/* The same graph with other counts: copied, in `arena`, but for names, data and
 * what its layers are. */
ir_graph *ir_compact_copy(const ir_graph *graph, fs_arena *arena);
/* Those of one of its runs, whose sum is to stay. */
void ir_compact_count(ir_graph *graph, int32_t run, int32_t copy,
                      int32_t times);

/* The layers of a compact graph that was bound to stages (ir_recompute_bind), of
 * what it was before: runs are cut at copies that lost a node or read other. */
void ir_compact_bound(ir_graph *bound, const ir_graph *before);

/* `whole` with the copies left out that nodes of `compact` stand for: it is the
 * same but for names and seeds, and out->rep says which node of it each of
 * `whole` is. False: it is not. The layers of `whole` become known. */
bool ir_compact_open(ir_graph *whole, const ir_graph *compact, fs_arena *arena,
                     ir_folded *out);

#endif
