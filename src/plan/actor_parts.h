/* Parts of the actor protocol; not for other folders. */
#ifndef FS_PLAN_ACTOR_PARTS_H
#define FS_PLAN_ACTOR_PARTS_H

#include "plan/actor.h"

static inline int32_t plan_actor_buffer(const plan_actor_register *r,
                                        int64_t piece)
{
    return r->first_buffer + (r->count == 1 ? 0 : (int32_t)(piece % r->count));
}

/* Of the head of a stream. */
static inline int64_t plan_actor_piece_of(const plan_cursor *c,
                                          const plan_actor_register *r,
                                          bool writes)
{
    if (r->persistent)
        return r->producer >= 0 ? c->step + writes : 0;
    if (r->per_step)
        return c->step;
    return c->piece;
}

/* The same of a register that a task makes. */
static inline int64_t plan_actor_made_piece(const plan_cursor *c,
                                            const plan_actor_register *r,
                                            bool writes)
{
    return r->once ? c->step + (writes && r->persistent) : c->piece;
}

static inline bool plan_actor_may_read(const plan_actors *a,
                                       const plan_cursor *c, int32_t reg)
{
    const plan_actor_register *r = &a->registers[reg];
    return r->producer < 0 ||
           a->produced[reg] > plan_actor_made_piece(c, r, false);
}

/* Holds too for the later firings of an accumulation: the buffer it claimed
 * stays claimed, for the piece is not handed on before the last. */
static inline bool plan_actor_may_write(const plan_actors *a,
                                        const plan_cursor *c, int32_t reg)
{
    const plan_actor_register *r = &a->registers[reg];
    return a->released[reg] > plan_actor_made_piece(c, r, true) - r->count;
}

/* Fills a->ordered. */
void plan_actors_find_ordered(plan_actors *a, fs_arena *arena);

/* The head has completed; the task next to it on its stream and in its section
 * is this (-1: none). */
void plan_actor_go_on(plan_actors *a, int32_t stream, int32_t next);

#endif
