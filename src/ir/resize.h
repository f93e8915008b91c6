/* One network at several sizes, as its training graphs for several micro-batch
 * counts are: the same nodes that read the same, some lengths and attributes
 * other. Only the first is made in full; of each other one a network with few
 * copies of the layers tells what is other. */
#ifndef FS_IR_RESIZE_H
#define FS_IR_RESIZE_H

#include "ir/layers.h"

/* The graph with few copies of its layers, from both ends of each run: what
 * names and data it borrows lives as long as the first. Else it is one of its
 * own (ir_graph_destroy), to which nodes may be added. NULL: less than half of
 * its nodes would be left out. */
ir_graph *ir_shorten(const ir_graph *graph);

typedef struct ir_sizes {
    const ir_graph *graph; /* all of its layers, */
    const ir_graph *few;   /* and few of them, both at one size */
    ir_folded folded;
} ir_sizes;

/* `few` is to be `graph` with layers left out, but for names and seeds; false:
 * it is not. graph->layers become known. Borrows both. */
bool ir_sizes_open(ir_graph *graph, const ir_graph *few, fs_arena *arena,
                   ir_sizes *out);

/* Are two graphs the same but for names and seeds? */
bool ir_same_but_names(const ir_graph *a, const ir_graph *b);
/* Are two graphs the same but for sizes? */
bool ir_sizes_alike(const ir_graph *a, const ir_graph *b);
/* All layers at the size of another `few`, which is to be alike. Names, and
 * data that do not hang on the size, are borrowed from the first graph, others
 * from `few`, which `ir_graph_join` may give to what is made. NULL: it has a
 * constant of which only some copies would be known. */
ir_graph *ir_resize(const ir_sizes *sizes, const ir_graph *few);

#endif
