/* The marked graph of one step, for the parts of plan_check that walk it. Not
 * for other folders.
 *
 * Transitions are firings (task, slot), numbered over all roles in program
 * order; firings that meet (a collective, a send and its receive) are one,
 * known by its first. A place that leads into a later step holds a token at
 * the start (the first step needs nothing of a step before) and is left out:
 * the graph is live iff what remains has no cycle. No place is stored: those
 * of stream order are `after`, those from a compute stream to what keeps its
 * place behind it `led`, all others follow from the wires of the tasks, which
 * are the same in every slot. */
#ifndef FS_PLAN_CHECK_LIVE_H
#define FS_PLAN_CHECK_LIVE_H

#include "plan/check_parts.h"

/* A wire's shift, where it is not in micro-batches: of a register that changes
 * once per step, from the last firing of a task to the first of another. */
enum { PLAN_LIVE_DATA = -1, PLAN_LIVE_CREDIT = -2 };

/* From a task to one that waits for it: shift 0, data; shift > 0, credit. */
typedef struct plan_live_wire {
    int32_t row;   /* in rows: the waiting task's section */
    int32_t delta; /* the task's place in it */
    int32_t shift;
    int32_t reg;
} plan_live_wire;

typedef struct plan_live_slot {
    int32_t first, n;    /* firings */
    int32_t task;        /* of all roles' tasks, the first of the section */
    int32_t micro_batch; /* 0 for what runs once */
    bool last;           /* of its section */
} plan_live_slot;

typedef struct plan_live {
    plan_checking *c;
    int32_t n;                  /* firings */
    int32_t *base;              /* [roles + 1] first firing of a role */
    int32_t *task_base;         /* [roles + 1] first task of a role */
    plan_live_slot *slots;      /* of all roles */
    int32_t *slot_base;         /* [roles + 1] first slot of a role */
    int32_t *slot_of;           /* [n] */
    int32_t *after;             /* [n] the next firing of its stream, or -1 */
    int32_t *led;               /* [n] the first of those that keep their place
                                   right behind it, or 0: firing 0 leads */
    int32_t *next_led;          /* [n] the next of them, or 0 */
    int64_t n_led, n_led_again; /* of those in a repetition of the middle */
    int32_t *row_base;          /* [roles + 1] first section of a role */
    int32_t *rows;              /* [sections of all roles * m] first firing of a
                                   section's slot for a micro-batch */
    plan_live_wire *wires;
    int32_t *first_wire; /* [tasks + 1] */
    int32_t *meets;      /* [n] the first of those that it meets */
    int32_t *next_met;   /* [n] ring of those that meet */
    int32_t *waits;      /* [n] above 0: can never fire */
} plan_live;

/* The firing at the end of a wire from a firing in slot s; -1: its place holds
 * a token. */
static inline int32_t plan_live_end(const plan_live *x, const plan_live_slot *s,
                                    const plan_live_wire *w)
{
    int32_t m = x->c->p->micro_batches;
    if (w->shift < 0)
        return s->last ? x->rows[w->row * m] + w->delta : -1;
    int32_t mb = s->micro_batch + w->shift;
    return mb < m ? x->rows[w->row * m + mb] + w->delta : -1;
}

/* Adds the finding: a cycle of waits, the shortest to tell. */
void plan_check_cycle(plan_live *x);

/* Of a live plan with repetitions left out: does it stay live with more of
 * them? `order`: the first of those that meet, as they fired. */
void plan_check_find_cut(const plan_live *x, const int32_t *order, int32_t n);

#endif
