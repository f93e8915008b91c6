/* What tells nodes apart, packed: op, attributes and shapes in as many words
 * as they take, most of the places for them being empty. */
#ifndef FS_IR_WORDS_H
#define FS_IR_WORDS_H

#include "ir/op.h"

/* Those beyond the room are counted, not kept. */
typedef struct ir_words {
    int32_t n, room;
    int64_t *at; /* [room] */
} ir_words;

static inline void ir_put_word(ir_words *words, int64_t word)
{
    if (words->n < words->room)
        words->at[words->n] = word;
    words->n++;
}

static inline void ir_put_pair(ir_words *words, int32_t high, int32_t low)
{
    ir_put_word(words,
                (int64_t)((uint64_t)(uint32_t)high << 32 | (uint32_t)low));
}

/* Of which those behind the last that is not 0 are left out. */
enum { IR_WORDS_OF_ATTRIBUTES = 1 + IR_MAX_ATTR + IR_MAX_REAL };
void ir_put_attributes(ir_words *words, const ir_node *node);

enum { IR_WORDS_OF_SHAPE = 1 + IR_MAX_RANK };
void ir_put_shape(ir_words *words, const ir_shape *shape, ir_dtype dtype);

enum { IR_WORDS_OF_MESH = 1 + IR_MAX_MESH };
void ir_put_mesh(ir_words *words, const ir_mesh *mesh);
/* A word for each of the axes. */
void ir_put_sbp(ir_words *words, const ir_nd_sbp *sbp, int32_t axes);

#endif
