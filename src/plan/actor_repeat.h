/* Steps are alike, and so are micro-batches in the middle of a step: where all
 * actors of a plan stand as they stood before, but for what has passed, they
 * will do the same once more, as often as their programs repeat. So whoever
 * steps them may leave repetitions out, exactly. */
#ifndef FS_PLAN_ACTOR_REPEAT_H
#define FS_PLAN_ACTOR_REPEAT_H

#include "plan/actor.h"

/* Where the actors of a role stood. */
typedef struct plan_actors_mark {
    int32_t n_readers;
    int64_t *produced, *released; /* [counted registers] */
    int32_t *readers;             /* [n_readers] */
    plan_cursor *cursor;          /* [streams] */
    bool wide; /* so many readers that they are noted where asked only; */
    bool full; /* they are */
} plan_actors_mark;

/* How far they have come from there: all by a step, or, in those streams and
 * registers that have moved at all, by slots; 0: none has. */
typedef struct plan_shift {
    int32_t steps, slots, micro_batches;
} plan_shift;

plan_actors_mark *plan_actors_mark_create(const plan_actors *a,
                                          fs_arena *arena);
void plan_actors_mark_set(const plan_actors *a, plan_actors_mark *mark);
/* Notes who reads what, without which nothing is found to repeat a wide one. */
void plan_actors_mark_fill(const plan_actors *a, plan_actors_mark *mark);
/* Do they stand as at the mark, shifted? */
bool plan_actors_repeat(const plan_actors *a, const plan_actors_mark *mark,
                        plan_shift *shift);
/* How often that may come once more; INT32_MAX: they stand still. */
int32_t plan_actors_repeats_left(const plan_actors *a,
                                 const plan_actors_mark *mark,
                                 plan_shift shift);
/* As if it had come so often. */
void plan_actors_skip(plan_actors *a, const plan_actors_mark *mark,
                      plan_shift shift, int32_t times);

#endif
