/* What a trace shows: steps, and live bytes of roles by class; not for other
 * folders. A watch that is NULL does nothing. */
#ifndef FS_SIM_WATCH_H
#define FS_SIM_WATCH_H

#include "sim/parts.h"

/* The first step that is traced; below 0: all are. */
static inline int64_t sim_first_traced(const simulation *s)
{
    const int64_t n = s->options->traced_steps;
    return s->steps - (n > 0 ? n : 1);
}

/* Does anybody ask for live bytes by class? */
static inline bool sim_watches(const simulation *s)
{
    return s->options->trace && s->options->live;
}

/* NULL: nobody asks. In the simulation's arena. */
sim_watch *sim_watch_create(const simulation *s);
/* A piece of a register is claimed. */
void sim_watch_claim(sim_watch *w, const simulation *s, int32_t role,
                     int32_t reg);
/* Called with 1 before a firing's completion and -1 after, it takes off what
 * that released. */
void sim_watch_release(sim_watch *w, const simulation *s, int32_t role,
                       const plan_task *task, int32_t sign);
/* After a change: tells it, from the first firing of a traced step on. */
void sim_watch_note(sim_watch *w, const simulation *s, int32_t role,
                    int64_t step);

/* Hands over what is traced so far, where somebody takes it. */
void sim_trace_hand_over(simulation *s);

#endif
