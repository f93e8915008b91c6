#include "config.h"

#include "plan/offsets_parts.h"

#include <stdlib.h>
#include <string.h>

/* The lowest valley of the skyline takes, of the buffers that it holds, the
 * first by an order; one that holds none is filled up to the lower of its
 * walls. E. K. Burke, G. Kendall and G. Whitwell, "A New Placement Heuristic
 * for the Orthogonal Stock-Cutting Problem", Operations Research 52(4), 2004;
 * of memory: T. Sekiyama et al., arXiv 1804.10001. */

/* A run of sections of one top; the skyline is a list of them, from left to
 * right, each known by its first section. */
typedef struct run {
    int64_t top;
    int32_t end, prev;
} run;

typedef struct low {
    int64_t top;
    int32_t start;
} low;

typedef struct valleys {
    const plan_packing *p;
    packing_skyline *sky;
    run *runs;       /* [sections], of those that are the first of one */
    uint64_t *first; /* bits: which these are */
    fs_arena *scratch;
    FS_VEC(low) heap; /* of runs that are, and of some that were */
    int32_t *rank;    /* [buffers] */
    int32_t *starts;  /* [sections + 1] into `at` */
    int32_t *ends;    /* [sections] of what has no place, into `at` */
    int32_t *at;      /* [spans] buffers, by where a span of theirs starts */
    int32_t *skip;    /* [sections + 1] to where some may still start */
} valleys;

/* ---- runs ---- */

static bool is_first(const valleys *v, int32_t s)
{
    return v->first[s / 64] >> (s % 64) & 1;
}

static int32_t first_of(const valleys *v, int32_t s)
{
    int32_t w = s / 64;
    uint64_t bits = v->first[w] & (~(uint64_t)0 >> (63 - s % 64));

    while (!bits)
        bits = v->first[--w];
    return w * 64 + 63 - __builtin_clzll(bits);
}

static bool is_lower(const low *a, const low *b)
{
    return a->top != b->top ? a->top < b->top : a->start < b->start;
}

static void push_low(valleys *v, low x)
{
    int32_t i;

    fs_push(v->scratch, &v->heap, x);
    for (i = (int32_t)v->heap.n - 1; i > 0; i = (i - 1) / 2) {
        if (!is_lower(&x, &v->heap.at[(i - 1) / 2]))
            break;
        v->heap.at[i] = v->heap.at[(i - 1) / 2];
    }
    v->heap.at[i] = x;
}

static void pop_low(valleys *v)
{
    low x = v->heap.at[--v->heap.n];
    int32_t n = (int32_t)v->heap.n, i = 0;

    for (int32_t k; (k = 2 * i + 1) < n; i = k) {
        if (k + 1 < n && is_lower(&v->heap.at[k + 1], &v->heap.at[k]))
            k++;
        if (!is_lower(&v->heap.at[k], &x))
            break;
        v->heap.at[i] = v->heap.at[k];
    }
    if (n > 0)
        v->heap.at[i] = x;
}

static void make_run(valleys *v, int32_t start, int32_t end, int32_t prev,
                     int64_t top)
{
    v->runs[start] = (run){top, end, prev};
    v->first[start / 64] |= (uint64_t)1 << (start % 64);
    push_low(v, (low){top, start});
}

static void set_prev(valleys *v, int32_t start, int32_t prev)
{
    if (start < v->p->n_sections)
        v->runs[start].prev = prev;
}

/* Joins the run to the one before it when they are of one height. */
static void join(valleys *v, int32_t start)
{
    int32_t prev;

    if (start >= v->p->n_sections)
        return;
    prev = v->runs[start].prev;
    if (prev < 0 || v->runs[prev].top != v->runs[start].top)
        return;
    v->runs[prev].end = v->runs[start].end;
    v->first[start / 64] &= ~((uint64_t)1 << (start % 64));
    set_prev(v, v->runs[prev].end + 1, prev);
}

/* Raises a part of a run. */
static void lift(valleys *v, plan_span at, int64_t to)
{
    int32_t start = first_of(v, at.start), prev = v->runs[start].prev;
    int32_t end = v->runs[start].end;
    int64_t top = v->runs[start].top;

    if (start < at.start) {
        v->runs[start].end = at.start - 1;
        prev = start;
    }
    make_run(v, at.start, at.end, prev, to);
    if (at.end < end)
        make_run(v, at.end + 1, end, at.start, top);
    set_prev(v, end + 1, at.end < end ? at.end + 1 : at.start);
    join(v, at.end + 1);
    join(v, at.start);
    packing_raise(v->sky, at, to);
}

static plan_span lowest_valley(valleys *v)
{
    for (;; pop_low(v)) {
        low x = v->heap.at[0];
        if (is_first(v, x.start) && v->runs[x.start].top == x.top)
            return (plan_span){x.start, v->runs[x.start].end};
    }
}

