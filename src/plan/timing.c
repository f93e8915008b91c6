#include "config.h"
#include "plan/timing.h"

plan_timing *plan_timing_new(const plan *p, const char *source, fs_arena *arena)
{
    plan_timing *timing = fs_new(arena, plan_timing, 1);
    timing->source = fs_strdup(arena, source);
    timing->n_roles = p->n_roles;
    timing->demand = fs_new(arena, plan_demand *, p->n_roles);
    for (int32_t r = 0; r < p->n_roles; r++)
        timing->demand[r] = fs_new(arena, plan_demand, p->roles[r].n_tasks);
    return timing;
}
