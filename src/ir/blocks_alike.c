/* When two nodes are alike, as neighbouring copies of a block are. */
#include "config.h"
#include "ir/blocks_parts.h"

#include "ir/op.h"

#include <stdlib.h>
#include <string.h>

static bool same_shape(const ir_tensor *a, const ir_tensor *b)
{
    return a->dtype == b->dtype && ir_blocks_role(a) == ir_blocks_role(b) &&
           ir_shape_equal(&a->shape, &b->shape);
}

/* Sources that copies do not share are alike; their values may differ. */
static bool same_source(const ir_tensor *a, const ir_tensor *b)
{
    return same_shape(a, b) && a->role == b->role &&
           a->batch_axis == b->batch_axis;
}

static ir_block_place place_of_number(const ir_block_finder *f, int32_t number)
{
    ir_block_place none = {-1, 0, 0};
    if (number < 0 || f->repeat[number] < 0)
        return none;
    int32_t id = f->repeat[number];
    return (ir_block_place){id, number - f->out->repeats.at[id].first, 0};
}

static ir_block_place place_of_tensor(const ir_block_finder *f, int32_t tensor)
{
    const ir_tensor *t = &f->graph->tensors.at[tensor];
    ir_block_place at = place_of_number(f, f->number[t->producer]);
    at.slot = t->slot;
    return at.repeat < 0 ? f->entry[tensor] : at;
}

/* Do a and b lie to each other as one position of neighbouring copies of a
 * repeat found before? The backward pass reads the copies of the forward pass
 * from the last to the first. */
static bool same_place(ir_block_finder *f, ir_block_place a, ir_block_place b)
{
    if (a.repeat < 0 || a.repeat != b.repeat || a.slot != b.slot)
        return false;
    int32_t length = f->out->repeats.at[a.repeat].length;
    int32_t steps = (b.at - a.at) / length;
    if ((b.at - a.at) % length != 0 || abs(steps) != 1)
        return false;
    if (f->step[a.repeat] == 0)
        f->step[a.repeat] = steps;
    return f->step[a.repeat] == steps;
}

static bool same_home(ir_block_finder *f, int32_t p, int32_t q, int32_t apart)
{
    return q == p + apart ||
           same_place(f, place_of_number(f, p), place_of_number(f, q));
}

/* Tensor a always stands for b, and nothing else does. */
static bool same_entry(ir_block_finder *f, int32_t a, int32_t b)
{
    if (f->stand_in[b] < 0 && f->stands_for[a] < 0) {
        f->stand_in[b] = a;
        f->stands_for[a] = b;
        fs_push(f->arena, &f->entries, b);
    }
    return f->stand_in[b] == a;
}

static bool same_input(ir_block_finder *f, int32_t a, int32_t b, int32_t apart)
{
    const ir_tensor *x = &f->graph->tensors.at[a];
    const ir_tensor *y = &f->graph->tensors.at[b];
    int32_t p = f->number[x->producer], q = f->number[y->producer];
    if (a == b)
        return true;
    if (p < f->begin && q >= f->begin && q < f->begin + apart)
        return same_entry(f, a, b);
    if (p < 0 && q < 0)
        return same_source(x, y) && same_home(f, f->home[a], f->home[b], apart);
    if (p >= 0 && q == p + apart && x->slot == y->slot)
        return true;
    return same_place(f, place_of_tensor(f, a), place_of_tensor(f, b));
}

bool ir_blocks_alike(ir_block_finder *f, int32_t i, int32_t apart)
{
    const ir_node *a = ir_blocks_node(f, i), *b = ir_blocks_node(f, i + apart);
    if (f->look[i] != f->look[i + apart] || a->op != b->op ||
        a->phase != b->phase || a->n_in != b->n_in || a->n_out != b->n_out ||
        memcmp(a->f, b->f, sizeof a->f) != 0)
        return false;
    int64_t attr[2][IR_MAX_ATTR];
    ir_structural_attrs(a, attr[0]);
    ir_structural_attrs(b, attr[1]);
    if (memcmp(attr[0], attr[1], sizeof attr[0]) != 0)
        return false;
    for (int32_t k = 0; k < a->n_in; k++)
        if (!same_shape(&f->graph->tensors.at[a->in[k]],
                        &f->graph->tensors.at[b->in[k]]) ||
            !same_input(f, a->in[k], b->in[k], apart))
            return false;
    return true;
}

bool ir_blocks_first_copy(ir_block_finder *f, int32_t begin, int32_t length)
{
    int32_t i = begin;
    f->begin = begin;
    while (i < begin + length && ir_blocks_alike(f, i, length))
        i++;
    f->begin = INT32_MAX;
    for (int32_t k = 0; k < f->entries.n; k++) {
        int32_t b = f->entries.at[k];
        f->stands_for[f->stand_in[b]] = -1;
        f->stand_in[b] = -1;
    }
    f->entries.n = 0;
    return i == begin + length;
}

void ir_blocks_note_entries(ir_block_finder *f, const ir_repeat *r, int32_t id)
{
    for (int32_t i = r->first; i < r->first + r->length; i++) {
        const ir_node *a = ir_blocks_node(f, i),
                      *b = ir_blocks_node(f, i + r->length);
        for (int32_t k = 0; k < a->n_in; k++) {
            const ir_tensor *x = &f->graph->tensors.at[a->in[k]];
            const ir_tensor *y = &f->graph->tensors.at[b->in[k]];
            int32_t p = f->number[x->producer], q = f->number[y->producer];
            if (p < r->first && q >= r->first)
                f->entry[a->in[k]] =
                    (ir_block_place){id, q - r->first - r->length, y->slot};
        }
    }
}
