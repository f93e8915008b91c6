#include "config.h"

#include "plan/offsets_parts.h"

#include <stdlib.h>
#include <string.h>

/* The lowest valley of the skyline takes, of the buffers that it holds, the
 * first by an order; one that holds none is filled up to the lower of its
 * walls. E. K. Burke, G. Kendall and G. Whitwell, "A New Placement Heuristic
 * for the Orthogonal Stock-Cutting Problem", Operations Research 52(4), 2004;
 * of memory: T. Sekiyama et al., arXiv 1804.10001. */

/* Which one that is, a tournament tells: a tree over the spans of all buffers,
 * by where they start, each node with the least rank and the least end of what
 * waits below it. A branch where nothing ends within the valley, or nothing
 * comes before what was found, is not looked into. So a valley as wide as the
 * plan costs no more than a narrow one, and placing a network of many layers
 * grows with it like sorting. */
typedef struct waiting {
    int32_t rank, end; /* least of all below; NONE: nothing waits */
} waiting;

enum { NONE = INT32_MAX };

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
    FS_VEC(low) heap;     /* of runs that are, and of some that were */
    const int32_t *order; /* [buffers] by rank */
    int32_t *starts;      /* [sections + 1] into the leaves */
    int32_t **leaf;       /* [buffers][spans] */
    int32_t n_leaves;     /* a power of two */
    waiting *tree;        /* [2 n_leaves], root 1 */
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

static void play(waiting *tree, int32_t node)
{
    const waiting *a = &tree[2 * node], *b = &tree[2 * node + 1];

    tree[node].rank = a->rank < b->rank ? a->rank : b->rank;
    tree[node].end = a->end < b->end ? a->end : b->end;
}

static int32_t count_starts(valleys *v)
{
    const plan_packing *p = v->p;
    int32_t n = 0;

    v->starts = fs_new(v->scratch, int32_t, p->n_sections + 1);
    for (int32_t i = 0; i < p->n; i++)
        for (int32_t k = 0; k < p->buffers[i].n_spans; k++, n++)
            v->starts[p->buffers[i].spans[k].start + 1]++;
    for (int32_t s = 0; s < p->n_sections; s++)
        v->starts[s + 1] += v->starts[s];
    return n;
}

/* Spans that start together by rank. */
static void seat(valleys *v, int32_t n)
{
    const plan_packing *p = v->p;
    int32_t *next = fs_memdup(v->scratch, v->starts,
                              ((size_t)p->n_sections + 1) * sizeof *next);
    int32_t *leaf = fs_new(v->scratch, int32_t, n);

    v->leaf = fs_new(v->scratch, int32_t *, p->n);
    for (int32_t r = 0; r < p->n; r++) {
        const plan_buffer *b = &p->buffers[v->order[r]];
        v->leaf[v->order[r]] = leaf;
        for (int32_t k = 0; k < b->n_spans; k++) {
            *leaf = next[b->spans[k].start]++;
            v->tree[v->n_leaves + *leaf++] = (waiting){r, b->spans[k].end};
        }
    }
}

static void list_starts(valleys *v)
{
    int32_t n = count_starts(v);

    for (v->n_leaves = 1; v->n_leaves < n;)
        v->n_leaves *= 2;
    v->tree = fs_new(v->scratch, waiting, 2 * v->n_leaves);
    seat(v, n);
    for (int32_t i = n; i < v->n_leaves; i++)
        v->tree[v->n_leaves + i] = (waiting){NONE, NONE};
    for (int32_t node = v->n_leaves - 1; node > 0; node--)
        play(v->tree, node);
}

static void strike_off(valleys *v, int32_t leaf)
{
    int32_t node = v->n_leaves + leaf;

    v->tree[node] = (waiting){NONE, NONE};
    while ((node /= 2) > 0)
        play(v->tree, node);
}

/* It may lie in several valleys of the same height. */
static bool holds(const valleys *v, plan_span valley, int32_t b)
{
    const plan_buffer *x = &v->p->buffers[b];

    if (x->n_spans == 1)
        return true;
    for (int32_t k = 0; k < x->n_spans; k++)
        if (packing_highest(v->sky, x->spans[k]) > v->runs[valley.start].top)
            return false;
    return true;
}

/* Who waits for a place in a valley. */
typedef struct asked {
    plan_span valley, leaves; /* which starts are within it */
    int32_t best;             /* rank of the first that it holds so far; NONE */
    int64_t steps;
} asked;

/* Below a node, which has `width` leaves from `first` on. */
static void ask(const valleys *v, int32_t node, int32_t first, int32_t width,
                asked *a)
{
    const waiting *w = &v->tree[node];

    if (w->rank >= a->best || w->end > a->valley.end || first > a->leaves.end ||
        first + width <= a->leaves.start)
        return;
    a->steps++;
    if (width == 1) {
        a->steps += v->p->buffers[v->order[w->rank]].n_spans - 1;
        if (holds(v, a->valley, v->order[w->rank]))
            a->best = w->rank;
        return;
    }
    const waiting *left = &v->tree[2 * node], *right = left + 1;
    const int32_t half = width / 2, middle = first + half;
    if (right->rank < left->rank) {
        ask(v, 2 * node + 1, middle, half, a);
        ask(v, 2 * node, first, half, a);
    } else {
        ask(v, 2 * node, first, half, a);
        ask(v, 2 * node + 1, middle, half, a);
    }
}

/* -1: none. Two nodes are looked at in the time of one buffer. */
static int32_t choose(const valleys *v, plan_span valley, int64_t *steps)
{
    asked a = {
        .valley = valley,
        .leaves = {v->starts[valley.start], v->starts[valley.end + 1] - 1},
        .best = NONE};

    ask(v, 1, 0, v->n_leaves, &a);
    *steps -= a.steps / 2;
    return a.best == NONE ? -1 : v->order[a.best];
}

/* ---- the whole ---- */

static valleys open_valleys(packing_skyline *sky, const plan_packing *p,
                            const int32_t *order, fs_arena *scratch)
{
    valleys v = {.p = p, .sky = sky, .order = order, .scratch = scratch};

    v.runs = fs_new(scratch, run, p->n_sections);
    v.first = fs_new(scratch, uint64_t, p->n_sections / 64 + 1);
    list_starts(&v);
    make_run(&v, 0, p->n_sections - 1, -1, 0);
    return v;
}

static void fill(valleys *v, int32_t b, int64_t at)
{
    const plan_buffer *x = &v->p->buffers[b];

    v->sky->offset[b] = at;
    for (int32_t k = 0; k < x->n_spans; k++) {
        strike_off(v, v->leaf[b][k]);
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
