#include "config.h"

#include "plan/offsets_parts.h"

#include <string.h>

static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* ---- range maximum, raised range by range; nodes 1 .. 2 n - 1 ---- */

static int64_t highest(const int64_t *most, const int64_t *all, int32_t n,
                       plan_span at)
{
    int32_t left = at.start + n, right = at.end + n;
    int64_t top = 0;

    for (int32_t l = left / 2, r = right / 2; l >= 1; l /= 2, r /= 2)
        top = max64(top, max64(all[l], all[r]));
    for (; left <= right; left /= 2, right /= 2) {
        if (left % 2 == 1)
            top = max64(top, most[left++]);
        if (right % 2 == 0)
            top = max64(top, most[right--]);
    }
    return top;
}

static void raise_node(int64_t *most, int64_t *all, int32_t node, int64_t to)
{
    most[node] = max64(most[node], to);
    all[node] = max64(all[node], to);
}

static void raise(int64_t *most, int64_t *all, int32_t n, plan_span at,
                  int64_t to)
{
    int32_t left = at.start + n, right = at.end + n;

    for (int32_t l = left, r = right; l <= r; l /= 2, r /= 2) {
        if (l % 2 == 1)
            raise_node(most, all, l++, to);
        if (r % 2 == 0)
            raise_node(most, all, r--, to);
    }
    for (left /= 2; left >= 1; left /= 2)
        most[left] = max64(most[left], to);
    for (right /= 2; right >= 1; right /= 2)
        most[right] = max64(most[right], to);
}

/* ---- stacks ---- */

void packing_skyline_open(const plan_packing *p, fs_arena *scratch,
                          packing_skyline *out)
{
    int32_t n = 1;

    while (n < p->n_sections)
        n *= 2;
    *out = (packing_skyline){.scratch = scratch,
                             .n = n,
                             .most = fs_new(scratch, int64_t, 2 * n),
                             .all = fs_new(scratch, int64_t, 2 * n),
                             .most_down = fs_new(scratch, int64_t, 2 * n),
                             .all_down = fs_new(scratch, int64_t, 2 * n),
                             .offset = fs_new(scratch, int64_t, p->n)};
}

void packing_skyline_clear(packing_skyline *sky)
{
    size_t bytes = 2 * (size_t)sky->n * sizeof *sky->most;

    memset(sky->most, 0, bytes);
    memset(sky->all, 0, bytes);
    memset(sky->most_down, 0, bytes);
    memset(sky->all_down, 0, bytes);
}

int64_t packing_highest(const packing_skyline *sky, plan_span at)
{
    return highest(sky->most, sky->all, sky->n, at);
}

void packing_raise(packing_skyline *sky, plan_span at, int64_t to)
{
    raise(sky->most, sky->all, sky->n, at, to);
}

/* The two stacks' tops over the buffer's life, each its highest. */
static void tops(const packing_skyline *sky, const plan_buffer *b, int64_t *up,
                 int64_t *down)
{
    *up = *down = 0;
    for (int32_t k = 0; k < b->n_spans; k++) {
        *up = max64(*up, packing_highest(sky, b->spans[k]));
        *down = max64(
            *down, highest(sky->most_down, sky->all_down, sky->n, b->spans[k]));
    }
}

int64_t packing_stack(packing_skyline *sky, const plan_packing *p,
                      const int32_t *order)
{
    int64_t height = 0;

    packing_skyline_clear(sky);
    for (int32_t i = 0; i < p->n; i++) {
        const plan_buffer *b = &p->buffers[order[i]];
        int64_t up = 0;
        for (int32_t k = 0; k < b->n_spans; k++)
            up = max64(up, packing_highest(sky, b->spans[k]));
        sky->offset[order[i]] = up;
        height = max64(height, up + b->bytes);
        for (int32_t k = 0; k < b->n_spans; k++)
            packing_raise(sky, b->spans[k], up + b->bytes);
    }
    return height;
}

/* Where the two tops lie in one section they must not meet; over a whole life
 * their highest may. */
static bool meets(const packing_skyline *sky, const plan_buffer *b,
                  int64_t from, int64_t to, int64_t capacity)
{
    for (int32_t k = 0; k < b->n_spans; k++)
        if (packing_highest(sky, b->spans[k]) > from ||
            capacity - highest(sky->most_down, sky->all_down, sky->n,
                               b->spans[k]) <
                to)
            return true;
    return false;
}

bool packing_both_ends(packing_skyline *sky, const plan_packing *p,
                       const int32_t *order, int64_t capacity)
{
    packing_skyline_clear(sky);
    for (int32_t i = 0; i < p->n; i++) {
        const plan_buffer *b = &p->buffers[order[i]];
        bool hangs = packing_hangs(b);
        int64_t up, down, at;
        tops(sky, b, &up, &down);
        at = hangs ? capacity - down - b->bytes : up;
        if (at < 0 || meets(sky, b, at, at + b->bytes, capacity)) {
            hangs = !hangs;
            at = hangs ? capacity - down - b->bytes : up;
        }
        if (at < 0 || meets(sky, b, at, at + b->bytes, capacity))
            return false;
        sky->offset[order[i]] = at;
        for (int32_t k = 0; k < b->n_spans; k++)
            if (hangs)
                raise(sky->most_down, sky->all_down, sky->n, b->spans[k],
                      capacity - at);
            else
                packing_raise(sky, b->spans[k], at + b->bytes);
    }
    return true;
}
