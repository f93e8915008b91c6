/* Which placed buffers may be live when another is: so that placing one looks
 * at those of its time and not at all. */
#ifndef FS_PLAN_OFFSETS_CALENDAR_H
#define FS_PLAN_OFFSETS_CALENDAR_H

#include "plan/offsets.h"

/* Time is halved again and again; a buffer stands in the list of every part in
 * which it lives, sorted by a key, and sees that of the least part that has all
 * of its life. */
typedef struct packing_calendar {
    const int64_t *key; /* [buffers] of those in it */
    int32_t n_parts;
    int32_t *home;      /* [buffers] the part whose list it sees */
    int32_t *part_of;   /* [buffers + 1] into ... */
    int32_t *parts;     /* ... those in which it lives */
    int32_t *first, *n; /* [parts] of the list in `at` */
    int32_t *at;
} packing_calendar;

typedef struct packing_page {
    const int32_t *at; /* buffers, by key */
    int32_t n;
} packing_page;

/* Empty. */
void packing_calendar_open(const plan_packing *p, const int64_t *key,
                           fs_arena *scratch, packing_calendar *out);
void packing_calendar_clear(packing_calendar *calendar);
/* Behind those of the same key. */
void packing_calendar_put(packing_calendar *calendar, int32_t buffer);
/* Its key must be what it was. */
void packing_calendar_take_out(packing_calendar *calendar, int32_t buffer);

static inline packing_page packing_calendar_see(const packing_calendar *c,
                                                int32_t buffer)
{
    int32_t part = c->home[buffer];

    return (packing_page){&c->at[c->first[part]], c->n[part]};
}

/* Of putting it, in comparisons of what a page lists. */
static inline int64_t packing_calendar_cost(const packing_calendar *c,
                                            int32_t buffer)
{
    enum { EACH = 16 };

    return EACH * (int64_t)(c->part_of[buffer + 1] - c->part_of[buffer]);
}

#endif
