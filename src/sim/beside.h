/* Compute beside collectives of the same device, which keep processors of it:
 * the device's overlap_slowdown. */
#ifndef FS_SIM_BESIDE_H
#define FS_SIM_BESIDE_H

#include "sim/parts.h"

/* NULL where nothing is slowed: no collectives on streams of their own, or
 * devices of which it is not known. */
sim_beside *sim_beside_create(const simulation *s, const hw_cluster *cluster);
/* Fixed-point: of what the role computes beside a collective; PLAN_RATE_FULL:
 * it is not slowed. */
int64_t sim_beside_slowest(const simulation *s, int32_t role);
/* Of such a job of the role now. */
int64_t sim_beside_rate(const simulation *s, int32_t role);
/* Such a job runs, or (-1) none does. */
void sim_beside_computes(simulation *s, int32_t role, int32_t job);
/* A collective of that line begins or ends (1, -1). */
void sim_beside_meets(simulation *s, int32_t line, int32_t change);
/* Jobs whose rate is to be set anew, once each; -1: no more. */
int32_t sim_beside_next(simulation *s);

#endif
