/* Convolutional networks under a framework: how often batch norms, what follows
 * them, and the layout of activations move bytes. */
#ifndef FS_COST_NORMED_H
#define FS_COST_NORMED_H

#include "cost/framework.h"

/* What of a graph a batch norm reads: [tensors]. */
const bool *cost_normed_inputs(const ir_graph *graph, fs_arena *arena);

/* The part that is left of the bytes that a node moves by itself; 0: it is part
 * of another kernel. In networks of 16-bit floats (`mixed`) frameworks fuse
 * more. */
double cost_normed_share(const cost_framework *framework, const ir_graph *graph,
                         const bool *normed, const ir_node *node, bool mixed);

/* Bytes that turning activations to the order of tensor cores and back moves
 * around a convolution. */
double cost_turned_bytes(const ir_graph *graph, const ir_node *node,
                         const ir_work *work);

/* How many times fewer products a convolution of floats takes by Winograd's
 * minimal filtering; 1 where it has none. */
double cost_minimal_times(const ir_graph *graph, const ir_node *node);

#endif
