/* Work at a rate that changes: time in nanoseconds, work in picoseconds of time
 * alone, rates fixed-point, so that progress is exact integer arithmetic. The
 * simulator's jobs and the chains laid out beforehand (plan/actor_chain.h) mean
 * the same instants by it. */
#ifndef FS_PLAN_PACE_H
#define FS_PLAN_PACE_H

#include <stdint.h>

enum { PLAN_RATE_BITS = 30, PLAN_PS_PER_NS = 1000 };
#define PLAN_RATE_FULL ((int64_t)1 << PLAN_RATE_BITS)

/* Work times a fixed-point rate. */
__extension__ typedef __int128 plan_pace_wide;

/* Until so much is done; rounded up. */
static inline int64_t plan_pace_ns(int64_t left_ps, int64_t rate)
{
    if (rate == PLAN_RATE_FULL)
        return (left_ps + PLAN_PS_PER_NS - 1) / PLAN_PS_PER_NS;
    const plan_pace_wide scaled = (plan_pace_wide)left_ps << PLAN_RATE_BITS;
    const plan_pace_wide per_ns = (plan_pace_wide)rate * PLAN_PS_PER_NS;
    return (int64_t)((scaled + per_ns - 1) / per_ns);
}

/* What is left of it after so long. */
static inline int64_t plan_pace_left(int64_t left_ps, int64_t rate,
                                     int64_t passed_ns)
{
    const plan_pace_wide done =
        (plan_pace_wide)passed_ns * PLAN_PS_PER_NS * rate >> PLAN_RATE_BITS;
    return done < left_ps ? left_ps - (int64_t)done : 0;
}

#endif
