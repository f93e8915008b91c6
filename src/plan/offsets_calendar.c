#include "config.h"

#include "plan/offsets_calendar.h"

#include <string.h>

/* Parts: 1 is all time, 2 k and 2 k + 1 are the halves of k. */
typedef struct tree {
    const plan_packing *p;
    int32_t n_leaves;
} tree;

static plan_span span_of(const tree *t, int32_t part)
{
    int32_t level = 31 - __builtin_clz((unsigned)part),
            at = part - (1 << level);
    int64_t sections = t->p->n_sections;

    return (plan_span){(int32_t)((at * sections) >> level),
                       (int32_t)(((at + 1) * sections) >> level) - 1};
}

static bool lives_in(const plan_buffer *b, plan_span at)
{
    for (int32_t k = 0; k < b->n_spans; k++)
        if (b->spans[k].start <= at.end && b->spans[k].end >= at.start)
            return true;
    return false;
}

static int32_t find_home(const tree *t, const plan_buffer *b)
{
    int32_t part = 1;

    while (part < t->n_leaves) {
        int32_t middle = span_of(t, 2 * part).end;
        if (b->spans[0].start <= middle &&
            b->spans[b->n_spans - 1].end > middle)
            return part;
        part = 2 * part + (b->spans[0].start > middle);
    }
    return part;
}

/* Writes the parts, from `part` down, in which a buffer lives; how many. */
static int32_t list_parts(const tree *t, const plan_buffer *b, int32_t part,
                          int32_t *out)
{
    int32_t n = 1;

    if (!lives_in(b, span_of(t, part)))
        return 0;
    out[0] = part;
    if (part >= t->n_leaves)
        return n;
    n += list_parts(t, b, 2 * part, out + n);
    return n + list_parts(t, b, 2 * part + 1, out + n);
}

/* Leaves that few buffers share, and that are not finer than time. */
static int32_t count_leaves(const plan_packing *p)
{
    enum { EACH = 64, MOST = 32 };
    int32_t n = 1;

    while (n < MOST && n * EACH < p->n && 2 * n <= p->n_sections)
        n *= 2;
    return n;
}

static void find_parts(packing_calendar *c, const tree *t, fs_arena *scratch)
{
    const plan_packing *p = t->p;
    int32_t *list = fs_new(scratch, int32_t, c->n_parts), n = 0;
    FS_VEC(int32_t) parts = {0};

    for (int32_t i = 0; i < p->n; i++) {
        int32_t most = list_parts(t, &p->buffers[i], 1, list);
        c->home[i] = find_home(t, &p->buffers[i]);
        for (int32_t k = 0; k < most; k++, n++) {
            fs_push(scratch, &parts, list[k]);
            c->n[list[k]]++;
        }
        c->part_of[i + 1] = n;
    }
    c->parts = parts.at;
}

void packing_calendar_open(const plan_packing *p, const int64_t *key,
                           fs_arena *scratch, packing_calendar *out)
{
    tree t = {p, count_leaves(p)};
    int32_t n = 0;

    *out = (packing_calendar){.key = key, .n_parts = 2 * t.n_leaves};
    out->home = fs_new(scratch, int32_t, p->n);
    out->part_of = fs_new(scratch, int32_t, p->n + 1);
    out->first = fs_new(scratch, int32_t, out->n_parts);
    out->n = fs_new(scratch, int32_t, out->n_parts);
    find_parts(out, &t, scratch);
    for (int32_t i = 0; i < out->n_parts; i++) {
        out->first[i] = n;
        n += out->n[i];
    }
    out->at = fs_new(scratch, int32_t, n);
    packing_calendar_clear(out);
}

void packing_calendar_clear(packing_calendar *c)
{
    memset(c->n, 0, (size_t)c->n_parts * sizeof *c->n);
}

/* How many of a list have a lesser key, or one that is not greater. */
static int32_t count_before(const packing_calendar *c, int32_t part,
                            int64_t key, bool equal)
{
    const int32_t *list = &c->at[c->first[part]];
    int32_t low = 0, high = c->n[part];

    while (low < high) {
        int32_t middle = (low + high) / 2;
        int64_t other = c->key[list[middle]];
        if (other < key || (equal && other == key))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void packing_calendar_put(packing_calendar *c, int32_t b)
{
    for (int32_t i = c->part_of[b]; i < c->part_of[b + 1]; i++) {
        int32_t part = c->parts[i], *list = &c->at[c->first[part]];
        int32_t k = count_before(c, part, c->key[b], true);
        memmove(&list[k + 1], &list[k],
                (size_t)(c->n[part]++ - k) * sizeof *list);
        list[k] = b;
    }
}

void packing_calendar_take_out(packing_calendar *c, int32_t b)
{
    for (int32_t i = c->part_of[b]; i < c->part_of[b + 1]; i++) {
        int32_t part = c->parts[i], *list = &c->at[c->first[part]];
        int32_t k = count_before(c, part, c->key[b], false);
        while (list[k] != b)
            k++;
        memmove(&list[k], &list[k + 1],
                (size_t)(--c->n[part] - k) * sizeof *list);
    }
}
