/* Inside the finder of layers. */
#ifndef FS_IR_LAYERS_PARTS_H
#define FS_IR_LAYERS_PARTS_H

#include "ir/layers.h"

enum { IR_LAYERS_LEAST = 3 }; /* copies, of which one can be left out */

typedef struct ir_id_vec {
    int32_t *at;
    int32_t n, room;
} ir_id_vec;

typedef struct ir_layer_finder {
    const ir_graph *graph;
    fs_arena *arena; /* what is needed while finding */
    fs_arena *kept;  /* results */
    ir_layers *out;
    ir_uses uses;
    int32_t *kid_first, *kid; /* [node] nodes whose `forward` it is, in order */
    int32_t *held_by; /* [tensor] the node one of whose outputs has it as
                         `next`, or SEVERAL; -1 */
    int32_t *again;   /* [tensor] likewise as again_of */
    bool *pinned;     /* [tensor] an output or the loss */
    uint64_t *look;   /* [node] of all that must be equal but for links */
    /* Guesses: which copy of which repeat a node belongs to, and a mark that
     * nodes of one position share. */
    int32_t *run, *copy; /* [node] -1 */
    uint64_t *mark;
    int32_t *position; /* [node] within the interval at hand */
    int32_t *begin;    /* members of copy c of the run at hand: */
    int32_t *member;   /* member[begin[c] .. begin[c + 1]) */
} ir_layer_finder;

enum { IR_LAYERS_SEVERAL = -2 };

/* Copies [first, end) of the guessed run: makes runs of those that are equal.
 */
void ir_layers_check(ir_layer_finder *f, int32_t run, int32_t first,
                     int32_t end);

#endif
