/* How offsets.c places buffers in a given order. */
#ifndef FS_PLAN_OFFSETS_PARTS_H
#define FS_PLAN_OFFSETS_PARTS_H

#include "plan/offsets.h"
#include "plan/offsets_calendar.h"
#include "plan/task.h"

static inline int64_t packing_align(int64_t bytes)
{
    return (bytes + PLAN_ALIGN - 1) / PLAN_ALIGN * PLAN_ALIGN;
}

/* Two pieces in turn have the free bytes between them next to what they fill
 * last, when the second one's buffers hang from the top. */
static inline bool packing_hangs(const plan_buffer *b)
{
    return b->copies > 1 && b->copy == 1;
}

/* The top of what is placed, section by section: a tree over the sections. */
typedef struct packing_skyline {
    fs_arena *scratch;
    int32_t n;           /* leaves */
    int64_t *most, *all; /* highest within a node; at least, all over it */
    int64_t *most_down, *all_down; /* of a stack that hangs from the top */
    int64_t *offset;               /* [buffers] */
} packing_skyline;

void packing_skyline_open(const plan_packing *p, fs_arena *scratch,
                          packing_skyline *out);
void packing_skyline_clear(packing_skyline *sky);
int64_t packing_highest(const packing_skyline *sky, plan_span at);
void packing_raise(packing_skyline *sky, plan_span at, int64_t to);
/* Each buffer on top of those before it; the height. O(spans log sections). */
int64_t packing_stack(packing_skyline *sky, const plan_packing *p,
                      const int32_t *order);
/* Second copies hang from `capacity`, all others stand. */
bool packing_both_ends(packing_skyline *sky, const plan_packing *p,
                       const int32_t *order, int64_t capacity);

/* Each buffer where the skyline is lowest, of those that fit there the first of
 * the order. False: *steps (counted down) are spent. */
bool packing_fill_valleys(packing_skyline *sky, const plan_packing *p,
                          const int32_t *order, int64_t *steps);

/* Each buffer in the smallest gap that holds it, or the lowest. O(n^2). */
typedef struct packing_gaps {
    const plan_packing *p;
    int32_t words;           /* of a row of bits */
    uint64_t *conflict;      /* [n][words] */
    packing_calendar placed; /* by offset */
    int64_t *offset;         /* [n] */
    int64_t capacity;        /* INT64_MAX: none */
    bool first_fit;
    bool both_ends;      /* second copies at the upper end of theirs */
    const int32_t *turn; /* [n] on the stairs: when it comes; -1, NULL: not */
    int32_t n_stairs;    /* places that those on the stairs take in turn ... */
    int64_t rise;        /* ... each so much higher than the last */
    uint64_t seed;       /* of what is drawn */
} packing_gaps;

/* Are both live at once? */
static inline bool packing_conflict(const packing_gaps *g, int32_t a, int32_t b)
{
    return g->conflict[(int64_t)a * g->words + b / 64] >> (b % 64) & 1;
}

/* False when there are too many buffers for it. */
bool packing_gaps_open(const plan_packing *p, fs_arena *scratch,
                       packing_gaps *out);
/* How many have a place, in their order, when the next finds none. Takes the
 * comparisons made from *steps. */
int32_t packing_fill_gaps(packing_gaps *gaps, const int32_t *order,
                          int64_t *steps);
/* Fills gaps below the capacity again and again: what finds none comes earlier
 * in the order from then on. True once all have a place; false when *steps
 * (counted down) are spent. After D. Joslin and D. Clements, "Squeaky Wheel
 * Optimization", JAIR 10, 1999. */
bool packing_turn_wheel(packing_gaps *gaps, int32_t *order, int64_t *steps);
/* Changes the placement that stands into one of at most `capacity`, if it finds
 * one while *steps (counted down) last; else it stays. */
bool packing_repair(const packing_gaps *gaps, plan_packing *p, int64_t capacity,
                    int64_t *steps);

#endif
