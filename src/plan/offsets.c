#include "config.h"

#include "plan/offsets.h"
#include "plan/offsets_parts.h"

#include <stdlib.h>
#include <string.h>

enum {
    VALLEY_WORK = 1 << 24, /* buffers looked at for valleys, per order */
    GAP_WORK = 1 << 28,    /* comparisons of placing into gaps, at most ... */
    GAP_EACH = 1 << 16,    /* ... and per buffer */
    TRIALS = 8,            /* capacities that a local search is asked about */
    TRIAL_PARTS = 16,      /* of a local search's steps: for one order */
    EXACT_MOST = 1024,     /* buffers that branch and bound is asked about */
    STEPS_EACH = 1 << 19   /* that refining is worth, per buffer */
};

static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

void plan_offsets_bound(plan_packing *p)
{
    fs_arena *scratch = fs_arena_create();
    int64_t *change = fs_new(scratch, int64_t, p->n_sections + 1);
    int64_t live = 0;

    p->bound_bytes = 0;
    for (int32_t i = 0; i < p->n; i++) {
        const plan_buffer *b = &p->buffers[i];
        for (int32_t k = 0; k < b->n_spans; k++) {
            change[b->spans[k].start] += b->bytes;
            change[b->spans[k].end + 1] -= b->bytes;
        }
    }
    for (int32_t s = 0; s < p->n_sections; s++) {
        live += change[s];
        p->bound_bytes = max64(p->bound_bytes, live);
    }
    fs_arena_destroy(scratch);
}

/* ---- orders ---- */

typedef struct sorted {
    int64_t life; /* sections */
    int64_t bytes;
    int32_t start, buffer;
    int32_t turn; /* of long ones: 1 + copy, or most; else 0 */
} sorted;

static int by_bytes(const void *a, const void *b)
{
    const sorted *x = a, *y = b;

    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return (x->buffer > y->buffer) - (x->buffer < y->buffer);
}

/* Length of life: buffers that cross phases before the others. */
static int by_life(const void *a, const void *b)
{
    const sorted *x = a, *y = b;

    return x->life != y->life ? (x->life > y->life ? -1 : 1) : by_bytes(a, b);
}

static int by_volume(const void *a, const void *b)
{
    const sorted *x = a, *y = b;
    double v = (double)x->life * (double)x->bytes;
    double w = (double)y->life * (double)y->bytes;

    return v != w ? (v > w ? -1 : 1) : by_bytes(a, b);
}

static int by_time(const void *a, const void *b)
{
    const sorted *x = a, *y = b;

    return x->start != y->start ? (x->start < y->start ? -1 : 1)
                                : by_bytes(a, b);
}

/* Long ones first, copy by copy, those beside the free bytes last. */
static int by_turn(const void *a, const void *b)
{
    const sorted *x = a, *y = b;

    return x->turn != y->turn ? (x->turn > y->turn ? -1 : 1) : by_life(a, b);
}

typedef int packing_order(const void *a, const void *b);
static packing_order *const orders[] = {by_life, by_volume, by_bytes, by_time,
                                        by_turn};
enum { N_ORDERS = 4, BY_TURN = 4 };

static sorted *list_buffers(const plan_packing *p, fs_arena *scratch)
{
    sorted *list = fs_new(scratch, sorted, p->n);

    for (int32_t i = 0; i < p->n; i++) {
        const plan_buffer *b = &p->buffers[i];
        list[i] = (sorted){
            .bytes = b->bytes, .start = b->spans[0].start, .buffer = i};
        for (int32_t k = 0; k < b->n_spans; k++)
            list[i].life += b->spans[k].end - b->spans[k].start + 1;
        if (3 * list[i].life > p->n_sections)
            list[i].turn = b->copies > 1 ? 1 + b->copy : INT32_MAX;
    }
    return list;
}

static int32_t *sort_buffers(const plan_packing *p, int32_t k,
                             fs_arena *scratch)
{
    sorted *list = list_buffers(p, scratch);
    int32_t *order = fs_new(scratch, int32_t, p->n);

    qsort(list, (size_t)p->n, sizeof *list, orders[k]);
    for (int32_t i = 0; i < p->n; i++)
        order[i] = list[i].buffer;
    return order;
}

/* ---- the whole ---- */

static int64_t height_of(const plan_packing *p, const int64_t *offset)
{
    int64_t height = 0;

    for (int32_t i = 0; i < p->n; i++)
        height = max64(height, offset[i] + p->buffers[i].bytes);
    return height;
}

/* Takes a placement over when it is lower than the best so far. */
static void keep_lower(plan_packing *p, const int64_t *offset)
{
    int64_t height = height_of(p, offset);

    if (height >= p->height_bytes)
        return;
    p->height_bytes = height;
    for (int32_t i = 0; i < p->n; i++)
        p->buffers[i].offset = offset[i];
}

/* What is wanted may be out of reach; then any placement tells as much. */
static bool met(const plan_packing *p)
{
    return p->height_bytes <= max64(p->bound_bytes, p->enough_bytes) ||
           (p->enough_bytes > 0 && p->bound_bytes > p->enough_bytes &&
            p->height_bytes < INT64_MAX);
}

