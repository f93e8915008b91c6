#include "config.h"
#include "sim/resources.h"

/* Ranks of a role in each pool of cores. A pool's cores are set meanwhile. */
static void place_role(sim_resources *r, const plan_role *role, int32_t index,
                       fs_arena *arena)
{
    int32_t *place = fs_new(arena, int32_t, r->cluster->n_devices);
    int32_t *n = &r->n_pools[index];
    sim_share *list = fs_new(arena, sim_share, role->n_ranks);
    for (int32_t i = 0; i < role->n_ranks; i++) {
        int32_t cores;
        int32_t pool = hw_core_pool(r->cluster, role->first_rank + i, &cores);
        r->cores[pool] = cores;
        if (place[pool] == 0) {
            list[(*n)++] = (sim_share){pool, 0};
            place[pool] = *n;
        }
        list[place[pool] - 1].n++;
    }
    r->pools[index] = list;
}

void sim_resources_make(sim_resources *r, const plan *p,
                        const hw_cluster *cluster, fs_arena *arena)
{
    r->cluster = cluster;
    r->cores = fs_new(arena, int32_t, cluster->n_devices);
    r->threads = fs_new(arena, int32_t, cluster->n_devices);
    r->jobs = fs_alloc(arena, (size_t)p->n_roles, sizeof *r->jobs);
    r->n_pools = fs_new(arena, int32_t, p->n_roles);
    r->pools = fs_new(arena, sim_share *, p->n_roles);
    for (int32_t i = 0; i < p->n_roles; i++)
        place_role(r, &p->roles[i], i, arena);
}

bool sim_cores_shared(const sim_resources *r, int32_t role)
{
    for (int32_t i = 0; i < r->n_pools[role]; i++)
        if (r->cores[r->pools[role][i].at] > 0)
            return true;
    return false;
}

void sim_cores_change(sim_resources *r, int32_t role, sim_thread thread,
                      int32_t change)
{
    int32_t *jobs = &r->jobs[role][thread];
    bool ran = *jobs > 0;
    *jobs += change;
    bool runs = *jobs > 0;
    for (int32_t i = 0; ran != runs && i < r->n_pools[role]; i++)
        r->threads[r->pools[role][i].at] +=
            runs ? r->pools[role][i].n : -r->pools[role][i].n;
}

/* Threads share the cores of their pool evenly, jobs their thread. */
double sim_cores_rate(const sim_resources *r, int32_t role, sim_thread thread)
{
    double rate = 1;
    bool shared = false;
    for (int32_t i = 0; i < r->n_pools[role]; i++) {
        int32_t pool = r->pools[role][i].at;
        double fair = (double)r->cores[pool] / r->threads[pool];
        shared = shared || r->cores[pool] > 0;
        if (r->cores[pool] > 0 && fair < rate)
            rate = fair;
    }
    return shared ? rate / r->jobs[role][thread] : 1;
}
