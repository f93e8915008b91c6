/* The work of nodes, remembered: a deep network has few different ones. */
#ifndef FS_IR_WORKS_H
#define FS_IR_WORKS_H

#include "base/intern.h"
#include "ir/words.h"

/* All that a node's work on a mesh depends on: op, attributes, tensors and how
 * they lie there. Of two nodes with equal words ir_node_work says the same. */
enum {
    IR_WORK_WORDS = 1 + IR_WORDS_OF_MESH + IR_WORDS_OF_ATTRIBUTES +
                    (IR_MAX_IN + IR_MAX_OUT) * (IR_WORDS_OF_SHAPE + IR_MAX_MESH)
};
void ir_put_work(const ir_graph *graph, const ir_node *node,
                 const ir_nd_sig *sig, const ir_mesh *mesh, ir_words *words);

/* Of one graph, or of several; begin with the arena alone. */
typedef struct ir_works {
    fs_arena *arena;
    fs_intern known;
} ir_works;
/* What ir_node_work says. */
const ir_work *ir_work_of(ir_works *works, const ir_graph *graph,
                          const ir_node *node, const ir_nd_sig *sig,
                          const ir_mesh *mesh);

#endif
