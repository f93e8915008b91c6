/* Which stages share devices, and whether they lie as their schedule wants. */
#include "config.h"

#include "plan/schedule.h"

static bool same_devices(const plan_stage *a, const plan_stage *b)
{
    return a->first_device == b->first_device &&
           ir_mesh_size(&a->mesh) == ir_mesh_size(&b->mesh);
}

/* Gives every stage its role and its place there; returns how many roles. */
static int32_t number_roles(const plan_stage *stages, plan_pipeline *pipe,
                            int32_t *leader)
{
    int32_t n = 0;

    for (int32_t i = 0; i < pipe->n_stages; i++) {
        int32_t r = 0;
        while (r < n && !same_devices(&stages[leader[r]], &stages[i]))
            r++;
        if (r == n)
            leader[n++] = i;
        pipe->role_of[i] = r;
        pipe->chunk_of[i] = pipe->first[r + 1]++;
    }
    return n;
}

plan_pipeline plan_pipeline_of(const plan_stage *stages, int32_t n_stages,
                               const char *schedule, int32_t micro_batches,
                               fs_arena *arena)
{
    plan_pipeline pipe = {.n_stages = n_stages,
                          .micro_batches = micro_batches,
                          .schedule = plan_schedule_find(schedule),
                          .role_of = fs_new(arena, int32_t, n_stages),
                          .chunk_of = fs_new(arena, int32_t, n_stages),
                          .first = fs_new(arena, int32_t, n_stages + 1),
                          .stage = fs_new(arena, int32_t, n_stages)};

    pipe.n_roles = number_roles(stages, &pipe, pipe.stage);
    for (int32_t r = 0; r < pipe.n_roles; r++)
        pipe.first[r + 1] += pipe.first[r];
    for (int32_t i = 0; i < n_stages; i++)
        pipe.stage[pipe.first[pipe.role_of[i]] + pipe.chunk_of[i]] = i;
    return pipe;
}

static plan_turn turn_of(const plan_pipeline *pipe, int32_t role)
{
    return (plan_turn){role, pipe->n_roles,
                       pipe->first[role + 1] - pipe->first[role],
                       pipe->micro_batches};
}

int32_t plan_program_slots(const plan_pipeline *pipe, int32_t role)
{
    plan_turn turn = turn_of(pipe, role);

    return plan_schedule_slots(pipe->schedule, &turn) + 2;
}

void plan_program_fill(const plan_pipeline *pipe, int32_t role,
                       plan_slot *slots)
{
    plan_turn turn = turn_of(pipe, role);

    slots[0] = (plan_slot){PLAN_BEGIN, 0, 0};
    pipe->schedule->fill(&turn, slots + 1);
    slots[plan_schedule_slots(pipe->schedule, &turn) + 1] =
        (plan_slot){PLAN_END, pipe->micro_batches - 1, 0};
}

/* ---- is it one that the schedule runs? ---- */

static bool same_mesh(const ir_mesh *a, const ir_mesh *b)
{
    bool same = a->n == b->n;

    for (int32_t k = 0; same && k < a->n; k++)
        same = a->dim[k] == b->dim[k];
    return same;
}

static fs_status check_count(const plan_pipeline *pipe, fs_err *err)
{
    int32_t n = pipe->n_stages, p = pipe->n_roles;
    const plan_schedule *schedule = pipe->schedule;

    if (schedule->placing == PLAN_PLACED_ONCE && n != p)
        return fs_fail(err, FS_INVALID,
                       "the schedule %s runs one stage on a device; here %d "
                       "stages share the devices of %d",
                       schedule->name, (int)n, (int)p);
    if (schedule->placing == PLAN_PLACED_ROUND && n % p != 0)
        return fs_fail(err, FS_INVALID,
                       "the schedule %s runs equally many stages on all "
                       "devices; here %d stages lie on the devices of %d",
                       schedule->name, (int)n, (int)p);
    if (schedule->placing == PLAN_PLACED_V && n != 2 * p)
        return fs_fail(err, FS_INVALID,
                       "the schedule %s runs two stages on every device; here "
                       "%d stages lie on the devices of %d",
                       schedule->name, (int)n, (int)p);
    return FS_OK;
}

fs_status plan_pipeline_check(const plan_pipeline *pipe,
                              const plan_stage *stages, fs_err *err)
{
    FS_TRY(check_count(pipe, err));
    for (int32_t i = 0; i < pipe->n_stages; i++) {
        int32_t r = pipe->role_of[i], lead = pipe->stage[pipe->first[r]];
        int32_t due =
            plan_placing_role(pipe->schedule->placing, pipe->n_roles, i);
        if (r != due)
            return fs_fail(err, FS_INVALID,
                           "the schedule %s wants stage %d on the devices of "
                           "stage %d",
                           pipe->schedule->name, (int)i,
                           (int)pipe->stage[pipe->first[due]]);
        if (!same_mesh(&stages[i].mesh, &stages[lead].mesh))
            return fs_fail(err, FS_INVALID,
                           "stages %d and %d share their devices and differ in "
                           "their meshes, which must be equal",
                           (int)lead, (int)i);
    }
    return FS_OK;
}
