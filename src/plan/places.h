/* Which tasks keep to a place in the program of a compute stream, so that "when
 * do they run" is a question of positions in it.
 *
 * A compute stream runs its program in order. A collective on a stream of its
 * own may lag behind, as far as data and credits let it; what runs per
 * micro-batch does not run ahead: it fires when the compute stream has passed
 * all that stands before it. So what stands before it in the program is done
 * when it starts, and it is done before the first compute task that reads what
 * it, or a later one of its stream, makes. What runs once per step (phases
 * BEGIN and END) has a stream where it fires as soon as its data are there. */
#ifndef FS_PLAN_PLACES_H
#define FS_PLAN_PLACES_H

#include "plan/plan.h"

/* [n_streams] of a stream of collectives the compute stream whose program it
 * keeps to; -1: none. */
void plan_stream_leaders(const plan_role *role, int32_t *leader);

/* Does the task wait until its stream's leader has passed it? */
bool plan_task_keeps_place(const plan_role *role, const int32_t *leader,
                           int32_t task);

typedef struct plan_places {
    int32_t *stream; /* [tasks] the compute stream in whose program the task
                        keeps its place; -1: none */
    int32_t *end;    /* [tasks] the last task of its section beside which it may
                        still run, itself or a later one; -1: not known */
} plan_places;
plan_places plan_places_of(const plan_role *role, fs_arena *arena);

#endif
