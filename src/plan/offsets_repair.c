#include "config.h"

#include "base/hash.h"
#include "plan/offsets_parts.h"

#include <stdlib.h>

/* Local search for a placement below a capacity, by ejection chains: a buffer
 * without a place takes the one where those in its way weigh least, which then
 * have none. What was placed weighs more from then on, so that the same few do
 * not drive each other out for ever (P. Morris, "The breakout method for
 * escaping from local minima", AAAI 1993).
 *
 * A step looks once at what is placed and may be live with the buffer, sorted
 * by offset and by end: what is in the way of a candidate is the difference of
 * two sums. */

static const double rise = 1.25, most_weight = 1e200;

typedef struct edge {
    int64_t at;
    double weight;
} edge;

typedef struct repair {
    const packing_gaps *gaps;
    const plan_packing *p;
    int64_t capacity;
    int64_t *offset, *end; /* [n]; offset -1: no place */
    double *volume, *weight;
    packing_calendar by_offset, by_end; /* what is placed */
    int32_t n_out, n_near;
    int32_t *out;        /* [n] without place */
    edge *starts, *ends; /* [n_near] of what is placed and live with it */
    uint64_t seed;
} repair;

/* ---- what is placed, in two orders ---- */

static void put(repair *x, int32_t b, int64_t at)
{
    x->offset[b] = at;
    x->end[b] = at + x->p->buffers[b].bytes;
    packing_calendar_put(&x->by_offset, b);
    packing_calendar_put(&x->by_end, b);
}

static void leave_out(repair *x, int32_t b)
{
    x->offset[b] = -1;
    x->out[x->n_out++] = b;
}

static void take_out(repair *x, int32_t b)
{
    packing_calendar_take_out(&x->by_offset, b);
    packing_calendar_take_out(&x->by_end, b);
    leave_out(x, b);
}

/* ---- a place ---- */

static void find_near(repair *x, int32_t b)
{
    packing_page low = packing_calendar_see(&x->by_offset, b);
    packing_page high = packing_calendar_see(&x->by_end, b);
    int32_t n = 0, k = 0;

    for (int32_t i = 0; i < low.n; i++) {
        if (packing_conflict(x->gaps, b, low.at[i]))
            x->starts[n++] = (edge){x->offset[low.at[i]], x->weight[low.at[i]]};
        if (packing_conflict(x->gaps, b, high.at[i]))
            x->ends[k++] = (edge){x->end[high.at[i]], x->weight[high.at[i]]};
    }
    x->n_near = n;
}

/* The candidates, ascending: on what ends there, below what starts there, on
 * the ground, at the top. Of those that cost the same a random one. */
typedef struct scan {
    int64_t bytes, at;
    int32_t on, below; /* next of ends, of starts */
    int32_t started, ended;
    double before, behind; /* weights of what has started, ended */
    double cost;
    int64_t best;
    int32_t ties;
} scan;

static void consider(repair *x, scan *s)
{
    double cost;

    for (;
         s->started < x->n_near && x->starts[s->started].at < s->at + s->bytes;
         s->started++)
        s->before += x->starts[s->started].weight;
    for (; s->ended < x->n_near && x->ends[s->ended].at <= s->at; s->ended++)
        s->behind += x->ends[s->ended].weight;
    cost = s->started == s->ended ? 0 : s->before - s->behind;
    if (s->ties == 0 || cost < s->cost) {
        s->ties = 1;
    } else if (cost > s->cost || fs_rand_below(&x->seed, ++s->ties) > 0) {
        return;
    }
    s->cost = cost;
    s->best = s->at;
}

static int64_t cheapest_place(repair *x, int32_t b)
{
    scan s = {.bytes = x->p->buffers[b].bytes};
    int64_t top = x->capacity - s.bytes, last = -1;

    for (;;) {
        int64_t on = s.on < x->n_near ? x->ends[s.on].at : top;
        int64_t below =
            s.below < x->n_near ? x->starts[s.below].at - s.bytes : top;
        s.at = last < 0 ? 0 : on < below ? on : below;
        if (s.at > last && s.at <= top)
            consider(x, &s);
        if (s.at >= top)
            return s.best;
        if (last >= 0 && s.at == on)
            s.on++;
        else if (last >= 0)
            s.below++;
        last = s.at > last ? s.at : last;
    }
}

