/* What an attention call means, and its blocks. */
#include "config.h"

#include "kernels/attention.h"

#include "kernels/indices.h"
#include "kernels/loops.h"

static void read_mask(const kernel_arg *mask, kernel_attention *a)
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

kernel_attention kernel_attention_read(const kernel_call *call,
                                       kernel_multiply *multiply)
{
    const int32_t first = call->node->op == IR_OP_attention ? 0 : 3;
    const kernel_arg *q = &call->in[first], *k = q + 1, *v = q + 2;
    const int64_t *i = call->node->i;
    int32_t n = call->n_in;
    kernel_attention a = {.first = first,
                          .batch = q->shape.dim[0],
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
                          .cap = call->f[2],
                          .multiply = multiply,
                          .call = call};
    if (i[4])
        a.lengths = &call->in[--n];
    if (n > first + 3)
        read_mask(&call->in[first + 3], &a);
    return a;
}

/* Keys that a query of a sample may look at, but for what the mask hides. */
static int64_t seen_keys(const kernel_attention *a, int64_t b, int64_t query)
{
    const int64_t last = a->first_query + query + a->ahead + 1;
    int64_t seen = a->keys;
    if (a->causal && last < seen)
        seen = last;
    if (a->lengths && kernel_index(a->lengths, b) < seen)
        seen = kernel_index(a->lengths, b);
    return seen < 0 ? 0 : seen;
}

int64_t kernel_attention_seen(const kernel_attention *a,
                              const kernel_block *block, int64_t i)
{
    const int64_t query = (block->at + i) % a->queries;
    const int64_t seen = seen_keys(a, block->b, query) - block->key;
    return seen < 0 ? 0 : seen < block->keys ? seen : block->keys;
}

int64_t kernel_attention_mask(const kernel_attention *a,
                              const kernel_block *block, int64_t i)
{
    const int64_t row = block->at + i;
    return block->b * a->step[0] +
           (block->head + row / a->queries) * a->step[1] +
           row % a->queries * a->step[2] + block->key * a->step[3];
}

/* Parts of a length, none above `most`, about equal; multiples of what oneDNN's
 * products keep in registers. */
static int64_t even_part(int64_t length, int64_t most, int64_t grain)
{
    const int64_t parts = (length + most - 1) / most;
    const int64_t part = parts ? (length + parts - 1) / parts : 0;
    return (part + grain - 1) / grain * grain;
}

/* The group's first head in the piece, and how many rows its heads have. */
static void place_group(const kernel_attention *a, kernel_block *block)
{
    const int64_t from =
        (a->first_kv + block->group) * a->shared - a->first_head;
    const int64_t to = from + a->shared;
    const int64_t first = from < 0 ? 0 : from;
    const int64_t end = to < a->heads ? to : a->heads;
    block->head = first;
    block->all = end > first ? (end - first) * a->queries : 0;
    block->kv = block->b * a->kv_heads + block->group;
}

bool kernel_attention_next_keys(const kernel_attention *a, kernel_block *block)
{
    const int64_t part = even_part(a->keys, KERNEL_KEYS, 48);
    block->key = block->key < 0 ? 0 : block->key + part;
    if (block->key >= a->keys) {
        block->key = 0;
        block->group++;
    }
    if (block->group >= a->kv_heads) {
        block->group = 0;
        block->b++;
    }
    if (a->keys == 0 || a->kv_heads == 0 || block->b >= a->batch)
        return false;
    place_group(a, block);
    const int64_t rest = a->keys - block->key;
    block->wide = rest < part ? rest : part;
    block->at = -1;
    block->visits = 0;
    return true;
}

/* Cuts the block off behind the last key that one of its rows looks at. */
static void cut_keys(const kernel_attention *a, kernel_block *block)
{
    int64_t most = 0;
    block->keys = block->wide;
    for (int64_t i = 0; i < block->rows && most < block->wide; i++) {
        const int64_t seen = kernel_attention_seen(a, block, i);
        most = seen > most ? seen : most;
    }
    block->keys = most;
    block->step = kernel_whole(most);
}

bool kernel_attention_next_rows(const kernel_attention *a, kernel_block *block)
{
    const int64_t part = even_part(block->all, KERNEL_QUERIES, 8);
    kernel_rest(a->call);
    do {
        block->at = block->at < 0 ? 0 : block->at + part;
        if (block->at >= block->all)
            return false;
        const int64_t rest = block->all - block->at;
        block->rows = rest < part ? rest : part;
        block->row =
            (block->b * a->heads + block->head) * a->queries + block->at;
        cut_keys(a, block);
    } while (block->keys == 0);
    block->visits++;
    return true;
}