static void try_stacks(plan_packing *p, packing_skyline *sky)
{
    for (int32_t k = 0; k < N_ORDERS && !met(p); k++) {
        int32_t *order = sort_buffers(p, k, sky->scratch);
        packing_stack(sky, p, order);
        keep_lower(p, sky->offset);
    }
}

static void try_valleys(plan_packing *p, packing_skyline *sky)
{
    for (int32_t k = 0; k < N_ORDERS && !met(p); k++) {
        int32_t *order = sort_buffers(p, k, sky->scratch);
        int64_t steps = VALLEY_WORK;
        if (packing_fill_valleys(sky, p, order, &steps))
            keep_lower(p, sky->offset);
    }
}

/* The least capacity into which buffers go from both ends, by bisection: on
 * skylines or, with `gaps`, into gaps. */
static void try_both_ends(plan_packing *p, packing_skyline *sky,
                          packing_gaps *gaps, int64_t steps)
{
    int32_t *order = sort_buffers(p, BY_TURN, sky->scratch);
    int64_t low = p->bound_bytes, high = p->height_bytes, at = low;

    if (gaps)
        gaps->both_ends = true;
    for (int32_t i = 0; i < TRIALS && low < high && steps > 0; i++) {
        at = i == 0 ? low : packing_align(low + (high - low) / 2);
        if (at >= high)
            return;
        if (gaps)
            gaps->capacity = at;
        if (gaps ? packing_fill_gaps(gaps, order, &steps) == p->n
                 : packing_both_ends(sky, p, order, at)) {
            keep_lower(p, gaps ? gaps->offset : sky->offset);
            high = p->height_bytes;
        } else {
            low = at + 1;
        }
    }
}

/* Lower and lower in turns of the wheel, as long as the steps last. */
static void go_down(plan_packing *p, packing_gaps *gaps, int32_t *order,
                    int64_t *steps)
{
    gaps->capacity = INT64_MAX;
    while (!met(p) && packing_turn_wheel(gaps, order, steps)) {
        keep_lower(p, gaps->offset);
        gaps->capacity = height_of(p, gaps->offset) - PLAN_ALIGN;
    }
}

/* What one order takes too much, by its first turn, the later ones lack. */
static void try_gaps(plan_packing *p, packing_gaps *gaps, int64_t *steps,
                     fs_arena *scratch)
{
    for (int32_t k = 0; k<2 * N_ORDERS && * steps> 0 && !met(p); k++) {
        int64_t slice = *steps / (2 * N_ORDERS - k), left = slice;
        gaps->first_fit = k >= N_ORDERS;
        go_down(p, gaps, sort_buffers(p, k % N_ORDERS, scratch), &left);
        *steps -= slice - left;
    }
}

void plan_offsets_place(plan_packing *p)
{
    packing_skyline sky;
    packing_gaps gaps;
    int64_t steps = min64(GAP_WORK, (int64_t)p->n * GAP_EACH);
    fs_arena *scratch = fs_arena_create();

    p->height_bytes = p->n ? INT64_MAX : 0;
    packing_skyline_open(p, scratch, &sky);
    try_stacks(p, &sky);
    if (!met(p))
        try_valleys(p, &sky);
    if (!met(p))
        try_both_ends(p, &sky, NULL, INT64_MAX);
    if (!met(p) && packing_gaps_open(p, scratch, &gaps)) {
        try_gaps(p, &gaps, &steps, scratch);
        try_both_ends(p, &sky, &gaps, steps);
    }
    fs_arena_destroy(scratch);
}

/* ---- stairs ---- */

/* What is large and soon gone, as logits are, comes once per micro-batch. Laid
 * at one place each time, it keeps all that outlives one of them off that place
 * for good; on a few places in turn, each higher than the last, what lives
 * across one lies where others do. */
typedef struct stairs {
    int32_t *turn;  /* [buffers] by time; -1: not large, or not soon gone */
    int32_t *first; /* [n] those that have one */
    int32_t n;
    int64_t most; /* bytes of one */
} stairs;

static stairs find_stairs(const plan_packing *p, fs_arena *scratch)
{
    enum { LARGE = 16, SOON = 12 }; /* parts of the bound, of the sections */
    sorted *list = list_buffers(p, scratch);
    stairs x = {.turn = fs_new(scratch, int32_t, p->n),
                .first = fs_new(scratch, int32_t, p->n)};

    qsort(list, (size_t)p->n, sizeof *list, by_time);
    for (int32_t i = 0; i < p->n; i++) {
        bool has = list[i].bytes * LARGE >= p->bound_bytes &&
                   list[i].life * SOON < p->n_sections;
        x.turn[list[i].buffer] = has ? x.n : -1;
        if (!has)
            continue;
        x.first[x.n++] = list[i].buffer;
        x.most = max64(x.most, list[i].bytes);
    }
    return x;
}

