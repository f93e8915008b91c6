/* attention and its gradients, by blocks of queries and keys: scores never
 * stand in memory but for one block. */
#include "config.h"

#include "kernels/indices.h"
#include "kernels/loops.h"
#include "kernels/math.h"

#include <string.h>

/* Of a block. Wider heads are multiplied WIDE columns at a time. */
enum { QUERIES = 48, KEYS = 64, WIDE = 128 };

/* A call as plain numbers; q, k and v stand at inputs first .. first + 2. */
typedef struct attention {
    int64_t batch, heads, queries, keys, width, columns, kv_heads;
    int64_t first_head, first_kv, first_query; /* of the piece in the whole */
    int64_t shared; /* heads of q per head of k and v */
    int64_t ahead;  /* causal: keys that a query sees beyond its own place */
    bool causal, hides, flat; /* flat: k is (B,G,D,S) */
    const void *mask, *bias;  /* one of them, or neither */
    const kernel_arg *lengths;
    int64_t step[4]; /* of mask or bias along the axes of the scores */
    double scale, fill, cap;
} attention;

static void read_mask(const kernel_arg *mask, attention *a)
{
    int64_t step[IR_MAX_RANK];
    kernel_strides(&mask->shape, step);
    if (mask->dtype == IR_BOOL)
        a->mask = mask->data;
    else
        a->bias = mask->data;
    for (int32_t m = 0; m < mask->shape.rank; m++)
        if (mask->shape.dim[m] > 1)
            a->step[4 - mask->shape.rank + m] = step[m];
}

static attention read_attention(const kernel_call *call, int32_t first)
{
    const kernel_arg *q = &call->in[first], *k = q + 1, *v = q + 2;
    const int64_t *i = call->node->i;
    int32_t n = call->n_in;
    attention a = {.batch = q->shape.dim[0],
                   .heads = q->shape.dim[1],
                   .queries = q->shape.dim[2],
                   .keys = v->shape.dim[2],
                   .width = q->shape.dim[3],
                   .columns = v->shape.dim[3],
                   .kv_heads = k->shape.dim[1],
                   .first_head = q->offset[1],
                   .first_kv = k->offset[1],
                   .first_query = q->offset[2],
                   .shared = i[1],
                   .ahead = i[5],
                   .causal = i[0] != 0,
                   .hides = i[2] != 0,
                   .flat = i[3] != 0,
                   .scale = call->f[0],
                   .fill = call->f[1],
                   .cap = call->f[2]};
    if (i[4])
        a.lengths = &call->in[--n];
    if (n > first + 3)
        read_mask(&call->in[first + 3], &a);
    return a;
}

/* A block of scores of one head. */
typedef struct attention_block {
    int64_t b, h, kv;  /* sample; head of q; (sample, head) of k and v */
    int64_t t, rows;   /* its queries */
    int64_t key, keys; /* its keys */
    int64_t row;       /* of query t among all rows */
    bool fresh;        /* other keys than in the block before */
} attention_block;

/* Keys that query t of a sample may look at, but for what the mask hides. */
static int64_t seen_keys(const attention *a, int64_t b, int64_t t)
{
    int64_t seen = a->keys;
    if (a->causal && a->first_query + t + a->ahead + 1 < seen)
        seen = a->first_query + t + a->ahead + 1;
    if (a->lengths && kernel_index(a->lengths, b) < seen)
        seen = kernel_index(a->lengths, b);
    return seen < 0 ? 0 : seen;
}

static void place_block(const attention *a, attention_block *at)
{
    const int64_t head = (a->first_head + at->h) / a->shared - a->first_kv;
    at->kv = at->b * a->kv_heads + head;
    at->rows = a->queries - at->t < QUERIES ? a->queries - at->t : QUERIES;
    at->keys = a->keys - at->key < KEYS ? a->keys - at->key : KEYS;
    at->row = (at->b * a->heads + at->h) * a->queries + at->t;
}

/* Queries innermost, so that a block of keys is laid out once for all. Blocks
 * that nobody looks at are passed over. Starts from {.t = -QUERIES}. */
static bool next_block(const attention *a, attention_block *at)
{
    at->fresh = at->t < 0;
    if (a->batch * a->heads * a->queries * a->keys == 0)
        return false;
    do {
        at->t += QUERIES;
        if (at->t >= a->queries) {
            at->t = 0;
            at->fresh = true;
            at->key += KEYS;
        }
        if (at->key >= a->keys) {
            at->key = 0;
            at->h++;
        }
        if (at->h >= a->heads) {
            at->h = 0;
            at->b++;
        }
        if (at->b >= a->batch)
            return false;
        place_block(a, at);
    } while (seen_keys(a, at->b, at->t + at->rows - 1) <= at->key);
    return true;
}

/* Keys of the block that its query i may look at. */
static int64_t seen_here(const attention *a, const attention_block *at,
                         int64_t i)
{
    const int64_t seen = seen_keys(a, at->b, at->t + i) - at->key;
    return seen < 0 ? 0 : seen < at->keys ? seen : at->keys;
}

/* Of mask or bias, at query i and the first key of the block. */
static int64_t mask_place(const attention *a, const attention_block *at,
                          int64_t i)
{
    return at->b * a->step[0] + at->h * a->step[1] + (at->t + i) * a->step[2] +
           at->key * a->step[3];
}

#include "kernels/real_f32.h"
#include "kernels/cpu_product.inc"
#include "kernels/cpu_attention.inc"

#include "kernels/real_f64.h"
#include "kernels/cpu_product.inc"
#include "kernels/cpu_attention.inc"

KERNEL_REAL(attention);
KERNEL_REAL(attention_grad);
KERNEL_REAL(attention_bias_grad);
