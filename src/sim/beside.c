#include "config.h"
#include "sim/beside.h"

typedef struct role_beside {
    int64_t rate; /* beside a collective; PLAN_RATE_FULL: as alone */
    int32_t meets;
    int32_t job; /* that computes; -1 */
    bool changed;
} role_beside;

struct sim_beside {
    role_beside *roles;
    FS_VEC(int32_t) changed; /* roles */
};

static bool has_own_stream(const plan_role *role)
{
    for (int32_t i = 0; i < role->n_streams; i++)
        if (role->streams[i].kind == PLAN_STREAM_COMM ||
            role->streams[i].kind == PLAN_STREAM_STEP)
            return true;
    return false;
}

/* The slowest of the role's devices. */
static int64_t rate_of(const plan_role *role, const hw_cluster *cluster)
{
    double slowdown = 1;
    for (int32_t g = 0, first = 0; g < cluster->n_groups; g++) {
        const hw_group *group = &cluster->groups[g];
        const int32_t end = first + group->nodes * group->devices_per_node;
        if (role->first_rank < end &&
            role->first_rank + role->n_ranks > first &&
            group->device.overlap_slowdown > slowdown)
            slowdown = group->device.overlap_slowdown;
        first = end;
    }
    return (int64_t)((double)PLAN_RATE_FULL / slowdown + 0.5);
}

sim_beside *sim_beside_create(const simulation *s, const hw_cluster *cluster)
{
    sim_beside *b = fs_new(s->arena, sim_beside, 1);
    bool any = false;
    b->roles = fs_new(s->arena, role_beside, s->p->n_roles);
    for (int32_t r = 0; r < s->p->n_roles; r++) {
        const plan_role *role = &s->p->roles[r];
        b->roles[r] = (role_beside){.rate = PLAN_RATE_FULL, .job = -1};
        if (has_own_stream(role))
            b->roles[r].rate = rate_of(role, cluster);
        any |= b->roles[r].rate < PLAN_RATE_FULL;
    }
    return any ? b : NULL;
}

int64_t sim_beside_slowest(const simulation *s, int32_t role)
{
    return s->beside ? s->beside->roles[role].rate : PLAN_RATE_FULL;
}

int64_t sim_beside_rate(const simulation *s, int32_t role)
{
    const role_beside *b = &s->beside->roles[role];
    return b->meets > 0 ? b->rate : PLAN_RATE_FULL;
}

void sim_beside_computes(simulation *s, int32_t role, int32_t job)
{
    s->beside->roles[role].job = job;
}

void sim_beside_meets(simulation *s, int32_t line, int32_t change)
{
    const sim_line *l = &s->lines[line];
    if (!s->beside || line >= s->p->n_comms)
        return;
    for (int32_t i = 0; i < l->n_members; i++) {
        const int32_t role = s->role_of[l->arrived[i]];
        role_beside *b = &s->beside->roles[role];
        const bool did = b->meets > 0;
        b->meets += change;
        if (did == (b->meets > 0) || b->changed || b->rate == PLAN_RATE_FULL)
            continue;
        b->changed = true;
        fs_push(s->arena, &s->beside->changed, role);
    }
}

int32_t sim_beside_next(simulation *s)
{
    while (s->beside && s->beside->changed.n > 0) {
        sim_beside *b = s->beside;
        role_beside *role = &b->roles[b->changed.at[--b->changed.n]];
        role->changed = false;
        if (role->job >= 0)
            return role->job;
    }
    return -1;
}