/* An order of the others behind them. */
static int32_t *order_behind(const plan_packing *p, const stairs *x, int32_t k,
                             fs_arena *scratch)
{
    int32_t *order = sort_buffers(p, k, scratch), n = p->n;

    for (int32_t i = p->n - 1; i >= 0; i--)
        if (x->turn[order[i]] < 0)
            order[--n] = order[i];
    memcpy(order, x->first, (size_t)x->n * sizeof *order);
    return order;
}

static void try_stairs(plan_packing *p, packing_gaps *gaps, int64_t wanted,
                       int64_t steps, fs_arena *scratch)
{
    enum { FEWEST = 3, MOST = 5, PARTS = 16, LEAST_RISE = 9 };
    stairs x = find_stairs(p, scratch);

    gaps->capacity = INT64_MAX;
    gaps->first_fit = true;
    gaps->turn = x.turn;
    for (int32_t k = 0; k < 2 && x.n > 1; k++) {
        int32_t *order = order_behind(p, &x, k, scratch);
        for (gaps->n_stairs = FEWEST; gaps->n_stairs <= MOST; gaps->n_stairs++)
            for (int32_t part = LEAST_RISE; part <= PARTS; part++) {
                if (steps <= 0 || p->height_bytes <= wanted)
                    break;
                gaps->rise = packing_align(x.most / PARTS * part);
                packing_fill_gaps(gaps, order, &steps);
                keep_lower(p, gaps->offset);
            }
    }
    gaps->turn = NULL;
}

/* ---- local search below a capacity ---- */

/* A placement of at most `capacity`; `slice` steps at most, of *steps. */
typedef bool local_search(plan_packing *p, packing_gaps *gaps, int64_t capacity,
                          int64_t slice, int64_t *steps, fs_arena *scratch);

/* Orders, best fit and first fit; what comes first in time first: there the
 * wheel finds most. */
static bool wheel(plan_packing *p, packing_gaps *gaps, int64_t capacity,
                  int64_t slice, int64_t *steps, fs_arena *scratch)
{
    gaps->capacity = capacity;
    for (int32_t k = 2 * N_ORDERS - 1; k >= 0 && *steps > 0; k--) {
        int64_t left = slice;
        bool found;
        gaps->first_fit = k % 2 == 0;
        found =
            packing_turn_wheel(gaps, sort_buffers(p, k / 2, scratch), &left);
        *steps -= slice - left;
        if (!found)
            continue;
        keep_lower(p, gaps->offset);
        return true;
    }
    return false;
}

static bool repair(plan_packing *p, packing_gaps *gaps, int64_t capacity,
                   int64_t slice, int64_t *steps, fs_arena *scratch)
{
    int64_t left = 2 * slice;
    bool found = packing_repair(gaps, p, capacity, &left);

    (void)scratch;
    *steps -= 2 * slice - left;
    return found;
}

/* At the wanted height first, then in the middle between what was not found and
 * the best. */
static void bisect(plan_packing *p, packing_gaps *gaps, int64_t wanted,
                   local_search *find, int64_t steps, fs_arena *scratch)
{
    int64_t low = packing_align(wanted), at = low, slice = steps / TRIAL_PARTS;

    for (int32_t i = 0; i < TRIALS && at < p->height_bytes && steps > 0; i++) {
        if (!find(p, gaps, at, slice, &steps, scratch))
            low = at + PLAN_ALIGN;
        at = low + (p->height_bytes - low) / 2 / PLAN_ALIGN * PLAN_ALIGN;
    }
}

/* At the wanted height first, then in the middle between what was refuted and
 * the best. Where the steps do not do for a capacity, they rarely do for a
 * somewhat larger one. */
static void close_exactly(plan_packing *p, int64_t wanted, int64_t steps)
{
    int64_t low = packing_align(wanted), at = low;

    while (at < p->height_bytes && p->n <= EXACT_MOST) {
        plan_fit fit = plan_offsets_fit(p, at, &steps);
        if (fit == PLAN_FIT_UNKNOWN)
            return;
        if (fit == PLAN_FIT_NONE)
            low = at + PLAN_ALIGN;
        at = low + (p->height_bytes - low) / 2 / PLAN_ALIGN * PLAN_ALIGN;
    }
}

void plan_offsets_refine(plan_packing *p, int64_t wanted, plan_effort effort)
{
    enum { PARTS = 8 };
    int64_t least = max64(wanted, p->bound_bytes);
    int64_t part = min64(effort.steps, (int64_t)p->n * STEPS_EACH) / PARTS;
    fs_arena *scratch = fs_arena_create();
    packing_gaps gaps;

    if (p->height_bytes > least && packing_gaps_open(p, scratch, &gaps)) {
        gaps.seed = effort.seed;
        try_stairs(p, &gaps, least, part, scratch);
        bisect(p, &gaps, least, wheel, 3 * part, scratch);
        bisect(p, &gaps, least, repair, 3 * part, scratch);
    }
    fs_arena_destroy(scratch);
    close_exactly(p, least, part);
}
