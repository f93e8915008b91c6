/* A program of many micro-batches repeats in its middle: after so many slots
 * the same come again, so many micro-batches later. With repetitions left out
 * it is a program of fewer micro-batches, between whose slots the same holds:
 * what is live in one of them, what waits for what. So whoever looks at every
 * slot need not look at the same again. */
#ifndef FS_PLAN_SHORTEN_H
#define FS_PLAN_SHORTEN_H

#include "plan/plan.h"

/* Of a role: from slot `first` on, slot s + slots is slot s, micro_batches
 * later, as long as that is before `end`. Of the micro-batches low to high - 1
 * all slots lie between first and end. */
typedef struct plan_period {
    int32_t micro_batches, slots; /* of a repetition; 0: nothing repeats */
    int32_t first, end;
    int32_t low, high;
} plan_period;

/* The shortest of a multiple of so many micro-batches. Linear in the slots. */
plan_period plan_period_of(const plan_role *role, int32_t micro_batches,
                           int32_t multiple);
/* How often it may be left out so that low to high are `keep` micro-batches at
 * least. */
int32_t plan_period_times(const plan_period *period, int32_t keep);
/* The role with so many repetitions left out; slots in the arena, all else is
 * shared. */
plan_role plan_role_shorten(const plan_role *role, const plan_period *period,
                            int32_t times, fs_arena *arena);

/* What the programs of all roles repeat, so many micro-batches later in each of
 * them; low and high hold of all. */
typedef struct plan_repetition {
    int32_t micro_batches, low, high;
    plan_period *periods; /* [roles] */
} plan_repetition;
/* False: they do not. */
bool plan_repetition_of(const plan *p, fs_arena *arena, plan_repetition *out);
/* How often it may be left out so that `keep` micro-batches remain of low to
 * high; the plan without. */
int32_t plan_repetition_times(const plan_repetition *r, int32_t keep);
plan plan_leave_out(const plan *p, const plan_repetition *r, int32_t times,
                    fs_arena *arena);

/* A role's program for what asks which bytes are live beside which: what shares
 * lies in the same buffers when the same comes again. */
typedef struct plan_short_role {
    plan_role role;
    int32_t micro_batches;
    int32_t left_out; /* micro-batches: those of the slots from here on
                         are so many more in the whole program */
    int32_t behind;
} plan_short_role;
plan_short_role plan_role_shorten_lives(const plan_role *role,
                                        int32_t micro_batches, fs_arena *arena);

/* A program that runs all micro-batches of one section before those of another
 * (gpipe) repeats nothing, for what leads from one to the other is held of each
 * of them. With micro-batches `first` to first + left_out - 1 left out of both
 * it lacks just those pieces: they are held together from where the next one
 * begins in the one section to the end of the one before in the other. */
typedef struct plan_short_runs {
    plan_role role; /* what is held has as many buffers as it has: */
    int32_t micro_batches;
    int32_t first, left_out; /* left_out 0: the whole program */
} plan_short_runs;
plan_short_runs plan_role_shorten_runs(const plan_role *role,
                                       int32_t micro_batches, fs_arena *arena);
/* Are the programs of all roles such ones? Without the last micro-batches of
 * both they are programs of fewer, whose registers have more buffers than those
 * ever use: who waits for what is the same, not what lies where. */
bool plan_is_of_runs(const plan *p);
plan plan_leave_out_last(const plan *p, int32_t left_out, fs_arena *arena);
/* Is a register that may share of what is held so? */
bool plan_register_is_held(const plan_role *role, const plan_register *r);

#endif
