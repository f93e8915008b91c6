/* Repeated structure: which stretches of a graph are copies of one block.
 * Exact: position j of every copy has the same op, attributes, shapes and
 * element types; its inputs come from the same positions of its own copy and
 * of those before, for which tensors from anywhere before it stand in where
 * there is none, from one and the same tensor outside, or from one position of
 * another repeat, copy by copy forth or back (as the backward pass does);
 * its own parameters, inputs and constants have the same shapes; and the same
 * positions are read from outside the copy (but for the last copy, which other
 * nodes follow). */
#ifndef FS_IR_BLOCKS_H
#define FS_IR_BLOCKS_H

#include "ir/graph.h"

/* Nodes with work (no sources) in the graph's order, counted from 0: copy c's
 * position j is number first + c * length + j. */
typedef struct ir_repeat {
    int32_t first, length, copies;
    const char *name;  /* of its first node */
    const char *scope; /* what the names of copy 0 begin with; "" */
} ir_repeat;

typedef struct ir_blocks {
    int32_t n_nodes;           /* with work */
    int32_t *node;             /* [n_nodes] graph node of each number */
    FS_VEC(ir_repeat) repeats; /* by first; they do not overlap */
} ir_blocks;

/* Forward, backward and update nodes alike. Memory and time grow with the
 * graph as it is long. */
void ir_find_blocks(const ir_graph *graph, fs_arena *arena, ir_blocks *out);
/* Nodes that stand in some copy. */
int32_t ir_blocks_covered(const ir_blocks *blocks);

#endif