static void eject(repair *x, int32_t b, int64_t at)
{
    int64_t end = at + x->p->buffers[b].bytes;
    packing_page page = packing_calendar_see(&x->by_offset, b);
    int32_t first = x->n_out;

    for (int32_t i = 0; i < page.n && x->offset[page.at[i]] < end; i++)
        if (x->end[page.at[i]] > at && packing_conflict(x->gaps, b, page.at[i]))
            x->out[x->n_out++] = page.at[i];
    for (int32_t i = first, last = x->n_out; i < last; i++) {
        x->n_out = i;
        take_out(x, x->out[i]);
    }
}

/* ---- the whole ---- */

/* The largest volume of those without a place. */
static int32_t next_out(repair *x)
{
    int32_t k = 0, b;

    for (int32_t i = 1; i < x->n_out; i++)
        if (x->volume[x->out[i]] > x->volume[x->out[k]])
            k = i;
    b = x->out[k];
    x->out[k] = x->out[--x->n_out];
    return b;
}

static void gain_weight(repair *x, int32_t b)
{
    x->weight[b] *= rise;
    if (x->weight[b] > most_weight)
        for (int32_t i = 0; i < x->p->n; i++)
            x->weight[i] /= most_weight;
}

static repair open_repair(const packing_gaps *gaps, int64_t capacity,
                          fs_arena *scratch)
{
    const plan_packing *p = gaps->p;
    repair x = {.gaps = gaps, .p = p, .capacity = capacity, .seed = gaps->seed};

    x.offset = fs_new(scratch, int64_t, p->n);
    x.volume = fs_new(scratch, double, p->n);
    x.weight = fs_new(scratch, double, p->n);
    x.end = fs_new(scratch, int64_t, p->n);
    packing_calendar_open(p, x.offset, scratch, &x.by_offset);
    packing_calendar_open(p, x.end, scratch, &x.by_end);
    x.out = fs_new(scratch, int32_t, p->n);
    x.starts = fs_new(scratch, edge, p->n);
    x.ends = fs_new(scratch, edge, p->n);
    for (int32_t i = 0; i < p->n; i++) {
        const plan_buffer *b = &p->buffers[i];
        double life = 0;
        for (int32_t k = 0; k < b->n_spans; k++)
            life += b->spans[k].end - b->spans[k].start + 1;
        x.volume[i] = x.weight[i] = life * (double)b->bytes;
        if (b->offset + b->bytes <= capacity)
            put(&x, i, b->offset);
        else
            leave_out(&x, i);
    }
    return x;
}

static void take_over(const repair *x, plan_packing *p)
{
    p->height_bytes = 0;
    for (int32_t i = 0; i < p->n; i++) {
        p->buffers[i].offset = x->offset[i];
        if (x->end[i] > p->height_bytes)
            p->height_bytes = x->end[i];
    }
}

/* Of giving it a place: what it looked at, put and took out. */
static int64_t cost_of(const repair *x, int32_t b, int32_t before)
{
    int64_t cost = 2 * packing_calendar_see(&x->by_offset, b).n + x->n_out;

    cost += 2 * packing_calendar_cost(&x->by_offset, b);
    for (int32_t i = before; i < x->n_out; i++)
        cost += 2 * packing_calendar_cost(&x->by_offset, x->out[i]);
    return cost;
}

bool packing_repair(const packing_gaps *gaps, plan_packing *p, int64_t capacity,
                    int64_t *steps)
{
    fs_arena *scratch = fs_arena_create();
    repair x = open_repair(gaps, capacity, scratch);

    for (int32_t i = 0; i < p->n; i++)
        *steps -= 2 * packing_calendar_cost(&x.by_offset, i);
    while (x.n_out > 0 && *steps > 0) {
        int32_t b = next_out(&x), before = x.n_out;
        int64_t at;
        find_near(&x, b);
        at = cheapest_place(&x, b);
        eject(&x, b, at);
        put(&x, b, at);
        gain_weight(&x, b);
        *steps -= cost_of(&x, b, before);
    }
    if (x.n_out == 0)
        take_over(&x, p);
    fs_arena_destroy(scratch);
    return x.n_out == 0;
}
