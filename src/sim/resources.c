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

/* Ports, each in two directions: those of a device within its node, and those
 * of a node to the other nodes. */
static int32_t port_of(const sim_resources *r, int32_t device, int32_t peer,
                       bool in)
{
    const hw_cluster *c = r->cluster;
    int32_t node = hw_node_of(c, device);
    if (node == hw_node_of(c, peer))
        return 2 * device + in;
    return 2 * c->n_devices + 2 * node + in;
}

/* Between meshes of different sizes every position of the larger deals with the
 * nearest of the other. */
static void place_channel(sim_resources *r, const plan *p, int32_t index,
                          fs_arena *arena)
{
    const plan_stage *stages = p->strategy->stages;
    const plan_stage *from = &stages[p->channels[index].from_stage];
    const plan_stage *to = &stages[p->channels[index].to_stage];
    int32_t n_from = ir_mesh_size(&from->mesh), n_to = ir_mesh_size(&to->mesh);
    int32_t size = n_from > n_to ? n_from : n_to;
    int32_t *n = &r->n_channel_ports[index];
    sim_share *list = fs_new(arena, sim_share, 2 * (size_t)size);
    int32_t *place = fs_new(arena, int32_t, r->n_ports); /* 1 + index */
    r->channel_ports[index] = list;
    for (int32_t i = 0; i < 2 * size; i++) {
        int64_t k = i / 2;
        int32_t a = from->first_device + (int32_t)(k * n_from / size);
        int32_t b = to->first_device + (int32_t)(k * n_to / size);
        int32_t port = i % 2 ? port_of(r, b, a, true) : port_of(r, a, b, false);
        if (place[port] == 0) {
            list[(*n)++] = (sim_share){port, 0};
            place[port] = *n;
        }
        list[place[port] - 1].n++;
    }
}

void sim_resources_make(sim_resources *r, const plan *p,
                        const hw_cluster *cluster, fs_arena *arena)
{
    r->cluster = cluster;
    r->n_ports = 2 * (cluster->n_devices + cluster->n_nodes);
    r->cores = fs_new(arena, int32_t, cluster->n_devices);
    r->threads = fs_new(arena, int32_t, cluster->n_devices);
    r->jobs = fs_alloc(arena, (size_t)p->n_roles, sizeof *r->jobs);
    r->n_pools = fs_new(arena, int32_t, p->n_roles);
    r->pools = fs_new(arena, sim_share *, p->n_roles);
    r->n_channel_ports = fs_new(arena, int32_t, p->n_channels);
    r->channel_ports = fs_new(arena, sim_share *, p->n_channels);
    r->flows = fs_new(arena, int32_t, r->n_ports);
    for (int32_t i = 0; i < p->n_roles; i++)
        place_role(r, &p->roles[i], i, arena);
    for (int32_t i = 0; i < p->n_channels; i++)
        place_channel(r, p, i, arena);
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

void sim_channel_change(sim_resources *r, int32_t channel, int32_t change)
{
    for (int32_t i = 0; i < r->n_channel_ports[channel]; i++) {
        const sim_share *share = &r->channel_ports[channel][i];
        r->flows[share->at] += change * share->n;
    }
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

/* A demand holds what a transfer's own flows do to each other; here come in
 * the flows of others. */
double sim_channel_rate(const sim_resources *r, int32_t channel)
{
    double rate = 1;
    for (int32_t i = 0; i < r->n_channel_ports[channel]; i++) {
        const sim_share *own = &r->channel_ports[channel][i];
        int32_t all = r->flows[own->at];
        double fair = (double)own->n / all;
        if (all == own->n)
            continue;
        if (own->at >= 2 * r->cluster->n_devices)
            fair = hw_outer_share(r->cluster, all, 1).bandwidth_bps /
                   hw_outer_share(r->cluster, own->n, 1).bandwidth_bps;
        rate = fair < rate ? fair : rate;
    }
    return rate;
}