/* ---- what waits for a place, by where it starts ---- */

static void list_starts(valleys *v)
{
    const plan_packing *p = v->p;
    int32_t n = 0;

    v->starts = fs_new(v->scratch, int32_t, p->n_sections + 1);
    for (int32_t i = 0; i < p->n; i++)
        for (int32_t k = 0; k < p->buffers[i].n_spans; k++, n++)
            v->starts[p->buffers[i].spans[k].start + 1]++;
    for (int32_t s = 0; s < p->n_sections; s++)
        v->starts[s + 1] += v->starts[s];
    v->at = fs_new(v->scratch, int32_t, n);
    v->ends = fs_memdup(v->scratch, v->starts,
                        (size_t)p->n_sections * sizeof *v->ends);
    for (int32_t i = 0; i < p->n; i++)
        for (int32_t k = 0; k < p->buffers[i].n_spans; k++)
            v->at[v->ends[p->buffers[i].spans[k].start]++] = i;
    v->skip = fs_new(v->scratch, int32_t, p->n_sections + 1);
    for (int32_t s = 0; s <= p->n_sections; s++)
        v->skip[s] = s;
}

static void strike_off(valleys *v, int32_t section, int32_t b)
{
    int32_t i = v->starts[section];

    while (v->at[i] != b)
        i++;
    v->at[i] = v->at[--v->ends[section]];
    if (v->ends[section] == v->starts[section])
        v->skip[section] = section + 1;
}

/* From a section on the next where something starts. */
static int32_t next_start(valleys *v, int32_t s)
{
    while (v->skip[s] != s)
        s = v->skip[s] = v->skip[v->skip[s]];
    return s;
}

/* It may lie in several valleys of the same height. */
static bool holds(const valleys *v, plan_span valley, int32_t b)
{
    const plan_buffer *x = &v->p->buffers[b];

    if (x->n_spans == 1)
        return x->spans[0].end <= valley.end;
    for (int32_t k = 0; k < x->n_spans; k++)
        if (packing_highest(v->sky, x->spans[k]) > v->runs[valley.start].top)
            return false;
    return true;
}

static int32_t choose(valleys *v, plan_span valley, int64_t *steps)
{
    int32_t best = -1;

    for (int32_t s = next_start(v, valley.start); s <= valley.end;
         s = next_start(v, s + 1))
        for (int32_t i = v->starts[s]; i < v->ends[s]; i++) {
            int32_t b = v->at[i];
            *steps -= v->p->buffers[b].n_spans;
            if ((best < 0 || v->rank[b] < v->rank[best]) && holds(v, valley, b))
                best = b;
        }
    return best;
}

/* ---- the whole ---- */

static valleys open_valleys(packing_skyline *sky, const plan_packing *p,
                            const int32_t *order, fs_arena *scratch)
{
    valleys v = {.p = p, .sky = sky, .scratch = scratch};

    v.runs = fs_new(scratch, run, p->n_sections);
    v.first = fs_new(scratch, uint64_t, p->n_sections / 64 + 1);
    v.rank = fs_new(scratch, int32_t, p->n);
    for (int32_t i = 0; i < p->n; i++)
        v.rank[order[i]] = i;
    list_starts(&v);
    make_run(&v, 0, p->n_sections - 1, -1, 0);
    return v;
}

static void fill(valleys *v, int32_t b, int64_t at)
{
    const plan_buffer *x = &v->p->buffers[b];

    v->sky->offset[b] = at;
    for (int32_t k = 0; k < x->n_spans; k++) {
        strike_off(v, x->spans[k].start, b);
        lift(v, x->spans[k], at + x->bytes);
    }
}

/* Up to the lower wall. A valley as wide as all there is holds all. */
static void fill_up(valleys *v, plan_span valley)
{
    int32_t prev = v->runs[valley.start].prev, next = valley.end + 1;
    int64_t to = prev < 0 ? INT64_MAX : v->runs[prev].top;

    if (next < v->p->n_sections && v->runs[next].top < to)
        to = v->runs[next].top;
    lift(v, valley, to);
}

bool packing_fill_valleys(packing_skyline *sky, const plan_packing *p,
                          const int32_t *order, int64_t *steps)
{
    fs_arena *scratch = fs_arena_create();
    valleys v = open_valleys(sky, p, order, scratch);
    int32_t n = 0;

    packing_skyline_clear(sky);
    while (n<p->n && * steps> 0) {
        plan_span valley = lowest_valley(&v);
        int32_t b = choose(&v, valley, steps);
        --*steps;
        if (b < 0) {
            fill_up(&v, valley);
        } else {
            fill(&v, b, v.runs[valley.start].top);
            n++;
        }
    }
    fs_arena_destroy(scratch);
    return n == p->n;
}
