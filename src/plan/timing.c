#include "config.h"
#include "plan/timing.h"

#include "plan/schedule.h"

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

int32_t plan_trace_ends(const plan *p, int64_t most)
{
    int64_t each = 0; /* events of a micro-batch */
    for (int32_t r = 0; r < p->n_roles; r++)
        for (int32_t i = 0; i < p->roles[r].n_tasks; i++)
            if (!plan_phase_once(p->roles[r].tasks[i].phase))
                each += p->roles[r].n_ranks;
    const int64_t room = each > 0 ? most / each : p->micro_batches;
    if (room >= p->micro_batches)
        return 0;
    return room > 2 ? (int32_t)(room / 2) : 1;
}

/* Activations are as many as micro-batches are in flight. */
static const char *kind_note(const plan_role *role, int32_t kind,
                             fs_arena *arena)
{
    if (kind != PLAN_BYTES_ACTIVATION)
        return NULL;
    int32_t n = plan_schedule_in_flight(role->slots, role->n_slots);
    return fs_printf(arena, "%d micro-batch%s in flight", n,
                     n == 1 ? "" : "es");
}

static plan_breakdown role_tree(const plan_role *role, fs_arena *arena)
{
    static const char *const names[PLAN_BYTES_KINDS] = {
        "parameters", "optimizer state", "constants",
        "gradients",  "activations",     "scratch"};
    plan_breakdown out = {
        .name = fs_printf(arena, "%s (devices %d to %d)",
                          plan_role_stages_text(role, arena), role->first_rank,
                          role->first_rank + role->n_ranks - 1),
        .value = (double)role->arena_bytes,
        .child = fs_new(arena, plan_breakdown, PLAN_BYTES_KINDS)};
    for (int32_t k = 0; k < PLAN_BYTES_KINDS; k++)
        if (role->bytes[k] > 0)
            out.child[out.n++] =
                (plan_breakdown){.name = names[k],
                                 .value = (double)role->bytes[k],
                                 .note = kind_note(role, k, arena)};
    return out;
}

plan_breakdown plan_memory_tree(const plan *p, fs_arena *arena)
{
    plan_breakdown out = {.name = "memory per device, the fullest",
                          .n = p->n_roles,
                          .child = fs_new(arena, plan_breakdown, p->n_roles)};
    for (int32_t r = 0; r < p->n_roles; r++) {
        out.child[r] = role_tree(&p->roles[r], arena);
        if (out.child[r].value > out.value)
            out.value = out.child[r].value;
    }
    return out;
}
