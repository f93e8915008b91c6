/* Inside the finder of repeats. */
#ifndef FS_IR_BLOCKS_PARTS_H
#define FS_IR_BLOCKS_PARTS_H

#include "ir/blocks.h"

/* A node of a repeat: `at` counts from the beginning of its first copy, so that
 * what is below 0 stands for the copy before the first. */
typedef struct ir_block_place {
    int32_t repeat, at, slot;
} ir_block_place;

typedef struct ir_block_finder {
    const ir_graph *graph;
    ir_blocks *out;
    fs_arena *arena;
    int32_t *number;       /* [graph node] its number, -1: a source */
    uint64_t *look;        /* [number] hash of op, attributes, shapes */
    uint64_t *told;        /* [number] the same, with which of the weights (and
                              what is made of them) it reads that others read
                              before */
    bool *steady;          /* [number] made of weights and constants alone */
    uint64_t *windows;     /* [number] of either, with those before it */
    int32_t *reader;       /* [tensor] last number that reads it, -1 */
    int32_t *home;         /* [tensor] first number that reads it, -1 */
    int32_t *repeat;       /* [number] the repeat that it stands in, -1 */
    ir_block_place *entry; /* [tensor] the place before a first copy that it
                            stands for, in no repeat else */
    int32_t *step; /* [repeat] how many of its copies further on the next
                      copy of the stretch at hand reads; 0: not known */
    /* While a first copy is held against the second: where it begins, else
     * INT32_MAX, and what it reads instead of what that reads of the first. */
    int32_t begin;
    int32_t *stand_in, *stands_for; /* [tensor], -1 */
    FS_VEC(int32_t) entries;        /* tensors that have a stand_in */
    /* A hash table of the last number with a window, and votes. */
    int32_t *last, *votes, *voted;
    uint64_t *key;
    int32_t room, n_voted;
} ir_block_finder;

static inline const ir_node *ir_blocks_node(const ir_block_finder *f,
                                            int32_t number)
{
    return &f->graph->nodes.at[f->out->node[number]];
}

/* A first copy reads an input where others read the copy before them. */
static inline ir_role ir_blocks_role(const ir_tensor *tensor)
{
    return tensor->role == IR_INPUT ? IR_ACTIVATION : tensor->role;
}

/* Are node i and the one `apart` further on alike? */
bool ir_blocks_alike(ir_block_finder *f, int32_t i, int32_t apart);
/* Is there a copy at `begin`, before the one at begin + length? Where that
 * reads the copy before it, the first reads what lies anywhere before. */
bool ir_blocks_first_copy(ir_block_finder *f, int32_t begin, int32_t length);
/* Notes what the first copy of repeat `id` reads where the second reads the
 * first. */
void ir_blocks_note_entries(ir_block_finder *f, const ir_repeat *r, int32_t id);

#endif
