/* attention and its gradient, row of scores by row, keys in blocks. */
#include "config.h"

#include "kernels/loops.h"
#include "kernels/math.h"

#include <string.h>

enum { KEYS = 64 }; /* of a block */

/* A call as plain numbers; q, k and v stand at inputs first .. first + 2. */
typedef struct attention {
    int64_t batch, heads, queries, keys, width, columns, kv_heads;
    int64_t first_head, first_kv, first_query; /* of the piece in the whole */
    int64_t shared;           /* heads of q per head of k and v */
    bool causal, hides, flat; /* flat: k is (B,G,D,S) */
    const unsigned char *mask;
    int64_t step[4]; /* of the mask along the axes of the scores */
    double scale, fill;
} attention;

static attention read_attention(const kernel_call *call, int32_t first)
{
    const kernel_arg *q = &call->in[first], *k = q + 1, *v = q + 2;
    const int64_t *i = call->node->i;
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
                   .causal = i[0] != 0,
                   .hides = i[2] != 0,
                   .flat = i[3] != 0,
                   .scale = call->f[0],
                   .fill = call->f[1]};
    if (call->n_in <= first + 3)
        return a;
    const ir_shape *mask = &call->in[first + 3].shape;
    int64_t step[IR_MAX_RANK];
    kernel_strides(mask, step);
    a.mask = call->in[first + 3].data;
    for (int32_t m = 0; m < mask->rank; m++)
        if (mask->dim[m] > 1)
            a.step[4 - mask->rank + m] = step[m];
    return a;
}

/* One row of scores: where it is, and the keys that it may look at. */
typedef struct attention_row {
    int64_t row, kv, seen;     /* row of q; head of k and v; keys */
    const unsigned char *mask; /* of key 0, or NULL */
} attention_row;

static attention_row find_row(const attention *a, int64_t row)
{
    const int64_t t = row % a->queries, h = row / a->queries % a->heads;
    const int64_t b = row / a->queries / a->heads;
    const int64_t head = (a->first_head + h) / a->shared - a->first_kv;
    const int64_t upto = a->first_query + t + 1;
    attention_row r = {.row = row,
                       .kv = b * a->kv_heads + head,
                       .seen = a->causal && upto < a->keys ? upto : a->keys};
    if (a->mask)
        r.mask = a->mask + b * a->step[0] + h * a->step[1] + t * a->step[2];
    return r;
}

static int64_t row_count(const attention *a)
{
    return a->batch * a->heads * a->queries;
}

/* Is key j of the row hidden by the mask? */
static inline bool is_hidden(const attention *a, const attention_row *r,
                             int64_t j)
{
    return r->mask && (r->mask[j * a->step[3]] != 0) == a->hides;
}

#include "kernels/real_f32.h"
#include "kernels/cpu_attention.inc"

#include "kernels/real_f64.h"
#include "kernels/cpu_attention.inc"

KERNEL_REAL(attention);
KERNEL_REAL(attention_grad);
