/* An attention call as plain numbers and its walk over blocks of scores, for
 * the reference and for oneDNN, which differ in who multiplies. */
#ifndef FS_KERNELS_ATTENTION_H
#define FS_KERNELS_ATTENTION_H

#include "kernels/kernel.h"

/* Of a block, at most: its scores and their gradients stay in cache. */
enum { KERNEL_QUERIES = 64, KERNEL_KEYS = 384, KERNEL_WHOLE = 16 };

/* C (m, n) = alpha A B + beta C, A (m, k) and B (k, n); A or B may lie
 * transposed. Rows in memory are `step` elements apart. */
typedef struct kernel_product {
    int64_t m, n, k;
    bool ta, tb;
    int64_t a_step, b_step, c_step;
    double alpha, beta;
} kernel_product;

/* False when it could not be made. C is not read where beta is 0. */
typedef bool kernel_multiply(const kernel_product *p, const void *a,
                             const void *b, void *c);

/* q, k and v stand at inputs first .. first + 2. Heads of q that share one of k
 * and v are a group: their queries are the rows of one matrix. */
typedef struct kernel_attention {
    int32_t first;
    int64_t batch, heads, queries, keys, width, columns, kv_heads;
    int64_t first_head, first_kv, first_query; /* of the piece in the whole */
    int64_t shared; /* heads of q per head of k and v */
    int64_t ahead;  /* causal: keys that a query sees beyond its own place */
    bool causal, hides, flat; /* flat: k is (B,G,D,S) */
    const void *mask, *bias;  /* one of them, or neither */
    const kernel_arg *lengths;
    int64_t step[4]; /* of mask or bias along the axes of the scores */
    double scale, fill, cap;
    kernel_multiply *multiply;
    const kernel_call *call;
} kernel_attention;

kernel_attention kernel_attention_read(const kernel_call *call,
                                       kernel_multiply *multiply);

/* A block of scores of one group. */
typedef struct kernel_block {
    int64_t b, group, kv; /* sample; head of k and v in it, and among all */
    int64_t head, all;    /* the group's first, its rows */
    int64_t key, wide;    /* a stretch of keys */
    int64_t at, rows;     /* rows among the group's */
    int64_t row;          /* the first of them among all rows */
    int64_t keys;         /* of the stretch that one of the rows looks at */
    int64_t step;         /* between rows of the block, whole vectors */
    int32_t visits;       /* how many blocks the stretch had, this among them */
} kernel_block;

/* The next stretch of keys of a group; starts from KERNEL_BEFORE. */
#define KERNEL_BEFORE ((kernel_block){.key = -1})
bool kernel_attention_next_keys(const kernel_attention *a, kernel_block *block);
/* The stretch's next block; those that nobody looks at are passed over. */
bool kernel_attention_next_rows(const kernel_attention *a, kernel_block *block);

/* A length rounded up to whole vectors, whose loops have no rest. */
static inline int64_t kernel_whole(int64_t n)
{
    return (n + KERNEL_WHOLE - 1) / KERNEL_WHOLE * KERNEL_WHOLE;
}

/* How many keys of the block its row i may look at, the first ones; what the
 * mask hides is not taken off. */
int64_t kernel_attention_seen(const kernel_attention *a,
                              const kernel_block *block, int64_t i);
/* Where row i of the block and its first key stand in mask or bias. */
int64_t kernel_attention_mask(const kernel_attention *a,
                              const kernel_block *block, int64_t i);

/* The kernels of float with any product; false when that fails. */
bool kernel_attention_by(const kernel_call *call, kernel_multiply *multiply);
bool kernel_attention_grad_by(const kernel_call *call,
                              kernel_multiply *multiply);
bool kernel_attention_bias_grad_by(const kernel_call *call,
                                   kernel_multiply *multiply);

#endif
