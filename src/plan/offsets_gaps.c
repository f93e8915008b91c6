#include "config.h"

#include "base/hash.h"
#include "plan/offsets_parts.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_BUFFERS = 1 << 14 };

static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* ---- who is live with whom ---- */

typedef struct edge {
    int32_t section, buffer;
    bool ends;
} edge;

static int by_section(const void *a, const void *b)
{
    const edge *x = a, *y = b;

    if (x->section != y->section)
        return x->section < y->section ? -1 : 1;
    return x->ends - y->ends; /* what ends here is still live here */
}

static edge *list_edges(const plan_packing *p, fs_arena *scratch, int32_t *n)
{
    edge *edges;

    *n = 0;
    for (int32_t i = 0; i < p->n; i++)
        *n += 2 * p->buffers[i].n_spans;
    edges = fs_new(scratch, edge, *n);
    *n = 0;
    for (int32_t i = 0; i < p->n; i++)
        for (int32_t k = 0; k < p->buffers[i].n_spans; k++) {
            plan_span at = p->buffers[i].spans[k];
            edges[(*n)++] = (edge){at.start, i, false};
            edges[(*n)++] = (edge){at.end, i, true};
        }
    qsort(edges, (size_t)*n, sizeof *edges, by_section);
    return edges;
}

/* A row tells who is live when the buffer comes: of two that meet, the later
 * one's row tells. */
static void find_conflicts(packing_gaps *g, fs_arena *scratch)
{
    int32_t n;
    edge *edges = list_edges(g->p, scratch, &n);
    uint64_t *live = fs_new(scratch, uint64_t, g->words);

    for (int32_t i = 0; i < n; i++) {
        int32_t b = edges[i].buffer;
        uint64_t *row = &g->conflict[(int64_t)b * g->words];
        uint64_t bit = (uint64_t)1 << (b % 64);
        if (edges[i].ends) {
            live[b / 64] &= ~bit;
            continue;
        }
        for (int32_t w = 0; w < g->words; w++)
            row[w] |= live[w];
        live[b / 64] |= bit;
    }
}

/* So that either one's row tells. */
static void mirror_conflicts(packing_gaps *g)
{
    for (int32_t a = 0; a < g->p->n; a++)
        for (int32_t w = 0; w < g->words; w++)
            for (uint64_t row = g->conflict[(int64_t)a * g->words + w]; row;
                 row &= row - 1) {
                int32_t b = w * 64 + __builtin_ctzll(row);
                g->conflict[(int64_t)b * g->words + a / 64] |= (uint64_t)1
                                                               << (a % 64);
            }
}

bool packing_gaps_open(const plan_packing *p, fs_arena *scratch,
                       packing_gaps *out)
{
    if (p->n > MOST_BUFFERS)
        return false;
    *out = (packing_gaps){.p = p, .words = (p->n + 63) / 64};
    out->conflict = fs_new(scratch, uint64_t, (int64_t)p->n * out->words);
    out->offset = fs_new(scratch, int64_t, p->n);
    packing_calendar_open(p, out->offset, scratch, &out->placed);
    find_conflicts(out, scratch);
    mirror_conflicts(out);
    return true;
}

/* ---- placing ---- */

/* The smallest gap that holds `b` among the placed ones, which are sorted by
 * offset, or the lowest; -1: there is none below the capacity. */
static int64_t find_gap(const packing_gaps *g, packing_page placed, int32_t b)
{
    int64_t from = 0, best = -1, best_size = INT64_MAX;
    const plan_buffer *buffer = &g->p->buffers[b];
    bool hangs = g->both_ends && packing_hangs(buffer);

    for (int32_t i = 0; i <= placed.n; i++) {
        int32_t other = i < placed.n ? placed.at[i] : -1;
        if (other >= 0 && !packing_conflict(g, b, other))
            continue;
        int64_t to = other >= 0 ? g->offset[other] : g->capacity;
        int64_t size = to - from;
        if (size >= buffer->bytes &&
            (size < best_size || (hangs && size == best_size) || best < 0)) {
            best = hangs ? to - buffer->bytes : from;
            best_size = size;
            if (g->first_fit && !hangs)
                break;
        }
        if (other >= 0)
            from = max64(from, to + g->p->buffers[other].bytes);
    }
    return best;
}

static bool is_free(const packing_gaps *g, packing_page placed, int32_t b,
                    int64_t at)
{
    int64_t to = at + g->p->buffers[b].bytes;

    for (int32_t i = 0; i < placed.n && g->offset[placed.at[i]] < to; i++) {
        int32_t other = placed.at[i];
        if (g->offset[other] + g->p->buffers[other].bytes > at &&
            packing_conflict(g, b, other))
            return false;
    }
    return true;
}

/* The stair of its turn, or the next one that is free; -1: none. */
static int64_t find_stair(const packing_gaps *g, packing_page placed, int32_t b)
{
    for (int32_t k = 0; k < g->n_stairs; k++) {
        int64_t at = (g->turn[b] + k) % g->n_stairs * g->rise;
        if (is_free(g, placed, b, at))
            return at;
    }
    return -1;
}

static int64_t find_place(const packing_gaps *g, packing_page placed, int32_t b)
{
    int64_t at = -1;

    if (g->turn && g->turn[b] >= 0)
        at = find_stair(g, placed, b);
    return at >= 0 ? at : find_gap(g, placed, b);
}

int32_t packing_fill_gaps(packing_gaps *g, const int32_t *order, int64_t *steps)
{
    packing_calendar_clear(&g->placed);
    for (int32_t i = 0; i < g->p->n; i++) {
        int32_t b = order[i];
        packing_page placed = packing_calendar_see(&g->placed, b);
        *steps -= placed.n + packing_calendar_cost(&g->placed, b);
        g->offset[b] = find_place(g, placed, b);
        if (g->offset[b] < 0)
            return i;
        packing_calendar_put(&g->placed, b);
    }
    return g->p->n;
}

/* To the front, or anywhere before: the front alone soon repeats itself. */
static void bring_forward(int32_t *order, int32_t from, uint64_t *seed)
{
    int32_t b = order[from], to = 0;

    if (fs_rand_below(seed, 2) > 0)
        to = (int32_t)fs_rand_below(seed, from + 1);
    memmove(&order[to + 1], &order[to], (size_t)(from - to) * sizeof *order);
    order[to] = b;
}

bool packing_turn_wheel(packing_gaps *g, int32_t *order, int64_t *steps)
{
    uint64_t seed = g->seed;

    while (*steps > 0) {
        int32_t n = packing_fill_gaps(g, order, steps);
        if (n == g->p->n)
            return true;
        bring_forward(order, n, &seed);
    }
    return false;
}
