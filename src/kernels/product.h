/* Matrix products in float whose operands are packed: a tile of the result
 * stays in registers over a stretch of terms; the panel of the right operand
 * that it reads is made when its columns come, in room that is still in a
 * cache, of lines that the tiles before have asked for; panels of the left one
 * stream by. Goto and van de Geijn, Anatomy of High-Performance Matrix
 * Multiplication, ACM TOMS 34(3), 2008; Van Zee and van de Geijn, BLIS, ACM
 * TOMS 41(3), 2015; there all panels of the right one are made before, which
 * go out to memory and come back once.
 *
 * An element is the sum of its terms in their order, in stretches whose length
 * depends on k alone: its bits do not depend on m, n, on where it stands, nor
 * on how the operands lie. */
#ifndef FS_KERNELS_PRODUCT_H
#define FS_KERNELS_PRODUCT_H

#include <stdbool.h>
#include <stdint.h>

/* C (m, n) = A (m, k) B (k, n), all positive; A or B may lie transposed. Rows
 * in memory are `step` elements apart. bias: NULL, or a row of n that is added
 * to all rows. */
typedef struct kernel_packed {
    int64_t m, n, k;
    bool ta, tb;
    int64_t a_step, b_step, c_step;
    const float *a, *b, *bias;
    float *c;
    void (*rest)(void *ctx); /* kernel_call's */
    void *rest_ctx;
} kernel_packed;

/* The columns of B of a tile as they lie: those of a term together, terms
 * `step` apart. keep: their panel, which is made on the way; NULL: `from` is a
 * panel. */
typedef struct kernel_tile_columns {
    const float *from;
    int64_t step;
    float *keep;
} kernel_tile_columns;

/* What a tile starts from and where it goes: C's rows, `step` apart; `adds`:
 * to what stands there; else to `bias`, where there is one. And what it asks
 * for meanwhile, that later tiles read: from `ahead` on, `asks` floats a term.
 */
typedef struct kernel_tile_end {
    float *c;
    int64_t step;
    bool adds;
    const float *bias;
    const float *ahead;
    int64_t asks;
} kernel_tile_end;

/* The part that is written for an instruction set. A tile has up to `rows` rows
 * and `columns` columns; a panel holds so many rows of A, or columns of B, term
 * by term, lines that are not there as copies of the last one. */
typedef struct kernel_tiles {
    const char *name; /* "avx2" */
    int rows, columns;
    int64_t small;      /* of no more terms in all (m n k) a product is faster
                           by oneDNN, which packs none of such */
    bool (*runs)(void); /* on this processor? NULL: on any */
    /* With as many columns, or half as many where that is enough. */
    void (*tile)(int rows, int columns, int64_t terms, const float *a,
                 const float *b, const kernel_tile_end *end);
    /* A whole tile that keeps its columns. */
    void (*first)(int64_t terms, const float *a, const kernel_tile_columns *b,
                  const kernel_tile_end *end);
    /* One panel: `lines` are `step` apart, terms of each together. */
    void (*turn)(float *panel, int width, int lines, const float *from,
                 int64_t step, int64_t terms);
    /* As many panels, one behind the other, as `lines` fill: terms are `step`
     * apart, lines of each together. */
    void (*copy)(float *panel, int width, int lines, const float *from,
                 int64_t step, int64_t terms);
} kernel_tiles;

/* All, the fastest first; those that this processor does not have too. */
const kernel_tiles *kernel_tiles_list(int *n);
/* The first that runs here and is faster than a library would be; NULL: none.
 */
const kernel_tiles *kernel_tiles_find(void);

/* Bytes of room that a product of these sizes needs, 64-byte aligned. */
int64_t kernel_packed_room(const kernel_tiles *t, int64_t m, int64_t k);
void kernel_packed_run(const kernel_tiles *t, const kernel_packed *p,
                       void *room);

#endif
